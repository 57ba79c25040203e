"""The entries of a log file as Arrow record batches: by the kernel, and by the reference where the kernel is not sure.

The kernel fills buffers that Arrow then takes as they are. The reference makes Python's lists of Python's records; it
is slow, and it is where damage is judged, as for text and JSON (render/log_lines).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from klogtool import kernels
from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.batch import CODEC_NAMES, CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE
from klogtool.format.entry import inflate_or_none, parse_entry
from klogtool.format.framing import Frame, Stop, corrupt_length, find_frame, walk_frames
from klogtool.format.text import java_utf8
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.spans import Span, find_start
from klogtool.log.windows import BufferPool, Window, walk_windows
from klogtool.render.arrow_memory import Blocks

if TYPE_CHECKING:
    import pyarrow as pa

    from klogtool.format.batch import Record, RecordBatch
    from klogtool.format.message import Message
    from klogtool.render.selection import Selection

BATCH_ROWS = 1 << 16
DATA_BYTES = 1 << 24
SPAN_BYTES = 1 << 23
WINDOW_BYTES = 1 << 19
ENOUGH_BYTES = 1 << 26
HEADERS_A_ROW = 2
NONE_SEEN = -1
MOST_COLUMN_BYTES = 2**31 - 1
MOST_TIMESTAMP_MS = (2**63 - 1) // 1000

BITS = ("_is_control", "_is_transactional", "_crc_ok")
NUMBERS = {
    "offset": 8,
    "timestamp": 8,
    "timestampType": 4,
    "_position": 8,
    "_batch_base_offset": 8,
    "_producer_id": 8,
    "_producer_epoch": 2,
    "_sequence": 4,
    "_partition_leader_epoch": 4,
}
"""Bytes a row; more of these columns' buffers in `_buffer_sizes`."""


@dataclass(frozen=True, slots=True)
class Extract:
    """What is taken of a log file: the columns of `schema`. with_control: control records, too.

    end: byte up to which it is read; entries that reach beyond it are left out.
    """

    file: LogFile
    end: int
    topic: str | None
    partition: int | None
    schema: pa.Schema
    selection: Selection | None = None
    with_control: bool = True


@dataclass(slots=True)
class Made:
    """What a span became, or its first part, if all of it would be too much.

    start, reached, last: see log.spans; tail: what is wrong behind the last entry, if anything. pieces: in their order,
    damage where it was found; size: their bytes. invalid, first_invalid: entries of a wrong checksum, and where the
    first is.
    """

    start: int | None = None
    reached: int = 0
    pieces: list[pa.RecordBatch | KlogError] = field(default_factory=list)
    size: int = 0
    invalid: int = 0
    first_invalid: int | None = None
    last_offset: int = NONE_SEEN
    last: bool = False
    tail: Corrupt | None = None

    @property
    def enough(self) -> bool:
        """Whether so much came of a span already that the rest is to be another one."""
        return self.size >= ENOUGH_BYTES

    def add(self, batch: pa.RecordBatch) -> None:
        """One more piece."""
        self.pieces.append(batch)
        self.size += batch.nbytes

    def note(self, invalid: int, first_invalid: int, last_offset: int = NONE_SEEN) -> None:
        """More entries of a wrong checksum, and the last record's offset, if there were any."""
        if invalid and not self.invalid:
            self.first_invalid = first_invalid
        self.invalid += invalid
        self.last_offset = self.last_offset if last_offset == NONE_SEEN else last_offset


@dataclass(frozen=True, slots=True)
class Common:
    """What the makers of one walk share. halves: of an entry that was too much, by position, what was done of it:
    records, and bytes of its body.
    """

    blocks: Blocks
    halves: dict[int, tuple[int, int]] = field(default_factory=dict)


