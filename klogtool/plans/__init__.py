"""Plans: what a command would write, in which order, and why. One module per command that plans.

`decide(path, question)` of a command's module returns plans. Nothing here writes, prints or reads the clock.

    plan                     the Plan: facts, steps, verdicts on segments, the answer
    results                  what the answers of commands share
    saved_plan               a plan's file; to carry it out, klogtool decides again and compares
    saved_losses             what the answer of a saved plan says of losses
    decisions                the decision of each command, by the command's name
    question                 what a command is asked: a struct, written as JSON and read back by type
    erased_witness           what only a file shows that a plan deletes
    fields                   fields of JSON that somebody else may have written; those of the arguments: question

    plan_change              what all commands share that change a partition as a running broker does
    index_doubts             whether the time index of a segment says what its batches say
    loading_steps            the steps from a partition dir to its draft; a broker can start after each of them
    swap_steps               the steps that put cleaned segments in place of others
    checkpoint_lines         what a log dir's checkpoints should say of changed partitions

    append                   append: batches or records into a partition
    creation                 append: a partition dir that does not exist yet
    compact                  compact: passes of the log cleaner
    why_not_compacted        compact --why
    causes                   why something is so; render has the sentences
    guessed_settings         default settings are checked against the disk before anything is deleted by them
    reclaimable_bytes        how much retention and the cleaner would free: for spark inventory
    delete_records           delete-records
    retain                   retain
    roll                     roll
    truncate                 truncate
    rebuild_index            rebuild-index
    drop_producer            drop-producer
    quorum_voters            quorum --voters, --standalone: a new set of voters

    recover                  recover: the result of a broker's start and a clean stop, of a partition dir or a log dir
    start_problems           what prevents the start of a broker
    remote_fetch             a partition of a remote store, as a dir that a broker can load
    remote_metadata          __remote_log_metadata of a remote store, rebuilt from its objects
    recover_answer           the answer of a recovery, and its reasons
    recover_gaps             offsets that are missing between segments
    recover_reach            how far a log reached in the past, what a recovery removes from it, and what is damaged
    recover_result           what a recovery does to a log, as values of an answer

    free                     free: what to give up, the safest first
    free_untouched           free: what is large and stays, and why
    free_kinds               free: the kinds of files that can be given up, and what is said about each
    free_candidates          free: what names alone show, and what klogtool itself keeps beside a log dir
    free_segments            free: segments past retention, those in remote storage as well, and what compact would free
    free_choice              free: what is taken, and how many bytes of the disk that frees

    mend                     doctor --fix: edits of single files and folders of a log dir
    fleet_share              fleet apply: one broker's share of a plan over all brokers

    build                    build: a log dir out of a spec
    image                    image: what becomes of each file of a log dir
    image_log                image: a log without keys and values
    image_names              image: other names for topics

    transplant               transplant
    node_ids                 transplant --node-ids: the metadata with other ids of nodes
    salvage                  salvage, and the steps that put its result in place of the damaged dir
    salvage_answer           the answer of salvage
    rejected_files           the bytes that salvage rejects, as files
"""
