"""Damage to a log and its indexes, everywhere in real segments: each is found, and nothing is made up.

Wounds are drawn from a seed; what they must be called is worked out apart from klogtool (tests/kafka/layout.py).
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from kafka import layout
from kafka.damage import harm
from kafka.generated import by_klogtool, shapes
from kafka.layout import Entry
from msgspec.structs import replace
from raw_batches import build_batch
from readers import READERS, Reader
from scanning import INDEX, LOG, NOW_MS, TIMEINDEX, Files, scan, sound_segments

from klogtool import kernels
from klogtool.causes import from_text
from klogtool.format.batch import CODEC_NAMES, Record
from klogtool.format.message import build_message, build_message_set
from klogtool.log import proving
from klogtool.log.segment import Segment
from klogtool.verify import log_walk, verify_segment
from klogtool.verify.findings import Finding
from klogtool.verify.segment_report import SegmentContext

CONTEXT = SegmentContext(NOW_MS)
SEGMENTS = sound_segments()
DENSE = {name: files for name, files in SEGMENTS.items() if "compacted" not in name}
every_segment = pytest.mark.parametrize("name", SEGMENTS)
FLIPS_A_SEGMENT = 12
WOUNDS_A_SEGMENT = 5


def places(finding: Finding) -> tuple[object, ...]:
    return finding.id, finding.field, finding.start, finding.end


def first_of(entry: Entry) -> int:
    return entry.value("base_offset" if entry.magic >= 2 else "offset")


def last_of(entry: Entry) -> int:
    return first_of(entry) + (entry.value("last_offset_delta") if entry.magic >= 2 else 0)


def is_wrapper(entry: Entry) -> bool:
    return entry.magic < 2 and entry.codec > 0


@dataclass(frozen=True)
class Flip:
    """One bit of one entry of a log changed. field: which part of the entry it lies in, "body" behind the header."""

    before: Entry | None
    entry: Entry
    after: Entry | None
    at: int
    bit: int

    @property
    def field(self) -> str:
        spots = self.entry.fields.items()
        return next((name for name, (start, size) in spots if start <= self.at < start + size), "body")

    @property
    def position(self) -> int:
        return self.entry.position + self.at

    def applied(self, log: bytes) -> bytes:
        return layout.put(log, self.position, bytes([log[self.position] ^ 1 << self.bit]))


def flips(files: Files, rng: random.Random, fields: tuple[str, ...] = ()) -> Iterator[Flip]:
    """Of random entries; in these fields of their headers, or anywhere."""
    entries = layout.walk(files.log)
    for _ in range(FLIPS_A_SEGMENT):
        number = rng.randrange(len(entries))
        entry = entries[number]
        at = rng.randrange(len(entry.data))
        if fields:
            start, size = next(entry.fields[name] for name in fields if name in entry.fields)
            at = start + rng.randrange(size)
        before = entries[number - 1] if number else None
        after = entries[number + 1] if number + 1 < len(entries) else None
        yield Flip(before, entry, after, at, rng.randrange(8))


# ---------------------------------------------------------------- nothing is made up


@every_segment
@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_segment_has_no_findings(reader: Reader, name: str, deep: bool) -> None:
    files = SEGMENTS[name]
    told = scan(files, reader, deep=deep)
    assert told.ids <= {"index-untrimmed"}
    assert not told.report.is_damaged
    assert not told.report.has_damaged_tail
    assert told.report.sound == ((0, len(files.log)),)
    assert told.report.batches == len(layout.walk(files.log))
    assert told.report.next_offset == last_of(layout.walk(files.log)[-1]) + 1


def test_an_empty_log(reader: Reader) -> None:
    told = scan(Files(5, {LOG: b""}), reader)
    assert told.ids == set()
    assert (told.report.next_offset, told.report.first_offset, told.report.sound) == (5, None, ())


# ---------------------------------------------------------------- one bit


@every_segment
def test_a_bit_under_the_checksum(reader: Reader, name: str) -> None:
    """Or of it: always that entry's checksum, and the others are read."""
    files, rng = SEGMENTS[name].log_alone(), random.Random(name)
    for flip in flips(files, rng):
        if flip.at < (17 if flip.entry.magic >= 2 else 12):
            continue
        told = scan(files.having(LOG, flip.applied(files.log)), reader)
        entry = flip.entry
        assert [places(found) for found in told.log] == [("batch-crc", None, entry.position, entry.end)]
        assert told.report.batches == len(layout.walk(files.log)) - 1
        assert told.report.is_damaged
        assert told.report.has_damaged_tail == (flip.after is None)
        if entry.magic >= 2 and flip.field != "last_offset_delta":
            assert (told.log[0].first_offset, told.log[0].last_offset) == (first_of(entry), last_of(entry))


