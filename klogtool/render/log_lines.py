"""The entries of a log file as lines: kafka-dump-log's text, JSON, or CSV.

The kernel writes regular entries. The reference writes entries that the kernel is not sure of, and everything that
needs a decoder. So damage is judged in one place.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from klogtool import kernels
from klogtool.errors import Corrupt, KlogError
from klogtool.format.batch import Record, RecordBatch
from klogtool.format.framing import Frame, walk_frames
from klogtool.format.message import Message, check_magic, parse_entry
from klogtool.json_rows import row_line
from klogtool.log.file import LogFile
from klogtool.log.probing import ends_preallocated
from klogtool.log.resync import find_batch_behind
from klogtool.log.span_maker import SpanMaker, SpanResult, walk_results
from klogtool.log.spans import Span
from klogtool.log.windows import BufferPool, Window
from klogtool.render.csv_lines import csv_row
from klogtool.render.json_lines import LongLine, Text, batch_row, error_row, json_line, record_line, walk_text
from klogtool.render.kafka_text import walk_batch_text, walk_records_text
from klogtool.render.selection import DumpForm
from klogtool.salvage.mended_entries import SetRight, mended

OUT_BYTES = 1 << 20
FIRST_OUT_BYTES = 1 << 16  # enough for a small file; each fresh page of memory costs a page fault
SPAN_BYTES = 8 << 20  # what a thread takes at a time; its text may be several times as large
MOST_SPAN_TEXT_BYTES = 1 << 25
GAPS_AT_ONCE = 1 << 16
# A batch with at least LONG_TEXT_BYTES of JSON is written piece by piece if its lines have LONG_LINE_BYTES on average.
LONG_TEXT_BYTES = 64 << 20
LONG_LINE_BYTES = 64 << 10
LEAST_LINE_ROOM = 320  # the kernel asks for at least so many bytes for each record
LONG_MASK = (1 << 64) - 1


class Lines(SpanResult):
    """The lines of a span of the file.

    gaps: (offset before, offset after) where offsets are not consecutive. `before` of the first one is None, because
    only the reader of the span before knows it. invalid: entries with a wrong checksum. errors: damage that did not end
    the dump. fatal: the error that ended the span. text_bytes: size of the chunks. bounded: the lines may end before
    the span does.
    """

    bounded: bool = False
    chunks: list[Text] = field(default_factory=list)
    gaps: list[tuple[int | None, int]] = field(default_factory=list)
    last_offset: int | None = None
    invalid: int = 0
    first_invalid: int | None = None
    errors: list[KlogError] = field(default_factory=list)
    fatal: KlogError | None = None
    text_bytes: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether the text is so large already that the rest of the span becomes another one. A few compressed bytes
        may become any amount of text."""
        return self.bounded and self.text_bytes >= MOST_SPAN_TEXT_BYTES

    def add(self, chunk: Text) -> None:
        """Add text."""
        self.chunks.append(chunk)
        self.text_bytes += len(chunk)

    def see(self, offset: int) -> None:
        """Note the next record's offset, and a gap before it (DumpLogSegments.dumpBatchRecords)."""
        if self.last_offset is None or (self.last_offset + 1 - offset) & LONG_MASK:
            self.gaps.append((self.last_offset, offset))
        self.last_offset = offset

    def checked(self, valid: bool, position: int) -> None:
        """Note whether an entry matches its checksum."""
        if not valid:
            self.note_invalid(1, position)

    def note_invalid(self, count: int, first: int) -> None:
        """Count entries with a wrong checksum. first: position of the first one."""
        self.invalid += count
        self.first_invalid = first if self.first_invalid is None else min(first, self.first_invalid)


