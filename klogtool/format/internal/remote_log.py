"""Records of `__remote_log_metadata` as Java objects: the checks of their constructors, the text of their toString().

Packages org.apache.kafka.server.log.remote.storage and ...remote.metadata.storage(.serialization).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from klogtool.errors import Corrupt
from klogtool.format.internal.records import ApiMessage
from klogtool.format.internal.schema import Values

SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
MUST_HAVE_STATE = "state can not be null"
_illegal = partial(Corrupt, kafka_class="IllegalArgumentException")


def remote_log_text(message: ApiMessage) -> str:
    """What Kafka prints of a remote log metadata record. Raises Corrupt for values that its classes refuse."""
    return _TEXTS[message.name](message.values)


def _segment_text(values: Values) -> str:
    """RemoteLogSegmentMetadata."""
    start, end = values["startOffset"], values["endOffset"]
    if start < 0:
        raise _illegal(f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    if end < start:
        raise _illegal(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
    epochs = _epochs_text(values["segmentLeaderEpochs"])
    state = _state(SEGMENT_STATES, values["remoteLogSegmentState"], MUST_HAVE_STATE)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id_text(values['remoteLogSegmentId'])}"
        f", startOffset={start}, endOffset={end}, brokerId={values['brokerId']}"
        f", maxTimestampMs={values['maxTimestampMs']}, eventTimestampMs={values['eventTimestampMs']}"
        f", segmentLeaderEpochs={epochs}, segmentSizeInBytes={values['segmentSizeInBytes']}"
        f", customMetadata={_custom_text(values)}, state={state}, txnIdxEmpty={_bool_text(values['txnIndexEmpty'])}}}"
    )


def _update_text(values: Values) -> str:
    """RemoteLogSegmentMetadataUpdate."""
    state = _state(SEGMENT_STATES, values["remoteLogSegmentState"], MUST_HAVE_STATE)
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id_text(values['remoteLogSegmentId'])}"
        f", customMetadata={_custom_text(values)}, state={state}"
        f", eventTimestampMs={values['eventTimestampMs']}, brokerId={values['brokerId']}}}"
    )


def _delete_text(values: Values) -> str:
    """RemotePartitionDeleteMetadata. It refuses an unknown state by an exception without a message."""
    state = _state(PARTITION_STATES, values["remotePartitionDeleteState"], "null")
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_partition_text(values['topicIdPartition'])}, state={state}"
        f", eventTimestampMs={values['eventTimestampMs']}, brokerId={values['brokerId']}}}"
    )


def _snapshot_text(values: Values) -> str:
    """RemoteLogSegmentMetadataSnapshot. Its text has neither the broker nor the event time."""
    state = _state(SEGMENT_STATES, values["remoteLogSegmentState"], MUST_HAVE_STATE)
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={values['segmentId']}"
        f", startOffset={values['startOffset']}, endOffset={values['endOffset']}"
        f", maxTimestampMs={values['maxTimestampMs']}"
        f", segmentLeaderEpochs={_epochs_text(values['segmentLeaderEpochs'])}"
        f", segmentSizeInBytes={values['segmentSizeInBytes']}"
        f", customMetadata={_custom_text(values)}, state={state}, txnIdxEmpty={_bool_text(values['txnIndexEmpty'])}}}"
    )


_TEXTS = {
    "RemoteLogSegmentMetadataRecord": _segment_text,
    "RemoteLogSegmentMetadataUpdateRecord": _update_text,
    "RemotePartitionDeleteMetadataRecord": _delete_text,
    "RemoteLogSegmentMetadataSnapshotRecord": _snapshot_text,
}


def _segment_id_text(entry: Values) -> str:
    partition = _partition_text(entry["topicIdPartition"])
    return f"RemoteLogSegmentId{{topicIdPartition={partition}, id={entry['id']}}}"


def _partition_text(entry: Values) -> str:
    return f"{entry['id']}:{entry['name']}-{entry['partition']}"


def _epochs_text(entries: Sequence[Values]) -> str:
    """The epochs as in a TreeMap: ascending; of equal epochs, only the last one."""
    if not entries:
        raise _illegal("segmentLeaderEpochs can not be null or empty")
    epochs = {entry["leaderEpoch"]: entry["offset"] for entry in entries}
    return "{" + ", ".join(f"{epoch}={offset}" for epoch, offset in sorted(epochs.items())) + "}"


def _custom_text(values: Values) -> str:
    data = values["customMetadata"]
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _bool_text(value: Any) -> str:
    return "true" if value else "false"


def _state(states: Sequence[str], state_id: int, kafka_message: str) -> str:
    if 0 <= state_id < len(states):
        return states[state_id]
    reason = f"there is no state {state_id}"
    raise Corrupt(reason, kafka_class="NullPointerException", kafka_message=kafka_message)
