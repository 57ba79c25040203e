"""Several brokers after a disaster: which copy of each partition is the best, and what every broker has to do.

collected   what `fleet collect` writes about one broker: read and written
collecting  log dirs of a broker, as such a file
"""
