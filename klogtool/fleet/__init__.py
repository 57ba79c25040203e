"""Several brokers after a disaster: which copy of each partition is the best, and what every broker has to do.

collected   what `fleet collect` writes about one broker: read and written
collecting  log dirs of a broker, as such a file
metadata    what a lost `__cluster_metadata` said, as far as the log dirs know
metadata_records  the same as records, and as the bytes of a snapshot
"""
