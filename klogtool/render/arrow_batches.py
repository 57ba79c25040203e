"""The entries of a log file as Arrow record batches: by the kernel, and by the reference where the kernel is not sure.

The kernel fills buffers that Arrow uses as they are. The reference (render/arrow_reference) makes lists of Python's
records. It is slow, and it judges damage, as for text and JSON (render/log_lines).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct, field

from klogtool import kernels
from klogtool.errors import Corrupt, KlogError
from klogtool.format.codecs import CODEC_NAMES
from klogtool.format.message import Message, check_magic, parse_entry
from klogtool.log.file import LogFile
from klogtool.log.span_maker import SpanMaker, SpanResult
from klogtool.render.arrow_memory import Blocks
from klogtool.render.arrow_reference import Constants, ReferenceRows
from klogtool.render.record_columns import COLUMN_TYPES, OF_A_FILE
from klogtool.render.selection import LARGEST, SMALLEST

if TYPE_CHECKING:
    import pyarrow as pa

    from klogtool.format.batch import RecordBatch
    from klogtool.format.framing import Frame
    from klogtool.log.spans import Span
    from klogtool.log.windows import Window
    from klogtool.render.selection import Selection

BATCH_ROWS = 1 << 16
DATA_BYTES = 1 << 24
SPAN_BYTES = 1 << 23
ENOUGH_BYTES = 1 << 26
HEADERS_A_ROW = 2
ROW_BYTES = 128  # approximate size of a row without key, value and headers

BITS = tuple(name for name, kind in COLUMN_TYPES.items() if kind == "bool")
_WIDTHS = {"int16": 2, "int32": 4, "int64": 8, "timestamp": 8}
NUMBERS = {name: _WIDTHS[kind] for name, kind in COLUMN_TYPES.items() if kind in _WIDTHS and name not in OF_A_FILE}
"""Bytes in a row. `_buffer_sizes` has all buffers of these columns."""


class Extract(Struct, frozen=True):
    """What to read from a log file: the columns of `schema`. with_control: include control records.

    end: the byte at which reading ends; entries that reach beyond it are left out. offsets: those of the segment.
    """

    file: LogFile
    end: int
    topic: str | None
    partition: int | None
    schema: pa.Schema
    selection: Selection | None = None
    with_control: bool = True
    offsets: tuple[int, int] = (SMALLEST, LARGEST)


class Order(Struct):
    """What offsets entries claim. No checksum covers a base offset.

    start: position of the first entry; None: there is none. offsets: of all, from the first one's to the highest.
    astray: how many have others than those of the segment. first_astray, first_backward: positions of the first such
    one, and of the first one that does not lie behind all before it.
    """

    start: int | None = None
    offsets: tuple[int, int] = (SMALLEST, SMALLEST)
    astray: int = 0
    first_astray: int | None = None
    first_backward: int | None = None


class SpanBatches(SpanResult):
    """The result of a span, or of its first part if the whole span would be too much.

    items: record
    batches in order, with errors where damage was found. size: bytes of the items. invalid, first_invalid: how many
    entries have a wrong checksum, and the position of the first one.
    """

    items: list[pa.RecordBatch | KlogError] = field(default_factory=list)
    size: int = 0
    invalid: int = 0
    first_invalid: int | None = None
    order: Order = field(default_factory=Order)

    @property
    def is_enough(self) -> bool:
        """Whether the result is so large already that the rest of the span becomes another one."""
        return self.size >= ENOUGH_BYTES

    def add(self, batch: pa.RecordBatch, size: int) -> None:
        """Add a piece of about `size` bytes."""
        self.items.append(batch)
        self.size += size

    def note(self, invalid: int, first_invalid: int) -> None:
        """Count entries with a wrong checksum."""
        if invalid and not self.invalid:
            self.first_invalid = first_invalid
        self.invalid += invalid


class Common(Struct, frozen=True):
    """What the makers of one walk share.

    halves: progress within entries that were too large for one result, by position: how many records and how many bytes
    of the body are done.
    """

    blocks: Blocks
    halves: dict[int, tuple[int, int]] = field(default_factory=dict)


class BatchMaker(SpanMaker[SpanBatches]):
    """Makes record batches from the spans of a file. Each thread has its own maker, because a maker keeps its buffers.

    holds: keep rows that do not fill a record batch for the next span or file (see `take_up`), until the caller asks
    for the `rest`.
    """

    def __init__(self, extract: Extract, common: Common, *, holds: bool = False) -> None:
        super().__init__()
        self.can_begin_again = not holds  # rows that are held cannot be withdrawn
        self._common, self._holds = common, holds
        self._constants = Constants(extract.file.path, extract.topic, extract.partition, extract.schema)
        self._rows: ReferenceRows | None = None
        self._state = kernels.native.ColumnsState()
        self._filling: KernelRows | None = None
        self._rows_written = 0
        self._half: tuple[int, int] | None = None
        self.take_up(extract)

    def take_up(self, extract: Extract) -> None:
        """Continue with another file of the same partition and with the same columns, which do not include
        `_segment`."""
        self.extract = extract
        self._selection = None if extract.selection is None else extract.selection.in_kernel()
        self._state.lowest, self._state.highest = extract.offsets

    def rest(self) -> SpanBatches:
        """Return the rows that are held."""
        self.result = SpanBatches()
        self._emit()
        return self.result

    def begin(self, span: Span) -> SpanBatches:
        """See SpanMaker."""
        self._half = self._common.halves.pop(span.start, None)
        state = self._state
        state.done_records, state.done_bytes = self._half or (0, 0)
        state.entries = state.astray = 0
        state.first_backward = -1
        return SpanBatches()

    def finish(self, error: KlogError | None) -> None:
        """See SpanMaker. A read error is the last piece."""
        result, state = self.result, self._state
        if state.done_records:
            self._common.halves[result.reached] = state.done_records, state.done_bytes
        result.order = Order(
            state.first_entry if state.entries else None,
            (state.first_offset, state.last_offset),
            state.astray,
            state.first_astray if state.astray else None,
            None if state.first_backward < 0 else state.first_backward,
        )
        if error is not None or not self._holds:
            self._emit()
        if error is not None:
            result.items.append(error)
        if result.last and result.tail is None and error is None and result.reached < self.extract.end:
            left = self.extract.end - result.reached
            result.tail = Corrupt(f"{left} bytes at the end are not a whole batch", position=result.reached)

    def throw_away(self, span: Span) -> None:
        """See SpanMaker."""
        self._common.halves.pop(self.result.reached, None)
        if self._half is not None:
            self._common.halves[span.start] = self._half

    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        """Let the kernel make rows."""
        state, filling = self._state, self._filling or self._new_rows()
        state.invalid = state.first_invalid = 0
        at, self._rows_written, why = kernels.native.columns(
            window.data, at, stop, window.base, filling.columns, state, body, self._selection,
            self.extract.with_control, self.work,
        )  # fmt: skip
        self.result.note(state.invalid, state.first_invalid)
        return at, why

    def make_room(self, window: Window, at: int) -> bool:
        """Take other buffers; if the record did not fit into empty buffers, ones as large as it needs."""
        self._emit()
        if not self._rows_written:
            self._filling = self._new_rows()
        return True

    def take_frame(self, window: Window, frame: Frame) -> None:
        """Let the reference make rows, without the records that the kernel has done already."""
        state = self._state
        done, state.done_records, state.done_bytes = state.done_records, 0, 0
        self._emit()
        self._entry(window, frame, done)

    def _new_rows(self) -> KernelRows:
        state = self._state
        self._filling = KernelRows(
            self._common.blocks,
            self.extract.schema,
            headers=max(state.headers_needed, HEADERS_A_ROW * BATCH_ROWS),
            data_bytes=max(state.data_needed, DATA_BYTES),
            header_bytes=max(state.header_bytes_needed, DATA_BYTES),
        )
        return self._filling

    def _emit(self) -> None:
        """Add the rows so far to the result. Those of the reference go first, because they are older."""
        if self._rows is not None and self._rows.count:
            size = self._rows.data_bytes + self._rows.count * ROW_BYTES
            self.result.add(self._rows.take(), size)
        if self._filling is not None and self._filling.columns.rows:
            size = sum(self._filling.columns.bytes_used().values()) + self._filling.columns.rows * ROW_BYTES
            self.result.add(self._filling.take(self._constants), size)
            self._filling, state = None, self._state
            state.data_needed = state.headers_needed = state.header_bytes_needed = 0

    def _entry(self, window: Window, frame: Frame, done: int) -> None:
        self._rows = self._rows or ReferenceRows(self.extract.schema, self._constants)
        rows, result, selected = self._rows, self.result, self.extract.selection
        try:
            entry = parse_entry(window.data, frame, base=window.base)
            if isinstance(entry, Message):
                check_magic(entry)
            result.note(int(not entry.crc_valid), entry.position)
            if not self._may_hold(entry):
                self._judge_order(entry)
                return
            for record in islice(entry.records(), done, None):
                if selected is None or selected.wants(record.offset, record.timestamp, record.key, record.value):
                    rows.add(entry, record)
                if rows.count >= BATCH_ROWS or rows.data_bytes >= DATA_BYTES:
                    self._emit()
            self._judge_order(entry)
        except KlogError as error:
            self._emit()
            result.items.append(error)

    def _judge_order(self, entry: RecordBatch | Message) -> None:
        """Note the offsets that an entry claims. A damaged header says only where it begins."""
        state, last = self._state, entry.last_offset
        if not isinstance(entry, Message):
            last = last if entry.crc_valid else entry.base_offset
        first = last if entry.base_offset is None or isinstance(entry, Message) else entry.base_offset
        if first < state.lowest or last > state.highest:
            state.first_astray = state.first_astray if state.astray else entry.position
            state.astray += 1
        if not state.entries:
            state.first_entry, state.first_offset, state.last_offset = entry.position, first, last
        elif first <= state.last_offset and state.first_backward < 0:
            state.first_backward = entry.position
        state.entries += 1
        state.last_offset = max(state.last_offset, last)

    def _may_hold(self, entry: RecordBatch | Message) -> bool:
        selected = self.extract.selection
        if entry.is_control and not self.extract.with_control:
            return False
        if selected is None or entry.crc_valid:
            return selected is None or selected.may_hold(entry)
        return selected.producer_id in (None, entry.producer_id)  # the rest of a wrong header proves nothing


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
        """Return the rows so far as a record batch. The kernel must not fill these buffers afterwards."""
        import pyarrow

        self._rows, self._used, self._nulls = self.columns.rows, self.columns.bytes_used(), self.columns.nulls()
        self._headers = self.columns.headers
        del self.columns  # its addresses are valid only as long as the buffers are ours
        columns = [self._column(name, constants) for name in self._schema.names]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, constants: Constants) -> pa.Array:
        if name in constants.values:
            return constants.column(name, self._rows)
        if name in ("key", "value"):
            return self._blobs(name, self._schema.field(name).type, self._rows)
        if name == "headers":
            return self._header_lists()
        if name == "_compression":
            # The codec column. Most logs have one codec, so that case is fast.
            import pyarrow

            block = self._buffers["_compression"]
            ids = bytes(block[: self._rows])
            self._blocks.give_back(block)
            if ids.count(ids[0]) == len(ids):
                return constants.column("_compression", self._rows, CODEC_NAMES[ids[0]])
            indices = pyarrow.Array.from_buffers(pyarrow.int8(), len(ids), [None, pyarrow.py_buffer(ids)])
            return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(CODEC_NAMES)).dictionary_decode()
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

    def _present(self, name: str, rows: int) -> pa.Buffer | None:
        """Return Arrow's validity bitmap; None if no value is null."""
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
    """Return the names and sizes of the kernel's buffers for a column; none for a column with a constant value."""
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