@every_segment
def test_a_bit_of_the_length(reader: Reader, name: str) -> None:
    files, rng = SEGMENTS[name].log_alone(), random.Random(name)
    for flip in flips(files, rng, ("length", "size")):
        told = scan(files.having(LOG, flip.applied(files.log)), reader)
        entry = flip.entry
        assert [places(found) for found in told.log] == [("batch-header", "length", entry.position, entry.end)]
        assert told.report.batches == len(layout.walk(files.log))


@every_segment
def test_a_bit_of_the_magic(reader: Reader, name: str) -> None:
    """Of a message it lies under the checksum."""
    files, rng = SEGMENTS[name].log_alone(), random.Random(name)
    for flip in flips(files, rng, ("magic",)):
        told = scan(files.having(LOG, flip.applied(files.log)), reader)
        entry = flip.entry
        expected = ("batch-header", "magic") if entry.magic >= 2 else ("batch-crc", None)
        assert [places(found) for found in told.log] == [(*expected, entry.position, entry.end)]


def rises(entries: list[Entry], base_offset: int) -> bool:
    """Whether each entry begins behind the one before it, and all end where an index can still name them."""
    ends = [base_offset - 1, *map(last_of, entries)]
    is_behind = all(end < first_of(entry) for end, entry in zip(ends, entries, strict=False))
    return is_behind and max(ends) - base_offset < 2**31


@every_segment
def test_a_bit_of_the_base_offset(reader: Reader, name: str) -> None:
    """Found if and only if the offsets no longer rise; what else catches it is the offset index.

    Where records are missing from a log, as after compaction, two batches may contradict each other and either be the
    wrong one. Where a wrapper begins is in its compressed messages.
    """
    files, rng = SEGMENTS[name].log_alone(), random.Random(name)
    for flip in flips(files, rng, ("base_offset", "offset")):
        log = flip.applied(files.log)
        told, still_rises = scan(files.having(LOG, log), reader), rises(layout.walk(log), files.base_offset)
        assert len(told.log) <= 1
        assert told.log or still_rises
        if flip.after is None or not is_wrapper(flip.after):
            assert not (told.log and still_rises)
        suspects = {flip.entry.position} if name in DENSE and not is_wrapper(flip.entry) else around(flip)
        for found in told.log:
            assert (found.id, found.field) == ("batch-header", "base_offset")
            assert found.start in suspects
        assert told.report.batches == len(layout.walk(files.log))


def around(flip: Flip) -> set[int]:
    return {entry.position for entry in (flip.before, flip.entry, flip.after) if entry is not None}


@every_segment
def test_a_bit_of_the_leader_epoch(reader: Reader, name: str) -> None:
    """Found if and only if the epochs no longer rise; else leader-epoch-checkpoint may know better."""
    files, rng = SEGMENTS[name].log_alone(), random.Random(name)
    for flip in flips(files, rng, ("partition_leader_epoch", "crc")):
        if flip.entry.magic < 2:
            continue
        log = flip.applied(files.log)
        epochs = [-1, *(entry.value("partition_leader_epoch") for entry in layout.walk(log))]
        told = scan(files.having(LOG, log), reader)
        assert len(told.log) == (0 if epochs == sorted(epochs) else 1)
        for found in told.log:
            assert found.id in ("batch-header", "epoch-order")
            assert found.field in ("partition_leader_epoch", None)
            assert found.start in around(flip)


def test_an_offset_that_only_the_index_knows_better(reader: Reader) -> None:
    """The last batch of a log: nothing follows that could contradict it."""
    files = SEGMENTS["every-codec/logdir/create-0/00000000000000000000.log"]
    last = layout.walk(files.log)[-1]
    files = files.having(
        LOG, files.log[: last.position] + layout.with_field(last.data, layout.BATCH, "base_offset", 99)
    )
    entry = (last_of(last) - files.base_offset).to_bytes(4, "big") + last.position.to_bytes(4, "big")
    told = scan(files.having(INDEX, entry).having(TIMEINDEX, b""), reader)
    expected = ("batch-header", "base_offset", last.position, last.end)
    assert [places(found) for found in told.log] == [expected]
    assert told.log[0].first_offset == first_of(last)
    assert told.index == []


# ---------------------------------------------------------------- larger wounds


@dataclass(frozen=True)
class Wound:
    """Bytes [start, stop) of a log in which nothing is as it was; those from `stop` on moved by `shift`."""

    kind: str
    log: bytes
    start: int
    stop: int
    shift: int = 0

    def untouched(self, log: bytes) -> list[Entry]:
        return [e for e in layout.walk(log) if e.end <= self.start or e.position >= self.stop]


