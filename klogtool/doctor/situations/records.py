"""Records that cannot be read: what consumers, followers, cleaners and brokers say of them."""

from __future__ import annotations

from klogtool.doctor.situation import Cause, Outcome, Situation, said
from klogtool.doctor.situations.commands import SALVAGE, VERIFY

_DEEP = "klogtool verify {folder} --deep"
_DAMAGED = Cause(
    "a batch of the log is damaged on the leader's disk",
    "klogtool verify of the leader's copy finds it, and the message comes again at the same offset.",
)
_IN_MEMORY = Cause(
    "bytes changed on the way, in memory or on the network",
    "verify of the leader's copy finds nothing, and the next try works.",
)
_FOREIGN = Cause(
    "the bytes are not Kafka's: a client speaks HTTP or TLS to a plain port, or the file is another file",
    "the size in the message is text if it is written in hexadecimal, such as 1213486160 (HTTP).",
)
_LIMIT = Cause(
    "a record is larger than a limit of this reader: max.message.bytes, message.max.bytes, fetch.max.bytes",
    "verify finds nothing, and the size in the message is plausible: somewhat above the limit in it.",
)

SITUATIONS = (
    Situation(
        "record-size-too-large",
        (
            said("Record size {} exceeds the largest allowable message size ({})."),
            said("Record size exceeds the largest allowable message size ({})."),
        ),
        Outcome.UNSERVED,
        "A reader found a batch whose size field is above the limit (CorruptRecordException). It stops there. In a log "
        "that a broker recovers, everything from there on is cut off.",
        "Who logs it: a consumer, a follower, the cleaner, or a broker that starts? At which offset and file?",
        (VERIFY, SALVAGE),
        ("batch-header", "foreign-bytes", "torn-batch"),
        causes=(_DAMAGED, _LIMIT, _FOREIGN),
    ),
    Situation(
        "consumer-stops-at-record",
        (
            said(
                "Received exception when fetching the next record from {partition}. If needed, please seek past the "
                "record to continue consumption."
            ),
            said("Record for partition {partition} at offset {offset} is invalid, cause: {cause}"),
            said("Record batch for partition {partition} at offset {offset} is invalid, cause: {cause}"),
            said("Encountered corrupt message when fetching offset {offset} for topic-partition {partition}"),
        ),
        Outcome.UNSERVED,
        "A consumer cannot read a record, and stops in front of it at each poll. The broker runs. The exception below "
        "the message says what is wrong with the record.",
        "Is the exception the same on each try, and with another consumer? Copy the partition dir before anybody "
        "restarts the broker: a recovery may cut the log there.",
        (VERIFY, _DEEP, SALVAGE),
        ("batch-crc", "batch-attributes", "records-invalid"),
        causes=(
            _DAMAGED,
            _IN_MEMORY,
            Cause(
                "a deserializer of the consumer fails, and the record itself is sound",
                "the cause is a SerializationException, or of a class that is not Kafka's; verify --deep finds "
                "nothing.",
            ),
            Cause(
                "the codec cannot be used here: a library is missing, or /tmp is mounted noexec",
                "the cause names zstd, snappy or lz4, as UnsatisfiedLinkError or NoClassDefFoundError.",
            ),
        ),
    ),
    Situation(
        "consumer-deserializer-fails",
        (said("Key Deserializers with error: {}"), said("Value Deserializers with error: {}")),
        Outcome.OK,
        "A consumer's deserializer could not read a key or a value. The log is not the cause by this line alone.",
        "The exception below says which class. Compare the schema of the writer with that of the reader.",
        (_DEEP,),
        is_general=True,
    ),
    Situation(
        "consumer-makes-no-progress",
        (
            said(
                "Failed to make progress reading messages at {partition}={offset}. Received a non-empty fetch response "
                "from the server, but no complete records were found."
            ),
        ),
        Outcome.UNSERVED,
        "A consumer got bytes, and no whole batch in them.",
        "Look at the batch at this offset: klogtool dump-log.",
        (VERIFY, SALVAGE),
        ("torn-batch", "batch-header"),
        causes=(
            Cause("the batch's length field is wrong", "verify finds batch-header or torn-batch at this offset."),
            Cause(
                "a very old consumer, and a batch above its fetch size", "verify finds nothing; raise the fetch size."
            ),
        ),
    ),
    Situation(
        "batch-size-too-small",
        (
            said("Record batch is corrupt (the size {} is smaller than the minimum allowed overhead {})"),
            said("Record is corrupt (crc could not be retrieved as the record is too small, size = {})"),
        ),
        Outcome.UNSERVED,
        "A batch is too short for its own header. A reader stops there.",
        "Copy the partition dir before a broker starts on it.",
        (VERIFY, SALVAGE),
        ("batch-header", "torn-batch"),
    ),
    Situation(
        "records-do-not-parse",
        (
            said("Found invalid number of record headers {}"),
            said("Found invalid number of record headers. {} is larger than the remaining size of the buffer"),
            said("Found invalid record structure"),
            said("Invalid negative header key size {}"),
            said("Invalid record size: expected to read {} bytes in record payload, but instead read {}"),
            said(
                "Invalid record size: expected {} bytes in record payload, but instead the buffer has only {} "
                "remaining bytes."
            ),
            said("Invalid record size: expected {} bytes in record payload, but the record payload reached EOF."),
            said("Reached end of input stream before skipping all bytes. Remaining bytes:{}"),
            said("Found invalid record count {} in magic v{} batch"),
            said("Incorrect declared batch size, premature EOF reached"),
            said("Incorrect declared batch size, records still remaining in file"),
            said("Invalid null header key found in headers"),
            said("Failed to decompress record stream"),
        ),
        Outcome.UNSERVED,
        "The body of a batch is not as its header says. If its checksum holds, the writer made it so. Readers that "
        "open the batch stop there; a broker only opens it where it has to (retention by record, cleaning, lookups).",
        "Which client wrote this topic? Does klogtool verify without --deep find a wrong checksum, too?",
        (VERIFY, _DEEP, SALVAGE),
        ("records-invalid", "batch-crc"),
        causes=(
            Cause("the batch was written so by a faulty client", "only verify --deep finds it: the checksum holds."),
            _DAMAGED,
            _IN_MEMORY,
        ),
    ),
    Situation(
        "old-format-wrapper",
        (
            said("Compressed message magic {} does not match wrapper magic {}"),
            said("Found invalid compressed record set with no inner records"),
            said("Found invalid compressed record set with null value (magic = {})"),
            said(
                "Found invalid wrapper offset in compressed v1 message set, wrapper offset '{}' is less than the last"
            ),
            said("Inner messages must not be compressed"),
            said("Invalid wrapper compressionType found in legacy deep record iterator {}"),
            said("Invalid wrapper magic found in legacy deep record iterator {}"),
        ),
        Outcome.UNSERVED,
        "A compressed message of an old format (magic 0 or 1) is not as it must be inside. Readers stop there, and a "
        "broker that recovers the segment refuses to start.",
        "Which old client wrote it? Copy the partition dir before a broker starts on it.",
        (_DEEP, SALVAGE),
        ("records-invalid",),
    ),
    Situation(
        "appended-batch-refused",
        (
            said("Batch has an invalid offset range: [{}, {}] in topic partition {partition}"),
            said("Batch magic {} is not the same as the first batch's magic byte {} in topic partition {partition}"),
            said("Clients are not allowed to write control records in topic partition {partition}"),
            said("Inconsistent batch offset range [{}, {}] and count of records {} in topic partition {partition}"),
            said("Invalid reported count for record batch: {} in topic partition {partition}"),
            said("Invalid sequence number {} in record batch with producerId {} in topic partition {partition}"),
            said("Compressed outer record has more than one batch"),
            said("Record batch has no batches at all"),
            said("Idempotent records cannot be used with magic version {}"),
            said("Transactional records cannot be used with magic version {}"),
            said("One or more records have been rejected due to invalid timestamp"),
            said("One or more records have been rejected due to {} record errors in total"),
            said("The baseOffset of the record batch in the append to {} should be 0, but it is {}"),
        ),
        Outcome.OK,
        "The broker has refused what a producer sent (InvalidRecordException and others). Nothing of it is in the log.",
        "Which client, and which version of it? A proxy or a tool that copies batches may have changed them.",
        (VERIFY,),
    ),
    Situation(
        "segment-written-by-another",
        (
            said("Attempt to truncate log segment {file} to {} bytes failed, size of this log segment is {} bytes."),
            said("Attempt to truncate log segment {file} to {} bytes failed,  size of this log segment is {} bytes."),
            said("Size of FileRecords {file} has been truncated during write: old size {}, new size {}"),
        ),
        Outcome.UNSERVED,
        "A segment is shorter than the broker believes: something else has changed the file while the broker ran.",
        "Stop the broker. Which process wrote there: a backup, a restore, a second broker, a person?",
        (VERIFY, "fuser -v {dir}"),
        ("torn-batch",),
    ),
    Situation(
        "segment-too-large",
        (said("The size of segment {file} ({}) is larger than the maximum allowed segment size of {}"),),
        Outcome.REFUSES,
        "A .log has more than 2 GiB - 1 bytes. No Kafka writes such a file, and none can read it.",
        "Was the file joined from several, or is it another file? ls -l shows its size.",
        ("ls -l {file}", VERIFY),
    ),
)
