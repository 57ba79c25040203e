"""Laws of claims over logs that are damaged at random, held against a reader of its own that knows batches and no more.

What a start loses is what the files had before and do not have afterwards; salvage never keeps less than the broker.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import random
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from claim_reasons import without_reason
from damage import append_bytes, flip_bit, overwrite, tear_at
from kafka.layout import walk
from make_broker import SMALL
from running import FIXTURES, KLOGTOOL, run_here
from startup import HERE

from klogtool.format.checksums import crc32c

NOW = ("--now", "1800000000000")
INTERVAL = ("--config", f"index.interval.bytes={SMALL['index_interval_bytes']}")
Path = pathlib.Path
Batch = tuple[int, int, int]  # first and last offset, CRC of the records with their times: a header may differ
Records = dict[Batch, int]
HEAD, CONTROL = 61, 0x20


def batches(log: Path) -> Records:
    """The sound batches of a file, also behind damage, with how many records each has."""
    data, at, found = log.read_bytes(), 0, {}
    while at + HEAD <= len(data):
        base = int.from_bytes(data[at : at + 8], "big", signed=True)
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        crc = int.from_bytes(data[at + 17 : at + 21], "big")
        if at + HEAD <= end <= len(data) and data[at + 16] == 2 and crc32c(data[at + 21 : end]) == crc and base >= 0:
            delta, count = (int.from_bytes(data[at + n : at + n + 4], "big") for n in (23, 57))
            batch = base, base + max(delta, count - 1), crc32c(data[at + 27 : at + 35] + data[at + HEAD : end])
            found[batch] = 0 if data[at + 22] & CONTROL else count
            at = end
        else:
            at += 1
    return found


def records(partition: Path, *endings: str) -> Records:
    logs = (log for ending in ("", *endings) for log in sorted(partition.glob(f"*.log{ending}")))
    return {batch: count for log in logs for batch, count in batches(log).items()}


def a_log(partition: Path, chance: random.Random) -> Path:
    return chance.choice([log for log in sorted(partition.glob("*.log")) if log.stat().st_size])


def flip(partition: Path, chance: random.Random) -> None:
    log = a_log(partition, chance)
    flip_bit(log, chance.randrange(20, log.stat().st_size), chance.randrange(8))


def tear(partition: Path, chance: random.Random) -> None:
    log = a_log(partition, chance)
    tear_at(log, chance.randrange(log.stat().st_size))


def zeros(partition: Path, chance: random.Random) -> None:
    log = a_log(partition, chance)
    at = chance.randrange(log.stat().st_size)
    overwrite(log, at, bytes(min(chance.choice([4, 16, 100]), log.stat().st_size - at)))


def garbage(partition: Path, chance: random.Random) -> None:
    append_bytes(a_log(partition, chance), chance.randbytes(chance.choice([1, 17, 100])))


def no_index(partition: Path, chance: random.Random) -> None:
    a_log(partition, chance).with_suffix(".index").unlink(missing_ok=True)


def no_segment(partition: Path, chance: random.Random) -> None:
    for path in partition.glob(f"{a_log(partition, chance).stem}.*"):
        path.unlink()


def shorter_swap(partition: Path, chance: random.Random) -> None:
    log = a_log(partition, chance)
    data = log.read_bytes()
    log.with_name(f"{log.name}.swap").write_bytes(data[: chance.randrange(len(data))])


def renamed(partition: Path, chance: random.Random) -> None:
    log = a_log(partition, chance)
    to = log.with_name(f"{max(0, int(log.stem) + chance.choice([-3, 2, 5])):020d}.log")
    if not to.exists():
        log.rename(to)


def doubled(partition: Path, chance: random.Random) -> None:
    """A batch is there twice: a write was repeated."""
    log = a_log(partition, chance)
    data, at, spans = log.read_bytes(), 0, []
    while at + HEAD <= len(data) and (size := 12 + int.from_bytes(data[at + 8 : at + 12], "big")) >= HEAD:
        spans.append((at, at + size))
        at += size
    if spans:
        start, stop = chance.choice(spans)
        log.write_bytes(data[:stop] + data[start:stop] + data[stop:])


def overlapping(partition: Path, chance: random.Random) -> None:
    """A batch is there again, an offset later: one of them is in the other's way."""
    log = a_log(partition, chance)
    data, stops = log.read_bytes(), list(itertools.accumulate(sizes_of(log)))
    if stops and stops[-1] <= len(data):
        n = chance.randrange(len(stops))
        start = stops[n - 1] if n else 0
        base = int.from_bytes(data[start : start + 8], "big", signed=True) + 1
        again = max(0, base).to_bytes(8, "big") + data[start + 8 : stops[n]]
        log.write_bytes(data[: stops[n]] + again + data[stops[n] :])


