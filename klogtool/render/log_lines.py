"""The entries of a log file as lines: kafka-dump-log's text, or JSON.

The kernel writes what is regular; an entry it is not sure of, and everything that needs a decoder, goes through the
reference, so that damage is judged in one place.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from klogtool import kernels
from klogtool.errors import Corrupt, KlogError
from klogtool.format.framing import walk_frames
from klogtool.format.message import Message, check_magic, parse_entry
from klogtool.json_rows import row_line
from klogtool.log.file import LogFile
from klogtool.log.resync import find_batch_behind
from klogtool.log.span_maker import SpanMaker, walk_made
from klogtool.log.windows import BufferPool
from klogtool.render.json_lines import LongLine, batch_row, error_row, json_line, record_line
from klogtool.render.kafka_text import walk_batch_text, walk_records_text
from klogtool.salvage.mended_entries import SetRight, mended

if TYPE_CHECKING:
    from klogtool.format.batch import Record, RecordBatch
    from klogtool.format.framing import Frame
    from klogtool.log.spans import Span
    from klogtool.log.windows import Window
    from klogtool.render.records import Form


OUT_BYTES = 1 << 20
FIRST_OUT_BYTES = 1 << 16  # enough for a small file; fresh memory costs it a fault a page
SPAN_BYTES = 8 << 20  # what a thread takes at a time; its text may be several times as much
MOST_SPAN_TEXT_BYTES = 1 << 25
GAPS_AT_ONCE = 1 << 16
LONG_TEXT_BYTES = 64 << 20  # of JSON that a batch may become; more is made piece by piece where its records are long:
LONG_LINE_BYTES = 64 << 10  # on average at least so much
LEAST_LINE_ROOM = 320  # what the kernel asks for a record at least
LONG_MASK = (1 << 64) - 1


class Lines:
    """What a span of the file, or a window of it, became.

    start, reached, last, tail: see log.span_maker.
    gaps: (offset before, offset after) where records do not follow on; the first one's `before` is None, since only
    who has the window before knows it. invalid: entries with a wrong checksum. errors: damage that was passed over;
    fatal: the one that ended the window. text_bytes: of the pieces. bounded: it may end before the span does.
    """

    def __init__(self, start: int | None = None, reached: int = 0, *, bounded: bool = False) -> None:
        self.start, self.reached, self.last = start, reached, False
        self.tail: Corrupt | None = None
        self.pieces: list[bytes | memoryview | LongLine] = []
        self.gaps: list[tuple[int | None, int]] = []
        self.last_offset: int | None = None
        self.invalid = 0
        self.first_invalid: int | None = None
        self.errors: list[KlogError] = []
        self.fatal: KlogError | None = None
        self.text_bytes, self.bounded = 0, bounded

    @property
    def is_enough(self) -> bool:
        """Whether so much came of a span already that the rest is to be another one: a few bytes may inflate to
        any number."""
        return self.bounded and self.text_bytes >= MOST_SPAN_TEXT_BYTES

    def add(self, piece: bytes | memoryview | LongLine) -> None:
        """More text."""
        self.pieces.append(piece)
        self.text_bytes += len(piece)

    def see(self, offset: int) -> None:
        """The next record's offset (DumpLogSegments.dumpBatchRecords)."""
        if self.last_offset is None or (self.last_offset + 1 - offset) & LONG_MASK:
            self.gaps.append((self.last_offset, offset))
        self.last_offset = offset

    def checked(self, valid: bool, position: int) -> None:
        """Whether an entry matches its checksum."""
        if not valid:
            self.note_invalid(1, position)

    def note_invalid(self, count: int, first: int) -> None:
        """So many entries do not, the first of them at this position."""
        self.invalid += count
        self.first_invalid = first if self.first_invalid is None else min(first, self.first_invalid)


