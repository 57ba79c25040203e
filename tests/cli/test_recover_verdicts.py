"""What `recover` says of a log is held against all that tells of it: nothing is called whole that is not."""

from __future__ import annotations

import gzip
import json
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from damage import append_bytes, flip_bit, overwrite, tear_at
from raw_batches import build_batch
from running import FIXTURES, Done, run_here
from working import NOW_MS, WORK, put_input, words_of

import klogtool
from klogtool.format.batch import Record

SOURCE = FIXTURES / "transactions" / "logdir"
END, BASE = 62, 38  # of t-0: its end, and the base offset of its active segment
MARKER = ".kafka_cleanshutdown"
HIGH_WATERMARKS, RECOVERY_POINTS = "replication-offset-checkpoint", "recovery-point-offset-checkpoint"


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    """Cleanly stopped: t-0 with segments 0, 7, 36, 38 and 62 offsets."""
    return pathlib.Path(shutil.copytree(SOURCE, tmp_path / "logs"))


def name_of(base: int, kind: str = "log") -> str:
    return f"{base:020d}.{kind}"


def run(log_dir: pathlib.Path, *words: str) -> Done:
    return run_here([*words, "--now", str(NOW_MS)], log_dir.parent)


def answer_of(done: Done, name: str = "t-0") -> dict[str, Any]:
    rows = map(json.loads, done.out.splitlines())
    (found,) = (row["answer"] for row in rows if row.get("type") == "plan" and row["path"].endswith("/" + name))
    return dict(found)


def recover(log_dir: pathlib.Path, *more: str) -> tuple[int, list[str], dict[str, Any]]:
    """The exit status, the lines that people see of t-0, and the answer of its plan."""
    shown, asked = (run(log_dir, "recover", "logs/t-0", *more, *form) for form in ((), ("--format", "json")))
    assert shown.status == asked.status
    return shown.status, shown.out.decode().splitlines(), answer_of(asked)


def forget(log_dir: pathlib.Path, *names: str) -> None:
    """Without these checkpoints of the log dir."""
    for name in names:
        (log_dir / name).unlink()


# ---------------------------------------------------------------- a false end, under a clean marker


def tear(partition: pathlib.Path) -> None:
    """The last batch ends 13 bytes early; the last index entry points to it."""
    log = partition / name_of(BASE)
    tear_at(log, log.stat().st_size - 13)


def empty(partition: pathlib.Path) -> None:
    (partition / name_of(BASE)).write_bytes(b"")


def lose_active_segment(partition: pathlib.Path) -> None:
    for path in partition.glob(f"{BASE:020d}.*"):
        path.unlink()


def break_index(partition: pathlib.Path) -> None:
    """The last index entry points to the last bytes of the file: a broker takes the segment for empty."""
    index, size = partition / name_of(BASE, "index"), (partition / name_of(BASE)).stat().st_size
    overwrite(index, index.stat().st_size - 4, (size - 5).to_bytes(4, "big"))


def flip_in_last_batch(partition: pathlib.Path) -> None:
    log = partition / name_of(BASE)
    flip_bit(log, log.stat().st_size - 5)


def add_stray_bytes(partition: pathlib.Path) -> None:
    log = partition / name_of(BASE)
    log.write_bytes(log.read_bytes() + b"\1" * 10)


# Of each wound: where a broker ends the log, up to where it went, how many records lie behind that end and are sound.
FALSE_ENDS: Mapping[Callable[[pathlib.Path], None], tuple[int, int, int]] = {
    tear: (BASE, END, 22),
    empty: (BASE, END, 0),
    lose_active_segment: (BASE, END, 0),
    break_index: (BASE, END, 24),
    flip_in_last_batch: (END, END, 0),
    add_stray_bytes: (END, END, 0),
}
every_false_end = pytest.mark.parametrize("wound", FALSE_ENDS, ids=lambda wound: wound.__name__)


@every_false_end
def test_a_clean_marker_over_a_false_end_is_called_false(
    log_dir: pathlib.Path, wound: Callable[[pathlib.Path], None]
) -> None:
    end, reaches, records = FALSE_ENDS[wound]
    wound(log_dir / "t-0")
    status, lines, answer = recover(log_dir)
    assert status == 1
    assert "the clean marker is FALSE" in lines[0]
    assert "nothing is lost" not in lines[0]
    assert answer["log_end_offset"] == end  # as a broker has it
    behind = answer["behind_end"]
    assert behind["clean_marker_false"] is True
    assert (behind["offsets"], behind["sound_records"]) == (reaches - end, records)
    if end < reaches:
        assert f"offsets {end} to {reaches - 1}" in lines[0]
        assert answer["below_high_watermark"]["offsets"] == reaches - end


@every_false_end
def test_the_same_by_the_bytes_alone(log_dir: pathlib.Path, wound: Callable[[pathlib.Path], None]) -> None:
    """Without checkpoints and snapshots only the file tells, if anything is in it."""
    forget(log_dir, HIGH_WATERMARKS, RECOVERY_POINTS)
    (log_dir / "t-0" / name_of(END, "snapshot")).unlink()
    wound(log_dir / "t-0")
    status, _, answer = recover(log_dir)
    if wound in (empty, lose_active_segment):
        assert (status, answer["behind_end"]) == (0, None)
    else:
        assert status == 1
        assert answer["behind_end"]["told_by"] == []
        assert answer["behind_end"]["sound_records"] == FALSE_ENDS[wound][2]


