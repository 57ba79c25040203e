"""Reads closed segments again and again, beside a running broker, and remembers what it read. Nothing here writes.

closed_segments  the closed segments of log dirs that a broker has flushed, and when each was last read
segment_check    reads one segment: its findings, and sums of its bytes, compared with those that are remembered
scrub_run        which segments are due, in which order, and what a run has come to
file_sums        sums of a file's bytes, made while the file is read for another reason
other_copies     which copies of other brokers are whole, by lines of `klogtool hash`
"""
