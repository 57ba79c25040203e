"""Records that consumers pass over because offsets go back or jump ahead: the numbers are those of a consumer 4.3.1."""

from __future__ import annotations

import gzip
import json
import pathlib
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from raw_batches import build_batch
from running import run_here

from klogtool.format.batch import Record
from klogtool.format.checksums import crc32c
from klogtool.format.message import build_message
from klogtool.format.names import FileKind, build_file_name
from klogtool.format.producer_snapshot import build_producer_snapshot


def batch(first: int, count: int = 3, *, last: int | None = None) -> bytes:
    records = [Record(first + n, 1000 + first + n, b"k", b"%d" % first) for n in range(count)]
    return build_batch(records, last_offset=last)


def at(made: bytes, offset: int) -> bytes:
    """The same batch with another base offset, which no checksum covers."""
    return offset.to_bytes(8, "big") + made[8:]


def crowded(first: int, count: int) -> bytes:
    """A batch of an old producer: its header has one offset, whatever its records have (sarama issue 1026)."""
    made = bytearray(batch(first, count))
    made[23:27] = bytes(4)
    made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    return bytes(made)


def counted(made: bytes, count: int) -> bytes:
    """A batch whose header says another number of records than it has."""
    changed = bytearray(made)
    changed[57:61] = count.to_bytes(4, "big", signed=True)
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def sequenced(made: bytes) -> bytes:
    """The same records with a base sequence, which a consumer does not get."""
    changed = bytearray(made)
    changed[53:57] = (6).to_bytes(4, "big")
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def inside(made: bytes, record: int, at: int, new: bytes) -> bytes:
    """A batch of three such records, one of which has other bytes at a place; the CRC is right."""
    each = (len(made) - 61) // 3
    place = 61 + record * each + at
    changed = bytearray(made[:place] + new + made[place + 1 :])
    changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


SOUND = [batch(first) for first in range(0, 30, 3)]
Log = Mapping[int, list[bytes]]
# The log, the records that are hidden, the ranges of their offsets.
CASES: Mapping[str, tuple[Log, int, list[list[int]]]] = {
    "sound": ({0: SOUND[:5], 15: SOUND[5:]}, 0, []),
    "a gap": ({0: SOUND[:3], 15: SOUND[5:]}, 0, []),
    "reversed": ({0: [*SOUND[:2], SOUND[3], SOUND[2], *SOUND[4:]]}, 3, [[6, 8]]),
    "reversed in a closed segment": (
        {0: [*SOUND[:2], SOUND[3], SOUND[2], SOUND[4]], 15: SOUND[5:]},
        3,
        [[6, 8]],
    ),
    # The consumer reads the end of the first segment again and again, until somebody seeks past it.
    "reversed at the end of a closed segment": (
        {0: [*SOUND[:3], SOUND[4], SOUND[3]], 15: SOUND[5:]},
        3,
        [[9, 11]],
    ),
    "an old batch at the end of a closed segment": ({0: [*SOUND[:5], SOUND[1]], 15: SOUND[5:]}, 0, []),
    "reversed at the end": ({0: SOUND[:5], 15: [*SOUND[5:8], SOUND[9], SOUND[8]]}, 3, [[24, 26]]),
    "a batch twice": ({0: [*SOUND[:3], *SOUND[2:]]}, 0, []),
    "another batch at the same offsets": ({0: [*SOUND[:3], at(SOUND[4], 6), *SOUND[3:]]}, 3, [[6, 8]]),
    "a segment twice": ({0: SOUND[:5], 9: SOUND[3:]}, 0, []),
    "a segment twice, of other sequences": ({0: SOUND[:5], 9: [sequenced(SOUND[3]), *SOUND[4:]]}, 0, []),
    "an offset above the next segment": (
        {0: [*SOUND[:4], at(SOUND[4], 28)], 15: SOUND[5:]},
        15,
        [[15, 29]],
    ),
    "more records than offsets": ({0: [SOUND[0], crowded(3, 3), batch(4, 1), batch(5, 1), *SOUND[2:]]}, 2, [[4, 5]]),
    "more records than offsets, part of a batch hidden": ({0: [crowded(0, 3), batch(1, 4), *SOUND[2:]]}, 2, [[1, 2]]),
    "more records than offsets, nothing hidden": ({0: [SOUND[0], crowded(3, 3), *SOUND[2:]]}, 0, []),
    "more records than offsets in a closed segment": ({0: [crowded(0, 9), *SOUND[1:5]], 15: SOUND[5:]}, 6, [[3, 8]]),
    "more records than offsets at the end": ({0: [*SOUND[:9], crowded(27, 3)]}, 0, []),
    "a last offset that no record has": ({0: [SOUND[0], batch(3, 3, last=8), *SOUND[2:]]}, 0, []),
}