TELLERS = {
    "high watermark": (HIGH_WATERMARKS, "0\n1\nt 0 62\n"),
    "recovery point": (RECOVERY_POINTS, "0\n1\nt 0 62\n"),
    "producer snapshot": ("t-0/" + name_of(END, "snapshot"), None),
    "leader epoch": ("t-0/leader-epoch-checkpoint", "0\n2\n0 0\n3 62\n"),
    "index without its .log": ("t-0/" + name_of(END, "index"), ""),
}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("by", TELLERS)
def test_each_teller_suffices(log_dir: pathlib.Path, by: str, is_clean: bool) -> None:
    name, text = TELLERS[by]
    snapshot = (log_dir / "t-0" / name_of(END, "snapshot")).read_bytes()
    forget(log_dir, HIGH_WATERMARKS, RECOVERY_POINTS, "t-0/" + name_of(END, "snapshot"))
    if not is_clean:
        forget(log_dir, MARKER)
    empty(log_dir / "t-0")
    (log_dir / name).write_bytes(snapshot if text is None else text.encode())
    status, lines, answer = recover(log_dir)
    assert status == 1
    (told,) = answer["behind_end"]["told_by"]
    assert (told["by"], told["offset"], told["where"]) == (by, END, pathlib.Path(name).name)
    assert answer["behind_end"]["clean_marker_false"] is is_clean
    assert "offsets 38 to 61" in lines[0]
    assert any(f"{by} 62 ({pathlib.Path(name).name})" in line for line in lines)


def test_a_recovery_point_that_was_given_does_not_hide_the_one_on_the_disk(log_dir: pathlib.Path) -> None:
    forget(log_dir, HIGH_WATERMARKS, MARKER, "t-0/" + name_of(END, "snapshot"))
    empty(log_dir / "t-0")
    _, _, answer = recover(log_dir, "--recovery-point", "0")
    assert [told["by"] for told in answer["behind_end"]["told_by"]] == ["recovery point"]


def test_an_undamaged_log_dir_is_whole(log_dir: pathlib.Path) -> None:
    done = run(log_dir, "recover", "logs")
    assert done.status == 0
    lines = [line for line in done.out.decode().splitlines() if not line.startswith("  ")]
    *verdicts, in_all, not_read = lines
    assert len(verdicts) == 5
    assert all(": nothing is lost; ends at offset" in line for line in verdicts)
    assert in_all.startswith("In all: nothing is lost in any of 5 partitions")
    assert not_read.startswith("Not read: ")


def test_what_a_broker_trusts_at_its_start_is_not_called_read(log_dir: pathlib.Path) -> None:
    sizes = [path.stat().st_size for path in (log_dir / "t-0").glob("*.log")]
    clean = run(log_dir, "recover", "logs/t-0")
    assert f"  not read   {sum(map(bool, sizes))} segments, {sum(sizes):,} bytes" in clean.out.decode()
    unclean = run(log_dir, "recover", "logs/t-0", "--last-stop", "unclean", "--recovery-point", "0")
    assert "not read" not in unclean.out.decode()


def test_marking_clean_says_what_the_checkpoints_promised(log_dir: pathlib.Path) -> None:
    empty(log_dir / "t-0")
    done = run(log_dir, "recover", "logs", "--mark-clean", "--last-stop", "unclean")
    lines = done.out.decode().splitlines()
    assert done.status == 1
    assert "t-0: MISSING offsets 38 to 61 at its end; ends at offset 38" in lines
    assert any("t-0 ends at offset 38, but reached 62" in line and line.startswith("logs:") for line in lines)


# ---------------------------------------------------------------- what a cut takes


def test_a_cut_below_the_high_watermark_is_called_what_it_is(log_dir: pathlib.Path) -> None:
    forget(log_dir, MARKER)
    tear(log_dir / "t-0")
    status, lines, answer = recover(log_dir)
    assert status == 1
    assert lines[0] == (
        "t-0: LOSES offsets 60 to 61: the last batch was only partly written (233 of 246 bytes); ends at offset 60"
    )
    assert answer["lost"] == {"first_offset": 60, "last_offset": 61}
    assert answer["below_high_watermark"] == {
        "high_watermark": 62,
        "first_offset": 60,
        "last_offset": 61,
        "offsets": 2,
    }
    assert any(line.startswith("  replicated 2 offsets (60 to 61) below the high watermark 62") for line in lines)


def test_a_log_start_behind_the_end_loses_the_whole_log(log_dir: pathlib.Path) -> None:
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 99\n")
    status, lines, answer = recover(log_dir)
    assert (status, answer["lost"]) == (1, {"first_offset": 0, "last_offset": 61})
    assert lines[0].startswith("t-0: LOSES offsets 0 to 61")


# ---------------------------------------------------------------- a segment that is gone


