"""Finds every damage: the findings, and the checks that find them. Nothing here writes.

verification      all damage under some paths, as findings, and a summary: what `klogtool verify` runs
findings          the closed list of finding ids, with severity; what a new id needs
causes            why something is a finding
settings          settings of `klogtool verify` from a file; patterns of paths
weighing          which findings count: severities by a user, exclusions, a baseline
baseline          findings that are known: a baseline file, or a former run
fingerprints      what makes two findings the same one

verify_log_dirs   log dirs before any log is read: names, meta.properties, duplicate partitions
verify_checkpoints  root checkpoints and the clean shutdown marker, against the logs
verify_topic_ids  topic ids of partitions, over all log dirs
verify_partition  a partition dir: the order of segments, side files, leader epochs
verify_names      the names in a partition dir, as a broker interprets them
verify_segment    one segment: its log, offset index and time index
verify_epochs     leader-epoch-checkpoint: whether it can be read, and against the batches
verify_producers  transaction indexes and producer snapshots against the segments
verify_kraft      snapshots and quorum-state of a cluster's metadata log
verify_replay   records of the metadata log that a start does not replay
verify_voters   whether a controller's log dir is still a voter of its dynamic quorum

log_walk          one walk over a segment's log; plain entries are checked fast
log_damage        bytes that are not a sound entry, and where the log continues after them
log_order         sound entries that do not fit their neighbours
header_end        how far a log goes, by headers alone
closed_end        the last batch against a clean stop
index_judge       index entries that do not fit the log (format/succession finds them)
index_damage      findings about the offset and the time index
epoch_order       leader epochs never go down: which batch is wrong
heaviest_row      finds the heaviest ascending row: how epoch_order decides
swaps             what .swap files cost, which replace segments at a start
swap_records      whether such a file has the records of the segment that it replaces
newer_records     whether what such a file leaves out has newer records with the same keys
misplaced         segments in a log dir itself, and which partition lacks them
only_copies       records that only a left-over of a deletion still has
lost_start        offsets before the first segment at which the leader epochs begin
stable_offsets    last stable offsets in transaction indexes
segment_report    what the check of a segment reports beside its findings

openable          whether a broker's user may open, write or make a file
stops             what prevents the start of a broker, with Kafka's exception
choosing_cures    which cure each finding of a partition gets
false_offset_index  offset indexes that lead consumers past batches, and that a start leaves as they are
clean_start       what a start makes of false side files that it believes
cures             cures as shell commands
identity          whose partition a folder is, by its name and its topic id, and the cures
identity_cures    cures of meta.properties and partition.metadata
"""