def of_another_log(partition: Path, chance: random.Random) -> None:
    """What another log has, behind this one's: other records under offsets that are there already. As a .swap, too."""
    log, other = a_log(partition, chance), (partition.parent / "u-0" / f"{0:020d}.log").read_bytes()
    spans = list(itertools.accumulate(batch_sizes(partition.parent / "u-0" / f"{0:020d}.log")))
    data = other[chance.choice([0, *spans[:-1], chance.randrange(len(other))]) :]
    if chance.random() < 0.3:
        log.with_name(f"{log.name}.{chance.choice(['swap', 'cleaned'])}").write_bytes(data)
    else:
        append_bytes(log, data)


def sizes_of(log: Path) -> list[int]:
    """Of the entries of a file, as their lengths say; none if one is no length."""
    data, at, sizes = log.read_bytes(), 0, []
    while at + HEAD <= len(data):
        sizes.append(12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True))
        if sizes[-1] < HEAD:
            return []
        at += sizes[-1]
    return sizes


def left_over(partition: Path, chance: random.Random) -> None:
    """What an interrupted cleaning or split left; the segments that it was made of are gone."""
    log = a_log(partition, chance)
    log.rename(log.with_name(log.name + chance.choice([".cleaned", ".swap"])))


def strange_producer(partition: Path, chance: random.Random) -> None:
    """The producer id of a batch, without an epoch; the CRC is right, and consumers do not mind."""
    log = a_log(partition, chance)
    data = bytearray(log.read_bytes())
    end = 12 + int.from_bytes(data[8:12], "big")
    if HEAD <= end <= len(data):
        data[43:51] = (5).to_bytes(8, "big")
        data[17:21] = crc32c(bytes(data[21:end])).to_bytes(4, "big")
        log.write_bytes(data)


def low_last_offset(partition: Path, chance: random.Random) -> None:
    """An old producer's batch: more records than its last offset says. Consumers read them all."""
    log = a_log(partition, chance)
    data = bytearray(log.read_bytes())
    end = 12 + int.from_bytes(data[8:12], "big")
    if HEAD <= end <= len(data):
        data[23:27] = bytes(4)
        data[17:21] = crc32c(bytes(data[21:end])).to_bytes(4, "big")
        log.write_bytes(data)


WOUNDS: tuple[Callable[[Path, random.Random], None], ...] = (
    flip,
    tear,
    zeros,
    garbage,
    no_index,
    no_segment,
    shorter_swap,
    renamed,
    doubled,
    overlapping,
    of_another_log,
    left_over,
    strange_producer,
    low_last_offset,
)


def wounded(tmp_path: Path, seed: int) -> Path:
    """The log dirs of a broker with one to three wounds in t-0, after a clean stop, a kill, or a kill with nothing
    flushed."""
    chance = random.Random(seed)
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    stop = chance.choice(["clean", "killed", "nothing flushed"])
    if stop != "clean":
        (disks / "d1/.kafka_cleanshutdown").unlink()
    if stop == "nothing flushed":
        (disks / "d1/recovery-point-offset-checkpoint").unlink()
    for wound in chance.choices(WOUNDS, k=chance.choice([1, 1, 2, 3])):
        wound(disks / "d1/t-0", chance)
    return disks


