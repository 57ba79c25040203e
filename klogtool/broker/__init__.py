"""Kafka's own log, offline: load, recover, read, append, roll, truncate, retain, clean.

All of it works on a draft of a partition dir. Nothing here writes, prints or reads the clock.

    config          settings of a topic and its broker, under Kafka's names
    cluster_config  a topic's settings from all sources: the options, the cluster's metadata, Kafka's defaults
    circumstances   what a broker knows of a partition beside its dir: settings, time, checkpoints, clean stop
    server_settings   what the settings of a process may be, one by one: Kafka's own table
    server_listeners  where a process listens, and whom it asks, by its settings
    server_rules      what the settings of a process may be together
    causes          notes on how a log is loaded, and why segments stay
    releases        what differs between releases of Kafka: a named rule for each difference
    decompressed_sizes  records of compressed batches that are larger than a broker reads
    draft           a folder as it should become: names, and the source of each file's bytes
    content         the source of one file's bytes: ranges of existing files, and new bytes
    spools          where new bytes go while they are produced, so that memory stays bounded
    file_facts      which files a decision relied on, and their state then
    timestamps      guesses the unit of a timestamp by its size; formats durations
    unified_log/    the log as a broker has it (UnifiedLog, LogLoader, LogSegment)
    appending/      appends batches and records, as a leader and as a follower does
    coordinator/    what coordinators keep in internal topics: committed offsets, the state of transactional ids
    metadata/       the cluster's metadata: its image, and what a replay refuses
    cleaning/       the log cleaner: the range, the offset map, what is kept of each batch
"""
