"""Log dirs: identity, names, checkpoints against the logs, the marker of a clean stop; over several of one broker."""

from __future__ import annotations

import os
import pathlib
import shutil
import time
from collections.abc import Callable

import pytest
from damage import append_bytes, tear_at
from verifying import edit_text, found, ids, rename, run_verify, told

from klogtool.log.partition import Partition
from klogtool.verify.findings import Finding
from klogtool.verify.identity import CureKind, TopicIds, cures_of

CopyOf = Callable[[str], pathlib.Path]
Path = pathlib.Path
CHECKPOINTS = [
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
]
LEADER_EPOCHS_END = 78

IDS = ("AAAAAAAAAAAAAAAAAAAAAQ", "HBkLXiG2TBugyYPqjxOXtQ", "Q4rLFXj5Q1aB3vXnJ0abcQ")


@pytest.fixture
def log_dir(copy_of: CopyOf) -> Path:
    """One partition, t-0, that ends at 78, and was closed cleanly."""
    return copy_of("leader-epochs/logdir")


@pytest.fixture
def disks(copy_of: CopyOf) -> Path:
    return copy_of("two-disks/logdir")


def the_one(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["foo", ".hidden", "lost+found", "foo-bar", "t-0.bak", "x-", "-0", "x-0-delete"])
def test_a_foreign_folder_stops_a_broker(log_dir: Path, name: str) -> None:
    (log_dir / name).mkdir()
    assert told(found(log_dir)) == [("foreign-folder", name)]


@pytest.mark.parametrize("name", [".snapshot", ".snap", ".zfs", "System Volume Information"])
def test_a_folder_of_the_file_system_is_not_to_be_moved(log_dir: Path, name: str) -> None:
    (log_dir / name).mkdir()
    finding = the_one(found(log_dir))
    assert finding.id == "foreign-folder"
    assert "sub-folder" in str(finding.cure)
    assert "mv " not in str(finding.cure)


