"""What the doctor tells of a journal: runs that were cut short, and missing records that somebody gave up, as a run
lowered the lines of checkpoints that showed them, or removed the bytes or files that did.

The journal still has these lines, and what the run's plan said, so the doctor says it until the run is undone or
discarded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from klogtool.disk.journal import Entry, journal_of, walk_entries
from klogtool.disk.manifest import Manifest, Original, Progress
from klogtool.errors import KlogError
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.names import TopicPartition
from klogtool.log.file import read_whole
from klogtool.log.folder import own_name
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.plans.mend import MendQuestion, SetOffset
from klogtool.plans.saved_plan import SavedPlan


class GivenUp(Struct, frozen=True):
    """Offsets [first, last] of a partition that a run gave up. lowered: it lowered lines of checkpoints for that."""

    partition: str
    ranges: tuple[tuple[int, int], ...]
    run: Entry
    lowered: bool


def walk_cut_short(log_dir: str) -> Iterator[tuple[Entry, Progress]]:
    """Yield the runs over a log dir that have changed some files, and neither finished nor were undone, as long as
    nobody cuts them short. A broker that starts before their end changes what they are about."""
    with suppress(KlogError):
        journal = journal_of(os.path.realpath(log_dir))
        for entry in walk_entries(journal) if os.path.isdir(journal) else ():
            with suppress(KlogError):
                progress = entry.progress()
                if progress in (Progress.STAGED, Progress.UNDOING):
                    yield entry, progress


def walk_given_up(log_dir: str) -> Iterator[GivenUp]:
    """Yield what was given up in a log dir. A journal that cannot be read says nothing: `undo` tells that."""
    with suppress(KlogError):
        journal = journal_of(os.path.realpath(log_dir))
        for entry in walk_entries(journal) if os.path.isdir(journal) else ():
            manifest = entry.manifest()
            if manifest is not None and manifest.progress is Progress.DONE:
                yield from _given_up_by(entry, entry.plans(), manifest)


def _given_up_by(entry: Entry, plans: Sequence[SavedPlan], manifest: Manifest) -> Iterator[GivenUp]:
    for key, (first, end) in _lowered_by(entry, plans, manifest).items():
        yield GivenUp(str(key), ((first, end - 1),), entry, lowered=True)
    for plan in plans:
        if gone := plan.gone:
            yield GivenUp(own_name(plan.path), gone, entry, lowered=False)


def _lowered_by(entry: Entry, plans: Sequence[SavedPlan], manifest: Manifest) -> dict[TopicPartition, tuple[int, int]]:
    """Return the partitions of which a run lowered lines: to which offset, and from which. Raises KlogError."""
    lowered: dict[TopicPartition, tuple[int, int]] = {}
    for plan in plans:
        edits = plan.question.edits if isinstance(plan.question, MendQuestion) else ()
        for edit in edits:
            if isinstance(edit, SetOffset) and edit.offset is not None:
                key = TopicPartition(edit.topic, edit.partition)
                originals = [record.before.get(edit.path) for record in manifest.records if record.path == plan.path]
                line = max((_line_in(entry, original, key) for original in originals), default=-1)
                if line > max(edit.offset, lowered.get(key, (0, 0))[1]):
                    lowered[key] = edit.offset, line
    return lowered


def _line_in(entry: Entry, original: Original | None, partition: TopicPartition) -> int:
    """Return the line that a checkpoint had before the run; -1 if there was none."""
    if original is None or original.kept is None:
        return -1
    kept = read_whole(entry.place(original.kept), limit=MOST_TEXT_BYTES)
    return dict(parse_offset_checkpoint(kept)).get(partition, -1)
