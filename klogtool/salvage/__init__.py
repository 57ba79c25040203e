"""Every sound batch kept: what salvage finds and keeps of a damaged partition. Nothing here writes.

partition_files  a partition dir as salvage reads it
stretches        a segment in stretches: runs of sound batches, and what lies between them
mended_entries   entries whose length or magic is wrong, and whose checksum holds: they can be read
patchy           a file on a disk with bad sectors: unreadable bytes read as zeros, and are remembered
copies           two copies of a partition: which batches are the same, where they diverge
holes            offsets that a partition has lost, and what other copies have of them
ascending        which runs of batches go together
last_batch       a last batch beyond a clean stop, set right
epoch_fields     leader epochs in batch headers, set right
assembly         new segments out of runs
loadable         the new segments as a partition that a broker loads
losses           what is lost with rejected bytes
"""
