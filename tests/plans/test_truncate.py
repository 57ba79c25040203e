"""Cutting a log, and beginning it anew (Kafka's UnifiedLogTest and LogSegmentTest)."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from deciding import decided
from loading import CONFIG, EPOCHS, NOW_MS, data, make, marker, names_of, result_of, segment
from nothing_new import findings_in
from running import run_here

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.errors import KlogError, Refused
from klogtool.format.indexes import OFFSET_ENTRIES, TIME_ENTRIES, parse_txn_index
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.plans.plan import Delete, Plan, Rename, Truncate, Write
from klogtool.render.changes import truncate_text
from klogtool.render.words import words

BATCH = len(data(0))


def cut(folder: pathlib.Path, config: Mapping[str, str] | None = None, **given: Any) -> Plan:
    """given: of Circumstances log_start_offset and high_watermark; else the command's."""
    known = {name: given.pop(name, None) for name in ("log_start_offset", "high_watermark")}
    circumstances = Circumstances(now_ms=NOW_MS, config={**CONFIG, **(config or {})}, **known)
    (plan,) = decided("truncate", str(folder), {**circumstances.as_arguments(), "jobs": 1, **given})
    return plan


def state_of(plan: Plan) -> tuple[int, int, int | None]:
    state = plan.answer["state"]
    return state["log_start_offset"], state["log_end_offset"], state["log_start_checkpoint"]