class BatchMaker:
    """Makes record batches of the spans of a file; one for each thread, for it keeps its buffers."""

    def __init__(self, extract: Extract, common: Common) -> None:
        self.extract, self._common = extract, common
        self._pool = BufferPool()
        self._constants = Constants(extract)
        self._rows = ReferenceRows(extract, self._constants)
        self.native = kernels.native
        if self.native is None:
            return
        self._state = array("q", bytes(8 * 8))
        self._work, self._knows_zstd = self.native.Workspace(), False
        self._filling: KernelRows | None = None
        chosen = extract.selection
        self._selection = chosen and self.native.Selection(
            chosen.offsets, chosen.timestamps, chosen.producer_id, chosen.key, chosen.grep or None
        )

    def batches(self, span: Span) -> Made:
        """The record batches of a span. An error of reading is its last piece."""
        made = Made()
        try:
            made.start = find_start(self.extract.file, span, self.extract.end)
            if made.start is not None:
                self._fill(made, made.start, span.stop)
        except Unreadable as error:
            self._emit(made)
            made.pieces.append(error)
            made.last = True
        return made

    def _fill(self, made: Made, start: int, stop: int) -> None:
        file, end = self.extract.file, self.extract.end
        made.reached = start
        windows = walk_windows(file, kernels.whole_frames(), start=start, end=end, size=WINDOW_BYTES, pool=self._pool)
        for window in windows:
            walk = self._by_kernel if self.native is not None else self._all_by_reference
            made.reached = window.base + walk(made, window, min(window.cut, stop - window.base))
            if window.last and made.reached == window.base + window.cut:
                made.last, made.tail = True, _tail(window, end)
            self._pool.give_back(window.data)
            if made.last or made.reached >= stop or made.enough:
                break
        self._emit(made)

    def _by_kernel(self, made: Made, window: Window, stop: int) -> int:
        """The entries that begin before byte `stop` of a window; returns where they end."""
        at, body, native = 0, None, self.native
        self._state[:2] = array("q", self._common.halves.pop(window.base, (0, 0)))
        while at < stop and not made.enough:
            before, filling = at, self._filling or self._new_rows()
            self._state[2:5] = array("q", (0, 0, NONE_SEEN))
            at, rows, why = native.columns(
                window.data, at, stop, window.base, filling.columns, self._state, body, self._selection,
                self.extract.with_control, self._work,
            )  # fmt: skip
            made.note(*self._state[2:5])
            if why == native.FULL:
                self._emit(made)
                body = body if at == before else None
                if not rows:
                    self._filling = self._new_rows()  # with the room that the record needs
                continue
            body = None
            if why == native.BODY:
                if self._learn_zstd():
                    continue
                body = inflate_or_none(_entry_at(window, at))
            if why == native.REFERENCE or (why == native.BODY and body is None):
                self._emit(made)
                at = self._by_reference(made, window, at)
        if self._state[0]:
            self._common.halves[window.base + at] = self._state[0], self._state[1]
        return at

    def _learn_zstd(self) -> bool:
        """Whether the kernel can inflate more than it could, from now on; once at most."""
        if self._knows_zstd:
            return False
        self._knows_zstd = True
        return kernels.learn_zstd(self._work)

    def _new_rows(self) -> KernelRows:
        data, headers, header_bytes = self._state[5:]
        self._filling = KernelRows(
            self._common.blocks,
            self.extract.schema,
            headers=max(headers, HEADERS_A_ROW * BATCH_ROWS),
            data_bytes=max(data, DATA_BYTES),
            header_bytes=max(header_bytes, DATA_BYTES),
        )
        return self._filling

    def _emit(self, made: Made) -> None:
        """The rows so far, those of the reference first: they are the older ones."""
        if self._rows.count:
            made.add(self._rows.take())
        if self.native is not None and self._filling is not None and self._filling.columns.rows:
            made.add(self._filling.take(self._constants))
            self._filling = None
            self._state[5:] = array("q", bytes(24))

    def _all_by_reference(self, made: Made, window: Window, stop: int) -> int:
        at = 0
        for frame in _frames(window, 0):
            if frame.position >= stop or made.enough:
                break
            self._entry(made, window, frame)
            at = frame.position + frame.size
        return at

    def _by_reference(self, made: Made, window: Window, at: int) -> int:
        """The entry at byte `at`, but for the records that the kernel took already; returns where the next one is."""
        frame = next(_frames(window, at))
        done, self._state[0], self._state[1] = self._state[0], 0, 0
        self._entry(made, window, frame, done)
        return frame.position + frame.size

    def _entry(self, made: Made, window: Window, frame: Frame, done: int = 0) -> None:
        from klogtool.format.message import Message, check_magic

        try:
            entry = parse_entry(window.data, frame, base=window.base)
            if isinstance(entry, Message):
                check_magic(entry)
            made.note(int(not entry.crc_valid), entry.position)
            if not self._may_hold(entry):
                return
            for record in islice(entry.records(), done, None):
                made.last_offset = record.offset
                if self._wants(record):
                    self._rows.add(entry, record)
                if self._rows.full:
                    self._emit(made)
        except KlogError as error:
            self._emit(made)
            made.pieces.append(error)

    def _may_hold(self, entry: RecordBatch | Message) -> bool:
        chosen = self.extract.selection
        return (self.extract.with_control or not entry.is_control) and (chosen is None or chosen.may_hold(entry))

    def _wants(self, record: Record) -> bool:
        chosen = self.extract.selection
        return chosen is None or chosen.wants(record.offset, record.timestamp, record.key, record.value)