def lose_segment(log_dir: pathlib.Path, base: int, *, keeps: str | None = None) -> None:
    for path in (log_dir / "t-0").glob(f"{base:020d}.*"):
        if path.suffix != keeps:
            path.unlink()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segment_that_is_gone_is_named(log_dir: pathlib.Path, is_clean: bool) -> None:
    lose_segment(log_dir, 7)
    if not is_clean:
        forget(log_dir, MARKER)
    status, lines, answer = recover(log_dir)
    assert status == 1
    assert lines[0] == "t-0: MISSING offsets 7 to 35, gone already; ends at offset 62"
    assert answer["missing"] == [
        {"first_offset": 7, "last_offset": 35, "before": 0, "behind": 36, "told_by": None, "erased": False},
    ]
    assert answer["loses_records"] is False
    found = map(json.loads, run(log_dir, "verify", "logs", "--format", "json").out.splitlines())
    (gap,) = (row for row in found if row.get("id") == "segment-gap")
    assert (gap["severity"], gap["first_offset"], gap["last_offset"]) == ("warning", 7, 35)
    salvaged = run(log_dir, "salvage", "logs/t-0", "--format", "json")
    assert salvaged.status == 1
    lost = answer_of(salvaged)["lost"]
    assert [(loss["first_offset"], loss["last_offset"], loss["cause"]) for loss in lost] == [(7, 35, "segment-missing")]


@pytest.mark.parametrize("bytes_off", [1, 20])
def test_a_gap_behind_a_torn_batch_begins_where_its_header_says(log_dir: pathlib.Path, bytes_off: int) -> None:
    """The start does not read the segment before the gap."""
    lose_segment(log_dir, 7)
    log = log_dir / "t-0" / name_of(0)
    tear_at(log, log.stat().st_size - bytes_off)
    _, lines, answer = recover(log_dir)
    assert [(gap["first_offset"], gap["last_offset"]) for gap in answer["missing"]] == [(7, 35)]
    assert lines[0] == "t-0: MISSING offsets 7 to 35, gone already; ends at offset 62"


@pytest.mark.parametrize("behind", [bytes(1), bytes(10), b"\xff" * 300])
def test_bytes_at_the_end_of_a_segment_hide_no_gap(log_dir: pathlib.Path, behind: bytes) -> None:
    lose_segment(log_dir, 7)
    log = log_dir / "t-0" / name_of(0)
    log.write_bytes(log.read_bytes() + behind)
    answer = recover(log_dir)[2]
    assert [(gap["first_offset"], gap["last_offset"]) for gap in answer["missing"]] == [(7, 35)]


@pytest.mark.parametrize("base", [0, 7])
def test_a_segment_that_only_a_left_over_has_is_not_gone_already(log_dir: pathlib.Path, base: int) -> None:
    """A startup deletes it: until then somebody can give it its name back."""
    left = name_of(base, "log.cleaned")
    (log_dir / "t-0" / name_of(base, "log")).rename(log_dir / "t-0" / left)
    lose_segment(log_dir, base, keeps=".cleaned")
    status, lines, answer = recover(log_dir)
    span = "0 to 6" if base == 0 else "7 to 35"
    assert (status, answer["missing"][0]["told_by"]) == (1, left)
    told = f"t-0: MISSING offsets {span}, and a startup deletes {left}, which has records of them; ends at offset 62"
    assert lines[0] == told
    assert any(line.endswith(f"; only {left} is left") for line in lines)


# What a left-over with the name of a gap has in place of the gap's records, offsets 7 to 35.
WITHOUT_RECORDS: Mapping[str, Callable[[pathlib.Path], bytes]] = {
    "nothing": lambda _: b"",
    "zeros": lambda _: bytes(500),
    "offsets before the gap": lambda partition: (partition / name_of(0, "log")).read_bytes(),
    "offsets on both sides of it": lambda partition: b"".join(
        (partition / name_of(base, "log")).read_bytes() for base in (0, 36)
    ),
}


@pytest.mark.parametrize("content", WITHOUT_RECORDS)
@pytest.mark.parametrize("base", [7, 15])
def test_a_left_over_without_records_of_the_gap_is_no_hope(log_dir: pathlib.Path, base: int, content: str) -> None:
    """What is in a file counts, not its name."""
    lose_segment(log_dir, 7)
    (log_dir / "t-0" / name_of(base, "log.cleaned")).write_bytes(WITHOUT_RECORDS[content](log_dir / "t-0"))
    status, lines, answer = recover(log_dir)
    assert (status, lines[0]) == (1, "t-0: MISSING offsets 7 to 35, gone already; ends at offset 62")
    assert [gap["told_by"] for gap in answer["missing"]] == [None]


def test_no_gap_before_the_first_segment_by_a_name_alone(log_dir: pathlib.Path) -> None:
    lose_segment(log_dir, 0)
    (log_dir / "t-0" / name_of(0, "log.cleaned")).write_bytes(bytes(500))
    assert recover(log_dir)[2]["missing"] == []


