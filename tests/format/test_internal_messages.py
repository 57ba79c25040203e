"""Messages of internal topics: bytes split at their fields, every message and version there and back, damage."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import time
from typing import Any

import pytest
from coordinator_records import build_coordinator_key, build_version_prefixed
from hypothesis import given, settings
from hypothesis import strategies as st
from mutate import mutations

from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.internal.json_form import to_json, write_json
from klogtool.format.internal.message import build_message, parse_front, parse_message
from klogtool.format.internal.records import (
    GROUP,
    METADATA,
    UnknownRecordType,
    build_metadata_record,
    parse_coordinator_record,
    parse_metadata_record,
)
from klogtool.format.internal.schema import UNKNOWN_TAGS, Field, StructSchema, message_names, schema_of

EVERY_VERSION = [
    (name, version)
    for name in message_names()
    for version in range(schema_of(name).versions.low, schema_of(name).versions.high + 1)
]
TOPIC_ID = "AAAAAAAAAAEAAAAAAAAAAg"


def fields(*pieces: str) -> bytes:
    return b"".join(bytes.fromhex(piece) for piece in pieces)


# --- bytes, split at their fields -------------------------------------------------------------------------------------

OFFSET_COMMIT_KEY = fields(
    "0001",  # record type
    "0001 67",  # group
    "0001 74",  # topic
    "00000003",  # partition
)
OFFSET_COMMIT_4 = fields(
    "0004",  # version
    "000000000000002a",  # offset
    "00000005",  # leader epoch
    "02 6d",  # metadata, compact
    "00000174876e8000",  # commit timestamp
    "01",  # one tagged field
    "00 10 00000000000000010000000000000002",  # tag 0, its size, the topic id
)
OFFSET_COMMIT_VALUES = {
    "offset": 42,
    "leaderEpoch": 5,
    "metadata": "m",
    "commitTimestamp": 1_600_000_000_000,
    "topicId": TOPIC_ID,
}
PARTITION_CHANGE_2 = fields(
    "01",  # frame version
    "05",  # api key
    "02",  # version
    "00000007",  # partition
    "00000000000000010000000000000002",  # topic id
    "03",  # three tagged fields
    "00 09 03 00000001 00000002",  # isr
    "06 01 01",  # eligible leader replicas: empty
    "63 02 beef",  # tag 99, which nobody knows
)
PARTITION_CHANGE_VALUES = {
    "partitionId": 7,
    "topicId": TOPIC_ID,
    "isr": [1, 2],
    "leader": -2,
    "replicas": None,
    "removingReplicas": None,
    "addingReplicas": None,
    "leaderRecoveryState": -1,
    "directories": None,
    "eligibleLeaderReplicas": [],
    "lastKnownElr": None,
    UNKNOWN_TAGS: [(99, b"\xbe\xef")],
}
TRANSACTION_LOG_0 = fields(
    "0000",  # version
    "0000000000000032",  # producer id
    "0002",  # producer epoch
    "0000ea60",  # timeout
    "01",  # status
    "00000001",  # one topic
    "0001 74 00000002 00000000 00000001",  # its name, two partitions
    "00000174876e8000",  # last update
    "ffffffffffffffff",  # start
)
SUBSCRIPTION_1 = fields(
    "00000001 0001 74",  # topics
    "ffffffff",  # user data: null
    "00000001",  # owned partitions
    "0001 74 00000001 00000003",
)
MEMBER_WITH_ENDPOINT = fields(
    "00 00 01 01",  # instance id and rack id null; client id and host empty
    "0000ea60 00000001",  # rebalance timeout, topology epoch
    "02 70",  # process id
    "01 02 68 2385 00",  # an endpoint: mark, host, port, no tags
    "01 00",  # no client tags; no tags
)


@pytest.mark.parametrize(
    ("name", "version", "data", "values"),
    [
        ("OffsetCommitKey", 0, OFFSET_COMMIT_KEY[2:], {"group": "g", "topic": "t", "partition": 3}),
        ("OffsetCommitValue", 4, OFFSET_COMMIT_4[2:], OFFSET_COMMIT_VALUES),
        ("PartitionChangeRecord", 2, PARTITION_CHANGE_2[3:], PARTITION_CHANGE_VALUES),
        (
            "TransactionLogValue",
            0,
            TRANSACTION_LOG_0[2:],
            {
                "producerId": 50,
                "producerEpoch": 2,
                "transactionTimeoutMs": 60_000,
                "transactionStatus": 1,
                "transactionPartitions": [{"topic": "t", "partitionIds": [0, 1]}],
                "transactionLastUpdateTimestampMs": 1_600_000_000_000,
                "transactionStartTimestampMs": -1,
            },
        ),
        (
            "ConsumerProtocolSubscription",
            1,
            SUBSCRIPTION_1,
            {"topics": ["t"], "userData": None, "ownedPartitions": [{"topic": "t", "partitions": [3]}]},
        ),
        (
            "StreamsGroupMemberMetadataValue",
            0,
            MEMBER_WITH_ENDPOINT,
            {
                "instanceId": None,
                "rackId": None,
                "clientId": "",
                "clientHost": "",
                "rebalanceTimeoutMs": 60_000,
                "topologyEpoch": 1,
                "processId": "p",
                "userEndpoint": {"host": "h", "port": 9093},
                "clientTags": [],
            },
        ),
    ],
)
def test_bytes_and_values(name: str, version: int, data: bytes, values: dict[str, Any]) -> None:
    assert parse_message(name, version, data) == values
    assert list(parse_message(name, version, data)) == list(values)
    assert build_message(name, version, values) == data


def test_frame_of_a_coordinator_record() -> None:
    key, value = parse_coordinator_record(GROUP, OFFSET_COMMIT_KEY, OFFSET_COMMIT_4)
    assert (key.name, key.version) == ("OffsetCommitKey", 0)
    assert value == ("OffsetCommitValue", 4, OFFSET_COMMIT_VALUES)
    assert build_coordinator_key(key.name, key.values) == OFFSET_COMMIT_KEY
    assert build_version_prefixed("OffsetCommitValue", 4, OFFSET_COMMIT_VALUES) == OFFSET_COMMIT_4
    assert parse_coordinator_record(GROUP, OFFSET_COMMIT_KEY, None) == (key, None)


def test_frame_of_a_metadata_record() -> None:
    assert parse_metadata_record(METADATA, PARTITION_CHANGE_2) == ("PartitionChangeRecord", 2, PARTITION_CHANGE_VALUES)
    assert build_metadata_record("PartitionChangeRecord", 2, PARTITION_CHANGE_VALUES) == PARTITION_CHANGE_2


def test_unknown_types_and_versions_are_told_apart() -> None:
    with pytest.raises(UnknownRecordType, match="unknown record type 9"):
        parse_coordinator_record(GROUP, b"\x00\x09", None)
    with pytest.raises(Unsupported, match="unknown record version 5 for 1 type"):
        parse_coordinator_record(GROUP, OFFSET_COMMIT_KEY, b"\x00\x05")


# --- every message and version ----------------------------------------------------------------------------------------

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def values_of(struct: StructSchema, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Values for every field that the struct has in a version."""
    present = [field for field in struct.fields if version in field.versions]
    return st.fixed_dictionaries({field.name: field_values(field, version) for field in present})


