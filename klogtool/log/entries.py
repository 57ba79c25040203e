"""What a log file holds, as objects: its batches and messages, and their records.

One file is open while its entries are walked, and one window of it in memory. Records come from the kernel; an entry
that the kernel is not sure of goes through the reference, so that damage is judged in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from klogtool import kernels
from klogtool.errors import Corrupt, KlogError
from klogtool.format import batch as format_batch
from klogtool.format import message as format_message
from klogtool.format.batch import CRC_COVERS_FROM, RECORD_BATCH_OVERHEAD, Header, Record
from klogtool.format.fields import numbers
from klogtool.format.framing import Frame, Stop, corrupt_length, find_frame, walk_frames
from klogtool.format.layouts import BATCH_HEADER
from klogtool.log.file import LogFile
from klogtool.log.walking import walk_steps
from klogtool.log.windows import BufferPool, Window, walk_windows

_BATCH_HEADER = numbers(BATCH_HEADER)
_MESSAGE_FIELDS = format_message.Message.__struct_fields__


class RecordBatch(format_batch.RecordBatch, frozen=True, eq=False):
    """A record batch of a file. path: that file."""

    path: str = ""

    @property
    def crc_valid(self) -> bool:
        """As of the parent, by the kernel."""
        if self.size < RECORD_BATCH_OVERHEAD:
            return bool(format_batch.RecordBatch.crc_valid.__get__(self))
        return kernels.native.crc32c(self.data[CRC_COVERS_FROM:]) == self.crc

    def records(self) -> Iterator[Record]:
        """Its records, decompressed. Raises Corrupt or Unsupported, with path and position."""
        return _records_of(self)


class Message(format_message.Message, frozen=True, eq=False):
    """A message of a file, plain or a wrapper. data: the whole entry; path: the file."""

    uncompared = frozenset({"message", "data"})
    unshown = frozenset({"message", "data"})

    data: memoryview = memoryview(b"")
    path: str = ""

    def records(self) -> Iterator[Record]:
        """Its record, or those of the inner messages. Raises Corrupt or Unsupported, with path and position."""
        return _records_of(self)


Entry: TypeAlias = RecordBatch | Message


def walk_entries(path: str, start: int = 0) -> Iterator[Entry]:
    """The entries of a log file from byte `start` on, which is to be where one begins.

    Less than an entry at the end is a silent end (`tail_bytes` tells). Raises Corrupt at a length that cannot be,
    after all entries before it; other KlogErrors where the file cannot be read.
    """
    with LogFile(path) as file:
        for window in _walk_windows(file, start):
            for frame in walk_frames(window.data, 0, window.cut, base=window.base):
                yield read_entry(window, frame, path)


def walk_records(path: str, start: int = 0) -> Iterator[Record]:
    """The records of all entries, in their order in the file, whether checksums match or not.

    Raises Corrupt or Unsupported at the first entry whose records cannot be read, else as `walk_entries`.
    """
    return _joined(_walk_pieces_of_file(path, start), path)


def tail_bytes(path: str) -> int:
    """Bytes behind the last whole entry. Raises Corrupt where a length that cannot be follows it, and not a tail."""
    with LogFile(path) as file:
        valid_bytes = max(window.base + window.cut for window in _walk_windows(file, 0, BufferPool()))
        return file.size - valid_bytes


def read_entry(window: Window, frame: Frame, path: str) -> Entry:
    """The entry of a frame of a window: magic 2 and above as a batch, all below as a message (FileLogInputStream).

    Raises Corrupt where the file ends inside the header of a batch, which a length field below 49 allows.
    """
    at, data = frame.position, window.data.toreadonly()
    entry = data[at : at + frame.size]
    if frame.magic < 2:
        message = format_message.parse_message(data, at, base=window.base)
        return Message(*(*(getattr(message, name) for name in _MESSAGE_FIELDS), entry, path))
    if len(data) - at < RECORD_BATCH_OVERHEAD:
        raise Corrupt(
            "the file ends inside the batch header", position=window.base + at, path=path, kafka_class="KafkaException"
        )
    return RecordBatch(window.base + at, *(*_BATCH_HEADER.unpack_from(data, at), entry, path))


def _walk_windows(file: LogFile, start: int, buffers: BufferPool | None = None) -> Iterator[Window]:
    """Window after window; raises Corrupt behind the last one if it ends at an impossible length.

    buffers: where a window's bytes come from and go back to, if nobody looks at them after the next one was asked for.
    """
    if not 0 <= start <= file.size:
        raise KlogError(f"outside of the file, which has {file.size} bytes", path=file.path, position=start)
    for window in walk_windows(file, start=start, pool=buffers):
        yield window
        if buffers is not None and not window.last:
            buffers.give_back(window.data)
    # A file that was cut meanwhile ends where it now ends.
    end = min(file.size - window.base, len(window.data))
    if find_frame(window.data, window.cut, end) is Stop.LENGTH:
        raise corrupt_length(window.data, window.cut, window.base).at_path(file.path)


def _joined(pieces: Iterable[Iterable[Record]], path: str) -> Iterator[Record]:
    """One by one, through a single generator: each further one takes a tenth of the time that a record takes."""
    try:
        for piece in pieces:
            yield from piece
    except KlogError as error:
        error.at_path(path)
        raise


def _records_of(entry: Entry) -> Iterator[Record]:
    window = Window(entry.position, entry.data, len(entry.data), last=True)
    return _joined(_RecordSteps(window, entry.path, entry).walk(), entry.path)


def _walk_pieces_of_file(path: str, start: int) -> Iterator[Iterable[Record]]:
    with LogFile(path) as file:
        for window in _walk_windows(file, start, BufferPool()):  # records have bytes of their own
            yield from _RecordSteps(window, path).walk()


class _RecordSteps:
    """The records of the entries of a window (log.walking.Steps). entry: the only one in it, if it is known."""

    is_enough = False

    def __init__(self, window: Window, path: str, entry: Entry | None = None) -> None:
        self._window, self._path, self._entry = window, path, entry
        self._reader = kernels.native.RecordReader(Record, Header, window.data, 0, window.cut)
        self._found: list[Iterable[Record]] = []

    def walk(self) -> Iterator[Iterable[Record]]:
        """Some at a time."""
        for _ in walk_steps(self, self._window, self._window.cut, None):
            found, self._found = self._found, []
            yield from found

    def step(self, _: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        """Records of the kernel."""
        reader = self._reader
        if at > reader.at:
            reader.step_to(at)
        elif body is not None:
            reader.give(body)
        records, why = reader.read()
        self._found.append(records)
        return reader.at, why

    def make_room(self, _: Window, at: int) -> bool:
        """Those of the next piece go into another list."""
        return True

    def take_entry(self, window: Window, at: int) -> int:
        """Records of the reference."""
        entry = self._entry
        if entry is None:
            entry = read_entry(window, next(walk_frames(window.data, at, window.cut, base=window.base)), self._path)
        self._found.append(_reference_records(entry))
        return at + entry.size


def _reference_records(entry: Entry) -> Iterator[Record]:
    """Raises when they are asked for: behind the records before."""
    if isinstance(entry, RecordBatch):
        yield from format_batch.RecordBatch.records(entry)
    else:
        format_message.check_magic(entry)
        yield from format_message.Message.records(entry)
