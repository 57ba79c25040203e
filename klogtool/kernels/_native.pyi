"""The types of the extension's public names. kernels/absent.py has the same ones; a test holds the three together."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from klogtool.format import commit_replay, item_merge, producer_replay, succession
from klogtool.format.batch_encoding import BatchForm, BytesColumn, Compress, RecordColumns
from klogtool.format.buffers import Buffer

# Why a kernel stopped in front of an entry, or a line.
DONE: int
"""There is none."""
FULL: int
"""There is no room for what it becomes."""
BODY: int
"""Its records are to be given inflated."""
REFERENCE: int
"""The reference is to do it; nothing of it was done."""
CUT_OFF: int
"""It is not whole in the data."""
LARGE: int
"""It does not fit the cleaner's buffer."""
DECIDE: int
"""It is of a transaction, or a marker."""
DEFLATE: int
"""What is kept of it is to be compressed."""
IRREGULAR: int
"""The new segment cannot have it."""
MAP_FULL: int
"""The map has no room for its keys."""

# Flags of `dump`.
DEEP: int
PRINT_DATA: int
SKIP_METADATA: int
JSON: int
SCALA: int
CSV: int

# What `Digests` makes of entries.
DIGEST_ROWS: int
"""Offset and fingerprint of each record, 16 bytes, big-endian."""
RECORD_ITEMS: int
"""Five numbers for each record: see format.record_digests."""
HEAD_ITEMS: int
"""Five numbers for each entry."""

AVRO_KINDS: tuple[str, ...]
"""Nodes of a program of `AvroTexts`: the number of a kind is its place here."""

CAN_WATCH: bool
"""Whether mapped files can be watched over."""
RUNS_IN_THREADS: bool
"""Whether several threads get further than one."""
CRC32C_WAYS: tuple[str, ...]

def crc32c(data: Buffer, so_far: int = 0) -> int: ...
def crc32(data: Buffer, so_far: int = 0) -> int: ...
def crc32c_ways() -> tuple[str, ...]: ...
def crc32c_in_way(way: str, data: Buffer, so_far: int = 0) -> int: ...
def whole_frames(data: memoryview, end: int) -> tuple[int, int]: ...
def batch_heads(log: Buffer, at: int, end: int, base: int, into: array[int], room: int) -> tuple[int, int]: ...
def inflate(codec: str, data: Buffer, magic: int, work: Workspace | None = None) -> bytes | None: ...
def compress_snappy(data: Buffer) -> bytes: ...

class Workspace:
    def use_zstd(self, create: int, release: int, decompress: int, is_error: int) -> None: ...

class Selection:
    def __init__(
        self,
        offsets: tuple[int, int],
        timestamps: tuple[int, int],
        producer_id: int | None,
        key: bytes | None,
        grep: bytes | None,
    ) -> None: ...

class DumpState:
    last_offset: int
    gap_count: int
    needed: int
    invalid: int
    first_invalid: int

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
) -> tuple[int, int, int]: ...

class RecordReader:
    at: int
    def __init__(self, record_class: type, header_class: type, log: Buffer, at: int, cut: int) -> None: ...
    def read(self) -> tuple[list[Any], int]: ...
    def give(self, body: Buffer) -> None: ...
    def step_to(self, at: int) -> None: ...

class Columns:
    rows: int
    headers: int
    def __init__(self, rows: int, headers: int, buffers: dict[str, memoryview]) -> None: ...
    def bytes_used(self) -> dict[str, int]: ...
    def nulls(self) -> dict[str, int]: ...

class ColumnsState:
    done_records: int
    done_bytes: int
    invalid: int
    first_invalid: int
    data_needed: int
    headers_needed: int
    header_bytes_needed: int

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
) -> tuple[int, int, int]: ...
def prove(
    data: Buffer,
    at: int,
    stop: int,
    base: int,
    rows: array[int],
    deep: bool = False,
    body: Buffer | None = None,
    work: Workspace | None = None,
) -> tuple[int, int, int]: ...
def entries_in_order(data: Buffer, times: bool) -> bool: ...
def find_batch(data: Buffer, at: int, stop: int, lowest: int, end: int) -> tuple[int, int]: ...
def find_head(data: Buffer, at: int, stop: int, lowest: int, end: int) -> int: ...
def blank_batches(
    data: bytearray | memoryview, at: int, stop: int, open_from_ms: int, most_offset: int
) -> tuple[int, int]: ...
def set_leader_epochs(data: bytearray | memoryview, at: int, stop: int, epoch: int) -> tuple[int, int]: ...
def walk_unproved(data: Buffer, at: int, lowest: int, end: int, last_offset: int) -> tuple[int, int, int]: ...

class Succession(succession.Succession): ...

class ProducerReplay(producer_replay.ProducerReplay):
    def __init__(self, log_start_offset: int, aborted_type: type, entry_type: type) -> None: ...

def check_batches(data: Buffer, at: int, stop: int) -> tuple[int, int, int]: ...
def epoch_runs(data: Buffer, at: int, stop: int, lowest: int) -> tuple[int, int, list[tuple[int, int, int]]]: ...

class SegmentIndexes:
    base_offset: int
    interval_bytes: int
    bytes_since: int
    max_timestamp: int
    offset_of_max_timestamp: int
    offset_entries: int
    most_offset_entries: int
    last_offset: int
    time_entries: int
    most_time_entries: int
    last_timestamp: int
    last_timestamp_offset: int
    def take_offset_entries(self) -> bytes: ...
    def take_time_entries(self) -> bytes: ...