class LineMaker(SpanMaker[Lines]):
    """Makes lines of the entries of a file. Each thread has its own maker. Pieces that are views return to the pool
    `outs`."""

    def __init__(self, form: DumpForm, outs: BufferPool) -> None:
        super().__init__()
        self.form, self.outs, self._room = form, outs, FIRST_OUT_BYTES
        is_decoded = form.json_file is not None and (form.topic is not None or form.values is not None)
        self._kernel = kernels.absent if is_decoded or form.options.decoder is not None else kernels.native
        self._out: bytearray | mmap.mmap = bytearray()  # taken from the pool when there is something to write
        self._used = self._written = 0
        # Mapped, so that only pages that are written to use memory.
        self._gaps: memoryview | array[int] = memoryview(mmap.mmap(-1, 16 * GAPS_AT_ONCE)).cast("q")
        self._state = self._kernel.DumpState()
        self._flags = _flags(form)
        self._file, self._segment = _names(form)
        self._selection = form.selection and form.selection.in_kernel()

    def begin(self, span: Span) -> Lines:
        """See SpanMaker."""
        return Lines(bounded=True)

    def finish(self, error: KlogError | None) -> None:
        """See SpanMaker."""
        self.result.fatal = error
        self._seal()

    def throw_away(self, span: Span) -> None:
        """See SpanMaker."""
        for chunk in self.result.chunks:
            if isinstance(chunk, memoryview):
                self.outs.give_back(chunk)

    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        """Let the kernel write lines."""
        state, last_offset = self._state, self.result.last_offset
        if self._used == len(self._out):
            self._seal()
            self._out, self._room = self.outs.take(self._room), max(self._room, OUT_BYTES)
        # The offset before the span is unknown. Any offset that the first record cannot follow makes a gap, which
        # LogDump.take then judges.
        state.last_offset = _before_nothing(window, at) if last_offset is None else last_offset
        at, self._written, why = self._kernel.dump(
            window.data, at, stop, window.base, self._flags, state, self._gaps, memoryview(self._out)[self._used :],
            body, self._selection, self._file, self.work, self._segment,
        )  # fmt: skip
        self._used += self._written
        self._take(is_unknown=last_offset is None)
        return at, why

    def make_room(self, window: Window, at: int) -> bool:
        """Take another buffer, a larger one if the entry needs it. False if its lines are long: then the reference
        writes them."""
        if self._written:
            return True
        if self._has_long_lines(window, at):
            return False
        needed = self._state.needed
        self._seal()
        if needed > len(self._out):
            self._room = max(needed, self._room)
            self._out = self.outs.take(self._room)
        lines = needed // LEAST_LINE_ROOM
        if 2 * lines > len(self._gaps):
            self._gaps = array("q", [0]) * (2 * lines)
        return True

    def take_frame(self, window: Window, frame: Frame) -> None:
        """Let the reference write lines."""
        self._seal()
        try:
            for chunk in _walk_of(self.form)(self.result, window, frame, self.form):
                self.result.add(chunk)
        except KlogError as error:
            if not self._may_go_on(window, frame):
                raise
            self.result.errors.append(error)
            # Kafka's text stops within a line where damage cuts it short: end it if the dump continues.
            last = self.result.chunks[-1] if self.result.chunks else b"\n"
            if self.form.go_on and isinstance(last, bytes | memoryview) and last[-1:] != b"\n":
                self.result.add(b"\n")

    def _take(self, *, is_unknown: bool) -> None:
        """Take the kernel's gaps and wrong checksums. is_unknown: the offset before the first record is not known."""
        result, state = self.result, self._state
        for n in range(state.gap_count):
            before = None if is_unknown and n == 0 else self._gaps[2 * n]
            result.gaps.append((before, self._gaps[2 * n + 1]))
        if state.gap_count or not is_unknown:
            result.last_offset = state.last_offset
        if state.invalid:
            result.note_invalid(state.invalid, state.first_invalid)
        state.gap_count = state.invalid = 0

    def _seal(self) -> None:
        """Add the text so far to the result; the next text goes into another buffer."""
        if self._used:
            self.result.add(memoryview(self._out)[: self._used])
            self._out, self._used = bytearray(), 0

    def _has_long_lines(self, window: Window, at: int) -> bool:
        """Whether few records of a batch need so much JSON that it must not be in memory as a whole."""
        if self.form.is_text or self._state.needed < LONG_TEXT_BYTES:
            return False
        frame = next(walk_frames(window.data, at, window.cut, base=window.base), None)
        if frame is None:
            return False
        batch = _parse(window, frame)
        count = 1 if batch.magic < 2 and batch.codec == "none" else batch.records_count
        return count is not None and count * LONG_LINE_BYTES <= self._state.needed

    def _may_go_on(self, window: Window, frame: Frame) -> bool:
        """Whether the dump continues after this error. Text ends where Kafka's tool dies. JSON and CSV continue after a
        batch with a wrong checksum, which no reader accepts anyway."""
        if self.form.go_on or self.form.is_text:
            return self.form.go_on
        try:
            return not _parse(window, frame).crc_valid
        except KlogError:
            return False


