"""Every damage found: the findings and what finds them. Nothing here writes.

verification      every damage under some paths, as findings, and a summary: what `klogtool verify` asks
findings          the closed list of finding ids, with severity; what a new one needs
baseline          findings that are known from a former run

verify_log_dirs   log dirs: meta.properties, root checkpoints, partitions that are there twice
verify_partition  a partition dir: how segments follow each other, side files, leader epochs
verify_names      the names in a partition dir, in the roles that a broker gives them
verify_segment    one segment: its log, offset index and time index
verify_epochs     leader-epoch-checkpoint against the batches
verify_producers  transaction indexes and producer snapshots against the segments
verify_kraft      snapshots and quorum-state of a cluster's metadata log

log_walk          one walk over a segment's log; plain entries go by fast
log_damage        bytes that are no sound entry, and where the log goes on behind them
log_order         sound entries that do not fit their neighbours
log_end           how far a log goes, by headers alone
closed_end        the last batch against a clean stop
index_judge       index entries against the log, as the log goes by
index_damage      findings about the offset and the time index
epoch_order       leader epochs never go down: which batch is wrong
heaviest_row      of all ascending rows the heaviest: how epoch_order decides
stable_offsets    last stable offsets in transaction indexes
segment_report    what a segment tells beside its findings

stops             what keeps a broker from starting, with Kafka's exception
choosing_cures    which cure each finding of a partition gets
cures             cures as lines for a shell
identity_cures    cures of meta.properties and partition.metadata
"""
