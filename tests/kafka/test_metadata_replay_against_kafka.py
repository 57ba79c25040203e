"""What klogtool says that a replay of `__cluster_metadata` refuses, compared with Kafka's own classes, release by
release: MetadataDelta with MetadataBatchLoader, and the control managers of a QuorumController."""

from __future__ import annotations

import os
import pathlib
import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from raw_batches import build_batch

from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.broker.metadata.known import Known
from klogtool.broker.metadata.refusals import Refusal, Replay, failures
from klogtool.broker.releases import Release, Rules, rules_of
from klogtool.format.batch import Record
from klogtool.format.internal.records import METADATA, build_metadata_record, parse_metadata_record
from klogtool.format.kraft_snapshot import build_snapshot
from klogtool.format.uuids import build_uuid
from klogtool.log.partition import Partition

from .beside import SHARED
from .brokers import fetched
from .kafka import BRIEF_JVM

pytestmark = pytest.mark.kafka
SOURCE = pathlib.Path(__file__).with_name("ReplayMetadata.java")
CLASS = "org.apache.kafka.controller.ReplayMetadata"
SEQUENCES, RECORDS = 300, 60
RELEASES: tuple[Release, ...] = ("4.3.1", "3.9.2", "4.4.0")
TOPICS = [build_uuid(bytes([n]) * 16) for n in range(1, 5)]
ACLS = [build_uuid(bytes([100 + n]) * 16) for n in range(3)]
DIRECTORIES = [build_uuid(bytes([50 + n]) * 16) for n in range(3)]
MIGRATING = build_uuid(bytes(16))


BOUNDS = ("BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord")
# An unknown type, no frame, a torn TopicRecord, an UnregisterControllerRecord (4.4.0), a torn ClearElrRecord, a broker
# as 4.3 registers it.
UNREADABLE = (
    b"\x01\x3c\x00",
    b"\x00",
    b"\x01\x02\x00\x05",
    b"\x01\x1d\x00\x00\x00\x00\x01\x00",
    b"\x01\x1c\x00\x05",
    build_metadata_record("RegisterBrokerRecord", 4, {"features": [{"name": "x.version", "minSupportedVersion": 0}]}),
)