class LineMaker(SpanMaker[Lines]):
    """Makes lines of the entries of a file; one for each thread. Pieces that are views go back to the pool `outs`."""

    def __init__(self, form: Form, outs: BufferPool) -> None:
        super().__init__()
        self.form, self.outs, self._room = form, outs, FIRST_OUT_BYTES
        self._kernel = kernels.native if _fit_for_kernel(form) else kernels.absent
        self._out: bytearray | mmap.mmap = bytearray()  # taken when there is something to put into it
        self._used = self._written = 0
        # Mapped, so that only what is written to becomes memory.
        self._gaps: memoryview | array[int] = memoryview(mmap.mmap(-1, 16 * GAPS_AT_ONCE)).cast("q")
        self._state = self._kernel.DumpState()
        self._flags = _flags(form)
        self._file = None if form.json_file is None else _json_text(form.json_file)
        chosen = form.selection
        self._selection = chosen and kernels.native.Selection(
            chosen.offsets, chosen.timestamps, chosen.producer_id, chosen.key, chosen.grep
        )

    def begin(self, span: Span) -> Lines:
        """See SpanMaker."""
        return Lines(bounded=True)

    def finish(self, error: KlogError | None) -> None:
        """See SpanMaker."""
        self.made.fatal = error
        self._seal()

    def throw_away(self, span: Span) -> None:
        """See SpanMaker."""
        for piece in self.made.pieces:
            if isinstance(piece, memoryview):
                self.outs.give_back(piece)

    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        """Lines of the kernel."""
        state, last_offset = self._state, self.made.last_offset
        if self._used == len(self._out):
            self._seal()
            self._out, self._room = self.outs.take(self._room), max(self._room, OUT_BYTES)
        # A span does not know the offset before it: one that no first record follows.
        state.last_offset = _before_nothing(window, at) if last_offset is None else last_offset
        at, self._written, why = self._kernel.dump(
            window.data, at, stop, window.base, self._flags, state, self._gaps, memoryview(self._out)[self._used :],
            body, self._selection, self._file, self.work,
        )  # fmt: skip
        self._used += self._written
        self._take(is_unknown=last_offset is None)
        return at, why

    def make_room(self, window: Window, at: int) -> bool:
        """In a buffer of its own, and larger, if that is what it takes. A long line is the reference's."""
        if self._written:
            return True
        if self._has_long_lines(window, at):
            return False
        self._make_room()
        return True

    def take_frame(self, window: Window, frame: Frame) -> None:
        """Lines of the reference."""
        self._seal()
        walk = _json_of_entry if self.form.json_file is not None else _text_of_entry
        try:
            for piece in walk(self.made, window, frame, self.form):
                self.made.add(piece)
        except KlogError as error:
            if not self._may_go_on(window, frame):
                raise
            self.made.errors.append(error)
            self._end_line()

    def _take(self, *, is_unknown: bool) -> None:
        """What the kernel left besides text: gaps, wrong checksums. is_unknown: the offset before the first record."""
        made, state = self.made, self._state
        for n in range(state.gap_count):
            before = None if is_unknown and n == 0 else self._gaps[2 * n]
            made.gaps.append((before, self._gaps[2 * n + 1]))
        if state.gap_count or not is_unknown:
            made.last_offset = state.last_offset
        if state.invalid:
            made.note_invalid(state.invalid, state.first_invalid)
        state.gap_count = state.invalid = 0

    def _seal(self) -> None:
        """Hand on the text so far; the next goes into another buffer."""
        if self._used:
            self.made.add(memoryview(self._out)[: self._used])
            self._out, self._used = bytearray(), 0

    def _has_long_lines(self, window: Window, at: int) -> bool:
        """Whether few records of a batch make so much JSON that it is not to be in memory as a whole."""
        if self.form.json_file is None or self._state.needed < LONG_TEXT_BYTES:
            return False
        frame = next(walk_frames(window.data, at, window.cut, base=window.base), None)
        if frame is None:
            return False
        batch = _parse(window, frame)
        count = 1 if batch.magic < 2 and batch.codec == "none" else batch.records_count
        return count is not None and count * LONG_LINE_BYTES <= self._state.needed

    def _make_room(self) -> None:
        """For an entry that fits neither behind what is there nor, perhaps, into any buffer so far."""
        needed = self._state.needed
        self._seal()
        if needed > len(self._out):
            self._room = max(needed, self._room)
            self._out = self.outs.take(self._room)
        lines = needed // LEAST_LINE_ROOM
        if 2 * lines > len(self._gaps):
            self._gaps = array("q", [0]) * (2 * lines)

    def _end_line(self) -> None:
        """Where the dump goes on: Kafka's text breaks off within a line."""
        last = self.made.pieces[-1] if self.made.pieces else b"\n"
        if self.form.go_on and isinstance(last, bytes | memoryview) and last[-1:] != b"\n":
            self.made.add(b"\n")

    def _may_go_on(self, window: Window, frame: Frame) -> bool:
        """Text ends where Kafka's tool does. JSON tells of a batch that no reader would take, and goes on."""
        if self.form.go_on or self.form.json_file is None:
            return self.form.go_on
        try:
            return not _parse(window, frame).crc_valid
        except KlogError:
            return False


