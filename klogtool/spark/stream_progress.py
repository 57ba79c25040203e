"""How far a stream has read each partition: the contents of its checkpoint, and what a changed log means for it.

Knows nothing of Spark or files. A partition is identified by the topic id in its `partition.metadata`, so that a topic
that was deleted and created again is not taken for the old one. Without an id, only the log's end can show that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from klogtool.causes import Reason
from klogtool.errors import Refused
from klogtool.spark.causes import SparkCure, StreamCause

VERSION = 1
MOST_SHOWN = 200  # limit of characters when refused offsets are shown

Key = tuple[str, int]


class Reached(Struct, frozen=True):
    """How far a partition was read. end: the next offset; topic_id: of the topic, None if unknown."""

    end: int
    topic_id: str | None = None

    def is_followed_by(self, later: Reached) -> bool:
        """Return whether it is still the same log: by topic id; without one, because it is not shorter."""
        if self.topic_id is not None and later.topic_id is not None:
            return self.topic_id == later.topic_id
        return later.end >= self.end


class LogNow(Struct, frozen=True):
    """A log as it is now. end: log end offset; readable: the same, or the last stable offset if only that is read."""

    start: int
    end: int
    readable: int
    topic_id: str | None = None


class Step(Struct, frozen=True):
    """What there is to read of a partition: from offset `first` up to `reached.end`."""

    first: int
    reached: Reached

    @property
    def offsets(self) -> int:
        """How many offsets."""
        return max(0, self.reached.end - self.first)

    def shortened(self, offsets: int) -> Step:
        """Return a step of at most `offsets` offsets from the same place on."""
        return Step(self.first, Reached(min(self.first + offsets, self.reached.end), self.reached.topic_id))


def step_of(before: Reached | None, now: LogNow) -> Step:
    """Return what there is to read of a log, after what was read before."""
    if before is None:
        return Step(now.start, Reached(max(now.start, now.readable), now.topic_id))
    topic_id = now.topic_id or (before.topic_id if now.end >= before.end else None)
    if not before.is_followed_by(Reached(now.end, topic_id)):
        return Step(now.start, Reached(max(now.start, now.readable), topic_id))
    if now.end < before.end:  # it was cut back; what was read is not read again
        return Step(now.end, Reached(now.end, topic_id))
    return Step(before.end, Reached(max(before.end, now.readable), topic_id))


def first_of(before: Reached | None, after: Reached, log_start_offset: int) -> int:
    """Return where reading begins between two offsets of a checkpoint; see `step_of`."""
    if before is None or not before.is_followed_by(after):
        return log_start_offset
    return min(before.end, after.end)


def lost_between(key: Key, before: Reached | None, after: Reached, log_start_offset: int) -> Reason | None:
    """Return what a stream misses between two offsets, in the words of Spark's kafka source; None if nothing."""
    name = f"{key[0]}-{key[1]}"
    if before is None:
        if log_start_offset:
            return StreamCause.ADDED(partition=name, start=log_start_offset)
        return None
    if after.end < before.end or not before.is_followed_by(after):
        return changed(key, before, after)
    if before.end < log_start_offset:
        return StreamCause.DELETED(partition=name, start=log_start_offset, end=before.end)
    return None


def changed(key: Key, before: Reached, after: Reached) -> Reason:
    """Return what is lost at a log that is shorter than what was read of it, or is another log."""
    reason = StreamCause.OFFSET_CHANGED(partition=f"{key[0]}-{key[1]}", before=before.end, after=after.end)
    if before.topic_id is None or after.topic_id is None or before.topic_id == after.topic_id:
        return reason
    return StreamCause.TOPIC_AGAIN(changed=reason, after=after.topic_id, before=before.topic_id)


def gone(keys: list[Key]) -> Reason:
    """Return what is lost with partitions that no longer exist."""
    return StreamCause.GONE(partitions=tuple(f"{topic}-{partition}" for topic, partition in sorted(keys)))


# The checkpoint.


def as_json(reached: Mapping[Key, Reached]) -> dict[str, object]:
    """Return the contents of a stream's checkpoint."""
    topics: dict[str, dict[str, object]] = {}
    for (topic, partition), offset in sorted(reached.items()):
        topics.setdefault(topic, {})[str(partition)] = {"end": offset.end, "topic_id": offset.topic_id}
    return {"version": VERSION, "topics": topics}


def of_json(value: Any) -> dict[Key, Reached]:
    """Parse what `as_json` returned. Raises Refused for other offsets."""
    try:
        if value["version"] == VERSION:
            return {
                (topic, int(partition)): Reached(int(offset["end"]), offset["topic_id"])
                for topic, each in value["topics"].items()
                for partition, offset in each.items()
            }
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    text = str(value)
    shown = text if len(text) < MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
    raise Refused(StreamCause.NO_CHECKPOINT(version=VERSION, shown=shown), cure=SparkCure.OTHER_CHECKPOINT())
