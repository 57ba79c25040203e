"""The names of the codecs, alone: whoever only prints them need not import what inflates and parses."""

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the id in a batch's attributes (Kafka's CompressionType)."""
