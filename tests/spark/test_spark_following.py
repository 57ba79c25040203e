"""Streams over logs that change under them: created anew, cut back, deleted from, removed; and what a checkpoint holds.

Without Spark: a stream is played batch by batch, and everything that it keeps goes through JSON, as in a checkpoint.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterable
from typing import Any

import pytest
from damage import append_bytes, flip_bit
from loading import data, make
from planned import by_klogtool, given
from played import START, Stream

from klogtool.errors import Changed, Refused
from klogtool.format.checkpoints import build_offset_checkpoint
from klogtool.format.identity import PartitionMetadata, build_partition_metadata
from klogtool.format.names import TopicPartition
from klogtool.format.uuids import build_uuid
from klogtool.log.file import Unreadable, unreadable
from klogtool.log.storage import LocalStorage, Stored
from klogtool.spark.filters import Bounds
from klogtool.spark.following import Follower
from klogtool.spark.options import parse_query
from klogtool.spark.reading import Task, read_split
from klogtool.spark.stream_progress import Reached, of_json

OLD, NEW = bytes(range(16)), bytes(range(1, 17))


def make_log(folder: pathlib.Path, first: int, end: int, topic_id: bytes | None) -> pathlib.Path:
    """A partition dir of records with these offsets; a segment for every 30."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    bases = range(first, max(end, first + 1), 30)
    make(folder, {base: [data(n) for n in range(base, min(base + 30, end))] for base in bases})
    if topic_id is not None:
        (folder / "partition.metadata").write_bytes(build_partition_metadata(PartitionMetadata(0, topic_id)))
    return folder


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log dir with t-0 and t-1, 90 records each."""
    for n in (0, 1):
        make_log(tmp_path / "logdir" / f"t-{n}", 0, 90, OLD)
    return tmp_path / "logdir"


def of(partition: int, first: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(first, end)]


WORDS = {
    "anew": r"Partition t-0's offset was changed from 90 to 5, some data may have been missed: .* created again",
    "cut": r"Partition t-0's offset was changed from 90 to 60, some data may have been missed$",
    "gone": r"Partitions \[t-0\] are gone\. Some data may have been missed",
    "deleted": r"Partition t-0 starts from 120: offsets from 90 on are no longer there",
}


def create_anew(folder: pathlib.Path) -> None:
    make_log(folder, 0, 5, NEW)


def create_anew_and_longer(folder: pathlib.Path) -> None:
    make_log(folder, 0, 95, NEW)


def create_anew_with_deleted_records(folder: pathlib.Path) -> None:
    make_log(folder, 30, 95, NEW)


def cut_back(folder: pathlib.Path) -> None:
    make_log(folder, 0, 60, OLD)


def remove(folder: pathlib.Path) -> None:
    os.rename(folder, f"{folder}.8f5e1b0c5b7c4d7cb2f0f5f3a9a0b1c2-delete")


def delete_unread(folder: pathlib.Path) -> None:
    make_log(folder, 120, 150, OLD)


def delete_by_checkpoint(folder: pathlib.Path) -> None:
    make_log(folder, 0, 150, OLD)
    starts = build_offset_checkpoint({TopicPartition("t", 0): 120})
    (folder.parent / "log-start-offset-checkpoint").write_bytes(starts)


def lose_the_id_and_create_anew(folder: pathlib.Path) -> None:
    make_log(folder, 0, 5, None)


LOSSES: list[tuple[Any, str, list[tuple[int, int]]]] = [
    (create_anew, WORDS["anew"], of(0, 0, 5)),
    (create_anew_and_longer, "offset was changed from 90 to 95.*created again", of(0, 0, 95)),
    (create_anew_with_deleted_records, "offset was changed from 90 to 95.*created again", of(0, 30, 95)),
    (cut_back, WORDS["cut"], []),
    (remove, WORDS["gone"], []),
    (delete_unread, WORDS["deleted"], of(0, 120, 150)),
    (delete_by_checkpoint, WORDS["deleted"], of(0, 120, 150)),
    (lose_the_id_and_create_anew, "offset was changed from 90 to 5, some data may have been missed$", of(0, 0, 5)),
]


NAMES = [change.__name__ for change, *_ in LOSSES]


@pytest.mark.parametrize(("change", "words", "rows"), LOSSES, ids=NAMES)
def test_lost_data_are_an_error_and_the_checkpoint_stays(
    disk: pathlib.Path, change: Any, words: str, rows: Any
) -> None:
    stream = Stream(disk)
    assert stream.batch() == (of(0, 0, 90) + of(1, 0, 90), [])
    before = stream.json
    change(disk / "t-0")
    for _ in range(2):
        with pytest.raises(Refused) as error:
            stream.batch()
        assert re.search(words, str(error.value)), error.value
        assert error.value.cure == "To continue without these records, set the option failOnDataLoss to false."
        assert stream.json == before


@pytest.mark.parametrize(("change", "words", "rows"), LOSSES, ids=NAMES)
def test_lost_data_are_a_warning_and_a_new_beginning(disk: pathlib.Path, change: Any, words: str, rows: Any) -> None:
    stream = Stream(disk)
    stream.batch()
    change(disk / "t-0")
    found, notes = stream.batch(failOnDataLoss=False)
    assert found == rows
    assert len(notes) == 1
    assert re.search(words, notes[0])
    make_log(disk / "t-1", 0, 93, OLD)
    assert stream.batch() == (of(1, 90, 93), [])
    if change is not remove:
        now = Follower(parse_query(given(disk, {}), [], stream=True)).look()[("t", 0)]
        batches = [data(n) for n in range(now.end, now.end + 4)]
        append_bytes(max((disk / "t-0").glob("*.log")), b"".join(batches))
        assert stream.batch(failOnDataLoss=True) == (of(0, now.end, now.end + 4), [])


@pytest.mark.parametrize(("change", "words", "rows"), LOSSES, ids=NAMES)
def test_a_new_beginning_comes_in_batches_and_misses_nothing(
    disk: pathlib.Path, change: Any, words: str, rows: Any
) -> None:
    stream = Stream(disk, failOnDataLoss=False)
    stream.batch()
    change(disk / "t-0")
    seen: list[tuple[int, int]] = []
    for _ in range(60):
        seen += stream.batch(most=2)[0]
    assert seen == rows


def test_a_partition_comes_back_where_the_disk_was_only_away(disk: pathlib.Path) -> None:
    stream = Stream(disk)
    stream.batch()
    os.rename(disk / "t-0", disk.parent / "away")
    with pytest.raises(Refused, match="are gone"):
        stream.batch()
    make_log(disk.parent / "away", 0, 95, OLD)
    os.rename(disk.parent / "away", disk / "t-0")
    assert stream.batch() == (of(0, 90, 95), [])


@pytest.mark.parametrize("options", [{}, {"subscribe": "t"}, {"assign": '{"t": [0, 1]}'}, {"subscribePattern": "t"}])
def test_a_topic_that_is_gone_as_a_whole(disk: pathlib.Path, options: dict[str, str]) -> None:
    stream = Stream(disk, **options)
    stream.batch()
    for n in (0, 1):
        remove(disk / f"t-{n}")
    with pytest.raises(Refused, match=r"Partitions \[t-0, t-1\] are gone"):
        stream.batch()
    rows, notes = stream.batch(failOnDataLoss=False)
    assert rows == []
    assert any("[t-0, t-1] are gone" in note for note in notes)
    for n in (0, 1):
        make_log(disk / f"t-{n}", 0, 3, NEW)
    assert stream.batch(failOnDataLoss=True)[0] == of(0, 0, 3) + of(1, 0, 3)


def test_a_topic_that_never_was_there_is_an_error(disk: pathlib.Path) -> None:
    with pytest.raises(Refused, match="no such topic: u"):
        Stream(disk, subscribe="t,u", failOnDataLoss=False)


def test_a_partition_that_appears_is_read_from_its_beginning(disk: pathlib.Path) -> None:
    stream = Stream(disk)
    stream.batch()
    make_log(disk / "t-2", 0, 4, OLD)
    assert stream.batch() == (of(2, 0, 4), [])
    make_log(disk / "t-3", 30, 34, OLD)
    with pytest.raises(Refused, match="Added partition t-3 starts from 30 instead of 0"):
        stream.batch()
    rows, (note,) = stream.batch(failOnDataLoss=False)
    assert (rows, "Added partition t-3" in note) == (of(3, 30, 34), True)


def test_the_id_of_a_topic_may_come_later_and_go(disk: pathlib.Path) -> None:
    """A broker adds partition.metadata at its upgrade: the log is the same. Without the file, the last id counts."""
    (disk / "t-0/partition.metadata").unlink()
    stream = Stream(disk)
    stream.batch()
    make_log(disk / "t-0", 0, 91, OLD)
    assert stream.batch() == (of(0, 90, 91), [])
    make_log(disk / "t-0", 0, 92, None)
    assert stream.batch() == (of(0, 91, 92), [])
    make_log(disk / "t-0", 0, 93, NEW)
    with pytest.raises(Refused, match="created again"):
        stream.batch()


@pytest.mark.parametrize(
    ("change", "words"), [(create_anew_and_longer, "created again"), (cut_back, "from 95 to 60"), (remove, "are gone")]
)
def test_a_batch_that_was_planned_before_the_change(disk: pathlib.Path, change: Any, words: str) -> None:
    """Spark writes a batch's offsets down first: after a crash it asks for the same ones again."""
    follower = Follower(parse_query(given(disk, START), [], stream=True))
    before = {("t", 0): Reached(90, build_uuid(OLD))}
    planned = {("t", 0): Reached(95, build_uuid(OLD))}
    change(disk / "t-0")
    with pytest.raises(Refused, match=words):
        follower.splits(before, planned, [])
    lenient = Follower(parse_query(given(disk, {**START, "failOnDataLoss": False}), [], stream=True))
    notes: list[str] = []
    assert lenient.splits(before, planned, notes) == []
    assert [words in note for note in notes] == [True]