def damaged(made: bytes) -> bytes:
    return made[:-1] + bytes([made[-1] ^ 1])


def with_magic(made: bytes, magic: int) -> bytes:
    return made[:16] + bytes([magic]) + made[17:]


def emptied(first: int, codec: int) -> bytes:
    """A batch of three offsets that has no records, and says that these are compressed."""
    changed = bytearray(batch(first)[:61])
    changed[8:12] = (61 - 12).to_bytes(4, "big")
    changed[22] = codec
    changed[57:61] = bytes(4)
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def old_message(offset: int, at: int, new: bytes, *, sealed: bool) -> bytes:
    """A message of magic 1 with other bytes from a place on; sealed: its checksum is right for them."""
    message = bytearray(build_message(offset, b"k", b"value", magic=1, timestamp=1000))
    message[at : at + len(new)] = new
    if sealed:
        message[12:16] = zlib.crc32(message[16:]).to_bytes(4, "big")
    return bytes(message)


def wrapper(inner: list[bytes], last: int) -> bytes:
    return build_message(last, None, gzip.compress(b"".join(inner)), magic=1, timestamp=1000, attributes=1)


KEY_SIZE = 26  # of a message of magic 1
FLAG, HUGE = b"\x40", (1 << 20).to_bytes(4, "big")
INNER = [build_message(n, b"k", b"value", magic=1, timestamp=1000) for n in range(3)]