def field_values(field: Field, version: int) -> st.SearchStrategy[Any]:
    single = plain_values(field, version)
    values = st.lists(single, max_size=3) if field.is_array else single
    return st.none() | values if version in field.nullable else values


def plain_values(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        return values_of(field.struct, version)
    if field.type in BITS:
        half = 1 << BITS[field.type] - 1
        return st.integers(-half, half - 1)
    return {
        "bool": st.booleans(),
        "uint16": st.integers(0, 2**16 - 1),
        "uint32": st.integers(0, 2**32 - 1),
        "float64": st.floats(allow_nan=False),
        "string": st.text(max_size=5),
        "bytes": st.binary(max_size=5),
        "uuid": st.binary(min_size=16, max_size=16).map(uuid_text),
    }[field.type]


def uuid_text(data: bytes) -> str:
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(data)[:22].decode()


def every_field(struct: StructSchema) -> list[Field]:
    """The fields of a struct, and of the structs in it."""
    return [f for field in struct.fields for f in [field, *(every_field(field.struct) if field.struct else ())]]


def test_all_messages_of_kafka_are_there() -> None:
    by_module: dict[str, int] = {}
    for name in message_names():
        by_module[schema_of(name).module] = by_module.get(schema_of(name).module, 0) + 1
    assert by_module == {
        "kafka-clients": 9,
        "kafka-raft": 1,
        "kafka-storage": 5,
        "kafka-metadata": 26,
        "kafka-group-coordinator": 44,
        "kafka-transaction-coordinator": 2,
        "kafka-share-coordinator": 4,
    }


@pytest.mark.parametrize(("name", "version"), EVERY_VERSION)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_built_and_parsed_again(name: str, version: int, data: st.DataObject) -> None:
    values = data.draw(values_of(schema_of(name).struct, version))
    built = build_message(name, version, values)
    assert parse_front(name, version, built) == (values, 0)
    write_json(to_json(name, version, values))


@pytest.mark.parametrize(("name", "version"), EVERY_VERSION)
def test_defaults_need_not_be_given(name: str, version: int) -> None:
    default = schema_of(name).struct.default(version)
    assert parse_message(name, version, build_message(name, version, {})) == default
    assert build_message(name, version, default) == build_message(name, version, {})


@pytest.mark.parametrize(("name", "version"), EVERY_VERSION)
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=5, deadline=None)
def test_damage_is_an_error_of_ours_or_other_values(name: str, version: int, data: st.DataObject, seed: int) -> None:
    built = build_message(name, version, data.draw(values_of(schema_of(name).struct, version)))
    cut = [built[:size] for size in range(len(built))]
    for damaged in [*cut, *mutations(seed, built, 10)]:
        with contextlib.suppress(Corrupt, Unsupported):
            write_json(to_json(name, version, parse_message(name, version, damaged)))


