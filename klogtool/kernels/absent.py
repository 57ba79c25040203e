"""What stands in where the extension is not built: the same names, types and parameters, and no hot loop.

These are also the types of the extension: a test compares the two.

A kernel that goes from entry to entry answers REFERENCE in front of the first one: its caller goes on with the
reference, as it does wherever the extension stops. A kernel whose reference lies below this floor is that reference:
imported, if it has the same parameters.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from klogtool.format import commit_replay, indexes, producer_replay, restamp, resync
from klogtool.format.batch_encoding import encode_batches as encode_batches
from klogtool.format.buffers import Buffer
from klogtool.format.checksums import crc32 as crc32
from klogtool.format.checksums import crc32c as crc32c
from klogtool.format.codecs import snappy
from klogtool.format.framing import whole_frames as whole_frames
from klogtool.format.item_merge import ItemMerge as ItemMerge
from klogtool.format.item_merge import equal_entries as equal_entries
from klogtool.format.partitioner import partitions_of as partitions_of
from klogtool.format.succession import Succession as Succession
from klogtool.format.xxh64 import xxh64 as reference_xxh64

# Why a kernel stopped in front of an entry, or a line.
DONE = 0
"""There is none."""
FULL = 1
"""There is no room for what it becomes."""
BODY = 2
"""Its records are to be given inflated."""
REFERENCE = 3
"""The reference is to do it; nothing of it was done."""
CUT_OFF = 4
"""It is not whole in the data."""
LARGE = 6
"""It does not fit the cleaner's buffer."""
DECIDE = 7
"""It is of a transaction, or a marker."""
DEFLATE = 8
"""What is kept of it is to be compressed."""
IRREGULAR = 9
"""The new segment cannot have it."""
MAP_FULL = 10
"""The map has no room for its keys."""

# Flags of `dump`.
DEEP, PRINT_DATA, SKIP_METADATA, JSON, SCALA, CSV = 1, 2, 4, 8, 16, 32

# What `Digests` makes of entries.
DIGEST_ROWS = 0
"""Offset and fingerprint of each record, 16 bytes, big-endian."""
RECORD_ITEMS = 1
"""Five numbers for each record: see format.record_digests."""
HEAD_ITEMS = 2
"""Five numbers for each entry."""

AVRO_KINDS: tuple[str, ...] = (
    "null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "decimal", "date", "moment",
    "enum", "union", "array", "map", "record",
)  # fmt: skip
"""Nodes of a program of `AvroTexts`: the number of a kind is its place here."""

CAN_WATCH = False
"""Whether mapped files can be watched over."""
RUNS_IN_THREADS = False
"""Whether several threads get further than one."""
CRC32C_WAYS: tuple[str, ...] = ("the reference",)


def _answer(at: int, stop: int) -> int:
    return REFERENCE if at < stop else DONE


# Checksums and frames: format/checksums, format/framing.


def crc32c_ways() -> tuple[str, ...]:
    """Return the names of the ways to compute a CRC-32C here: only the reference."""
    return CRC32C_WAYS


def crc32c_in_way(way: str, data: Buffer, so_far: int = 0) -> int:
    """Return the CRC-32C, computed in this way. Raises ValueError for any way but the reference."""
    CRC32C_WAYS.index(way)
    return crc32c(data, so_far)


def batch_heads(
    log: Buffer, at: int, end: int, base: int, into: array[int] | memoryview[int], room: int
) -> tuple[int, int]:
    """Decode no header: stop at `at`, with none in `into`."""
    return at, 0


# Compression: format/codecs.


class Workspace:
    """Nothing is kept: nothing is inflated here."""

    def use_zstd(self, create: int, release: int, decompress: int, is_error: int) -> None:
        """Ignore the functions of a loaded zstd: the packages inflate."""


def inflate(codec: str, data: Buffer, magic: int, work: Workspace | None = None) -> bytes | None:
    """Inflate nothing: None, and the packages have to look."""
    return None


def compress_snappy(data: Buffer) -> bytes:
    """Return the data in Snappy's framing for Java: a header and chunks of 32 KiB."""
    return snappy.compress(data)


# Text, JSON, objects and columns of records.


class Selection:
    """Which records are wanted: the reference looks at each."""

    def __init__(
        self,
        offsets: tuple[int, int],
        timestamps: tuple[int, int],
        producer_id: int | None,
        key: bytes | None,
        grep: bytes | None,
    ) -> None: ...


class DumpState:
    """What goes on from one call of `dump` to the next."""

    def __init__(self) -> None:
        self.last_offset = self.gap_count = self.needed = self.invalid = self.first_invalid = 0


