"""One copy of a partition as a row of segments: read at a cursor, in windows of bytes or as items.

Damage does not end the walk. It becomes an item of its own, because nobody knows what was there, and is kept in
`damages`.
"""

from __future__ import annotations

from array import array
from types import TracebackType

from msgspec import Struct

from klogtool import kernels
from klogtool.errors import Corrupt, FileCause, KlogError, became_shorter
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, Frame, find_frame
from klogtool.format.item_merge import DAMAGED
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.message import Message
from klogtool.format.record_digests import ITEM_FIELDS, head_item, record_items, sound_entry
from klogtool.log.file import LogFile
from klogtool.log.late_zstd import LateZstd
from klogtool.log.mapped import MappedReads, should_map
from klogtool.log.partition import Partition
from klogtool.log.probing import Probe
from klogtool.log.resync import find_batch_behind
from klogtool.log.walking import Steps, walk_steps
from klogtool.log.windows import BEHIND_BYTES, BufferPool, Reads, Window

LARGEST_WHOLE_BYTES = 64 << 20  # a larger batch is not taken into memory


class CopyDamage(Struct, frozen=True):
    """Bytes of a segment that are damaged, and offsets that may be lost there. last_offset: None if nothing follows."""

    path: str
    start: int
    end: int
    first_offset: int
    last_offset: int | None
    reason: str


class FileBytes:
    """Bytes of a file, mapped or read, up to the end of a `with` statement.

    Raises KlogError at its end if the file became shorter meanwhile: then the bytes were not those of the file.
    """

    def __init__(self, file: LogFile, pool: BufferPool, position: int, size: int) -> None:
        size = max(0, min(size, file.size - position))
        self._file, self._end = file, position + size
        self._reads = MappedReads(file, pool) if should_map(file) else Reads(file, pool)
        self.data = self._reads.read(position, size)
        self._is_short = len(self.data) < size

    def __enter__(self) -> memoryview:
        return self.data

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reads.give_back(self.data)
        if self._is_short or (isinstance(self._reads, MappedReads) and self._reads.hit):
            raise became_shorter(self._file.path, self._end)


