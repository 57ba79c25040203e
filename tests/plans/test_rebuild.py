"""rebuild-index: side files made anew, byte for byte what recovery writes; a log that recovery would cut is refused."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import pytest
from damage import append_bytes, flip_bit, frames_of, overwrite
from deciding import decided
from loading import CONFIG, EPOCHS, NOW_MS, data, files_of, make, marker, name_of, result_of, segment
from msgspec import json

from klogtool.broker.circumstances import CLEAN, Circumstances
from klogtool.errors import KlogError, Refused
from klogtool.plans import rebuild_index
from klogtool.plans.plan import Plan

SIDE_KINDS = ("index", "timeindex", "txnindex", "snapshot")


@pytest.fixture
def partition(tmp_path: pathlib.Path) -> pathlib.Path:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    second = [data(4, epoch=2, **producer), marker(5, 7, epoch=2), data(6, epoch=2), data(7, epoch=2)]
    return make(tmp_path / "t-0", {0: segment(0), 4: second, 8: segment(8, epoch=3)})


def plan(folder: pathlib.Path, **more: Any) -> Plan:
    given = Circumstances(now_ms=NOW_MS, config=CONFIG, last_stop=CLEAN)
    (made,) = decided("rebuild-index", str(folder), {**given.as_arguments(), "jobs": 1, **more})
    return made


def spoil(folder: pathlib.Path, seed: int = 1) -> None:
    """No side file is right any more; some are gone."""
    rng = random.Random(seed)
    for path in sorted(folder.iterdir()):
        if path.suffix != ".log":
            path.unlink() if rng.random() < 0.4 else path.write_bytes(rng.randbytes(50))


@pytest.mark.parametrize("seed", range(12))
def test_all_are_made_anew(partition: pathlib.Path, seed: int) -> None:
    """Also if a broker would recover one segment before those below it, since it has no offset index."""
    before = files_of(partition)
    spoil(partition, seed)
    assert result_of(plan(partition)) == before


def test_what_is_right_is_left_alone(partition: pathlib.Path) -> None:
    assert plan(partition).steps == ()


@pytest.mark.parametrize("kind", [*SIDE_KINDS, EPOCHS])
def test_only_one_kind(partition: pathlib.Path, kind: str) -> None:
    before = files_of(partition)
    (partition / EPOCHS).unlink()
    for path in partition.iterdir():
        if path.suffix[1:] in SIDE_KINDS:
            path.unlink()
    left = files_of(partition)
    chosen = {name: content for name, content in before.items() if name == kind or name.endswith(f".{kind}")}
    assert result_of(plan(partition, only=[kind])) == left | chosen


@pytest.mark.parametrize("only", [[], *([kind] for kind in SIDE_KINDS)], ids=str)
@pytest.mark.parametrize(
    ("is_left", "log_start_offset"),
    [(is_left, start) for is_left in ((), (4,), (8,)) for start in (0, 4, 6, 20) if start < 8 or not is_left],
    ids=str,
)
def test_no_index_without_its_log_is_left(
    partition: pathlib.Path, is_left: tuple[int, ...], log_start_offset: int, only: list[str]
) -> None:
    """A broker deletes them when it starts, also where no segment is there: it makes one then, and rebuild-index does
    not."""
    for path in partition.glob("*.log"):
        if int(path.stem) not in is_left:
            path.unlink()
    made = plan(partition, only=only, log_start_offset=log_start_offset)
    files, kinds = result_of(made), only or SIDE_KINDS
    indexes = [name for name in files if name.endswith("index") and name.rpartition(".")[2] in kinds]
    assert {name.partition(".")[0] for name in indexes} <= {name_of(base, "")[:-1] for base in is_left}
    assert [verdict.segment for verdict in made.segments] == list(is_left)


def test_answers_have_the_entries_of_each_segment(partition: pathlib.Path) -> None:
    spoil(partition)
    rows = json.decode(json.encode(list(rebuild_index.walk_rebuilt(plan(partition)))))
    assert [(row["segment"], row["truncated_bytes"], row["next_offset"]) for row in rows] == [
        (0, 0, 4),
        (4, 0, 8),
        (8, 0, 12),
    ]
    size = len(data(0))
    assert rows[0]["offset_index"] == [[n, n * size] for n in range(1, 4)]
    assert rows[1]["txn_index"] == [[7, 4, 5, 6]]
    assert rows[2]["time_index"][-1] == [NOW_MS + 11_000, 11]


def test_epochs_that_contradict_the_batches_are_not_believed(partition: pathlib.Path) -> None:
    before = files_of(partition)
    (partition / EPOCHS).write_bytes(b"0\n2\n1 0\n3 2\n")
    assert result_of(plan(partition)) == before


def test_epochs_whose_batches_are_gone_are_kept(partition: pathlib.Path) -> None:
    """Compaction may have taken them: the file knows more than the log."""
    (partition / name_of(4, "log")).write_bytes(b"".join([data(4, epoch=4), data(6, epoch=4)]))
    (partition / EPOCHS).write_bytes(b"0\n4\n1 0\n3 2\n4 4\n5 8\n")
    (partition / name_of(0, "log")).write_bytes(b"".join([data(0), data(1)]))
    (partition / name_of(8, "log")).write_bytes(segment(8, epoch=5))
    assert EPOCHS not in {step.path for step in plan(partition).steps}


@pytest.mark.parametrize("damage", ["flipped", "torn", "lower offset"])
def test_a_damaged_log_is_refused_with_what_there_is_instead(partition: pathlib.Path, damage: str) -> None:
    log = partition / name_of(4, "log")
    if damage == "flipped":
        flip_bit(log, 70)
    elif damage == "torn":
        append_bytes(log, b"torn")
    else:
        last = list(frames_of(log.read_bytes()))[-1]
        overwrite(log, last.position, (4).to_bytes(8, "big"))
    with pytest.raises(Refused, match=r"segment 4 is damaged: .*recover.*salvage"):
        plan(partition)


def test_offsets_too_far_from_the_base_are_no_torn_batch(tmp_path: pathlib.Path) -> None:
    """A recovery splits such a segment: that a segment is shorter then is no damage."""
    folder = make(tmp_path / "t-0", {0: [data(0), data(1)]})
    append_bytes(folder / name_of(0, "log"), data(1 << 33))
    with pytest.raises(Refused, match="do not fit into its indexes: 'klogtool recover' splits it"):
        plan(folder)


def test_what_was_interrupted_is_refused(partition: pathlib.Path) -> None:
    (partition / name_of(4, "log.swap")).write_bytes(segment(4))
    with pytest.raises(Refused, match="recover"):
        plan(partition)


def test_a_named_segment_is_cut_and_snapshots_above_it_go(partition: pathlib.Path) -> None:
    flip_bit(partition / name_of(4, "log"), 2 * len(data(4)) + 65)
    made = plan(partition, segments=[4])
    files = result_of(made)
    (row,) = json.decode(json.encode(list(rebuild_index.walk_rebuilt(made))))
    assert (row["segment"], row["next_offset"]) == (4, 6)
    assert row["truncated_bytes"] == len(data(4)) * 2
    # The one behind is left alone; its snapshots are not.
    assert files[name_of(8, "log")] == segment(8, epoch=3)
    assert sorted(name for name in files if name.endswith(".snapshot")) == [
        name_of(4, "snapshot"),
        name_of(6, "snapshot"),
    ]


def test_a_sound_named_segment_loses_its_snapshots_too(partition: pathlib.Path) -> None:
    before = files_of(partition)
    left = {name: content for name, content in before.items() if name != name_of(12, "snapshot")}
    assert result_of(plan(partition, segments=[4])) == left


def test_only_some_side_files_of_a_segment_that_is_cut_is_no_offer(partition: pathlib.Path) -> None:
    flip_bit(partition / name_of(4, "log"), 70)
    with pytest.raises(Refused, match="segment 4 is damaged"):
        plan(partition, segments=[4], only=["index"])


def test_a_segment_that_is_not_there(partition: pathlib.Path) -> None:
    with pytest.raises(KlogError, match="there is no segment 5"):
        plan(partition, segments=[5])
    assert not (partition / name_of(5, "log")).exists()
