"""The steps that turn a partition dir into its draft, which was loaded and stopped. They may be interrupted anywhere.

If the run is killed between any two steps, a broker (LogLoader) and klogtool both bring the dir to the same end, and
nothing is lost on the way. That requires:

 1. What an interrupted cleaning or split left is finished in Kafka's own order: first half-made swaps, before the
    `.cleaned` files that mark them; then the segments that a swap replaces; then each `.log.swap` gets its name, and
    only then its indexes. A `.log.swap` whose index already has its name would take that for the old segment's, and
    delete it.
 2. The new `.log`s of a split segment are written before the old one shrinks. While the old one is whole, every loader
    splits it again, into the same files. Its `.index` is deleted first of all, so that the split comes before anything
    else. Otherwise the new segments, which have no index yet, would be recovered first. That recovery reads the earlier
    producers from the old segment, through an index that may be wrong.
 3. Segments that retention deletes go oldest first, and of each its `.log` first: what is left is a log without a gap,
    which begins later. If all of them go, the empty segment at the log's end and its snapshot are written before the
    last one goes. Without them, the end of the log and the state of its producers would be lost. On a full disk there
    is room for them by then.
 4. Segments that the cleaner made replace others by Kafka's own protocol: see swap_steps.py.
 5. Segments after a cut go before the cut is made, the last one first, and of each its `.log` first. A loader in
    between finds the damage, cuts there, and deletes the rest. There is one exception: if the whole log goes because it
    ends below its start, the last segment goes last, because it shows where the log ends; and the leader epochs go
    before all. After a truncation no damage marks the cut: a loader in between ends the log at the end of a segment,
    with everything that should stay.
 6. Leader epochs that only batches have are written before an `.index` is deleted. Segments without an index are
    recovered before all others, and epochs are taken up in that order, so a higher one would win for good. Epochs that
    are only removed are written after everything else: while they exist, no batch adds others.
 7. A segment that is cut loses its `.index` before its `.log` is cut: without an index a broker recovers it, whatever
    the last stop and the recovery point were. But a segment that was given up is emptied first: its damage would make a
    broker refuse if it recovered the segment that way. So a log that is half cut is never believed, not even with a
    clean marker, which may therefore stay. (A start just in between also cuts off damage before the cut that nobody has
    noticed; `undo` still has those bytes.)
 8. Producer snapshots: the newest of the new ones is written first, and those that should not stay are deleted after
    the new ones. A log without any snapshot forgets its producers, after a clean stop.
 9. A new `.index` is written after all these: while it is missing, a loader makes them again. If a damaged transaction
    index was the reason to recover the segment, that file is last. The exception are segments that were recovered
    before one below them (a `.log` whose name does not have 20 digits is loaded in the order of names): their side
    files are written before the snapshots. If such a segment were recovered again, it would begin with the snapshots of
    the lower one.
10. An empty segment after others, as a roll makes it, gets its `.log` together with its `.index`: the segment before it
    must be final by then, because a broker does not look further back. But if the whole log begins anew, the others go
    from both ends towards the new segment, and those that overlap with it go before it is written. The log never has a
    gap or an offset twice, and is never without segments. If no segment is before the one that contains the new offset,
    that one is emptied in place, and a copy of it becomes the `.deleted` file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import accumulate

from klogtool.broker.content import Content, FileRange, Part, Spooled, content_size, crc_of, part_size, read_content
from klogtool.broker.draft import Draft, DraftFile, span_of
from klogtool.broker.unified_log.log_loader import LoadReport
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.broker.unified_log.overflow_split import SWAP
from klogtool.format.names import SEGMENT_KINDS, FileKind, FileName, build_file_name, parse_file_name
from klogtool.kernels import crc32c
from klogtool.plans.plan import Delete, Rename, Step, Truncate, Write
from klogtool.plans.swap_steps import swap_in

_LOG, _INDEX = FileKind.LOG, FileKind.OFFSET_INDEX
_EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value
_TEMPORARY = ".tmp"


def order_steps(draft: Draft, report: LoadReport) -> tuple[Step, ...]:
    """Return the steps for every difference between the draft as found and as it is now."""
    _keep_what_is_the_same(draft)
    return _LoadingSteps(draft, report).ordered()


class _LoadingSteps:
    """state: the files after the steps so far, in terms of the contents that existed at the beginning."""

    def __init__(self, draft: Draft, report: LoadReport) -> None:
        self.wanted, self.report = draft.files, report
        self.state = dict(draft.before)
        self._recovered, self._below_start = set(report.recovered), set(report.below_start)
        self.steps: list[Step] = []

    def ordered(self) -> tuple[Step, ...]:
        # The numbers are those of the list at the head of this file: 1.
        self._finish_leftovers()
        if self.report.was_split and self.report.epochs_added:
            self._write_epochs()
        # 2, after 6: a split deletes an `.index`.
        self._write_split_logs()
        # 4.
        self.steps += swap_in(self.report.cleaned, self.state, self.wanted)
        if self.report.below_start:
            self._write_epochs()
        # 3, then 5 and 10.
        self._drop_oldest()
        self._drop_cut_off()
        self._remove_segments()
        if self.report.epochs_added:
            self._write_epochs()
        # 7, after all epochs that only the cut batches have.
        self._cut_logs()
        self._write_new_logs()
        # The exception of 9, then 8, 9, and 10.
        self._write_overtaken()
        differing = self.differing()
        for name in sorted(differing, key=self._when):
            if name.endswith(DELETED) and name in self.wanted:
                self._doom(name)
            elif name in self.state or name in self.wanted:
                self.change(name)
        return tuple(self.steps)

    # Single changes.

    def delete(self, name: str) -> None:
        if self.state.pop(name, None) is not None:
            self.steps.append(Delete(name))

    def move(self, name: str, to: str) -> None:
        if name in self.state:
            self.state[to] = self.state.pop(name)
            self.steps.append(Rename(name, to))

    def change(self, name: str) -> None:
        """Make the file as it should be; do nothing if it is."""
        wanted, current = self.wanted.get(name), self.state.get(name)
        if wanted is None:
            self.delete(name)
        elif not _is_the_same(current, wanted):
            # A cut in place needs no room on the disk, and leaves every byte before it where it is.
            if current is not None and wanted.mtime_ns is None and is_head(wanted.content, current.content):
                self.steps.append(Truncate(name, wanted.size))
            else:
                self.steps.append(Write(name, wanted.content, wanted.mtime_ns))
            self.state[name] = wanted

    def differing(self) -> list[str]:
        """Return the names of files that are not yet as they should be."""
        names = sorted({*self.state, *self.wanted})
        pairs = ((name, self.state.get(name), self.wanted.get(name)) for name in names)
        return [name for name, one, other in pairs if one is not other and not _is_the_same(one, other)]

    # Phases.

    def _finish_leftovers(self) -> None:
        for name in (*self.report.removed, *self.report.replaced):
            self.delete(name)
        for name in sorted(self.report.swapped, key=lambda name: (parse_file_name(name).kind is not _LOG, name)):
            if name.endswith(_LOG.value + SWAP):
                index = name.removesuffix(_LOG.value + SWAP) + _INDEX.value
                if index + SWAP not in self.state and index not in self.state:
                    is_final = parse_file_name(index).base_offset not in self._recovered and index in self.wanted
                    content = self.wanted[index].content if is_final else ()
                    self.state[index] = DraftFile(content)
                    self.steps.append(Write(index, content))
            self.move(name, name.removesuffix(SWAP))

    def _write_split_logs(self) -> None:
        """Write new `.log`s from bytes of another one, the last first; and copies of it that will be `.deleted`
        files."""
        if not self.report.was_split:
            return
        written = [name for name in self.differing() if name in self.wanted and self._is_of_another(name)]
        for index in sorted({_index_of(source) for name in written for source in self._sources(name)}):
            self._drop(index)
            self.delete(index)
        for name in sorted(written, key=lambda name: (name not in self.state, name), reverse=True):
            self.change(name)

    def _sources(self, name: str) -> set[str]:
        """Return the current `.log`s from whose bytes a new one is made."""
        ranges = [part for part in self.wanted[name].content if isinstance(part, FileRange)]
        names = {os.path.basename(each.path) for each in ranges}
        return {source for source in names & self.state.keys() if source.endswith(_LOG.value)}

    def _is_of_another(self, name: str) -> bool:
        file = parse_file_name(name)
        if file.kind is not _LOG or file.base_offset is None or not self.wanted[name].size:
            return False
        stem = name.removesuffix(DELETED)
        # Its source keeps its name while it is needed; it is handled later.
        is_moved = stem != name and self._can_move(stem, name)
        is_cut = name in self.state and is_head(self.wanted[name].content, self.state[name].content)
        return not is_moved and not is_cut

    def _drop_oldest(self) -> None:
        if not self.report.dropped:
            return
        new = [parse_file_name(name) for name in self.differing() if name in self.wanted and name not in self.state]
        *oldest, last = sorted(self.report.dropped)
        self._drop_segments(oldest)
        for kind in (FileKind.PRODUCER_SNAPSHOT, _LOG):
            for file in new:
                if file.kind is kind and not file.suffix:
                    self.change(file.name)
        self._drop_segments([last])

    def _drop_cut_off(self) -> None:
        new, old = self.report.began_anew, sorted(self.report.cut_off, reverse=True)
        if new is None:
            self._drop_segments(old)
            return
        above = [base for base in old if base > new]
        last = [above.pop()] if len(above) == len(old) else []
        self._drop_segments(above)
        self._make_way(self.report.overlapped, is_first=self.report.overlapped == old[-1])
        self.change(build_file_name(_LOG, new))
        self._drop_segments([*last, *sorted(base for base in old if base < new)])

    def _make_way(self, base_offset: int | None, *, is_first: bool) -> None:
        """Remove the segment that overlaps with the new one; if no segment is before it, empty it in place."""
        if base_offset is None or build_file_name(_LOG, base_offset) not in self.state:
            return
        name, index = (build_file_name(kind, base_offset) for kind in (_LOG, _INDEX))
        if not is_first and name + DELETED in self.wanted:
            self._drop_segments([base_offset])
            self.delete(index)
            return
        if name + DELETED in self.wanted:
            self.change(name + DELETED)  # made as a copy
        self.delete(index)
        if self.state[name].size:
            self.state[name] = DraftFile(())
            self.steps.append(Truncate(name, 0))

    def _drop_segments(self, base_offsets: Iterable[int]) -> None:
        for base_offset in base_offsets:
            for kind in SEGMENT_KINDS:
                self._drop(build_file_name(kind, base_offset))

    def _drop(self, name: str) -> None:
        if name + DELETED in self.wanted:
            self._doom(name + DELETED)
        elif name not in self.wanted:
            self.delete(name)

    def _remove_segments(self) -> None:
        """Rename files to `.deleted`, except snapshots: those stay until the new ones exist."""
        doomed = [parse_file_name(name) for name in self.differing() if name.endswith(DELETED) and name in self.wanted]
        for file in sorted((file for file in doomed if file.kind in SEGMENT_KINDS), key=self._when_doomed):
            self._doom(file.name)

    def _when_doomed(self, file: FileName) -> tuple[bool, int, int]:
        base_offset = file.base_offset or 0
        last = base_offset in self._below_start
        return last, base_offset if last else -base_offset, SEGMENT_KINDS.index(file.kind)

    def _doom(self, name: str) -> None:
        stem = name.removesuffix(DELETED)
        if self._can_move(stem, name):
            self.move(stem, name)
            return
        self.change(name)
        if stem not in self.wanted:
            self.delete(stem)

    def _can_move(self, stem: str, name: str) -> bool:
        """Return whether the file itself can become the `.deleted` one: it does not stay, and no new file is made from
        it."""
        if _content(self.state.get(stem)) == _content(self.wanted.get(stem)):
            return False
        sources = {part.path for part in (_content(self.wanted.get(stem)) or ()) if isinstance(part, FileRange)}
        # Renamed away, its bytes could not be read for the new file under the old name.
        moved = _content(self.state.get(stem))
        is_needed = any(isinstance(part, FileRange) and part.path in sources for part in moved or ())
        return moved is not None and moved == _content(self.wanted[name]) and not is_needed

    def _cut_logs(self) -> None:
        for name in self.differing():
            file = parse_file_name(name)
            if file.kind is _LOG and not file.suffix and name in self.wanted and name in self.state:
                # Without its index a broker recovers the segment. If it was given up, that must find it empty: see 7.
                if file.base_offset in self.report.emptied:
                    self.change(name)
                self.delete(_index_of(name))
                self.change(name)

    def _write_new_logs(self) -> None:
        """Write the new `.log`s of an append that rolled, in order, so that the log has no gap meanwhile. Empty ones
        can wait. partition.metadata comes before all: a broker takes a dir with a log and without that file for
        stray."""
        if FileKind.PARTITION_METADATA.value not in self.state:
            self.change(FileKind.PARTITION_METADATA.value)
        for name in self.differing():
            file = parse_file_name(name)
            is_new = name in self.wanted and name not in self.state
            if file.kind is _LOG and not file.suffix and is_new and self.wanted[name].size:
                self.change(name)

    def _write_epochs(self) -> None:
        if _EPOCHS + _TEMPORARY not in self.wanted:
            self.delete(_EPOCHS + _TEMPORARY)
        self.change(_EPOCHS)

    def _write_overtaken(self) -> None:
        """Write side files of segments that were recovered before one below them; the file that made a broker recover
        it is last."""
        for base_offset in _overtaken(self.report.recovered):
            is_unfit = base_offset in self.report.unfit
            last = (_INDEX, FileKind.TXN_INDEX) if is_unfit else (FileKind.TXN_INDEX, _INDEX)
            for kind in (FileKind.TIME_INDEX, *last):
                self.change(build_file_name(kind, base_offset))

    def _when(self, name: str) -> tuple[int, int, str]:
        """Return the sort key: side files, new snapshots, deletions, `.index` and new empty segments, transaction
        indexes that were damaged, epochs."""
        file = parse_file_name(name)
        if name == _EPOCHS + _TEMPORARY or (file.kind is FileKind.TXN_INDEX and file.base_offset in self.report.unfit):
            return 4, 0, name
        if name not in self.wanted or name.endswith(DELETED):
            return 2, 0, name
        epochs = 2 if self.report.epochs_appended else 5
        order = {FileKind.PRODUCER_SNAPSHOT: 1, _INDEX: 3, FileKind.LEADER_EPOCH_CHECKPOINT: epochs}
        if file.kind is _LOG and name not in self.state and not self.wanted[name].size:
            return 3, -(file.base_offset or 0), name
        return order.get(file.kind, 0), -(file.base_offset or 0), name


def _overtaken(recovered: Sequence[int]) -> list[int]:
    """Return, of base offsets in order of recovery, those that have a lower one after their last occurrence."""
    last = list(dict.fromkeys(reversed(recovered)))
    lowest = accumulate(last, min)
    return [base_offset for base_offset, low in zip(last, lowest, strict=True) if low < base_offset][::-1]


def _index_of(log: str) -> str:
    return log.removesuffix(_LOG.value) + _INDEX.value


def _keep_what_is_the_same(draft: Draft) -> None:
    """Keep the existing side file if the new one has the same bytes."""
    for name in draft.changed():
        before, after = draft.before.get(name), draft.files.get(name)
        if before is None or after is None or before.size != after.size:
            continue
        # Retention takes the time of the file where no record has one (LogSegment.largestTimestamp), so a new time is a
        # change.
        if after.mtime_ns not in (None, before.mtime_ns):
            continue
        if _has_the_same_bytes(before.content, after.content):
            draft.files[name] = before


def _has_the_same_bytes(before: Content, after: Content) -> bool:
    """Compare contents of one size: return whether new bytes in one equal those of the other, and the rest is in
    place."""
    at = 0
    for part in after:
        there = span_of(before, at, part_size(part))
        if there != (part,) and not _is_new_part(part, there):
            return False
        at += part_size(part)
    return True


def _is_new_part(part: Part, there: Content) -> bool:
    if isinstance(part, Spooled):
        return crc_of(part) == crc32c(read_content(there))
    return isinstance(part, bytes) and part == read_content(there)


def is_head(part: Content, whole: Content) -> bool:
    """Return whether a content is the beginning of another, judged by the places of its bytes."""
    part, whole = _content(DraftFile(part)) or (), _content(DraftFile(whole)) or ()
    left = content_size(part)
    for n, item in enumerate(part):
        if n >= len(whole):
            return False
        other = whole[n]
        if item != other and not (left == part_size(item) and _begins(item, other)):
            return False
        left -= part_size(item)
    return True


def _begins(one: Part, other: Part) -> bool:
    if isinstance(one, FileRange) and isinstance(other, FileRange):
        return (one.path, one.start) == (other.path, other.start) and one.stop <= other.stop
    return isinstance(one, bytes) and isinstance(other, bytes) and other.startswith(one)


def _is_the_same(current: DraftFile | None, wanted: DraftFile | None) -> bool:
    """Return whether a file is as it should be: its bytes, and its mtime if a certain one is wanted."""
    if current is None or wanted is None:
        return current is wanted
    return _content(current) == _content(wanted) and wanted.mtime_ns in (None, current.mtime_ns)


def _content(file: DraftFile | None) -> Content | None:
    """Return the content without empty parts, so that equal files compare equal."""
    return None if file is None else tuple(part for part in file.content if part_size(part))
