"""rebuild-index: makes the side files of a partition again from its `.log`s, as a broker's recovery writes them.

For a whole partition, only side files may change: a log that recovery would cut is refused. For single segments it does
the same as LogLoader.recoverSegment, including the cut and the effect on producer snapshots.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import CLEAN, LoadTerms, Long, terms_of
from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft, DraftFile
from klogtool.broker.file_facts import facts_of
from klogtool.broker.unified_log.log_loader import LoadedLog, LogParts, recover_segment, write_leader_epochs
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.overflow_split import CLEANED, SWAP
from klogtool.broker.unified_log.sound_batches import has_epochs_of
from klogtool.causes import Text
from klogtool.errors import AtPath, KlogError, Refused
from klogtool.format.checkpoints import build_leader_epoch_checkpoint, parse_leader_epoch_checkpoint
from klogtool.format.indexes import OFFSET_ENTRIES, TIME_ENTRIES, parse_txn_index
from klogtool.format.names import INDEX_KINDS, FileKind, build_file_name, parse_file_name
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.log.log_end import find_log_end
from klogtool.log.opened import open_partition_dir
from klogtool.log.partition import Partition
from klogtool.parameters import NO_ITEMS, Given, Unit, parameter
from klogtool.plans.causes import PlanNote, RebuildRefusal, VerdictCause
from klogtool.plans.erased_witness import ErasedWitnesses, find_erased_witnesses
from klogtool.plans.loading_steps import order_steps
from klogtool.plans.plan import Plan, SegmentVerdict, files_after
from klogtool.plans.question import Question
from klogtool.verify.cures import recover

COMMAND = "rebuild-index"
SideFile: TypeAlias = Literal["index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint"]
KINDS: Mapping[SideFile, FileKind] = {
    "index": FileKind.OFFSET_INDEX,
    "timeindex": FileKind.TIME_INDEX,
    "txnindex": FileKind.TXN_INDEX,
    "snapshot": FileKind.PRODUCER_SNAPSHOT,
    "leader-epoch-checkpoint": FileKind.LEADER_EPOCH_CHECKPOINT,
}


class RebuildIndexQuestion(Question, frozen=True, kw_only=True):
    """Which side files are wrong or missing?"""

    segments: Annotated[
        Given[tuple[Long, ...], Sequence[int]],
        parameter(
            "Only rebuild the segment with this base offset. If it is damaged, cut it at the first damage, as a "
            "broker's recovery does. Repeatable.",
            Unit.SEGMENT,
            option="segment",
        ),
    ] = NO_ITEMS
    only: Annotated[
        Given[tuple[SideFile, ...], Sequence[SideFile]],
        parameter(f"Only rebuild these side files: {', '.join(KINDS)}.", Unit.KINDS),
    ] = NO_ITEMS


QUESTION = RebuildIndexQuestion


class RebuildVerdict(SegmentVerdict, frozen=True):
    """truncated_bytes: how many are cut off its `.log`. next_offset: the one after its last record."""

    truncated_bytes: int
    size: int
    next_offset: int


def decide(path: str, question: RebuildIndexQuestion) -> Iterator[Plan]:
    """Plan for one partition dir.

    Raises Refused for a log that would be cut although nobody asked for that; Corrupt, Refused or Unsupported, with
    Kafka's class, if recovery fails; KlogError for what is not a partition dir, and for a segment that does not exist.
    """
    open_partition_dir(path)
    terms = terms_of(path, question.circumstances)
    draft = Draft.of(path)
    facts = facts_of(draft)
    rebuild = _rebuild_segments if question.segments else _rebuild_all
    with AtPath(path):
        log, verdicts = rebuild(draft, terms, question)
        end = log.log_end_offset if isinstance(log, LoadedLog) else find_log_end(Partition(path)) or 0
        erased = find_erased_witnesses(log, end)
    result = ErasedWitnesses(erased) if erased else None
    notes = [PlanNote.ERASES_WITNESS(first=e.first_offset, last=e.last_offset, name=e.told_by) for e in erased]
    yield Plan(COMMAND, path, question, facts, order_steps(draft, log.report), verdicts, result, (*terms.notes, *notes))


class RebuiltSegment(Struct, frozen=True):
    """A segment whose side files are rebuilt, with all entries: offset and position, timestamp and offset, aborted
    transactions."""

    segment: int
    truncated_bytes: int
    size: int
    next_offset: int
    offset_index: list[tuple[int, int]]
    time_index: list[tuple[int, int]]
    txn_index: list[tuple[int, int, int, int]]


def walk_rebuilt(plan: Plan) -> Iterator[RebuiltSegment]:
    """Yield each rebuilt segment, with its entries, which may be many."""
    files = files_after(Draft.of(plan.path), plan.steps)
    for verdict in plan.segments:
        if not isinstance(verdict, RebuildVerdict):
            continue
        base = verdict.segment
        indexes = (files.get(build_file_name(kind, base)) for kind in INDEX_KINDS)
        data = [b"" if file is None else read_content(file.content) for file in indexes]
        yield RebuiltSegment(
            base,
            verdict.truncated_bytes,
            verdict.size,
            verdict.next_offset,
            [(entry.offset, entry.position) for entry in OFFSET_ENTRIES.parse(data[0], base)],
            [(entry.timestamp, entry.offset) for entry in TIME_ENTRIES.parse(data[1], base)],
            [
                (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
                for entry in parse_txn_index(data[2])
            ],
        )


def _verdict(segment: LogSegment, truncated: int, next_offset: int) -> RebuildVerdict:
    action, why = ("truncate", VerdictCause.DAMAGED_FROM_THERE) if truncated else ("rebuild", VerdictCause.REBUILT)
    return RebuildVerdict(segment.base_offset, action, why(), truncated, segment.size, next_offset)


# Single segments.


def _rebuild_segments(
    draft: Draft, terms: LoadTerms, question: RebuildIndexQuestion
) -> tuple[LogParts, tuple[RebuildVerdict, ...]]:
    log = LogParts(draft, terms, question.threads)
    lower = deque(_base_offsets(draft.names()))
    verdicts = [_rebuild_segment(log, base, lower) for base in sorted(set(question.segments))]
    for segment in log.segments.all:
        segment.close()
    write_leader_epochs(draft, log.epochs)
    if question.only:
        for verdict in verdicts:
            if verdict.truncated_bytes:
                raise _damaged(verdict.segment, RebuildRefusal.ONLY_SOME())
        _keep_only(draft, question.only)
    return log, tuple(verdicts)


def _rebuild_segment(log: LogParts, base_offset: int, lower: deque[int]) -> RebuildVerdict:
    """Rebuild one segment, with the producer state from the segments below it and their snapshots.

    lower: ascending base offsets. Those below this segment are removed from it, and their segments join the log.
    """
    draft, config = log.draft, log.terms.config
    if build_file_name(FileKind.LOG, base_offset) not in draft:
        raise KlogError(RebuildRefusal.NO_SEGMENT(segment=base_offset), path=draft.path)
    while lower and lower[0] < base_offset:
        log.segments.add(LogSegment(draft, lower.popleft(), config, rules=log.terms.rules))
    segment = LogSegment(draft, base_offset, config, rules=log.terms.rules)
    verdict = _verdict(segment, recover_segment(log, segment), segment.read_next_offset())
    segment.close()
    return verdict


def _base_offsets(names: Iterable[str]) -> list[int]:
    files = map(parse_file_name, names)
    logs = (file for file in files if file.kind is FileKind.LOG and not file.suffix)
    return sorted({file.base_offset for file in logs if file.base_offset is not None})


# All segments.


def _rebuild_all(
    draft: Draft, terms: LoadTerms, question: RebuildIndexQuestion
) -> tuple[LogParts, tuple[RebuildVerdict, ...]]:
    for name in draft.names_found():
        if name.endswith((CLEANED, SWAP)):
            raise Refused(
                RebuildRefusal.LEFTOVER(),
                path=os.path.join(draft.path, name),
                cure=recover(draft.path, CLEAN),
            )
    epochs_file = draft.files.get(FileKind.LEADER_EPOCH_CHECKPOINT.value)
    # Start from nothing: an unreadable or wrong file must not affect its successor.
    draft.write(FileKind.LEADER_EPOCH_CHECKPOINT.value, b"")
    _make_loadable(draft)
    log = LoadedLog(draft, replace(terms, is_clean=False, recovery_point=0), question.threads)
    _check_is_whole(log)
    there = [segment for segment in log.segments.all if segment.log_name in draft.before]
    verdicts = tuple(_verdict(segment, 0, segment.next_offset_by_headers()) for segment in there)
    log.stop()
    _write_epochs(log, epochs_file)
    # An empty log of no segment gets one at a start, which is no side file: its indexes would have no `.log`.
    for segment in log.segments.all:
        if segment not in there:
            for kind in INDEX_KINDS:
                draft.delete(build_file_name(kind, segment.base_offset))
    _keep_only(draft, question.only or KINDS)
    return log, verdicts


def _make_loadable(draft: Draft) -> None:
    """Empty the indexes because of which a broker recovers a segment already while it loads it, or does not load it: a
    missing offset index, any transaction index. It would do so before it recovers the segments below, and their lower
    epochs would come too late for its cache then."""
    for base in _base_offsets(draft.names()):
        offset_index, txn_index = (build_file_name(kind, base) for kind in (FileKind.OFFSET_INDEX, FileKind.TXN_INDEX))
        if offset_index not in draft:
            draft.write(offset_index, b"")
        if txn_index in draft:
            draft.write(txn_index, b"")


def _check_is_whole(log: LoadedLog) -> None:
    """Raises Refused if recovery cut anything or removed a segment."""
    if log.report.was_split:
        raise Refused(RebuildRefusal.NEEDS_SPLIT())
    for segment in log.segments.all:
        before = log.draft.before.get(segment.log_name)
        if before is not None and segment.size < before.size:
            emptied = log.report.emptied.get(segment.base_offset)
            if emptied is not None and emptied.kafka_class != "InvalidOffsetException":
                raise emptied  # nothing is wrong with the segment: a folder is in the place of a file
            stopped_by = log.report.stopped_by.get(segment.base_offset)
            why = stopped_by.reason if stopped_by else RebuildRefusal.ENDS_INSIDE()
            raise _damaged(segment.base_offset, why, segment)
    if log.report.deleted_segments:
        raise Refused(RebuildRefusal.ENDS_BELOW_START(start=log.terms.log_start_offset))


def _damaged(base_offset: int, why: Text, segment: LogSegment | None = None) -> Refused:
    return Refused(
        RebuildRefusal.DAMAGED(segment=base_offset, why=why),
        path=None if segment is None else segment.path,
        position=None if segment is None else segment.size,
    )


def _write_epochs(log: LoadedLog, before: DraftFile | None) -> None:
    """Write the epochs as recovery has them. It follows the existing file if that does not contradict the batches.

    The file may know more than the batches: epochs whose batches were compacted away.
    """
    known = _known_epochs(before)
    for entry in log.epochs.entries:
        known.assign_if_later(entry.epoch, entry.start_offset)
    known.truncate_from_end(log.log_end_offset)
    known.truncate_from_start(log.terms.log_start_offset)
    contradicts = known.entries != log.epochs.entries and not _agrees(log, known)
    entries = log.epochs.entries if contradicts else known.entries
    name, data = FileKind.LEADER_EPOCH_CHECKPOINT.value, build_leader_epoch_checkpoint(entries)
    if before is not None and read_content(before.content) == data:
        log.draft.files[name] = before
    else:
        log.draft.write(name, data)


def _known_epochs(before: DraftFile | None) -> LeaderEpochFileCache:
    try:
        return LeaderEpochFileCache(parse_leader_epoch_checkpoint(read_content(before.content) if before else b""))
    except KlogError:  # it will be replaced
        return LeaderEpochFileCache()


def _agrees(log: LoadedLog, known: LeaderEpochFileCache) -> bool:
    """Return whether the file's epoch for every batch is the batch's own."""
    for segment in log.segments.all:
        with segment.open_log() as file:
            if not has_epochs_of(file, known, log.log_start_offset):
                return False
    return True


def _keep_only(draft: Draft, only: Iterable[SideFile]) -> None:
    """Restore all files except those of these kinds."""
    kinds = {KINDS[name] for name in only}
    for name in draft.changed():
        file = parse_file_name(name)
        if file.kind in kinds and not file.suffix:
            continue
        if name in draft.before:
            draft.files[name] = draft.before[name]
        else:
            draft.delete(name)
