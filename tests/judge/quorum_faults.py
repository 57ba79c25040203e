"""What happens to the disks and settings of controllers: lost ids, moved ports, cut logs, other voters, odd states."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace
from quorums import control_batch, data_batch

from klogtool.errors import KlogError
from klogtool.format.identity import QuorumState, build_quorum_state
from klogtool.format.kraft_snapshot import Voter, build_snapshot
from klogtool.format.names import KraftSnapshotName, build_kraft_snapshot_name
from klogtool.format.uuids import parse_uuid
from klogtool.log.entries import Message, RecordBatch
from klogtool.log.partition import Partition
from klogtool.quorum.controllers import MetadataLog, read_controller, read_metadata_log

from .nodes import Nodes

Fault = Callable[[Nodes, int, random.Random], None]
ANOTHER_ID = "kAhN5UfKTXmouKliDVLmuw"
ANOTHER_CLUSTER = "AmugKK5HRqOZ6ob2pMJQaw"
NO_OP = 20  # the type of a NoOpRecord


def log_of(nodes: Nodes, node: int) -> MetadataLog:
    return read_metadata_log(str(nodes.metadata(node)))


# meta.properties.


def edit_identity(nodes: Nodes, node: int, key: str, value: str | None) -> None:
    path = nodes.disk(node) / "meta.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{key}=")]
    path.write_text("\n".join([*lines, *([] if value is None else [f"{key}={value}"])]) + "\n")


def directory_id_of(nodes: Nodes, node: int) -> str:
    found = read_controller(str(nodes.disk(node))).directory_id
    assert found is not None
    return found


def lose_directory_id(nodes: Nodes, node: int, rng: random.Random) -> None:
    edit_identity(nodes, node, "directory.id", None)


def new_directory_id(nodes: Nodes, node: int, rng: random.Random) -> None:
    edit_identity(nodes, node, "directory.id", ANOTHER_ID)


def swap_disks(nodes: Nodes, node: int, rng: random.Random) -> None:
    """Two directory ids in the wrong meta.properties. With one node: another id."""
    others = [n for n in nodes.ports if n != node]
    if not others:
        new_directory_id(nodes, node, rng)
        return
    other = rng.choice(others)
    ids = directory_id_of(nodes, node), directory_id_of(nodes, other)
    edit_identity(nodes, node, "directory.id", ids[1])
    edit_identity(nodes, other, "directory.id", ids[0])


def another_cluster(nodes: Nodes, node: int, rng: random.Random) -> None:
    edit_identity(nodes, node, "cluster.id", ANOTHER_CLUSTER)


def another_node_id(nodes: Nodes, node: int, rng: random.Random) -> None:
    edit_identity(nodes, node, "node.id", str(node + 6))
    nodes.settings[node]["node.id"] = str(node + 6)
    voters = nodes.settings[node].get("controller.quorum.voters")
    if voters is not None:
        nodes.settings[node]["controller.quorum.voters"] = voters.replace(f"{node}@", f"{node + 6}@")


# Settings.


def move_port(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The controller listens elsewhere, and every bootstrap list knows."""
    old, new = f"127.0.0.1:{nodes.ports[node]}", f"127.0.0.1:{nodes.ports[node] + 8000}"
    for key in ("listeners", "advertised.listeners"):
        if key in nodes.settings[node]:
            nodes.settings[node][key] = nodes.settings[node][key].replace(f"//{old}", f"//{new}")
    for settings in nodes.settings.values():
        servers = settings.get("controller.quorum.bootstrap.servers")
        if servers is not None:
            settings["controller.quorum.bootstrap.servers"] = servers.replace(old, new)


def static_settings(nodes: Nodes, node: int, rng: random.Random) -> None:
    """controller.quorum.voters in place of the bootstrap servers; right, or with a node that never was."""
    own = nodes.settings[node]
    own.pop("controller.quorum.bootstrap.servers", None)
    voters = [f"{n}@127.0.0.1:{port}" for n, port in nodes.ports.items()]
    more = rng.choice([[], ["8@127.0.0.1:20997", "9@127.0.0.1:20999"]])
    own["controller.quorum.voters"] = ",".join([*voters, *more])


