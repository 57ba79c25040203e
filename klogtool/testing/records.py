"""assert_records: a log has these records, and no others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, Literal, TypeAlias, Unpack

from klogtool.broker.unified_log.loaded_partition import load
from klogtool.errors import KlogError
from klogtool.escape import escaped
from klogtool.format.batch import Header, Record
from klogtool.log.entries import Entry
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.log.segment import Segment
from klogtool.objects import circumstances_of
from klogtool.render.words import count_text
from klogtool.testing.builder import FIELDS, Fields, RecordLike, all_fields, fields_of
from klogtool.testing.known import KnownArguments

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]

MOST_MORE = 1000  # records that are read beyond those that are expected
_FETCH_BYTES = 1 << 30
MOST_LINES = 40
MOST_ALIGNED = 500  # records; more are compared one by one, because aligning takes time in their square
_SHOWN = 40  # characters of a key or value
_BEFORE = 10  # of these in front of the first difference


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
        records.extend(islice((record for batch in batches for record in batch.records()), most))
    except KlogError as damage:
        return records, damage
    return records, None


# The difference, as lines for people.


def diff_text(name: str, expected: Sequence[Fields], actual: Sequence[Record], *, is_all: bool) -> str:
    """Return what differs; "" if nothing does. is_all: there are no further records."""
    lines = list(_lines(expected, actual))
    if not lines:
        return ""
    shown, left = lines[:MOST_LINES], len(lines) - MOST_LINES
    counted = f"{'' if is_all else 'at least '}{count_text(len(actual), 'record')}"
    head = f"{name} has other records than expected: {len(expected):,} expected, {counted} found."
    more = [f"  ... and {count_text(left, 'more line')}"] if left > 0 else []
    return "\n".join([head, "  - expected, not found; + found, not expected", *shown, *more])


def _lines(expected: Sequence[Fields], actual: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of the diff, with one equal record in front of each difference."""
    start = _common(expected, actual)
    stop = _common(expected[start:][::-1], actual[start:][::-1])
    wanted, seen = expected[start : len(expected) - stop], actual[start : len(actual) - stop]
    if (wanted or seen) and start:
        yield from _equal(actual[start - 1])
    for first, behind, first_actual, behind_actual, is_equal in _blocks(wanted, seen):
        if is_equal:
            yield from _equal(seen[behind_actual - 1])
            continue
        pairs = min(behind - first, behind_actual - first_actual)
        for number in range(pairs):
            yield from _changed(wanted[first + number], seen[first_actual + number])
        yield from (f"  - {_shown(each)}" for each in wanted[first + pairs : behind])
        yield from (f"  + {_shown(all_fields(each))}" for each in seen[first_actual + pairs : behind_actual])
    if (wanted or seen) and stop:
        yield from _equal(actual[len(actual) - stop])


def _common(expected: Sequence[Fields], actual: Sequence[Record]) -> int:
    """Return how many records are equal from the start on."""
    at = 0
    while at < min(len(expected), len(actual)) and _fits(expected[at], actual[at]):
        at += 1
    return at


def _fits(expected: Fields, actual: Record) -> bool:
    return all(getattr(actual, name) == value for name, value in expected.items())


def _blocks(wanted: Sequence[Fields], seen: Sequence[Record]) -> Iterator[tuple[int, int, int, int, bool]]:
    """Yield stretches of both sides, and whether they are equal."""
    if not wanted and not seen:
        return
    if max(len(wanted), len(seen)) > MOST_ALIGNED:
        yield 0, len(wanted), 0, len(seen), False
        return
    names = [name for name in FIELDS if all(name in each for each in wanted)]
    by_content = [name for name in names if name not in ("offset", "timestamp")] or names
    left = [tuple(each[name] for name in by_content) for each in wanted]
    right = [tuple(getattr(each, name) for name in by_content) for each in seen]
    for tag, first, behind, first_actual, behind_actual in SequenceMatcher(None, left, right, False).get_opcodes():
        same = tag == "equal" and all(_fits(wanted[first + n], seen[first_actual + n]) for n in range(behind - first))
        yield first, behind, first_actual, behind_actual, same


def _equal(record: Record) -> Iterator[str]:
    yield f"    {_shown(all_fields(record))}"


def _changed(expected: Fields, actual: Record) -> Iterator[str]:
    """Yield a record that was found in place of another: both, and from which byte on they differ."""
    if _fits(expected, actual):
        yield from _equal(actual)
        return
    starts = {name: _first_difference(value, getattr(actual, name)) for name, value in expected.items()}
    yield f"  - {_shown(expected, starts)}"
    yield f"  + {_shown(all_fields(actual), starts)}"
    for name, at in starts.items():
        if at is not None and at > _SHOWN - _BEFORE:
            yield f"      {name}: the first {at:,} bytes are equal"


def _first_difference(expected: Any, actual: Any) -> int | None:
    """Return the first byte that differs; None if none does, or there are no bytes."""
    if expected == actual or not isinstance(expected, bytes) or not isinstance(actual, bytes):
        return None
    longest = min(len(expected), len(actual))
    return next((at for at in range(longest) if expected[at] != actual[at]), longest)


def _shown(fields: Fields, starts: Mapping[str, int | None] | None = None) -> str:
    """Show a record in a line. starts: from which byte on keys and values matter."""
    parts = []
    for name in FIELDS:
        value = fields.get(name)
        if isinstance(value, int):
            parts.append(f"{'time' if name == 'timestamp' else name} {value}")
        elif isinstance(value, tuple):
            parts += ["headers " + ", ".join(map(_header_text, value))] if value else []
        elif name in ("key", "value") and name in fields:
            parts.append(f"{name} {_bytes_text(value, (starts or {}).get(name) or 0)}")
    return "  ".join(parts)


def _header_text(header: Header) -> str:
    return f"{_bytes_text(header.key, 0)}={_bytes_text(header.value, 0)}"


def _bytes_text(value: bytes | None, start: int) -> str:
    """Show a key or value: as text if it is UTF-8, else in hex; a long one from shortly before `start` on."""
    if value is None:
        return "null"
    first = max(0, start - _BEFORE) if len(value) > _SHOWN else 0
    part = value[first : first + _SHOWN]
    try:
        text = f"'{escaped(part.decode())}'"
    except UnicodeDecodeError:
        text = f"0x{part.hex()}"
    return f"{'...' if first else ''}{text}{'...' if first + _SHOWN < len(value) else ''}"
