"""A stream of the source `klog` without Spark, played batch by batch."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from planned import given

from klogtool.spark.filters import Bounds
from klogtool.spark.following import Follower, shared
from klogtool.spark.options import parse_query
from klogtool.spark.reading import Task, read_split
from klogtool.spark.stream_progress import as_json, of_json

START = {"startingOffsets": "earliest"}


class Stream:
    """A stream that is begun anew for each batch, as after a restart; `json` is its checkpoint."""

    def __init__(self, path: pathlib.Path, *, mode: str = "FAILFAST", **options: Any) -> None:
        self._path, self._mode, self._options = path, mode, {**START, **options}
        self.json = json.dumps(as_json(self._follower().begin([])))

    def _follower(self) -> Follower:
        return Follower(parse_query(given(self._path, self._options), [], stream=True))

    def batch(self, *, most: int | None = None, **options: Any) -> tuple[list[tuple[int, int]], list[str]]:
        """(partition, offset) of the rows of one batch, and the warnings."""
        self._options |= options
        before, follower = of_json(json.loads(self.json)), self._follower()
        after = json.dumps(as_json(shared(follower.steps(before, follower.look()), most)))
        notes: list[str] = []
        splits = self._follower().splits(before, of_json(json.loads(after)), notes)
        task = Task(("partition", "offset"), Bounds(), self._mode)
        rows = [row for split in splits for batch in read_split(split, task) for row in batch.to_pylist()]
        self.json = after
        return [(row["partition"], row["offset"]) for row in rows], notes
