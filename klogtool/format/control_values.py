"""The values of control records: what KRaft writes between its metadata records, by Kafka's schemas; and as text.

Sources: org.apache.kafka.common.record.internal ControlRecordUtils, kafka.tools.DumpLogSegments.
"""

from __future__ import annotations

from klogtool.format.control import (
    CURRENT_VERSION,
    TRANSACTION_MARKERS,
    ControlRecordType,
    null_pointer,
    parse_control_type_id,
    parse_end_transaction_marker,
    parse_version,
)
from klogtool.format.internal.json_form import to_json, write_json
from klogtool.format.internal.message import build_message, parse_message
from klogtool.format.internal.schema import Values

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


def parse_control_value(control_type: ControlRecordType, value: bytes) -> Values:
    """The fields of a KRaft control record (LEADER_CHANGE to KRAFT_VOTERS), at the version that the value itself says.

    Kafka 4.3.1 writes version 0 only and reads all as version 0; so does `control_text`. Raises Corrupt; KeyError for
    other types.
    """
    return parse_message(VALUE_MESSAGES[control_type], parse_version(value), value)


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
        raise null_pointer('Cannot invoke "java.nio.ByteBuffer.slice()" because "data" is null')
    name = VALUE_MESSAGES[control_type]
    values = parse_message(name, CURRENT_VERSION, value)
    return f" {_PRINTED[control_type]} {write_json(to_json(name, values['version'], values))}"
