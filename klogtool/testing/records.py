"""assert_records: a log has these records, and no others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias, Unpack

from klogtool.broker.unified_log.loaded_partition import load
from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.log.segment import Segment
from klogtool.objects import circumstances_of
from klogtool.testing.record_diff import diff_text
from klogtool.testing.record_form import RecordLike, fields_of

if TYPE_CHECKING:
    from klogtool.log.entries import Entry
    from klogtool.objects import KnownArguments

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]

MOST_MORE = 1000  # records that are read beyond those that are expected
_FETCH_BYTES = 1 << 30


def assert_records(
    path: str | os.PathLike[str],
    expected: Iterable[RecordLike],
    *,
    isolation: Isolation = "read_uncommitted",
    until_damage: bool = False,
    **known: Unpack[KnownArguments],
) -> None:
    """Assert that a partition dir, or one `.log`, has exactly these records, in this order. Control records do not
    count.

    expected: of each record the fields that matter: a mapping with `offset`, `timestamp`, `key`, `value`, `headers`; a
    pair (key, value); or a Record. Keys and values are bytes, text (UTF-8) or None. Headers are pairs or a mapping.
    isolation: read_committed reads as such a consumer does: up to the last stable offset, without aborted records.
    until_damage: compare the records in front of the first damage; otherwise damage fails. known: what a
    broker would know, for read_committed.

    Raises AssertionError with a diff; KlogError for a path that has no records, and for an expectation of a wrong form.
    """
    __tracebackhide__ = True
    wanted = [fields_of(each, number) for number, each in enumerate(expected)]
    name, walk = _walk(os.fspath(path), isolation, known)
    records, damage = _read(walk, len(wanted) + MOST_MORE)
    difference = diff_text(name, wanted, records, is_all=len(records) < len(wanted) + MOST_MORE)
    if damage is not None and not until_damage:
        before = difference or f"{name} has these records, and then damage."
        difference = f"{before}\nreading ended: {damage}"
    if difference:
        raise AssertionError(difference)


def _walk(path: str, isolation: Isolation, known: KnownArguments) -> tuple[str, Iterator[Entry]]:
    """Return the path's own name, and its batches that have data."""
    opened = open_path(path)
    if not isinstance(opened, Partition | Segment):
        raise KlogError("neither a partition dir nor a .log", path=path)
    name = os.path.basename(os.path.abspath(path))
    if isolation == "read_uncommitted":
        return name, _uncommitted([opened] if isinstance(opened, Segment) else opened.segments)
    if isolation != "read_committed" or isinstance(opened, Segment):
        raise KlogError("isolation is read_uncommitted, or for a partition dir also read_committed", path=path)
    return name, _committed(path, known)


def _uncommitted(segments: Sequence[Segment]) -> Iterator[Entry]:
    for segment in segments:
        for batch in segment.batches():
            if not batch.crc_valid:
                raise KlogError("the checksum does not match", path=batch.path, position=batch.position)
            if not batch.is_control:
                yield batch
        if tail := segment.tail_bytes():
            raise KlogError(f"{tail:,} bytes are no whole batch", path=segment.path, position=segment.size - tail)


def _committed(path: str, known: KnownArguments) -> Iterator[Entry]:
    """Yield what a consumer with read_committed gets."""
    loaded = load(path, circumstances_of(known))
    offset, end = loaded.log_start_offset, loaded.last_stable_offset
    while offset < end:
        fetched = loaded.read(offset, _FETCH_BYTES, min_one_message=True, isolation="read_committed")
        reached = offset
        for batch in fetched.batches():
            reached = batch.last_offset + 1
        yield from fetched.batches(committed_only=True)
        if reached <= offset:
            return
        offset = reached


def _read(batches: Iterator[Entry], most: int) -> tuple[list[Record], KlogError | None]:
    """Return the records, `most` of them at most, and the damage that ended them."""
    records: list[Record] = []
    try:
        for record in islice((record for batch in batches for record in batch.records()), most):
            records.append(record)
    except KlogError as damage:
        return records, damage
    return records, None
