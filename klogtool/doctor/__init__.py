"""The doctor: what a broker does with these log dirs when it starts, and what to do first.

Nothing here writes, prints or reads the clock.

    answers          what the doctor answers, as values: points ahead, options, troubles, the verdict
    causes           why, what to do about it, and what the machine does to a log, as causes
    rehearsal        all log dirs of a broker, in Kafka's order: problems of the start, then each partition, then notes
    partitions       the start of one partition, over a draft; or a glance at its names
    forgotten_segments  remote segments of which the metadata topic has no record
    running_broker   what follows a start: retention by false indexes, late opened ones, coordinators, tiered topics
    claims           what a start does, as facts about the broker, log dirs, partitions and options
    claim_list       all claims of an answer
    partition_claims  the claim about one partition: what is lost, hidden and gone
    measured         what is readable before and not afterwards, by bytes and records
    passed_over      records that consumers pass over, because offsets go back or jump ahead
    batch_contents   what sound batches have in them, to tell two with the same offsets apart
    metadata_options  options for the metadata log and its quorum: a record that does not replay, who votes
    readable         the sound batches of bytes, as few values; sets of offsets
    option_prices    what an option costs: what is readable now, and not after the option and a start
    segments_drawn   the segments of a partition in trouble, along offset and time
    log_dirs         a log dir's own files beyond what stops a start; -future folders; strays
    voters           whether a controller is still a voter of its quorum
    other_release    what a release does to log dirs of another one: metadata.version, ZooKeeper, a newer format
    replicas         folders of partitions that the cluster has here: deleted, misnamed, in a log dir that is not named
    absent_partitions  partitions without their folder, and where their records stand aside
    absent           paths of log.dirs that are no log dirs, or a second name of one
    failed_log_dirs  log dirs that fail before their logs are loaded, and the logs that then end the broker
    server_properties  what a broker's server.properties says of its log dirs
    file_systems     log dirs on a read-only mount, or without room
    patient          what the doctor looks at: log dirs, what they say of their cluster, circumstances
    advice           what to look at first, and which options there are
    file_options     options that change small files and names
    log_options      options for a log: recovery, salvage, indexes; each is decided, so its loss is measured
    fixes            chosen options as plans
    situation        a situation: what a broker says, what it means, what to do about it; the table in situations/
    exceptions       what a broker logs as it ends, or gives a log dir up; the table exceptions.json
    where            what a message is about: file, partition dir, log dir
    host             what the machine does to a log: limits, memory, mounts, disks, room
    host_dirs        what log dirs need of the machine, in numbers; what the page cache has of them
    bad_sectors      what a start does at a file that the disk cannot read
    permissions      whether the broker's user may open what a start opens
    messages         situations recognised in a text that somebody pasted; wordings as patterns
"""