def dump(
    log: Buffer,
    at: int,
    cut: int,
    base: int,
    flags: int,
    state: DumpState,
    gaps: memoryview | array[int],
    out: Buffer,
    body: Buffer | None = None,
    select: Selection | None = None,
    file: Buffer | None = None,
    work: Workspace | None = None,
    segment: Buffer | None = None,
) -> tuple[int, int, int]:
    """Write no line: stop in front of the first entry."""
    return at, 0, _answer(at, cut)


class RecordReader:
    """The records of the entries in log[at:cut]: none."""

    def __init__(self, record_class: type, header_class: type, log: Buffer, at: int, cut: int) -> None:
        self.at, self._cut = at, cut

    def read(self) -> tuple[list[Any], int]:
        """No record of the entry at `at`."""
        return [], _answer(self.at, self._cut)

    def give(self, body: Buffer) -> None:
        """Ignore the inflated body: no entry is read here."""

    def step_to(self, at: int) -> None:
        """Goes on with the entry at byte `at`."""
        self.at = at


class Columns:
    """Columns that stay empty."""

    rows = headers = 0

    def __init__(self, rows: int, headers: int, buffers: dict[str, memoryview]) -> None: ...

    def bytes_used(self) -> dict[str, int]:
        """Return 0 for each column: no value is in its buffer."""
        return dict.fromkeys(("key", "value", "headers.key", "headers.value"), 0)

    def nulls(self) -> dict[str, int]:
        """Return 0 for each column: no row is there to be null."""
        names = ("key", "value", "headers", "headers.value", "timestamp", "_batch_base_offset")
        return dict.fromkeys(names, 0)


class ColumnsState:
    """What goes on from one call of `columns` to the next."""

    def __init__(self) -> None:
        self.done_records = self.done_bytes = self.invalid = self.first_invalid = 0
        self.data_needed = self.headers_needed = self.header_bytes_needed = 0
        self.lowest, self.highest, self.first_backward = -(2**63), 2**63 - 1, -1
        self.entries = self.first_entry = self.first_offset = self.last_offset = 0
        self.astray = self.first_astray = 0


def columns(
    log: Buffer,
    at: int,
    cut: int,
    base: int,
    into: Columns,
    state: ColumnsState,
    body: Buffer | None = None,
    select: Selection | None = None,
    with_control: bool = True,
    work: Workspace | None = None,
) -> tuple[int, int, int]:
    """Fill no row: stop in front of the first entry."""
    return at, 0, _answer(at, cut)


# Verification: format/batch_proof, format/succession, format/resync, format/producer_replay.


def prove(
    data: Buffer,
    at: int,
    stop: int,
    base: int,
    rows: array[int],
    deep: bool = False,
    body: Buffer | None = None,
    work: Workspace | None = None,
) -> tuple[int, int, int]:
    """Prove no entry: stop in front of the first one, with no row in `rows`."""
    return at, 0, _answer(at, stop)


def entries_in_order(data: Buffer, times: bool) -> bool:
    """Return whether the entries of an index ascend. times: of a time index, else an offset index."""
    return (indexes.TIME_ENTRIES if times else indexes.OFFSET_ENTRIES).in_order(data)


def find_batch(data: Buffer, at: int, stop: int, lowest: int, end: int) -> tuple[int, int]:
    """Return the first position in [at, stop) where an entry proves itself, -1 or GAVE_UP; and the bytes it needs."""
    return resync.find_batch(data, at, stop, resync.Sought(lowest, end))


def find_head(data: Buffer, at: int, stop: int, lowest: int, end: int) -> int:
    """Return the first position in [at, stop) where an entry is plausible, proved or not; -1 if there is none."""
    return resync.find_head(data, at, stop, resync.Sought(lowest, end))


def walk_unproved(data: Buffer, at: int, lowest: int, end: int, last_offset: int) -> tuple[int, int, int]:
    """Walk record batches by their headers alone. Return where the next begins, their number, their last offset."""
    return resync.walk_unproved(data, at, resync.Sought(lowest, end), last_offset)


def blank_batches(
    data: bytearray | memoryview, at: int, stop: int, open_from_ms: int, most_offset: int
) -> tuple[int, int]:
    """Blank no batch: stop in front of the first one."""
    return at, _answer(at, stop)


def set_leader_epochs(data: bytearray | memoryview, at: int, stop: int, epoch: int) -> tuple[int, int]:
    """Give the batches this leader epoch, in place. Return where they end, and how many had another."""
    return restamp.set_leader_epochs(memoryview(data), at, stop, epoch)