def rewrite(folder: pathlib.Path, base: int, kept: Iterable[int], **header: Any) -> None:
    """A new file with these records in the place of a segment, as the cleaner leaves it."""
    path, cleaned = folder / f"{base:020d}.log", folder / "cleaned"
    cleaned.write_bytes(b"".join(data(n, **header) for n in kept))
    os.rename(cleaned, path)


def retain(folder: pathlib.Path) -> None:
    (folder / f"{0:020d}.log").unlink()


def compact(folder: pathlib.Path) -> None:
    rewrite(folder, 0, range(0, 30, 3))


def compact_in_batches_of_more_bytes(folder: pathlib.Path) -> None:
    """The cleaned segment is longer than what it was: positions within it exist, and are of other records."""
    rewrite(folder, 0, [*range(0, 30, 3), *range(30, 60)])
    (folder / f"{30:020d}.log").unlink()


def cut_inside_a_batch(folder: pathlib.Path) -> None:
    os.truncate(folder / f"{60:020d}.log", 10 * len(data(60)) + 7)


def cut_a_closed_segment_inside_a_batch(folder: pathlib.Path) -> None:
    (folder / f"{60:020d}.log").unlink()
    os.truncate(folder / f"{30:020d}.log", 10 * len(data(30)) + 7)


def cut_a_closed_segment_between_batches(folder: pathlib.Path) -> None:
    os.truncate(folder / f"{30:020d}.log", 10 * len(data(30)))


