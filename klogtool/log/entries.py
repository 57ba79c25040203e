"""What a log file holds, as objects: its batches and messages, and their records.

One file is open while its entries are walked, and one window of it in memory. Records come from the kernel where it is
built; an entry that the kernel is not sure of goes through the reference, so that damage is judged in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TypeAlias

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.format import batch as format_batch
from klogtool.format import message as format_message
from klogtool.format.batch import BATCH_HEADER, RECORD_BATCH_OVERHEAD, Header, Record, parse_batch
from klogtool.format.framing import LOG_OVERHEAD, Frame, Stop, corrupt_length, find_frame, walk_frames
from klogtool.format.message import check_magic, parse_message
from klogtool.format.unpackers import unpacker_of
from klogtool.log.file import LogFile
from klogtool.log.windows import Window, walk_windows

_BATCH_HEADER = unpacker_of(BATCH_HEADER)
_MESSAGE_FIELDS = tuple(f.name for f in fields(format_message.Message))


@dataclass(frozen=True, slots=True)
class RecordBatch(format_batch.RecordBatch):
    """A record batch of a file. path: that file, for errors."""

    path: str = ""

    def records(self) -> Iterator[Record]:
        """Its records, decompressed. Raises Corrupt or Unsupported, with path and position."""
        return _with_path(self.path, _walk_records(self.data, 0, len(self.data), lambda _: self))


@dataclass(frozen=True, slots=True)
class Message(format_message.Message):
    """A message of a file, plain or a wrapper. path: that file, for errors."""

    path: str = ""

    def records(self) -> Iterator[Record]:
        """Its record, or those of the inner messages. Raises Corrupt or Unsupported, with path and position."""
        # Plain ones are quickly read, and the bytes of an entry's beginning are not at hand.
        return _with_path(self.path, _records_by_reference(self))


Entry: TypeAlias = RecordBatch | Message


def read_entry(window: Window, frame: Frame, path: str) -> Entry:
    """The entry of a frame: magic 2 and above as a batch, all below as a message (FileLogInputStream).

    Raises Corrupt where the file ends inside the header of a batch that says it is shorter than that.
    """
    data, at = window.data, frame.position - window.base
    if frame.magic < 2:
        plain = parse_message(data, at, base=window.base)
        return Message(*(getattr(plain, name) for name in _MESSAGE_FIELDS), path=path)
    if len(data) - at < RECORD_BATCH_OVERHEAD:
        parse_batch(data, at, base=window.base)  # raises
    header = _BATCH_HEADER.unpack_from(data, at)
    return RecordBatch(frame.position, *header, data=memoryview(data)[at : at + frame.size], path=path)


def walk_entries(path: str, start: int = 0) -> Iterator[Entry]:
    """The entries of a log file from byte `start` on, which is to be where one begins.

    Less than an entry at the end is a silent end (`tail_bytes` tells). Raises Corrupt at a length that cannot be,
    after all entries before it; other KlogErrors where the file cannot be read.
    """
    for window in _walk_windows(path, start):
        for frame in _frames(window):
            yield _with_path_of(path, read_entry, window, frame)


def walk_records(path: str, start: int = 0) -> Iterator[Record]:
    """The records of all entries, in their order in the file, whether checksums match or not.

    Raises Corrupt or Unsupported at the first entry whose records cannot be read, else as `walk_entries`.
    """
    for window in _walk_windows(path, start):

        def entry_at(at: int, window: Window = window) -> Entry:
            return read_entry(window, next(_frames(window, at)), path)

        yield from _with_path(path, _walk_records(window.data, 0, window.cut, entry_at))


def tail_bytes(path: str) -> int:
    """Bytes behind the last whole entry. Raises Corrupt where a length that cannot be follows it, not a tail."""
    with LogFile(path) as file:
        valid_bytes = 0
        for window in _walk_windows_of(file, 0):
            valid_bytes = window.base + window.cut
        return file.size - valid_bytes


# --- windows ----------------------------------------------------------------------------------------------------------


def _walk_windows(path: str, start: int) -> Iterator[Window]:
    with LogFile(path) as file:
        yield from _walk_windows_of(file, start)


def _walk_windows_of(file: LogFile, start: int) -> Iterator[Window]:
    """Window after window; raises Corrupt behind the last one if it ends at an impossible length."""
    if not 0 <= start <= file.size:
        raise KlogError(f"outside of the file, which has {file.size} bytes", path=file.path, position=start)
    for window in walk_windows(file, kernels.whole_frames(), start=start):
        yield window
    # A file that was cut meanwhile ends where it now ends.
    end = min(file.size - window.base, len(window.data))
    if find_frame(window.data, window.cut, end) is Stop.LENGTH:
        raise corrupt_length(window.data, window.cut, window.base).at_path(file.path)


def _frames(window: Window, at: int = 0) -> Iterator[Frame]:
    """Frames from byte `at` of a window on; their positions are those in the file."""
    for frame in walk_frames(window.data, at, window.cut, base=window.base):
        yield Frame(window.base + frame.position, frame.offset, frame.size, frame.magic)


# --- records ----------------------------------------------------------------------------------------------------------


def _walk_records(data: memoryview | bytes, at: int, cut: int, entry_at: Callable[[int], Entry]) -> Iterator[Record]:
    """The records of the entries in data[at:cut]; entry_at gives the one that begins at a byte."""
    native = kernels.native
    if native is None:
        while at < cut:
            entry = entry_at(at)
            yield from _records_by_reference(entry)
            at += entry.size
        return
    reader = native.RecordReader(Record, Header, data, at, cut)
    why = native.FULL
    while why != native.DONE:
        records, why = reader.read()
        yield from records
        if why in (native.BODY, native.REFERENCE):
            entry = entry_at(reader.at)
            body = _inflated(entry) if why == native.BODY else None
            if body is not None:
                reader.give(body)
            else:
                yield from _records_by_reference(entry)
                reader.step_to(reader.at + entry.size)


def _records_by_reference(entry: Entry) -> Iterator[Record]:
    if isinstance(entry, Message):
        check_magic(entry)
        return format_message.Message.records(entry)
    return format_batch.RecordBatch.records(entry)


def _inflated(entry: Entry) -> bytes | None:
    """What is inside an entry; None where it cannot be had, which the reference then reports."""
    try:
        return format_batch.inflate(entry) if isinstance(entry, RecordBatch) else format_message.inflate(entry)
    except KlogError:
        return None
