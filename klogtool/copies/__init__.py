"""Copies of a partition, on several brokers or disks, compared. Nothing is written.

record_hash     a digest of a partition's records, the same for every copy of them
digest_spans    the rows of that digest, span by span
"""