def _entry_at(window: Window, at: int) -> RecordBatch | Message:
    return parse_entry(window.data, next(_frames(window, at)), base=window.base)


def _frames(window: Window, at: int) -> Iterator[Frame]:
    return walk_frames(window.data, at, window.cut, base=window.base)


def _tail(window: Window, end: int) -> Corrupt | None:
    """What is wrong behind the last entry."""
    there = min(end - window.base, len(window.data))  # less, if the file was cut meanwhile
    if find_frame(window.data, window.cut, there) is Stop.LENGTH:
        return corrupt_length(window.data, window.cut, window.base)
    at = window.base + window.cut
    return Corrupt(f"{end - at} bytes at the end are no whole batch", position=at) if at < end else None


def _as_text(name: str) -> str:
    """A name of a file or folder as a column can hold it: bytes that are no text are escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class Constants:
    """Columns that say the same in every row, made once and cut to length."""

    def __init__(self, extract: Extract) -> None:
        self._made: dict[tuple[str, object], pa.Array] = {}
        self._schema = extract.schema
        topic = extract.topic and _as_text(extract.topic)
        segment = _as_text(os.path.basename(extract.file.path))
        self.values = {"topic": topic, "partition": extract.partition, "_segment": segment}

    def column(self, name: str, rows: int, value: object = None) -> pa.Array:
        """`rows` times the value; default that of topic, partition or segment."""
        import pyarrow

        value = self.values.get(name, value)
        made = self._made.get((name, value))
        if made is None or len(made) < rows:
            scalar = pyarrow.scalar(value, self._schema.field(name).type)
            made = self._made[name, value] = pyarrow.repeat(scalar, 1 << (rows - 1).bit_length())
        return made.slice(0, rows)


class KernelRows:
    """Up to BATCH_ROWS rows in the kernel's buffers. columns: what the kernel fills."""

    def __init__(self, blocks: Blocks, schema: pa.Schema, *, headers: int, data_bytes: int, header_bytes: int) -> None:
        self._blocks, self._schema = blocks, schema
        sizes: dict[str, int] = {}
        for name in schema.names:
            sizes |= _buffer_sizes(name, headers, data_bytes, header_bytes)
        self._buffers = {name: blocks.take(size) for name, size in sizes.items()}
        self.columns = kernels.native.Columns(BATCH_ROWS, headers, self._buffers)

    def take(self, constants: Constants) -> pa.RecordBatch:
        """The rows so far as a record batch. Nothing is to be filled in after it."""
        import pyarrow

        self._rows, self._used, self._nulls = self.columns.rows, self.columns.bytes_used(), self.columns.nulls()
        self._headers = self.columns.headers
        del self.columns  # its addresses are good no longer than the buffers are ours
        made = [self._column(name, constants) for name in self._schema.names]
        return pyarrow.RecordBatch.from_arrays(made, schema=self._schema)

    def _column(self, name: str, constants: Constants) -> pa.Array:
        if name in constants.values:
            return constants.column(name, self._rows)
        if name in ("key", "value"):
            return self._blobs(name, self._schema.field(name).type, self._rows)
        if name == "headers":
            return self._header_lists()
        if name == "_compression":
            return self._codecs(constants)
        if name in BITS:
            return self._array(name, [None, self._buffer(name, _bits(self._rows))])
        buffers = [self._present(name, self._rows), self._buffer(name, self._rows * NUMBERS[name])]
        return self._array(name, buffers, self._nulls.get(name, 0))

    def _array(self, name: str, buffers: list[pa.Buffer | None], nulls: int = 0) -> pa.Array:
        import pyarrow

        return pyarrow.Array.from_buffers(self._schema.field(name).type, self._rows, buffers, nulls)

    def _blobs(self, name: str, kind: pa.DataType, rows: int) -> pa.Array:
        import pyarrow

        offsets = self._buffer(f"{name}.offsets", 4 * rows + 4)
        buffers = [self._present(name, rows), offsets, self._buffer(f"{name}.data", self._used[name])]
        return pyarrow.Array.from_buffers(kind, rows, buffers, self._nulls.get(name, 0))

    def _header_lists(self) -> pa.Array:
        import pyarrow

        pair = self._schema.field("headers").type.value_type
        parts = [self._blobs(f"headers.{part.name}", part.type, self._headers) for part in pair]
        inside = pyarrow.StructArray.from_arrays(parts, fields=list(pair))
        buffers = [self._present("headers", self._rows), self._buffer("headers.offsets", 4 * self._rows + 4)]
        kind = self._schema.field("headers").type
        return pyarrow.Array.from_buffers(kind, self._rows, buffers, self._nulls["headers"], children=[inside])

    def _codecs(self, constants: Constants) -> pa.Array:
        """A log mostly has one codec."""
        import pyarrow

        block = self._buffers["_compression"]
        ids = bytes(block[: self._rows])
        self._blocks.give_back(block)
        if ids.count(ids[0]) == len(ids):
            return constants.column("_compression", self._rows, CODEC_NAMES[ids[0]])
        indices = pyarrow.Array.from_buffers(pyarrow.int8(), len(ids), [None, pyarrow.py_buffer(ids)])
        return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(CODEC_NAMES)).dictionary_decode()

    def _present(self, name: str, rows: int) -> pa.Buffer | None:
        """Which rows are not null; None if all are there."""
        block = self._buffers.get(f"{name}.present")
        if block is not None and not self._nulls[name]:
            self._blocks.give_back(block)
            block = None
        return None if block is None else self._blocks.freeze(block, _bits(rows))

    def _buffer(self, name: str, used: int) -> pa.Buffer:
        return self._blocks.freeze(self._buffers[name], used)


