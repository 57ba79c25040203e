"""`klogtool.scan`: the records of a path as an Arrow stream that any engine reads.

Nothing is read before a reader is made, and each reader begins again: DuckDB, Polars, DataFusion and pyarrow take the
object as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from klogtool.errors import KlogError
from klogtool.format.names import FileKind, parse_file_name
from klogtool.format.typed import Moment, parse_moment, whole_number
from klogtool.log.entries import Entry, walk_entries
from klogtool.log.file import ReadErrors
from klogtool.render.arrow import OnDamage, RecordQuery, find_logs, schema, walk_files
from klogtool.render.selection import LARGEST, SMALLEST, Selection

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.compute import Expression

else:
    Expression = Any  # help(LogScan) asks for it, and pyarrow is an extra

Path = str | os.PathLike[str]


class LogScan(Struct, frozen=True, eq=False):
    """The records of some log files, not read yet. Made by `klogtool.scan`.

    Each reader reads the files anew, and sees what they contain then.
    """

    paths: tuple[str, ...]
    query: RecordQuery
    filter: Expression | None = None

    def __post_init__(self) -> None:
        """Look up the columns, so that a wrong name is an error at once. Raises ValueError."""
        _ = self._read

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return schema(self.query.columns)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a `pyarrow.RecordBatchReader`: it reads as far as it is asked to.

        It raises `klogtool.Corrupt` or `Unsupported` at damage, after the records before that place.
        """
        import pyarrow

        return pyarrow.RecordBatchReader.from_batches(self.schema, self._batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a new reader as a capsule of Arrow's C stream interface. Engines call this."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        count = len(self.paths)
        return f"<klogtool.LogScan of {count} file{'s' * (count != 1)}: {', '.join(self.schema.names)}>"

    @property
    def _read(self) -> tuple[str, ...] | None:
        """The columns that are read: those of the result, and those that the filter needs."""
        names = self.schema.names
        more = () if self.filter is None else _columns_in(self.filter)
        return None if self.query.columns is None else tuple(dict.fromkeys((*names, *more)))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        on_damage = self.query.on_damage or self._raise_if_needed()
        batches = walk_files(self.paths, replace(self.query, columns=self._read, on_damage=on_damage))
        return batches if self.filter is None else _filtered(batches, self.filter, self.schema.names)

    def _raise_if_needed(self) -> OnDamage | None:
        """Return what raises an error unless no wanted offset is in the damaged batch; None: any error is raised."""
        wanted = self.query.selection
        if wanted is None or wanted.offsets == (SMALLEST, LARGEST):
            return None
        offsets, files = wanted.offsets, list[UnneededDamage]()

        def judge(error: KlogError) -> None:
            if error.path is None or error.position is None:
                raise error
            if not files or files[-1].path != error.path:
                files[:] = [UnneededDamage(error.path, offsets)]
            if files[-1].is_needed(error.position):
                raise error

        return judge


def scan(
    path: Path | Iterable[Path],
    *,
    columns: Sequence[str] | None = None,
    offsets: tuple[int | None, int | None] | None = None,
    times: tuple[Moment | None, Moment | None] | None = None,
    producer_id: int | None = None,
    key: bytes | None = None,
    grep: bytes | None = None,
    filter: Expression | None = None,
    with_control: bool = True,
    jobs: int | None = None,
    on_damage: OnDamage | None = None,
    resync: bool = False,
) -> LogScan:
    """Return the records of a log file, a partition dir or a log dir, or of several, as an Arrow stream.

    A partition dir gives all its `.log` files, in order of base offset. A log dir gives all its partition dirs, in
    order of topic and partition, except those that are marked for deletion, strays or future replicas.

    columns: only these, in this order. offsets, times: the first and the last one, inclusive, None for no bound; a time
    is epoch ms, ISO 8601 (UTC) or a datetime. producer_id, key: equal to this. grep: bytes that are in the key or the
    value. filter: a `pyarrow.compute` expression over any of the columns. with_control: include control records. jobs:
    threads, default one for each core, at most 4.

    on_damage: called with each error about the bytes, and reading goes on; without it, the reader raises the error,
    unless the batches before and after show that no wanted offset is in the damaged batch.
    resync: also search for the next batch after bytes that are not a batch.

    Raises KlogError for a path that cannot be read, ValueError for an unknown column or a number of more than 64 bits,
    TypeError for an offset or a producer id that is no whole number, or a key that is not bytes, Unsupported without
    pyarrow.
    """
    for name, value in (("key", key), ("grep", grep)):
        if not isinstance(value, bytes | None):
            raise TypeError(f"{name} has to be bytes, not {value!r}")
    producer = None if producer_id is None else whole_number("producer_id", producer_id)
    bounds = _span(offsets, partial(whole_number, "an offset")), _span(times, parse_moment)
    wanted = Selection(*bounds, producer, key, grep or None)
    for number in (*wanted.offsets, *wanted.timestamps, producer or 0):
        if not SMALLEST <= number <= LARGEST:
            raise ValueError(f"offsets, times and producer ids have 64 bits, got {number}")
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    for one in paths:
        with ReadErrors(os.fspath(one)):
            os.stat(one)
    query = RecordQuery(
        columns=None if columns is None else tuple(columns),
        selection=None if wanted == Selection() else wanted,
        with_control=with_control,
        on_damage=on_damage,
        resync=resync,
        jobs=jobs,
    )
    return LogScan(tuple(log for one in paths for log in _within(find_logs(one), wanted.offsets)), query, filter)


def columns(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    jobs: int | None = None,
    with_control: bool = True,
    on_damage: OnDamage | None = None,
    resync: bool = False,
) -> pa.RecordBatchReader:
    """Return the record batches of `scan`, read once. `scan` can select records, and an engine can read it again."""
    records = scan(path, columns=columns, jobs=jobs, with_control=with_control, on_damage=on_damage, resync=resync)
    return records.to_reader()


def _span(bounds: tuple[Any, Any] | None, parsed: Callable[[Any], int]) -> tuple[int, int]:
    first, last = bounds or (None, None)
    return SMALLEST if first is None else parsed(first), LARGEST if last is None else parsed(last)


def _within(logs: list[str], offsets: tuple[int, int]) -> Iterator[str]:
    """Yield the files that may have such offsets, by their names, as a broker looks them up."""
    for log, after in pairwise([*logs, ""]):
        base, end = _base_offset(log), _base_offset(after)
        is_beside = os.path.dirname(log) == os.path.dirname(after)
        ends_before = base is not None and end is not None and base < end <= offsets[0] and is_beside
        if not ends_before and (base is None or base <= offsets[1]):
            yield log


def _base_offset(log: str) -> int | None:
    name = parse_file_name(os.path.basename(log))
    return name.base_offset if name.kind is FileKind.LOG else None


def _filtered(
    batches: Iterable[pa.RecordBatch], expression: Expression, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow

    for batch in batches:
        yield from pyarrow.Table.from_batches([batch]).filter(expression).select(names).to_batches()


def _columns_in(expression: Expression) -> list[str]:
    """Return the columns without which an expression has no value: pyarrow does not tell them."""
    every = schema()
    if not _has_value(expression, every):
        raise ValueError(f"the filter does not fit the columns: {expression}")
    without = {name: every.remove(n) for n, name in enumerate(every.names)}
    return [name for name, rest in without.items() if not _has_value(expression, rest)]


def _has_value(expression: Expression, columns: pa.Schema) -> bool:
    import pyarrow

    try:
        columns.empty_table().filter(expression)
    except pyarrow.ArrowException:
        return False
    return True


class UnneededDamage:
    """Tells of damage in one log file, in the order of the file, whether a wanted offset may be in it.

    The offsets of a damaged batch may be what is wrong, and a base offset is under no checksum. So those of the batches
    before and after it count, and only if its own are between them. What is not sure may be wanted.
    """

    def __init__(self, path: str, offsets: tuple[int, int]) -> None:
        self.path = path
        self._first, self._last = offsets
        self._entries = _readable_entries(path)
        self._end: int | None = None
        self._continues = self._is_ascending = True
        self._entry, self._after = next(self._entries, None), next(self._entries, None)

    def is_needed(self, position: int) -> bool:
        """Return whether a wanted offset may be in the batch at a position, or behind it if no batch is there."""
        while self._entry is not None and self._entry.position + self._entry.size <= position:
            self._pass(self._entry)
        if not self._is_ascending:
            return True
        if self._entry is None:
            return self._end is None or not self._continues or self._end <= self._last
        first, last = _first_offset(self._entry), self._entry.last_offset
        end, after = self._end or 0, LARGEST if self._after is None else _first_offset(self._after)
        return not end <= first <= last < after or (end <= self._last and self._first < after)

    def _pass(self, entry: Entry) -> None:
        """Take the batch that comes next. _end: the offset after those so far, which continues: without a gap."""
        first = _first_offset(entry)
        self._is_ascending = self._is_ascending and (self._end or 0) <= first <= entry.last_offset
        self._continues = first == self._end
        self._end = entry.last_offset + 1
        self._entry, self._after = self._after, next(self._entries, None)


def _first_offset(entry: Entry) -> int:
    return entry.last_offset if entry.base_offset is None else entry.base_offset


def _readable_entries(path: str) -> Iterator[Entry]:
    """Yield the entries before an impossible length. What ends them is judged by those who read the records."""
    with suppress(KlogError):
        yield from walk_entries(path)
