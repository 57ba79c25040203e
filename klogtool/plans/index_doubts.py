"""Whether the time index of a segment says what its batches say.

A broker never compares the two. It goes by the last entry, or by the time of the file if there is none: so retention
deletes a segment with a zeroed index as one of 1970, and lookups by time pass over it. Kafka's answers stay what they
are; what is found here stands beside them.

Only the end of a segment is read as long as it confirms the index: the batch of the last entry, and what follows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.cleaning.dirty_range import MIN_COMPACTION_LAG, LogToClean
from klogtool.broker.content import Spooled
from klogtool.broker.draft import Draft
from klogtool.broker.timestamps import time_text
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.kept_segments import BEHIND, Kept, ages_of
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment, walk_from
from klogtool.broker.unified_log.lookup import MAX_TIMESTAMP, SegmentStep, TimestampFound, search_without_index
from klogtool.broker.unified_log.retention import TIME, Deletion
from klogtool.broker.unified_log.segment_age import Age
from klogtool.causes import Reason
from klogtool.errors import KlogError, Refused
from klogtool.format.batch import NO_TIMESTAMP
from klogtool.format.indexes import OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE, entries_before_zero_tail
from klogtool.log.frames import FrameReader
from klogtool.plans.causes import IndexDoubtCause
from klogtool.salvage.stretches import Run, walk_stretches
from klogtool.verify.cures import rebuild_index


class FalseIndexEffect(Enum):
    """What a false time index does now."""

    DELETED_TOO_EARLY = "deleted-too-early"
    KEPT_TOO_LONG = "kept-too-long"
    CLEANED_TOO_EARLY = "cleaned-too-early"
    PASSED_OVER = "passed-over"
    BEGAN_TOO_LATE = "began-too-late"
    NONE = "none"


class IndexDoubt(Struct, frozen=True):
    """A segment whose batches contradict the time by which a broker judges it.

    believed_timestamp: of the last entry of the time index, or of the file (is_file_time) if there is no entry.
    log_timestamp: the largest one in the headers of the sound batches.
    """

    segment: int
    believed_timestamp: int
    is_file_time: bool
    log_timestamp: int
    effect: FalseIndexEffect


class Contradiction(Struct, frozen=True):
    """What the batches of a segment say against its age. newest: their largest timestamp. is_entry_true: the last entry
    of the time index is right, but larger timestamps follow, as in every active segment."""

    newest: int
    is_entry_true: bool


class Timekeeper:
    """Compares the ages of segments with their batches. It sees the log as it is now, also if that changes later."""

    def __init__(self, log: LoadedLog) -> None:
        self._draft = Draft(log.draft.path, dict(log.draft.files))  # opening an index changes a draft
        self._config, self._jobs = log.terms.config, log.jobs

    def contradiction(self, age: Age) -> Contradiction | None:
        """Return what the sound batches say if it is not the age; None if they confirm the age, or have no timestamp.
        Raises Unreadable."""
        segment = LogSegment(self._draft, age.segment, self._config)
        if any(isinstance(part, Spooled) for part in self._draft.files[segment.log_name].content):
            return None  # the cleaner has just made it, with its indexes
        with segment.open_log() as file:
            start = None if age.offset is None else _batch_of_last_entry(segment, file, age)
            if start is not None and self._newest(file, age.segment, start) == age.timestamp:
                return None
            newest = self._newest(file, age.segment, 0)
        return None if newest in (NO_TIMESTAMP, age.timestamp) else Contradiction(newest, start is not None)

    def _newest(self, file: ContentFile, base_offset: int, start: int) -> int:
        stretches = walk_stretches(file, base_offset, start=start, jobs=self._jobs)
        return max((part.newest_timestamp for part in stretches if isinstance(part, Run)), default=NO_TIMESTAMP)


def _batch_of_last_entry(segment: LogSegment, file: ContentFile, age: Age) -> int | None:
    """Return where the batch begins that the last entry of the time index is about; None if there is none that
    confirms the entry."""
    if age.offset is None:
        return None
    reader = FrameReader(file)
    try:
        for frame in walk_from(reader, max(segment.offset_index.lookup(age.offset).position, 0)):
            if reader.last_offset(frame) >= age.offset:
                is_confirmed = reader.max_timestamp(frame) == age.timestamp and reader.read(frame).crc_valid
                return frame.position if is_confirmed else None
    except KlogError:  # a wrong offset index leads into the middle of a batch
        pass
    return None


# Retention.


def retention_doubts(
    log: LoadedLog,
    keeper: Timekeeper,
    ages: Mapping[int, Age],
    deleted: Sequence[Deletion],
    kept: Sequence[Kept],
    only: Collection[int] | None = None,
) -> list[IndexDoubt]:
    """Return the segments of which retention has a wrong date. keeper, ages: from before retention. only: look at no
    other segments.

    An active segment whose index is merely behind its batches counts only if its fate depends on that.
    """
    by_time = {deletion.segment for deletion in deleted if deletion.by == TIME}
    holders = {segment.segment for segment in kept if segment.held_by is not None and segment.reason != BEHIND}
    active = max(ages)
    doubts = []
    for base, age in ages.items():
        if not age.size or (age.is_file_time and base not in by_time | holders):
            continue
        if only is not None and base not in only:
            continue
        said = keeper.contradiction(age)
        if said is None:
            continue
        effect = _effect_on(log, age, said.newest, is_deleted=base in by_time, is_held=base in holders)
        is_usual = age.is_file_time or (base == active and said.is_entry_true)
        if effect is not FalseIndexEffect.NONE or not is_usual:
            doubts.append(IndexDoubt(base, age.timestamp, age.is_file_time, said.newest, effect))
    return doubts


def true_ages(ages: Mapping[int, Age], doubts: Sequence[IndexDoubt]) -> dict[int, Age]:
    """Return the ages as the batches have them."""
    newest = {doubt.segment: doubt.log_timestamp for doubt in doubts}
    return {base: replace(age, timestamp=newest.get(base, age.timestamp)) for base, age in ages.items()}


def _effect_on(log: LoadedLog, age: Age, newest: int, *, is_deleted: bool, is_held: bool) -> FalseIndexEffect:
    is_due = log.terms.now_ms - newest > log.terms.config.retention_ms
    if is_deleted and not is_due:
        return FalseIndexEffect.DELETED_TOO_EARLY
    return FalseIndexEffect.KEPT_TOO_LONG if is_held and is_due and age.timestamp > newest else FalseIndexEffect.NONE


def first_too_early(doubts: Sequence[IndexDoubt]) -> IndexDoubt | None:
    """Return the oldest segment that goes too early: all that retention deletes by time from it on would stay."""
    return next((doubt for doubt in doubts if doubt.effect is FalseIndexEffect.DELETED_TOO_EARLY), None)


def dates_of(doubt: IndexDoubt, *, names_segment: bool = False) -> Reason:
    """Return both dates of a segment."""
    believed, newest = time_text(doubt.believed_timestamp), time_text(doubt.log_timestamp)
    if names_segment:
        cause = IndexDoubtCause.BY_FILE_OF_SEGMENT if doubt.is_file_time else IndexDoubtCause.BY_INDEX_OF_SEGMENT
        return cause(segment=doubt.segment, believed=believed, newest=newest)
    return (IndexDoubtCause.BY_FILE if doubt.is_file_time else IndexDoubtCause.BY_INDEX)(
        believed=believed, newest=newest
    )


def cure_of(path: str) -> Reason:
    """Return what to do before anything else about a partition whose time index is false."""
    return IndexDoubtCause.REBUILD_FIRST(command=rebuild_index(path, "timeindex"))


def refusal_of(path: str, doubt: IndexDoubt) -> Refused:
    """Return the refusal to delete for good by a false time index."""
    dates = dates_of(doubt, names_segment=True)
    return Refused(IndexDoubtCause.NOT_DUE(dates=dates), path=path, cure=cure_of(path))


# Rolling.


def zeros_that_fill(log: LoadedLog) -> int:
    """Return how many zero entries fill an index of the active segment, so that the next append rolls it; 0 if its
    indexes have room.

    A broker that is killed leaves its indexes at their full size. If somebody then makes a clean marker, nothing cuts
    them, and a start takes the zeros for entries. A start gives the indexes the size of the setting
    (LogLoader.load, resizeIndexes): fewer zeros leave room.
    """
    draft = Draft(log.draft.path, dict(log.draft.files))
    active = log.segments.last
    looked_at = LogSegment(draft, active.base_offset, log.terms.config, active.suffix)
    indexes = (looked_at.offset_index, OFFSET_INDEX_ENTRY_SIZE), (looked_at.time_index, TIME_INDEX_ENTRY_SIZE)
    most = log.terms.config.segment_index_bytes
    if "segment.index.bytes" not in log.terms.sources:
        most = _preallocated_for(*(index.length for index, _ in indexes)) or most
    zeros = 0
    for index, size in indexes:
        before = entries_before_zero_tail(bytes(index.data), size)
        if index.entries * size <= most:
            index.resize(most)
        if index.is_full:
            zeros = max(zeros, index.entries - before)
    return zeros


def _preallocated_for(offset_bytes: int, time_bytes: int) -> int | None:
    """Return the segment.index.bytes for which a broker made indexes of these sizes, or None if no value gives both."""
    least = max(offset_bytes, time_bytes)
    is_one = least < min(offset_bytes + OFFSET_INDEX_ENTRY_SIZE, time_bytes + TIME_INDEX_ENTRY_SIZE)
    return least if is_one and offset_bytes and time_bytes else None


# Cleaning.


def lag_doubts(log: LoadedLog, to_clean: LogToClean) -> Iterator[IndexDoubt]:
    """Yield the segments of which min.compaction.lag.ms has a wrong date: those to clean, and the one that stops the
    cleaner."""
    lag_ms, now_ms = log.terms.config.min_compaction_lag_ms, log.terms.now_ms
    if lag_ms <= 0:
        return
    ages, keeper, bound = ages_of(log), Timekeeper(log), to_clean.bound
    bases = [segment.base_offset for segment in log.segments.values(min(to_clean.first_dirty_offset, bound), bound)]
    for base in [*bases, *([bound] if to_clean.why == MIN_COMPACTION_LAG else [])]:
        age = ages[base]
        said = keeper.contradiction(age) if age.size else None
        if said is None:
            continue
        is_young, seems_young = said.newest > now_ms - lag_ms, age.timestamp > now_ms - lag_ms
        if is_young != seems_young:
            effect = FalseIndexEffect.KEPT_TOO_LONG if seems_young else FalseIndexEffect.CLEANED_TOO_EARLY
            yield IndexDoubt(base, age.timestamp, age.is_file_time, said.newest, effect)


# Lookups by time.


def lookup_doubts(log: LoadedLog, result: TimestampFound) -> list[IndexDoubt]:
    """Return the segments because of which a lookup by time, or for the largest time, has a wrong answer. Raises
    Unreadable."""
    timestamp = result.timestamp
    segment = next((step.segment for step in result.steps if isinstance(step, SegmentStep)), None)
    if timestamp == MAX_TIMESTAMP:
        least = NO_TIMESTAMP if result.found is None else result.found.timestamp
        return [doubt for doubt in _doubts(log) if doubt.log_timestamp > least]
    if timestamp < 0:
        return []
    doubts = _doubts(log, segment)
    passed_over = [doubt for doubt in doubts if doubt.segment != segment and doubt.log_timestamp >= timestamp]
    if passed_over or segment is None:
        return passed_over
    return _begun_too_late(log, result, segment, doubts)


def _doubts(log: LoadedLog, up_to: int | None = None) -> list[IndexDoubt]:
    keeper, ages = Timekeeper(log), [age for age in ages_of(log).values() if up_to is None or age.segment <= up_to]
    said = [(age, keeper.contradiction(age)) for age in ages if age.size]
    return [
        IndexDoubt(age.segment, age.timestamp, age.is_file_time, what.newest, FalseIndexEffect.PASSED_OVER)
        for age, what in said
        if what is not None
    ]


def _begun_too_late(
    log: LoadedLog, result: TimestampFound, base_offset: int, doubts: Sequence[IndexDoubt]
) -> list[IndexDoubt]:
    """Return the doubt about the chosen segment: its indexes lead behind the first record that was asked for, or it has
    none, and a later segment would have it."""
    try:
        first = search_without_index(log, log.segments[base_offset], result.timestamp)
        if first is None:
            later = (segment for segment in log.segments.all if segment.base_offset > base_offset)
            is_later = any(search_without_index(log, segment, result.timestamp) for segment in later)
            return [doubt for doubt in doubts if doubt.segment == base_offset] if is_later else []
    except KlogError:  # damage before the place where the lookup began says nothing about it
        return []
    if result.found is not None and first.offset >= result.found.offset:
        return []
    age = ages_of(log)[base_offset]
    return [IndexDoubt(base_offset, age.timestamp, age.is_file_time, first.timestamp, FalseIndexEffect.BEGAN_TOO_LATE)]