def _bits(rows: int) -> int:
    return (rows + 7) // 8


def _buffer_sizes(name: str, headers: int, data_bytes: int, header_bytes: int) -> dict[str, int]:
    """The kernel's buffers for a column, by name, in bytes; none for one that says the same in every row."""
    present = {f"{name}.present": _bits(BATCH_ROWS)}
    if name in ("key", "value"):
        return present | {f"{name}.offsets": 4 * BATCH_ROWS + 4, f"{name}.data": data_bytes}
    if name == "headers":
        lists = present | {"headers.offsets": 4 * BATCH_ROWS + 4, "headers.value.present": _bits(headers)}
        for part in ("headers.key", "headers.value"):
            lists |= {f"{part}.offsets": 4 * headers + 4, f"{part}.data": header_bytes}
        return lists
    if name in BITS:
        return {name: _bits(BATCH_ROWS)}
    if name == "_compression":
        return {name: BATCH_ROWS}
    nullable = name in ("timestamp", "_batch_base_offset")
    return ({name: NUMBERS[name] * BATCH_ROWS} if name in NUMBERS else {}) | (present if nullable else {})


class ReferenceRows:
    """Rows of the reference reader, in lists. count: how many there are; data_bytes: of their keys, values, headers."""

    def __init__(self, extract: Extract, constants: Constants) -> None:
        self._schema, self._constants = extract.schema, constants
        self._entry: object = None
        self._lineage: Row = {}
        self._clear()

    def _clear(self) -> None:
        self.count, self.data_bytes, self._entry = 0, 0, None
        self._lists: dict[str, list[Any]] = {n: [] for n in self._schema.names if n not in self._constants.values}

    @property
    def full(self) -> bool:
        """Whether they are enough for a record batch."""
        return self.count >= BATCH_ROWS or self.data_bytes >= DATA_BYTES

    def add(self, entry: RecordBatch | Message, record: Record) -> None:
        """One more row. Raises Unsupported for one that no column could hold."""
        header_bytes = sum(3 * len(h.key) + len(h.value or b"") for h in record.headers)
        if header_bytes > MOST_COLUMN_BYTES:
            raise Unsupported("headers too large for a column", position=entry.position)
        if entry is not self._entry:
            self._entry, self._lineage = entry, _lineage(entry)
        row = self._lineage | _own_values(record, self._lineage)
        for name, values in self._lists.items():
            values.append(row[name])
        self.count += 1
        self.data_bytes += max(record.key_size, 0) + max(record.value_size, 0) + header_bytes

    def take(self) -> pa.RecordBatch:
        """The rows so far as a record batch; then there are none."""
        import pyarrow

        made = [
            pyarrow.array(self._lists[name], self._schema.field(name).type)
            if name in self._lists
            else self._constants.column(name, self.count)
            for name in self._schema.names
        ]
        self._clear()
        return pyarrow.RecordBatch.from_arrays(made, schema=self._schema)


