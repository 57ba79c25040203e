"""What a broker refuses to append, as far as its log decides it: sequences, transactions, sizes, offsets."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said
from klogtool.doctor.situations.commands import REBUILD_SNAPSHOTS, TRANSACTIONS, VERIFY

SITUATIONS = (
    Situation(
        "sequence-out-of-order",
        (
            said(
                "Out of order sequence number for producer {} at offset {offset} in partition {partition}: {} "
                "(incoming seq. number), {} (current end sequence number)"
            ),
            said("Out of order sequence number for producer {} at offset {offset} in partition {partition}: {}"),
            said("Invalid sequence number for new epoch of producer {}at offset {offset} in partition {partition}: {}"),
            said("Invalid sequence number for producer {} at offset {offset} in partition {partition}: {}"),
            said("OutOfOrderSequenceException"),
        ),
        Outcome.OK,
        "A producer sent a batch whose sequence number does not follow the last one that this broker knows "
        "(OutOfOrderSequenceException). The batch is refused. Either a batch before it is lost, or the broker's "
        "knowledge of the producer is wrong, for example after the log was cut.",
        "Did this broker recover or truncate the partition just before? Compare with another replica. A producer "
        "restarts its sequence after a fatal error.",
        (TRANSACTIONS, VERIFY, REBUILD_SNAPSHOTS),
        ("sequence-gap", "snapshot-content", "snapshot-missing"),
        causes=(
            Cause(
                "a batch before it was lost, because the log was cut",
                "the broker has truncated or recovered the partition just before.",
            ),
            Cause(
                "the broker's knowledge of the producer is wrong",
                "klogtool verify finds snapshot-content or snapshot-missing.",
            ),
            Cause(
                "the producer has a fault",
                "the log is whole, and other brokers refuse it, too.",
            ),
        ),
    ),
    Situation(
        "producer-epoch-old",
        (
            said("Epoch of producer {} at offset {offset} in {partition} is {}, which is {} the last seen epoch {}"),
            said("InvalidProducerEpochException"),
        ),
        Outcome.OK,
        "An older instance of a producer wrote after a newer one with the same transactional id had started "
        "(InvalidProducerEpochException). The write is refused.",
        "This protects from zombies, and is normal after a producer restarts. If the producer is alone, its state on "
        "this broker is wrong.",
        (TRANSACTIONS, VERIFY),
        ("snapshot-content",),
    ),
    Situation(
        "transaction-state-refused",
        (
            said("Expected transactional write from producer {} at offset {} in partition {partition}"),
            said("Record was not part of an ongoing transaction"),
            said("Invalid coordinator epoch for producerId {} at offset {offset} in partition {partition}: {}"),
            said("Attempted to complete transaction {} on partition {partition} which was not started"),
        ),
        Outcome.OK,
        "A write or a marker does not fit the transactions that this broker knows of the partition, and is refused.",
        "klogtool txns shows what the log says of the producer: open, committed or aborted.",
        (TRANSACTIONS, VERIFY),
        ("snapshot-content", "snapshot-missing"),
    ),
    Situation(
        "offset-not-next",
        (
            said("Unexpected offset in append to {partition}. {} is less than the next offset {}."),
            said("Unexpected offset in append to {partition}."),
            said("Out of order offsets found in append to {partition}: {}"),
        ),
        Outcome.UNSERVED,
        "A follower was given records whose offsets do not follow the end of its log, and cannot append them.",
        "The logs of leader and follower do not agree. Compare their ends and leader epochs.",
        (VERIFY, "klogtool lookup {folder} --timestamp latest"),
        ("offset-order", "epochs-content"),
        causes=(
            Cause(
                "the logs of leader and follower differ",
                "klogtool diff of the two names the offset where they part.",
            ),
            Cause(
                "a batch of the leader has a wrong base offset",
                "klogtool verify of the leader's log finds offset-order.",
            ),
        ),
    ),
    Situation(
        "fetched-batch-corrupt",
        (
            said("Found invalid messages during fetch for partition {partition} offset {offset}"),
            said("Cannot append record batch with illegal length {} to log for {partition}."),
        ),
        Outcome.UNSERVED,
        "A follower was sent a batch that does not match its checksum. It asks again and again, and falls out of the "
        "ISR: the log of the leader is damaged, or the network is.",
        "Check the log of the leader at this offset. Is a replica in sync whole? Make that one the leader before you "
        "repair this one.",
        (VERIFY, "klogtool lookup {folder} --offset {offset} --explain", "klogtool salvage {folder} --output DIR"),
        ("batch-crc",),
        causes=(
            Cause(
                "the log of the leader is damaged",
                "klogtool verify of the leader's log finds the batch, and the message repeats.",
            ),
            Cause(
                "bytes changed on the way",
                "the leader's log is sound, and the next fetch works.",
            ),
        ),
    ),
    Situation(
        "batch-too-large",
        (
            said("The record batch size in the append to {partition} is {size} bytes which exceeds the maximum"),
            said("Message batch size is {size} bytes in append to"),
            said("Invalid record size: {size} exceeds the configured maximum record size of {}.", since="4.4"),
        ),
        Outcome.OK,
        "A batch is larger than max.message.bytes, or than a segment, and is refused; or a record is larger than "
        "max.decompressed.message.bytes.",
        "Is it a producer, or a follower that was configured differently from its leader?",
        (VERIFY,),
        causes=(
            Cause(
                "a producer sends more than the topic takes",
                "the line comes at the leader.",
            ),
            Cause(
                "a follower has lower limits than its leader",
                "the line comes at a follower, again and again.",
            ),
        ),
    ),
    Situation(
        "append-failed",
        (said("Error processing append operation on partition {partition}"),),
        Outcome.UNSERVED,
        "A write to the partition failed. This line does not say why.",
        "The exception below the message says why.",
        (VERIFY, TRANSACTIONS),
        is_general=True,
    ),
)