@pytest.mark.parametrize("base", [0, 20, 36])
def test_a_left_over_with_records_of_the_gap_counts_under_any_name(log_dir: pathlib.Path, base: int) -> None:
    """A cleaning writes several segments into a file with the name of the first."""
    left = name_of(base, "log.cleaned")
    (log_dir / "t-0" / name_of(7, "log")).rename(log_dir / "t-0" / left)
    lose_segment(log_dir, 7)
    _, lines, answer = recover(log_dir)
    assert [gap["told_by"] for gap in answer["missing"]] == [left]
    assert f"and a startup deletes {left}, which has records of them" in lines[0]


def test_a_first_segment_of_which_an_index_is_left(log_dir: pathlib.Path) -> None:
    lose_segment(log_dir, 0, keeps=".index")
    status, lines, answer = recover(log_dir)
    assert (status, lines[0]) == (1, "t-0: MISSING offsets 0 to 6, gone already; ends at offset 62")
    assert answer["missing"][0]["told_by"] == name_of(0, "index")


@pytest.mark.parametrize("base", [7, 38])
@pytest.mark.parametrize("ending", [".1", ".1.gz", ".bak"])
def test_what_a_renamed_file_may_have_is_not_called_gone(log_dir: pathlib.Path, base: int, ending: str) -> None:
    """As logrotate leaves it: a copy, and the segment emptied; or a person, who renamed it."""
    log = log_dir / "t-0" / name_of(base)
    data = log.read_bytes()
    log.write_bytes(b"") if ending.startswith(".1") else log.unlink()
    copy = log.with_name(log.name + ending)
    copy.write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)
    status, lines, answer = recover(log_dir)
    assert (status, answer["renamed"]) == (1, [copy.name])
    assert "gone already" not in lines[0]
    assert f"says how {copy.name} gets its name back" in " ".join(lines)
    cures = run(log_dir, "verify", "logs/t-0", "--format", "json").out.decode().splitlines()
    assert any(copy.name in (json.loads(line).get("cure") or "") for line in cures)


# ---------------------------------------------------------------- a .swap file that has less than what it replaces


def swap(log_dir: pathlib.Path, base: int, size: int) -> None:
    """The first bytes of a segment, and its index, as left-overs of a swap that a start completes."""
    partition = log_dir / "t-0"
    (partition / (name_of(base) + ".swap")).write_bytes((partition / name_of(base)).read_bytes()[:size])
    (partition / (name_of(base, "index") + ".swap")).write_bytes(b"")


@pytest.mark.parametrize("torn", [0, 30], ids=["whole", "torn"])
def test_what_a_shorter_swap_file_costs_is_told(log_dir: pathlib.Path, torn: int) -> None:
    """If it is torn, Kafka takes it for empty, and renames it over the segment all the same."""
    swap(log_dir, 7, len(first_batch(log_dir / "t-0" / name_of(7))) + torn)
    status, lines, answer = recover(log_dir)
    lost = answer["lost_by_swap"]
    assert (status, answer["loses_records"], lost["last_offset"]) == (1, True, 35)
    told = f"LOSES offsets {lost['first_offset']} to 35: a .swap file replaces segments that have more"
    assert lines[0] == f"t-0: {told}; ends at offset 62"
    first, *_ = run(log_dir, "roll", "logs/t-0", "--force").out.decode().splitlines()
    assert first == f"t-0: {told} before anything else: a broker recovers this log first"


def first_batch(log: pathlib.Path) -> bytes:
    data = log.read_bytes()
    return data[: 12 + int.from_bytes(data[8:12], "big")]


def of_another_partition(first: int, last: int) -> bytes:
    """Batches of two records, as another topic has them."""
    pairs = ((offset, min(offset + 1, last)) for offset in range(first, last + 1, 2))
    return b"".join(
        build_batch(Record(offset, 0, b"key", b"other") for offset in range(start, end + 1)) for start, end in pairs
    )


# What a .swap file of segment 7 has in place of it.
OTHER: Mapping[str, Callable[[pathlib.Path], bytes]] = {
    "nothing": lambda _: b"",
    "bytes that are no batch": lambda _: b"\1" * 500,
    "another segment": lambda partition: (partition / name_of(36)).read_bytes(),
    "a batch at offset -1": lambda partition: b"\xff" * 8 + first_batch(partition / name_of(7))[8:],
}


@pytest.mark.parametrize("content", OTHER)
def test_a_swap_file_without_the_records_of_its_segment_costs_them(log_dir: pathlib.Path, content: str) -> None:
    swap(log_dir, 7, 0)
    (log_dir / "t-0" / (name_of(7) + ".swap")).write_bytes(OTHER[content](log_dir / "t-0"))
    _, lines, answer = recover(log_dir)
    assert answer["lost_by_swap"] == {"first_offset": 7, "last_offset": 35}
    assert lines[0].startswith("t-0: LOSES offsets 7 to 35: a .swap file replaces segments that have more; ")
    rows = map(json.loads, run(log_dir, "doctor", "logs", "--format", "json").out.splitlines())
    (claim,) = (row for row in rows if row.get("about") == "partition" and row["path"].endswith("/t-0"))
    assert claim["lost"]["ranges"] == [[7, 35]]