class ProducerReplay(producer_replay.ProducerReplay):
    """The producers of a log, batch by batch, in Python. The types of the results are the reference's own."""

    def __init__(self, log_start_offset: int, aborted_type: type, entry_type: type) -> None:
        super().__init__(log_start_offset)


class CommitReplay(commit_replay.CommitReplay):
    """The commits of a log, batch by batch, in Python. It keeps the reference's own type, and hashes by no secret."""

    def __init__(
        self,
        at_ms: int,
        log_start_offset: int,
        clean_end: int,
        secret: bytes,
        kept_type: type[commit_replay.KeptCommit],
    ) -> None:
        super().__init__(at_ms, log_start_offset, clean_end)

    def take(self, data: Buffer, at: int, stop: int, work: Workspace, body: Buffer | None = None) -> tuple[int, int]:
        """Take no batch: stop in front of the first one."""
        return at, _answer(at, stop)


# Recovery, appends and compaction: klogtool/broker.


def check_batches(data: Buffer, at: int, stop: int) -> tuple[int, int, int]:
    """Check no checksum: stop in front of the first batch; -1: none was wrong."""
    return at, _answer(at, stop), -1


def epoch_runs(data: Buffer, at: int, stop: int, lowest: int) -> tuple[int, int, list[tuple[int, int, int]]]:
    """Read no leader epoch: stop in front of the first batch, with no runs."""
    return at, _answer(at, stop), []


class SegmentIndexes:
    """Gets no entry, and so stays what it is told."""

    def __init__(self) -> None:
        self.base_offset = self.interval_bytes = self.bytes_since = 0
        self.max_timestamp = self.offset_of_max_timestamp = 0
        self.offset_entries = self.most_offset_entries = self.last_offset = 0
        self.time_entries = self.most_time_entries = self.last_timestamp = self.last_timestamp_offset = 0
        self.previous_offset, self.needs_order = -1, False

    def take_offset_entries(self) -> bytes:
        """Return no entries: none was made here."""
        return b""

    def take_time_entries(self) -> bytes:
        """Return no entries: none was made here."""
        return b""


class Recovery:
    """Takes no batch, and so changes nothing of what it is told."""

    def __init__(self) -> None:
        self.indexes = SegmentIndexes()
        self.valid_bytes = self.latest_epoch = self.map_end_offset = self.last_aborted_offset = 0
        self.has_aborted = self.keeps_ended = self.goes_back = False

    def take(self, data: Buffer, at: int, stop: int, checked: int) -> tuple[int, int]:
        """Take no batch: stop in front of the first one."""
        return at, _answer(at, stop)

    def set_producer(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        last_timestamp: int,
        txn_first_offset: int | None,
        batches: Sequence[tuple[int, int, int, int]],
    ) -> None:
        """Ignore a producer: no batch is taken that could continue it."""

    def take_producers_changed(self) -> list[tuple[Any, ...]]:
        """Return no producers: no batch was taken here."""
        return []

    def set_txn(self, first_offset: int, producer_id: int | None) -> None:
        """Ignore an open transaction: no batch is taken that could end it."""

    def take_txns_begun(self) -> list[tuple[int, int]]:
        """Return no transactions: no batch was taken here."""
        return []

    def take_txns_ended(self) -> bytes:
        """Return no transactions: no batch was taken here."""
        return b""


class AppendSurvey:
    """Takes no batch, and so changes nothing of what it is told."""

    def __init__(self) -> None:
        self.leader_epoch = self.last_offset = self.max_timestamp = self.latest_epoch = self.latest_start = 0
        self.codec = 0

    def fetch_epochs(self) -> list[tuple[int, int]]:
        """Return no epochs: no batch was taken here."""
        return []

    def take(self, data: Buffer, at: int, stop: int, checked: int) -> tuple[int, int]:
        """Take no batch: stop in front of the first one."""
        return at, _answer(at, stop)


def survey_records(body: Buffer, count: int, base_timestamp: int) -> tuple[int, int, bool, bool] | None:
    """Survey no records: None, and the reference has to look."""
    return None


# Digests: format/xxh64, format/record_digests.


def xxh64(data: Buffer) -> int:
    """Return the XXH64 of the bytes, with seed 0."""
    return reference_xxh64(memoryview(data))


