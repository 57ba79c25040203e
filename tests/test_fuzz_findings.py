"""What tools/fuzz/directories.py found, each as the smallest wound that shows it."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from damage import field_at, frames_of, heal_checksums, overwrite, tear_at, zero_from
from deciding import decided
from running import FIXTURES
from verifying import NOW_MS, rename, run_verify

from klogtool.broker.circumstances import Circumstances
from klogtool.errors import Refused
from klogtool.format.layouts import BATCH_HEADER

Path = pathlib.Path
LOWEST = (-(2**63)).to_bytes(8, "big", signed=True)
NOT_TEXT = "\udcff"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "transactions/logdir/t-0", tmp_path / "t-0"))


def set_field(log: Path, batch: int, name: str, value: bytes) -> None:
    """A field of the batch at this byte, and the checksum right again."""
    overwrite(log, batch + field_at(BATCH_HEADER, name), value)
    data = bytearray(log.read_bytes())
    heal_checksums(data)
    log.write_bytes(data)


def end_of_entry(log: Path, number: int) -> int:
    frame = list(frames_of(log.read_bytes()))[number]
    return frame.position + frame.size


def test_an_aborted_transaction_that_ends_before_it_begins_names_no_offsets(partition: Path) -> None:
    overwrite(partition / f"{7:020d}.txnindex", 18, LOWEST)
    entry = next(
        finding for finding in run_verify(partition)[0] if finding.id == "txnindex-entry" and finding.start == 0
    )
    assert (entry.first_offset, entry.last_offset) == (None, None)


def test_offsets_that_overflow_ascend_where_the_log_goes_back_behind_them(tmp_path: Path) -> None:
    partition = Path(shutil.copytree(FIXTURES / "metadata/logdir/topic-1-0", tmp_path / "topic-1-0"))
    log = partition / f"{0:020d}.log"
    set_field(log, 0, "base_offset", (1 << 56).to_bytes(8, "big"))
    set_field(log, 0, "last_offset_delta", (6389).to_bytes(4, "big"))
    (overflow,) = (finding for finding in run_verify(partition)[0] if finding.id == "offset-overflow")
    assert (overflow.first_offset, overflow.last_offset) == (1 << 56, (1 << 56) + 6389)


def test_salvage_rebuilds_all_where_the_log_start_is_behind_the_end(partition: Path) -> None:
    given = Circumstances(now_ms=NOW_MS, log_start_offset=2**31)
    (plan,) = decided("salvage", str(partition), given.as_arguments())
    assert [step for step in plan.steps if step.path.endswith(".txnindex")] == []  # the one that is there is right


def test_rebuild_index_names_the_leftover_with_its_folder(partition: Path) -> None:
    left = rename(partition / f"{62:020d}.snapshot", f"{62:020d}.snapshot.cleaned")
    with pytest.raises(Refused) as refused:
        list(decided("rebuild-index", str(partition), Circumstances(now_ms=NOW_MS).as_arguments()))
    assert refused.value.path == str(left)


def test_a_folder_whose_name_is_no_text_is_no_partition_of_a_log_dir_that_is_marked_clean(tmp_path: Path) -> None:
    """A broker does not find it, and a checkpoint cannot have its name."""
    log_dir = Path(shutil.copytree(FIXTURES / "magic-1/logdir", tmp_path / "logdir"))
    rename(log_dir / "create-0", f"{NOT_TEXT}-0")
    plans = list(decided("recover", str(log_dir), {**Circumstances(now_ms=NOW_MS).as_arguments(), "mark_clean": True}))
    assert any(os.path.basename(plan.path) == "create-1" for plan in plans)
    assert not any(os.path.basename(plan.path) == f"{NOT_TEXT}-0" for plan in plans)


def test_an_offset_that_follows_the_largest_of_a_segment_is_judged_once(tmp_path: Path) -> None:
    partition = Path(shutil.copytree(FIXTURES / "magic-1/logdir/create-1", tmp_path / "create-1"))
    log = partition / f"{0:020d}.log"
    overwrite(log, 0, (2**31 - 1).to_bytes(8, "big"))
    zero_from(log, end_of_entry(log, 1))
    findings = [finding for finding in run_verify(log)[0] if finding.start is not None]
    assert len(findings) < 5


def test_the_lowest_offset_there_is(tmp_path: Path) -> None:
    partition = Path(shutil.copytree(FIXTURES / "every-codec/logdir/append-4", tmp_path / "append-4"))
    log = max(partition.glob("*.log"))
    overwrite(log, 0, LOWEST)
    tear_at(log, end_of_entry(log, 0) + 148)
    assert "torn-batch" in {finding.id for finding in run_verify(log)[0]}


def test_offsets_of_the_future_ascend_where_the_log_goes_back(tmp_path: Path) -> None:
    partition = Path(shutil.copytree(FIXTURES / "two-disks/logdir/d2/t-2", tmp_path / "t-2"))
    log = partition / f"{34:020d}.log"
    starts = [frame.position for frame in frames_of(log.read_bytes())]
    overwrite(log, starts[1], bytes(30))
    overwrite(log, starts[-1], (-1).to_bytes(8, "big", signed=True))
    findings = run_verify(log, now_ms=0)[0]
    (future,) = (finding for finding in findings if finding.id == "timestamp-implausible")
    assert None not in (future.first_offset, future.last_offset)
    assert future.first_offset <= future.last_offset


@pytest.mark.parametrize("magic", [1, 2])
def test_an_append_at_the_end_of_all_offsets_is_refused(tmp_path: Path, magic: int) -> None:
    partition = Path(shutil.copytree(FIXTURES / "two-disks/logdir/d2/t-2", tmp_path / "t-2"))
    given = {**Circumstances(now_ms=NOW_MS, log_start_offset=2**63 - 1).as_arguments(), "magic": magic}
    lines = '{"key": {"utf8": "k"}}\n' * 5
    (plan,) = decided("append", str(partition), {**given, "records_text": lines, "batch_records": 1})
    assert all("error" in row for row in plan.answer["appends"])
    assert plan.answer["state"]["log_end_offset"] == 2**63 - 1
