"""Plans: what a command would write, in which order, and why. One module for each command that decides one.

`decide(path, question)` of a command's module gives plans. Nothing here writes, prints or asks what time it is.

    plan                     the Plan: facts, steps, verdicts on segments, the answer
    saved_plan               a plan's file; whoever carries it out decides again, and compares
    decisions                which decision a command makes, by the command's name
    question                 what a command is asked: the struct, as JSON, and read back by type
    fields                   fields of JSON that somebody else may have written

    plan_change              what all commands share that change a partition as a running broker does
    loading_steps            the steps from a partition dir to its draft, each of which a broker can start behind
    swap_steps               the steps that put cleaned segments in place of others
    salvage_steps            the steps that put a salvaged partition in place of the damaged one
    checkpoint_lines         what a log dir's checkpoints say of changed partitions

    append                   append: batches or records into a partition
    creation                 append: a partition dir that is not there yet
    compact                  compact: passes of the log cleaner
    why_not_compacted        compact --why
    guessed_settings         settings that nobody gave, checked against the disk before anything is deleted
    reclaimable_bytes        how much retention and the cleaner would take: for spark inventory
    delete_records           delete-records
    retain                   retain
    roll                     roll
    truncate                 truncate
    rebuild_index            rebuild-index

    recover                  verify --recover: what a broker's start and a clean stop make of a partition dir
    recover_log_dir          verify --recover of a log dir
    recover_start            what keeps a broker from starting at all
    recover_stray            whether a broker takes a partition for a stray
    recover_answer           the answer of a recovery, and its reasons
    recover_damage           what damaged bytes are, and held
    recover_gaps             offsets that are missing between segments
    recover_reach            how far a log went once
    offsets_before_recovery  which offsets a recovery takes out of a log
    clean_stop               verify --recover --mark-clean: whether a log may be called cleanly stopped

    salvage                  salvage
    salvage_answer           the answer of salvage
    rejected_files           the bytes that salvage rejects, as files
"""
