"""The cluster's metadata, as a broker and a controller replay it from `__cluster_metadata`.

image       topics, replicas, features and settings: the newest snapshot, and the log after it
refusals    what a broker's image and a controller refuse of a record: one table for each
quorum      who votes for the controllers
known       what the records before one have made known, as far as refusals depend on it
"""
