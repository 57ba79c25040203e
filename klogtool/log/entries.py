"""What a log file holds, as objects: its batches and messages, and their records.

While the entries are walked, one file is open and one window of it is in memory. Records come from the kernel. An entry
that the kernel is not sure of goes to the reference, so damage is judged in one place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from klogtool import kernels
from klogtool.errors import AtPath, Corrupt, KlogError
from klogtool.format import batch as format_batch
from klogtool.format import message as format_message
from klogtool.format.batch import CRC_COVERS_FROM, RECORD_BATCH_OVERHEAD, Header, Record
from klogtool.format.fields import numbers
from klogtool.format.framing import Frame, walk_frames
from klogtool.format.layouts import BATCH_HEADER
from klogtool.log.file import LogFile
from klogtool.log.walking import Steps, walk_steps
from klogtool.log.windows import BufferPool, Window, walk_windows

_BATCH_HEADER = numbers(BATCH_HEADER)
_MESSAGE_FIELDS = format_message.Message.__struct_fields__


class RecordBatch(format_batch.RecordBatch, frozen=True, eq=False):
    """A record batch of a file. path: that file."""

    path: str = ""

    def __repr__(self) -> str:
        """Return one line: offsets, size and place."""
        return (
            f"<RecordBatch of offsets {self.base_offset} to {self.last_offset}, {self.records_count} records, "
            f"{self.size} bytes at {self.position} of {os.path.basename(self.path)}>"
        )

    @property
    def crc_valid(self) -> bool:
        """Whether the checksum matches; computed by the kernel."""
        if self.size < RECORD_BATCH_OVERHEAD:
            return bool(format_batch.RecordBatch.crc_valid.__get__(self))
        return kernels.native.crc32c(self.data[CRC_COVERS_FROM:]) == self.crc

    def records(self) -> Iterator[Record]:
        """Yield its records, decompressed. Raises Corrupt or Unsupported, with path and position."""
        return _records_of(self)


class Message(format_message.Message, frozen=True, eq=False):
    """A message of a file, plain or a wrapper. data: the whole entry; path: the file."""

    uncompared = frozenset({"message", "data"})
    unshown = frozenset({"message", "data"})

    data: memoryview = memoryview(b"")
    path: str = ""

    def __repr__(self) -> str:
        """Return one line: offsets, size and place."""
        return (
            f"<Message of offset {self.offset}, magic {self.magic}, "
            f"{self.size} bytes at {self.position} of {os.path.basename(self.path)}>"
        )

    def records(self) -> Iterator[Record]:
        """Yield its record, or those of the inner messages. Raises Corrupt or Unsupported, with path and position."""
        return _records_of(self)


Entry: TypeAlias = RecordBatch | Message


def walk_entries(path: str, start: int = 0) -> Iterator[Entry]:
    """Yield the entries of a log file from byte `start` on. An entry begins at `start`.

    Less than an entry at the end is no error (see `tail_bytes`). Raises Corrupt at an impossible length, after all
    entries before it, and other KlogErrors if the file cannot be read.
    """
    with LogFile(path) as file:
        for window in _walk_windows(file, start):
            for frame in walk_frames(window.data, 0, window.cut, base=window.base):
                yield read_entry(window, frame, path)


def walk_records(path: str, start: int = 0) -> Iterator[Record]:
    """Yield the records of all entries, in the order of the file, whether checksums match or not.

    Raises Corrupt or Unsupported at the first entry whose records cannot be read, and the errors of `walk_entries`.
    """

    def chunks() -> Iterator[Iterable[Record]]:
        with LogFile(path) as file:
            for window in _walk_windows(file, start, BufferPool()):  # records have bytes of their own
                yield from _RecordSteps(window, path).walk()

    return _joined(chunks(), path)


def tail_bytes(path: str) -> int:
    """Return the number of bytes after the last whole entry. Raises Corrupt if an impossible length follows it."""
    with LogFile(path) as file:
        valid_bytes = max(window.base + window.cut for window in _walk_windows(file, 0, BufferPool()))
        return file.size - valid_bytes


def read_entry(window: Window, frame: Frame, path: str) -> Entry:
    """Return the entry of a frame: a batch for magic 2 and above, a message below (FileLogInputStream).

    Raises Corrupt if the file ends inside the header of a batch, which a length field below 49 allows.
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
    """Yield window after window. Raises Corrupt after the last one if it ends at an impossible length.

    buffers: for callers that do not use a window after they asked for the next one. Its bytes go back there.
    """
    if not 0 <= start <= file.size:
        raise KlogError(f"outside of the file, which has {file.size} bytes", path=file.path, position=start)
    for window in walk_windows(file, start=start, pool=buffers):
        yield window
        if buffers is not None and not window.last:
            buffers.give_back(window.data)
    if (error := window.length_error(file.size)) is not None:
        raise error.at_path(file.path)


def _joined(chunks: Iterable[Iterable[Record]], path: str) -> Iterator[Record]:
    """Yield records through a single generator: each further generator costs a tenth of the time of a record."""
    with AtPath(path):
        for chunk in chunks:
            yield from chunk


def _records_of(entry: Entry) -> Iterator[Record]:
    window = Window(entry.position, entry.data, len(entry.data), last=True)
    return _joined(_RecordSteps(window, entry.path, entry).walk(), entry.path)


class _RecordSteps(Steps):
    """The records of the entries of a window (log.walking.Steps). entry: the only one in it, if it is known."""

    def __init__(self, window: Window, path: str, entry: Entry | None = None) -> None:
        self._window, self._path, self._entry = window, path, entry
        self._reader = kernels.native.RecordReader(Record, Header, window.data, 0, window.cut)
        self._chunks: list[Iterable[Record]] = []

    def walk(self) -> Iterator[Iterable[Record]]:
        """Yield the records, some at a time."""
        for _ in walk_steps(self, self._window, self._window.cut, None):
            chunks, self._chunks = self._chunks, []
            yield from chunks

    def step(self, _: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        reader = self._reader
        if at > reader.at:
            reader.step_to(at)
        elif body is not None:
            reader.give(body)
        records, why = reader.read()
        self._chunks.append(records)
        return reader.at, why

    def take_entry(self, window: Window, at: int) -> int:
        entry = self._entry
        if entry is None:
            entry = read_entry(window, next(walk_frames(window.data, at, window.cut, base=window.base)), self._path)
        self._chunks.append(_reference_records(entry))
        return at + entry.size


def _reference_records(entry: Entry) -> Iterator[Record]:
    """Yield records. Errors are raised when the first one is asked for, so the records before it come first."""
    if isinstance(entry, RecordBatch):
        yield from format_batch.RecordBatch.records(entry)
    else:
        format_message.check_magic(entry)
        yield from format_message.Message.records(entry)