def wounds(log: bytes, rng: random.Random) -> Iterator[Wound]:
    entries = layout.walk(log)
    for _ in range(WOUNDS_A_SEGMENT):
        at = rng.choice((rng.randrange(len(log)), rng.choice(entries).position))
        size = rng.choice((1, 3, 8, 17, 18, 61, 100, 400))
        stop = min(len(log), at + size)
        new = rng.choice((rng.randbytes(size), bytes(size)))
        yield Wound("overwritten", log[:at] + new[: stop - at] + log[stop:], at, stop)
        yield Wound("zeros to the end", log[:at] + bytes(len(log) - at), at, len(log))
        yield Wound("cut", log[:at], at, len(log))
        yield Wound("inserted", log[:at] + new + log[at:], at, at, size)
        yield Wound("taken out", log[:at] + log[stop:], at, stop, at - stop)
        yield Wound("behind", log + new, len(log), len(log))
        yield Wound("before", rng.randbytes(size) + log, 0, 0, size)


@every_segment
def test_a_larger_wound_is_found_and_what_it_left_is_read(reader: Reader, name: str) -> None:
    files, rng = SEGMENTS[name].log_alone(), random.Random(name)
    boundaries = {0, *(entry.end for entry in layout.walk(files.log))}
    for wound in wounds(files.log, rng):
        told = scan(files.having(LOG, wound.log), reader)
        left = wound.untouched(files.log)
        assert told.report.batches >= len(left), wound
        clean_cut = wound.kind in ("cut", "taken out") and {wound.start, wound.stop} <= boundaries
        if wound.log != files.log and not clean_cut and not only_headers(files.log, wound):
            assert told.log, wound
        for finding in told.log:
            assert finding.start is not None
            assert finding.end is not None
            assert 0 <= finding.start < finding.end <= len(wound.log), wound
            assert reaches(finding, wound), wound


def only_headers(log: bytes, wound: Wound) -> bool:
    """Whether only base offset or leader epoch were changed: that may contradict nothing."""
    changed = [n for n in range(wound.start, wound.stop) if wound.log[n : n + 1] != log[n : n + 1]]
    spots = {n - e.position for e in layout.walk(log) for n in changed if e.position <= n < e.end}
    return wound.kind == "overwritten" and spots <= {*range(8), *range(12, 16)}


def reaches(finding: Finding, wound: Wound) -> bool:
    """Whether it tells of the wound: of its bytes, or of the entry before or behind."""
    assert finding.start is not None
    assert finding.end is not None
    return finding.start <= wound.stop + max(wound.shift, 0) + 700 and finding.end >= wound.start - 700


@every_segment
def test_a_torn_tail(reader: Reader, name: str) -> None:
    files, rng = SEGMENTS[name].log_alone(), random.Random(name)
    entries = layout.walk(files.log)
    for entry in rng.sample(entries, min(3, len(entries))):
        for size in {1, 2, 5, 16, 17, 18, 25, len(entry.data) - 1}:
            told = scan(files.having(LOG, files.log[: entry.position + size]), reader)
            assert [places(found) for found in told.log] == [
                ("torn-batch", None, entry.position, entry.position + size)
            ]
            assert told.report.has_damaged_tail
            assert told.report.next_offset == (
                first_of(entry) if name in DENSE and not is_wrapper(entry) else told.report.next_offset
            )


@every_segment
@pytest.mark.parametrize("size", [8, 17, 18, 4096])
def test_a_tail_of_zeros(reader: Reader, name: str, size: int) -> None:
    files = SEGMENTS[name].log_alone()
    told = scan(files.having(LOG, files.log + bytes(size)), reader)
    assert [places(found) for found in told.log] == [("zero-tail", None, len(files.log), len(files.log) + size)]
    assert told.report.has_damaged_tail
    assert told.report.batches == len(layout.walk(files.log))


@every_segment
def test_junk_between(reader: Reader, name: str) -> None:
    files, rng = SEGMENTS[name].log_alone(), random.Random(name)
    entries = layout.walk(files.log)
    for entry in rng.sample(entries, min(4, len(entries))):
        junk = b"\xaa" + rng.randbytes(rng.choice((3, 17, 60, 500)))
        told = scan(files.having(LOG, files.log[: entry.position] + junk + files.log[entry.position :]), reader)
        expected = ("foreign-bytes", None, entry.position, entry.position + len(junk))
        assert [places(found) for found in told.log] == [expected]
        assert told.report.batches == len(entries)
        assert len(told.report.sound) == (2 if entry.position else 1)