class Maker:
    """Makes records that are often right: of few topics, brokers and epochs. Wrong ones come by chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *weighted: Any) -> Any:
        return self.random.choice(weighted)

    def record(self) -> tuple[str, int, dict[str, Any]]:
        name, version, make = self.pick(*KINDS)
        return name, version, make(self)

    def rare(self, usual: Any, other: Any) -> Any:
        return other if self.random.random() < 0.04 else usual

    def directories(self, replicas: list[int]) -> list[str]:
        count = self.rare(len(replicas), self.pick(0, 1, 3))
        return [self.pick(MIGRATING, *DIRECTORIES) for _ in range(count)]

    def replicas(self) -> list[int]:
        return list(range(self.pick(1, 2, 3)))


def _topic(m: Maker) -> dict[str, Any]:
    n = m.pick(*range(4))
    return {"name": f"t{m.rare(n, m.pick(0, 1))}", "topicId": TOPICS[n]}


def _partition(m: Maker) -> dict[str, Any]:
    replicas = m.replicas()
    return {
        "partitionId": m.pick(0, 1),
        "topicId": m.pick(*TOPICS),
        "replicas": replicas,
        "isr": replicas,
        "leader": 0,
        "leaderEpoch": 0,
        "partitionEpoch": 0,
        "leaderRecoveryState": m.rare(m.pick(0, 1), 7),
        "directories": m.directories(replicas),
        "eligibleLeaderReplicas": m.pick(None, [1]),
    }


def _change(m: Maker) -> dict[str, Any]:
    values: dict[str, Any] = {"partitionId": m.pick(0, 1), "topicId": m.pick(*TOPICS)}
    values["leaderRecoveryState"] = m.rare(m.pick(-1, 0, 1), 9)
    values["replicas"] = m.pick(None, None, m.replicas())
    values["directories"] = m.pick(None, m.directories(values["replicas"] or [1]))
    values["leader"] = m.pick(-2, 0, 1)
    return values


def _listeners(m: Maker) -> list[dict[str, Any]]:
    named = {"name": m.rare("PLAINTEXT", ""), "host": "h", "port": 9, "securityProtocol": m.rare(0, m.pick(1, 3, 9))}
    return [named]


def _register(m: Maker) -> dict[str, Any]:
    n = m.pick(0, 1, 2)
    return {
        "brokerId": n,
        "brokerEpoch": m.pick(5, 6),
        "incarnationId": TOPICS[0],
        "endPoints": _listeners(m),
        "logDirs": m.rare([], [DIRECTORIES[0]]) or m.rare([], [DIRECTORIES[1]] * 2) or [DIRECTORIES[n]],
    }


def _registration_change(m: Maker) -> dict[str, Any]:
    fenced, stopping = m.rare(m.pick(-1, 0, 1), 2), m.rare(m.pick(0, 1), m.pick(2, -1))
    of = {"brokerId": m.pick(0, 1, 2), "brokerEpoch": m.pick(5, 6)}
    return of | {"fenced": fenced, "inControlledShutdown": stopping, "logDirs": m.pick([], m.rare([], DIRECTORIES))}


def _acl(m: Maker) -> dict[str, Any]:
    return {
        "id": m.pick(*ACLS),
        "resourceType": 2,
        "resourceName": m.pick("a", "b", "c", "d", "e"),
        "patternType": 3,
        "principal": "User:x",
        "host": "*",
        "operation": 3,
        "permissionType": 3,
    }


def _credential(m: Maker) -> dict[str, Any]:
    mechanism = m.pick(1, 2)
    return {"name": m.pick("u", "v"), "mechanism": mechanism, "salt": b"s", "storedKey": b"k", "serverKey": b"s"}


def _token(m: Maker) -> dict[str, Any]:
    users = [m.rare("User:x", "nobody") for _ in range(3)]
    return {"owner": users[0], "requester": users[1], "renewers": users[2:], "tokenId": "t"}


def _feature(m: Maker) -> dict[str, Any]:
    name = m.pick("metadata.version", "kraft.version", "group.version", "share.version", "streams.version", "x.version")
    return {
        "name": name,
        "featureLevel": m.pick(0, 1, 2) if name != "metadata.version" else m.pick(21, 10, 31, 33, 6, -1),
    }


def _setting(m: Maker) -> dict[str, Any]:
    kind = m.pick(2, 4)
    return {"resourceType": kind, "resourceName": m.rare("1", "x"), "name": "a", "value": m.pick(None, "v")}


# Kinds of records, each as often as it stands here.
KINDS: list[tuple[str, int, Any]] = [
    *[("TopicRecord", 0, _topic)] * 6,
    *[("PartitionRecord", 2, _partition)] * 8,
    *[("PartitionChangeRecord", 2, _change)] * 4,
    ("RemoveTopicRecord", 0, lambda m: {"topicId": m.pick(*TOPICS)}),
    ("ClearElrRecord", 0, lambda m: {"topicName": m.pick("", "t0", "t1")}),
    *[("RegisterBrokerRecord", 3, _register)] * 8,
    ("UnregisterBrokerRecord", 0, lambda m: {"brokerId": m.pick(0, 1), "brokerEpoch": m.pick(5, 6)}),
    (
        "RegisterControllerRecord",
        0,
        lambda m: {"controllerId": 1, "incarnationId": TOPICS[0], "endPoints": _listeners(m)},
    ),
    ("FenceBrokerRecord", 0, lambda m: {"id": m.pick(0, 1, 2), "epoch": m.pick(5, 6)}),
    ("UnfenceBrokerRecord", 0, lambda m: {"id": m.pick(0, 1, 2), "epoch": m.pick(5, 6)}),
    ("BrokerRegistrationChangeRecord", 2, _registration_change),
    ("FeatureLevelRecord", 0, _feature),
    ("ConfigRecord", 0, _setting),
    *[("AccessControlEntryRecord", 0, _acl)] * 3,
    ("RemoveAccessControlEntryRecord", 0, lambda m: {"id": m.pick(*ACLS)}),
    *[("UserScramCredentialRecord", 0, _credential)] * 2,
    ("RemoveUserScramCredentialRecord", 0, lambda m: {"name": m.pick("u", "v"), "mechanism": m.pick(1, 2)}),
    ("DelegationTokenRecord", 0, _token),
    ("RemoveDelegationTokenRecord", 0, lambda m: {"tokenId": "t"}),
    ("ProducerIdsRecord", 0, lambda m: {"brokerId": 1, "brokerEpoch": 5, "nextProducerId": m.random.randrange(90000)}),
    (
        "ClientQuotaRecord",
        0,
        lambda m: {"entity": [{"entityType": "user", "entityName": "u"}], "key": "k", "value": 1.0},
    ),
    ("NoOpRecord", 0, lambda m: {}),
    ("ZkMigrationStateRecord", 0, lambda m: {"zkMigrationState": m.rare(m.pick(0, 1, 2, 3, 4), m.pick(-1, 5))}),
    *[(name, 0, lambda m: {}) for name in BOUNDS],
]


def _values(seed: int, rules: Rules) -> list[bytes]:
    """Return records of which most follow from those before; each other one has a small chance to stay."""
    made, known, values = Maker(seed), Known(), []
    while len(values) < RECORDS:
        name, version, fields = made.record()
        value = build_metadata_record(name, version, fields)
        message = parse_metadata_record(METADATA, value)
        is_bound = name in BOUNDS
        if is_bound or any(failures(known, message, rules)):
            if made.random.random() < 0.1:
                values.append(value)
            continue
        known.learn(message)
        values.append(value)
    if seed % 10 == 0:
        values[made.random.randrange(RECORDS)] = made.pick(*UNREADABLE)
    return values


def _is_snapshot(seed: int) -> bool:
    return seed % 4 == 3


def _kafkas_answers(
    version: str, sequences: list[list[bytes]], work: pathlib.Path, *, may_be_snapshots: bool = True
) -> Iterator[list[tuple[str, str]]]:
    """Yield, for each sequence, what Kafka's image and controller say of each record."""
    broker = fetched(version)
    jars = f"{broker.cache_home() / version / 'jars'}/*"
    subprocess.run(["javac", "-nowarn", "-proc:none", "-d", work, "-cp", jars, SOURCE], check=True, capture_output=True)
    lines = [
        line
        for seed, values in enumerate(sequences)
        for line in (
            "SNAPSHOT" if may_be_snapshots and _is_snapshot(seed) else "LOG",
            *(value.hex() or "00" for value in values),
        )
    ]
    done = subprocess.run(
        ["java", *BRIEF_JVM, "-cp", f"{work}{os.pathsep}{jars}", CLASS],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    answers = iter(
        [line for line in done.stdout.split("\n") if re.fullmatch(r"(ok|after|[0-9a-f]+) (ok|after|[0-9a-f]+)", line)]
    )
    for values in sequences:
        yield [_said(next(answers)) for _ in values]


def _said(line: str) -> tuple[str, str]:
    image, controller = (word if word in ("ok", "after") else bytes.fromhex(word).decode() for word in line.split())
    return image, controller


def _first(answers: list[tuple[str, str]], column: int) -> tuple[int, str, str] | None:
    """Return where a replay of Kafka first refused, the class and the message."""
    for n, both in enumerate(answers):
        if both[column] not in ("ok", "after"):
            kind, _, message = both[column].partition("\t")
            return n, kind, _plain(message)
    return None


def _plain(message: str) -> str:
    """Without what a release does not print, or what klogtool does not know."""
    message = re.sub(r", cordonedLogDirs=[^)]*", "", message)
    return re.sub(r" for (its content|StandardAcl\(.*\)): acl not", ": acl not", message)


def _ours(found: Refusal | None) -> tuple[int, str, str] | None:
    if found is None:
        return None
    at = found.offset if found.offset is not None else found.index
    assert at is not None
    return at, found.kafka_class, _plain(found.message)


def _written(folder: pathlib.Path, values: list[bytes], *, as_snapshot: bool) -> pathlib.Path:
    folder.mkdir()
    if as_snapshot:
        data = b"".join(build_snapshot(values, epoch=1, timestamp_ms=0))
        (folder / "00000000000000001000-0000000001.checkpoint").write_bytes(data)
    else:
        batches = [build_batch([Record(n, 0, None, value)]) for n, value in enumerate(values)]
        (folder / "00000000000000000000.log").write_bytes(b"".join(batches))
    return folder


def _is_late(ours: tuple[int, str, str] | None) -> bool:
    """Return whether a record is of an unknown topic. When Kafka's image notices that depends on how many records it
    takes at once, so on time; its controller says it at the record, which is compared in any case."""
    return ours is not None and (ours[1] == "NullPointerException" or ours[2].startswith("Unable to delete topic"))


def _logs_beside() -> list[list[bytes]]:
    """The records of real metadata logs."""
    logs = []
    for path in sorted((SHARED / "corpus").glob("*-metadata/logdir/__cluster_metadata-0")):
        batches = [batch for segment in Partition(str(path)).segments for batch in segment.batches()]
        logs.append([record.value or b"" for batch in batches if not batch.is_control for record in batch.records()])
    if not logs:
        pytest.skip("no ../shared/corpus/*-metadata beside the project")
    return logs


def _changed_log(chance: random.Random, log: list[bytes]) -> list[bytes]:
    """Return a log in which one record is gone, stands twice or elsewhere, or has another bit or another field."""
    values = list(log)
    at = chance.randrange(len(values))
    match chance.choice(("gone", "twice", "moved", "bit", "field", "field", "field", "field")):
        case "gone":
            del values[at]
        case "twice":
            values.insert(chance.randrange(len(values)), values[at])
        case "moved":
            values.insert(chance.randrange(len(values)), values.pop(at))
        case "bit":
            flipped = bytearray(values[at])
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
            values[at] = bytes(flipped)
        case _:
            values[at] = _with_another_field(chance, values[at])
    return values


def _with_another_field(chance: random.Random, value: bytes) -> bytes:
    """Return a record in which a number, a text, a truth or a list is another one."""
    message = parse_metadata_record(METADATA, value)
    changes = [
        (name, other)
        for name, old in message.values.items()
        for kind, others in ((bool, [old is False]), (int, [-1, 0, 1, 2, 5, 7, 127]), (str, ["", "x"]), (list, [[]]))
        if type(old) is kind
        for other in (*others, *([old[:-1], old + old[:1]] if kind is list and name != "isr" else ()))
    ]
    name, other = chance.choice(changes or [("", None)])
    with suppress(Exception):  # a text that is no UUID, a number that the field has no room for
        return build_metadata_record(message.name, message.version, {**message.values, name: other})
    return value


@pytest.mark.parametrize("release", RELEASES)
def test_a_change_of_a_real_log_is_refused_as_by_kafka(release: Release, tmp_path: pathlib.Path) -> None:
    logs = _logs_beside()
    sequences = [_changed_log(random.Random(seed), logs[seed % len(logs)]) for seed in range(SEQUENCES)]
    answers = _kafkas_answers(release, sequences, tmp_path / "classes", may_be_snapshots=False)
    refused = 0
    for seed, (values, kafkas) in enumerate(zip(sequences, answers, strict=True)):
        found = read_cluster_metadata(str(_written(tmp_path / f"{seed}", values, as_snapshot=False)), rules_of(release))
        by = {refusal.by: refusal for refusal in found.refusals}
        for column, replay in enumerate((Replay.IMAGE, Replay.CONTROLLER)):
            kafka, ours = _first(kafkas, column), _ours(by.get(replay))
            if replay is Replay.IMAGE and _is_late(ours):
                continue
            assert ours == kafka, f"seed {seed}, {replay.value}"
            refused += kafka is not None
    assert refused > SEQUENCES // 4


@pytest.mark.parametrize("release", RELEASES)
def test_the_first_refusal_of_each_replay_is_kafkas(release: Release, tmp_path: pathlib.Path) -> None:
    sequences = [_values(seed, rules_of(release)) for seed in range(SEQUENCES)]
    kafkas = list(_kafkas_answers(release, sequences, tmp_path / "classes"))
    refused = {Replay.IMAGE: 0, Replay.CONTROLLER: 0}
    for seed, (values, answers) in enumerate(zip(sequences, kafkas, strict=True)):
        folder = _written(tmp_path / f"{seed}", values, as_snapshot=_is_snapshot(seed))
        found = read_cluster_metadata(str(folder), rules_of(release))
        by = {refusal.by: refusal for refusal in found.refusals}
        for column, replay in enumerate((Replay.IMAGE, Replay.CONTROLLER)):
            kafka, ours = _first(answers, column), _ours(by.get(replay))
            if replay is Replay.IMAGE and _is_late(ours):
                continue
            assert ours == kafka, f"seed {seed}, {replay.value}"
            refused[replay] += kafka is not None
    assert min(refused.values()) > SEQUENCES // 4
