"""Committed offsets out of log dirs: as Kafka's tool told them, at past times, with damage, copies and lags."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from committing import OffsetsLog, commit_key, commit_value
from readers import Reader
from running import FIXTURES, ROOT

from klogtool.broker.coordinator.committed_offsets import LoadedOffsets, LogRange, LogRanges, OutOfRange, load_offsets
from klogtool.format.names import FileKind
from klogtool.log.logdir import LogDir
from klogtool.render.offsets import closing_texts

CORPORA = ROOT.parent / "shared" / "corpus"
Told = dict[tuple[str, str, int], tuple[int, int, int]]


def loaded(log_dir: pathlib.Path, at_ms: int | None = None) -> LoadedOffsets:
    opened = [LogDir(str(log_dir))]
    return load_offsets(opened) if at_ms is None else load_offsets(opened, at_ms)


def offsets_of(found: LoadedOffsets) -> dict[tuple[str, str, int], int]:
    return {one.name: one.commit.offset for one in found.committed}


def kafkas(corpus: pathlib.Path) -> Told:
    """(group, topic, partition) -> offset, log end, lag, as kafka-consumer-groups.sh --describe told them."""
    found: Told = {}
    for asked, lines in json.loads((corpus / "golden/offsets.json").read_text()).items():
        if not asked.startswith("--describe --group"):
            continue
        for line in lines:
            words = line.replace(",", " ").split()
            if len(words) >= 6 and words[2].isdecimal():
                group, topic, partition, offset, end, lag = words[:6]
                found[group, topic, int(partition)] = int(offset), int(end), int(lag)
    return found


@pytest.mark.shared
@pytest.mark.parametrize("name", ["2.8.2-groups", "4.3.1-groups-share"])
def test_it_is_what_kafkas_tool_told(name: str) -> None:
    """g-gone was deleted after the tool was asked."""
    corpus = CORPORA / name
    if not corpus.exists():
        pytest.skip("needs ../shared")
    log_dir = LogDir(str(corpus / "logdir"))
    ranges = LogRanges([log_dir])
    ours = {}
    for one in load_offsets([log_dir]).committed:
        log = ranges.find(one.commit.topic, one.commit.partition)
        assert log is not None
        ours[one.name] = one.commit.offset, log.end, log.end - one.commit.offset
    expected = {name: told for name, told in kafkas(corpus).items() if name[0] != "g-gone"}
    assert expected
    assert ours == expected


def test_a_deleted_group_was_there_before() -> None:
    log_dir = FIXTURES / "groups/logdir"
    gone = ("g-gone", "u", 0)
    found = loaded(log_dir)
    assert gone not in offsets_of(found)
    times = {one.timestamp for one in found.committed}
    assert any(gone in offsets_of(loaded(log_dir, at)) for at in range(min(times), max(times) + 2000, 100))


def checkpoint(log_dir: pathlib.Path, kind: FileKind, offset: int, partition: int = 0) -> None:
    (log_dir / kind.value).write_text(f"0\n1\n__consumer_offsets {partition} {offset}\n")


def test_history_is_complete_where_nothing_is_missing(tmp_path: pathlib.Path) -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    log.commit(2, 200)
    log.write(tmp_path)
    checkpoint(tmp_path, FileKind.CLEANER_CHECKPOINT, 1)
    (told,) = loaded(tmp_path).logs
    assert (told.is_compacted, told.complete_from, told.log_end_offset) == (False, None, 2)


def compacted(log_dir: pathlib.Path) -> None:
    """The cleaner came to offset 3: it removed offset 0 because of offset 2."""
    log = OffsetsLog()
    log.skip()
    log.commit(7, 100, topic="u")
    log.commit(2, 200)
    log.write(log_dir)
    log.commit(3, 300)
    log.write(log_dir, base_offset=3)


def test_history_begins_at_the_last_record_that_was_cleaned(tmp_path: pathlib.Path) -> None:
    compacted(tmp_path)
    checkpoint(tmp_path, FileKind.CLEANER_CHECKPOINT, 3)
    (told,) = loaded(tmp_path).logs
    assert (told.is_compacted, told.complete_from, told.first_dirty_offset) == (True, 200, 3)


def test_without_the_cleaners_checkpoint_it_begins_at_the_active_segment(tmp_path: pathlib.Path) -> None:
    compacted(tmp_path)
    assert loaded(tmp_path).complete_from == 200
    checkpoint(tmp_path, FileKind.CLEANER_CHECKPOINT, 0)
    assert loaded(tmp_path).complete_from == 200, "the checkpoint does not explain what is missing"


def test_a_removed_tombstone_before_the_checkpoint(tmp_path: pathlib.Path) -> None:
    """What was at offset 2 came later than all that is left below the checkpoint."""
    log = OffsetsLog()
    log.commit(1, 100)
    log.skip(2)
    log.write(tmp_path)
    log.commit(3, 300)
    log.write(tmp_path, base_offset=3)
    checkpoint(tmp_path, FileKind.CLEANER_CHECKPOINT, 3)
    assert loaded(tmp_path).complete_from == 300


def test_the_log_start_counts(tmp_path: pathlib.Path) -> None:
    log = OffsetsLog()
    log.commit(1, 100, topic="u")
    log.commit(2, 200)
    log.write(tmp_path)
    checkpoint(tmp_path, FileKind.LOG_START_CHECKPOINT, 1)
    found = loaded(tmp_path)
    assert offsets_of(found) == {("g", "t", 0): 2}
    assert found.logs[0].log_start_offset == 1
    assert not found.logs[0].is_compacted


def test_damage_is_left_out_and_told(tmp_path: pathlib.Path) -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    at = len(log.data)
    log.commit(2, 200)
    end = len(log.data)
    log.commit(7, 300, topic="u")
    log.data[at + 40] ^= 1
    path = log.write(tmp_path)
    found = loaded(tmp_path)
    assert offsets_of(found) == {("g", "t", 0): 1, ("g", "u", 0): 7}
    (damage,) = found.damage
    assert (damage.path, damage.start, damage.end) == (str(path), at, end)
    assert "checksum" in damage.reason
    assert not found.logs[0].is_compacted, "damage is no work of the cleaner"


@pytest.mark.parametrize(("number", "base_offset", "told"), [(1, 1 << 40, 2), (2, 0, 0)], ids=["up", "down"])
def test_the_last_record_counts_where_offsets_go_back(
    tmp_path: pathlib.Path, reader: Reader, number: int, base_offset: int, told: int
) -> None:
    """OffsetMetadataManager.replay puts a commit whatever its offset is; no checksum covers a base offset."""
    log, starts = OffsetsLog(), []
    for offset in (1, 2, 3):
        starts.append(len(log.data))
        log.commit(offset, 100 * offset)
    log.data[starts[number] : starts[number] + 8] = base_offset.to_bytes(8, "big")
    path = log.write(tmp_path)
    found = loaded(tmp_path)
    assert offsets_of(found) == {("g", "t", 0): 3}
    (damage,) = found.damage
    assert (damage.path, damage.start, damage.end, damage.offset) == (str(path), starts[2], path.stat().st_size, told)
    told_text = [text for text in closing_texts(found, None, LogRanges([])) if text.startswith("history")]
    assert told_text == ["history: not known, because a log is damaged"]


@pytest.mark.parametrize("cut", [1, 30, 70])
def test_a_torn_end(tmp_path: pathlib.Path, cut: int) -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    whole = len(log.data)
    log.commit(2, 200)
    del log.data[-cut:]
    log.write(tmp_path)
    found = loaded(tmp_path)
    assert offsets_of(found) == {("g", "t", 0): 1}
    assert [one.start for one in found.damage] == [whole]


def test_zeros_at_the_end_are_no_damage(tmp_path: pathlib.Path) -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    log.data += bytes(5000)
    log.write(tmp_path)
    found = loaded(tmp_path)
    assert offsets_of(found) == {("g", "t", 0): 1}
    assert not found.damage


def test_a_value_that_no_broker_can_load_is_damage(tmp_path: pathlib.Path) -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    log.add([(commit_key(topic="u"), b"\0\x63?", 200)])
    log.write(tmp_path)
    found = loaded(tmp_path)
    assert offsets_of(found) == {("g", "t", 0): 1}
    assert [one.offset for one in found.damage] == [1]
    assert "99" in found.damage[0].reason


def test_names_that_are_no_utf8_are_the_same_to_kafka(tmp_path: pathlib.Path) -> None:
    log = OffsetsLog()
    for n, byte in enumerate((b"\xfe", b"\xff")):
        log.add([(commit_key("?").replace(b"?", byte), commit_value(n + 1, 100), 100)])
    log.write(tmp_path)
    assert offsets_of(loaded(tmp_path)) == {("\ufffd", "t", 0): 2}


def test_of_copies_the_one_in_use_counts_and_then_the_longest(tmp_path: pathlib.Path) -> None:
    dirs = [tmp_path / name for name in ("a", "b", "c")]
    for n, log_dir in enumerate(dirs):
        log = OffsetsLog()
        for offset in range(n + 1):
            log.commit(10 * n + offset, 100)
        log.write(log_dir)
    (dirs[2] / "__consumer_offsets-0").rename(dirs[2] / f"__consumer_offsets-0.{'a' * 32}-stray")
    found = load_offsets([LogDir(str(log_dir)) for log_dir in dirs])
    assert offsets_of(found) == {("g", "t", 0): 11}
    (told,) = found.logs
    assert pathlib.Path(told.path).parent == dirs[1]
    assert [pathlib.Path(other).parent for other in told.others] == [dirs[0], dirs[2]]


def test_a_path_that_is_given_twice_is_one_copy() -> None:
    log_dir = LogDir(str(FIXTURES / "groups/logdir"))
    (told,) = load_offsets([log_dir, log_dir]).logs
    assert told.others == ()


def test_a_stray_is_read_if_there_is_nothing_else_and_a_deleted_one_never(tmp_path: pathlib.Path) -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    folder = log.write(tmp_path).parent
    stray = tmp_path / f"__consumer_offsets-0.{'a' * 32}-stray"
    folder.rename(stray)
    assert offsets_of(loaded(tmp_path)) == {("g", "t", 0): 1}
    stray.rename(tmp_path / f"__consumer_offsets-0.{'a' * 32}-delete")
    assert not loaded(tmp_path).logs


def test_of_two_partitions_the_later_commit_counts(tmp_path: pathlib.Path) -> None:
    for partition, (offset, timestamp) in enumerate(((5, 200), (3, 100))):
        log = OffsetsLog()
        log.commit(offset, timestamp)
        log.write(tmp_path, partition)
    assert offsets_of(loaded(tmp_path)) == {("g", "t", 0): 5}


def test_several_segments_and_threads_give_the_same(tmp_path: pathlib.Path) -> None:
    for partition in range(5):
        log = OffsetsLog()
        for base in range(3):
            log.commit(base, 100 + base, group=f"g{partition}")
            log.write(tmp_path, partition, base)
    opened = [LogDir(str(tmp_path))]
    assert load_offsets(opened, jobs=3) == load_offsets(opened)
    assert offsets_of(loaded(tmp_path)) == {(f"g{n}", "t", 0): 2 for n in range(5)}


def test_log_ends(tmp_path: pathlib.Path) -> None:
    """With an index, without one, with one that is wrong, and of a log that has only an empty segment."""
    for name in ("t-0", "t-1"):
        shutil.copytree(FIXTURES / "groups/logdir" / name, tmp_path / name)
    ranges = LogRanges([LogDir(str(tmp_path))])
    assert [ranges.find("t", n) for n in range(3)] == [LogRange(0, 30), LogRange(0, 30), None]
    for index in (tmp_path / "t-0").glob("*.index"):
        index.unlink()
    for index in (tmp_path / "t-1").glob("*.index"):
        index.write_bytes(b"\0\0\0\x05\0\0\0\x07" * 3)
    (tmp_path / "e-0").mkdir()
    (tmp_path / "e-0" / f"{77:020}.log").touch()
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 1 21\n")
    ranges = LogRanges([LogDir(str(tmp_path))])
    assert [ranges.find("t", 0), ranges.find("t", 1)] == [LogRange(0, 30), LogRange(21, 30)]
    assert ranges.find("e", 0) == LogRange(77, 77)


@pytest.mark.parametrize(
    ("offset", "where"),
    [
        (0, OutOfRange.BELOW_LOG_START),
        (20, OutOfRange.BELOW_LOG_START),
        (21, None),
        (30, None),
        (31, OutOfRange.BEYOND_LOG_END),
    ],
)
def test_where_a_committed_offset_lies(offset: int, where: OutOfRange | None) -> None:
    assert LogRange(21, 30).judge(offset) is where