def dynamic_settings(nodes: Nodes, node: int, rng: random.Random) -> None:
    own = nodes.settings[node]
    own.pop("controller.quorum.voters", None)
    addresses = (f"127.0.0.1:{port}" for port in nodes.ports.values())
    own["controller.quorum.bootstrap.servers"] = ",".join(addresses)


def metadata_elsewhere(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The metadata log in a log dir of its own: here and by the settings, with a directory id of its own."""
    own = nodes.disk(node)
    moved = own.with_name(f"n{node}-metadata")
    shutil.copytree(own, moved)
    shutil.rmtree(own / "__cluster_metadata-0")
    edit_identity(nodes, node, "directory.id", ANOTHER_ID)
    nodes.settings[node]["metadata.log.dir"] = str(moved)


# The log and its snapshots.


def cut_log(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The log ends at an earlier batch, as on an older copy."""
    segment = Partition(str(nodes.metadata(node))).segments[-1]
    starts = [batch.position for batch in segment.batches()]
    with Path(segment.path).open("r+b") as file:
        file.truncate(rng.choice(starts[len(starts) // 3 :]))


def tear_log(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The log ends inside a batch."""
    segment = Partition(str(nodes.metadata(node))).segments[-1]
    last = list(segment.batches())[-1]
    with Path(segment.path).open("r+b") as file:
        file.truncate(last.position + last.size - rng.randrange(1, last.size))


def flip_bit(nodes: Nodes, node: int, rng: random.Random) -> None:
    """A bit of the log is another: a start cuts it there."""
    path = Path(Partition(str(nodes.metadata(node))).segments[-1].path)
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data) // 2, len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def damage_nothing(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The first record that changes nothing is damaged."""
    segment = Partition(str(nodes.metadata(node))).segments[-1]
    first = next(batch for batch in segment.batches() if _changes_nothing(batch))
    with Path(segment.path).open("r+b") as file:
        file.seek(first.position + first.size - 1)
        file.write(b"~")


def _changes_nothing(batch: RecordBatch | Message) -> bool:
    values = [] if not isinstance(batch, RecordBatch) or batch.is_control else [one.value for one in batch.records()]
    return bool(values) and all(value is not None and value[1] == NO_OP for value in values)


def zeros_behind(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The log's file has room for more."""
    with Path(Partition(str(nodes.metadata(node))).segments[-1].path).open("ab") as file:
        file.write(bytes(rng.choice([1, 17, 5000])))


def empty_log(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The log is gone; what was formatted stays."""
    for path in nodes.metadata(node).iterdir():
        if not path.name.endswith(".checkpoint"):
            path.unlink()


def no_metadata(nodes: Nodes, node: int, rng: random.Random) -> None:
    """A new disk with the old meta.properties."""
    shutil.rmtree(nodes.metadata(node))


def no_first_snapshot(nodes: Nodes, node: int, rng: random.Random) -> None:
    for path in nodes.metadata(node).glob("*.checkpoint"):
        path.unlink()


def take_copy(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The metadata of another node in place of its own, without that one's quorum-state."""
    others = [n for n in nodes.ports if n != node and nodes.metadata(n).is_dir()]
    if others:
        shutil.rmtree(nodes.metadata(node), ignore_errors=True)
        shutil.copytree(nodes.metadata(rng.choice(others)), nodes.metadata(node))
        (nodes.metadata(node) / "quorum-state").unlink(missing_ok=True)


def state_of_another(nodes: Nodes, node: int, rng: random.Random) -> None:
    """Its quorum-state is that of another node."""
    other = rng.choice([n for n in nodes.ports if n != node])
    shutil.copy(nodes.metadata(other) / "quorum-state", nodes.metadata(node) / "quorum-state")


def exchange_disks(nodes: Nodes, node: int, rng: random.Random) -> None:
    """Two disks, or only the metadata with quorum-state on them, are at the other's node."""
    other = rng.choice([n for n in nodes.ports if n != node])
    of = rng.choice([nodes.disk, nodes.metadata])
    aside = nodes.work / "aside"
    of(node).rename(aside)
    of(other).rename(of(node))
    aside.rename(of(other))


def disk_of_another(nodes: Nodes, node: int, rng: random.Random) -> None:
    """A copy of another node's disk in place of its own; perhaps somebody wrote its own node.id into it."""
    other = rng.choice([n for n in nodes.ports if n != node])
    shutil.rmtree(nodes.disk(node))
    shutil.copytree(nodes.disk(other), nodes.disk(node))
    if rng.random() < 0.7:
        edit_identity(nodes, node, "node.id", nodes.settings[node]["node.id"])


def leader_is_older(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The node that led last, by a quorum-state, has an older disk than its followers."""
    state = read_controller(str(nodes.disk(node))).quorum_state
    if state is None or state.leader_id not in nodes.ports:
        raise ValueError("nobody led")
    cut_log(nodes, state.leader_id, rng)


def epoch_line_behind(nodes: Nodes, node: int, rng: random.Random) -> None:
    """leader-epoch-checkpoint knows of a later epoch: within the log, at its end, or behind."""
    log = log_of(nodes, node).position
    path = nodes.metadata(node) / "leader-epoch-checkpoint"
    version, count, *lines = path.read_text().split("\n")
    at = log.end_offset + rng.choice([-1, 0, 3])
    lines = [*(line for line in lines if line), f"{log.epoch + rng.choice([1, 4])} {at}"]
    path.write_text("\n".join([version, str(int(count) + 1), *lines]) + "\n")


def rolled(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The log is of two segments or three; perhaps one of them is gone."""
    for _ in range(rng.choice([1, 2])):
        _roll(nodes, node, rng)
    segments = [Path(segment.path) for segment in Partition(str(nodes.metadata(node))).segments]
    if rng.random() < 0.6:
        rng.choice(segments).unlink()


def _roll(nodes: Nodes, node: int, rng: random.Random) -> None:
    segment = Partition(str(nodes.metadata(node))).segments[-1]
    path, batch = Path(segment.path), rng.choice(list(segment.batches())[1:])
    data = path.read_bytes()
    path.with_name(f"{batch.base_offset:020}.log").write_bytes(data[batch.position :])
    path.write_bytes(data[: batch.position])
    for index in (".index", ".timeindex"):
        path.with_suffix(index).unlink(missing_ok=True)


def voters_of(nodes: Nodes, ids: Sequence[int]) -> list[Voter]:
    """These nodes as voters, as they are and listen."""
    known = {voter.id: voter for n in nodes.ports for voter in log_of(nodes, n).quorum.voters or ()}
    return [known[n] for n in ids if n in known]


def append_voters(
    nodes: Nodes, node: int, voters: Sequence[Voter] | None, *, version: int = 1, epochs: int = 0
) -> None:
    """A control batch with a new set of voters behind all others. None: the version alone."""
    log = log_of(nodes, node)
    batch = control_batch(log.position.end_offset, log.position.epoch + epochs, voters, version)
    _append(nodes, node, batch)


def _append(nodes: Nodes, node: int, data: bytes) -> None:
    """Write behind the last whole batch, as a start does after it has cut what is behind that."""
    segment = Partition(str(nodes.metadata(node))).segments[-1]
    end = max((batch.position + batch.size for batch in segment.batches()), default=0)
    with Path(segment.path).open("r+b") as file:
        file.truncate(end)
        file.seek(end)
        file.write(data)


def append_records(nodes: Nodes, node: int, *messages: tuple[str, int, dict[str, object]]) -> None:
    """Records of metadata behind all others, as a leader appends them."""
    log = log_of(nodes, node)
    batches = [data_batch(log.position.end_offset + n, log.position.epoch, one) for n, one in enumerate(messages)]
    _append(nodes, node, b"".join(batches))


def fewer_voters(nodes: Nodes, node: int, rng: random.Random) -> None:
    """This copy's last record names fewer voters: itself, or the others."""
    known = voters_of(nodes, list(nodes.ports))
    kept = rng.choice([[voter for voter in known if voter.id == node], [v for v in known if v.id != node]])
    if kept and Partition(str(nodes.metadata(node))).segments:
        append_voters(nodes, node, kept, epochs=rng.choice([0, 1]))


def adds_another(nodes: Nodes, node: int, rng: random.Random) -> None:
    """It was killed while it added a controller: the record is in its copy only, perhaps torn."""
    known = log_of(nodes, node).quorum.voters
    if not known:
        raise ValueError("a static quorum")
    endpoint = replace(known[0].endpoints[0], port=20997)
    append_voters(nodes, node, [*known, Voter(8, ANOTHER_ID, (endpoint,))], epochs=rng.choice([0, 0, 1]))
    if rng.random() < 0.4:
        tear_log(nodes, node, rng)


def half_upgraded(nodes: Nodes, node: int, rng: random.Random) -> None:
    """kraft.version 1, and no record of voters, if there was none before."""
    if Partition(str(nodes.metadata(node))).segments:
        append_voters(nodes, node, None)


def newer_snapshot(nodes: Nodes, node: int, rng: random.Random) -> None:
    """A snapshot that is ahead of the log, or in a later epoch: the log is thrown away."""
    log = log_of(nodes, node)
    epochs = rng.choice([0, 1])
    end, epoch = log.position.end_offset + (5 if not epochs else rng.choice([-3, 5])), log.position.epoch + epochs
    voters = log.quorum.voters or ()
    name = build_kraft_snapshot_name(KraftSnapshotName(max(end, 1), epoch))
    version = {"voters": voters} if voters else {}
    data = b"".join(build_snapshot(_records(nodes, node), epoch=epoch, timestamp_ms=0, **version))
    (nodes.metadata(node) / name).write_bytes(data)


def odd_snapshot(nodes: Nodes, node: int, rng: random.Random) -> None:
    """A snapshot inside of the log, at its end or ahead of it, without voters or with fewer ones."""
    log, segment = log_of(nodes, node), Partition(str(nodes.metadata(node))).segments[-1]
    batch = rng.choice(list(segment.batches()))
    ends = [(batch.last_offset + 1, batch.partition_leader_epoch), (log.position.end_offset, log.position.epoch)]
    end, epoch = rng.choice([*ends, (log.position.end_offset + 4, log.position.epoch)])
    voters = rng.choice([(), (), voters_of(nodes, [node]), log.quorum.voters or ()])
    name = build_kraft_snapshot_name(KraftSnapshotName(end, epoch))
    data = b"".join(build_snapshot(_records(nodes, node), epoch=epoch, timestamp_ms=0, voters=voters))
    (nodes.metadata(node) / name).write_bytes(data)


def _records(nodes: Nodes, node: int) -> list[bytes]:
    """All metadata records of a log, as they are."""
    found = []
    for segment in Partition(str(nodes.metadata(node))).segments:
        for batch in segment.batches():
            if not batch.is_control:  # type: ignore[union-attr]
                found += [record.value for record in batch.records() if record.value[1] not in (23, 24, 25)]  # type: ignore[index,union-attr]
    return found


# quorum-state.


def no_state(nodes: Nodes, node: int, rng: random.Random) -> None:
    (nodes.metadata(node) / "quorum-state").unlink(missing_ok=True)


def garbage_state(nodes: Nodes, node: int, rng: random.Random) -> None:
    (nodes.metadata(node) / "quorum-state").write_bytes(rng.choice([b"", b"{", b"\x00" * 40, b"[]"]))


def odd_state(nodes: Nodes, node: int, rng: random.Random) -> None:
    """Of either version, with any leader, epoch and vote."""
    log, version = log_of(nodes, node), rng.choice([0, 1])
    epoch = log.position.epoch + rng.choice([-1, 0, 0, 0, 1, 90])
    voted = rng.choice([-1, node, node, node % 3 + 1])
    leader = rng.choice([-1, -1, node % 3 + 1, 9]) if voted != -1 else rng.choice([-1, node, 9])
    directory = bytes(16)
    if voted >= 0 and version == 1:
        other = voted if voted in nodes.ports else node
        directory = parse_uuid(rng.choice([directory_id_of(nodes, other), ANOTHER_ID]))
    state = QuorumState(version, leader, max(epoch, 0), voted, directory)
    (nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(state))


def last_epoch(nodes: Nodes, node: int, rng: random.Random) -> None:
    """There is no epoch after it."""
    state = QuorumState(1, rng.choice([-1, node]), 2**31 - 1, -1, bytes(16))
    (nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(state))


def removed(nodes: Nodes, node: int, rng: random.Random) -> None:
    """The voter was removed, and knows it; in that epoch it had voted for itself."""
    kept, own = [n for n in nodes.ports if n != node], parse_uuid(directory_id_of(nodes, node))
    voters = voters_of(nodes, kept)
    if not voters:
        raise ValueError("a static quorum, or of one node")
    for n in nodes.ports:
        append_voters(nodes, n, voters)
    epoch = log_of(nodes, node).position.epoch
    state = QuorumState(1, rng.choice(kept), epoch, rng.choice([node, -1]), own)
    (nodes.metadata(node) / "quorum-state").write_bytes(build_quorum_state(state))


def garbage_side_file(nodes: Nodes, node: int, rng: random.Random) -> None:
    """A start reads it before the quorum."""
    name = rng.choice(["leader-epoch-checkpoint", "partition.metadata"])
    other = b"version: 0\ntopic_id: " + ANOTHER_ID.encode()
    texts = [b"garbage", b"0\n1\n"] if name == "leader-epoch-checkpoint" else [b"garbage", other]
    (nodes.metadata(node) / name).write_bytes(rng.choice(texts))


ANY: tuple[Fault, ...] = (
    *(lose_directory_id, lose_directory_id, new_directory_id, swap_disks, another_cluster, another_node_id),
    *(move_port, move_port, static_settings, dynamic_settings, metadata_elsewhere),
    *(
        cut_log,
        cut_log,
        tear_log,
        flip_bit,
        zeros_behind,
        empty_log,
        empty_log,
        no_metadata,
        no_metadata,
        no_first_snapshot,
        take_copy,
    ),
    *(fewer_voters, fewer_voters, half_upgraded, newer_snapshot, odd_snapshot, odd_snapshot),
    *(adds_another, adds_another, epoch_line_behind, rolled, rolled),
    *(state_of_another, state_of_another, exchange_disks, exchange_disks, disk_of_another, leader_is_older),
    *(last_epoch, removed, removed, garbage_side_file, garbage_side_file),
    *(no_state, garbage_state, odd_state, odd_state, odd_state),
)


def damage(nodes: Nodes, rng: random.Random) -> tuple[list[str], list[int]]:
    """Do one to four faults to nodes of a quorum. Return what was done, and which nodes start."""
    done = []
    for _ in range(rng.choice([1, 1, 2, 2, 3, 4])):
        fault, node = rng.choice(ANY), rng.choice(list(nodes.ports))
        try:
            fault(nodes, node, rng)
        except (
            KlogError,
            OSError,
            IndexError,
            ValueError,
            AssertionError,
        ):  # what it is done to is gone by an earlier one
            continue
        done.append(f"{fault.__name__} n{node}")
    starting = list(nodes.ports)
    if len(starting) > 1 and rng.random() < 0.35:
        lost = rng.choice(starting)
        starting.remove(lost)
        done.append(f"n{lost} does not start")
    return done, starting