@pytest.mark.parametrize("size", range(len(OFFSET_COMMIT_4) - 2))
def test_every_cut_is_noticed(size: int) -> None:
    with pytest.raises(Corrupt):
        parse_message("OffsetCommitValue", 4, OFFSET_COMMIT_4[2:][:size])


# --- what Kafka's reader says, and does not mind ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "data", "kafka_class", "reason"),
    [
        ("TopicRecord", 0, "", "BufferUnderflowException", "the bytes end inside a field"),
        ("TopicRecord", 0, "00", "RuntimeException", "non-nullable field name was serialized as null"),
        ("TopicRecord", 0, "818002", "RuntimeException", "string field name had invalid length 32768"),
        ("TopicRecord", 0, "8080808008", "RuntimeException", "string field name had invalid length 2147483647"),
        (
            "TopicRecord",
            0,
            "ffffffffff",
            "IllegalArgumentException",
            "Varint is too long, the most significant bit in the 5th byte is set, converted value: ffffffff",
        ),
        (
            "TopicRecord",
            0,
            "33616263",
            "RuntimeException",
            "Error reading byte array of 50 byte(s): only 3 byte(s) available",
        ),
        (
            "TransactionLogValue",
            0,
            "0000000000000000 0000 00000000 00 7fffffff 00",
            "RuntimeException",
            "Tried to allocate a collection of size 2147483647, but there are only 1 bytes remaining.",
        ),
        ("NoOpRecord", 0, "01 32 ffffffff0f", "NegativeArraySizeException", "-1"),
        (
            "PartitionChangeRecord",
            0,
            "00000000" + "00" * 16 + "01 08 01 00",
            "RuntimeException",
            "Tag 8 is not valid for version 0",
        ),
        (
            "ConsumerProtocolSubscription",
            0,
            "00000000 00000005 6162",
            "IllegalArgumentException",
            "newLimit > capacity: (5 > 2)",
        ),
        (
            "ConsumerProtocolSubscription",
            7,
            "00000000 ffffffff 00000001 00",
            "UnsupportedVersionException",
            "Can't read version 7 of TopicPartition",
        ),
    ],
)
def test_errors_in_the_words_of_kafka(name: str, version: int, data: str, kafka_class: str, reason: str) -> None:
    with pytest.raises(KlogError) as caught:
        parse_message(name, version, bytes.fromhex(data))
    assert (caught.value.kafka_class, caught.value.reason) == (kafka_class, reason)


def test_bytes_behind_the_message_are_left() -> None:
    assert parse_front("NoOpRecord", 0, b"\x00rest") == ({}, 4)


def test_a_version_out_of_range_is_read_like_the_nearest() -> None:
    data = build_message("OffsetCommitValue", 4, OFFSET_COMMIT_VALUES)
    assert parse_message("OffsetCommitValue", 32767, data) == OFFSET_COMMIT_VALUES


def test_tags_may_repeat_and_lie_about_their_size() -> None:
    data = fields("0000000000000000 00000000 01 0000000000000000", "02", "00 7f" + "11" * 16, "00 00" + "22" * 16)
    assert parse_message("OffsetCommitValue", 4, data)["topicId"] == uuid_text(b"\x22" * 16)


