"""What tasks do, done here one after the other, in place of a session: what crosses between machines is pickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

from klogtool.spark.starting import Session


class Rows:
    """An RDD, as far as klogtool asks one."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items

    def map(self, work: Callable[[Any], Any]) -> Rows:
        sent = pickle.loads(pickle.dumps(work))
        return Rows(pickle.loads(pickle.dumps(sent(pickle.loads(pickle.dumps(item))))) for item in self._items)

    def flatMap(self, work: Callable[[Any], Iterable[Any]]) -> Rows:
        sent = pickle.loads(pickle.dumps(work))
        return Rows(pickle.loads(pickle.dumps(row)) for item in self._items for row in sent(item))

    def partitionBy(self, parts: int, part_of: Callable[[Any], int]) -> Rows:
        """Each part becomes an item, its rows in an order that is not theirs."""
        rows = list(self._items)[::-1]
        return Rows([row for row in rows if part_of(row[0]) % parts == part] for part in range(parts))

    def mapPartitions(self, work: Callable[[Iterable[Any]], Iterable[Any]]) -> Rows:
        return self.flatMap(work)

    def collect(self) -> list[Any]:
        return list(self._items)


class Context:
    """A SparkContext of two cores."""

    defaultParallelism = 2

    def parallelize(self, items: list[Any], slices: int) -> Rows:
        assert slices == len(items)
        return Rows(items)

    def statusTracker(self) -> Context:
        return self

    def getActiveStageIds(self) -> list[int]:
        return []


class Spark:
    """A SparkSession."""

    sparkContext = Context()


HERE = Session(Spark(), "no log")