def cut_and_grow(folder: pathlib.Path) -> None:
    path = folder / f"{60:020d}.log"
    path.write_bytes(path.read_bytes()[: 10 * len(data(60))])
    append_bytes(path, b"".join(data(n, epoch=2) for n in range(70, 100)))


def move(folder: pathlib.Path) -> None:
    os.rename(folder, folder.parent.parent / "elsewhere")


def on_disk(folder: pathlib.Path, first: int) -> list[tuple[int, int]]:
    return [row for row in of(0, first, 90) if row[1] in by_klogtool(folder).column("offset").to_pylist()]


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
@pytest.mark.parametrize("first", [0, 10, 40, 75])
@pytest.mark.parametrize(
    "change",
    [
        retain,
        compact,
        compact_in_batches_of_more_bytes,
        cut_inside_a_batch,
        cut_a_closed_segment_inside_a_batch,
        cut_a_closed_segment_between_batches,
        cut_and_grow,
        move,
        remove,
    ],
)
def test_tasks_of_a_log_that_changed_give_all_that_is_left_or_fail(
    disk: pathlib.Path, change: Any, first: int, mode: str
) -> None:
    """A position of the plan is of a byte in the file that was planned. Fewer rows would be a loss that nobody sees."""
    follower = Follower(parse_query(given(disk, START), [], stream=True))
    id_text = build_uuid(OLD)
    splits = follower.splits({("t", 0): Reached(first, id_text)}, {("t", 0): Reached(90, id_text)}, [])
    change(disk / "t-0")
    task = Task(("partition", "offset"), Bounds(), mode)
    try:
        rows = [row for one in splits for batch in read_split(one, task) for row in batch.to_pylist()]
    except (Changed, Unreadable):
        return
    assert [(row["partition"], row["offset"]) for row in rows] == on_disk(disk / "t-0", first)