@every_segment
def test_an_entry_that_is_there_twice(reader: Reader, name: str) -> None:
    files, rng = SEGMENTS[name].log_alone(), random.Random(name)
    entry = rng.choice(layout.walk(files.log))
    told = scan(files.having(LOG, files.log[: entry.end] + entry.data + files.log[entry.end :]), reader)
    expected = ("offset-order", None, entry.end, entry.end + len(entry.data))
    assert [places(found) for found in told.log if found.id != "sequence-gap"] == [expected]


@every_segment
def test_an_entry_that_is_not_there(reader: Reader, name: str) -> None:
    """Offsets may be missing: that is no damage. Sequence numbers are not held against each other across it."""
    files, rng = SEGMENTS[name].log_alone(), random.Random(name)
    entry = rng.choice(layout.walk(files.log)[1:-1])
    told = scan(files.having(LOG, files.log[: entry.position] + files.log[entry.end :]), reader)
    assert told.log == []
    assert told.report.has_gaps or is_wrapper(entry) or entry.magic < 2


# ---------------------------------------------------------------- indexes


@every_segment
@pytest.mark.parametrize("kind", [INDEX, TIMEINDEX])
def test_a_bit_of_an_index(reader: Reader, name: str, kind: object) -> None:
    """A false entry is found; one that is as true as before is not."""
    files, rng = SEGMENTS[name], random.Random(name)
    kind = INDEX if kind is INDEX else TIMEINDEX
    size = 8 if kind is INDEX else 12
    data = files.files.get(kind, b"")
    used = len(data.rstrip(b"\0"))
    for _ in range(FLIPS_A_SEGMENT if used else 0):
        at, bit = rng.randrange(used), rng.randrange(8)
        wounded = layout.put(data, at, bytes([data[at] ^ 1 << bit]))
        told = scan(files.having(kind, wounded), reader)
        found = [f for f in (told.index if kind is INDEX else told.timeindex) if f.id != "index-untrimmed"]
        assert told.log == []
        assert {f.id for f in found} <= {f"{kind.value[1:]}-entry", f"{kind.value[1:]}-order"}
        if kind is INDEX and at % size >= 4:  # a position: no batch begins where it points now
            assert found
        for finding in found:
            assert finding.start is not None
            assert finding.end is not None
            assert finding.start - size <= at < finding.end + size


@every_segment
def test_indexes_that_end_in_part_of_an_entry_or_in_zeros(reader: Reader, name: str) -> None:
    files = SEGMENTS[name]
    for kind, size in ((INDEX, 8), (TIMEINDEX, 12)):
        if kind not in files.files:
            continue
        data = files.files[kind].rstrip(b"\0")
        data += bytes(-len(data) % size)
        told = scan(files.having(kind, data + b"\xff\xff\xff"), reader)
        found = told.index if kind is INDEX else told.timeindex
        assert [places(f) for f in found] == [(f"{kind.value[1:]}-size", None, len(data), len(data) + 3)]
        told = scan(files.having(kind, data + bytes(10 * size)), reader)
        found = told.index if kind is INDEX else told.timeindex
        assert [places(f) for f in found] == [("index-untrimmed", None, len(data), len(data) + 10 * size)]


def closed(files: Files) -> Files:
    context = type(files.context)(files.context.now_ms, next_base=None, is_active=False)
    return Files(files.base_offset, files.files, context)


def test_indexes_that_are_not_there(reader: Reader) -> None:
    files = SEGMENTS["every-codec/logdir/create-0/00000000000000000000.log"]
    for segment in (files, closed(files)):
        assert scan(segment.log_alone(), reader).ids == {"index-missing", "timeindex-missing"}
    alone = {kind: data for kind, data in files.files.items() if kind is not TIMEINDEX}
    assert scan(Files(0, alone, files.context), reader).ids == {"timeindex-missing"}
    alone = {kind: data for kind, data in files.files.items() if kind is not INDEX}
    # A broker that was killed may have left an active segment so: it makes the offset index with its first entry.
    assert scan(Files(0, alone, files.context), reader).ids == set()
    assert scan(closed(Files(0, alone, files.context)), reader).ids == {"index-missing"}


def test_old_brokers_knew_no_time_index(reader: Reader) -> None:
    name = "magic-0/logdir/create-0/00000000000000000000.log"
    assert scan(SEGMENTS[name].log_alone(), reader).ids == {"index-missing"}


