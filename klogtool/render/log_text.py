"""A whole `.log` or `.checkpoint` file as kafka-dump-log prints it, window by window.

The kernel writes the text of what is regular; an entry it is not sure of, and everything that needs a decoder, goes
through the reference, so that damage is judged in one place.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.log.file import LogFile
from klogtool.log.windows import Window, walk_windows
from klogtool.render.records import RecordOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from klogtool.format.batch import RecordBatch
    from klogtool.format.framing import Frame
    from klogtool.format.message import Message

Write = Callable[[bytes | memoryview], None]

OUT_BYTES = 4 << 20
GAPS_AT_ONCE = 1 << 16


class OffsetGaps:
    """Where record offsets do not follow on, as DumpLogSegments counts: every file begins at -1."""

    def __init__(self) -> None:
        self.last_offset = -1
        self.pairs: dict[int, int] = {}

    def see(self, offset: int) -> None:
        """The next record's offset."""
        if offset != self.last_offset + 1:
            self.pairs[self.last_offset] = offset
        self.last_offset = offset


class LogText:
    """Writes the text of one log file's entries.

    on_damage: what becomes of an error at an entry: the default raises it, as Kafka's tool dies there.
    """

    def __init__(self, options: RecordOptions, write: Write, on_damage: Callable[[KlogError], None] | None = None):
        self.options, self.write, self.gaps = options, write, OffsetGaps()
        self.on_damage = on_damage
        self.native = kernels.native if options.decoder is None else None
        if self.native is not None:
            self._out = bytearray(OUT_BYTES)
            self._gaps, self._state = array("q", bytes(16 * GAPS_AT_ONCE)), array("q", (-1, 0, 0, 0))
            self._flags = (
                (self.native.DEEP if options.deep else 0)
                | (self.native.PRINT_DATA if options.print_data else 0)
                | (self.native.SKIP_METADATA if options.skip_metadata else 0)
            )

    def file(self, file: LogFile, *, end: int) -> int:
        """All entries before byte `end`; returns the bytes that they take. Raises KlogError where Kafka's tool dies."""
        window = None
        for window in walk_windows(file, kernels.whole_frames(), end=end):
            self.window(window)
        assert window is not None
        position = window.base + window.cut
        if position < end:
            _check_tail(window, end)
        return position

    def window(self, window: Window) -> None:
        """The entries of one window."""
        if self.native is None:
            self._by_reference(window, 0, window.cut)
        else:
            self._by_kernel(window)

    def _by_kernel(self, window: Window) -> None:
        assert self.native is not None
        at, body = 0, None
        while at < window.cut:
            self._state[0] = self.gaps.last_offset
            at, written, why = self.native.dump(
                window.data, at, window.cut, window.base, self._flags, self._state, self._gaps, self._out, body
            )
            self._take(written)
            body = None
            if why == self.native.FULL and not written:
                self._make_room()
            elif why == self.native.BODY:
                body = self._inflated(window, at)
            if why == self.native.REFERENCE or (why == self.native.BODY and body is None):
                at = self._by_reference(window, at, at + 1)

    def _take(self, written: int) -> None:
        """What the kernel wrote: text and gaps."""
        if written:
            self.write(memoryview(self._out)[:written])
        self.gaps.last_offset = self._state[0]
        for n in range(self._state[1]):
            self.gaps.pairs[self._gaps[2 * n]] = self._gaps[2 * n + 1]
        self._state[1] = 0

    def _make_room(self) -> None:
        needed = self._state[2]
        self._out = bytearray(max(needed, len(self._out)))
        if needed > GAPS_AT_ONCE:
            self._gaps = array("q", bytes(16 * (needed // 64)))

    def _inflated(self, window: Window, at: int) -> bytes | None:
        """The records of the entry at byte `at`, inflated; None if that fails, which the reference then reports."""
        from klogtool.format.batch import RecordBatch, inflate
        from klogtool.format.framing import Frame, find_frame
        from klogtool.format.message import inflate as inflate_message

        frame = find_frame(window.data, at, window.cut)
        assert isinstance(frame, Frame)
        try:
            entry = read_entry(window.data, frame, window.base)
            return inflate(entry) if isinstance(entry, RecordBatch) else inflate_message(entry)
        except KlogError:
            return None

    def _by_reference(self, window: Window, at: int, stop: int) -> int:
        """Entries from `at` on until `stop`; returns where the next one is."""
        from klogtool.format.framing import walk_frames

        for frame in walk_frames(window.data, at, window.cut, base=window.base):
            if at >= stop:
                break
            try:
                for piece in self._entry_text(window, frame):
                    self.write(piece.encode())
            except KlogError as error:
                if self.on_damage is None:
                    raise
                self.on_damage(error)
            at = frame.position + frame.size
        return at

    def _entry_text(self, window: Window, frame: Frame) -> Iterator[str]:
        from klogtool.render.kafka_text import walk_batch_text, walk_records_text

        if frame.magic < 0:
            yield f"offset: {frame.offset}"  # printed before the header is looked at, which throws
        batch = read_entry(window.data, frame, window.base)
        yield from walk_batch_text(batch)
        if self.options.deep:
            yield from walk_records_text(batch, self.options, self.gaps.see)


def _check_tail(window: Window, end: int) -> None:
    """Raises Corrupt where the walk ended at an impossible length, and not at a tail."""
    from klogtool.format.framing import Stop, corrupt_length, find_frame

    if find_frame(window.data, window.cut, end - window.base) is Stop.LENGTH:
        raise corrupt_length(window.data, window.cut, window.base)


def read_entry(data: bytes, frame: Frame, base: int) -> RecordBatch | Message:
    """The entry of a frame: magic 2 and above as a batch, all below as a message (FileLogInputStream)."""
    from klogtool.format.batch import parse_batch
    from klogtool.format.message import parse_message

    if frame.magic >= 2:
        return parse_batch(data, frame.position, base=base)
    return parse_message(data, frame.position, base=base)