def test_a_disk_that_is_mounted_in_a_log_dir_is_unmounted(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (log_dir / "backup").mkdir()
    monkeypatch.setattr("os.path.ismount", lambda path: os.path.basename(path) == "backup")
    assert str(the_one(found(log_dir)).cure).startswith("umount ")


@pytest.mark.parametrize("is_link", [True, False])
def test_what_is_in_the_way_of_a_partition_that_was_here_is_an_error(log_dir: Path, is_link: bool) -> None:
    """A broker 4.3.1 says FileAlreadyExistsException, and takes the log dir offline."""
    (log_dir / "t-0").rename(log_dir.parent / "elsewhere")
    (log_dir / "t-0").symlink_to("nothing-there") if is_link else (log_dir / "t-0").write_bytes(b"x")
    (finding,) = (each for each in found(log_dir) if each.id == "foreign-file")
    assert (finding.severity.value, "of t-0" in str(finding.cure)) == ("error", True)
    for checkpoint in CHECKPOINTS:
        (log_dir / checkpoint).unlink(missing_ok=True)
    assert found(log_dir) == []  # no partition of this name was here


@pytest.mark.parametrize("name", ["remote-log-index-cache", "__cluster_metadata-7"])
def test_folders_that_brokers_leave_alone(log_dir: Path, name: str) -> None:
    (log_dir / name).mkdir()
    assert found(log_dir) == []


def test_a_foreign_file_is_a_note(log_dir: Path) -> None:
    (log_dir / "bar-0").write_bytes(b"")
    (log_dir / ".lock").write_bytes(b"")
    (log_dir / "meta.properties.tmp").write_bytes(b"")
    assert [t for t in told(run_verify(log_dir)[0]) if t[0] != "snapshot-missing"] == [("foreign-file", "bar-0")]


@pytest.mark.parametrize("name", ["t-00", "t-+0"])
def test_a_partition_twice_in_a_log_dir(log_dir: Path, name: str) -> None:
    shutil.copytree(log_dir / "t-0", log_dir / name)
    finding = next(f for f in found(log_dir) if f.id == "duplicate-partition")
    assert {Path(finding.path).name, finding.detail.split(":")[0].rpartition("/")[2]} == {"t-0", name}


def test_a_partition_in_two_log_dirs(disks: Path) -> None:
    shutil.copytree(disks / "d1/t-3", disks / "d2/t-3")
    assert [f.path for f in found(disks / "d1", disks / "d2") if f.id == "duplicate-partition"] == [
        str(disks / "d2/t-3")
    ]
    assert "duplicate-partition" not in ids(found(disks / "d2"))


@pytest.mark.parametrize("gone", ["d1", "d2"])
def test_a_partition_in_two_log_dirs_for_a_moment_is_being_moved(
    disks: Path, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a broker moves it: the new folder has its name already, the old one still has it."""
    shutil.copytree(disks / "d1/t-3", disks / "d2/t-3")
    moved = disks / gone / "t-3"
    monkeypatch.setattr(time, "sleep", lambda _: moved.rename(moved.with_name(f"t-3.{'4' * 32}-delete")))
    assert "duplicate-partition" not in ids(found(disks / "d1", disks / "d2"))


def test_a_future_dir_beside_its_partition_is_fine_but_not_two(disks: Path) -> None:
    (future,) = disks.glob("d2/t-1.*-future")
    assert found(disks / "d1", disks / "d2") == []
    shutil.copytree(future, disks / "d1" / future.name.replace(".4", ".5"))
    assert "duplicate-partition" in ids(found(disks / "d1", disks / "d2"))


def test_the_same_log_dir_twice_is_one(disks: Path) -> None:
    once, again = run_verify(disks / "d1"), run_verify(disks / "d1", str(disks / "d1") + "/", disks / "d2/../d1")
    assert once == again


# ---------------------------------------------------------------- meta.properties


@pytest.mark.parametrize(
    "text",
    ["version=7", "version=x", "version=1\nnode.id=1", "version=1\ncluster.id=x", "", "version=0\nnode.id=1"],
)
def test_an_identity_that_cannot_be_read(log_dir: Path, text: str) -> None:
    (log_dir / "meta.properties").write_text(text)
    assert told(found(log_dir)) == [("meta-properties-corrupt", "meta.properties")]


def test_a_reserved_directory_id(log_dir: Path) -> None:
    (log_dir / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n"
    )
    assert told(found(log_dir)) == [("meta-properties-corrupt", "meta.properties")]


def test_an_identity_is_missed_where_brokers_write_one(log_dir: Path, copy_of: CopyOf) -> None:
    (log_dir / "meta.properties").unlink()
    assert "meta-properties-missing" in ids(run_verify(log_dir)[0])
    old = copy_of("magic-0/logdir")
    (old / "meta.properties").unlink(missing_ok=True)
    assert "meta-properties-missing" not in ids(run_verify(old)[0])


@pytest.mark.parametrize("field", ["cluster.id", "node.id"])
def test_log_dirs_of_two_brokers(disks: Path, field: str) -> None:
    path = disks / "d2/meta.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(field)]
    path.write_text("\n".join([*lines, f"{field}=99"]))
    finding = the_one(found(disks / "d1", disks / "d2"))
    assert (finding.id, finding.path, finding.field) == (
        "meta-properties-conflict",
        str(path),
        field.replace(".", "_"),
    )
    assert found(disks / "d2") == []


def test_a_copied_disk(disks: Path) -> None:
    shutil.copy(disks / "d1/meta.properties", disks / "d2/meta.properties")
    finding = the_one(found(disks / "d1", disks / "d2"))
    assert (finding.id, finding.field) == ("meta-properties-conflict", "directory_id")


def test_a_bootstrap_checkpoint_that_is_garbage(log_dir: Path) -> None:
    tear_at(log_dir / "bootstrap.checkpoint", 0)
    assert told(found(log_dir)) == [("kraft-snapshot-corrupt", "bootstrap.checkpoint")]


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize(
    "text", ["hello world", "7\n0\n", "0\n5\nt 0 1\n", "0\n-1\n", "0\n1\nt x 1\n", "0\n1\nt 0 x\n", "0\n1\n\n"]
)
def test_a_checkpoint_that_cannot_be_read(log_dir: Path, name: str, text: str) -> None:
    (log_dir / name).write_text(text)
    assert told(found(log_dir)) == [("checkpoint-corrupt", name)]


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize("text", ["", "0", "0\n0\n"])
def test_an_empty_checkpoint_is_fine(log_dir: Path, name: str, text: str) -> None:
    (log_dir / name).write_text(text)
    assert found(log_dir) == []


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize(
    ("entry", "why"),
    [("t 0 79", "the log ends at 78"), ("t 1 5", "no such partition"), ("u 0 5", "no such"), ("t 0 -5", "below zero")],
)
def test_an_entry_that_the_logs_contradict(log_dir: Path, name: str, entry: str, why: str) -> None:
    (log_dir / name).write_text(f"0\n1\n{entry}\n")
    finding = next(f for f in found(log_dir) if f.id == "checkpoint-entry")
    assert finding.path == str(log_dir / name)
    assert why in finding.detail


@pytest.mark.parametrize(("name", "counts"), [*((name, True) for name in CHECKPOINTS[:2]), (CHECKPOINTS[3], False)])
def test_an_entry_below_the_log_start(log_dir: Path, name: str, counts: bool) -> None:
    """Only a clean stop writes all checkpoints at the same time; and the cleaner's may always be behind."""
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 60\n")
    (log_dir / "t-0/leader-epoch-checkpoint").write_text("0\n1\n4 60\n")
    (log_dir / name).write_text("0\n1\nt 0 59\n")
    assert told(found(log_dir)) == ([("checkpoint-entry", name)] if counts else [])
    (log_dir / ".kafka_cleanshutdown").unlink()
    assert found(log_dir) == []


@pytest.mark.parametrize(
    ("name", "severity"), [(name, "error" if "log-start" in name else "warning") for name in CHECKPOINTS]
)
def test_a_line_by_which_a_start_deletes_the_log_is_an_error(log_dir: Path, name: str, severity: str) -> None:
    (log_dir / name).write_text("0\n1\nt 0 79\n")
    assert {each.severity.value for each in found(log_dir) if each.id == "checkpoint-entry"} == {severity}


def test_an_entry_of_a_partition_that_is_about_to_go(disks: Path) -> None:
    with (disks / "d2/recovery-point-offset-checkpoint").open("w") as file:
        file.write("0\n3\nt 0 60\nt 1 14\nt 2 60\n")
    assert found(disks / "d2") == []


def test_very_many_false_entries_are_not_told_one_by_one(log_dir: Path) -> None:
    lines = "".join(f"no-such-{n} 0 5\n" for n in range(100_000))
    (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n100000\n{lines}")
    findings = found(log_dir)
    assert len(findings) == 21
    assert findings[-1].detail.startswith("99980 more")


# ---------------------------------------------------------------- the clean marker


def test_no_marker_is_a_note(log_dir: Path) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    assert found(log_dir) == []
    assert "unclean-shutdown" in ids(run_verify(log_dir)[0])


@pytest.mark.parametrize(
    "wound",
    [
        pytest.param(lambda log: tear_at(log, log.stat().st_size - 10), id="torn"),
        pytest.param(lambda log: append_bytes(log, bytes(500)), id="zeros"),
        pytest.param(lambda log: append_bytes(log, b"abc"), id="stray bytes"),
        pytest.param(lambda log: append_bytes(log, b"\x7f" * 500), id="garbage"),
        pytest.param(lambda log: tear_at(log, 0), id="emptied"),
        pytest.param(lambda log: log.unlink(), id="gone"),
    ],
)
def test_a_marker_over_a_damaged_tail(log_dir: Path, wound: Callable[[Path], None]) -> None:
    wound(log_dir / f"t-0/{42:020d}.log")
    assert "clean-marker-false" in ids(found(log_dir))
    (log_dir / ".kafka_cleanshutdown").unlink()
    assert "clean-marker-false" not in ids(found(log_dir))


def test_damage_amid_the_log_does_not_make_the_marker_false(log_dir: Path) -> None:
    append_bytes(log_dir / f"t-0/{0:020d}.log", b"abc")
    assert "clean-marker-false" not in ids(found(log_dir))


# ---------------------------------------------------------------- topic ids


def test_partitions_of_a_topic_with_different_ids(disks: Path) -> None:
    edit_text(disks / "d2/t-2/partition.metadata", "topic_id: ", "topic_id: A")
    text = (disks / "d2/t-2/partition.metadata").read_text()
    (disks / "d2/t-2/partition.metadata").write_text(text[:-1])
    finding = the_one(found(disks / "d1", disks / "d2"))
    assert (finding.id, finding.path) == ("topic-id-mismatch", str(disks / "d2/t-2/partition.metadata"))


def test_an_id_that_the_clusters_metadata_does_not_have(copy_of: CopyOf) -> None:
    log_dir = copy_of("metadata/logdir")
    shutil.copy(log_dir / "topic-0-0/partition.metadata", log_dir / "__transaction_state-0/partition.metadata")
    finding = the_one(found(log_dir))
    assert (finding.id, finding.path) == (
        "topic-id-mismatch",
        str(log_dir / "__transaction_state-0/partition.metadata"),
    )
    assert "in the cluster's metadata" in finding.detail


def test_a_stray_may_be_of_another_generation(disks: Path) -> None:
    (ghost,) = disks.glob("d1/ghost-0.*-stray")
    rename(ghost, ghost.name.replace("ghost-0", "t-9"))
    assert found(disks / "d1", disks / "d2") == []


@pytest.mark.parametrize("first", ["d1", "d2"])
def test_what_lost_and_found_has_is_of_the_partition_that_lacks_it(tmp_path: Path, log_dir: Path, first: str) -> None:
    """Two log dirs of one file system: the finding comes once, not once for each."""
    disks = [Path(shutil.copytree(log_dir, tmp_path / "disk" / name)) for name in ("d1", "d2")]
    rename(disks[1] / "t-0", "u-0")
    log = sorted((disks[0] / "t-0").glob("*.log"))[1]
    (tmp_path / "disk/lost+found").mkdir()
    there = Path(shutil.move(log, tmp_path / "disk/lost+found/no-131"))
    named = sorted(disks, key=lambda disk: disk.name != first)
    (finding,) = [each for each in run_verify(*named)[0] if each.path == str(there)]
    assert finding.loses
    assert f"mv -n {there} {log}" in (finding.cure or "")


@pytest.mark.parametrize("other", IDS)
def test_the_id_of_a_name_is_given_unless_another_folder_has_both(tmp_path: Path, other: str) -> None:
    """Another folder of this name with an older id, whichever that is, does not stand in the way."""
    at = [tmp_path / "d1" / "t-0", tmp_path / "d2" / "t-0"]
    for folder, topic_id in zip(at, ("zzzzzzzzzzzzzzzzzzzzzQ", other), strict=True):
        folder.mkdir(parents=True)
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    mine, beside = (Partition(folder) for folder in at)
    identity = TopicIds.of({"t": IDS[1]}).judge("t", "zzzzzzzzzzzzzzzzzzzzzQ")
    kinds = [cure.kind for cure in cures_of(mine, identity, {mine.topic_partition: (mine, beside)})]
    assert kinds == ([] if other == IDS[1] else [CureKind.WRITE_ID])