def test_a_closed_segment_whose_time_index_does_not_know_the_largest_timestamp(reader: Reader) -> None:
    files = closed(SEGMENTS["every-codec/logdir/create-0/00000000000000000000.log"])
    data = files.files[TIMEINDEX].rstrip(b"\0")
    data += bytes(-len(data) % 12)
    assert scan(files, reader).ids <= {"index-untrimmed"}
    assert scan(files.having(TIMEINDEX, data[:-12]), reader).ids == {"timeindex-max"}
    assert scan(files.having(TIMEINDEX, b""), reader).ids == {"timeindex-max"}
    assert scan(files.having(TIMEINDEX, data + bytes(12)), reader).ids == {"timeindex-max", "index-untrimmed"}


def test_index_entries_of_a_set_of_batches(reader: Reader) -> None:
    """Its last offset at its first position, as brokers up to 3.9.0 wrote it; or its first, as up to 1.1."""
    files = SEGMENTS["every-codec/logdir/create-0/00000000000000000000.log"]
    entries = layout.walk(files.log)
    assert len(entries) > 4

    def index(*pairs: tuple[int, int]) -> bytes:
        return b"".join(o.to_bytes(4, "big") + p.to_bytes(4, "big") for o, p in pairs)

    second, third, fourth = entries[1], entries[2], entries[3]
    for good in (
        index((first_of(second), second.position)),
        index((last_of(third), second.position), (last_of(fourth), fourth.position)),
        index((last_of(entries[-1]), second.position)),
    ):
        assert scan(files.having(INDEX, good), reader).index == []
    for bad, where in (
        (index((first_of(second) - 1, second.position)), 0),
        (index((first_of(second), second.position + 1)), 0),
        (index((first_of(fourth), second.position), (last_of(fourth), fourth.position)), 0),
        (index((last_of(entries[-1]) + 1, second.position)), 0),
        (index((last_of(second), second.position), (last_of(fourth), len(files.log))), 8),
    ):
        found = scan(files.having(INDEX, bad), reader).index
        assert [places(f) for f in found] == [("index-entry", None, where, where + 8)]


# ---------------------------------------------------------------- batches that contradict themselves, or each other


def records(first: int, count: int, *, timestamp: int = 1000) -> list[Record]:
    return [Record(first + n, timestamp + n, b"key", b"value") for n in range(count)]


def log_of(*batches: bytes, base_offset: int = 0) -> Files:
    return Files(base_offset, {LOG: b"".join(batches)})