# A start after a clean stop does not see this damage. The log, hidden records, ranges, why.
DAMAGED: Mapping[str, tuple[Log, int, list[list[int]], list[str]]] = {
    "a torn end of a closed segment": ({0: [*SOUND[:4], SOUND[4][:-9]], 15: SOUND[5:]}, 0, [], []),
    "stray bytes at the end of a closed segment": ({0: [*SOUND[:5], b"stray"], 15: SOUND[5:]}, 0, [], []),
    # The consumer fails, and goes on only if it seeks to another offset.
    "zeros at the end of a closed segment": ({0: [*SOUND[:5], bytes(70)], 15: SOUND[5:]}, 1, [[15, 15]], ["damage"]),
    "a checksum": ({0: [*SOUND[:2], damaged(SOUND[2]), *SOUND[3:5]], 15: SOUND[5:]}, 0, [], []),
    "magic 3": ({0: [*SOUND[:2], with_magic(SOUND[2], 3), *SOUND[3:5]], 15: SOUND[5:]}, 0, [], []),
    # Nothing leads a fetch over bytes of which no length is known.
    "zeros in a closed segment": (
        {0: [*SOUND[:2], bytes(len(SOUND[2])), *SOUND[3:5]], 15: SOUND[5:]},
        6,
        [[9, 14]],
        ["damage"],
    ),
    "a length too long": (
        {0: [*SOUND[:2], SOUND[2][:8] + b"\x7f" + SOUND[2][9:], *SOUND[3:5]], 15: SOUND[5:]},
        6,
        [[9, 14]],
        ["damage"],
    ),
    "a last offset that is too low": ({0: [*SOUND[:2], batch(6, 3, last=5), *SOUND[3:5]], 15: SOUND[5:]}, 0, [], []),
    "a count that is too low": (
        {0: [*SOUND[:2], counted(SOUND[2], 2), *SOUND[3:5]], 15: SOUND[5:]},
        2,
        [[7, 8]],
        ["damage"],
    ),
    "a count of 0": (
        {0: [*SOUND[:2], counted(SOUND[2], 0), *SOUND[3:5]], 15: SOUND[5:]},
        3,
        [[6, 8]],
        ["damage"],
    ),
    "a count below 0": ({0: [counted(SOUND[0], -1), *SOUND[1:5]], 15: SOUND[5:]}, 3, [[0, 2]], ["damage"]),
    # The consumer has all of them, fails behind the last one, and keeps that fetch.
    "a count that is too high": (
        {0: [*SOUND[:2], counted(SOUND[2], 9), *SOUND[3:5]], 15: SOUND[5:]},
        1,
        [[9, 9]],
        ["damage"],
    ),
    # Inside a batch: the consumer has what comes before the damage, fails, and goes on if it seeks behind the batch.
    "a record's length": ({0: [*SOUND[:2], inside(SOUND[2], 1, 0, b"\2"), *SOUND[3:]]}, 0, [], []),
    "an offset twice": ({0: [*SOUND[:2], inside(SOUND[2], 1, 3, b"\0"), *SOUND[3:]]}, 1, [[6, 6]], ["order"]),
    "an offset of a later batch": (
        {0: [*SOUND[:2], inside(SOUND[2], 1, 3, b"\x0a"), *SOUND[3:]]},
        4,
        [[8, 11]],
        ["order"],
    ),
    # None of Kafka's exceptions: it does not return what came before in this fetch either.
    "a length that does not end": (
        {0: [*SOUND[:2], inside(SOUND[2], 1, 0, b"\xff" * 6), *SOUND[3:]]},
        6,
        [[0, 5]],
        ["damage"],
    ),
    # The head of the stream is read before it is known that there are no records; zstd's is not.
    "a compressed batch without records": (
        {0: [*SOUND[:2], emptied(6, 1), *SOUND[3:5]], 15: SOUND[5:]},
        0,
        [],
        [],
    ),
    "a batch without records, compressed with zstd": ({0: [*SOUND[:2], emptied(6, 4), *SOUND[3:5]]}, 0, [], []),
    # Flags that there are not hide nothing of what the sizes are like: the exception is none of Kafka's.
    "sizes of an old message with wrong flags": (
        {0: [*SOUND[:2], old_message(6, 17, FLAG + bytes(8) + HUGE, sealed=True), *SOUND[3:5]], 15: SOUND[5:]},
        6,
        [[0, 5]],
        ["damage"],
    ),
    # The checksum of an inner message comes before its sizes, so the consumer has what is before it.
    "sizes of an inner message": (
        {0: [*SOUND[:2], wrapper([*INNER[:2], old_message(2, KEY_SIZE, HUGE, sealed=False)], 8), *SOUND[3:5]]},
        0,
        [],
        [],
    ),
    "sizes of an inner message, its checksum right": (
        {0: [*SOUND[:2], wrapper([*INNER[:2], old_message(2, KEY_SIZE, HUGE, sealed=True)], 8), *SOUND[3:5]]},
        6,
        [[0, 5]],
        ["damage"],
    ),
    "the first segment renamed": ({1: SOUND[:5], 15: SOUND[5:]}, 1, [[0, 0]], ["below-log-start"]),
    "the first segment renamed to a later batch": ({7: SOUND[:5], 15: SOUND[5:]}, 7, [[0, 6]], ["below-log-start"]),
    "an older copy beside newer segments": ({0: SOUND[:2], 15: SOUND[5:]}, 0, [], []),
    "a segment under a higher name": ({0: SOUND[:5], 20: SOUND[5:]}, 0, [], []),
    "two segments exchanged": ({0: SOUND[5:], 15: SOUND[:5]}, 15, [[0, 14]], ["order"]),
}


def hidden(tmp_path: pathlib.Path, log: Log, *, clean: bool) -> dict[str, Any]:
    return dict(claim_of(tmp_path, log, clean=clean)["hidden"])


