"""A log dir that grows, as a stream: `spark.readStream.format("klog")`, by PySpark 4.2 and later.

Offsets are those of Spark's kafka source: {"topic": {"0": 42}}, the next offset of each partition. They are found anew
for each batch of the stream; what is behind the last whole batch of a log is not there yet.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from klogtool.errors import Refused, Unsupported
from klogtool.spark.copies import Copy, end_of
from klogtool.spark.filters import Bounds
from klogtool.spark.offsets import Wanted, name_of, resolve
from klogtool.spark.options import Query, parse_query
from klogtool.spark.planning import split, wanted_copies
from klogtool.spark.readers import KlogPartition, checked_columns, read_partition
from klogtool.spark.transactions import find_committed

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1: make_stream_reader says so
    SupportsTriggerAvailableNow = object

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Offsets = dict[str, dict[str, int]]
LOGGER = logging.getLogger("klogtool.spark")


def make_stream_reader(options: dict[str, str], schema: StructType) -> KlogStreamReader:
    """A stream reader. Raises Unsupported before PySpark 4.2, Refused for a table that has no order to follow."""
    if SupportsTriggerAvailableNow is object:
        raise Unsupported("streams of klog need PySpark 4.2 or later: this one can neither limit nor end them")
    return KlogStreamReader(options, schema)


class KlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows partitions by their files."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        notes: list[str] = []
        self.query: Query = parse_query(options, notes, stream=True)
        if self.query.shape.table != "records":
            raise Refused("only records are a stream: the other tables are for spark.read")
        self.columns = checked_columns("records", schema)
        self._until: Offsets | None = None
        self._waits_since: float | None = None
        _tell(notes)

    def initialOffset(self) -> Offsets:
        """Where startingOffsets and its like say."""
        notes: list[str] = []
        wanted = resolve(self.query, self._copies(notes), notes)
        _tell(notes)
        return _as_json({key_of(w.copy): w.start for w in wanted})

    def getDefaultReadLimit(self) -> Any:
        """As many offsets as maxOffsetsPerTrigger says."""
        return ReadMaxRows(self.query.most_offsets) if self.query.most_offsets else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that the stream will have."""
        self._until = self._ends()

    def reportLatestOffset(self) -> Offsets:
        """What there is, for the progress of the query."""
        return self._ends()

    def latestOffset(self, start: Offsets, limit: Any) -> Offsets:
        """As far as the logs, and the limit, go; at most so many offsets as `limit.max_rows`, if that is a limit.

        Partitions share a limit by what each of them has, as in Spark's kafka source.
        """
        ends = _of_json(self._ends() if self._until is None else self._until)
        first = _of_json(start)
        first |= {key: self._begin(key) for key in ends if key not in first}
        new = {key: max(end - first[key], 0) for key, end in ends.items()}
        if self._is_to_wait(sum(new.values())):
            return start
        most = getattr(limit, "max_rows", None)
        share = new if most is None or most >= sum(new.values()) else _shares(new, most)
        return _as_json(first | {key: first[key] + share[key] for key in new})

    def _is_to_wait(self, total: int) -> bool:
        """Whether there is less than minOffsetsPerTrigger, and not for maxTriggerDelay yet."""
        now = time.monotonic()
        if self._waits_since is None:
            self._waits_since = now
        late = now - self._waits_since >= self.query.most_seconds
        wait = self._until is None and total < self.query.least_offsets and not late
        if not wait:
            self._waits_since = now
        return wait

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """The splits between two offsets. Raises Refused where some of that is gone, unless failOnDataLoss is off."""
        notes: list[str] = []
        copies = {key_of(copy): copy for copy in self._copies(notes)}
        first, wanted = _of_json(start), []
        for key, last in _of_json(end).items():
            copy = copies.get(key)
            begin = first.get(key, 0 if copy is None else copy.log_start_offset)
            if last <= begin:
                continue
            if copy is None or copy.log_start_offset > begin:
                self._lose(f"{key[0]}-{key[1]}: offsets from {begin} on are not there any more", notes)
            if copy is not None:
                wanted.append(self._wanted(copy, max(begin, copy.log_start_offset), last))
        _tell(notes)
        return [KlogPartition(found) for found in split(self.query, wanted, Bounds())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        return read_partition(partition, self.query, self.columns, Bounds())

    def _wanted(self, copy: Copy, start: int, end: int) -> Wanted:
        aborted = find_committed(copy).aborted if self.query.is_committed_only else ()
        return Wanted(copy, start, end, aborted)

    def _lose(self, what: str, notes: list[str]) -> None:
        if self.query.fails_on_data_loss:
            raise Refused(f"{what} (failOnDataLoss is true)")
        notes.append(what)

    def _copies(self, notes: list[str]) -> list[Copy]:
        return [copy for copy in wanted_copies(self.query, notes) if copy.topic is not None]

    def _begin(self, key: tuple[str, int]) -> int:
        """A partition that was not there when the stream began is read from its beginning."""
        return next((copy.log_start_offset for copy in self._copies([]) if key_of(copy) == key), 0)

    def _ends(self) -> Offsets:
        return _as_json({key_of(copy): self._end(copy) for copy in self._copies([])})

    def _end(self, copy: Copy) -> int:
        end = end_of(copy)
        stable = find_committed(copy).last_stable_offset if self.query.is_committed_only else None
        return end if stable is None else min(end, stable)


def key_of(copy: Copy) -> tuple[str, int]:
    """Topic and partition of a copy that has a name."""
    if copy.topic is None or copy.partition is None:
        raise Refused(f"{name_of(copy)} is no partition dir, by its name")
    return copy.topic, copy.partition


def _shares(new: dict[tuple[str, int], int], most: int) -> dict[tuple[str, int], int]:
    """At least one offset of whoever has some, or a partition of few would wait for ever."""
    total = sum(new.values())
    return {key: min(count, max(most * count // total, 1 if count else 0)) for key, count in new.items()}


def _as_json(offsets: dict[tuple[str, int], int]) -> Offsets:
    found: Offsets = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _of_json(offsets: Offsets) -> dict[tuple[str, int], int]:
    return {(topic, int(p)): offset for topic, each in offsets.items() for p, offset in each.items()}


def _tell(notes: Sequence[str]) -> None:
    for note in notes:
        LOGGER.warning("%s", note)
