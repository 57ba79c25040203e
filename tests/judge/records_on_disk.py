"""The sound records in the files of a partition, read apart from klogtool: what is held against its claims.

Sound is a batch of magic 2 whose CRC agrees with its records, whose deltas ascend; a count that does not agree hides
records from consumers, but they are there. So is a message of the old formats, and a wrapper of such, that is as Kafka
wrote it. Where the CRC alone is right nobody can say what counts as a record: those that can be taken apart may be
called lost, or not. Damage is stepped over byte by byte, so batches behind it are found, too. A record is an offset and
a CRC of its contents; Probe.java makes the same CRC of what a consumer was served.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from kafka.layout import (
    RECORDS_START,
    SMALLEST_ENTRY,
    Entry,
    Message,
    body_of,
    crc32c,
    decompress,
    inner_messages,
    parse_message,
    parse_records,
    walk,
    walk_records,
)
from kafka.layout import Record as Body

CONTROL, LOG_APPEND_TIME = 0x20, 0x08
LARGEST_RELATIVE_OFFSET = 2147483647
ABORTED_TXN_SIZE, LAST_OFFSET_AT = 34, 18  # of an entry of a .txnindex
_RENAMED = re.compile(r"\.?\d{20}\.log(?!\.(?:swap|cleaned|deleted)$).+|\.?\d{20}\.LOG.*")
CODEC = 0x07


class Found(NamedTuple):
    """A record on a disk, or one that a consumer was served."""

    offset: int
    digest: int


@dataclass(frozen=True)
class Batch:
    """A sound batch in a segment. Control batches have no records that a consumer sees.

    is_far: its offsets cannot be relative to the segment's base; no broker and no consumer can have it there.
    Of a batch that is not sound only the CRC is right; doubtful: what can be taken out of it. keys: of its records.
    """

    file: str
    base_offset: int
    last_offset: int
    is_control: bool
    is_far: bool
    size: int
    records: tuple[Found, ...]
    doubtful: tuple[Found, ...] = ()
    is_sound: bool = True
    keys: tuple[bytes | None, ...] = ()


def batches_in(log: Path) -> list[Batch]:
    """The sound batches of a .log file, in the order of the file."""
    data, at, found = log.read_bytes(), 0, []
    segment_base = int(log.name[:20]) if log.name[:20].isdigit() else 0
    while len(data) - at >= SMALLEST_ENTRY:
        entry = _entry_at(data, at)
        batch = None
        if entry:
            sound = _sound if entry.magic == 2 else _sound_message
            batch = sound(entry, log.name, segment_base) or _doubtful(entry, log.name)
        if entry and batch:
            found.append(batch)
            at += len(entry.data)
        else:
            at += 1
    return found


def batches_of(partition: Path) -> list[Batch]:
    """The sound batches of all segments of a partition dir."""
    logs = sorted(log for log in partition.glob("*.log") if log.is_file())
    return [batch for log in logs for batch in batches_in(log)]


def batches_left(partition: Path, suffix: str) -> list[Batch]:
    """What an interrupted cleaning, split or deletion left; it can be all that is left of a segment."""
    return [batch for file in sorted(partition.glob(f"*{suffix}")) if file.is_file() for batch in batches_in(file)]


def keys_of(batches: Iterable[Batch]) -> dict[Found, bytes | None]:
    """The keys of the records."""
    return {record: key for batch in batches for record, key in zip(batch.records, batch.keys, strict=False)}


def batches_set_aside(partition: Path) -> list[Batch]:
    """Those of segments that somebody gave another name, such as 00000000000000000042.log.bak."""
    renamed = (file for file in sorted(partition.iterdir()) if _RENAMED.fullmatch(file.name) and file.is_file())
    return [batch for file in renamed for batch in batches_in(file)]


def names_and_bytes(partition: Path, loaded_end: int | None = None) -> dict[str, int]:
    """The files of a partition dir that are no folders: name and CRC of the bytes; with loaded_end, without what a
    coordinator appends to a log that ended there: markers of transactions that it had decided about before."""
    files = (path for path in sorted(partition.iterdir()) if path.is_file())
    return {path.name: zlib.crc32(path.read_bytes()[: _size_without_markers(path, loaded_end)]) for path in files}


def _size_without_markers(path: Path, loaded_end: int | None) -> int | None:
    """The size without markers from an offset on that are the last batches; None for all of it."""
    if loaded_end is None:
        return None
    if path.suffix == ".txnindex":
        data = path.read_bytes()
        starts = range(0, len(data) - ABORTED_TXN_SIZE + 1, ABORTED_TXN_SIZE)
        lasts = (int.from_bytes(data[at + LAST_OFFSET_AT : at + LAST_OFFSET_AT + 8], "big") for at in starts)
        return len(data) - ABORTED_TXN_SIZE * sum(last >= loaded_end for last in lasts)
    size = path.stat().st_size
    if path.suffix == ".log":
        data = path.read_bytes()
        for batch in reversed(batches_in(path)):
            is_next = data[size - batch.size :].startswith(batch.base_offset.to_bytes(8, "big"))  # nothing torn between
            if not (is_next and batch.is_control and batch.base_offset >= loaded_end):
                break
            size -= batch.size
    return size


def records_of(batches: Iterable[Batch]) -> set[Found]:
    """The records, each once, however often a batch lies there."""
    return {record for batch in batches for record in batch.records}


def doubtful_of(batches: Iterable[Batch]) -> set[Found]:
    """What may be called a record, or not."""
    return {record for batch in batches for record in batch.doubtful}


def _entry_at(data: bytes, at: int) -> Entry | None:
    """What has the size, magic and CRC of a batch, or of a message."""
    size = 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
    if size < SMALLEST_ENTRY or size > len(data) - at or data[at + 16] > 2:
        return None
    entry = Entry(at, data[at : at + size])
    if entry.magic < 2:
        return entry if zlib.crc32(entry.data[16:]) == int.from_bytes(entry.data[12:16], "big") else None
    is_right = size >= RECORDS_START and crc32c(entry.data[21:]) == int.from_bytes(entry.data[17:21], "big")
    return entry if is_right else None


def _doubtful(entry: Entry, file: str) -> Batch:
    """An entry of which only the size, the magic and the CRC are right."""
    found: list[Found] = []
    with suppress(ValueError, OverflowError):
        if entry.magic < 2:
            message = parse_message(entry)
            inner = inner_messages(message) if entry.codec else [message]
            shift = message.offset - inner[-1].offset if entry.magic and inner else 0
            found += [_found_in_message(entry, replace(each, offset=each.offset + shift)) for each in inner]
        else:
            found += _walk_found(entry)
    first = entry.value("base_offset" if entry.magic == 2 else "offset")
    last = first + (entry.value("last_offset_delta") if entry.magic == 2 else 0)
    last = max([first, last, *(record.offset for record in found)])
    return Batch(file, first, last, False, False, len(entry.data), (), tuple(found), is_sound=False)


def _walk_found(entry: Entry) -> Iterator[Found]:
    base = entry.value("base_offset")
    for body in walk_records(body_of(entry)):
        yield Found(base + body.offset_delta, _digest(entry, body))


def _sound_message(entry: Entry, file: str, segment_base: int) -> Batch | None:
    """A message of magic 0 or 1, or a wrapper of messages that are all in order."""
    last = entry.value("offset")
    try:
        wrapper = parse_message(entry)
        messages = _unwrapped(wrapper) if entry.codec else [wrapper]
    except ValueError:
        return None
    offsets = [message.offset for message in messages]
    is_ordered = offsets == sorted(set(offsets)) and bool(offsets) and offsets[0] >= 0 and offsets[-1] == last
    if wrapper.build() != entry.data or not is_ordered:
        return None
    records = tuple(_found_in_message(entry, message) for message in messages)
    is_far, keys = last - segment_base > LARGEST_RELATIVE_OFFSET, tuple(message.key for message in messages)
    return Batch(file, offsets[0], last, False, is_far, len(entry.data), records, keys=keys)


def _unwrapped(wrapper: Message) -> list[Message]:
    """The messages in a wrapper, with their own offsets. Raises ValueError where Kafka would not have written it."""
    data = decompress(wrapper.attributes & CODEC, wrapper.value or b"", wrapper.magic)
    entries = walk(data)
    inner = [parse_message(entry) for entry in entries if _entry_at(data, entry.position) and not entry.codec]
    is_whole = bool(entries) and entries[-1].end == len(data) and len(inner) == len(entries)
    if not is_whole or any(message.magic != wrapper.magic for message in inner):
        raise ValueError("not as Kafka writes it")
    shift = wrapper.offset - inner[-1].offset if wrapper.magic else 0
    return [replace(message, offset=message.offset + shift) for message in inner]


def _found_in_message(entry: Entry, message: Message) -> Found:
    is_appended = entry.magic == 1 and entry.data[17] & LOG_APPEND_TIME
    time = entry.value("timestamp") if is_appended else message.timestamp
    contents = [message.key or b"", b"\1", message.value or b"", str(time).encode()]
    return Found(message.offset, zlib.crc32(b"".join(contents)))


def _sound(entry: Entry, file: str, segment_base: int) -> Batch | None:
    base, last = entry.value("base_offset"), entry.value("base_offset") + entry.value("last_offset_delta")
    is_control = bool(entry.value("attributes") & CONTROL)
    try:
        bodies = parse_records(body_of(entry))
    except ValueError:
        return None
    deltas = [body.offset_delta for body in bodies]
    # Old producers have sent batches whose last offset is too low: consumers read all that is there.
    is_low = deltas == list(range(len(deltas)))
    is_plausible = deltas == sorted(set(deltas)) and (not deltas or last >= base + deltas[-1] or is_low)
    is_counted = len(bodies) == entry.value("records_count") or last >= base + max(deltas, default=-1)
    if base < 0 or last < base or not is_counted or not is_plausible:
        return None
    records = () if is_control else tuple(Found(base + body.offset_delta, _digest(entry, body)) for body in bodies)
    last = max([last, *(base + delta for delta in deltas)])
    is_far, keys = last - segment_base > LARGEST_RELATIVE_OFFSET, tuple(body.key for body in bodies)
    return Batch(file, base, last, is_control, is_far, len(entry.data), records, keys=keys)


def _digest(entry: Entry, body: Body) -> int:
    """As in Probe.java."""
    is_appended = entry.value("attributes") & LOG_APPEND_TIME
    time = entry.value("max_timestamp") if is_appended else _sum(entry.value("base_timestamp"), body.timestamp_delta)
    names = (name.decode("utf-8", "replace").encode() for name, _ in body.headers)  # Kafka takes them for text
    headers = [part for name, (_, value) in zip(names, body.headers, strict=True) for part in (name, value or b"")]
    return zlib.crc32(b"".join([body.key or b"", b"\1", body.value or b"", *headers, str(time).encode()]))


def _sum(one: int, other: int) -> int:
    """As Java adds longs."""
    return (one + other + 2**63) % 2**64 - 2**63