def _flags(form: DumpForm) -> int:
    native, options = kernels.native, form.options
    is_json, is_csv = form.json_file is not None, form.csv is not None
    is_deep = options.deep or not form.is_text or (form.selection is not None and form.selection.needs_records)
    return (
        (native.DEEP if is_deep else 0)
        | (native.PRINT_DATA if options.print_data else 0)
        | (native.SKIP_METADATA if options.skip_metadata else 0)
        | (native.JSON if is_json else 0)
        | (native.CSV if is_csv else 0)
        | (native.SCALA if options.as_scala else 0)
    )


def _names(form: DumpForm) -> tuple[bytes | None, bytes | None]:
    """Return what the kernel takes as `file` and `segment`."""
    if form.csv is not None:
        return form.csv.before_offset, form.csv.before_position
    if form.json_file is None:
        return None, None
    # What follows `"file":` in a row: the name, and its bytes as another field if the name is not UTF-8.
    row = row_line({"file": form.json_file}, ascii_only=False)
    return row.removeprefix('{"file":').removesuffix("}").encode(), None


def _before_nothing(window: Window, at: int) -> int:
    """Return an offset that the next record cannot follow: one far from the base offset of its batch."""
    base_offset = int.from_bytes(window.data[at : at + 8], "big", signed=True)
    return base_offset - (1 << 62) if base_offset >= 0 else base_offset + (1 << 62)


def _parse(window: Window, frame: Frame) -> RecordBatch | Message:
    return parse_entry(window.data, frame, base=window.base)


def _walk_of(form: DumpForm) -> Callable[[Lines, Window, Frame, DumpForm], Iterator[Text]]:
    """Return the reference of this form."""
    if form.csv is not None:
        return _csv_of_entry
    return _text_of_entry if form.json_file is None else _json_of_entry


def _text_of_entry(result: Lines, window: Window, frame: Frame, form: DumpForm) -> Iterator[bytes]:
    batch = _parse(window, frame)
    if isinstance(batch, Message) and batch.magic < 0:
        yield f"offset: {batch.offset}".encode()  # Kafka prints it before it reads the header, which throws
        check_magic(batch)
    result.checked(batch.crc_valid, batch.position)
    if form.selection is not None:
        yield from _selected_text(result, batch, form)
        return
    for chunk in walk_batch_text(batch):
        yield chunk.encode()
    if form.options.deep:
        for chunk in walk_records_text(batch, form.options, result.see):
            yield chunk.encode()


def _selected_text(result: Lines, batch: RecordBatch | Message, form: DumpForm) -> Iterator[bytes]:
    """Yield the batch's line and those of its wanted records; nothing if none is wanted."""
    selection = form.selection
    assert selection is not None
    if not selection.may_hold(batch):
        return
    head = "".join(walk_batch_text(batch))
    if form.options.deep or selection.needs_records:
        lines = list(walk_records_text(batch, form.options, result.see, selection.wants))
        if not lines:
            return
        head += "".join(lines)
    yield head.encode()


def _json_of_entry(result: Lines, window: Window, frame: Frame, form: DumpForm) -> Iterator[bytes | LongLine]:
    assert form.json_file is not None
    try:
        batch = _wanted_entry(result, window, frame, form)
        if batch is None:
            return
        head = json_line(batch_row(form.json_file, batch))
        if form.selection is None:
            yield head
        for record in batch.records():
            result.see(record.offset)
            if _wanted(form, record):
                if head and form.selection is not None:
                    yield head
                head = b""
                yield record_line(form.json_file, batch, record, form.topic, form.decoded(batch, record))
    except KlogError as error:
        yield json_line(error_row(form.json_file, error))
        raise


def _csv_of_entry(result: Lines, window: Window, frame: Frame, form: DumpForm) -> Iterator[bytes | LongLine]:
    assert form.csv is not None
    batch = _wanted_entry(result, window, frame, form)
    if batch is None:
        return
    for record in batch.records():
        result.see(record.offset)
        if _wanted(form, record):
            yield csv_row(form.csv, batch, record)


def _wanted_entry(result: Lines, window: Window, frame: Frame, form: DumpForm) -> RecordBatch | Message | None:
    """Return a batch, or a message; None if no record of it is wanted."""
    batch = _parse(window, frame)
    if isinstance(batch, Message):
        check_magic(batch)
    result.checked(batch.crc_valid, batch.position)
    return batch if form.selection is None or form.selection.may_hold(batch) else None


def _wanted(form: DumpForm, record: Record) -> bool:
    selected = form.selection
    return selected is None or selected.wants(record.offset, record.timestamp, record.key, record.value)


