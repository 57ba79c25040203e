"""Wounds of the batches of a log: a wrong checksum or field, batches that are swapped, doubled, gone.

`file` names a `.log`, or a partition dir: then its last segment's, or that of `segment`. `batch` is a number: 0 is the
first of the file, -1 the last.
"""

from __future__ import annotations

from klogtool.broker.draft import Draft
from klogtool.building.wound_places import find_entry, find_file, splice, wrong
from klogtool.errors import KlogError
from klogtool.format.batch import RECORD_BATCH_OVERHEAD
from klogtool.format.blanking import set_right_checksum
from klogtool.format.entry_fields import put_field
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, MIN_LENGTH


def wrong_crc(draft: Draft, file: str, *, batch: int = -1, segment: int | None = None) -> None:
    """Give a batch a checksum that does not match; its records stay whole."""
    name = find_file(draft, file, segment)
    entry, data = find_entry(draft, name, batch)
    whole = bytearray(data[entry.position : entry.position + entry.size])
    set_right_checksum(memoryview(whole))
    right = bytes(whole)
    put_field(memoryview(whole), "crc", 0)
    if bytes(whole) == right:
        put_field(memoryview(whole), "crc", 1)
    splice(draft, name, entry.position, entry.position + entry.size, (bytes(whole),))


def set_field(
    draft: Draft,
    file: str,
    *,
    field: str,
    value: int,
    batch: int = -1,
    heal: bool = True,
    segment: int | None = None,
) -> None:
    """Set a header field of a batch, by Kafka's name. heal: with a checksum that matches afterwards."""
    name = find_file(draft, file, segment)
    entry, data = find_entry(draft, name, batch)
    whole = bytearray(data[entry.position : entry.position + entry.size])
    try:
        put_field(memoryview(whole), field, value)
    except KlogError as error:
        raise wrong(draft, name, error.reason) from None
    if heal and _has_checksum(whole):
        set_right_checksum(memoryview(whole))
    splice(draft, name, entry.position, entry.position + entry.size, (bytes(whole),))


def _has_checksum(entry: bytearray) -> bool:
    """Return whether the entry is as large as its magic says at least."""
    is_batch = entry[HEADER_SIZE_UP_TO_MAGIC - 1] >= 2
    return len(entry) >= (RECORD_BATCH_OVERHEAD if is_batch else MIN_LENGTH)


def swap_batches(draft: Draft, file: str, *, batch: int = -2, segment: int | None = None) -> None:
    """Swap a batch with the one behind it; -2 swaps the last two. Raises KlogError if there is none behind it."""
    name = find_file(draft, file, segment)
    first, data = find_entry(draft, name, batch)
    if batch == -1:
        raise wrong(draft, name, "there is no batch behind the last one")
    second, _ = find_entry(draft, name, batch + 1)
    start, middle, stop = first.position, second.position, second.position + second.size
    splice(draft, name, start, stop, (data[middle:stop], data[start:middle]))


def duplicate_batch(draft: Draft, file: str, *, batch: int = -1, segment: int | None = None) -> None:
    """Write a batch a second time behind itself."""
    name = find_file(draft, file, segment)
    entry, data = find_entry(draft, name, batch)
    stop = entry.position + entry.size
    splice(draft, name, stop, stop, (data[entry.position : stop],))


def drop_batch(draft: Draft, file: str, *, batch: int = -1, segment: int | None = None) -> None:
    """Take a batch out; the bytes behind it move forward."""
    name = find_file(draft, file, segment)
    entry, _ = find_entry(draft, name, batch)
    splice(draft, name, entry.position, entry.position + entry.size, ())
