"""The log as a broker has it, over a draft (UnifiedLog, LogLoader, LogSegment).

loaded_partition        a loaded partition, for lookups by offset, timestamp and leader epoch, and for fetches
log_loader              how a broker loads a partition dir, and what it leaves when it stops (LogLoader)
left_overs              what a start does with unfinished files before it loads a segment
log_segments            the segments in order of their base offsets (LogSegments)
log_segment             one segment: its `.log`, its indexes and when entries are due, what is cached (LogSegment)
index_files             the indexes of a segment, as a broker has them open
content_file            a file of a draft, read as if it were written already
content_writer          the content of a file that grows

segment_recovery        recovers one segment: cuts the log at its first damage, as log_segment says (LogSegment.recover)
kernel_recovery         recovers regular batches by the kernel
mapped_windows           a log in mapped pieces, for kernels that go from batch to batch
sound_batches           whether all batches of a log are sound, and where they end
overflow_split          splits a segment whose offsets do not fit its indexes (splitOverflowedSegment)

producer_snapshots      producer state together with its snapshot files (ProducerStateManager)
replayed_batches        producers after batches that a broker reads again at its start
log_transactions        open and ended transactions of a log

reading                 which bytes a fetch returns (UnifiedLog.read)
lookup                  finds an offset, a timestamp or a leader epoch
rolling                 when the active segment is closed, and closing it (LogSegment.shouldRoll, UnifiedLog.roll)
segment_age             how old a segment is (LogSegment.largestTimestamp)
retention               which segments retention deletes (UnifiedLog.deleteOldSegments)
kept_segments           why segments stay after retention
truncation              cuts a log at an offset, or starts it anew at one (UnifiedLog.truncateTo)
"""
