"""A partition as a whole: how its segments follow each other, leader epochs, text files, KRaft's files."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Callable

import pytest
from damage import append_bytes, flip_bit, tear_at
from deciding import decided
from running import run_here
from verifying import NOW_MS, copy_file, data, edit_text, found, ids, run_verify, told, write_log

from klogtool.broker.circumstances import Circumstances
from klogtool.format.checkpoints import EpochEntry
from klogtool.format.message import build_message
from klogtool.log.entries import RecordBatch
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.log.segment import Segment
from klogtool.verify.epoch_order import wrong_epochs
from klogtool.verify.segment_report import EpochRun

CopyOf = Callable[[str], pathlib.Path]
Path = pathlib.Path


# ---------------------------------------------------------------- segments


def test_a_segment_that_is_gone_is_a_gap(copy_of: CopyOf) -> None:
    partition = copy_of("two-disks/logdir/d1/t-1")
    for path in partition.glob(f"{29:020d}.*"):
        path.unlink()
    (gap,) = (f for f in run_verify(partition)[0] if f.id == "segment-gap")
    assert (gap.first_offset, gap.last_offset, gap.path) == (29, 67, str(partition / f"{68:020d}.log"))


def test_a_copy_under_a_lower_name_hides_records(copy_of: CopyOf) -> None:
    partition = copy_of("two-disks/logdir/d1/t-1")
    for kind in ("log", "index", "timeindex"):
        copy_file(partition / f"{68:020d}.{kind}", f"{40:020d}.{kind}")
    overlaps = [f for f in found(partition) if f.id == "segment-overlap"]
    assert [(f.first_offset, f.last_offset) for f in overlaps] == [(40, 67), (68, 99)]


def test_the_first_and_the_last_segment_may_begin_anywhere(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", s5=[data(7), data(8)], s9=[])
    assert not ids(run_verify(log)[0]) & {"segment-gap", "segment-overlap"}


def renamed(partition: Path, base: int, new: int) -> Path:
    for kind in ("log", "index", "timeindex"):
        (partition / f"{base:020d}.{kind}").rename(partition / f"{new:020d}.{kind}")
    return partition / f"{new:020d}.log"


def test_a_last_batch_beyond_the_end_of_a_log_that_was_closed(copy_of: CopyOf) -> None:
    """Behind it comes nothing that its base offset could be held against, but the recovery point of a clean stop."""
    log_dir = copy_of("transactions/logdir")
    log = log_dir / f"t-1/{32:020d}.log"
    last = list(Segment(str(log)).batches())[-1]
    for bit in (0, 12, 24):
        flip_bit(log, last.position + 5, bit % 8)
        (wrong,) = found(log_dir)
        assert (wrong.id, wrong.field, wrong.path) == ("batch-header", "base_offset", str(log))
        assert (wrong.start, wrong.first_offset, wrong.last_offset) == (last.position, 37, 37)
        (plan,) = decided("salvage", str(log_dir / "t-1"), Circumstances(now_ms=NOW_MS).as_arguments())
        assert [(mend["field"], mend["is"]) for mend in plan.answer["mended"]] == [("base_offset", 37)]
        flip_bit(log, last.position + 5, bit % 8)


@pytest.mark.parametrize("fixture", ["magic-0", "magic-1"])
def test_a_last_message_of_old_beyond_the_end_of_a_log_that_was_closed(copy_of: CopyOf, fixture: str) -> None:
    """A checksum of old covers no offset either: plain messages and wrappers, of messages with and without offsets."""
    log_dir = copy_of(f"{fixture}/logdir")
    for partition in sorted(log_dir.glob("[ac]*-[0-3]")):
        log = sorted(partition.glob("*.log"))[-1]
        sound, last = log.read_bytes(), list(Segment(str(log)).batches())[-1]
        flip_bit(log, last.position + 5, 0)
        (wrong,) = found(log_dir)
        assert (wrong.id, wrong.field, wrong.path) == ("batch-header", "base_offset", str(log))
        assert (wrong.start, wrong.last_offset) == (last.position, 59)
        (plan,) = decided("salvage", str(partition), Circumstances(now_ms=NOW_MS).as_arguments())
        assert [(mend["field"], mend["is"]) for mend in plan.answer["mended"]] == [("base_offset", 59)]
        log.write_bytes(sound)


def test_a_log_that_was_written_to_since_it_was_closed_is_as_it_should_be(copy_of: CopyOf) -> None:
    log_dir = copy_of("transactions/logdir")
    checkpoint = log_dir / "recovery-point-offset-checkpoint"
    for older in range(1, 38):
        edit_text(checkpoint, "t 1 38", f"t 1 {older}")
        assert found(log_dir) == []
        edit_text(checkpoint, f"t 1 {older}", "t 1 38")


def test_a_name_above_the_first_batch(copy_of: CopyOf) -> None:
    partition = copy_of("two-disks/logdir/d1/t-1")
    log = renamed(partition, 68, 70)
    (misnamed,) = (f for f in found(partition) if f.path == str(log))
    assert (misnamed.id, misnamed.first_offset, misnamed.last_offset) == ("segment-name", 68, 69)
    assert misnamed.cure == f"klogtool salvage {shlex.quote(str(partition))} --output DIR"


def test_a_name_below_the_first_batch_hides_what_is_in_the_segment_before(copy_of: CopyOf) -> None:
    partition = copy_of("two-disks/logdir/d1/t-1")
    log = renamed(partition, 68, 60)
    (overlap,) = (f for f in found(partition) if f.path == str(log))
    assert (overlap.id, overlap.first_offset, overlap.last_offset) == ("segment-overlap", 60, 67)


# ---------------------------------------------------------------- leader epochs


@pytest.fixture
def epochs(copy_of: CopyOf) -> Path:
    """Epoch 0 from 0 on, 2 from 17, 4 from 52."""
    return copy_of("leader-epochs/logdir") / "t-0/leader-epoch-checkpoint"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("hello", "offline"),
        ("\0" * 8, "offline"),
        ("1\n1\n0 0\n", "offline"),
        ("0\n3\n0 0\n", "offline"),
        ("0\n1\n0 0 0\n", "offline"),
        ("0\n1\n-1 0\n", "does not start"),
        ("0\n1\nx 0\n", "does not start"),
        ("0\n-1\n", "does not start"),
    ],
)
def test_epochs_that_cannot_be_read(epochs: Path, text: str, outcome: str) -> None:
    epochs.write_text(text)
    (finding,) = found(epochs.parent)
    assert (finding.id, finding.path) == ("epochs-corrupt", str(epochs))
    assert outcome in finding.detail


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0\n0\n",
        "0\n3\n0 0\n2 18\n4 52\n",  # offset 17 is of epoch 2
        "0\n3\n0 0\n2 16\n4 52\n",  # offset 16 is of epoch 0
        "0\n3\n0 0\n3 17\n4 52\n",
        "0\n2\n0 0\n4 52\n",
        "0\n2\n2 17\n4 52\n",  # nothing about 0 to 16
        "0\n3\n4 52\n2 17\n0 0\n",  # not ascending
        "0\n4\n0 0\n2 17\n4 52\n6 79\n",  # beyond the end
    ],
)
def test_epochs_that_the_log_contradicts(epochs: Path, text: str) -> None:
    epochs.write_text(text)
    assert told(found(epochs.parent)) == [("epochs-content", epochs.name)]


@pytest.mark.parametrize(
    "text",
    [
        "0\n3\n0 0\n2 17\n4 52",
        "0\n5\n0 0\n1 17\n2 17\n4 52\n6 78\n",  # 2 and 6 began without a record before or behind it
    ],
)
def test_epochs_that_may_be(epochs: Path, text: str) -> None:
    epochs.write_text(text.replace("5\n0 0\n1 17\n2 17", "4\n0 0\n2 17"))
    assert found(epochs.parent) == []


def batches_of(partition: Path) -> list[tuple[Path, RecordBatch]]:
    logs = sorted(partition.glob("*.log"))
    return [(log, batch) for log in logs for batch in Segment(str(log)).batches() if isinstance(batch, RecordBatch)]


def flip_epoch(log: Path, batch: RecordBatch, bit: int) -> None:
    flip_bit(log, batch.position + 12 + bit // 8, bit % 8)


@pytest.mark.parametrize("bit", range(32))
def test_a_flip_in_any_leader_epoch_is_found(epochs: Path, bit: int) -> None:
    """Where this file and the neighbours do not know better than the header, they contradict each other at least."""
    for log, batch in batches_of(epochs.parent):
        flip_epoch(log, batch, bit)
        findings = found(epochs.parent)
        flip_epoch(log, batch, bit)
        assert ids(findings) <= {"batch-header", "epochs-content"}, batch
        assert 1 <= len(findings) <= 2, batch
        assert all(finding.field in ("partition_leader_epoch", None) for finding in findings)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("bit", range(32))
def test_a_wrong_leader_epoch_at_the_edge_of_a_segment(epochs: Path, bit: int, is_known: bool) -> None:
    """The last batch of a closed one, and the first of the next: the other segment tells, also without this file."""
    if not is_known:
        epochs.unlink()
    all_batches = batches_of(epochs.parent)
    edge = [n for n, (log, _) in enumerate(all_batches) if n and log != all_batches[n - 1][0]]
    for n in (edge[0] - 1, edge[0]):
        log, batch = all_batches[n]
        flip_epoch(log, batch, bit)
        wrong = [f for f in found(epochs.parent) if f.id == "batch-header"]
        flip_epoch(log, batch, bit)
        assert [(f.path, f.field) for f in wrong] == [(str(log), "partition_leader_epoch")]
        if is_known and n == edge[0] - 1:
            assert (wrong[0].start, wrong[0].end) == (batch.position, batch.position + batch.size)
            assert (wrong[0].first_offset, wrong[0].last_offset) == (batch.base_offset, batch.last_offset)


@pytest.mark.parametrize("bit", range(32))
def test_salvage_sets_right_the_epoch_that_verify_names(epochs: Path, tmp_path: Path, bit: int) -> None:
    log, batch = batches_of(epochs.parent)[9]
    flip_epoch(log, batch, bit)
    (finding,) = found(epochs.parent)
    assert (finding.id, finding.start) == ("batch-header", batch.position)
    assert run_here(["salvage", str(epochs.parent), "--output", str(tmp_path / "t-0")], tmp_path).status == 0
    assert found(tmp_path / "t-0") == []
    mended = [b for _, b in batches_of(tmp_path / "t-0") if b.base_offset == batch.base_offset]
    assert [b.partition_leader_epoch for b in mended] == [batch.partition_leader_epoch]


def test_of_two_batches_that_contradict_each_other_the_one_is_right_that_the_file_confirms() -> None:
    runs = [EpochRun(2, 0, 9, 5), EpochRun(3, 10, 11), EpochRun(2, 12, 13), EpochRun(4, 14, 20, 5)]
    known = LeaderEpochFileCache([EpochEntry(2, 0), EpochEntry(4, 14)])
    assert wrong_epochs(runs, known) == {1: 2}
    known = LeaderEpochFileCache([EpochEntry(2, 0), EpochEntry(3, 10), EpochEntry(4, 14)])
    assert wrong_epochs(runs, known) == {2: 3}


def test_no_epochs_where_the_log_has_some(epochs: Path) -> None:
    epochs.unlink()
    (finding,) = found(epochs.parent)
    assert (finding.id, finding.detail.split(";")[0]) == ("epochs-missing", "the log has leader epochs 0 to 4")


def test_epochs_below_the_log_start_are_forgotten(copy_of: CopyOf) -> None:
    log_dir = copy_of("leader-epochs/logdir")
    (log_dir / "t-0/leader-epoch-checkpoint").write_text("0\n2\n2 30\n4 52\n")
    assert told(found(log_dir)) == [("epochs-content", "leader-epoch-checkpoint")]
    assert told(found(log_dir / "t-0")) == [("epochs-content", "leader-epoch-checkpoint")]
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    assert found(log_dir) == []


def test_old_formats_have_no_epochs(copy_of: CopyOf) -> None:
    partition = next(path for path in copy_of("magic-1/logdir").iterdir() if path.is_dir())
    assert not (partition / "leader-epoch-checkpoint").exists()
    assert found(partition) == []


def test_a_message_of_an_old_format_makes_a_broker_forget(tmp_path: Path) -> None:
    old = build_message(1, None, b"v", magic=1, timestamp=1_700_000_000_000)
    log = write_log(tmp_path / "t-0", s0=[data(0), old, data(2)])
    (log / "leader-epoch-checkpoint").write_text("0\n1\n0 2\n")
    assert not ids(found(log)) & {"epochs-content", "epochs-missing"}
    (log / "leader-epoch-checkpoint").write_text("0\n1\n1 2\n")
    assert "epochs-content" in ids(found(log))


# ---------------------------------------------------------------- partition.metadata


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", "does not start"),
        ("version: 0\n", "does not start"),
        ("version: 0\ntopic_id: xyz", "does not start"),
        ("hello", "offline"),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "offline"),
    ],
)
def test_partition_metadata_that_cannot_be_read(copy_of: CopyOf, text: str, outcome: str) -> None:
    partition = copy_of("transactions/logdir/t-0")
    (partition / "partition.metadata").write_text(text)
    (finding,) = found(partition)
    assert finding.id == "partition-metadata-corrupt"
    assert outcome in finding.detail


def test_partition_metadata_that_hides_a_partition_of_the_cluster_is_an_error(copy_of: CopyOf) -> None:
    log_dir = copy_of("metadata/logdir")
    file = log_dir / "topic-0-0/partition.metadata"
    file.unlink()
    (finding,) = found(log_dir)
    assert (finding.id, finding.path) == ("partition-metadata-missing", str(file))
    assert [each.id for each in found(log_dir / "topic-0-0")] == ["partition-metadata-missing"]
    (log_dir / "topic-0-0").rename(log_dir / "never-0")  # the cluster has no such topic: a broker is right
    assert "partition-metadata-missing" not in ids(found(log_dir))


def test_partition_metadata_is_missed_where_others_have_it(copy_of: CopyOf) -> None:
    log_dir = copy_of("transactions/logdir")
    (log_dir / "t-0/partition.metadata").unlink()
    assert "partition-metadata-missing" in ids(run_verify(log_dir)[0])
    assert "partition-metadata-missing" in ids(run_verify(log_dir / "t-0")[0])
    assert "partition-metadata-missing" not in ids(run_verify(copy_of("three-magics/logdir") / "plain-0")[0])


# ---------------------------------------------------------------- a dir that is about to be deleted


def test_of_a_doomed_dir_only_what_stops_a_broker_counts(copy_of: CopyOf) -> None:
    log_dir = copy_of("two-disks/logdir/d2")
    (doomed,) = log_dir.glob("t-0.*-delete")
    for path in doomed.glob("*.timeindex"):
        path.unlink()
    assert found(log_dir) == []
    (doomed / "leader-epoch-checkpoint").write_text("hello")
    assert ids(found(log_dir)) == {"epochs-corrupt"}


# ---------------------------------------------------------------- KRaft


@pytest.fixture
def metadata(copy_of: CopyOf) -> Path:
    return copy_of("metadata/logdir/__cluster_metadata-0")


def newest_snapshot(metadata: Path) -> Path:
    return max(metadata.glob("*.checkpoint"))


@pytest.mark.parametrize(
    "wound",
    [
        pytest.param(lambda path: tear_at(path, 0), id="empty"),
        pytest.param(lambda path: flip_bit(path, 300), id="a flipped bit"),
        pytest.param(lambda path: tear_at(path, path.stat().st_size - 3), id="torn"),
        pytest.param(lambda path: tear_at(path, path.stat().st_size - 75), id="without its footer"),
        pytest.param(lambda path: append_bytes(path, b"garbage"), id="garbage behind it"),
        pytest.param(lambda path: path.write_bytes(b"\xff" * 1000), id="garbage"),
    ],
)
def test_a_snapshot_that_is_not_whole(metadata: Path, wound: Callable[[Path], None]) -> None:
    path = newest_snapshot(metadata)
    path.chmod(0o644)
    wound(path)
    assert told(found(metadata)) == [("kraft-snapshot-corrupt", path.name)]


def test_a_snapshot_whose_name_is_no_id(metadata: Path) -> None:
    (metadata / "foo.checkpoint").write_bytes(b"")
    assert told(found(metadata)) == [("kraft-snapshot-corrupt", "foo.checkpoint")]


def test_a_log_that_begins_behind_its_snapshots(copy_of: CopyOf) -> None:
    metadata = copy_of("metadata/logdir/__cluster_metadata-0")
    for path in metadata.glob("*.checkpoint"):
        path.unlink()
    assert found(metadata) == []
    log_start = metadata.parent / "log-start-offset-checkpoint"
    log_start.write_text("0\n1\n__cluster_metadata 0 90\n")
    assert "kraft-snapshot-corrupt" in ids(found(metadata))


def test_a_snapshot_that_was_not_finished_is_a_note(metadata: Path) -> None:
    (metadata / f"{200:020d}-{2:010d}-123.checkpoint.part").write_bytes(b"")
    assert found(metadata) == []
    assert "leftover-deleted" in ids(run_verify(metadata)[0])


@pytest.mark.parametrize("text", ["", "{}", "garbage", '{"data_version":7}'])
def test_a_quorum_state_that_cannot_be_read(metadata: Path, text: str) -> None:
    (metadata / "quorum-state").write_text(text)
    assert told(found(metadata)) == [("quorum-state-corrupt", "quorum-state")]


def test_what_kraft_does_without(metadata: Path) -> None:
    (metadata / "quorum-state").unlink()
    (metadata / "partition.metadata").unlink()
    assert run_verify(metadata)[0] == []


def test_a_damaged_segment_is_told_once(copy_of: CopyOf) -> None:
    partition = copy_of("two-disks/logdir/d1/t-1")
    flip_bit(partition / f"{29:020d}.log", 200)
    assert told(found(partition)) == [("batch-crc", f"{29:020d}.log")]


def test_text_is_as_it_was(copy_of: CopyOf) -> None:
    """The helper of these tests changes what it says it does."""
    path = copy_of("leader-epochs/logdir/t-0") / "leader-epoch-checkpoint"
    edit_text(path, "2 17", "2 18")
    assert "2 18" in path.read_text()


def test_an_epoch_that_was_learned_again_behind_a_gap(tmp_path: Path) -> None:
    """All records were deleted, a broker forgot the epoch, and then a follower appended behind a gap."""
    log_dir = tmp_path / "logdir"
    partition = write_log(log_dir / "t-0", s0=[data(0), data(4), data(9)])
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 9\n")
    for log_start_offset, wrong in ((4, {"epochs-content"}), (5, set()), (9, set())):
        (log_dir / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {log_start_offset}\n")
        assert ids(found(log_dir)) & {"epochs-content"} == wrong


@pytest.mark.parametrize("start", [17, 52])
@pytest.mark.parametrize("bit", [0, 8, 16])
def test_a_wrong_offset_of_the_batch_that_begins_an_epoch_is_no_wrong_epoch(
    copy_of: CopyOf, start: int, bit: int
) -> None:
    """Where an epoch begins is compared with leader-epoch-checkpoint by the offset that is right."""
    partition = copy_of("leader-epochs/logdir") / "t-0"
    for log in sorted(partition.glob("*.log")):
        for batch in Segment(str(log)).batches():
            if batch.base_offset == start:
                flip_bit(log, batch.position + 5 - bit // 8)
                (wrong,) = found(partition)
                assert (wrong.id, wrong.field, wrong.first_offset) == ("batch-header", "base_offset", start)
                return
    raise AssertionError("no batch begins there")
