"""Records of `__remote_log_metadata` as Java objects: the checks of their constructors, the text of their toString().

Packages org.apache.kafka.server.log.remote.storage and ...remote.metadata.storage(.serialization).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from klogtool.errors import Corrupt
from klogtool.format.internal.records import ApiMessage
from klogtool.format.internal.schema import Values

SEGMENT_STATES: tuple[str, ...] = tuple(
    f"{what}_SEGMENT_{how}" for what in ("COPY", "DELETE") for how in ("STARTED", "FINISHED")
)
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
MUST_HAVE_STATE = "state can not be null"
_illegal = partial(Corrupt, kafka_class="IllegalArgumentException")


# What toString() of each class has, in its order. The text of a snapshot has neither the broker nor the event time.
_LABELS = {
    "RemoteLogSegmentMetadata": "remoteLogSegmentId startOffset endOffset brokerId maxTimestampMs eventTimestampMs "
    "segmentLeaderEpochs segmentSizeInBytes customMetadata state txnIdxEmpty",
    "RemoteLogSegmentMetadataUpdate": "remoteLogSegmentId customMetadata state eventTimestampMs brokerId",
    "RemotePartitionDeleteMetadata": "topicPartition state eventTimestampMs brokerId",
    "RemoteLogSegmentMetadataSnapshot": "segmentId startOffset endOffset maxTimestampMs segmentLeaderEpochs "
    "segmentSizeInBytes customMetadata state txnIdxEmpty",
}


def remote_log_text(message: ApiMessage) -> str:
    """What Kafka prints of a remote log metadata record. Raises Corrupt for values that its classes refuse."""
    kind, values = message.name.removesuffix("Record"), message.values
    if kind == "RemoteLogSegmentMetadata":
        _check_segment(values)
    state = _state(values)
    texts = {label: _TEXTS[label](values) if label in _TEXTS else values.get(label) for label in _LABELS[kind].split()}
    return f"{kind}{{{', '.join(f'{label}={text}' for label, text in (texts | {'state': state}).items())}}}"


def _check_segment(values: Values) -> None:
    start, end = values["startOffset"], values["endOffset"]
    if start < 0:
        raise _illegal(f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    if end < start:
        raise _illegal(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
    _epochs_text(values)


def _state(values: Values) -> str:
    """Return the name of a state. Of a partition, an unknown one is refused by an exception without a message."""
    number = values.get("remoteLogSegmentState", values.get("remotePartitionDeleteState"))
    states, refusal = SEGMENT_STATES, MUST_HAVE_STATE
    if "remotePartitionDeleteState" in values:
        states, refusal = PARTITION_STATES, "null"
    if 0 <= number < len(states):
        return states[number]
    raise Corrupt(f"there is no state {number}", kafka_class="NullPointerException", kafka_message=refusal)


def _segment_id_text(values: Values) -> str:
    entry = values["remoteLogSegmentId"]
    return f"RemoteLogSegmentId{{topicIdPartition={_partition_text(entry)}, id={entry['id']}}}"


def _partition_text(values: Values) -> str:
    entry = values["topicIdPartition"]
    return f"{entry['id']}:{entry['name']}-{entry['partition']}"


def _epochs_text(values: Values) -> str:
    """The epochs as in a TreeMap: ascending; of equal epochs, only the last one."""
    entries = values["segmentLeaderEpochs"]
    if not entries:
        raise _illegal("segmentLeaderEpochs can not be null or empty")
    epochs = {entry["leaderEpoch"]: entry["offset"] for entry in entries}
    return "{" + ", ".join(f"{epoch}={offset}" for epoch, offset in sorted(epochs.items())) + "}"


def _custom_text(values: Values) -> str:
    data = values["customMetadata"]
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


_TEXTS: dict[str, Callable[[Values], str]] = {
    "remoteLogSegmentId": _segment_id_text,
    "topicPartition": _partition_text,
    "segmentLeaderEpochs": _epochs_text,
    "customMetadata": _custom_text,
    "txnIdxEmpty": lambda values: "true" if values["txnIndexEmpty"] else "false",
}