def write_piece(piece: bytes | memoryview | LongLine, write: Callable[[bytes | memoryview], None]) -> None:
    """A piece of `Lines`, as it is or as it is made."""
    if isinstance(piece, bytes | memoryview):
        write(piece)
    else:
        for part in piece.walk():
            write(part)


def _fit_for_kernel(form: Form) -> bool:
    return form.options.decoder is None and (form.topic is None or form.json_file is None)


def _flags(form: Form) -> int:
    native, options = kernels.native, form.options
    is_json = form.json_file is not None
    is_deep = options.deep or is_json or (form.selection is not None and form.selection.needs_records)
    return (
        (native.DEEP if is_deep else 0)
        | (native.PRINT_DATA if options.print_data else 0)
        | (native.SKIP_METADATA if options.skip_metadata else 0)
        | (native.JSON if is_json else 0)
    )


def _json_text(file: str) -> bytes:
    """What follows `"file":` in a row: its name, and its bytes beside it if that is not UTF-8."""
    return row_line({"file": file}, ascii_only=False).removeprefix('{"file":').removesuffix("}").encode()


def _before_nothing(window: Window, at: int) -> int:
    """An offset that the next record's does not follow on: far from where its batch begins."""
    base_offset = int.from_bytes(window.data[at : at + 8], "big", signed=True)
    return base_offset - (1 << 62) if base_offset >= 0 else base_offset + (1 << 62)


def _parse(window: Window, frame: Frame) -> RecordBatch | Message:
    return parse_entry(window.data, frame, base=window.base)


def _text_of_entry(found: Lines, window: Window, frame: Frame, form: Form) -> Iterator[bytes]:
    batch = _parse(window, frame)
    if isinstance(batch, Message) and batch.magic < 0:
        yield f"offset: {batch.offset}".encode()  # printed before the header is looked at, which throws
        check_magic(batch)
    found.checked(batch.crc_valid, batch.position)
    if form.selection is not None:
        yield from _selected_text(found, batch, form)
        return
    for piece in walk_batch_text(batch):
        yield piece.encode()
    if form.options.deep:
        for piece in walk_records_text(batch, form.options, found.see):
            yield piece.encode()


def _selected_text(found: Lines, batch: RecordBatch | Message, form: Form) -> Iterator[bytes]:
    """The batch's line and those of its wanted records, if there are any."""
    selection = form.selection
    assert selection is not None
    if not selection.may_hold(batch):
        return
    head = "".join(walk_batch_text(batch))
    if form.options.deep or selection.needs_records:
        lines = list(walk_records_text(batch, form.options, found.see, selection.wants))
        if not lines:
            return
        head += "".join(lines)
    yield head.encode()


def _json_of_entry(found: Lines, window: Window, frame: Frame, form: Form) -> Iterator[bytes | LongLine]:
    assert form.json_file is not None
    try:
        batch = _parse(window, frame)
        if isinstance(batch, Message):
            check_magic(batch)
        found.checked(batch.crc_valid, batch.position)
        if form.selection is not None and not form.selection.may_hold(batch):
            return
        head = json_line(batch_row(form.json_file, batch))
        if form.selection is None:
            yield head
        for record in batch.records():
            found.see(record.offset)
            if _wanted(form, record):
                if head and form.selection is not None:
                    yield head
                head = b""
                yield record_line(form.json_file, batch, record, form.topic)
    except KlogError as error:
        yield json_line(error_row(form.json_file, error))
        raise