@pytest.fixture
def partition(tmp_path: pathlib.Path) -> pathlib.Path:
    """Offsets 0 to 3, 4 to 7, 8 to 11, with epochs 1, 2 and 3."""
    return make(tmp_path / "t-0", {base: segment(base, epoch=1 + base // 4) for base in (0, 4, 8)})


def test_inside_a_segment(partition: pathlib.Path) -> None:
    plan = cut(partition, to=6)
    files = result_of(plan)
    assert plan.answer["truncated"] is True
    assert state_of(plan) == (0, 6, None)
    assert {base: len(files[f"{base:020d}.log"]) for base in names_of(files, "log")} == {0: 4 * BATCH, 4: 2 * BATCH}
    assert names_of(files, "log.deleted") == [8]
    assert [entry.offset for entry in OFFSET_ENTRIES.parse(files[f"{4:020d}.index"], 4)] == [5]
    assert [entry.offset for entry in TIME_ENTRIES.parse(files[f"{4:020d}.timeindex"], 4)] == [5]
    assert names_of(files, "snapshot") == [4, 6]
    assert files[EPOCHS] == b"0\n2\n1 0\n2 4\n"


def test_a_false_offset_index_is_no_place_to_cut(partition: pathlib.Path) -> None:
    """Kafka would cut nothing: what it looks up leads behind the batches that are to go."""
    index = partition / f"{4:020d}.index"
    index.write_bytes((1).to_bytes(4, "big") + (4 * BATCH - 3).to_bytes(4, "big"))
    index.with_suffix(".timeindex").write_bytes(b"")
    cut(partition, to=9)
    with pytest.raises(
        Refused, match="offset index of segment 4 is false: its batches up to offset 7 would stay"
    ) as refused:
        cut(partition, to=6)
    assert refused.value.cure == f"klogtool rebuild-index {partition} --segment 4 --only index --apply"


def test_the_largest_timestamp_is_found_anew(tmp_path: pathlib.Path) -> None:
    """Of the batches that stay, the second has the largest one; the index knew only the last."""
    times = (5, 9, 3, 20)
    folder = make(tmp_path / "t-0", {0: [data(n, time_ms=NOW_MS + time) for n, time in enumerate(times)]})
    files = result_of(cut(folder, {"index.interval.bytes": "100000"}, to=3))
    entries = TIME_ENTRIES.parse(files[f"{0:020d}.timeindex"], 0)
    assert [(entry.timestamp - NOW_MS, entry.offset) for entry in entries][-1] == (9, 1)


def test_at_the_base_of_a_segment_that_stays_empty(partition: pathlib.Path) -> None:
    files = result_of(cut(partition, to=8))
    assert names_of(files, "log") == [0, 4, 8]
    assert [files[f"{8:020d}.{kind}"] for kind in ("log", "index", "timeindex")] == [b"", b"", b""]
    assert names_of(files, "log.deleted") == []


def test_inside_a_batch_that_goes_whole(tmp_path: pathlib.Path) -> None:
    """The log ends at the offset all the same, as a running broker has it."""
    folder = make(tmp_path / "t-0", {0: [data(0, records=6), data(6, records=2)]})
    plan = cut(folder, to=7)
    files = result_of(plan)
    assert state_of(plan) == (0, 7, None)
    assert len(files[f"{0:020d}.log"]) == len(data(0, records=6))
    assert names_of(files, "snapshot") == [7]
    assert any("after the next startup the log ends at 6" in note for note in map(words, plan.notes))
    assert "then the log ends at offset 7, and at 6 after the next start of a broker" in truncate_text(plan)
    assert "next start" not in truncate_text(cut(folder, to=6)).splitlines()[0]


def test_at_a_gap(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: [data(0), data(3)]})
    assert len(result_of(cut(folder, to=1))[f"{0:020d}.log"]) == BATCH


@pytest.mark.parametrize("to", [12, 13, 2**62])
def test_at_or_behind_the_end_nothing_is_cut(partition: pathlib.Path, to: int) -> None:
    plan = cut(partition, to=to)
    assert plan.answer["truncated"] is False
    assert names_of(result_of(plan), "log") == [0, 4, 8]


def test_but_an_epoch_that_begins_at_the_end_goes(partition: pathlib.Path) -> None:
    (partition / EPOCHS).write_bytes(b"0\n4\n1 0\n2 4\n3 8\n9 12\n")
    assert result_of(cut(partition, to=12))[EPOCHS] == b"0\n3\n1 0\n2 4\n3 8\n"


def test_at_offset_0_nothing_is_left(partition: pathlib.Path) -> None:
    plan = cut(partition, to=0)
    assert plan.answer["truncated"] is True
    assert state_of(plan) == (0, 0, None)
    assert result_of(plan)[f"{0:020d}.log"] == b""


def test_a_negative_offset_is_refused(partition: pathlib.Path) -> None:
    with pytest.raises(Refused) as refused:
        cut(partition, to=-1)
    assert refused.value.kafka_class == "IllegalArgumentException"
    assert "to a negative offset (-1)" in refused.value.reason


def test_one_offset_is_asked_for(partition: pathlib.Path) -> None:
    for given in ({}, {"to": 1, "start_at": 1}):
        with pytest.raises(KlogError, match="either"):
            cut(partition, **given)


def test_below_the_log_start_that_comes_down(partition: pathlib.Path) -> None:
    assert state_of(cut(partition, to=5, log_start_offset=7)) == (5, 5, 5)
    assert state_of(cut(partition, to=9, log_start_offset=7)) == (7, 9, 7)


def test_below_the_first_segment_it_begins_anew(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {4: segment(4), 8: segment(8)})
    plan = cut(folder, to=2)
    files = result_of(plan)
    assert plan.answer["truncated"] is True
    assert state_of(plan) == (2, 2, None)
    assert (names_of(files, "log"), names_of(files, "log.deleted")) == ([2], [4, 8])
    assert files[EPOCHS] == b"0\n0\n"


def test_below_the_high_watermark_is_told(partition: pathlib.Path) -> None:
    below, at = (cut(partition, to=to, high_watermark=7).notes for to in (6, 7))
    assert any("below the high watermark 7" in words(note) for note in below)
    assert not any("below the high watermark" in words(note) for note in at)


def test_a_transaction_is_open_again(tmp_path: pathlib.Path) -> None:
    """Its marker goes, and the entry of the transaction index with it."""
    batches = [data(0, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True), marker(1, 7), data(2)]
    folder = make(tmp_path / "t-0", {0: batches})
    assert len(parse_txn_index((folder / f"{0:020d}.txnindex").read_bytes())) == 1
    files = result_of(cut(folder, to=1))
    assert files[f"{0:020d}.txnindex"] == b""
    (entry,) = parse_producer_snapshot(files[f"{1:020d}.snapshot"])
    assert (entry.producer_id, entry.current_txn_first_offset) == (7, 0)


@pytest.mark.parametrize("at", [0, 3, 4, 8, 12, 500])
def test_beginning_anew(partition: pathlib.Path, at: int) -> None:
    plan = cut(partition, start_at=at)
    files = result_of(plan)
    assert "truncated" not in plan.answer
    assert state_of(plan) == (at, at, None)
    assert (names_of(files, "log"), files[f"{at:020d}.log"]) == ([at], b"")
    assert names_of(files, "log.deleted") == [0, 4, 8]
    assert (names_of(files, "snapshot"), files[EPOCHS]) == ([], b"0\n0\n")
    purged = result_of(cut(partition, start_at=at, purge=True))
    assert purged == {name: content for name, content in files.items() if not name.endswith(".deleted")}


@pytest.mark.parametrize("at", [0, 3, 4, 6, 8, 11, 12, 500])
def test_while_it_begins_anew_no_two_logs_have_the_same_offsets(partition: pathlib.Path, at: int) -> None:
    """A broker that starts between two steps would find a segment that ends behind the begin of the next one."""
    ends = {f"{base:020d}.log": base + 4 for base in (0, 4, 8)}
    for step in cut(partition, start_at=at).steps:
        if isinstance(step, Rename | Delete):
            ends.pop(step.path, None)
        elif isinstance(step, Write | Truncate) and step.path.endswith(".log"):
            ends[step.path] = int(step.path.partition(".")[0])
        for (_, end), (following, _) in pairwise(sorted(ends.items())):
            assert end <= int(following.partition(".")[0]), step


def test_beginning_anew_with_a_log_start_of_its_own(partition: pathlib.Path) -> None:
    assert state_of(cut(partition, start_at=6, log_start_offset_after=2)) == (2, 6, None)


def test_the_deleted_file_is_the_whole_segment(tmp_path: pathlib.Path) -> None:
    """Also where an empty one of the same name takes its place, and it was the only one."""
    folder = make(tmp_path / "t-0", {0: segment(0)})
    assert result_of(cut(folder, start_at=0))[f"{0:020d}.log.deleted"] == segment(0)
    assert result_of(cut(folder, start_at=2))[f"{0:020d}.log.deleted"] == segment(0)


@pytest.mark.parametrize("policy", [[], ["--config", "cleanup.policy=delete"], ["--config", "cleanup.policy=compact"]])
@pytest.mark.parametrize("how", [["--to", "5"], ["--to", "6"], ["--start-at", "3"], ["--start-at", "500"]])
def test_nothing_is_left_beyond_the_log(tmp_path: pathlib.Path, how: list[str], policy: list[str]) -> None:
    """Neither a line of the cleaner, whoever gave the policy, nor a snapshot of a cut inside a batch."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    for name in ("cleaner-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (log_dir / name).write_text("0\n1\nt 0 12\n")
    make(log_dir / "t-0", {0: segment(0), 4: data(4) + data(5, records=3), 8: segment(8)})
    before = findings_in(str(log_dir))
    words = ["truncate", "logs/t-0", *how, *policy, "--now", str(NOW_MS), "--apply"]
    assert run_here(words, tmp_path).status == 0
    assert findings_in(str(log_dir)) - before == Counter()
    line = (log_dir / "cleaner-offset-checkpoint").read_text().split()[-1]
    assert int(line) <= {"5": 4, "6": 4, "3": 3, "500": 12}[how[1]]


def test_a_cut_in_a_gap_leaves_the_open_transaction_that_the_next_start_has_to_know(tmp_path: pathlib.Path) -> None:
    """A clean start without any snapshot reads no batches. It would forget the transaction, and serve its records."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    open_txn = data(0, records=3, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    folder = make(log_dir / "t-0", {0: [open_txn, data(33)]})
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    assert run_here(["truncate", "logs/t-0", "--to", "5", "--now", str(NOW_MS), "--apply"], tmp_path).status == 0
    loaded = load(str(folder), Circumstances(now_ms=NOW_MS))
    assert (loaded.log_end_offset, loaded.last_stable_offset) == (3, 0)
    assert [path.name for path in folder.glob("*.snapshot")] == [f"{3:020d}.snapshot"]
