"""Small metadata log dirs, written as Kafka writes them, and their configurations."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from raw_batches import build_batch

from klogtool.causes import words
from klogtool.format.batch import Record
from klogtool.format.control import ControlRecordType, build_control_key
from klogtool.format.control_values import build_control_value
from klogtool.format.identity import QuorumState, build_quorum_state
from klogtool.format.internal.records import build_metadata_record
from klogtool.format.kraft_snapshot import Endpoint, Voter, build_snapshot
from klogtool.format.names import KraftSnapshotName, build_kraft_snapshot_name
from klogtool.format.uuids import build_uuid, parse_uuid
from klogtool.quorum import new_voters
from klogtool.quorum.election import Election

CLUSTER = "NmugKK5HRqOZ6ob2pMJQaw"
TOPIC = ("TopicRecord", 0, {"name": "orders", "topicId": "kAhN5UfKTXmouKliDVLmuw"})
NOTHING = ("NoOpRecord", 0, {})
BEGIN = ("BeginTransactionRecord", 0, {"name": "CreateTopics"})


def cures_of(election: Election) -> tuple[str, ...]:
    """What a person does, in words."""
    return tuple(map(words, new_voters.cures_of(election)))


def directory_id(node_id: int) -> str:
    return f"{node_id:>021}".replace("0", "b") + "A"


def voter(node_id: int, *, directory: str | None = None, port: int | None = None, host: str = "localhost") -> Voter:
    endpoint = Endpoint("CONTROLLER", host, port or 9000 + node_id)
    return Voter(node_id, directory or directory_id(node_id), (endpoint,))


def control_batch(offset: int, epoch: int, voters: Sequence[Voter] | None, version: int = 1) -> bytes:
    """What the first leader of a dynamic quorum writes; without voters only the version."""
    written = [(ControlRecordType.KRAFT_VERSION, {"kRaftVersion": version})]
    if voters is not None:
        written.append((ControlRecordType.KRAFT_VOTERS, {"voters": [one.as_record() for one in voters]}))
    records = [
        Record(offset + n, 0, build_control_key(kind), build_control_value(kind, values))
        for n, (kind, values) in enumerate(written)
    ]
    return build_batch(records, is_control=True, partition_leader_epoch=epoch)


def new_topic(offset: int) -> tuple:
    """A topic of its own for each offset: a controller does not replay a name that it has."""
    return "TopicRecord", 0, {"name": f"orders-{offset}", "topicId": build_uuid((offset + 2).to_bytes(16, "big"))}


def data_batch(offset: int, epoch: int, message: tuple | None = None) -> bytes:
    value = build_metadata_record(*(message or new_topic(offset)))
    return build_batch([Record(offset, 0, None, value)], partition_leader_epoch=epoch)


class Disk:
    """A disk of one node. Each method adds something and returns the disk."""

    def __init__(
        self, folder: pathlib.Path, node_id: int, *, directory: str | None = "", cluster: str = CLUSTER
    ) -> None:
        self.path = folder / f"n{node_id}"
        self.metadata = self.path / "__cluster_metadata-0"
        self.metadata.mkdir(parents=True)
        lines = ["version=1", f"node.id={node_id}", f"cluster.id={cluster}"]
        lines += [] if directory is None else [f"directory.id={directory or directory_id(node_id)}"]
        (self.path / "meta.properties").write_text("\n".join(lines) + "\n")
        (self.metadata / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
        self.node_id, self.end = node_id, 0

    def log(self, *batches: bytes) -> Disk:
        with (self.metadata / f"{0:020}.log").open("ab") as file:
            file.write(b"".join(batches))
        return self

    def voters(self, *voters: Voter, epoch: int = 1) -> Disk:
        self.log(control_batch(self.end, epoch, voters))
        self.end += 2
        return self

    def records(self, number: int, epoch: int = 1, message: tuple | None = None) -> Disk:
        for _ in range(number):
            self.log(data_batch(self.end, epoch, message))
            self.end += 1
        return self

    def snapshot(self, end: int, epoch: int, *voters: Voter) -> Disk:
        name = build_kraft_snapshot_name(KraftSnapshotName(end, epoch))
        (self.metadata / name).write_bytes(b"".join(build_snapshot([], epoch=epoch, timestamp_ms=0, voters=voters)))
        return self

    def state(self, version: int, leader: int, epoch: int, voted: int = -1) -> Disk:
        directory = parse_uuid(directory_id(voted)) if voted >= 0 and version == 1 else bytes(16)
        state = QuorumState(version, leader, epoch, voted, directory)
        (self.metadata / "quorum-state").write_bytes(build_quorum_state(state))
        return self


def properties(node_id: int, *more: str, roles: str = "controller", port: int | None = None) -> dict[str, str]:
    listeners = {"controller": f"CONTROLLER://localhost:{port or 9000 + node_id}", "broker": "PLAINTEXT://:9092"}
    lines = (
        f"process.roles={roles}",
        f"node.id={node_id}",
        "controller.listener.names=CONTROLLER",
        f"listeners={','.join(listeners[role] for role in roles.split(','))}",
        *(more or (f"controller.quorum.bootstrap.servers=localhost:{9000 + node_id}",)),
    )
    return dict(line.split("=", 1) for line in lines)


def static(*ids: int) -> str:
    return "controller.quorum.voters=" + ",".join(f"{n}@localhost:{9000 + n}" for n in ids)