def of_producer(first: int, sequence: int, *, producer_id: int = 7, epoch: int = 0, count: int = 2) -> bytes:
    return build_batch(records(first, count), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


@pytest.mark.parametrize(
    ("field", "value", "told_field"),
    [
        ("attributes", 5, "codec"),
        ("attributes", 0x80, "attributes"),
        ("attributes", 0x100, "attributes"),
        ("attributes", 0x10, "producer"),  # transactional, and no producer id
        ("attributes", 0x21, "producer"),  # a control batch, compressed
        ("last_offset_delta", -1, "last_offset_delta"),
        ("last_offset_delta", 0, "records_count"),
        ("records_count", -1, "records_count"),
        ("records_count", 3, "records_count"),
        ("records_count", 0, "size"),
        ("producer_id", 5, "producer"),  # without an epoch
    ],
)
def test_a_header_that_cannot_be(reader: Reader, field: str, value: int, told_field: str) -> None:
    good, more = build_batch(records(0, 2)), build_batch(records(2, 2))
    bad = layout.sealed(layout.with_field(good, layout.BATCH, field, value))
    told = scan(log_of(bad, more), reader)
    assert [places(f) for f in told.log] == [("batch-attributes", told_field, 0, len(bad))]
    assert told.report.batches == 2
    assert told.report.sound == ((len(bad), len(bad) + len(more)),)


def test_records_that_contradict_their_header_are_found_by_who_looks_deep(reader: Reader) -> None:
    good, more = build_batch(records(0, 3)), build_batch(records(3, 2), codec="gzip")
    body = bytearray(good[61:])
    body[0] += 2  # the first record's length
    wrong = {
        "length": good[:61] + bytes(body),
        "largest timestamp": layout.with_field(good, layout.BATCH, "max_timestamp", 1001),
        "first timestamp": layout.with_field(good, layout.BATCH, "base_timestamp", 999),
        "last offset": layout.with_field(
            layout.with_field(good, layout.BATCH, "last_offset_delta", 1), layout.BATCH, "records_count", 2
        ),
        "codec": layout.with_field(good, layout.BATCH, "attributes", 4),
    }
    for what, bad in wrong.items():
        files = log_of(layout.sealed(bad), more)
        assert scan(files, reader).log == [], what
        told = scan(files, reader, deep=True)
        can_be_read = "header" if "timestamp" in what else None
        assert [places(f) for f in told.log] == [("records-invalid", can_be_read, 0, len(bad))], what
        assert told.report.batches == 2


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_every_codec_are_sound_when_looked_at_deep(reader: Reader, codec: str) -> None:
    batches = [build_batch(records(10 * n, 10), codec=codec, level=None) for n in range(50)]
    told = scan(log_of(*batches), reader, deep=True)
    assert told.log == []
    assert (told.report.batches, told.report.records) == (50, 500)


def test_a_wrapper_is_always_opened(reader: Reader) -> None:
    wrapper = build_message_set(records(0, 3), magic=1, codec="gzip")
    assert scan(log_of(wrapper), reader, deep=True).report.records == 3
    inside = bytearray(build_message_set(records(0, 3), magic=1))
    inside[-1] ^= 1
    message = build_message(2, None, layout.compress(layout.GZIP, bytes(inside)), magic=1, timestamp=1002, attributes=1)
    for deep in (False, True):
        assert [f.id for f in scan(log_of(message), reader, deep=deep).log] == ["records-invalid"]


def test_offsets_too_far_from_the_base(reader: Reader) -> None:
    batches = [build_batch(records(offset, 1)) for offset in (0, 2**31 - 1, 2**31, 2**31 + 1, 2**31 + 2)]
    told = scan(log_of(*batches), reader)
    size = len(batches[0])
    assert [places(f) for f in told.log] == [("offset-overflow", None, 2 * size, 5 * size)]
    assert (told.log[0].first_offset, told.log[0].last_offset) == (2**31, 2**31 + 2)


def test_offsets_below_the_base(reader: Reader) -> None:
    batches = [build_batch(records(n, 1)) for n in range(5)]
    told = scan(log_of(*batches, base_offset=100), reader)
    assert [places(f) for f in told.log] == [("offset-order", None, 0, len(batches[0]))]


def test_what_is_behind_later_offsets_is_told_with_what_follows_it(reader: Reader) -> None:
    """Consumers have read behind offset 29, so they pass over 6 to 26 (test_brokers_read_the_wounds)."""
    batches = [build_batch(records(offset, 3)) for offset in (0, 3, 27, 6, 9, 12, 15, 18, 21, 24)]
    (finding,) = scan(log_of(*batches), reader).log
    of_next = "3 records, offsets 6 to 8, are behind later ones"
    assert finding.detail == f"offset 6 follows offset 29: {of_next}, and so is what follows up to offset 29"
    (finding,) = scan(log_of(*batches[:2], batches[4], batches[3], *batches[5:]), reader).log
    assert finding.detail == f"offset 6 follows offset 11: {of_next}"


def test_offsets_that_go_beyond_the_last_there_is(reader: Reader) -> None:
    beyond = layout.put(build_batch(records(3, 2)), 0, (2**63 - 1).to_bytes(8))
    told = scan(log_of(build_batch(records(0, 3)), beyond, build_batch(records(5, 1))), reader)
    size = len(build_batch(records(0, 3)))
    assert places(told.log[0]) == ("offset-order", None, size, size + len(beyond))
    assert (told.log[0].first_offset, told.log[0].last_offset) == (2**63 - 1, 2**63 - 1)


def test_leader_epochs_that_come_down_for_good(reader: Reader) -> None:
    epochs = (1, 1, 5, 5, 3, 3, 4)
    batches = [build_batch(records(n, 1), partition_leader_epoch=epoch) for n, epoch in enumerate(epochs)]
    told = scan(log_of(*batches), reader)
    size = len(batches[0])
    assert [places(f) for f in told.log] == [("epoch-order", None, 4 * size, 5 * size)]
    assert [(run.epoch, run.first_offset, run.last_offset) for run in told.report.epochs] == [
        *((1, 0, 1), (5, 2, 3), (3, 4, 5), (4, 6, 6))
    ]


def test_sequence_numbers(reader: Reader) -> None:
    follows = [of_producer(0, 0), of_producer(2, 2), of_producer(4, 0, producer_id=8), of_producer(6, 4)]
    assert scan(log_of(*follows), reader).log == []
    jumps = [of_producer(0, 0), of_producer(2, 5), of_producer(4, 7)]
    told = scan(log_of(*jumps), reader)
    assert [places(f) for f in told.log] == [("sequence-gap", None, len(jumps[0]), 2 * len(jumps[0]))]
    wraps = [of_producer(0, 2**31 - 2), of_producer(2, 0)]
    assert scan(log_of(*wraps), reader).log == []
    for sound in (
        [of_producer(0, 3), of_producer(2, 0)],  # begins anew
        [of_producer(0, 3), of_producer(2, 9, epoch=1)],  # another epoch
        [of_producer(0, 3), of_producer(10, 9)],  # something between was compacted away
    ):
        assert scan(log_of(*sound), reader).log == []


def at(first: int, timestamp: int) -> bytes:
    """A batch of one record."""
    return build_batch(records(first, 1, timestamp=timestamp))


def test_timestamps_that_cannot_be_yet(reader: Reader) -> None:
    for timestamp, word in (
        (NOW_MS + 1, "later"),
        (1_700_000_000_000_000, "micro"),
        (1_700_000_000_000_000_000, "nano"),
    ):
        batches = [at(0, 5), at(1, timestamp), at(2, 6), at(3, timestamp + 1), at(4, 7)]
        told = scan(log_of(*batches), reader)
        ends = [sum(len(b) for b in batches[:n]) for n in range(6)]
        assert [places(f) for f in told.log] == [("timestamp-implausible", None, ends[1], ends[4])]
        assert (told.log[0].first_offset, told.log[0].last_offset) == (1, 3)
        assert word in told.log[0].detail
    assert scan(log_of(at(0, NOW_MS)), reader).log == []


def test_a_segment_whose_newest_timestamp_is_in_seconds(reader: Reader) -> None:
    """Retention by time deletes it at once: in milliseconds that is a day of January 1970."""
    (finding,) = scan(log_of(at(0, 1_600_000_000), at(1, 1_600_000_001)), reader).log
    assert (finding.id, finding.first_offset, finding.last_offset) == ("timestamp-implausible", 0, 1)
    assert "2020-09-13" in finding.detail
    for timestamps in ((1_600_000_000, NOW_MS), (NOW_MS // 1000 + 1,), (5,), (-1,)):
        assert scan(log_of(*(at(n, each) for n, each in enumerate(timestamps))), reader).log == []


def test_very_many_of_a_kind_are_told_as_one_in_the_end(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_segment, "MOST_FINDINGS", 5)
    monkeypatch.setattr(log_walk, "MANY_WRONG_BATCHES", 5)
    batches = [build_batch(records(2 * n, 2)) for n in range(100)]
    size = len(batches[0])
    wrong = [bytes([*batch[:-1], batch[-1] ^ 1]) for batch in batches[:90]]
    told = scan(log_of(*wrong, *batches[90:]), reader)
    assert [places(f) for f in told.log] == [
        *(("batch-crc", None, n * size, (n + 1) * size) for n in range(5)),
        ("batch-crc", None, 5 * size, 90 * size),
    ]
    assert told.log[-1].detail.startswith("85 more")
    assert (told.log[-1].first_offset, told.log[-1].last_offset) == (10, 179)
    assert told.report.batches == 10


# ---------------------------------------------------------------- files that are in the way


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_several_threads_find_the_same(reader: Reader, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "SPAN_BYTES", 4096)
    monkeypatch.setattr(proving, "FIRST_SPAN_BYTES", 1024)
    batches = [build_batch(records(2 * n, 2), partition_leader_epoch=n // 50) for n in range(500)]
    log, size = bytearray(b"".join(batches)), len(batches[0])
    for n in (0, 7, 8, 200, 499):
        log[n * size + 70] ^= 1
    told = scan(log_of(bytes(log)), reader, jobs=jobs)
    assert [f.start for f in told.log] == [n * size for n in (0, 7, 8, 200, 499)]
    assert told.report.batches == 495
    assert [run.epoch for run in told.report.epochs] == list(range(10))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_log_that_is_mapped_and_has_a_batch_larger_than_a_span(reader: Reader, jobs: int) -> None:
    """Of some megabytes; the reference is slow."""
    sizes = [100_000, 3_000_000, 60, 2_000_000, 60, 100_000, 60] if reader.name == "kernel" else [100_000, 60, 60]
    values = random.Random(jobs).randbytes(max(sizes))
    batches = [build_batch([Record(n, 1000, None, values[:size])]) for n, size in enumerate(sizes)]
    assert scan(log_of(*batches), reader, jobs=jobs).log == []
    for n in range(len(batches)):
        wounded = [*batches]
        wounded[n] = layout.put(batches[n], len(batches[n]) - 5, b"\xff\xff")
        told = scan(log_of(*wounded), reader, jobs=jobs)
        start = sum(len(b) for b in batches[:n])
        assert [places(f) for f in told.log] == [("batch-crc", None, start, start + len(batches[n]))]
        assert told.report.batches == len(batches) - 1


def test_a_batch_too_large_for_a_window(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (proving, log_walk):
        monkeypatch.setattr(module, "LARGEST_WHOLE_BYTES", 500)
    batches = [build_batch([Record(n, 1000, None, bytes(size))]) for n, size in enumerate((60, 600, 60, 600))]
    told = scan(log_of(*batches), reader, deep=True)
    assert told.log == []
    assert told.report.batches == 4
    assert told.report.sound == ((0, sum(len(b) for b in batches)),)
    batches[1] = layout.put(batches[1], 300, b"x")
    told = scan(log_of(*batches), reader)
    assert [places(f) for f in told.log] == [("batch-crc", None, len(batches[0]), len(batches[0]) + len(batches[1]))]


def test_a_file_that_cannot_be_read_is_a_finding(reader: Reader) -> None:
    with reader.reading():
        findings, report = verify_segment.verify_segment(Segment("none/00000000000000000007.log"), CONTEXT)
    assert [(f.id, f.path) for f in findings] == [("unreadable", "none/00000000000000000007.log")]
    assert not report.is_complete
    assert report.next_offset == 7


def test_progress_adds_up_to_the_file(reader: Reader, tmp_path: pathlib.Path) -> None:
    log = bytearray(b"".join(build_batch(records(2 * n, 2)) for n in range(100)))
    log[1000] ^= 1
    path, done = tmp_path / "00000000000000000000.log", []
    path.write_bytes(log + b"junk")
    with reader.reading():
        verify_segment.verify_segment(Segment(str(path)), CONTEXT, on_progress=done.append)
    assert sum(done) == len(log) + 4


# ---------------------------------------------------------------- both readers


def placeless(finding: Finding) -> Finding:
    """The same finding wherever the folder lies: every run has its own."""
    folder = str(pathlib.Path(finding.path).parent)
    cure = None if finding.cure is None else from_text(finding.cure.replace(folder, "HERE"))
    return replace(finding, path="", cured_by=cure)


@pytest.mark.parametrize("seed", range(40))
def test_both_readers_find_the_same_in_logs_damaged_at_random(seed: int) -> None:
    if not kernels.is_built():
        pytest.skip("needs the extension, which is not built")
    rng = random.Random(f"verify {seed}")
    name = "t-0/00000000000000000000.log"
    drawn = {name: b"".join(by_klogtool(shape) for shape in shapes(rng, codecs=CODEC_NAMES))[:20_000]}
    harm(drawn, rng)
    data = next((data for path, data in drawn.items() if path.endswith(".log")), b"")
    indexes = {kind: rng.randbytes(rng.randrange(60)) for kind in (INDEX, TIMEINDEX) if rng.random() < 0.5}
    files = Files(0, {LOG: data, **indexes})
    for deep in (False, True):
        reference, kernel = (scan(files, Reader(reader), deep=deep) for reader in READERS)
        assert list(map(placeless, reference.log)) == list(map(placeless, kernel.log))
        assert list(map(placeless, reference.index)) == list(map(placeless, kernel.index))
        assert list(map(placeless, reference.timeindex)) == list(map(placeless, kernel.timeindex))
        assert replace(reference.report, path="") == replace(kernel.report, path="")


def test_a_wrong_length_that_leads_to_a_batch_in_a_record(reader: Reader) -> None:
    """Such a length passes sound batches over, and ends inside of one: salvage lost what lay between."""
    inner = build_batch([Record(9, NOW_MS, b"k", b"inner", ())])
    values = [b"a", b"b", b"c", b"before" * 5 + inner + b"behind" * 5, b"e"]
    batches = [bytearray(build_batch([Record(n, NOW_MS, b"k", value, ())])) for n, value in enumerate(values)]
    end = sum(map(len, batches[1:3])) + batches[3].index(inner)
    batches[1][8:12] = (end - 12).to_bytes(4, "big")
    told = scan(Files(0, {LOG: b"".join(batches)}), reader)
    at = len(batches[0])
    assert [places(found) for found in told.log] == [("batch-header", "length", at, at + len(batches[1]))]


@pytest.mark.parametrize("bit", range(64))
def test_a_bit_of_a_base_offset_between_gaps_is_told_from_the_other_offsets_there(reader: Reader, bit: int) -> None:
    """Offsets 6 to 8 have room there, and only 8 differs in a bit from what the batch says."""
    batches = [
        bytearray(build_batch([Record(at, NOW_MS, b"k", b"%02d" % at, ())])) for at in (*range(6), *range(8, 14))
    ]
    batches[6][:8] = ((8 ^ 1 << bit) % (1 << 64)).to_bytes(8, "big")
    told = scan(Files(0, {LOG: b"".join(batches)}), reader)
    at = sum(map(len, batches[:6]))
    assert [(places(each), each.first_offset) for each in told.log] == [
        (("batch-header", "base_offset", at, at + len(batches[6])), 8)
    ]