class Recovery:
    valid_bytes: int
    latest_epoch: int
    map_end_offset: int
    last_aborted_offset: int
    has_aborted: bool
    keeps_ended: bool
    goes_back: bool
    @property
    def indexes(self) -> SegmentIndexes: ...
    def take(self, data: Buffer, at: int, stop: int, checked: int) -> tuple[int, int]: ...
    def set_producer(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        last_timestamp: int,
        txn_first_offset: int | None,
        batches: Sequence[tuple[int, int, int, int]],
    ) -> None: ...
    def take_producers_changed(self) -> list[tuple[Any, ...]]: ...
    def set_txn(self, first_offset: int, producer_id: int | None) -> None: ...
    def take_txns_begun(self) -> list[tuple[int, int]]: ...
    def take_txns_ended(self) -> bytes: ...

class AppendSurvey:
    leader_epoch: int
    last_offset: int
    max_timestamp: int
    latest_epoch: int
    latest_start: int
    codec: int
    def fetch_epochs(self) -> list[tuple[int, int]]: ...
    def take(self, data: Buffer, at: int, stop: int, checked: int) -> tuple[int, int]: ...

def survey_records(body: Buffer, count: int, base_timestamp: int) -> tuple[int, int, bool, bool] | None: ...
def encode_batches(
    columns: RecordColumns, at: int, stop: int, form: BatchForm, compress: Compress | None = None
) -> bytes: ...
def partitions_of(keys: BytesColumn, rows: int, partitions: int) -> bytes: ...

class OffsetMap:
    slots: int
    usable: int
    latest_offset: int
    def __init__(self, slots: int, usable: int, secret: bytes) -> None: ...
    @staticmethod
    def fits(slots: int, usable: int) -> bool: ...
    @property
    def entries(self) -> int: ...
    @property
    def is_full(self) -> bool: ...
    def put(self, key: bytes, offset: int) -> None: ...
    def get(self, key: bytes) -> int: ...
    def entries_by_hash(self, parts: int) -> list[bytes]: ...
    def merge(self, entries: bytes) -> None: ...

class MapFiller:
    capacity: int
    messages_read: int
    bytes_read: int
    def __init__(self, keys: OffsetMap, work: Workspace, first_dirty: int) -> None: ...
    def take(self, data: Buffer, at: int, stop: int) -> tuple[int, int]: ...
    def take_one(self, batch: Buffer, body: Buffer | None = None) -> int: ...
    def see(self, last_offset: int, size: int) -> None: ...

class BatchCleaner:
    capacity: int
    messages_read: int
    bytes_read: int
    messages_written: int
    bytes_written: int
    superseded: int
    tombstones: int
    keyless: int
    out_size: int
    @property
    def indexes(self) -> SegmentIndexes: ...
    def __init__(
        self, keys: OffsetMap, work: Workspace, now_ms: int, delete_retention_ms: int, emptied_end: int
    ) -> None: ...
    def set_producers(self, rows: Iterable[tuple[int, int, int]]) -> None: ...
    def use_lz4(self, compress: int, bound: int, is_error: int, header: bytes) -> None: ...
    def take(self, data: Buffer, at: int, stop: int, base: int) -> tuple[int, int]: ...
    def take_one(
        self,
        data: Buffer,
        at: int,
        size: int,
        base: int,
        discards: bool,
        sets_marker_horizon: bool,
        body: Buffer | None = None,
    ) -> int: ...
    def body(self) -> bytes: ...
    def deflated(self, batch: Buffer, body: Buffer) -> int: ...
    def append(self, data: Buffer, last_offset: int, max_timestamp: int, max_offset: int) -> bool: ...
    def take_parts(self) -> tuple[list[tuple[int, int]], bytes]: ...

class CommitReplay(commit_replay.CommitReplay):
    def __init__(
        self,
        at_ms: int,
        log_start_offset: int,
        clean_end: int,
        secret: bytes,
        kept_type: type[commit_replay.KeptCommit],
    ) -> None: ...
    def take(
        self, data: Buffer, at: int, stop: int, work: Workspace, body: Buffer | None = None
    ) -> tuple[int, int]: ...

def xxh64(data: Buffer) -> int: ...

class Digests:
    is_past: bool
    records: int
    first_offset: int
    last_offset: int
    before: int | None
    def __init__(self, start: int, end: int, form: int) -> None: ...
    def take(
        self, data: Buffer, at: int, stop: int, base: int, body: Buffer | None = None, work: Workspace | None = None
    ) -> tuple[int, int]: ...
    def add(self, rows: bytes, records: int, first_offset: int, last_offset: int, before: int) -> None: ...
    def fetch(self) -> bytes: ...

class ItemMerge(item_merge.ItemMerge): ...

def equal_entries(a: Buffer, b: Buffer, before: int) -> tuple[int, int, int, int, int]: ...

class Watch:
    def __init__(self, view: memoryview, fetch: bool) -> None: ...
    def was_hit(self) -> bool: ...
    def let_go(self) -> None: ...

class AvroTexts:
    """Values of one schema of Avro as compact JSON. code, names: as decoding.avro_programs makes them. float_of: what
    four bytes are as a float."""

    def __init__(self, code: array[int], names: bytes, float_of: Callable[[bytes], float]) -> None: ...
    def text(self, data: bytes, items: int, most: int) -> str | None: ...
