"""What the bytes of a log directory mean: declarations, parsing and building. Opens no file."""