def rows_of(disks: Path, *words: str) -> list[dict[str, Any]]:
    done = run_here(["doctor", "d0", "d1", "--format", "json", *NOW, *words], disks)
    assert done.status in (0, 1), done
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert not without_reason(rows)
    return rows


def claim_about(rows: list[dict[str, Any]], partition: Path) -> dict[str, Any]:
    mine = (row for row in rows if row["type"] == "claim" and row["about"] == "partition")
    return next(row for row in mine if row["path"] == str(partition))


def names_and_bytes(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in partition.iterdir() if path.is_file()}


def assert_files(claim: dict[str, Any], before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """Which files are deleted, which have another name, and which logs are changed. An index may be made anew."""
    gone = {name for name in before if name not in after}
    assert gone == {*claim["deleted"], *claim["renamed"]} - after.keys()
    assert all(name.removesuffix(".swap") in after for name in claim["renamed"])
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    assert {name for name in changed if name.endswith(".log")} <= set(claim["rewritten"])


@pytest.mark.some(15)
@pytest.mark.parametrize("seed", range(40))
def test_what_is_lost_is_what_the_files_had_and_have_no_more(tmp_path: Path, seed: int) -> None:
    disks = wounded(tmp_path, seed)
    partition = disks / "d1/t-0"
    before, rows = records(partition, ".cleaned", ".swap"), rows_of(disks)
    names = names_and_bytes(partition)
    claim = claim_about(rows, partition)
    if claim["log_end_offset"] is None:
        assert claim["lost"]["records"] is None  # it is not loaded
        return
    # A start leaves what verify finds, too. A batch that is there twice may empty its segment: that depends on the
    # topic's settings, which are in the other log dir.
    command = [*KLOGTOOL, "recover", str(partition), "--apply", *INTERVAL, *NOW]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode in (0, 1), done
    after = records(partition)
    assert_files(claim, names, names_and_bytes(partition))
    lost = {batch: count for batch, count in before.items() if batch not in after}
    assert claim["lost"]["records"] == sum(lost.values())
    ranges = claim["lost"]["ranges"]
    assert bool(ranges) == bool(claim["lost"]["records"])  # a marker alone is no record
    assert all(any(first <= at[0] and at[1] <= last for first, last in ranges) for at, count in lost.items() if count)
    gone = claim["gone_already"]["ranges"] or claim["gone_already"]["perhaps"]
    assert not [batch for batch in before for first, last in gone if first <= batch[1] and batch[0] <= last]
    verdict = next(row for row in rows if row["type"] == "verdict")
    points = [row for row in rows if row["type"] == "ahead" and row["path"].startswith(str(partition))]
    assert bool(lost) <= (verdict["starts"] != "yes")
    assert bool(lost) <= bool(points)


NOTHING_GONE = {"ranges": [], "witness": [], "reason": None, "perhaps": []}


@pytest.mark.parametrize("index_of", [None, 0, 11])
@pytest.mark.parametrize("is_clean", [True, False])
def test_only_an_index_without_its_log_shows_that_retention_did_not_delete_the_first_segments(
    index_of: int | None, is_clean: bool, tmp_path: Path
) -> None:
    """A broker that was killed in its retention leaves the old epochs, also over the clean stops that follow
    (tests/kafka/test_brokers_killed_in_retention.py)."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    partition = disks / "d1/t-0"
    for path in (*partition.glob(f"{0:020d}.*"), *partition.glob(f"{11:020d}.*")):
        if index_of is None or path.name != f"{index_of:020d}.index":
            path.unlink()
    if not is_clean:
        (disks / "d1/.kafka_cleanshutdown").unlink()
    rows = rows_of(disks)
    claim = claim_about(rows, partition)
    gone = [] if index_of is None else [[index_of, 21]]
    perhaps = [[0, 21]] if index_of is None else [[0, index_of - 1]] if index_of else []
    assert claim["gone_already"] == {
        "ranges": gone or None,
        "witness": ["index"] if gone else [],
        "reason": None if gone else "retention",
        "perhaps": perhaps,
    }
    found = [(row["what"], row["severity"]) for row in rows if row["type"] == "ahead" and row["path"] == str(partition)]
    assert found == [("missing", "warning")] * bool(gone) + [("perhaps-missing", "info")] * bool(perhaps)
    assert any(" --replica COPY " in row["command"] for row in rows if row["type"] == "option")
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 22\n")
    after = claim_about(rows_of(disks), partition)["gone_already"]
    assert after == NOTHING_GONE | {"ranges": gone, "witness": ["index"] if gone else []}


@pytest.mark.parametrize("line", [None, 0, 5])
@pytest.mark.parametrize("known_by", ["metadata", "config", "nobody"])
def test_a_log_that_may_be_tiered_has_nothing_gone_by_its_epochs(
    line: int | None, known_by: str, tmp_path: Path
) -> None:
    """A tiered topic has its first records elsewhere, its epochs begin there, and so does its line, also at offset 0.
    Without the metadata only that line shows it, and others have one above the first segment."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    partition = disks / "d1/t-0"
    for path in (*partition.glob(f"{0:020d}.*"), *partition.glob(f"{11:020d}.*")):
        path.unlink()
    (partition / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {line or 0}\n")
    if line is not None:
        (disks / "d1/log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {line}\n")
    if known_by != "metadata":
        shutil.rmtree(disks / "d0/__cluster_metadata-0")
    words = ("--config", "remote.storage.enable=false") if known_by == "config" else ()
    claim = claim_about(rows_of(disks, *words), partition)
    perhaps = [] if line is not None and known_by == "nobody" else [[line or 0, 21]]
    assert claim["gone_already"]["perhaps"] == perhaps
    assert claim["gone_already"]["ranges"] == (None if perhaps else [])
    assert claim["log_start_offset"] == (0 if line == 0 and known_by == "nobody" else 22)


def test_what_only_a_left_over_has_is_lost_with_it(tmp_path: Path) -> None:
    """A broker deletes segments at both ends of a log, and none inside."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    log = disks / "d1/t-0" / f"{11:020d}.log"
    for ending in (".cleaned", ".deleted", ".swap"):
        left = log.rename(log.with_name(log.name + ending))
        rows = rows_of(disks)
        claim = claim_about(rows, log.parent)
        is_lost = ending != ".swap"  # which a start makes a segment of
        assert (claim["lost"]["records"], claim["lost"]["ranges"]) == ((10, [[11, 21]]) if is_lost else (0, []))
        assert claim["gone_already"]["ranges"] == []
        moves = [row for row in rows if row["type"] == "option" and row["command"].startswith("mv ")]
        assert [row["lost_records"] for row in moves] == [0] * is_lost
        left.rename(log)
    first = log.with_name(f"{0:020d}.log")
    first.rename(first.with_name(f"{first.name}.deleted"))  # as retention does
    claim = claim_about(rows_of(disks), log.parent)
    assert (claim["lost"]["records"], claim["gone_already"]) == (0, NOTHING_GONE)


@pytest.mark.parametrize("last_stop", ["clean", "killed"])
@pytest.mark.parametrize("witness", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "snapshot"])
def test_the_newest_segment_that_is_deleted_though_something_shows_its_offsets(
    tmp_path: Path, witness: str, last_stop: str
) -> None:
    """A truncation lowers all of these, and a clean stop writes them. With none of them it was a truncation."""
    log_dir = Path(shutil.copytree(FIXTURES / "transactions/logdir", tmp_path / "d"))
    partition = log_dir / "t-0"
    if last_stop == "killed":
        (log_dir / ".kafka_cleanshutdown").unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        if name != witness:
            (log_dir / name).write_text("0\n1\nt 0 38\n")
    if witness != "snapshot":
        (partition / f"{62:020d}.snapshot").unlink()
    for path in partition.glob(f"{38:020d}.*[gx]"):
        path.rename(f"{path}.deleted")

    def asked(command: str) -> tuple[int, list[dict[str, Any]]]:
        done = run_here([command, "d" if command == "doctor" else "d/t-0", "--format", "json", *NOW], tmp_path)
        return done.status, [json.loads(line) for line in done.out.splitlines()]

    status, rows = asked("doctor")
    claim = claim_about(rows, partition)
    assert (status, claim["lost"]["records"], claim["lost"]["ranges"]) == (1, 18, [[38, 61]])
    first = next(row for row in rows if row["type"] == "option")
    assert (first["lost_records"], first["command"].startswith("mv "), first["fix"]) == (0, True, True)
    status, rows = asked("recover")
    missing = next(row["answer"]["missing"] for row in rows if "answer" in row)
    assert (status, [gap["told_by"] for gap in missing]) == (1, [f"{38:020d}.log.deleted"])
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (log_dir / name).write_text("0\n1\nt 0 38\n")
    (partition / f"{62:020d}.snapshot").unlink(missing_ok=True)
    (partition / f"{38:020d}.snapshot").unlink()  # a killed broker has it already when it rolls
    for command in ("doctor", "recover"):
        assert asked(command)[0] == 0


def test_a_copy_of_a_segment_with_an_offset_beyond_its_end_is_not_lost_with_a_left_over(tmp_path: Path) -> None:
    """The batch with the damaged base offset stays where it is, in the middle of the active segment."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    log = disks / "d1/t-0" / f"{32:020d}.log"
    (_, second, *_) = sorted(batches(log))
    data = bytearray(log.read_bytes())
    at = data.index(second[0].to_bytes(8, "big"))
    data[at + 6] ^= 128
    log.write_bytes(data)
    log.with_name(f"{log.name}.cleaned").write_bytes(data)
    claim = claim_about(rows_of(disks), log.parent)
    assert f"{log.name}.cleaned" in claim["deleted"]
    assert claim["log_end_offset"] == 43
    assert (claim["lost"]["records"], claim["lost"]["ranges"]) == (0, [])


def test_other_records_under_the_same_offsets_are_lost_with_what_is_cut(tmp_path: Path) -> None:
    """A restore wrote another log's bytes into this one, behind damage. What is there twice is not lost."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (disks / "d1" / name).unlink()
    log, other = disks / "d1/t-0" / f"{32:020d}.log", disks / "d1/u-0" / f"{0:020d}.log"
    own = (disks / "d1/t-0" / f"{0:020d}.log").read_bytes()
    append_bytes(log, bytes(range(1, 60)) + own)
    assert claim_about(rows_of(disks), log.parent)["lost"]["records"] == 0
    append_bytes(log, other.read_bytes())
    lost = claim_about(rows_of(disks), log.parent)["lost"]
    assert (lost["records"], lost["ranges"]) == (sum(batches(other).values()), [[0, 5]])


def test_a_batch_with_an_impossible_last_offset_is_lost_with_the_damage_before_it(tmp_path: Path) -> None:
    """A consumer gets its records. Its header makes it none to look for, but the length before it leads there."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (disks / "d1" / name).unlink()
    log = disks / "d1/t-0" / f"{32:020d}.log"
    data = bytearray(log.read_bytes())
    second, third = (data.index(base.to_bytes(8, "big")) for base in (34, 36))
    data[second + 23 : second + 27] = bytes(4)  # its last offset delta
    data[second + 17 : second + 21] = crc32c(bytes(data[second + 21 : third])).to_bytes(4, "big")
    data[second - 1] ^= 1
    log.write_bytes(data)
    append_bytes(log, b"\0")  # where not even a length is left
    lost = claim_about(rows_of(disks), log.parent)["lost"]
    assert (lost["records"], lost["ranges"]) == (9, [[34, 42]])


def test_a_segment_under_too_high_a_name_is_not_lost_where_its_copy_takes_its_place(tmp_path: Path) -> None:
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    for suffix in (".log", ".index", ".timeindex"):
        path = disks / "d1/t-0" / f"{32:020d}{suffix}"
        path.rename(path.with_name(f"{86:020d}{suffix}"))
    log = disks / "d1/t-0" / f"{86:020d}.log"
    shutil.copy(log, f"{log}.swap")
    claim = claim_about(rows_of(disks), log.parent)
    assert claim["renamed"] == [f"{log.name}.swap"]
    assert (claim["lost"]["records"], claim["lost"]["ranges"]) == (0, [])


def test_a_segment_that_a_start_makes_and_deletes_again_is_deleted(tmp_path: Path) -> None:
    """The same start cuts the log before it."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (disks / "d1" / name).unlink()
    log = disks / "d1/t-0" / f"{22:020d}.log"
    left = log.rename(log.with_name(f"{log.name}.swap"))
    tear_at(log.with_name(f"{11:020d}.log"), 100)
    claim = claim_about(rows_of(disks), log.parent)
    assert (claim["renamed"], left.name in claim["deleted"]) == ([], True)


def test_what_is_below_a_cleaned_segment_is_lost_with_what_it_replaces(tmp_path: Path) -> None:
    """A cleaned segment is named by the first one that it replaces, and has nothing that is below."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    (disks / "d1/.kafka_cleanshutdown").unlink()
    (disks / "d1/cleaner-offset-checkpoint").write_text("0\n1\nt 0 22\n")  # t is compacted
    first, second = (disks / "d1/t-0" / f"{base:020d}.log" for base in (0, 11))
    mine, others = first.read_bytes(), second.read_bytes()
    first.write_bytes(others)
    second.write_bytes(mine)
    second.with_name(f"{second.name}.swap").write_bytes(others)
    lost = claim_about(rows_of(disks), first.parent)["lost"]
    assert (lost["records"], lost["ranges"]) == (sum(batches(second).values()), [[0, 10]])


def test_what_a_cleaned_segment_replaces_was_not_gone_before(tmp_path: Path) -> None:
    """The segment reaches farther than the cleaned one; what nobody may call lost for certain is not gone, either."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    (disks / "d1/.kafka_cleanshutdown").unlink()
    (disks / "d1/cleaner-offset-checkpoint").write_text("0\n1\nt 0 22\n")  # t is compacted
    newest = max((disks / "d1/t-0").glob("*.log"))
    entries = walk(newest.read_bytes())
    newest.with_name(f"{newest.name}.swap").write_bytes(entries[1].data)
    claim = claim_about(rows_of(disks), newest.parent)
    assert (claim["lost"]["records"], claim["lost"]["reason"]) == (None, "compacted")
    assert claim["log_end_offset"] == entries[2].value("base_offset")
    there = range(entries[0].value("base_offset"), entries[-1].value("base_offset"))
    assert [first for first, last in claim["gone_already"]["ranges"] if first in there or last in there] == []


@pytest.mark.parametrize("fixture", ["retention/logdir", "compacted/result-2"])
def test_what_retention_and_the_cleaner_deleted_is_not_lost(tmp_path: Path, fixture: str) -> None:
    """Stopped before `file.delete.delay.ms` was over, as brokers often are. Of a cleaning nobody may know any more."""
    log_dir = Path(shutil.copytree(FIXTURES / fixture, tmp_path / "d"))
    assert list(log_dir.glob("*/*.log.deleted"))
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n0\n")
    done = run_here(["doctor", "d", "--format", "json", *NOW], tmp_path)
    assert {row["starts"] for row in map(json.loads, done.out.splitlines()) if row["type"] == "verdict"} == {"yes"}
    assert done.status == 0


@pytest.mark.parametrize("text", [b"0\n1\nt 0 3\nt 0 4\n", b"\xff", b"0\n1\nt 0 x\n", b"0\n1\nt 0 3\n"])
def test_without_a_cleaner_nobody_reads_its_checkpoint(tmp_path: Path, text: bytes) -> None:
    """A broker 4.3.1 with `log.cleaner.enable=false` served all of the log dir, whatever the file has in it."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    for name in ("d0", "d1"):
        (disks / name / "cleaner-offset-checkpoint").write_bytes(text)
    (bad, good) = (
        run_here(["doctor", "d0", "d1", "--format=json", *NOW, f"--config=log.cleaner.enable={on}"], disks)
        for on in ("true", "false")
    )
    points = [
        [row["path"] for row in map(json.loads, each.out.splitlines()) if row["type"] == "ahead"]
        for each in (bad, good)
    ]
    assert [any("cleaner-offset" in path for path in paths) for paths in points] == [True, False]
    assert (bad.status, good.status) == (1, 0)


def test_4_4_reads_both_bytes_of_the_version_of_an_aborted_transaction(tmp_path: Path) -> None:
    """Older releases read the first byte alone. A broker 4.4.0 ended over this, a broker 4.3.1 did not."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    overwrite(disks / "d1/t-0" / f"{11:020d}.txnindex", 1, bytes([128]))
    for releases in (["--kafka=4.3.1"], ["--kafka=4.4.0"], ["--matrix", "--no-progress"]):
        done = run_here(["doctor", "d0", "d1", "--format", "json", *NOW, *releases], disks)
        verdicts = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "verdict"]
        starts = {row["kafka"]: row["starts"] for row in verdicts if row["kafka"] in ("4.3.1", "4.4.0")}
        assert starts.items() <= {"4.3.1": "yes", "4.4.0": "refuses"}.items()
        assert len(starts) == len(releases)


@pytest.mark.parametrize(("name", "since_4"), [(f"{32:020d}.snapshot", "truncated"), (f"{22:020d}.index", "offline")])
def test_a_folder_in_place_of_a_file_empties_a_segment_or_takes_the_log_dir(
    tmp_path: Path, name: str, since_4: str
) -> None:
    """Up to 3.9 only InvalidOffsetException empties a segment; since 4.0 an IOException does, too. A broker 3.9.2 ended
    over such a snapshot, whose log dir had the metadata; a broker 4.3.1 started. The way out is to move the folder."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    for side_file in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (disks / "d1" / side_file).unlink()
    (disks / "d1/t-0" / name).unlink()
    (disks / "d1/t-0" / name).mkdir()
    for release, what in (("3.9.2", "offline"), ("4.3.1", since_4)):
        done = run_here(["doctor", "d0", "d1", "--format", "json", "--kafka", release, *NOW], disks)
        rows = [json.loads(line) for line in done.out.splitlines()]
        assert what in {row["what"] for row in rows if row["type"] == "ahead"}
        assert [row for row in rows if row["type"] == "option" and "moved-out" in row["command"]]


def test_a_batch_is_not_lost_where_the_log_start_is_within_it(tmp_path: Path) -> None:
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    first = disks / "d1/t-0" / f"{0:020d}.log"
    renamed = first.rename(first.with_name(f"{2:020d}.log"))  # its second batch is 1 to 2
    shutil.copy2(renamed, renamed.with_name(f"{renamed.name}.swap"))
    claim = claim_about(rows_of(disks), first.parent)
    assert (claim["lost"]["records"], claim["hidden"]["records"], claim["hidden"]["ranges"]) == (0, 2, [[0, 1]])


@pytest.mark.parametrize(("mark", "fails"), [(15, True), (14, False), (43, False), (None, False)])
def test_a_broker_looks_up_the_high_watermark_when_it_becomes_the_leader(
    tmp_path: Path, mark: int | None, fails: bool
) -> None:
    """4.3.1 logs "Error applying topics delta" then, and partitions that come after this one have no leader."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    log = disks / "d1/t-0" / f"{11:020d}.log"
    log.with_suffix(".index").write_bytes(b"")  # else the search begins behind the damage
    overwrite(log, sum(batch_sizes(log)[:3]) + 8, bytes(4))
    lines = ["u 0 6"] if mark is None else ["u 0 6", f"t 0 {mark}"]
    (disks / "d1/replication-offset-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    rows = rows_of(disks)
    assert ([row["path"] for row in rows if row.get("what") == "leader-fails"] == [str(log.parent)]) is fails
    served = {row["served"] for row in rows if row["type"] == "claim" and row["about"] == "partition"}
    assert served - {False} == ({None} if fails else {True})


def batch_sizes(log: Path) -> list[int]:
    data, at, sizes = log.read_bytes(), 0, []
    while at < len(data):
        sizes.append(12 + int.from_bytes(data[at + 8 : at + 12], "big"))
        at += sizes[-1]
    return sizes


@pytest.mark.parametrize("seed", range(60, 90))
def test_salvage_never_keeps_less_than_the_broker(tmp_path: Path, seed: int) -> None:
    disks = wounded(tmp_path, seed)
    partition = disks / "d1/t-0"
    rows = rows_of(disks)
    options = {row["number"]: row for row in rows if row["type"] == "option" and row["for"] == str(partition)}
    claims = [row for row in rows if row["type"] == "claim" and row["about"] == "option"]
    measured = [claim for claim in claims if claim["number"] in options and claim["readable"] is not None]
    salvage = [claim for claim in measured if options[claim["number"]]["command"].startswith("klogtool salvage")]
    brokers = [claim for claim in measured if "recover" in options[claim["number"]]["command"]]
    for mine in salvage:
        for other in brokers:
            assert mine["lost"]["records"] <= other["lost"]["records"]
            # Of batches that overlap only one can be kept, and a consumer gets a part of the other.
            is_less = mine["lost"]["records"] < other["lost"]["records"]
            assert is_less or offsets(other["readable"]) <= offsets(mine["readable"])
            assert mine["number"] < other["number"] or mine["lost"]["records"] == other["lost"]["records"]
    points = [row for row in rows if row["type"] == "ahead" and row["path"] == str(partition)]
    if {row["what"] for row in points} <= {"hidden", "truncated"}:  # an option is better than none, or as good
        started = claim_about(rows, partition)
        assert all(each["lost"]["records"] <= price(started) for each in measured if price(started) is not None)
    erasing = [claim["number"] for claim in claims if claim["erases_witness"]]
    assert all(options[number]["lost_records"] is None for number in erasing if number in options)


def price(claim: dict[str, Any]) -> int | None:
    counts = claim["lost"]["records"], claim["hidden"]["records"]
    return None if None in counts else sum(counts)


def offsets(ranges: list[list[int]]) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


def test_an_option_that_deletes_an_index_without_its_log_erases_a_witness(tmp_path: Path) -> None:
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    partition = disks / "d1/t-0"
    (partition / f"{0:020d}.log").unlink()
    last = sorted(partition.glob("*.log"))[-1]
    flip_bit(last, last.stat().st_size // 2)
    rows = rows_of(disks)
    assert claim_about(rows, partition)["gone_already"]["witness"] == ["index"]
    commands = {row["number"]: row["command"] for row in rows if row["type"] == "option"}
    erasing = {row["number"]: row["erases_witness"] for row in rows if row.get("about") == "option"}
    told = {commands[number].split(str(partition))[1].split()[0]: erases for number, erases in erasing.items()}
    assert told == {"--replica": False, "--output": True, "--last-stop": True}


def test_an_option_that_deletes_the_snapshot_that_reaches_farthest_erases_a_witness(tmp_path: Path) -> None:
    """The last segment is gone, and the checkpoints do not know it: its snapshot shows how far the log reached."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    partition = disks / "d1/t-0"
    for path in partition.glob(f"{32:020d}.*"):
        if path.suffix != ".snapshot":
            path.unlink()
    (partition / f"{43:020d}.snapshot").unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (disks / "d1" / name).write_text("0\n0\n")
    log = partition / f"{22:020d}.log"
    tear_at(log, log.stat().st_size // 2)
    rows = rows_of(disks)
    assert claim_about(rows, partition)["gone_already"]["witness"] == ["producer-snapshot"]
    commands = {row["number"]: row["command"] for row in rows if row["type"] == "option"}
    erasing = {row["number"]: row["erases_witness"] for row in rows if row.get("about") == "option"}
    told = {number: erases for number, erases in erasing.items() if str(partition) in commands[number]}
    assert told
    assert all(erases != ("--replica" in commands[number]) for number, erases in told.items())
