"""What a replay of the cluster's metadata refuses, in Kafka's words: tests/kafka compares them with its classes."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kafka.test_metadata_replay_against_kafka import BOUNDS, Maker
from raw_batches import build_batch

from klogtool.broker.metadata import image, known, refusals
from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.broker.metadata.known import Known
from klogtool.broker.metadata.refusals import Refusal, Replay, failures
from klogtool.broker.releases import Release, rules_of
from klogtool.format.batch import Record
from klogtool.format.internal.records import METADATA, build_metadata_record, parse_metadata_record
from klogtool.format.internal.schema import api_keys
from klogtool.format.kraft_snapshot import build_snapshot
from klogtool.format.uuids import build_uuid

T, U = build_uuid(bytes([1]) * 16), build_uuid(bytes([2]) * 16)
D = build_uuid(bytes([9]) * 16)
Told = tuple[str, dict[str, Any]]
BEGIN: Told = ("BeginTransactionRecord", {})
ABORT: Told = ("AbortTransactionRecord", {})


def topic(name: str = "t", topic_id: str = T) -> Told:
    return "TopicRecord", {"name": name, "topicId": topic_id}


def partition(topic_id: str = T, **more: Any) -> Told:
    of = {"partitionId": 0, "topicId": topic_id, "replicas": [1], "isr": [1], "leader": 1, "directories": [D]}
    return "PartitionRecord", of | more


def change(topic_id: str = T, **more: Any) -> Told:
    return "PartitionChangeRecord", {"partitionId": 0, "topicId": topic_id, **more}


def registered(broker: int = 1, epoch: int = 5, directory: str = D) -> Told:
    of = {"brokerId": broker, "brokerEpoch": epoch, "incarnationId": T, "endPoints": [], "logDirs": [directory]}
    return "RegisterBrokerRecord", of


def controller(node_id: int) -> Told:
    return "RegisterControllerRecord", {"controllerId": node_id, "incarnationId": T}


VERSIONS = {"PartitionRecord": 1, "PartitionChangeRecord": 1, "RegisterBrokerRecord": 3}


def values(told: list[Told]) -> list[bytes]:
    return [build_metadata_record(name, VERSIONS.get(name, 0), fields) for name, fields in told]


def log_of(folder: Path, records: list[bytes]) -> str:
    batches = (build_batch([Record(n, 0, None, value)]) for n, value in enumerate(records))
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    return str(folder)


def refused(folder: str, release: Release = "4.3.1") -> dict[Replay, Refusal]:
    return {found.by: found for found in read_cluster_metadata(folder, rules_of(release)).refusals}


SOUND: list[list[Told]] = [
    [topic(), partition(), change(leader=-1), ("RemoveTopicRecord", {"topicId": T}), topic(topic_id=U)],
    [registered(), ("UnfenceBrokerRecord", {"id": 1, "epoch": 5}), registered(epoch=6)],
    [BEGIN, topic(), ABORT, topic()],  # what was aborted is not known
]
# Records, the last of which is refused: by the image, by the controller (None: not by it).
WRONG: list[tuple[list[Told], tuple[str, str] | None, tuple[str, str] | None]] = [
    (
        [registered(epoch=16), ("BrokerRegistrationChangeRecord", {"brokerId": 1, "brokerEpoch": 15})],
        (
            "IllegalStateException",
            "Tried to change broker 1, but the given epoch, 15, did not match the current broker epoch, 16",
        ),
        ("RuntimeException", "no broker registration with that epoch found"),
    ),
    (
        [("FenceBrokerRecord", {"id": 7, "epoch": 1})],
        ("IllegalStateException", "Tried to fence broker 7, but that broker was not registered."),
        ("RuntimeException", "Unable to replay FenceBrokerRecord(id=7, epoch=1): no broker registration found"),
    ),
    ([topic(), topic()], None, ("RuntimeException", f"Found duplicate TopicRecord for t with topic ID {T}")),
    ([topic(), topic(topic_id=U)], None, ("RuntimeException", f"Previous ID was {T} and new ID is {U}")),
    (
        [partition()],
        ("NullPointerException", "TopicImage.partitions()"),
        ("RuntimeException", f"Tried to create partition {T}:0, but no topic with that ID was found."),
    ),
    (
        [topic(), change()],
        ("RuntimeException", f"Unable to find partition {T}:0"),
        ("RuntimeException", f"Tried to create partition {T}:0, but no partition with that id was found."),
    ),
    (
        [topic(), partition(directories=[D, U])],
        ("InvalidReplicaDirectoriesException", "do not match: PartitionRecord(partitionId=0, "),
        ("InvalidReplicaDirectoriesException", "do not match"),
    ),
    (
        [topic(), partition(), change(replicas=[1, 2])],
        ("IllegalArgumentException", "The lengths for replicas and directories do not match."),
        ("IllegalArgumentException", "The lengths for replicas and directories do not match."),
    ),
    (
        [("RemoveTopicRecord", {"topicId": T})],
        ("RuntimeException", f"Unable to delete topic with id {T}: no such topic found."),
        ("UnknownTopicIdException", f"Can't find topic with ID {T} to remove."),
    ),
    # The disk of another broker was copied to this one.
    (
        [registered(1), registered(2)],
        None,
        ("IllegalStateException", f"BUG: directory {D} already assigned to broker 1"),
    ),
    (
        [("RemoveAccessControlEntryRecord", {"id": T})],
        ("IllegalStateException", f"Failed to find existing ACL with ID {T} in either image or changes"),
        ("RuntimeException", "no acl with that ID found."),
    ),
    (
        [BEGIN, BEGIN],
        ("RuntimeException", "Encountered BeginTransactionRecord while already in a transaction"),
        (
            "RuntimeException",
            "a BeginTransactionRecord at 1 because the transaction at 0 was never closed.",
        ),
    ),
    (
        [("FeatureLevelRecord", {"name": "share.version", "featureLevel": 2})],
        None,
        ("RuntimeException", "but this controller only supports versions 0-1"),
    ),
]


@pytest.mark.parametrize("told", SOUND)
def test_what_fits_is_not_refused(told: list[Told], tmp_path: Path) -> None:
    assert refused(log_of(tmp_path, values(told))) == {}


@pytest.mark.parametrize(("told", "image", "control"), WRONG)
def test_the_first_refusal_of_each_replay(
    told: list[Told], image: tuple[str, str] | None, control: tuple[str, str] | None, tmp_path: Path
) -> None:
    found = refused(log_of(tmp_path, values([*told, topic("later", D)])))
    for replay, expected in ((Replay.IMAGE, image), (Replay.CONTROLLER, control)):
        if expected is None:
            assert replay not in found
            continue
        assert (found[replay].offset, found[replay].record) == (len(told) - 1, told[-1][0])
        assert found[replay].kafka_class == expected[0]
        assert expected[1] in found[replay].message


@pytest.mark.parametrize(("told", "image", "control"), WRONG)
def test_a_snapshot_is_replayed_in_the_same_way(told: list[Told], image: Any, control: Any, tmp_path: Path) -> None:
    data = b"".join(build_snapshot(values(told), epoch=1, timestamp_ms=0))
    (tmp_path / "00000000000000000100-0000000001.checkpoint").write_bytes(data)
    found = refused(str(tmp_path))
    assert (Replay.IMAGE in found, Replay.CONTROLLER in found) >= (image is not None, control is not None)
    assert all(refusal.offset is None and refusal.index is not None for refusal in found.values())


@pytest.mark.parametrize("value", [b"\x01\x3c\x00", b"\x00", b"\x01\x02\x00\x05"])
def test_what_cannot_be_read_is_refused_by_both(value: bytes, tmp_path: Path) -> None:
    found = refused(log_of(tmp_path, [*values([topic()]), value]))
    assert {refusal.kafka_class for refusal in found.values()} == {"MetadataParseException"}
    assert [refusal.offset for refusal in found.values()] == [1, 1]


@pytest.mark.parametrize(("release", "is_refused"), [("3.9.2", True), ("4.3.1", False), ("4.4.0", False)])
def test_a_record_that_a_release_does_not_know(release: Release, is_refused: bool, tmp_path: Path) -> None:
    told = [topic(), ("ClearElrRecord", {"topicName": "t"})]
    assert bool(refused(log_of(tmp_path, values(told)), release)) is is_refused


@pytest.mark.parametrize("seed", range(40))
def test_an_aborted_transaction_leaves_nothing_behind(seed: int) -> None:
    """Over random records, of which some remove what was there before, and some what the transaction has made."""
    made, kept, aborted = Maker(seed), Known(), Known()
    for n in range(200):
        is_aborted = n % 8 > 3
        if n % 8 == 4:
            aborted.begin(n)
        name, version, fields = made.record()
        message = parse_metadata_record(METADATA, build_metadata_record(name, version, fields))
        if not is_aborted and not any(failures(kept, message, rules_of("4.3.1"))):
            kept.learn(message)
        if name not in BOUNDS and not any(failures(aborted, message, rules_of("4.3.1"))):
            aborted.learn(message)
        if n % 8 == 7:
            aborted.end(is_aborted=True)
            assert aborted == kept


def test_who_may_be_a_controller(tmp_path: Path) -> None:
    metadata = read_cluster_metadata(log_of(tmp_path, values([registered(1), registered(4, 5, U), controller(1)])))
    assert [metadata.may_be_controller(node) for node in (1, 4, 9, None)] == [True, False, True, True]


# No replay refuses them, whatever they have, and no other record depends on them.
NEVER_REFUSED = {"ClientQuotaRecord", "NoOpRecord", "RemoveDelegationTokenRecord"}


def test_each_metadata_record_of_the_schemas_is_looked_at() -> None:
    """A record that a new release has needs a case: what refuses it, and what it teaches."""
    bounds = {image._BEGIN, image._END, image._ABORT}
    cases = {*cases_of(refusals), *cases_of(known)}
    names = set(api_keys(METADATA, "metadata", of_4_4=True).values())
    assert names - bounds - cases == NEVER_REFUSED
    assert cases < names


def cases_of(module: ModuleType) -> set[str]:
    """The texts that the `case`s of a module name."""
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    patterns = (part for node in nodes if isinstance(node, ast.match_case) for part in ast.walk(node.pattern))
    return {part.value for part in patterns if isinstance(part, ast.Constant)}
