"""A growing log dir as a stream: `spark.readStream.format("klog")`, with PySpark 4.2 and later.

This is what Spark calls; `following` follows the logs, and `stream_progress` has the contents of the checkpoint. Ends
are found again for each batch of the stream; an incomplete batch at the end of a log does not exist yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from klogtool.errors import Refused, Unsupported
from klogtool.spark.causes import OptionCause
from klogtool.spark.filters import Bounds
from klogtool.spark.following import Follower, shared
from klogtool.spark.notes import log_warning
from klogtool.spark.options import Query, parse_query
from klogtool.spark.source_reader import KlogPartition, columns_wanted, read_partition, renamed
from klogtool.spark.stream_progress import Key, LogNow, Reached, as_json, of_json

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1: make_stream_reader reports it
    SupportsTriggerAvailableNow = object

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Offsets = dict[str, Any]


def make_stream_reader(options: dict[str, str], schema: StructType) -> KlogStreamReader:
    """Return a stream reader. Raises Unsupported before PySpark 4.2, Refused for a table without an order to follow."""
    if SupportsTriggerAvailableNow is object:
        raise Unsupported(OptionCause.OLD_PYSPARK())
    return KlogStreamReader(options, schema)


class KlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows partitions by their files."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        notes: list[str] = []
        self.query: Query = parse_query(options, notes, stream=True)
        if self.query.shape.table != "records":
            raise Refused(OptionCause.STREAM_OF_RECORDS())
        self.columns = columns_wanted(self.query, schema)
        self.names = tuple(schema.fieldNames())
        self._follower = Follower(self.query)
        self._until: Mapping[Key, LogNow] | None = None
        self._waits_since: float | None = None
        _tell(notes)

    def initialOffset(self) -> Offsets:
        """Return the offsets of startingOffsets and similar options."""
        notes: list[str] = []
        offsets = as_json(self._follower.begin(notes))
        _tell(notes)
        return offsets

    def getDefaultReadLimit(self) -> Any:
        """Return the limit of maxOffsetsPerTrigger."""
        return ReadMaxRows(self.query.most_offsets) if self.query.most_offsets else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the current ends as the end of the stream."""
        self._until = self._follower.look()

    def reportLatestOffset(self) -> Offsets:
        """Return the current ends, for the progress of the query."""
        return as_json({key: Reached(log.readable, log.topic_id) for key, log in self._follower.look().items()})

    def latestOffset(self, start: Offsets, limit: Any) -> Offsets:
        """Return how far to read: to the ends of the logs, limited by `limit.max_rows` offsets if there is a limit.

        Raises Refused if data is lost, unless failOnDataLoss is off.
        """
        before = of_json(start)
        steps = self._follower.steps(before, self._follower.look() if self._until is None else self._until)
        grows_only = before.keys() == steps.keys() and all(steps[key].first == r.end for key, r in before.items())
        if grows_only and self._is_to_wait(sum(step.offsets for step in steps.values())):
            return start
        return as_json(shared(steps, getattr(limit, "max_rows", None)))

    def _is_to_wait(self, total: int) -> bool:
        """Return whether there are fewer than minOffsetsPerTrigger, and maxTriggerDelay is not over."""
        now = time.monotonic()
        if self._waits_since is None:
            self._waits_since = now
        late = now - self._waits_since >= self.query.most_seconds
        wait = self._until is None and total < self.query.least_offsets and not late
        if not wait:
            self._waits_since = now
        return wait

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the splits between two offsets. Raises Refused if some of that is gone, unless failOnDataLoss is
        off."""
        notes: list[str] = []
        splits = self._follower.splits(of_json(start), of_json(end), notes)
        _tell(notes)
        return [KlogPartition(part) for part in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        return renamed(read_partition(partition, self.query, self.columns, Bounds()), self.names)


def _tell(notes: Sequence[str]) -> None:
    for note in notes:
        log_warning(note)
