"""The file of `fleet collect`: what is in it, and what is refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import shutil
from collections.abc import Callable

import pytest
from quorums import Disk, directory_id, voter
from running import FIXTURES, ROOT, run_here

from klogtool.errors import Refused
from klogtool.fleet.collected import Collected, CopyFacts, Epoch, LostOffsets
from klogtool.fleet.framed import CollectedFiles

DISKS = FIXTURES / "two-disks" / "logdir"


def collected(folder: pathlib.Path, *log_dirs: pathlib.Path, status: int = 0) -> Collected:
    """The file of these log dirs, read back."""
    done = run_here(["fleet", "collect", *map(str, log_dirs)], folder)
    assert done.status == status, done.err
    file = folder / "broker.klog"
    file.write_bytes(done.out)
    return CollectedFiles().read(str(file))


def copy_of(found: Collected, folder: str) -> CopyFacts:
    (copy,) = (copy for copy in found.copies if copy.folder == folder)
    return copy


def test_ids_of_a_broker_with_two_disks(tmp_path: pathlib.Path) -> None:
    found = collected(tmp_path, DISKS / "d1", DISKS / "d2")
    assert found.broker.node_id == 1
    assert [log_dir.path for log_dir in found.broker.log_dirs] == [str(DISKS / "d1"), str(DISKS / "d2")]
    assert len({log_dir.directory_id for log_dir in found.broker.log_dirs}) == 2
    assert {copy.log_dir for copy in found.copies} == {str(DISKS / "d1"), str(DISKS / "d2")}


def test_leader_epochs_come_from_batches_and_from_the_checkpoint(tmp_path: pathlib.Path) -> None:
    copy = copy_of(collected(tmp_path, FIXTURES / "leader-epochs" / "logdir"), "t-0")
    assert copy.epochs == (Epoch(0, 0), Epoch(2, 17), Epoch(4, 52))
    assert copy.checkpoint_epochs == copy.epochs
    assert (copy.log_start_offset, copy.log_end_offset, copy.sound_end_offset) == (0, 78, 78)
    assert (copy.recovery_point, copy.high_watermark, copy.newest_timestamp) == (78, 78, 1700000076497)


def test_damage_is_a_hole_between_sound_batches(tmp_path: pathlib.Path) -> None:
    copy = copy_of(collected(tmp_path, FIXTURES / "killed-mid-append" / "logdir"), "flip-bit-0")
    assert copy.holes == (LostOffsets(47, 47),)
    assert (copy.sound_end_offset, copy.log_end_offset) == (47, 71)
    assert copy.wounds_count == len(copy.wounds) == 1


def test_replicas_come_from_the_metadata(tmp_path: pathlib.Path) -> None:
    found = collected(tmp_path, FIXTURES / "metadata" / "logdir")
    assert found.broker.metadata is not None
    assert found.topics
    # The broker was stopped: it is not in sync any more, but eligible (KIP-966).
    told = {(p.replicas, p.isr, p.elr, p.leader, p.leader_epoch) for p in found.partitions}
    assert told == {((1,), (), (1,), -1, 3)}


def test_a_partition_dir_that_cannot_be_read_is_in_the_file(tmp_path: pathlib.Path) -> None:
    shutil.copytree(DISKS / "d1", tmp_path / "d1")
    folder = next(path for path in (tmp_path / "d1").iterdir() if path.is_dir())
    log = next(folder.glob("*.log"))
    log.unlink()
    log.symlink_to(tmp_path / "missing")
    copy = copy_of(collected(tmp_path, tmp_path / "d1", status=4), folder.name)
    assert copy.problem is not None
    assert str(log) in copy.problem


def test_a_fingerprint_changes_with_any_file(tmp_path: pathlib.Path) -> None:
    shutil.copytree(DISKS / "d1", tmp_path / "d1")
    before = collected(tmp_path, tmp_path / "d1")
    folder = next(path for path in (tmp_path / "d1").iterdir() if path.is_dir())
    (folder / "leader-epoch-checkpoint").write_text("0\n0\n")
    after = collected(tmp_path, tmp_path / "d1")
    changed = [
        one.folder for one, two in zip(before.copies, after.copies, strict=True) if one.fingerprint != two.fingerprint
    ]
    assert changed == [folder.name]


def test_log_dirs_of_two_brokers_are_refused(tmp_path: pathlib.Path) -> None:
    shutil.copytree(DISKS, tmp_path / "disks")
    properties = tmp_path / "disks/d2/meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    done = run_here(["fleet", "collect", "disks/d1", "disks/d2"], tmp_path)
    assert (done.status, done.out) == (3, b"")
    assert "node id is 2" in done.err


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The lines of a sound file."""
    return run_here(["fleet", "collect", str(DISKS / "d1")], tmp_path_factory.mktemp("lines")).out.splitlines()


def test_the_lines_are_json_with_a_type(lines: list[bytes]) -> None:
    types = [json.loads(line)["type"] for line in lines]
    assert types[:2] == ["klogtool", "broker"]
    assert types[-1] == "end"
    assert set(types[2:-1]) == {"copy"}


