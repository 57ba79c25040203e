"""meta.properties, partition.metadata, .kafka_cleanshutdown, quorum-state, ids: as brokers write and read them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusal import kafka_class_of

from klogtool.errors import Corrupt
from klogtool.format.identity import (
    CleanShutdown,
    MetaProperties,
    PartitionMetadata,
    QuorumState,
    build_clean_shutdown,
    build_meta_properties,
    build_partition_metadata,
    build_quorum_state,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)
from klogtool.format.uuids import METADATA_TOPIC_ID, ZERO_UUID, build_uuid, is_reserved_directory_id, parse_uuid

EXCEPTIONS = (
    "RuntimeException",
    "IllegalArgumentException",
    "IllegalStateException",
    "KafkaStorageException",
    "NullPointerException",
    "NumberFormatException",
    "UncheckedIOException",
    "UnsupportedVersionException",
)
UUID = bytes.fromhex("0000000000000001 0000000000000002")
UUID_TEXT = "AAAAAAAAAAEAAAAAAAAAAg"
uuids = st.binary(min_size=16, max_size=16)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
ints = st.integers(-(1 << 31), (1 << 31) - 1)


# Ids.


def test_uuid_vector() -> None:
    assert build_uuid(UUID) == UUID_TEXT
    assert parse_uuid(UUID_TEXT) == parse_uuid(UUID_TEXT + "==") == UUID
    assert parse_uuid("AAAAAAAAAAEAAAAAAAAAAh") == UUID  # the last four bits are not looked at


@given(uuids)
def test_uuid_round_trip(uuid: bytes) -> None:
    assert parse_uuid(build_uuid(uuid)) == uuid
    assert len(build_uuid(uuid)) == 22


@pytest.mark.parametrize(
    "text", ["", "abc", UUID_TEXT[:-1], UUID_TEXT + "=", UUID_TEXT + "A", "+" + UUID_TEXT[1:], "A" * 25]
)
def test_refused_uuids(text: str) -> None:
    with pytest.raises(Corrupt) as found:
        parse_uuid(text)
    assert found.value.kafka_class == "IllegalArgumentException"


@pytest.mark.parametrize(
    ("uuid", "reserved"),
    [
        (ZERO_UUID, True),
        (METADATA_TOPIC_ID, True),
        (bytes(15) + b"\x63", True),
        (bytes(15) + b"\x64", False),
        (bytes(8) + b"\xff" * 8, True),  # the lower half is signed
        (UUID, False),
    ],
)
def test_reserved_directory_ids(uuid: bytes, reserved: bool) -> None:
    assert is_reserved_directory_id(uuid) is reserved


# meta.properties

META_V0 = b"""#
#Thu Aug 17 10:00:00 UTC 2023
broker.id=1
directory.id=AAAAAAAAAAEAAAAAAAAAAg
version=0
cluster.id=abc\\=
"""
META_V1 = b"""#
#Thu Aug 17 10:00:00 UTC 2023
node.id=1
directory.id=AAAAAAAAAAEAAAAAAAAAAg
version=1
cluster.id=abc
"""


@pytest.mark.parametrize(
    ("text", "identity"),
    [(META_V0, MetaProperties(0, "abc=", 1, UUID)), (META_V1, MetaProperties(1, "abc", 1, UUID))],
)
def test_meta_properties_vectors(text: bytes, identity: MetaProperties) -> None:
    assert parse_meta_properties(text) == identity
    assert build_meta_properties(identity, date="Thu Aug 17 10:00:00 UTC 2023") == text


@pytest.mark.slow
@given(st.none() | st.text(), st.none() | ints, st.none() | uuids)
def test_meta_properties_round_trip(cluster_id: str | None, node_id: int | None, directory_id: bytes | None) -> None:
    identity = MetaProperties(0, cluster_id, node_id, directory_id)
    assert parse_meta_properties(build_meta_properties(identity)) == identity
    kraft = MetaProperties(1, cluster_id or "", node_id or 0, directory_id)
    assert parse_meta_properties(build_meta_properties(kraft)) == kraft


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        (b"", MetaProperties(0, None, None, None)),
        (b"broker.id=-1", MetaProperties(0, None, -1, None)),
        (b"node.id=x\nversion= 0 ", MetaProperties(0, None, None, None)),
        (b"version=1\nnode.id=2\ncluster.id=\nbroker.id=x", MetaProperties(1, "", 2, None)),
        (b"directory.id=AAAAAAAAAAAAAAAAAAAAAA", MetaProperties(0, None, None, ZERO_UUID)),
    ],
)
def test_accepted_meta_properties(text: bytes, identity: MetaProperties) -> None:
    assert parse_meta_properties(text) == identity


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"version=2", "Unknown meta.properties version number 2"),
        (b"version=x", "Invalid meta.properties version string 'x'"),
        (b"version=1\ncluster.id=a", "Failed to find node.id"),
        (b"version=1\nnode.id=1", "cluster.id was not found."),
        (b"version=1\nnode.id=1 \ncluster.id=a", "Unable to read node.id as a base-10 number."),
        (b"broker.id=", "Unable to read broker.id as a base-10 number."),
        (b"directory.id=abc", "Unable to read directory.id as a Uuid: "),
    ],
)
def test_refused_meta_properties(text: bytes, reason: str) -> None:
    with pytest.raises(Corrupt) as found:
        parse_meta_properties(text)
    assert found.value.kafka_class == "RuntimeException"
    assert found.value.reason.startswith(reason)


# partition.metadata


def test_partition_metadata_vector() -> None:
    text = b"version: 0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg"
    assert parse_partition_metadata(text) == PartitionMetadata(0, UUID)
    assert build_partition_metadata(PartitionMetadata(0, UUID)) == text


@given(st.integers(0, (1 << 31) - 1), uuids.filter(any))
def test_partition_metadata_round_trip(version: int, topic_id: bytes) -> None:
    metadata = PartitionMetadata(version, topic_id)
    assert parse_partition_metadata(build_partition_metadata(metadata)) == metadata


@pytest.mark.parametrize(
    "text",
    [
        b"version: 0\r\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg\r\nmore\n",
        b"x:\t \x0b0\n:  AAAAAAAAAAEAAAAAAAAAAg==",
        b": 0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg: ",
    ],
)
def test_accepted_partition_metadata(text: bytes) -> None:
    assert parse_partition_metadata(text) == PartitionMetadata(0, UUID)


@pytest.mark.parametrize(
    ("text", "kafka_class"),
    [
        (b"", "NullPointerException"),
        (b"version: 0", "NullPointerException"),
        (b"version: 0\n", "NullPointerException"),
        (b"\n", "KafkaStorageException"),
        (b"version:0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg", "KafkaStorageException"),
        (b"version: x\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg", "KafkaStorageException"),
        (b"version: -1\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg", "KafkaStorageException"),
        (b"version: 0\n\n", "KafkaStorageException"),
        (b"version: 0\ntopic_id: ", "KafkaStorageException"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "KafkaStorageException"),
        (b"version: 0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg ", "IllegalArgumentException"),
        (b"version: 0\ntopic_id: abc", "IllegalArgumentException"),
        (b"version: 0\ntopic_id: \xff", "KafkaStorageException"),
    ],
)
def test_refused_partition_metadata(text: bytes, kafka_class: str) -> None:
    with pytest.raises(Corrupt) as found:
        parse_partition_metadata(text)
    assert found.value.kafka_class == kafka_class


# .kafka_cleanshutdown


def test_clean_shutdown_vectors() -> None:
    text = b'{"version":0,"brokerEpoch":12}'
    assert parse_clean_shutdown(text) == CleanShutdown(0, 12)
    assert build_clean_shutdown(CleanShutdown(0, 12)) == text
    assert parse_clean_shutdown(b"") == CleanShutdown(None, None)
    assert build_clean_shutdown(CleanShutdown(None, None)) == b""


@given(ints, longs)
def test_clean_shutdown_round_trip(version: int, broker_epoch: int) -> None:
    shutdown = CleanShutdown(version, broker_epoch)
    assert parse_clean_shutdown(build_clean_shutdown(shutdown)) == shutdown


@pytest.mark.parametrize(
    ("text", "broker_epoch"),
    [
        ('{"brokerEpoch":12,"unknown":[1]} and more', 12),
        ('{"version":null,"brokerEpoch":" 12 "}', 12),
        ('{"version":"","brokerEpoch":-1.9e0}', -1),
        ('{"version":0}', None),
        ('{"version":true,"brokerEpoch":12}', None),
        ('{"brokerEpoch":"1.5"}', None),
        ('{"brokerEpoch":9223372036854775808}', None),
        ('{"brokerEpoch":1e999}', None),
        ('{"brokerEpoch":NaN}', None),
        ('{"version":2147483648,"brokerEpoch":1}', None),
        ("[12]", None),
        ("12", None),
        ("{", None),
        ('{"x":' + "[" * 100_000, None),
        ('{"brokerEpoch":' + "9" * 10_000 + "}", None),
    ],
)
def test_what_a_clean_shutdown_file_may_hold(text: str, broker_epoch: int | None) -> None:
    assert parse_clean_shutdown(text.encode()).broker_epoch == broker_epoch


# quorum-state

QUORUM_V0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
QUORUM_V1 = b'{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"AAAAAAAAAAEAAAAAAAAAAg","data_version":1}'


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (QUORUM_V0, QuorumState(0, leader_id=1, leader_epoch=1, voted_id=-1, current_voters=(1,))),
        (QUORUM_V1, QuorumState(1, leader_id=-1, leader_epoch=2, voted_id=1, voted_directory_id=UUID)),
    ],
)
def test_quorum_state_vectors(text: bytes, state: QuorumState) -> None:
    assert parse_quorum_state(text) == state
    assert parse_quorum_state(text + b" or anything\nmore") == state
    assert build_quorum_state(state) == text


@given(
    st.builds(
        QuorumState, st.just(0), ints, ints, ints, st.just(ZERO_UUID), st.text(), longs, st.lists(ints).map(tuple)
    )
    | st.builds(QuorumState, st.just(1), ints, ints, ints, uuids)
)
def test_quorum_state_round_trip(state: QuorumState) -> None:
    assert parse_quorum_state(build_quorum_state(state)) == state


@pytest.mark.parametrize(
    ("version_as_written", "version"),
    [("0", 0), ("1", 1), ("65536", 0), ("65537", 1), ("1.9", 1), ('"x"', 0), ("null", 0)],
)
def test_data_version_is_a_java_short(version_as_written: str, version: int) -> None:
    fields = (
        QUORUM_V0.removesuffix(b"0}")
        + version_as_written.encode()
        + b',"votedDirectoryId":"'
        + UUID_TEXT.encode()
        + b'"}'
    )
    if version == 1:
        fields = fields.replace(b'{"voterId":1}', b"")
    assert parse_quorum_state(fields).data_version == version


def quorum(**changes: object) -> bytes:
    fields = json.loads(QUORUM_V0) | changes
    return json.dumps({name: value for name, value in fields.items() if value != "absent"}).encode()


@pytest.mark.parametrize(
    ("text", "kafka_class"),
    [
        (b"", "UncheckedIOException"),
        (b"\n" + QUORUM_V0, "UncheckedIOException"),
        (b"[]", "UncheckedIOException"),
        (b"{}", "UncheckedIOException"),
        (QUORUM_V0[:-1], "UncheckedIOException"),
        (b"\xef\xbb\xbf" + QUORUM_V0, "UncheckedIOException"),
        (b"\xff" + QUORUM_V0, "UncheckedIOException"),
        (quorum(data_version=2), "IllegalStateException"),
        (quorum(data_version=-1), "IllegalStateException"),
        (quorum(data_version=1e30), "IllegalStateException"),
        (quorum(clusterId="absent"), "RuntimeException"),
        (quorum(clusterId=5), "RuntimeException"),
        (quorum(leaderId="absent"), "RuntimeException"),
        (quorum(leaderId="1"), "NumberFormatException"),
        (quorum(leaderId=1.0), "NumberFormatException"),
        (quorum(leaderId=True), "NumberFormatException"),
        (quorum(leaderId=1 << 31), "NumberFormatException"),
        (quorum(appliedOffset=1 << 63), "NumberFormatException"),
        (quorum(votedDirectoryId="abc"), "IllegalArgumentException"),
        (quorum(votedDirectoryId=None), "RuntimeException"),
        (quorum(currentVoters=None), "NullPointerException"),
        (quorum(currentVoters={}), "RuntimeException"),
        (quorum(currentVoters=[1]), "RuntimeException"),
        (quorum(currentVoters=[{"voterId": None}]), "NumberFormatException"),
        (quorum(data_version=1), "RuntimeException"),
        (quorum(data_version=1, votedDirectoryId=UUID_TEXT), "UnsupportedVersionException"),
    ],
)
def test_refused_quorum_states(text: bytes, kafka_class: str) -> None:
    with pytest.raises(Corrupt) as found:
        parse_quorum_state(text)
    assert found.value.kafka_class == kafka_class


@given(st.binary(max_size=60), st.integers(0, 200))
def test_any_bytes(noise: bytes, at: int) -> None:
    """Nothing but Corrupt comes of noise, whole, inside or instead of the end of a sound file."""
    for sound, parse in (
        (META_V1, parse_meta_properties),
        (build_partition_metadata(PartitionMetadata(0, UUID)), parse_partition_metadata),
        (b'{"version":0,"brokerEpoch":12}', parse_clean_shutdown),
        (QUORUM_V0, parse_quorum_state),
        (QUORUM_V1, parse_quorum_state),
    ):
        for data in (noise, sound[:at] + noise, sound[:at] + noise + sound[at:], sound[:at]):
            assert kafka_class_of(parse, data) in (None, *EXCEPTIONS)