class Digests:
    """Has what it is told, and takes no entry by itself."""

    def __init__(self, start: int, end: int, form: int) -> None:
        self.is_past, self.records, self.first_offset, self.last_offset = False, 0, -1, -1
        self.before: int | None = None
        self._rows = bytearray()

    def take(
        self, data: Buffer, at: int, stop: int, base: int, body: Buffer | None = None, work: Workspace | None = None
    ) -> tuple[int, int]:
        """Take no entry: stop in front of the first one. `add` gets its rows from the reference."""
        return at, _answer(at, stop)

    def add(self, rows: bytes, records: int, first_offset: int, last_offset: int, before: int) -> None:
        """Take the rows of an entry from the reference. before: its last offset."""
        self._rows += rows
        if records:
            self.first_offset = self.first_offset if self.records else first_offset
            self.records, self.last_offset = self.records + records, last_offset
        self.before = before

    def fetch(self) -> bytes:
        """The rows since the last call."""
        rows, self._rows = bytes(self._rows), bytearray()
        return rows


class NeverMade:
    """Classes whose callers ask before they make one: `OffsetMap.fits`, `CAN_WATCH`."""

    def __init__(self, *_: object) -> None:
        raise OSError("the extension is not built")


class OffsetMap(NeverMade):
    """The reference has a map of its own (broker/cleaning/offset_map), and cleans whole groups."""

    slots: int
    usable: int
    latest_offset: int
    entries: int
    is_full: bool

    def __init__(self, slots: int, usable: int, secret: bytes) -> None:
        super().__init__()

    @staticmethod
    def fits(slots: int, usable: int) -> bool:
        """Never."""
        return False

    def put(self, key: bytes, offset: int) -> None:
        """Remember a key's latest offset."""

    def get(self, key: bytes) -> int:
        """Return the latest offset of a key; -1 if it has none."""
        return self.latest_offset

    def entries_by_hash(self, parts: int) -> list[bytes]:
        """Return the entries, in parts for other processes."""
        return [b""] * parts

    def merge(self, entries: bytes) -> None:
        """Take the entries of another map."""


class MapFiller(NeverMade):
    """Needs an OffsetMap."""

    capacity: int
    messages_read: int
    bytes_read: int

    def __init__(self, keys: OffsetMap, work: Workspace, first_dirty: int) -> None:
        super().__init__()

    def take(self, data: Buffer, at: int, stop: int) -> tuple[int, int]:
        """Take the keys of batches."""
        return at, REFERENCE

    def take_one(self, batch: Buffer, body: Buffer | None = None) -> int:
        """Take the keys of one batch. Return why it was not taken."""
        return REFERENCE

    def see(self, last_offset: int, size: int) -> None:
        """Count a batch without keys."""


class BatchCleaner(NeverMade):
    """Needs an OffsetMap."""

    capacity: int
    messages_read: int
    bytes_read: int
    messages_written: int
    bytes_written: int
    superseded: int
    tombstones: int
    keyless: int
    out_size: int
    indexes: SegmentIndexes

    def __init__(
        self, keys: OffsetMap, work: Workspace, now_ms: int, delete_retention_ms: int, emptied_end: int
    ) -> None:
        super().__init__()

    def set_producers(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Take what is known of producers."""

    def use_lz4(self, compress: int, bound: int, is_error: int, header: bytes) -> None:
        """Take the addresses of liblz4's functions."""

    def take(self, data: Buffer, at: int, stop: int, base: int) -> tuple[int, int]:
        """Clean batches."""
        return at, REFERENCE

    def take_one(
        self,
        data: Buffer,
        at: int,
        size: int,
        base: int,
        discards: bool,
        sets_marker_horizon: bool,
        body: Buffer | None = None,
    ) -> int:
        """Clean one batch. Return why it was not taken."""
        return REFERENCE

    def body(self) -> bytes:
        """Return the records that are kept, to be compressed."""
        return b""

    def deflated(self, batch: Buffer, body: Buffer) -> int:
        """Take them back, compressed."""
        return REFERENCE

    def append(self, data: Buffer, last_offset: int, max_timestamp: int, max_offset: int) -> bool:
        """Take a batch as the reference cleaned it. Return whether there was room."""
        return False

    def take_parts(self) -> tuple[list[tuple[int, int]], bytes]:
        """Return what is kept: ranges of the segment, and new bytes."""
        return [], b""


class Watch(NeverMade):
    """Files are read, not mapped."""

    def __init__(self, view: memoryview, fetch: bool) -> None:
        super().__init__()

    def was_hit(self) -> bool:
        """Whether a page was read that the file no longer has."""
        return False

    def let_go(self) -> None:
        """End the watch."""


class AvroTexts:
    """Values of one schema of Avro as compact JSON: none. code, names: as decoding.avro_programs makes them. float_of:
    what four bytes are as a float."""

    def __init__(self, code: array[int], names: bytes, float_of: Callable[[bytes], float]) -> None: ...

    def text(self, data: bytes, items: int, most: int) -> str | None:
        """No value."""
        return None