def test_a_log_that_was_compacted_goes_on_where_it_was(disk: pathlib.Path) -> None:
    stream = Stream(disk, failOnDataLoss=True)
    assert len(stream.batch(most=100)[0]) == 100
    for n in (0, 1):
        rewrite(disk / f"t-{n}", 0, [0, 29])
        rewrite(disk / f"t-{n}", 30, range(31, 60, 2))
    rows, notes = stream.batch()
    assert notes == []
    assert rows == [(n, offset) for n in (0, 1) for offset in [*range(51, 60, 2), *range(60, 90)]]


def test_a_partition_that_moved_to_another_log_dir_goes_on(disk: pathlib.Path) -> None:
    other = disk.parent / "other"
    make_log(other / "u-0", 0, 1, NEW)
    stream = Stream(disk, paths=json.dumps([str(disk), str(other)]), subscribe="t")
    stream.batch()
    make_log(other / "t-0.8f5e1b0c5b7c4d7cb2f0f5f3a9a0b1c2-future", 0, 93, OLD)
    assert stream.batch() == ([], [])
    shutil.rmtree(disk / "t-0")
    os.rename(other / "t-0.8f5e1b0c5b7c4d7cb2f0f5f3a9a0b1c2-future", other / "t-0")
    assert stream.batch() == (of(0, 90, 93), [])


def test_a_checkpoint_of_1_0_0_is_read(disk: pathlib.Path) -> None:
    stream = Stream(disk)
    reached = '"0":{"end":88,"topic_id":"AAECAwQFBgcICQoLDA0ODw"},"1":{"end":89,"topic_id":null}'
    stream.json = f'{{"version":1,"topics":{{"t":{{{reached}}}}}}}'
    assert stream.batch() == (of(0, 88, 90) + of(1, 89, 90), [])


@pytest.mark.parametrize("bit", [0, 7, 20, 31])
def test_damage_at_which_a_stream_has_arrived_does_not_end_it(disk: pathlib.Path, bit: int) -> None:
    stream = Stream(disk, mode="PERMISSIVE")
    stream.batch(most=2 * 60)
    last = disk / "t-1" / f"{60:020d}.log"
    flip_bit(last, 8 + bit // 8, bit % 8)
    last.with_suffix(".index").unlink()
    assert stream.batch()[0] == of(0, 60, 90) + of(1, 60, 90)


def test_many_losses_are_one_line(disk: pathlib.Path) -> None:
    stream = Stream(disk)
    stream.batch()
    for n in (0, 1):
        create_anew(disk / f"t-{n}")
    with pytest.raises(Refused, match=r"Partition t-0's offset was changed .* \(1 more partitions? lost data\)"):
        stream.batch()


@pytest.mark.parametrize(
    "told", [{"t": {"0": 42}}, {}, [], None, {"version": 2, "topics": {}}, {"version": 1, "topics": {"t": {"0": 3}}}]
)
def test_offsets_of_another_kind_are_refused(told: Any) -> None:
    with pytest.raises(Refused, match="not those of a klog stream, version 1") as error:
        of_json(told)
    assert error.value.cure == "Start with another checkpointLocation."


def test_what_may_not_be_read_is_not_taken_for_absent(disk: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalStorage.read

    def read(self: LocalStorage, stored: Stored) -> bytes:
        if stored.path.endswith("t-0/partition.metadata"):
            raise unreadable(stored.path, PermissionError(13, "Permission denied"))
        return real(self, stored)

    stream = Stream(disk)
    monkeypatch.setattr(LocalStorage, "read", read)
    with pytest.raises(Unreadable, match="permission denied"):
        stream.batch()