def _wanted(form: Form, record: Record) -> bool:
    chosen = form.selection
    return chosen is None or chosen.wants(record.offset, record.timestamp, record.key, record.value)


class LogDump:
    """What the dump of one log file came to so far.

    valid_bytes: where its entries end. invalid, first_invalid: entries with a wrong checksum, position of the first.
    gaps: offset before to offset after. errors: damage that was passed over. on_progress: is told of bytes done.
    """

    def __init__(self, on_progress: Callable[[int], None] | None = None) -> None:
        self.valid_bytes = 0
        self.invalid = 0
        self.first_invalid: int | None = None
        self.last_offset = -1
        self.gaps: dict[int, int] = {}
        self.errors: list[KlogError] = []
        self.on_progress = on_progress

    def take(self, found: Lines) -> None:
        """A span's findings, now that the offset before it is known."""
        for before, after in found.gaps:
            if before is not None:
                self.gaps[before] = after
            elif (self.last_offset + 1 - after) & LONG_MASK:
                self.gaps[self.last_offset] = after
        if found.last_offset is not None:
            self.last_offset = found.last_offset
        self.invalid += found.invalid
        self.first_invalid = found.first_invalid if self.first_invalid is None else self.first_invalid
        self.errors += found.errors
        if found.fatal is None:
            if self.on_progress is not None:
                self.on_progress(found.reached - self.valid_bytes)
            self.valid_bytes = found.reached


def dump_log_lines(
    file: LogFile, form: Form, write: Callable[[bytes | memoryview], None], dump: LogDump, *, end: int, jobs: int = 1
) -> None:
    """All entries up to byte `end` as lines to `write`, in order; what there is to tell of them goes to `dump`.

    Raises KlogError where Kafka's tool dies, after the same lines; or goes on behind it, if the form says so.
    """
    start: int | None = 0
    if form.go_on:
        file = _mended(file, form, write, dump, end)
    while start is not None:
        damage = _dump_from(start, file, form, write, dump, end, jobs)
        if damage is not None and not form.go_on:
            raise damage
        start = _skip(file, form, write, dump, end, damage) if form.go_on and dump.valid_bytes < end else None


def _dump_from(
    start: int,
    file: LogFile,
    form: Form,
    write: Callable[[bytes | memoryview], None],
    dump: LogDump,
    end: int,
    jobs: int,
) -> Corrupt | None:
    """From entry to entry, as far as they follow each other; returns what is wrong behind the last one."""
    outs = BufferPool()

    spans = walk_made(file, lambda: LineMaker(form, outs), start=start, end=end, span_bytes=SPAN_BYTES, jobs=jobs)
    for found in spans:
        for piece in found.pieces:
            write_piece(piece, write)
            if isinstance(piece, memoryview):
                outs.give_back(piece)
        dump.take(found)
        if found.fatal is not None:
            raise found.fatal
    return found.tail


def _mended(file: LogFile, form: Form, write: Callable[[bytes | memoryview], None], dump: LogDump, end: int) -> LogFile:
    """The log as it is with each length and magic set right that is all that is wrong with its entry; told first."""
    found: list[SetRight] = []
    try:
        file = mended(file, end=end, on_mended=found.append)
    except KlogError:  # not to be read: the dump comes to that, too, behind what can be
        return file
    dump.errors += found
    if found and form.json_file is not None:
        for error in found:
            write(json_line({**error_row(form.json_file, error), "mended": error.as_row()}))
    return file


def _skip(
    file: LogFile,
    form: Form,
    write: Callable[[bytes | memoryview], None],
    dump: LogDump,
    end: int,
    damage: KlogError | None,
) -> int | None:
    """Behind bytes that are no entry: where the next one begins; None, and the bytes are a tail, if there is none."""
    position = dump.valid_bytes
    found = find_batch_behind(file, position, end=end)
    if damage is not None:
        dump.errors.append(damage)
    if found is None:
        return None
    dump.errors.append(Corrupt(f"{found - position} bytes are not a batch: skipped", position=position))
    if form.json_file is not None:
        write(json_line(error_row(form.json_file, dump.errors[-1])))
    return found
