"""Control records: transaction markers, and what KRaft writes between its metadata records.

The key says which of them it is; values are declared by Kafka's schemas (`format.internal`). Sources:
org.apache.kafka.common.record.internal ControlRecordType, ControlRecordUtils, EndTransactionMarker.
"""

from __future__ import annotations

import enum
from typing import Any

from klogtool.errors import Corrupt
from klogtool.format.internal.json_form import to_json, write_json
from klogtool.format.internal.message import build_message, parse_message
from klogtool.format.internal.primitives import underflow
from klogtool.format.internal.records import SHORT_BYTES, build_version_prefixed, parse_short
from klogtool.format.internal.schema import Values
from klogtool.lazy_dataclasses import dataclass

KEY_BYTES = 4
# The version at which Kafka 4.3.1 reads and writes every value, whatever the value itself says.
CURRENT_VERSION = 0


class ControlRecordType(enum.IntEnum):
    """What a control record is, by the type in its key; UNKNOWN is every other id."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @classmethod
    def of(cls, type_id: int) -> ControlRecordType:
        """The type with that id (ControlRecordType.fromTypeId)."""
        return cls(type_id) if type_id in _KNOWN_IDS else cls.UNKNOWN


_KNOWN_IDS = frozenset(int(t) for t in ControlRecordType if t != ControlRecordType.UNKNOWN)
TRANSACTION_MARKERS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)
VALUE_MESSAGES = {
    ControlRecordType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlRecordType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlRecordType.KRAFT_VOTERS: "VotersRecord",
}
_PRINTED = {  # the colon is in one of them only
    ControlRecordType.LEADER_CHANGE: "LeaderChange:",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters",
}


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The end of a transaction: ABORT or COMMIT, and the epoch of the coordinator that wrote it."""

    type: ControlRecordType
    coordinator_epoch: int

    @property
    def is_abort(self) -> bool:
        """Whether the transaction was aborted."""
        return self.type is ControlRecordType.ABORT


def parse_control_type_id(key: bytes | None) -> int:
    """The type id in a control record's key (ControlRecordType.parseTypeId).

    A version above 0 is accepted, bytes behind the id are left alone. Raises Corrupt: no key, one of less than 4
    bytes, or a negative version.
    """
    if key is None:
        raise _null('Cannot invoke "java.nio.ByteBuffer.duplicate()" because "key" is null')
    if len(key) < KEY_BYTES:
        raise _invalid(
            "Invalid value size found for control record key. "
            f"Must have at least {KEY_BYTES} bytes, but found only {len(key)}"
        )
    version = _parse_version(key)
    if version < 0:
        raise _invalid(f"Invalid version found for control record: {version}. May indicate data corruption")
    # All that ControlRecordTypeSchema has, in every version; through the schema it takes ten times as long, and a log
    # of transactions has one for each.
    return parse_short(key[SHORT_BYTES:], "type")


def build_control_key(control_type: ControlRecordType) -> bytes:
    """The key of a control record. Raises ValueError for UNKNOWN."""
    if control_type == ControlRecordType.UNKNOWN:
        raise ValueError("Cannot serialize UNKNOWN control record type")
    return build_version_prefixed("ControlRecordTypeSchema", CURRENT_VERSION, {"type": int(control_type)})


def parse_end_transaction_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """The marker of a transaction's end (EndTransactionMarker.deserialize).

    A version above 0 is read like 0, a longer value is accepted. Raises Corrupt: a key of another type, a value that
    is null or shorter than 6 bytes, or a negative version.
    """
    control_type = ControlRecordType.of(parse_control_type_id(key))
    if control_type not in TRANSACTION_MARKERS:
        reason = f"Invalid control record type for end transaction marker {control_type.name}"
        raise Corrupt(reason, kafka_class="IllegalArgumentException")
    if value is None:
        raise _null('Cannot invoke "java.nio.ByteBuffer.getShort()" because "value" is null')
    version = _parse_version(value)
    if version < 0:
        raise _invalid(f"Invalid version found for end transaction marker: {version}. May indicate data corruption")
    values = parse_message("EndTxnMarker", version, value[SHORT_BYTES:])
    return EndTransactionMarker(control_type, values["coordinatorEpoch"])


def build_end_transaction_marker(marker: EndTransactionMarker) -> bytes:
    """The value of a marker; its key is `build_control_key(marker.type)`."""
    return build_version_prefixed("EndTxnMarker", CURRENT_VERSION, {"coordinatorEpoch": marker.coordinator_epoch})


def parse_control_value(control_type: ControlRecordType, value: bytes) -> dict[str, Any]:
    """The fields of a KRaft control record (LEADER_CHANGE to KRAFT_VOTERS), at the version that the value itself says.

    Kafka 4.3.1 writes version 0 only and reads all as version 0; so does `control_text`. Raises Corrupt; KeyError for
    other types.
    """
    return parse_message(VALUE_MESSAGES[control_type], _parse_version(value), value)


def build_control_value(control_type: ControlRecordType, values: Values) -> bytes:
    """The value of a KRaft control record, at the version that its field `version` says (0 if it is not given)."""
    return build_message(VALUE_MESSAGES[control_type], values.get("version", CURRENT_VERSION), values)


def control_text(key: bytes | None, value: bytes | None) -> str:
    """What kafka-dump-log prints of a control record behind its header keys (DumpLogSegments.printControlRecord).

    Raises Corrupt where the tool dies of it.
    """
    type_id = parse_control_type_id(key)
    control_type = ControlRecordType.of(type_id)
    if control_type in TRANSACTION_MARKERS:
        marker = parse_end_transaction_marker(key, value)
        return f" endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
    if control_type == ControlRecordType.UNKNOWN:
        return f" controlType: {control_type.name}({type_id})"
    if value is None:
        raise _null('Cannot invoke "java.nio.ByteBuffer.slice()" because "data" is null')
    name = VALUE_MESSAGES[control_type]
    values = parse_message(name, CURRENT_VERSION, value)
    return f" {_PRINTED[control_type]} {write_json(to_json(name, values['version'], values))}"


def _parse_version(data: bytes) -> int:
    if len(data) < SHORT_BYTES:
        raise underflow()
    return parse_short(data, "value")


def _invalid(reason: str) -> Corrupt:
    return Corrupt(reason, kafka_class="InvalidRecordException")


def _null(reason: str) -> Corrupt:
    return Corrupt(reason, kafka_class="NullPointerException")
