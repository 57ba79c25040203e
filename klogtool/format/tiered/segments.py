"""What the metadata says of a remote segment: RemoteLogSegmentMetadata, from a record or from a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from klogtool.errors import Corrupt
from klogtool.format.internal.remote_log import SEGMENT_STATES
from klogtool.format.internal.schema import Values


class SegmentState(Enum):
    """RemoteLogSegmentState. UNKNOWN: nothing says so, as for objects without metadata."""

    COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED = SEGMENT_STATES
    UNKNOWN = "UNKNOWN"


class SegmentKey(Struct, frozen=True, order=True):
    """RemoteLogSegmentId. Ids are base64 text. The topic's name is no part of it."""

    topic_id: str
    partition: int
    segment_id: str


class RemoteSegment(Struct, frozen=True):
    """RemoteLogSegmentMetadata. end_offset: inclusive. size: bytes of the `.log` on the broker's disk, None if unknown.

    epochs: start offset of each leader epoch in the segment, ascending. event_ms: of the newest event.
    """

    key: SegmentKey
    topic: str
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    epochs: tuple[tuple[int, int], ...]
    size: int | None
    event_ms: int
    state: SegmentState
    txn_index_empty: bool = False

    def last_offset_in(self, epoch: int) -> int:
        """Return the last offset of the segment in one of its epochs."""
        behind = [start for other, start in self.epochs if other > epoch]
        return behind[0] - 1 if behind else self.end_offset

    def checked(self) -> RemoteSegment:
        """Return it. Raises Corrupt for values that Kafka's class refuses: no broker could have written them."""
        if self.start_offset < 0 or self.end_offset < self.start_offset or not self.epochs:
            raise Corrupt(
                f"offsets {self.start_offset} to {self.end_offset} with {len(self.epochs)} leader epochs cannot be a "
                "segment",
                kafka_class="IllegalArgumentException",
            )
        return self


def segment_of(values: Values) -> RemoteSegment:
    """Return what a RemoteLogSegmentMetadataRecord says. Raises Corrupt for values that Kafka's class refuses."""
    epochs = {entry["leaderEpoch"]: entry["offset"] for entry in values["segmentLeaderEpochs"]}
    return RemoteSegment(
        key_of(values),
        values["remoteLogSegmentId"]["topicIdPartition"]["name"],
        values["startOffset"],
        values["endOffset"],
        values["maxTimestampMs"],
        tuple(sorted(epochs.items())),
        values["segmentSizeInBytes"],
        values["eventTimestampMs"],
        state_of(values),
        bool(values["txnIndexEmpty"]),
    ).checked()


def key_of(values: Values) -> SegmentKey:
    """Return the id in a record about a segment."""
    entry: Mapping[str, object] = values["remoteLogSegmentId"]["topicIdPartition"]
    return SegmentKey(str(entry["id"]), int(str(entry["partition"])), str(values["remoteLogSegmentId"]["id"]))


def state_of(values: Values) -> SegmentState:
    """Return the state in a record. Raises Corrupt for one that Kafka does not know."""
    number = values["remoteLogSegmentState"]
    if not 0 <= number < len(SEGMENT_STATES):
        raise Corrupt(f"there is no state {number}", kafka_class="NullPointerException")
    return SegmentState(SEGMENT_STATES[number])