CUTS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "empty": lambda lines: [],
    "head only": lambda lines: lines[:1],
    "no end": lambda lines: lines[:-1],
    "half a line": lambda lines: [*lines[:-1], lines[-1][:10]],
    "a line is missing": lambda lines: [*lines[:2], *lines[3:]],
    "a line is twice": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "a digit is changed": lambda lines: [*lines[:2], lines[2].replace(b'"partition":', b'"partition":1'), *lines[3:]],
    "no broker": lambda lines: [lines[0], *lines[2:]],
    "another command": lambda lines: [lines[0].replace(b"collect", b"plan"), *lines[1:]],
    "another schema": lambda lines: [lines[0].replace(b'"schema":1', b'"schema":2'), *lines[1:]],
    "no JSON": lambda lines: [b"\xff\xfe", *lines[1:]],
    "deep JSON": lambda lines: [b"[" * 100_000, *lines[1:]],
    "a list": lambda lines: [b"[]", *lines[1:]],
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_file_that_is_not_whole_is_refused(lines: list[bytes], cut: str) -> None:
    with pytest.raises(Refused, match="not a file of 'fleet collect'"):
        CollectedFiles().parse(CUTS[cut](lines), "broker1.klog")


def test_what_several_files_tell_is_in_memory_once() -> None:
    """And each is read as if it was alone."""
    paths = sorted(map(str, (ROOT / "docs/examples/restored").glob("*.klog")))
    files = list(map(CollectedFiles().read, paths))
    assert files == [CollectedFiles().read(path) for path in paths]
    first, second, _ = files
    known = {row: row for row in first.partitions}
    shared = [row for row in second.partitions if row in known]
    assert shared
    assert all(known[row] is row for row in shared)
    epochs = {copy.epochs: copy.epochs for copy in first.copies}
    assert all(epochs[copy.epochs] is copy.epochs for copy in second.copies if copy.epochs in epochs)


VALUES = [None, -1, 1 << 70, 1.5, "x", "\0", "\ud900", [], {}, True, ["\ud800"], [[1]], "a" * 100_000]


@pytest.mark.parametrize("row", [1, 2])
def test_a_field_of_another_type_is_refused_or_read(lines: list[bytes], row: int) -> None:
    """Whatever somebody writes into a field, and signs with a right checksum, gives no traceback."""

    for name in json.loads(lines[row]):
        for value in VALUES:
            spoilt = [json.loads(line) for line in lines[:-1]]
            spoilt[row][name] = value
            with contextlib.suppress(Refused):
                CollectedFiles().parse(signed(spoilt), "broker1.klog")


def signed(rows: list[dict[str, object]]) -> list[bytes]:
    """Rows as lines, with a right end."""

    told = [json.dumps(row).encode() for row in rows]
    sum_of_all = hashlib.blake2b(b"".join(line + b"\n" for line in told), digest_size=16).hexdigest()
    return [*told, json.dumps({"type": "end", "lines": len(told), "sum": sum_of_all}).encode()]


def test_names_that_are_not_utf8_are_read_back(tmp_path: pathlib.Path) -> None:
    where = tmp_path / "di\udcffsk a"
    shutil.copytree(DISKS / "d1", where)
    found = collected(tmp_path, where)
    assert found.broker.log_dirs[0].path == str(where)
    assert {copy.log_dir for copy in found.copies} == {str(where)}


@pytest.mark.parametrize(
    ("voters", "here", "note"),
    [
        ((1, 2, 3), (1,), "a leader needs 2 of the controllers 1, 2, 3, and no file is of 2, 3: klogtool quorum says"),
        ((1, 2), (1,), "a leader needs 2 of the controllers 1, 2, and no file is of 2"),
        ((1, 2, 3), (1, 3), ""),
        ((1,), (1,), ""),
        ((), (1,), ""),
    ],
)
def test_a_plan_says_if_no_file_is_of_a_majority_of_the_controllers(
    voters: tuple[int, ...], here: tuple[int, ...], note: str, tmp_path: pathlib.Path
) -> None:
    files = []
    for n in here:
        disk = Disk(tmp_path, n)
        disk = disk.voters(*map(voter, voters)) if voters else disk
        collected(tmp_path, disk.records(n).path)
        files.append(str((tmp_path / "broker.klog").rename(tmp_path / f"{n}.klog")))
    told = run_here(["fleet", "plan", *files], tmp_path).out.decode()
    assert (note in told, bool(note)) == (True, "klogtool quorum" in told), told


def test_a_plan_says_if_the_controllers_that_are_here_never_elect_a_leader(tmp_path: pathlib.Path) -> None:
    """By the module of `klogtool quorum`: two of three have another directory.id."""
    files = []
    for n in (1, 2, 3):
        disk = Disk(tmp_path, n, directory="" if n == 1 else directory_id(n + 5)).voters(*map(voter, (1, 2, 3)))
        collected(tmp_path, disk.records(n).path)
        files.append(str((tmp_path / "broker.klog").rename(tmp_path / f"{n}.klog")))
    told = " ".join(run_here(["fleet", "plan", *files], tmp_path).out.decode().split())
    assert "these controllers never elect a leader (no-majority, other-directory-id): klogtool quorum says" in told