class CopyLog:
    """The log of a partition dir from the segment on that has the offset `start`. Entries below `start` give no items.

    before: the last offset before the cursor. end_offset: the offset after the last entry that was gone over.
    """

    def __init__(self, partition: Partition, start: int, *, deep: bool) -> None:
        segments = partition.segments
        bases = [segment.base_offset for segment in segments]
        first = max((n for n, base in enumerate(bases) if base <= start), default=0)
        self._paths, self._bases = [segment.path for segment in segments[first:]], bases[first:]
        self.is_deep, self._start = deep, start
        self._form = kernels.native.RECORD_ITEMS if deep else kernels.native.HEAD_ITEMS
        self._number, self._position = -1, 0
        self._file: LogFile | None = None
        self._work, self._pool = kernels.native.Workspace(), BufferPool()
        self._zstd = LateZstd(self._work)
        self.before = self._bases[0] - 1 if self._bases else -1
        self.end_offset = self.before + 1
        self.damages: list[CopyDamage] = []

    # The cursor.

    @property
    def place(self) -> tuple[int, int]:
        """The number of the segment, and the byte in it."""
        return self._number, self._position

    @property
    def left(self) -> int:
        """Bytes between the cursor and the end of its segment."""
        return 0 if self._file is None else self._file.size - self._position

    def is_at_end(self) -> bool:
        """Whether no byte is left; goes on to the next segment that has one."""
        while self.left <= 0 and self._number + 1 < len(self._paths):
            self._open(self._number + 1)
        return self.left <= 0

    def seek(self, place: tuple[int, int], before: int) -> None:
        """Set the cursor to where an entry begins, behind the offset `before`."""
        if place[0] != self._number:
            self._open(place[0])
        self._position, self.before = place[1], before

    def skip(self, size: int, before: int) -> None:
        """Go over so many bytes, whose last offset is `before`."""
        self._position, self.before = self._position + size, before
        self.end_offset = before + 1

    def skip_to_last_segment(self) -> None:
        """Leave out the segments before the last one."""
        if self._number < len(self._paths) - 1:
            self.seek((len(self._paths) - 1, 0), self._bases[-1] - 1)
            self.end_offset = max(self.end_offset, self._bases[-1])  # it may be empty

    def close(self) -> None:
        """Close the open segment."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _open(self, number: int) -> None:
        self.close()
        self._file, self._number, self._position = LogFile(self._paths[number]), number, 0

    # Bytes.

    def window(self, size: int) -> FileBytes:
        """The next bytes of the segment."""
        assert self._file is not None
        return FileBytes(self._file, self._pool, self._position, size)

    # Items.

    def fill(self, size: int) -> array[int]:
        """Take entries of about `size` bytes of one segment; return their items. There are none only at the end."""
        items = array("q")
        while not items and not self.is_at_end():
            items = self._take(size)
        return items

    def _take(self, size: int) -> array[int]:
        assert self._file is not None
        digests = kernels.native.Digests(self._start, MAX_LONG, self._form)
        digests.add(b"", 0, -1, -1, self.before)
        with self.window(size + BEHIND_BYTES) as data:
            steps = _ItemSteps(self._file, digests, self._work, self._form, self._start)
            window = Window(self._position, data, len(data), last=False)
            done = max(walk_steps(steps, window, min(size, len(data)), self._zstd), default=0)
            needed = 0 if done else _size_of(data, self.left)
        items = array("q")
        items.frombytes(digests.fetch())
        if done:
            self.skip(done, self.before if digests.before is None else digests.before)
        elif len(data) < needed <= min(self.left, LARGEST_WHOLE_BYTES):
            return self._take(needed)
        else:
            items.extend(self._take_damage(steps.refusal))
        return items

    def _take_damage(self, refusal: KlogError | None) -> tuple[int, ...]:
        """Go over damaged bytes. Return their item, if it is not known that nothing is missing there."""
        assert self._file is not None
        at, end = self._position, self._file.size
        result = find_batch_behind(self._file, at, end=end)
        first, last = self.before + 1, self._last_before(result)
        reason = (refusal or Corrupt("no batch begins here")).reason
        damage = CopyDamage(self._file.path, at, result or end, first, None if last == MAX_LONG else last, reason)
        self._position = damage.end
        if last < self._start:
            return ()
        self.damages.append(damage)
        if first > last:
            return ()
        self.before = last if last < MAX_LONG else self.before
        return first, last, 0, DAMAGED, at

    def _last_before(self, position: int | None) -> int:
        """The last offset that may be lost before the entry at `position`; None: before the next segment."""
        assert self._file is not None
        if position is None:
            following = self._bases[self._number + 1 :]
            return following[0] - 1 if following else MAX_LONG
        judged = Probe(self._file, end=self._file.size, lowest=0).judge(position, deep=True)
        return self.before if judged is None else judged.facts.lowest_offset - 1


class _ItemSteps(Steps):
    """The items of the entries of a window (log.walking.Steps). refusal: why the walk ended at an entry."""

    def __init__(
        self, file: LogFile, digests: kernels.native.Digests, work: kernels.native.Workspace, form: int, start: int
    ) -> None:
        self._file, self._digests, self._work, self._form, self._start = file, digests, work, form, start
        self.refusal: KlogError | None = None

    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        """Let the kernel make items."""
        return self._digests.take(window.data, at, stop, window.base, body, self._work)

    def take_entry(self, window: Window, at: int) -> int:
        """Take one entry by the reference. The walk ends at damage."""
        frame = find_frame(window.data, at, self._file.size - window.base)
        if not isinstance(frame, Frame) or frame.size > len(window.data) - at:
            return at
        try:
            return self._take(window, frame)
        except KlogError as error:
            self.refusal = error
            return at

    def _take(self, window: Window, frame: Frame) -> int:
        is_deep = self._form == kernels.native.RECORD_ITEMS
        entry = sound_entry(window.data, frame, base=window.base, deep=is_deep)
        before = -1 if self._digests.before is None else self._digests.before
        lowest = entry.last_offset if isinstance(entry, Message) else entry.base_offset
        if lowest <= before:
            raise KlogError(FileCause.NOT_BEHIND(offset=lowest, before=before))
        items = record_items(entry) if is_deep else head_item(window.data, frame, before, base=window.base)
        below = sum(last < self._start for last in items[1::ITEM_FIELDS])
        self._digests.add(items[below * ITEM_FIELDS :].tobytes(), 0, -1, -1, entry.last_offset)
        return frame.position + frame.size


def _size_of(data: memoryview, left: int) -> int:
    """The size that the entry at the start of the data claims; 0 if there is none."""
    if len(data) <= HEADER_SIZE_UP_TO_MAGIC:
        return 0
    frame = find_frame(data, 0, left)
    return frame.size if isinstance(frame, Frame) else 0
