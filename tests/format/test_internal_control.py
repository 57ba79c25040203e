"""Control records: keys and values split at their fields, the text of each, and where Kafka dies of one."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klogtool.errors import Corrupt
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
    parse_control_type_id,
    parse_end_transaction_marker,
)
from klogtool.format.control_values import VALUE_MESSAGES, build_control_value, control_text, parse_control_value

DIRECTORY_ID = "AAAAAAAAAAEAAAAAAAAAAg"


def fields(*pieces: str) -> bytes:
    return b"".join(bytes.fromhex(piece) for piece in pieces)


ABORT_KEY = fields("0000", "0000")  # version, type
MARKER = fields("0000", "00000007")  # version, coordinator epoch
LEADER_CHANGE_0 = fields(
    "0000",  # version
    "00000001",  # leader
    "02 00000001 00",  # one voter: id, no tags
    "01",  # none that granted its vote
    "00",  # no tags
)
LEADER_CHANGE_1 = fields(
    "0001",
    "00000001",
    "02 00000001 00000000000000010000000000000002 00",  # id, directory id, no tags
    "01",
    "00",
)
VOTERS = fields(
    "0000",  # version
    "02",  # one voter
    "00000001",  # id
    "00000000000000010000000000000002",  # directory id
    "02 0b 434f4e54524f4c4c4552 02 68 2385 00",  # one endpoint: name, host, port, no tags
    "0000 0001 00",  # kraft.version 0 to 1, no tags
    "00 00",  # no tags, twice
)
VOTERS_VALUES = {
    "version": 0,
    "voters": [
        {
            "voterId": 1,
            "voterDirectoryId": DIRECTORY_ID,
            "endpoints": [{"name": "CONTROLLER", "host": "h", "port": 9093}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }
    ],
}
KRAFT_VALUES = [
    (
        ControlRecordType.LEADER_CHANGE,
        LEADER_CHANGE_0,
        {"version": 0, "leaderId": 1, "voters": [{"voterId": 1}], "grantingVoters": []},
        ' LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[]}',
    ),
    (
        ControlRecordType.SNAPSHOT_HEADER,
        fields("0000", "00000174876e7fff", "00"),
        {"version": 0, "lastContainedLogTimestamp": 1_599_999_999_999},
        ' SnapshotHeader {"version":0,"lastContainedLogTimestamp":1599999999999}',
    ),
    (
        ControlRecordType.SNAPSHOT_FOOTER,
        fields("0000", "00"),
        {"version": 0},
        ' SnapshotFooter {"version":0}',
    ),
    (
        ControlRecordType.KRAFT_VERSION,
        fields("0000", "0001", "00"),
        {"version": 0, "kRaftVersion": 1},
        ' KRaftVersion {"version":0,"kRaftVersion":1}',
    ),
    (
        ControlRecordType.KRAFT_VOTERS,
        VOTERS,
        VOTERS_VALUES,
        ' KRaftVoters {"version":0,"voters":[{"voterId":1,"voterDirectoryId":"AAAAAAAAAAEAAAAAAAAAAg",'
        '"endpoints":[{"name":"CONTROLLER","host":"h","port":9093}],'
        '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}',
    ),
]


@pytest.mark.parametrize("control_type", [t for t in ControlRecordType if t != ControlRecordType.UNKNOWN])
def test_keys(control_type: ControlRecordType) -> None:
    key = build_control_key(control_type)
    assert key == fields("0000", f"{control_type:04x}")
    assert ControlRecordType.of(parse_control_type_id(key + b"more")) is control_type


def test_an_unknown_type_has_no_key() -> None:
    assert ControlRecordType.of(99) is ControlRecordType.of(-1) is ControlRecordType.UNKNOWN
    with pytest.raises(ValueError, match="UNKNOWN"):
        build_control_key(ControlRecordType.UNKNOWN)


@given(epoch=st.integers(-(2**31), 2**31 - 1), committed=st.booleans())
def test_markers_there_and_back(epoch: int, committed: bool) -> None:
    marker = EndTransactionMarker(ControlRecordType.COMMIT if committed else ControlRecordType.ABORT, epoch)
    key, value = build_control_key(marker.type), build_end_transaction_marker(marker)
    assert len(value) == 6
    assert parse_end_transaction_marker(key, value) == marker
    assert control_text(key, value) == f" endTxnMarker: {marker.type.name} coordinatorEpoch: {epoch}"


@pytest.mark.parametrize(("control_type", "value", "values", "text"), KRAFT_VALUES)
def test_kraft_values(control_type: ControlRecordType, value: bytes, values: dict[str, object], text: str) -> None:
    assert parse_control_value(control_type, value) == values
    assert build_control_value(control_type, values) == value
    assert control_text(build_control_key(control_type), value) == text


def test_leader_change_1_has_directory_ids_which_kafka_does_not_print() -> None:
    values = {
        "version": 1,
        "leaderId": 1,
        "voters": [{"voterId": 1, "voterDirectoryId": DIRECTORY_ID}],
        "grantingVoters": [],
    }
    assert parse_control_value(ControlRecordType.LEADER_CHANGE, LEADER_CHANGE_1) == values
    assert build_control_value(ControlRecordType.LEADER_CHANGE, values) == LEADER_CHANGE_1
    # Kafka 4.3.1 reads it as version 0: the first byte of the directory id is then the count of tags, and so on.
    with pytest.raises(Corrupt) as caught:
        control_text(build_control_key(ControlRecordType.LEADER_CHANGE), LEADER_CHANGE_1)
    assert caught.value.reason == "non-nullable field grantingVoters was serialized as null"


def test_leader_change_that_claims_version_1_in_the_layout_of_0() -> None:
    value = b"\x00\x01" + LEADER_CHANGE_0[2:]
    assert control_text(build_control_key(ControlRecordType.LEADER_CHANGE), value) == (
        ' LeaderChange: {"version":1,"leaderId":1,'
        '"voters":[{"voterId":1,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}],"grantingVoters":[]}'
    )


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (fields("0000", "0063"), None, " controlType: UNKNOWN(99)"),
        (fields("0000", "ffff"), b"anything", " controlType: UNKNOWN(-1)"),
        (fields("7fff", "0000"), MARKER, " endTxnMarker: ABORT coordinatorEpoch: 7"),  # versions above are read as 0
        (ABORT_KEY, fields("0005", "00000007", "beef"), " endTxnMarker: ABORT coordinatorEpoch: 7"),
    ],
)
def test_what_kafka_accepts(key: bytes, value: bytes | None, text: str) -> None:
    assert control_text(key, value) == text


@pytest.mark.parametrize(
    ("key", "value", "kafka_class"),
    [
        (None, MARKER, "NullPointerException"),
        (b"", MARKER, "InvalidRecordException"),
        (ABORT_KEY[:3], MARKER, "InvalidRecordException"),
        (fields("ffff", "0000"), MARKER, "InvalidRecordException"),
        (ABORT_KEY, None, "NullPointerException"),
        (ABORT_KEY, b"\x00", "BufferUnderflowException"),
        (ABORT_KEY, MARKER[:5], "BufferUnderflowException"),
        (ABORT_KEY, fields("ffff", "00000007"), "InvalidRecordException"),
        (fields("0000", "0002"), None, "NullPointerException"),
        (fields("0000", "0006"), VOTERS[:-1], "BufferUnderflowException"),
    ],
)
def test_what_ends_the_tool(key: bytes | None, value: bytes | None, kafka_class: str) -> None:
    with pytest.raises(Corrupt) as caught:
        control_text(key, value)
    assert caught.value.kafka_class == kafka_class


def test_a_kraft_record_is_no_marker() -> None:
    with pytest.raises(Corrupt, match="Invalid control record type for end transaction marker LEADER_CHANGE"):
        parse_end_transaction_marker(fields("0000", "0002"), MARKER)


@pytest.mark.parametrize("control_type", VALUE_MESSAGES)
@given(value=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(control_type: ControlRecordType, value: bytes) -> None:
    with contextlib.suppress(Corrupt):
        assert control_text(build_control_key(control_type), value).startswith(" ")