def test_what_only_an_unfinished_cleaning_has_gets_its_name_back(log_dir: pathlib.Path) -> None:
    """verify's cure keeps it; a start deletes it."""
    left = log_dir / "t-0" / name_of(7, "log.cleaned")
    left.with_suffix("").rename(left)
    rows = map(json.loads, run(log_dir, "verify", "logs/t-0", "--format", "json").out.splitlines())
    (cure,) = (row["cure"] for row in rows if row.get("id") == "leftover-cleaned")
    assert cure == f"mv -n logs/t-0/{left.name} logs/t-0/{name_of(7)}"


COMPACT, DELETE = (("--config", f"cleanup.policy={policy}") for policy in ("compact", "delete"))


@pytest.mark.parametrize("config", [(), COMPACT], ids=["as long", "compacted"])
def test_a_swap_file_of_a_cleaning_costs_nothing(log_dir: pathlib.Path, config: tuple[str, ...]) -> None:
    swap(log_dir, 7, (log_dir / "t-0" / name_of(7)).stat().st_size)
    end = END
    if config:
        clean(log_dir)
        end += send_again(log_dir)
    status, lines, answer = recover(log_dir, *config)
    assert (status, lines[0]) == (0, f"t-0: nothing is lost; ends at offset {end}")
    assert "lost_by_swap" not in answer
    assert claimed(log_dir, *config)["records"] == 0
    assert "would be lost" not in run(log_dir, "verify", "logs/t-0", *config).out.decode()


@pytest.mark.parametrize("config", [COMPACT, DELETE, ()], ids=["compacted", "deleted", "unknown"])
def test_a_swap_file_of_another_partition_costs_all_that_it_replaces(
    log_dir: pathlib.Path, config: tuple[str, ...]
) -> None:
    """A cleaning leaves records out, and makes none. A judge's broker served none of 67, and "0 are lost" was said."""
    swap(log_dir, 7, 0)
    (log_dir / "t-0" / (name_of(7) + ".swap")).write_bytes(of_another_partition(7, 30))
    status, lines, answer = recover(log_dir, *config)
    assert (status, answer["lost_by_swap"]) == (1, {"first_offset": 7, "last_offset": 35})
    assert lines[0].startswith("t-0: LOSES offsets 7 to 35: ")
    ranges = claimed(log_dir, *config)["ranges"]  # without some markers, which are no records
    assert (claimed(log_dir, *config)["records"], ranges[0][0], ranges[-1][1]) == (25, 8, 35)
    shown = " ".join(run(log_dir, "verify", "logs/t-0", *config).out.decode().split())
    assert "offsets 7 to 35 would be lost" in shown


def test_salvage_takes_nothing_from_a_swap_file_of_another_partition(log_dir: pathlib.Path) -> None:
    """It filled a hole with the record that another partition has at that offset, and said that nothing is lost."""
    log = log_dir / "t-0" / name_of(7)
    flip_bit(log, 900)
    other = b"".join(build_batch([Record(offset, 0, b"key", b"other")]) for offset in range(7, 36))
    log.with_name(log.name + ".swap").write_bytes(other)
    done = run(log_dir, "salvage", "logs/t-0", "--format", "json")
    assert (done.status, answer_of(done)["filled"]) == (1, [])
    assert [(loss["first_offset"], loss["last_offset"]) for loss in answer_of(done)["lost"]] == [(18, 18)]
    shown = " ".join(run(log_dir, "salvage", "logs/t-0").out.decode().split())
    assert f"{log.name}.swap diverges at offsets 7 to 35: other batches" in shown


def test_what_a_cleaning_left_out_and_has_no_newer_record_may_be_lost(log_dir: pathlib.Path) -> None:
    """A .swap of another time: the newer records were in segments that are on no disk any more. A judge's broker served
    15 of 47 records, and "0 are lost" was said."""
    swap(log_dir, 7, 0)
    clean(log_dir)
    _, lines, answer = recover(log_dir, *COMPACT)
    assert lines[0].startswith("t-0: MAY LOSE offsets 8 to 34: a .swap file replaces segments that have more")
    assert answer["lost_by_swap"] == {"first_offset": 8, "last_offset": 34, "unless_compacted": True}
    assert claimed(log_dir, *COMPACT)["records"] is None


def test_a_swap_file_that_shares_no_record_with_what_it_replaces_explains_nothing(log_dir: pathlib.Path) -> None:
    """Its records have the keys of those that it replaces, and higher offsets."""
    swap(log_dir, 7, 0)
    newer = newer_records(log_dir, 7)
    (log_dir / "t-0" / (name_of(7) + ".swap")).write_bytes(build_batch(newer))
    _, lines, _ = recover(log_dir, *COMPACT)
    assert lines[0].startswith("t-0: MAY LOSE offsets 7 to 61: a .swap file replaces segments that have more")
    assert claimed(log_dir, *COMPACT)["records"] is None


def newer_records(log_dir: pathlib.Path, start: int) -> list[Record]:
    """A record behind the end with each key of those from an offset on."""
    partition = klogtool.open(log_dir / "t-0", klogtool.Partition)
    keys = {record.key for record in partition.records() if start <= record.offset and record.key}
    return [Record(END + n, 0, key, b"newest") for n, key in enumerate(sorted(keys))]