def claim_of(tmp_path: pathlib.Path, log: Log, *, clean: bool, recovery_point: int = 0) -> dict[str, Any]:
    folder = tmp_path / "d/t-0"
    folder.mkdir(parents=True)
    for base, batches in log.items():
        (folder / build_file_name(FileKind.LOG, base)).write_bytes(b"".join(batches))
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            (folder / build_file_name(kind, base)).write_bytes(b"")
    (tmp_path / "d/meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    if clean:
        (tmp_path / "d/.kafka_cleanshutdown").write_text("")
    elif recovery_point:
        (folder / build_file_name(FileKind.PRODUCER_SNAPSHOT, recovery_point)).write_bytes(build_producer_snapshot([]))
        (tmp_path / "d/recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {recovery_point}\n")
    rows = map(json.loads, run_here(["doctor", "d", "--format", "json"], tmp_path).out.splitlines())
    (claim,) = [row for row in rows if row.get("type") == "claim" and row.get("about") == "partition"]
    return dict(claim)


@pytest.mark.parametrize("others", [[SOUND[2][:-10], SOUND[9]], [SOUND[2], SOUND[9], SOUND[3]]])
def test_what_a_closed_segment_has_above_the_next_one_is_not_lost(tmp_path: pathlib.Path, others: list[bytes]) -> None:
    """A start cuts the last segment, and keeps the closed ones as they are: what has a copy there is still on the disk.
    It lies behind damage, or is not the last one there."""
    log = {0: [*SOUND[:2], *others], 15: [SOUND[5], damaged(SOUND[6]), *SOUND[7:]]}
    claim = claim_of(tmp_path, log, clean=False, recovery_point=15)
    assert claim["log_end_offset"] == 18
    assert (claim["lost"]["records"], claim["lost"]["ranges"]) == (6, [[21, 26]])


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_what_consumers_pass_over_is_counted(tmp_path: pathlib.Path, name: str, clean: bool) -> None:
    log, records, ranges = CASES[name]
    found = hidden(tmp_path, log, clean=clean)
    assert (found["records"], found["ranges"]) == (records, ranges)
    assert found["why"] == (["order"] if records else [])


@pytest.mark.parametrize("name", DAMAGED)
def test_what_consumers_do_not_come_to_is_counted(tmp_path: pathlib.Path, name: str) -> None:
    log, records, ranges, why = DAMAGED[name]
    found = hidden(tmp_path, log, clean=True)
    assert (found["records"], found["ranges"], found["why"]) == (records, ranges, why)


def test_where_consumers_wait_without_an_error_is_told(tmp_path: pathlib.Path) -> None:
    """A block of another segment lies at the start of this one. What is behind it is found by the index only."""
    strange = (1 << 40).to_bytes(8, "big") + (1 << 28).to_bytes(4, "big") + bytes(4) + b"\2" + bytes(40)
    log = {0: SOUND[:5], 15: [SOUND[0], strange, *SOUND[7:]]}
    claim_of(tmp_path, log, clean=True)
    position = len(SOUND[0]) + len(strange)
    index = (21 - 15).to_bytes(4, "big") + position.to_bytes(4, "big")
    (tmp_path / "d/t-0" / build_file_name(FileKind.OFFSET_INDEX, 15)).write_bytes(index)
    text = " ".join(run_here(["doctor", "d"], tmp_path).out.decode().split())
    assert "consumers wait at offset 15 for ever, without an error; from offset 21 on they are served" in text


INSIDE = {
    "a record's length": (1, b"\2", 7),
    "a length that does not end": (1, b"\xff" * 6, 0),
    "of the first record": (0, b"\2", 6),
}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", INSIDE)
def test_where_consumers_fail_inside_a_batch_is_told(tmp_path: pathlib.Path, name: str, clean: bool) -> None:
    """No start looks into the records of a batch whose CRC is right. Salvage keeps the records before the damage."""
    record, new, at = INSIDE[name]
    hidden(tmp_path, {0: [*SOUND[:2], inside(SOUND[2], record, 0, new), *SOUND[3:]]}, clean=clean)
    text = " ".join(run_here(["doctor", "d"], tmp_path).out.decode().split())
    assert f"consumers fail at offset {at}" in text
    assert ("no start looks into them" in text) is not clean
    rows = map(json.loads, run_here(["salvage", "d/t-0", "--format", "json"], tmp_path).out.splitlines())
    (lost,) = next(row["answer"] for row in rows if row.get("answer"))["lost"]
    assert (lost["first_offset"], lost["last_offset"]) == (6 + record, 8)


@pytest.mark.parametrize("name", [name for name, (_, records, _) in CASES.items() if records])
def test_the_first_line_says_that_data_are_hidden(tmp_path: pathlib.Path, name: str) -> None:
    log, records, ranges = CASES[name]
    hidden(tmp_path, log, clean=False)
    text = run_here(["doctor", "d"], tmp_path).out.decode()
    assert "HIDE DATA in" in text.splitlines()[0]
    assert "lose nothing" not in text
    assert f"{records} records" in text
    assert "klogtool dump-log --print-data-log" in text
    if "more records" in name:
        assert "salvage: keep all" not in text  # it would keep them where nobody gets them
    assert "a consumer passes over offset" in text
    assert f"{ranges[0][0]} to {ranges[0][1]}" in text


@pytest.mark.parametrize(
    ("log", "end", "waits_at"),
    [
        ({0: SOUND[:5], 200: SOUND[:5]}, 200, 15),
        ({0: SOUND[:5], 200: SOUND[5:7]}, 200, 21),
        ({0: SOUND[:5], 15: SOUND[5:]}, 30, None),
        ({0: SOUND[:3], 15: SOUND[5:]}, 30, None),
        ({0: [*SOUND[:2], SOUND[3], SOUND[2], *SOUND[4:]]}, 30, None),
        ({0: [*SOUND[:9], crowded(27, 3)]}, 28, None),
    ],
)
def test_consumers_that_wait_below_the_end_are_told(
    tmp_path: pathlib.Path, log: Log, end: int, waits_at: int | None
) -> None:
    hidden(tmp_path, log, clean=True)
    rows = list(map(json.loads, run_here(["doctor", "d", "--format", "json"], tmp_path).out.splitlines()))
    assert [row["log_end_offset"] for row in rows if row.get("about") == "partition"] == [end]
    told = [row["detail"] for row in rows if row["type"] == "ahead" and "consumers wait at" in row["detail"]]
    assert [f"at offset {waits_at}, so their lag" in detail for detail in told] == ([True] if waits_at else [])


@pytest.mark.parametrize(("release", "end"), [("3.9.2", 26), ("4.0.1", 26), ("4.1.1", 0), ("4.3.1", 0)])
def test_older_releases_find_a_batch_by_its_last_offset(tmp_path: pathlib.Path, release: str, end: int) -> None:
    """Where the last two batches are exchanged, and the index knows the first of them: seen on 3.9.2."""
    segment = [batch(0, 20), batch(26, 3), batch(20, 6)]
    hidden(tmp_path, {0: segment}, clean=True)
    entry = (28).to_bytes(4, "big") + len(segment[0]).to_bytes(4, "big")
    (tmp_path / "d/t-0" / build_file_name(FileKind.OFFSET_INDEX, 0)).write_bytes(entry)
    done = run_here(["doctor", "d", "--kafka", release, "--format", "json"], tmp_path)
    (claim,) = [row for row in map(json.loads, done.out.splitlines()) if row.get("about") == "partition"]
    assert claim["log_end_offset"] == end


@pytest.mark.parametrize(
    ("release", "mark", "ranges"),
    [
        ("4.4.0", 20, [[18, 29], [60, 62]]),
        ("4.3.1", 20, [[18, 29], [60, 62]]),
        ("4.3.1", 0, [[18, 29]]),
        ("4.3.1", 30, [[18, 29]]),
        ("3.9.2", 20, [[18, 29]]),
    ],
)
def test_the_high_watermark_moves_to_the_batch_that_is_found(
    tmp_path: pathlib.Path, release: str, mark: int, ranges: list[list[int]]
) -> None:
    """Beyond the log's end it stays, and nobody is served what lies behind that batch: seen on 4.4.0."""
    hidden(tmp_path, {0: SOUND[:5], 15: [at(SOUND[5], 60), *SOUND[6:]]}, clean=True)
    (tmp_path / "d/replication-offset-checkpoint").write_text(f"0\n1\nt 0 {mark}\n")
    done = run_here(["doctor", "d", "--kafka", release, "--format", "json"], tmp_path)
    rows = list(map(json.loads, done.out.splitlines()))
    (claim,) = [row for row in rows if row.get("about") == "partition"]
    assert (claim["log_end_offset"], claim["hidden"]["ranges"]) == (30, ranges)
    told = [row["detail"] for row in rows if row["type"] == "ahead" and "60 for the high watermark" in row["detail"]]
    assert len(told) == ([60, 62] in ranges)


# Its four records come out of the decompressor before the end of it does, so a consumer gets them and fails at 4.
TOO_MANY = build_batch([Record(n, 1000 + n, b"k", b"v") for n in range(4)], codec="gzip")
TOO_MANY = TOO_MANY[:57] + (100).to_bytes(4, "big") + TOO_MANY[61:]
TOO_MANY = TOO_MANY[:17] + crc32c(TOO_MANY[21:]).to_bytes(4, "big") + TOO_MANY[21:]


def test_a_consumer_gets_what_a_compressed_batch_has_before_its_end(tmp_path: pathlib.Path) -> None:
    found = hidden(tmp_path, {0: [TOO_MANY, batch(4, 5), *SOUND[3:5]], 15: SOUND[5:]}, clean=True)
    assert (found["records"], found["ranges"]) == (1, [[4, 4]])


# What is at the end of a log that recovery cuts at a torn batch, and what a consumer gets of it afterwards.
CUT: Mapping[str, tuple[list[bytes], list[list[int]], list[list[int]]]] = {
    "a count too high": ([TOO_MANY, batch(4, 5)], [[0, 3], [5, 8]], [[4, 4]]),
    "more records than offsets": ([SOUND[0], crowded(3, 3), batch(4, 1), *SOUND[2:4]], [[0, 11]], [[4, 4]]),
    "sound": (SOUND[:4], [[0, 11]], []),
}


@pytest.mark.parametrize("name", CUT)
def test_an_option_is_priced_by_what_consumers_get(tmp_path: pathlib.Path, name: str) -> None:
    log, readable, lost = CUT[name]
    hidden(tmp_path, {0: [*log, batch(12)[:-9]]}, clean=False)
    rows = list(map(json.loads, run_here(["doctor", "d", "--format", "json"], tmp_path).out.splitlines()))
    (number,) = (row["number"] for row in rows if row["type"] == "option" and row["title"] == "as the broker does it")
    (claim,) = (row for row in rows if row.get("about") == "option" and row["number"] == number)
    assert (claim["readable"], claim["lost"]["ranges"]) == (readable, lost)


@pytest.mark.parametrize("name", CASES)
def test_an_option_about_a_side_file_is_priced_as_well(tmp_path: pathlib.Path, name: str) -> None:
    log, records, ranges = CASES[name]
    hidden(tmp_path, log, clean=True)
    (tmp_path / "d/t-0/leader-epoch-checkpoint").write_text("0\nmany\n")
    rows = list(map(json.loads, run_here(["doctor", "d", "--format", "json"], tmp_path).out.splitlines()))
    number = next(row["number"] for row in rows if row["type"] == "option" and "rebuild-index" in row["command"])
    claims = {row["number"]: row for row in rows if row.get("about") == "option"}
    assert (claims[number]["lost"]["records"], claims[number]["lost"]["ranges"]) == (records, ranges)
    assert all(claim["lost"]["records"] is None for claim in claims.values() if claim["readable"] is None)


@pytest.mark.slow
def test_a_log_that_nobody_reads_is_unknown(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its share of what is read of a log dir is too small; with a larger one it is read."""
    large = [batch(first, 300) for first in range(0, 90_000, 300)]
    log = {0: large, 90_000: [batch(90_000)]}
    read = hidden(tmp_path / "read", log, clean=True)
    assert (read["records"], read["why"], read["reason"]) == (0, [], None)
    monkeypatch.setattr("klogtool.doctor.rehearsal._READ_BYTES", 1)
    found = hidden(tmp_path / "not", log, clean=True)
    assert (found["records"], found["why"], found["reason"]) == (None, ["not-read"], "not-read")


def test_where_an_empty_compressed_batch_stops_consumers_is_told(tmp_path: pathlib.Path) -> None:
    hidden(tmp_path, {0: [*SOUND[:2], emptied(6, 1), *SOUND[3:5]]}, clean=True)
    text = " ".join(run_here(["doctor", "d"], tmp_path).out.decode().split())
    assert "consumers fail at offset 6" in text


NO_CODEC = bytearray(SOUND[3])
NO_CODEC[22] = 1  # said to be compressed, and is not
NO_CODEC[17:21] = crc32c(bytes(NO_CODEC[21:])).to_bytes(4, "big")
# Of a batch behind the damage at which a start cuts: what of it was readable, and is lost.
READABLE: Mapping[str, tuple[bytes, list[list[int]]]] = {
    "all": (SOUND[3], [[9, 14]]),
    "nothing": (bytes(NO_CODEC), [[12, 14]]),
    "what is before damage inside": (inside(SOUND[3], 1, 0, b"\2"), [[9, 9], [12, 14]]),
}


@pytest.mark.parametrize("name", READABLE)
def test_what_is_lost_was_readable(tmp_path: pathlib.Path, name: str) -> None:
    """Its checksum is right: only its records tell."""
    third, ranges = READABLE[name]
    claim = claim_of(tmp_path, {0: [*SOUND[:2], damaged(SOUND[2]), third, SOUND[4]]}, clean=False)
    assert claim["log_end_offset"] == 6
    assert claim["lost"]["ranges"] == ranges
    assert claim["lost"]["records"] == sum(last - first + 1 for first, last in ranges)
