"""Reading a disk: log dirs, partitions, segments, batches and records. Read-only."""