def send_again(log_dir: pathlib.Path) -> int:
    """Append a record with each key of segment 7; return how many."""
    newer = newer_records(log_dir, 7)
    append_bytes(log_dir / "t-0" / name_of(BASE), build_batch(newer))
    return len(newer)


def clean(log_dir: pathlib.Path) -> None:
    """Leave only the first and the last batch in the `.swap` of segment 7, as a cleaning may."""
    left, data, batches = log_dir / "t-0" / (name_of(7) + ".swap"), (log_dir / "t-0" / name_of(7)).read_bytes(), []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        batches.append(data[:size])
        data = data[size:]
    left.write_bytes(batches[0] + batches[-1])


def claimed(log_dir: pathlib.Path, *options: str) -> dict[str, Any]:
    """What the doctor says that a start loses of t-0."""
    rows = map(json.loads, run(log_dir, "doctor", "logs", "--format", "json", *options).out.splitlines())
    (claim,) = (row for row in rows if row.get("about") == "partition" and row["path"].endswith("/t-0"))
    return dict(claim["lost"])


def test_what_a_cleaning_may_have_left_out_is_unknown_where_nobody_knows_the_topic(log_dir: pathlib.Path) -> None:
    swap(log_dir, 7, 0)
    clean(log_dir)
    status, lines, answer = recover(log_dir)
    told = "MAY LOSE offsets 8 to 34: a .swap file replaces segments that have more, as after a cleaning"
    assert (status, lines[0]) == (1, f"t-0: {told}; ends at offset 62")
    assert answer["lost_by_swap"] == {"first_offset": 8, "last_offset": 34, "unless_compacted": True}
    assert claimed(log_dir) == {"records": None, "ranges": [[8, 34]], "reason": "compacted"}
    in_all = run(log_dir, "recover", "logs").out.decode()
    assert "In all: this startup loses nothing for certain in any of 5 partitions; 1 partition MAY LOSE what" in in_all
    shown = " ".join(run(log_dir, "verify", "logs/t-0").out.decode().split())
    assert "offsets 8 to 34 would be lost, unless a cleaning left them out, and nobody knows whether" in shown
    assert run(log_dir, "salvage", "logs/t-0").status == 0
    assert run(log_dir, "roll", "logs/t-0", "--force").out.decode().startswith(f"t-0: {told} before anything else")


def test_what_a_swap_file_of_a_topic_lacks_that_is_not_compacted_is_lost(log_dir: pathlib.Path) -> None:
    swap(log_dir, 7, 0)
    clean(log_dir)
    status, lines, answer = recover(log_dir, *DELETE)
    assert (status, lines[0].split(":")[1]) == (1, " LOSES offsets 8 to 34")
    assert answer["lost_by_swap"] == {"first_offset": 8, "last_offset": 34}
    assert claimed(log_dir, *DELETE)["ranges"] == [[8, 34]]
    assert claimed(log_dir, *DELETE)["records"] == 24
    shown = " ".join(run(log_dir, "verify", "logs/t-0", *DELETE).out.decode().split())
    assert "the segments have more: offsets 8 to 34 would be lost. A cleaning" in shown


def test_no_cleaner_makes_the_first_part_of_a_segment(log_dir: pathlib.Path) -> None:
    """Also where the topic is compacted: so the rest is lost."""
    swap(log_dir, 7, len(first_batch(log_dir / "t-0" / name_of(7))))
    assert recover(log_dir, *COMPACT)[2]["lost_by_swap"] == {"first_offset": 8, "last_offset": 35}
    assert claimed(log_dir, *COMPACT)["ranges"] == [[8, 35]]


@pytest.mark.parametrize("content", [bytes(500), b"\xff" * 500], ids=["zeros", "ones"])
def test_all_say_that_a_broker_does_not_start_with_a_swap_file(log_dir: pathlib.Path, content: bytes) -> None:
    """It reads the file to find out which segments that replaces: CorruptRecordException."""
    left = log_dir / "t-0" / (name_of(7) + ".swap")
    left.write_bytes(content)
    assert run(log_dir, "recover", "logs/t-0").status == 3
    assert run(log_dir, "roll", "logs/t-0", "--force").status == 3
    verified = run(log_dir, "verify", "logs/t-0", "--format", "json")
    rows = [row for row in map(json.loads, verified.out.splitlines()) if row.get("path", "").endswith(".swap")]
    assert (verified.status, [row["id"] for row in rows]) == (1, ["foreign-bytes", "leftover-swap"])
    assert "a broker does not start (CorruptRecordException)" in rows[0]["detail"]
    (move,) = {row["cure"] for row in rows}
    assert move.startswith("mkdir -p ")
    shown = run(log_dir, "doctor", "logs").out.decode()
    assert "REFUSES to start" in shown
    assert "delete the .swap files: the segments stay as they are: loses nothing" in shown
    left.unlink()
    assert recover(log_dir)[0] == 0