class LogDump(Struct):
    """The result of the dump of one log file so far, without its text.

    valid_bytes: where its entries end. invalid, first_invalid: how many entries have a wrong checksum, and the position
    of the first one. gaps: offset before -> offset after. errors: damage that did not end the dump. on_progress: called
    with the number of bytes done.
    """

    on_progress: Callable[[int], None] | None = None
    valid_bytes: int = 0
    invalid: int = 0
    first_invalid: int | None = None
    last_offset: int = -1
    gaps: dict[int, int] = field(default_factory=dict)
    errors: list[KlogError] = field(default_factory=list)

    def take(self, result: Lines) -> None:
        """Add what was found in a span, now that the offset before it is known."""
        for before, after in result.gaps:
            if before is not None:
                self.gaps[before] = after
            elif (self.last_offset + 1 - after) & LONG_MASK:
                self.gaps[self.last_offset] = after
        if result.last_offset is not None:
            self.last_offset = result.last_offset
        self.invalid += result.invalid
        self.first_invalid = result.first_invalid if self.first_invalid is None else self.first_invalid
        self.errors += result.errors
        if result.fatal is None:
            if self.on_progress is not None:
                self.on_progress(result.reached - self.valid_bytes)
            self.valid_bytes = result.reached


def dump_log_lines(
    file: LogFile,
    form: DumpForm,
    write: Callable[[bytes | memoryview], None],
    dump: LogDump,
    *,
    end: int,
    jobs: int = 1,
    start: int = 0,
) -> None:
    """Write all entries up to byte `end` as lines to `write`, in order, and collect damage and gaps in `dump`. An entry
    begins at byte `start`; if it is not the first one, `dump` has its position and the offset before it.

    Raises KlogError where Kafka's tool dies, after the same lines; with `form.go_on` it continues after the damage.
    """
    entries = _Entries(file, form, write, dump, end)
    at: int | None = start
    if form.go_on:
        entries.mend()
    while at is not None:
        damage = entries.write_from(at, jobs)
        if damage is not None and not form.is_text and ends_preallocated(file, dump.valid_bytes):
            return
        if damage is not None and not form.go_on:
            raise damage
        at = entries.skip(damage) if form.go_on and dump.valid_bytes < end else None


class _Entries:
    """The entries of a log up to byte `end`, as lines that go to `write`; `dump` collects what is wrong with them."""

    def __init__(
        self, file: LogFile, form: DumpForm, write: Callable[[bytes | memoryview], None], dump: LogDump, end: int
    ) -> None:
        self._file, self._form, self._write, self._dump, self._end = file, form, write, dump, end

    def write_from(self, start: int, jobs: int) -> Corrupt | None:
        """Write entries as far as they follow each other. Returns what is wrong after the last one, or None."""
        outs = BufferPool()

        def make_maker() -> LineMaker:
            return LineMaker(self._form, outs)

        spans = walk_results(self._file, make_maker, start=start, end=self._end, span_bytes=SPAN_BYTES, jobs=jobs)
        for result in spans:
            for chunk in result.chunks:
                for part in walk_text(chunk):
                    self._write(part)
                if isinstance(chunk, memoryview):
                    outs.give_back(chunk)
            self._dump.take(result)
            if result.fatal is not None:
                raise result.fatal
        return result.tail

    def mend(self) -> None:
        """Correct lengths and magics, for entries where nothing else is wrong. Each correction is noted first."""
        results: list[SetRight] = []
        try:
            self._file = mended(self._file, end=self._end, on_mended=results.append)
        except KlogError:  # it cannot be read: the dump reports that itself, after what it can read
            return
        for error in results:
            fields = {"field": error.field, "was": error.was, "is": error.now}  # as in salvage's answer
            self._note(error, mended=fields)

    def skip(self, damage: KlogError | None) -> int | None:
        """Return the position of the next entry after bytes that are not an entry; None if there is none, and the bytes
        are the tail of the log."""
        position = self._dump.valid_bytes
        result = find_batch_behind(self._file, position, end=self._end)
        if damage is not None:
            self._dump.errors.append(damage)
        if result is not None:
            self._note(Corrupt(f"{result - position} bytes are not a batch: skipped", position=position))
        return result

    def _note(self, error: KlogError, **more: object) -> None:
        self._dump.errors.append(error)
        if self._form.json_file is not None:
            self._write(json_line({**error_row(self._form.json_file, error), **more}))
