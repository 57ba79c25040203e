"""Follows growing partitions by their files: how far there is something to read, and what the tasks read of it.

Knows nothing of Spark; `streaming` is what Spark calls. Lost data is an error before any of it is written to the
checkpoint, so that a disk that was absent can come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from klogtool.causes import Reason
from klogtool.errors import Refused
from klogtool.format.uuids import build_uuid
from klogtool.spark.causes import LogCause, SparkCure, StreamCause
from klogtool.spark.copies import Copy, end_of
from klogtool.spark.filters import Bounds
from klogtool.spark.offsets import Wanted, name_of, resolve
from klogtool.spark.options import Query
from klogtool.spark.planning import Split, split, wanted_copies
from klogtool.spark.read_committed import find_committed
from klogtool.spark.stream_progress import (
    Key,
    LogNow,
    Reached,
    Step,
    changed,
    first_of,
    gone,
    lost_between,
    step_of,
)

Offsets = Mapping[Key, Reached]


class Follower:
    """Follows the partitions of a query."""

    def __init__(self, query: Query) -> None:
        self.query = query

    def begin(self, notes: list[str]) -> dict[Key, Reached]:
        """Return the offsets of the query's startingOffsets. Raises Refused if a topic does not exist."""
        copies = _with_names(wanted_copies(self.query, notes))
        return {key_of(w.copy): Reached(w.start, _topic_id(w.copy)) for w in resolve(self.query, copies, notes)}

    def look(self) -> dict[Key, LogNow]:
        """Return all logs that exist now."""
        return {key: self._now(copy) for key, copy in self._copies([]).items()}

    def steps(self, before: Offsets, now: Mapping[Key, LogNow]) -> dict[Key, Step]:
        """Return what there is to read. Raises Refused if some of it is gone, unless failOnDataLoss is off."""
        steps = {key: step_of(before.get(key), log) for key, log in now.items()}
        if self.query.fails_on_data_loss:
            after = {key: step.reached for key, step in steps.items()}
            self._tell(_lost(before, after, {key: log.start for key, log in now.items()}), [])
        return steps

    def splits(self, before: Offsets, after: Offsets, notes: list[str]) -> list[Split]:
        """Return what tasks read between two offsets. Raises Refused if some of that is gone, unless failOnDataLoss is
        off: then `notes` gets a line for each loss."""
        copies = self._copies(notes)
        starts = {key: copy.log_start_offset for key, copy in copies.items()}
        lost, wanted = _lost(before, after, starts), []
        for key, reached in after.items():
            reached_now = self._wanted(copies.get(key), key, before.get(key), reached, lost)
            wanted += [] if reached_now is None else [reached_now]
        self._tell(lost, notes)
        return split(self.query, wanted, Bounds())

    def _wanted(
        self, copy: Copy | None, key: Key, before: Reached | None, after: Reached, lost: list[Reason]
    ) -> Wanted | None:
        """Return what is read of a partition. lost: gets a reason for data that is no longer there."""
        first = first_of(before, after, 0 if copy is None else copy.log_start_offset)
        if first >= after.end:
            return None
        if copy is None:
            lost.append(gone([key]))
            return None
        topic_id = _topic_id(copy)
        if after.topic_id is not None and topic_id not in (None, after.topic_id):
            lost.append(changed(key, after, Reached(end_of(copy), topic_id)))
            return None
        end = min(after.end, end_of(copy))
        if end < after.end:
            lost.append(changed(key, after, Reached(end, after.topic_id)))
        aborted = find_committed(copy).aborted if self.query.is_committed_only else ()
        return Wanted(copy, max(first, copy.log_start_offset), end, aborted) if end > first else None

    def _tell(self, lost: list[Reason], notes: list[str]) -> None:
        if not self.query.fails_on_data_loss:
            notes += map(str, lost)
        elif lost:
            more = len(lost) - 1
            reason = StreamCause.AND_MORE(lost=lost[0], more=more) if more else lost[0]
            raise Refused(reason, cure=SparkCure.WITHOUT_LOST())

    def _copies(self, notes: list[str]) -> dict[Key, Copy]:
        """List the copies. A stream continues if a topic is gone: what that means depends on how far it was read."""
        return {key_of(copy): copy for copy in _with_names(wanted_copies(self.query, notes, may_be_gone=True))}

    def _now(self, copy: Copy) -> LogNow:
        end = end_of(copy)
        stable = find_committed(copy).last_stable_offset if self.query.is_committed_only else None
        return LogNow(copy.log_start_offset, end, end if stable is None else min(end, stable), _topic_id(copy))


def _lost(before: Offsets, after: Offsets, starts: Mapping[Key, int]) -> list[Reason]:
    """Return what a stream misses between two offsets. starts: the log start offset of each existing partition."""
    absent = [key for key in before if key not in after]
    lost = [gone(absent)] if absent else []
    losses = (lost_between(key, before.get(key), reached, starts.get(key, 0)) for key, reached in after.items())
    return lost + [loss for loss in losses if loss is not None]


def _with_names(copies: Iterable[Copy]) -> list[Copy]:
    return [copy for copy in copies if copy.topic is not None]


def _topic_id(copy: Copy) -> str | None:
    topic_id = copy.topic_id
    return None if topic_id is None else build_uuid(topic_id)


def key_of(copy: Copy) -> Key:
    """Return topic and partition of a copy that has a name."""
    if copy.topic is None or copy.partition is None:
        raise Refused(LogCause.NOT_NAMED(name=name_of(copy)))
    return copy.topic, copy.partition


def shared(steps: Mapping[Key, Step], most: int | None) -> dict[Key, Reached]:
    """Return how far each partition is read if all together return at most `most` offsets; None: no limit.

    They share in proportion to what each has, as in Spark's kafka source. A partition that has some gives at least one,
    or a partition with few would wait for ever.
    """
    total: Any = sum(step.offsets for step in steps.values())
    if most is None or most >= total:
        return {key: step.reached for key, step in steps.items()}
    parts = {key: max(most * step.offsets // total, min(step.offsets, 1)) for key, step in steps.items()}
    return {key: step.shortened(parts[key]).reached for key, step in steps.items()}