def test_a_swap_file_with_offsets_below_its_name_is_an_error_of_verify(log_dir: pathlib.Path) -> None:
    """It becomes a segment, and a broker that recovers that does not start."""
    swap(log_dir, 38, 0)
    (log_dir / "t-0" / (name_of(38) + ".swap")).write_bytes((log_dir / "t-0" / name_of(7)).read_bytes())
    forget(log_dir, MARKER)
    assert run(log_dir, "recover", "logs/t-0").status == 3
    verified = run(log_dir, "verify", "logs/t-0", "--format", "json")
    ids = [row.get("id") for row in map(json.loads, verified.out.splitlines()) if ".log.swap" in row.get("path", "")]
    assert (verified.status, ids) == (1, ["leftover-swap", "segment-name"])


def test_a_deleted_file_explains_no_gap_inside_of_a_log(log_dir: pathlib.Path) -> None:
    """Retention deletes at its start, and a truncation at its end. The next start deletes the file."""
    left = (log_dir / "t-0" / name_of(7)).read_bytes()
    lose_segment(log_dir, 7)
    (log_dir / "t-0" / name_of(7, "log.deleted")).write_bytes(left)
    assert [gap["first_offset"] for gap in recover(log_dir)[2]["missing"]] == [7]
    rows = map(json.loads, run(log_dir, "doctor", "logs", "--format", "json").out.splitlines())
    (claim,) = (row for row in rows if row.get("about") == "partition" and row["path"].endswith("/t-0"))
    assert (claim["lost"]["ranges"], claim["gone_already"]["ranges"]) == ([[7, 35]], [])


def test_what_only_a_left_over_has_inside_of_a_damaged_segment(log_dir: pathlib.Path) -> None:
    """A start deletes the left-over. With the clean marker it does not read the segment."""
    path = log_dir / "t-0" / name_of(7)
    data = bytearray(path.read_bytes())
    (log_dir / "t-0" / name_of(7, "log.cleaned")).write_bytes(data)
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    status, _, answer = recover(log_dir)
    (gap,) = answer["missing"]
    assert (status, gap["before"], gap["behind"], gap["told_by"]) == (1, 7, 7, name_of(7, "log.cleaned"))
    assert (
        f"inside {name_of(7)}; only {name_of(7, 'log.cleaned')} is left"
        in run(log_dir, "recover", "logs/t-0").out.decode()
    )
    rows = map(json.loads, run(log_dir, "doctor", "logs", "--format", "json").out.splitlines())
    (claim,) = (row for row in rows if row.get("about") == "partition" and row["path"].endswith("/t-0"))
    assert claim["lost"]["ranges"] == [[gap["first_offset"], gap["last_offset"]]]


def test_what_a_segment_has_in_disorder_is_not_missing_beside_a_left_over(log_dir: pathlib.Path) -> None:
    """The last batch in the file says where the log ends."""
    path = log_dir / "t-0" / name_of(38)
    (log_dir / "t-0" / name_of(38, "log.cleaned")).write_bytes(path.read_bytes())
    data = path.read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    path.write_bytes(data[size:] + data[:size])
    forget(log_dir, MARKER)
    assert recover(log_dir)[2]["missing"] == []


def test_what_a_lower_segment_has_is_not_missing(log_dir: pathlib.Path) -> None:
    """As where a broker was killed between the two names of a swap."""
    logs = [log_dir / "t-0" / name_of(base) for base in (0, 7, 36)]
    logs[0].write_bytes(b"".join(log.read_bytes() for log in logs))
    logs[1].write_bytes(first_batch(logs[1]))
    logs[2].unlink()
    (log_dir / "t-0" / name_of(36, "index")).unlink()
    assert recover(log_dir)[2]["missing"] == []


def test_a_swap_file_of_a_name_below_zero(log_dir: pathlib.Path) -> None:
    """Of 19 digits and a minus Kafka opens another name, which it creates; of 20 the file, and it replaces segments."""
    for digits, lost in ((19, None), (20, {"first_offset": 0, "last_offset": 6})):
        left = log_dir / "t-0" / f"-{11:0{digits}}.log.swap"
        left.write_bytes((log_dir / "t-0" / name_of(7)).read_bytes())
        assert recover(log_dir)[2].get("lost_by_swap") == lost
        assert claimed(log_dir)["ranges"] == ([] if lost is None else [[0, 6]])
        shown = " ".join(run(log_dir, "verify", "logs/t-0").out.decode().split())
        assert ("offsets 0 to 6 would be lost" in shown) is (lost is not None)
        assert "mv -n" in shown
        left.unlink()


def test_what_only_a_swap_file_of_a_name_that_kafka_never_reads_has_is_lost(log_dir: pathlib.Path) -> None:
    """It gets a name of 19 digits, beside an empty segment of 20."""
    left = log_dir / "t-0" / f"-{11:019}.log.swap"
    left.write_bytes((log_dir / "t-0" / name_of(7)).read_bytes())
    lose_segment(log_dir, 7)
    assert recover(log_dir)[2]["lost_by_swap"] == {"first_offset": 7, "last_offset": 35}
    assert claimed(log_dir)["ranges"] == [[7, 35]]


