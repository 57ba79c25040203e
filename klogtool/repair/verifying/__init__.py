"""What verify looks at, piece by piece: bytes of a log, its indexes, side files, names, log dirs."""
