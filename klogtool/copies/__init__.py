"""Copies of a partition, on several brokers or disks, compared. Nothing is written.

verdict         what a comparison means: equal, a prefix, diverging, ...
comparison      two copies compared: bytes first, and batches or records where bytes differ
differing       the partitions of two log dirs, matched; the records that differ in a stretch of offsets
copy_log        one copy, read at a cursor: bytes, items, damage
leadership      which copy a leader keeps, by Kafka's rule

record_hash     a digest of a partition's records, the same for every copy of them
"""
