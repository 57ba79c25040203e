"""Records of compressed batches that are larger than max.decompressed.message.bytes (DefaultRecord.readFrom,
AbstractLegacyRecordBatch.DataLogInputStream).

A broker that knows the setting does not read such a record: appends, lookups by time and the cleaner fail at it. The
size is that in front of a record of magic 2, or that of a message inside a wrapper.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from klogtool.errors import Corrupt, KlogError
from klogtool.format.batch import inflate as inflate_batch
from klogtool.format.framing import LOG_OVERHEAD, MIN_LENGTH
from klogtool.format.layouts import ENTRY_HEAD
from klogtool.format.message import inflate as inflate_message
from klogtool.format.varint import VARINT_BITS, Overlong, read_zigzag
from klogtool.log.entries import Entry, RecordBatch

_LONGEST_VARINT = 5
AnyRecord = TypeVar("AnyRecord")


class TooLarge(Struct, frozen=True):
    """A record that is too large. number: how many records of the batch are read before a broker meets it."""

    number: int
    size: int
    limit: int

    def error(self, entry: Entry) -> Corrupt:
        """Return the error with which a broker fails at it."""
        return Corrupt(
            f"Invalid record size: {self.size} exceeds the configured maximum record size of {self.limit}.",
            path=entry.path or None,
            position=entry.position,
            kafka_class="InvalidRecordException",
        )


def walk_limited(entry: Entry, records: Iterator[AnyRecord], limit: int | None) -> Iterator[AnyRecord]:
    """Yield the records of an entry up to one that is too large, and raise its error there. limit None: there is
    none."""
    too_large = None if limit is None else find_too_large(entry, limit)
    if too_large is None:
        yield from records
        return
    yield from islice(records, too_large.number)
    raise too_large.error(entry)


def find_too_large(entry: Entry, limit: int) -> TooLarge | None:
    """Return the first record of an entry that is too large. None if there is none, if the entry is not compressed, or
    if it cannot be read: its reader says why."""
    body = _inflated(entry)
    if body is None:
        return None
    if not isinstance(entry, RecordBatch):
        return _find_message(body, limit)
    return _find_record(body, entry.records_count, limit) if len(body) > limit else None


def may_have_too_large(entry: Entry, limit: int) -> bool:
    """Whether an entry has more bytes than the limit, once it is decompressed, so that its records have to be looked
    at."""
    body = _inflated(entry)
    return body is not None and len(body) > limit


def _inflated(entry: Entry) -> bytes | None:
    try:
        if entry.codec == "none":
            return None
        if isinstance(entry, RecordBatch):
            return inflate_batch(entry) if entry.records_count > 0 else None
        return inflate_message(entry)
    except KlogError:
        return None


def _find_record(body: bytes, count: int, limit: int) -> TooLarge | None:
    at = 0
    for number in range(count):
        reader = BytesIO(body[at : at + _LONGEST_VARINT])
        try:
            size = read_zigzag(reader.read, VARINT_BITS)
        except (EOFError, Overlong):
            return None
        if size > limit:
            return TooLarge(number, size, limit)
        at += reader.tell() + size
        if size < 0 or at > len(body):
            return None
    return None


def _find_message(body: bytes, limit: int) -> TooLarge | None:
    """All messages inside a wrapper are read before the first one is used."""
    at = 0
    while len(body) - at >= LOG_OVERHEAD:
        size = ENTRY_HEAD.parse(body[at : at + LOG_OVERHEAD]).message_size
        if size < MIN_LENGTH:
            return None
        if size > limit:
            return TooLarge(0, size, limit)
        at += LOG_OVERHEAD + size
    return None
