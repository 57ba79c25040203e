"""Kafka's own log, offline: loaded, recovered, read, appended to, rolled, truncated, retained, cleaned.

All of it works on a draft of a partition dir. Nothing here writes, prints or asks what time it is.

    config          settings of a topic and its broker, under Kafka's names
    cluster_config  a topic's settings by all that is known: given, cluster metadata, Kafka's defaults
    circumstances   what a broker knows of a partition beside its dir: settings, time, checkpoints, clean stop
    draft           a folder as it is to become: names, and where the bytes of each file come from
    content         where the bytes of one file come from: ranges of files, and new bytes
    spools          where new bytes go while they are made, so that memory stays bounded
    file_facts      which files a decision relied on, and how they were then
    timestamps      timestamps and durations: what their size says of them
    unified_log/    the log as a broker has it (UnifiedLog, LogLoader, LogSegment)
    appending/      batches and records appended, as a leader and as a follower does it
    cleaning/       the log cleaner: which range, the map of keys, what is kept of each batch
"""