Row = dict[str, Any]
TIMESTAMP_TYPE_IDS = {NO_TIMESTAMP_TYPE: -1, CREATE_TIME: 0, LOG_APPEND_TIME: 1}


def _lineage(entry: RecordBatch | Message) -> Row:
    """What all records of an entry have in common. A wrapper's first offset is not in its header."""
    own_offset = entry.last_offset if entry.codec == "none" else None
    return {
        "timestampType": TIMESTAMP_TYPE_IDS[entry.timestamp_type],
        "_position": entry.position,
        "_batch_base_offset": getattr(entry, "base_offset", own_offset),
        "_producer_id": entry.producer_id,
        "_producer_epoch": entry.producer_epoch,
        "_is_control": entry.is_control,
        "_is_transactional": entry.is_transactional,
        "_compression": entry.codec,
        "_crc_ok": entry.crc_valid,
        "_partition_leader_epoch": entry.partition_leader_epoch,
    }


def _own_values(record: Record, lineage: Row) -> Row:
    """A record's own; microseconds that a long cannot hold are null; messages have checksums of their own."""
    return {
        "key": record.key,
        "value": record.value,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000 if abs(record.timestamp) <= MOST_TIMESTAMP_MS else None,
        "headers": [(java_utf8(header.key), header.value) for header in record.headers] or None,
        "_sequence": record.sequence,
        "_crc_ok": lineage["_crc_ok"] and record.crc_valid is not False,
    }