SIGNS: Mapping[str, tuple[Callable[[pathlib.Path], None], tuple[str, ...]]] = {
    "setting of the topic": (lambda _: None, ("--config", "cleanup.policy=compact")),
    "setting of the broker": (lambda _: None, ("--config", "log.cleanup.policy=delete,compact")),
    "the cleaner's checkpoint": (
        lambda log_dir: (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 36\n") and None,
        (),
    ),
}


@pytest.mark.parametrize("sign", SIGNS)
def test_compaction_explains_a_gap(log_dir: pathlib.Path, sign: str) -> None:
    prepare, options = SIGNS[sign]
    lose_segment(log_dir, 7)
    prepare(log_dir)
    status, lines, answer = recover(log_dir, *options)
    assert (status, answer["missing"]) == (0, [])
    assert lines[0] == "t-0: nothing is lost; ends at offset 62"
    rows = map(json.loads, run(log_dir, "verify", "logs", "--format", "json", *options).out.splitlines())
    assert [row["severity"] for row in rows if row.get("id") == "segment-gap"] == ["info"]
    assert run(log_dir, "salvage", "logs/t-0", *options).status == 0


def test_gaps_inside_of_segments_explain_those_between(tmp_path: pathlib.Path) -> None:
    """As cleaning leaves them. (The config is not known there, and the cleaner's checkpoint is gone.)"""
    for source in sorted((FIXTURES / "groups" / "logdir").glob("*-0")):
        log_dir = tmp_path / source.name / "logs"
        shutil.copytree(source, log_dir / "t-0")
        _, _, answer = recover(log_dir)
        assert answer["missing"] == []


def test_below_the_log_start_nothing_is_missing(log_dir: pathlib.Path) -> None:
    lose_segment(log_dir, 7)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 36\n")
    status, _, answer = recover(log_dir)
    assert (status, answer["missing"]) == (0, [])
    assert run(log_dir, "salvage", "logs/t-0").status == 0


# ---------------------------------------------------------------- a partition that a broker hides


def test_without_its_topic_id_a_partition_comes_up_empty(log_dir: pathlib.Path) -> None:
    forget(log_dir, "t-0/partition.metadata")
    status, lines, answer = recover(log_dir)
    assert status == 1
    assert lines[0].startswith("t-0: HIDDEN as a stray: it has no partition.metadata")
    assert answer["stray"]
    whole = run(log_dir, "recover", "logs")
    assert whole.out.decode().startswith(lines[0])


def test_where_brokers_knew_no_topic_ids_none_is_missed() -> None:
    for fixture in ("magic-0", "magic-1", "three-magics"):
        assert run_here(["recover", f"{fixture}/logdir"], FIXTURES).status == 0


# ---------------------------------------------------------------- other commands over such a log


LOADING = {
    "lookup": ["lookup", "logs/t-0", "--offset", "3"],
    "read": ["read", "logs/t-0", "--offset", "0", "--max-bytes", "1000", "--format", "json"],
    "txns": ["txns", "logs/t-0"],
}


@pytest.mark.parametrize("command", LOADING)
def test_commands_that_look_say_that_the_end_is_false(log_dir: pathlib.Path, command: str) -> None:
    tear(log_dir / "t-0")
    done = run(log_dir, *LOADING[command])
    assert "the clean marker is FALSE" in done.err
    assert "offsets 38 to 61" in done.err


@pytest.mark.parametrize("work", sorted(WORK.keys() - {"roll", "batches", "requests"}))
def test_commands_that_write_say_so_first(log_dir: pathlib.Path, work: str) -> None:
    put_input(log_dir.parent / "given")
    tear(log_dir / "t-0")
    words = words_of(work, log_dir / "t-0", log_dir.parent / "given")
    done = run_here(words, log_dir.parent)
    if work == "delete":  # up to an offset that a broker does not find there
        assert (done.status, done.out) == (3, b"")
        assert "the clean marker is FALSE" in done.err
        assert "offsets 38 to 61" in done.err
    else:
        assert done.out.decode().startswith("t-0: LOSES offsets 38 to 61: the clean marker is FALSE")
        assert done.status == 1


# ---------------------------------------------------------------- the exit status of what was done


@pytest.mark.parametrize("how", ["--apply", "--output", "apply PLAN", "apply --resume"])
def test_what_loses_records_exits_as_its_plan(log_dir: pathlib.Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(log_dir, MARKER)
    tear(log_dir / "t-0")
    words = ["recover", "logs/t-0"]
    assert run(log_dir, *words).status == 1
    if how == "--apply":
        assert run(log_dir, *words, "--apply").status == 1
    elif how == "--output":
        (log_dir.parent / "out").mkdir()
        assert run(log_dir, *words, "--output", "out/t-0").status == 1
    elif how == "apply PLAN":
        assert run(log_dir, *words, "--plan-out", "plan").status == 1
        assert run_here(["apply", "plan"], log_dir.parent).status == 1
    else:
        from klogtool.disk import writer

        with monkeypatch.context() as patched:
            patched.setattr(writer, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            run(log_dir, *words, "--apply")
        done = run_here(["apply", "--resume", "logs"], log_dir.parent)
        assert done.status == 1, done
    lost = log_dir if how != "--output" else log_dir.parent / "out"
    assert (lost / "t-0" / name_of(BASE)).stat().st_size == 1829
