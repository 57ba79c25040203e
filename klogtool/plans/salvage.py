"""Salvage: every good batch of a damaged partition, before and after each damage, in a partition that a broker loads.

Offsets do not change. A field outside the CRC is corrected if its value is certain. Holes are filled from other copies,
if these have had the same leaders. What is left out is listed with its cause; kept and rejected bytes together are all
bytes. The result is loaded here as a broker would load it after a kill. So its side files are those that the broker's
own recovery makes, and a batch that the broker would not accept is left out too.

The steps from a damaged partition dir to the result of salvage, for carrying it out in place (`klogtool apply`).

While it is being salvaged, the dir is never worse than the damaged one. An `.index` is deleted before its `.log`
changes, so that a broker recovers that segment and does not trust the index. Logs are deleted once everything that is
kept of them is in others. Indexes are written when everything else is there. What an interrupted cleaning left is
deleted last.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import UNCLEAN, Circumstances, LoadTerms, terms_of
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import Fact, file_fact, folder_fact
from klogtool.causes import Reason, Text
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.checkpoints import build_leader_epoch_checkpoint
from klogtool.format.framing import Frame
from klogtool.format.identity import build_partition_metadata
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, build_file_name, parse_file_name
from klogtool.format.uuids import build_uuid
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.parameters import Unit, parameter
from klogtool.plans.causes import NotACopyCause, SalvageCause, SalvageNote
from klogtool.plans.plan import Delete, Plan, Step, Write
from klogtool.plans.question import PathText, Question
from klogtool.plans.recover_result import OffsetSpan
from klogtool.plans.salvage_answer import UNLOADABLE, Salvaged, notes, result_of, verdicts
from klogtool.salvage.ascending import ascending
from klogtool.salvage.assembly import NewSegment, assemble, place_filling, place_own, with_empty
from klogtool.salvage.copies import compare, mend_last_batch
from klogtool.salvage.corrections import (
    entries_of,
    find_closed_end,
    mend_by_closed_end,
    mend_leader_epochs,
    right_entries,
)
from klogtool.salvage.holes import (
    Filled,
    Hole,
    OtherCopy,
    RefusedBatches,
    SideFileEvidence,
    copy_of,
    fill_hole,
    find_holes,
    left_alone,
    shows_cleaning,
    walk_gaps,
)
from klogtool.salvage.loadable import Loadable, Unloadable, load
from klogtool.salvage.losses import Loss, losses, offsets_of, walk_only_left, with_own_offsets
from klogtool.salvage.partition_files import PartitionFiles, SegmentFile, read_partition_files
from klogtool.salvage.stretches import Rejected, Run, Stretch, cut_run, walk_stretches
from klogtool.verify.lost_start import find_lost_start
from klogtool.verify.swaps import ReadLogs

COMMAND = "salvage"
HIGHEST = 1 << 62  # no log reaches this offset: a source that says so is wrong
MOST_LEFT_OUT = 10_000  # limit of batches that are left out one by one, because a broker would stop at them
_METADATA, _EPOCHS = FileKind.PARTITION_METADATA, FileKind.LEADER_EPOCH_CHECKPOINT


class SalvageQuestion(Question, frozen=True, kw_only=True):
    """replicas: paths of other copies. deep: open every batch, and leave out those whose records cannot be read."""

    replicas: Annotated[
        tuple[PathText, ...],
        parameter(
            "Another copy of the partition, to fill holes from. Repeatable: the first copy that has the records is "
            "used.",
            Unit.FOLDER,
            option="replica",
        ),
    ] = ()
    deep: bool = True


QUESTION = SalvageQuestion


def decide(path: str, question: SalvageQuestion) -> list[Plan]:
    """Plan for one partition dir.

    Raises Refused for a replica that is not a copy, KlogError if a file cannot be read or there is nothing to salvage.
    """
    return [_Salvage(path, question).plan()]


class _Kept(Struct):
    """What is kept so far. stretches: all of this partition, in the order of the files; filled: what copies
    contribute."""

    stretches: list[Stretch]
    filled: Filled

    def runs(self) -> list[Run]:
        """Return the runs of this partition and of copies, by offset."""
        return sorted(
            [*_runs(self.stretches), *(filling.run for filling, _ in self.filled.fillings)],
            key=lambda run: run.first_offset,
        )

    def leave_out(self, batch: Unloadable) -> None:
        """Leave out a batch at which a broker stops."""
        before, behind = _around(batch)
        for n, stretch in enumerate(self.stretches):
            if stretch is batch.run:
                self.stretches[n : n + 1] = [*before, _as_rejected(batch, before, behind), *behind]
                return
        fillings = self.filled.fillings
        for n, (filling, hole) in enumerate(fillings):
            if filling.run is batch.run:
                fillings[n : n + 1] = [(replace(filling, run=run), hole) for run in (*before, *behind)]
                first, last = filling.run.first_offset, filling.run.last_offset
                self.filled.refusals.append(RefusedBatches(filling.copy, first, last, batch.reason))
                return
        raise Refused(NotACopyCause.STOPS(why=batch.reason), path=batch.run.path, position=batch.position)


class _Salvage:
    def __init__(self, path: str, question: SalvageQuestion) -> None:
        self._path, self._question = path, question
        self._jobs = question.threads
        self._deep = question.deep
        self._notes: list[Text] = []
        self._files = read_partition_files(path)
        self._terms = self._terms_of(question.circumstances)
        self._replicas = [read_partition_files(replica) for replica in question.replicas]
        self._known = self._files.epochs or LeaderEpochFileCache()
        self._all_files = [file for files in (self._files, *self._replicas) for file in files.segments]
        self._numbers: dict[int | str | None, int] = {}  # number of each file, by path, or by base offset for our own
        for n, file in enumerate(self._all_files):
            self._numbers.setdefault(file.path, n)
            if n < len(self._files.segments):
                self._numbers.setdefault(file.base_offset, n)
        self._swaps = [self._swap(swap) for swap in self._files.swaps if not self._is_of_another(swap)]
        self._evidence = SideFileEvidence(
            tuple(sorted(self._files.orphans() | {swap.base_offset for swap in self._files.swaps})),
            self._reaches(),
            tuple((run.first_offset, run.last_offset) for _, stretches in self._swaps for run in _runs(stretches)),
            self._terms.compaction is not None,
            self._terms.log_start_offset,
            min((segment.base_offset for segment in self._files.segments), default=None),
        )

    def plan(self) -> Plan:
        """Return the whole plan. Raises KlogError if there is no segment to take."""
        for replica in self._replicas:
            self._check_replica(replica)
        theirs = [self._sound_stretches(files, files.epochs or LeaderEpochFileCache()) for files in self._replicas]
        ours = self._sound_stretches(self._files, self._known)
        ours = mend_by_closed_end(ours, find_closed_end(self._path, self._question.circumstances))
        stretches = mend_last_batch(ours, [_runs(other) for other in theirs], self._known)
        if shows_cleaning(stretches):
            self._evidence = replace(self._evidence, is_compacted=True)
        perhaps = self._perhaps_missing(stretches)
        self._evidence = self._with_start(perhaps, theirs)
        holes = find_holes(stretches, self._evidence)
        gaps = list(walk_gaps(stretches, self._evidence)) if self._replicas else holes
        cuts = self._cuts(gaps)
        copies = [self._copy(*each, stretches, cuts) for each in zip(self._replicas, theirs, strict=True)]
        sources = [copy_of(path, _cut(theirs_of, cuts), (), self._known) for path, theirs_of in self._swaps] + copies
        kept = _Kept(stretches, Filled(refusals=list(left_alone(gaps, holes, copies))))
        for hole in holes:
            fill_hole(hole, sources, self._known, kept.filled)
        if not self._files.segments and not kept.filled.fillings:
            raise KlogError(self._nothing_to_keep(), path=self._path)
        segments, loadable = self._load(kept)
        lost = self._losses(kept)
        only_left = list(walk_only_left(self._files, kept.runs(), lost, self._evidence))
        lost += [left.loss for left in only_left]
        salvaged = Salvaged(
            self._files,
            self._replicas,
            kept.stretches,
            kept.filled.fillings,
            kept.filled.refusals,
            copies,
            segments,
            loadable,
            lost,
            list(_walk_unknown(perhaps, kept.runs(), lost)),
            only_left,
        )
        return Plan(
            COMMAND,
            self._path,
            self._question,
            tuple(self._facts()),
            tuple(order_steps(loadable.draft)),
            tuple(verdicts(salvaged)),
            result_of(salvaged),
            (*self._notes, *notes(salvaged, self._terms.log_start_offset)),
        )

    def _nothing_to_keep(self) -> Reason:
        copies = self._files.may_have([(0, MAX_LONG)])
        cure = next((cure for cure in copies.values() if cure is not None), None)
        if cure is None:
            return SalvageCause.NO_SEGMENT()
        return SalvageCause.NO_SEGMENT_BUT(files=tuple(copies), command=cure)

    def _losses(self, kept: _Kept) -> list[Loss]:
        lost: list[Loss] = []
        runs = sorted((filling.run for filling, _ in kept.filled.fillings), key=lambda run: run.first_offset)
        empty = sorted(kept.filled.empty, key=lambda span: span[0])
        for gap in walk_gaps(kept.stretches, self._evidence):
            last = MAX_LONG if gap.last is None else gap.last
            first = bisect_left(runs, gap.first, key=lambda run: run.first_offset)
            behind = bisect_right(runs, last, key=lambda run: run.last_offset)
            lost += losses(gap, runs[first:behind], empty, self._evidence)
        return with_own_offsets(lost, kept.stretches, kept.runs())

    def _facts(self) -> Iterator[Fact]:
        """Yield facts about everything that was read: the files of the partition and the replicas, and the names in
        their folders."""
        for files in (self._files, *self._replicas):
            at = "" if files is self._files else files.path
            yield folder_fact(at, files.listed)
            for name, file in sorted(files.files.items()):
                yield file_fact(os.path.join(at, name), file)

    # Reading.

    def _perhaps_missing(self, stretches: Sequence[Stretch]) -> list[tuple[int, int]]:
        """Return what retention deleted before the first segment, or somebody."""
        firsts = [run.first_offset for run in _runs(stretches)]
        bases = [segment.base_offset for segment in self._files.segments]
        return find_lost_start(self._files.files, self._terms, min([*firsts, *bases], default=0))

    def _with_start(self, perhaps: Sequence[tuple[int, int]], theirs: Sequence[Sequence[Stretch]]) -> SideFileEvidence:
        """Return the evidence, with what copies have of these offsets: it was not deleted in them."""
        runs = [run for other in theirs for run in _runs(other)]
        firsts = {max(low, run.first_offset) for low, high in perhaps for run in runs if _overlaps(run, low, high)}
        return replace(self._evidence, bases=tuple(sorted({*self._evidence.bases, *firsts})))

    def _reaches(self) -> int:
        """Return how far the log reached in the past, by snapshots, checkpoints and leader epochs."""
        reached = [reached.offset for reached in self._terms.evidence]
        epochs = [entry.start_offset for entry in self._known.entries]
        return max(offset for offset in (0, self._files.reaches, *reached, *epochs) if offset < HIGHEST)

    def _terms_of(self, circumstances: Circumstances) -> LoadTerms:
        """Return the terms of a start after a kill, from the first offset on. Only those checkpoints count that say how
        far the log reached."""
        circumstances = replace(circumstances, recovery_point=0, last_stop=UNCLEAN)
        try:
            terms = terms_of(self._path, circumstances)
        except Corrupt as error:
            self._notes.append(SalvageNote.START_UNKNOWN(error=str(error)))
            terms = terms_of(self._path, replace(circumstances, log_start_offset=0))
        self._notes += [note for note in terms.notes if note not in terms.start_notes]
        return terms

    def _sound_stretches(self, files: PartitionFiles, known: LeaderEpochFileCache) -> list[Stretch]:
        stretches = [
            stretch for segment in files.segments for stretch in segment.stretches(jobs=self._jobs, deep=self._deep)
        ]
        return mend_leader_epochs(ascending(stretches), known)

    def _swap(self, swap: SegmentFile) -> tuple[str, list[Stretch]]:
        """Read a cleaned segment: it replaces segments that may be gone already."""
        return swap.path, mend_leader_epochs(ascending(swap.stretches(jobs=self._jobs, deep=self._deep)), self._known)

    def _is_of_another(self, swap: SegmentFile) -> bool:
        """Return whether a cleaned segment has other records than the segments here: a cleaner makes no such."""
        read = ReadLogs(self._files.files)
        for segment in self._files.segments:
            try:
                others = read.compare(swap.name, segment.name).others.ranges
            except KlogError:  # bad sectors, which are recorded where the segment is read
                continue
            if others:
                self._notes.append(SalvageNote.OTHER_BATCHES(copy=swap.name, first=others[0][0], last=others[-1][1]))
                return True
        return False

    def _check_replica(self, replica: PartitionFiles) -> None:
        """Raises Refused for what cannot be a copy of this partition."""
        ours, theirs = self._files.metadata, replica.metadata
        if ours is not None and theirs is not None and ours.topic_id != theirs.topic_id:
            there, here = build_uuid(theirs.topic_id), build_uuid(ours.topic_id)
            raise Refused(NotACopyCause.OTHER_TOPIC_ID(there=there, here=here), path=replica.path)
        own, other = self._files.topic_partition, replica.topic_partition
        if own is not None and other is not None and own.topic == other.topic and own.partition != other.partition:
            raise Refused(NotACopyCause.OTHER_PARTITION(there=other.partition, here=own.partition), path=replica.path)

    def _cuts(self, gaps: Sequence[Hole]) -> tuple[int, ...]:
        """Return the offsets at which copies are cut: where one of our gaps, epochs or segments begins or ends."""
        cuts = {gap.first for gap in gaps} | {gap.last + 1 for gap in gaps if gap.last is not None}
        cuts |= {entry.start_offset for entry in self._known.entries}
        cuts |= {segment.base_offset for segment in self._files.segments}
        return tuple(sorted(cuts))

    def _copy(
        self, replica: PartitionFiles, theirs: Sequence[Stretch], ours: Sequence[Stretch], cuts: Sequence[int]
    ) -> OtherCopy:
        """Compare a replica with this partition, and cut it. Raises Refused if they have nothing in common."""
        held_together = compare(_runs(ours), _runs(theirs))
        if not held_together.agree and any(not part.same_epoch for part in held_together.diverging):
            raise Refused(NotACopyCause.OTHER_BATCHES(), path=replica.path)
        epochs = replica.epochs or LeaderEpochFileCache()
        return copy_of(replica.path, _cut(theirs, cuts), held_together.diverging, epochs)

    # Building the result.

    def _load(self, kept: _Kept) -> tuple[list[NewSegment], Loadable]:
        """Return segments that a broker loads, without the batches at which it would stop."""
        for _ in range(MOST_LEFT_OUT):
            segments = self._segments(kept)
            loaded = load(self._path, segments, self._small_files(kept.runs()), self._load_terms(kept), self._mtime_of)
            if isinstance(loaded, Loadable):
                return segments, loaded
            kept.leave_out(loaded)
        raise Refused(NotACopyCause.STOPS_TOO_OFTEN(most=MOST_LEFT_OUT), path=self._path)

    def _segments(self, kept: _Kept) -> list[NewSegment]:
        own = [segment.base_offset for segment in self._files.segments]
        placed = [place_own(run) for run in _runs(kept.stretches)]
        placed += [place_filling(filling, hole, own) for filling, hole in kept.filled.fillings]
        segments = assemble(sorted(placed, key=lambda part: part.run.first_offset))
        # An active segment shows how far the log reached, even if nothing of it is left.
        empty = [file.base_offset for file in self._files.segments if not file.size] + own[-1:]
        return with_empty(segments, sorted(set(empty)))

    def _load_terms(self, kept: _Kept) -> LoadTerms:
        runs = kept.runs()
        end = runs[-1].last_offset + 1 if runs else 0
        bases = [segment.base_offset for segment in self._files.segments]
        start = self._terms.log_start_offset
        # A start after the end must not stay (see the notes): a broker then begins with the first offset that exists.
        return replace(self._terms, log_start_offset=start if start <= max([end, *bases[-1:]]) else 0)

    def _mtime_of(self, segment: NewSegment) -> int | None:
        """Return the mtime of the file that it continues, else of the file that its first bytes come from."""
        by_base = self._numbers.get(segment.source)
        by_path = self._numbers.get(segment.runs[0].path) if segment.runs else None
        number = min((n for n in (by_base, by_path) if n is not None), default=None)
        return None if number is None else self._all_files[number].mtime_ns

    def _small_files(self, runs: Sequence[Run]) -> dict[str, bytes | None]:
        """Return partition.metadata and leader-epoch-checkpoint, if they have to change."""
        files: dict[str, bytes | None] = {}
        if self._files.metadata is None:
            files |= self._metadata()
        if self._files.epochs is not None:
            known_entries, is_wanted = self._known.entries, False
        else:
            replicas = [replica.epochs for replica in self._replicas if replica.epochs is not None]
            known_entries = sorted(
                {entry for epochs in replicas for entry in epochs.entries}, key=lambda entry: entry.epoch
            )
            is_wanted = bool(known_entries) or _EPOCHS in self._files.damaged
        entries = entries_of(runs, right_entries(known_entries, runs))
        if is_wanted or (self._files.epochs is not None and entries != known_entries):
            files[_EPOCHS.value] = build_leader_epoch_checkpoint(entries)
        return files

    def _metadata(self) -> dict[str, bytes | None]:
        theirs = next((replica.metadata for replica in self._replicas if replica.metadata is not None), None)
        if theirs is not None:
            return {_METADATA.value: build_partition_metadata(theirs)}
        return {_METADATA.value: None} if _METADATA in self._files.damaged else {}


def _walk_unknown(
    perhaps: Sequence[tuple[int, int]], runs: Iterable[Run], lost: Iterable[Loss]
) -> Iterator[OffsetSpan]:
    """Yield what of these offsets is neither kept nor lost for sure."""
    known = offsets_of(runs, lost)
    yield from (OffsetSpan(*hole) for span in perhaps for hole in known.holes(*span))


def _overlaps(run: Run, first: int, last: int) -> bool:
    return run.first_offset <= last and first <= run.last_offset


def _runs(stretches: Sequence[Stretch]) -> list[Run]:
    return [stretch for stretch in stretches if isinstance(stretch, Run)]


def _cut(stretches: Sequence[Stretch], cuts: Sequence[int]) -> list[Stretch]:
    """Cut runs into pieces, so that no piece has batches on both sides of one of the (ascending) offsets."""
    result: list[Stretch] = []
    for stretch in stretches:
        result += cut_run(stretch, cuts) if isinstance(stretch, Run) else [stretch]
    return result


def _around(batch: Unloadable) -> tuple[list[Run], list[Run]]:
    """Return the runs before and after a batch of a run."""
    run = batch.run
    with LogFile(run.path) as file:
        frame = FrameReader(file).find(batch.position, run.stop)
        end = batch.position + frame.size if isinstance(frame, Frame) else run.stop
        if run.batches == 1:
            return [], []
        parts = [
            [part for part in walk_stretches(file, run.segment, start=start, end=stop) if isinstance(part, Run)]
            for start, stop in ((run.start, batch.position), (end, run.stop))
        ]
    return parts[0], parts[1]


def _as_rejected(batch: Unloadable, before: Sequence[Run], behind: Sequence[Run]) -> Rejected:
    run = batch.run
    start = before[-1].stop if before else run.start
    stop = behind[0].start if behind else run.stop
    return Rejected(run.path, run.segment, start, stop, UNLOADABLE, batch.reason)


_INDEXES = (FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.OFFSET_INDEX)


def order_steps(draft: Draft) -> tuple[Step, ...]:
    """Return the steps for every difference between the draft as found and as it is now."""
    return tuple(_steps(draft))


def _steps(draft: Draft) -> Iterator[Step]:
    changed = sorted(draft.changed())
    indexes_gone = []
    for name in _of_kinds(changed, FileKind.LOG):
        if name in draft.files:
            index = build_file_name(FileKind.OFFSET_INDEX, parse_file_name(name).base_offset or 0)
            if index in draft.before:
                indexes_gone.append(index)
                yield Delete(index)
            yield _step(draft, name)
    for name in reversed(_of_kinds(changed, FileKind.LOG)):
        if name not in draft.files:
            yield Delete(name)
    in_use = [name for name in changed if not parse_file_name(name).suffix]
    yield from (_step(draft, name) for name in in_use if parse_file_name(name).kind not in (FileKind.LOG, *_INDEXES))
    for kind in _INDEXES:
        names = {*_of_kinds(changed, kind), *(indexes_gone if kind is FileKind.OFFSET_INDEX else ())}
        yield from (_step(draft, name) for name in sorted(names) if name in draft.files or name not in indexes_gone)
    left_over = [name for name in changed if parse_file_name(name).suffix]
    yield from (_step(draft, name) for name in sorted(left_over, key=lambda name: (not name.endswith(".swap"), name)))


def _of_kinds(names: list[str], *kinds: FileKind) -> list[str]:
    return [name for name in names if parse_file_name(name).kind in kinds and not parse_file_name(name).suffix]


def _step(draft: Draft, name: str) -> Step:
    file = draft.files.get(name)
    return Delete(name) if file is None else Write(name, file.content, file.mtime_ns)