def test_values_that_a_version_has_no_place_for() -> None:
    with pytest.raises(Unsupported, match="Attempted to write a non-default directories at version 0"):
        build_message("PartitionChangeRecord", 0, {"directories": [TOPIC_ID]})
    with pytest.raises(Unsupported, match="Attempted to write a non-default directories at version 0"):
        to_json("PartitionChangeRecord", 0, {"directories": [TOPIC_ID]})
    ignorable = build_message("OffsetCommitValue", 0, {"leaderEpoch": 7})
    assert ignorable == build_message("OffsetCommitValue", 0, {})
    with pytest.raises(Unsupported, match="no version 5"):
        build_message("OffsetCommitValue", 5, {})


@pytest.mark.parametrize(
    "values",
    [
        {"partition": 1 << 31},
        {"partition": None},
        {"group": "x" * 32768},
        {"group": None},
        {"groop": "a misspelled field"},
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"OffsetCommitKey|group"):
        build_message("OffsetCommitKey", 0, values)


def test_unknown_tags_must_be_unknown_and_differ() -> None:
    for tags in ([(50, b""), (50, b"a")], [(0, bytes(16))]):
        with pytest.raises(ValueError, match="unknown tags"):
            build_message("OffsetCommitValue", 4, {UNKNOWN_TAGS: tags})


def test_only_known_types_occur() -> None:
    types = {field.type for name in message_names() for field in every_field(schema_of(name).struct)}
    assert types == {*BITS, "bool", "uint16", "uint32", "float64", "string", "bytes", "uuid", "struct"}


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_json_leaves_out_tagged_defaults() -> None:
    node = to_json("PartitionChangeRecord", 2, PARTITION_CHANGE_VALUES)
    assert node == {"partitionId": 7, "topicId": TOPIC_ID, "isr": [1, 2], "eligibleLeaderReplicas": []}


def test_a_nullable_struct_with_default_is_left_out_but_null_is_not() -> None:
    name, field = "ConsumerGroupMemberMetadataValue", "classicMemberMetadata"
    assert field not in to_json(name, 0, {})
    assert field not in to_json(name, 0, {field: {"sessionTimeoutMs": 0, "supportedProtocols": []}})
    assert to_json(name, 0, {field: None})[field] is None
    assert to_json(name, 0, {field: {"sessionTimeoutMs": 1}})[field] == {
        "sessionTimeoutMs": 1,
        "supportedProtocols": [],
    }


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ({"a": [1, None, True, False, "x"], "b": {}}, '{"a":[1,null,true,false,"x"],"b":{}}'),
        ('\x00\x1f\x0b\b\t\n\f\r"\\/', r'"\u0000\u001F\u000B\b\t\n\f\r\"\\/"'),
        ("\\u001f as text", r'"\\u001f as text"'),
        ("\x7f é € 😀 \u2028", '"\x7f é € 😀 \u2028"'),
        (1.0, "1.0"),
        (2.5e-3, "0.0025"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.5195881379552988e18, "1.51958813795529882E18"),
        (3.42e22, "3.4200000000000002E22"),
        (2.7245057008020193e25, "2.7245057008020192E25"),
        (5e-324, "4.9E-324"),
    ],
)
def test_json_text_is_that_of_jackson(node: Any, text: str) -> None:
    assert write_json(node) == text


def test_doubles_that_are_no_numbers_are_text() -> None:
    quota = to_json("ClientQuotaRecord", 0, {"value": math.nan})
    assert quota["value"] == "NaN"


# --- cost -------------------------------------------------------------------------------------------------------------


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, klogtool.format.internal; print([m for m in ('construct', 'json') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_ten_thousand_offset_commits_in_two_seconds() -> None:
    started = time.process_time()
    for _ in range(10_000):
        parse_coordinator_record(GROUP, OFFSET_COMMIT_KEY, OFFSET_COMMIT_4)
    assert time.process_time() - started < 2


def test_no_thread_makes_the_fields_of_a_type() -> None:
    """msgspec crashes if two threads ask for the fields of a type at the same time: imports have made them all."""
    code = """if True:
        import msgspec._utils
        from klogtool.errors import Corrupt
        from klogtool.format.internal.schema import schema_of
        from klogtool.format.tiered.manifest import parse_manifest

        def refuse(*_):
            raise SystemExit("made while it runs")

        msgspec._utils.get_class_annotations = refuse
        schema_of("VotersRecord")
        try:
            parse_manifest(b"{}")
        except Corrupt:
            pass
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
