"""Keeps every sound batch: what salvage finds in a damaged partition, and what it keeps. Nothing here writes.

partition_files  a partition dir as salvage reads it
stretches        splits a segment into stretches: runs of sound batches, and the bytes between them
mended_entries   entries whose length or magic is wrong but whose CRC is right: they can be read
copies           compares two copies of a partition: which batches are the same, and where the copies diverge
holes            offsets that a partition has lost, and what other copies have of them
ascending        which runs of batches fit together
corrections      corrects leader epochs, and a last batch that is beyond the end of a clean stop
assembly         builds new segments from runs
loadable         the new segments as a partition that a broker loads
losses           what is lost with rejected bytes
"""
