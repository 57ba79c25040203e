"""Corrects a last batch that is beyond the log's end at a clean stop, by verify's rule."""

from __future__ import annotations

from collections.abc import Sequence

from klogtool.broker.circumstances import CLEAN, Checkpoints, Circumstances
from klogtool.format.names import FileKind
from klogtool.log.partition import Partition
from klogtool.salvage.ascending import with_first_offset
from klogtool.salvage.stretches import MAGIC, Run, Stretch, split_last
from klogtool.verify.closed_end import find_right_offset


def find_closed_end(path: str, circumstances: Circumstances) -> int | None:
    """Return where the log ended when it was closed; None if it was not closed, or that is unknown."""
    checkpoints, name = Checkpoints.beside(path), Partition(path).topic_partition
    is_clean = checkpoints.has_clean_marker if circumstances.last_stop is None else circumstances.last_stop == CLEAN
    if not is_clean or name is None:
        return None
    if circumstances.recovery_point is not None:
        return circumstances.recovery_point
    return checkpoints.find_line(FileKind.RECOVERY_POINT_CHECKPOINT, name)


def mend_by_closed_end(stretches: Sequence[Stretch], closed_at: int | None) -> list[Stretch]:
    """Return the same stretches; the last batch gets the base offset that the log's end proves."""
    results = list(stretches)
    run = results[-1] if results else None
    if closed_at is None or not isinstance(run, Run) or run.magic != MAGIC or run.last_offset < closed_at:
        return results
    *body, last = split_last(run)
    before = next((item for item in (*body[::-1], *results[-2::-1]) if isinstance(item, Run)), None)
    lowest = max(run.segment, 0 if before is None else before.last_offset + 1)
    right = find_right_offset(last.first_offset, last.last_offset, lowest, closed_at)
    return results if right is None else [*results[:-1], *body, with_first_offset(last, right)]
