"""The steps that make of a partition dir what loading and stopping made of its draft, in an order that may break off.

Killed between any two of them, the dir is one that a broker (LogLoader) and klogtool bring to the same end, with
nothing lost on the way. What that asks for:

 1. What an interrupted cleaning or split left is finished in Kafka's own order: half-made swaps before the `.cleaned`
    that tell of them; then the segments that a swap stands for; then each `.log.swap` gets its name, and only then its
    indexes: a `.log.swap` whose index has its name already would take that for one of the old segment's, and delete it.
 2. The `.log`s of a segment that was split come to be before the one they are made of shrinks. As long as that is
    whole, whoever loads it splits it again, into the same files. Before all, its `.index` goes, so that this happens
    before anything else: the new ones have no index yet, would be recovered first, and whoever does that asks the old
    segment for the producers before them, through an index that may be wrong.
 3. Segments that retention takes away go the oldest first, of each its `.log` first: whatever is left is a log
    without a hole, which begins later. If all go, the empty segment at the log's end is there before the last one goes,
    and the snapshot for it: without them, nobody would know where the log ended, and what its producers had written. On
    a full disk there is room for them then.
 4. Segments that the cleaner made take the place of others by Kafka's own protocol: see swap_steps.py.
 5. Segments behind a cut go before the cut is made, the last one first, and of each its `.log` first. Whoever loads it
    in between finds the damage, cuts there, and removes the rest. But where the whole log goes, since it ends below its
    start, the last segment goes last: it is the one that says so; and the leader epochs go before all. A truncation has
    no damage to tell of it: whoever loads the log in between ends at a segment's end, with all that is to stay.
 6. Leader epochs that only batches know of are written before an `.index` goes: segments without one are recovered
    before all others, and epochs are taken up in that order, the higher ones for good. Epochs that only go are written
    behind all else: as long as they are there, no batch adds others.
 7. A segment that is cut loses its `.index` before its `.log` is: without an index a broker recovers it whatever the
    last stop was, and whatever the recovery point is. But one that was given up is emptied first: its damage would make
    a broker refuse, if it met it in that way. So a log that is half cut is believed nowhere, not even beside a clean
    marker, which may therefore stay where it is. (Damage before the cut that nobody has noticed is cut off, too, by a
    start that comes just in between; `undo` has it still.)
 8. Producer snapshots: the newest of those that are new comes first, and those that are not to stay go when they are
    there. A log without any, after a clean stop, is one whose producers are forgotten.
 9. A new `.index` comes behind all these: as long as it is missing, they are made again. Where it was the transaction
    index that made a broker recover the segment, that one is last. Only those of a segment that was recovered before
    one below it (a `.log` whose name has not 20 digits is loaded in its place by that name) come before the snapshots:
    recovered once more, it would begin from those that the lower one left.
10. The `.log` of a segment that begins empty behind others, as a roll makes it, comes with that: what it is behind is
    then as it is to stay, for a broker looks no further back. But where the whole log begins anew, the others go
    towards the new segment from both ends, and those that reach into it before it comes: the log never has a hole, no
    offset twice, and is never without segments. If there is none before the one that holds the offset, that one is
    emptied in its place, and a copy of it becomes the `.deleted`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import accumulate

from klogtool.broker.content import Content, FileRange, Made, Part, content_size, crc_of, part_size, read_content
from klogtool.broker.draft import Draft, DraftFile, span_of
from klogtool.broker.unified_log.log_loader import LoadReport
from klogtool.broker.unified_log.overflow_split import DELETED, SWAP
from klogtool.errors import Corrupt
from klogtool.format.names import FileKind, FileName, build_file_name, parse_file_name
from klogtool.kernels import crc32c
from klogtool.plans.plan import Delete, Rename, Step, Truncate, Write
from klogtool.plans.swap_steps import swap_in

_LOG, _INDEX = FileKind.LOG, FileKind.OFFSET_INDEX
_EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value
_TEMPORARY = ".tmp"
_ORDER = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


def order_steps(draft: Draft, report: LoadReport) -> tuple[Step, ...]:
    """Everything that differs between what the draft was and what it is."""
    _keep_what_is_the_same(draft)
    return _Steps(draft, report).ordered()


class _Steps:
    """state: the files as they are behind the steps so far; their contents are told by what was there before all."""

    def __init__(self, draft: Draft, report: LoadReport) -> None:
        self.wanted, self.report = draft.files, report
        self.state = dict(draft.before)
        self._recovered, self._below_start = set(report.recovered), set(report.below_start)
        self.steps: list[Step] = []

    def ordered(self) -> tuple[Step, ...]:
        self._finish_leftovers()
        if self.report.was_split and self.report.epochs_added:
            self._write_epochs()
        self._write_split_logs()
        self.steps += swap_in(self.report.cleaned, self.state, self.wanted)
        if self.report.below_start:
            self._write_epochs()
        self._drop_oldest()
        self._drop_cut_off()
        self._remove_segments()
        if self.report.epochs_added:
            self._write_epochs()
        self._cut_logs()
        self._write_new_logs()
        self._write_overtaken()
        self._write_the_rest()
        return tuple(self.steps)

    # What is done, one by one.

    def delete(self, name: str) -> None:
        if self.state.pop(name, None) is not None:
            self.steps.append(Delete(name))

    def move(self, name: str, to: str) -> None:
        if name in self.state:
            self.state[to] = self.state.pop(name)
            self.steps.append(Rename(name, to))

    def change(self, name: str) -> None:
        """Make the file what it is to be; nothing if it is."""
        wanted, found = self.wanted.get(name), self.state.get(name)
        if wanted is None:
            self.delete(name)
        elif not _is_the_same(found, wanted):
            if found is not None and wanted.mtime_ns is None and is_head(wanted.content, found.content):
                self.steps.append(Truncate(name, wanted.size))
            else:
                self.steps.append(Write(name, wanted.content, wanted.mtime_ns))
            self.state[name] = wanted

    def differing(self) -> list[str]:
        """Names of files that are not yet what they are to be."""
        names = sorted({*self.state, *self.wanted})
        pairs = ((name, self.state.get(name), self.wanted.get(name)) for name in names)
        return [name for name, one, other in pairs if one is not other and not _is_the_same(one, other)]

    # The phases.

    def _finish_leftovers(self) -> None:
        for name in (*self.report.removed, *self.report.replaced):
            self.delete(name)
        for name in sorted(self.report.swapped, key=lambda name: (parse_file_name(name).kind is not _LOG, name)):
            if name.endswith(_LOG.value + SWAP):
                self._see_to_index(name.removesuffix(_LOG.value + SWAP) + _INDEX.value)
            self.move(name, name.removesuffix(SWAP))

    def _see_to_index(self, index: str) -> None:
        if index + SWAP not in self.state and index not in self.state:
            is_final = parse_file_name(index).base_offset not in self._recovered and index in self.wanted
            content = self.wanted[index].content if is_final else ()
            self.state[index] = DraftFile(content)
            self.steps.append(Write(index, content))

    def _write_split_logs(self) -> None:
        """New `.log`s that are made of another one's bytes, the last first; and copies of it that are to be deleted."""
        if not self.report.was_split:
            return
        made = [name for name in self.differing() if name in self.wanted and self._is_of_another(name)]
        for index in sorted({_index_of(source) for name in made for source in self._sources(name)}):
            self._drop(index)
            self.delete(index)
        for name in sorted(made, key=lambda name: (name not in self.state, name), reverse=True):
            self.change(name)

    def _sources(self, name: str) -> set[str]:
        """The `.log`s, as they are now, whose bytes a new one is made of."""
        pieces = [part for part in self.wanted[name].content if isinstance(part, FileRange)]
        names = {os.path.basename(piece.path) for piece in pieces}
        return {source for source in names & self.state.keys() if source.endswith(_LOG.value)}

    def _is_of_another(self, name: str) -> bool:
        file = parse_file_name(name)
        if file.kind is not _LOG or file.base_offset is None or not self.wanted[name].size:
            return False
        stem = name.removesuffix(DELETED)
        # Its source keeps its name as long as it is needed: what becomes of that one follows.
        is_moved = stem != name and self._can_move(stem, name)
        is_cut = name in self.state and is_head(self.wanted[name].content, self.state[name].content)
        return not is_moved and not is_cut

    def _drop_oldest(self) -> None:
        if not self.report.dropped:
            return
        new = [parse_file_name(name) for name in self.differing() if name in self.wanted and name not in self.state]
        *oldest, last = sorted(self.report.dropped)
        self._drop_whole(oldest)
        for kind in (FileKind.PRODUCER_SNAPSHOT, _LOG):
            for file in new:
                if file.kind is kind and not file.suffix:
                    self.change(file.name)
        self._drop_whole([last])

    def _drop_whole(self, base_offsets: Iterable[int]) -> None:
        for base_offset in base_offsets:
            for kind in _ORDER:
                self._drop(build_file_name(kind, base_offset))

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
        """The segment that reaches into the new one goes, or, without one before it, is emptied in its place."""
        if base_offset is None or build_file_name(_LOG, base_offset) not in self.state:
            return
        name, index = (build_file_name(kind, base_offset) for kind in (_LOG, _INDEX))
        if not is_first and name + DELETED in self.wanted:
            self._drop_segments([base_offset])
            self.delete(index)
            return
        if name + DELETED in self.wanted:
            self.change(name + DELETED)  # a copy
        self.delete(index)
        if self.state[name].size:
            self.state[name] = DraftFile(())
            self.steps.append(Truncate(name, 0))

    def _drop_segments(self, base_offsets: Iterable[int]) -> None:
        for base_offset in base_offsets:
            for kind in _ORDER:
                self._drop(build_file_name(kind, base_offset))

    def _drop(self, name: str) -> None:
        if name + DELETED in self.wanted:
            self._doom(name + DELETED)
        elif name not in self.wanted:
            self.delete(name)

    def _remove_segments(self) -> None:
        """Files that get `.deleted`, but for snapshots: those stay until the new ones are there."""
        doomed = [parse_file_name(name) for name in self.differing() if name.endswith(DELETED) and name in self.wanted]
        for file in sorted((file for file in doomed if file.kind in _ORDER), key=self._when_doomed):
            self._doom(file.name)

    def _when_doomed(self, file: FileName) -> tuple[bool, int, int]:
        base_offset = file.base_offset or 0
        last = base_offset in self._below_start
        return last, base_offset if last else -base_offset, _ORDER.index(file.kind)

    def _doom(self, name: str) -> None:
        stem = name.removesuffix(DELETED)
        if self._can_move(stem, name):
            self.move(stem, name)
            return
        self.change(name)
        if stem not in self.wanted:
            self.delete(stem)

    def _can_move(self, stem: str, name: str) -> bool:
        """Whether the file can become the one that is to be deleted: it is not to stay, and none is made of it."""
        if _content(self.state.get(stem)) == _content(self.wanted.get(stem)):
            return False
        sources = {part.path for part in (_content(self.wanted.get(stem)) or ()) if isinstance(part, FileRange)}
        moved = _content(self.state.get(stem))
        is_needed = any(isinstance(part, FileRange) and part.path in sources for part in moved or ())
        return moved is not None and moved == _content(self.wanted[name]) and not is_needed

    def _cut_logs(self) -> None:
        for name in self.differing():
            file = parse_file_name(name)
            if file.kind is _LOG and not file.suffix and name in self.wanted and name in self.state:
                self._cut_log(name, _index_of(name))

    def _cut_log(self, name: str, index: str) -> None:
        if parse_file_name(name).base_offset in self.report.emptied:
            self.change(name)
        self.delete(index)
        self.change(name)

    def _write_new_logs(self) -> None:
        """Of an append that rolled: in order, so that the log has no hole while they come. Empty ones can wait. Before
        all, whose partition it is: a dir with a log and without that is a stray one to a broker."""
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
        """Side files of segments that were recovered before one below them, what made a broker recover them last."""
        for base_offset in _overtaken(self.report.recovered):
            is_unfit = base_offset in self.report.unfit
            last = (_INDEX, FileKind.TXN_INDEX) if is_unfit else (FileKind.TXN_INDEX, _INDEX)
            for kind in (FileKind.TIME_INDEX, *last):
                self.change(build_file_name(kind, base_offset))

    def _write_the_rest(self) -> None:
        differing = self.differing()
        for name in sorted(differing, key=self._when):
            if name.endswith(DELETED) and name in self.wanted:
                self._doom(name)
            elif name in self.state or name in self.wanted:
                self.change(name)

    def _when(self, name: str) -> tuple[int, int, str]:
        """Side files, snapshots that are new, what goes, `.index` and new segments that are empty, transaction indexes
        that were damaged, epochs."""
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
    """Of base offsets in the order of recovery: those with a lower one behind the last time that they come."""
    last = list(dict.fromkeys(reversed(recovered)))
    lowest = accumulate(last, min)
    return [base_offset for base_offset, low in zip(last, lowest, strict=True) if low < base_offset][::-1]


def _index_of(log: str) -> str:
    return log.removesuffix(_LOG.value) + _INDEX.value


def _keep_what_is_the_same(draft: Draft) -> None:
    """A side file that was made anew, and has the same bytes, is the one that is there."""
    for name in draft.changed():
        before, after = draft.before.get(name), draft.files.get(name)
        if before is None or after is None or before.size != after.size:
            continue
        if after.mtime_ns not in (None, before.mtime_ns):
            continue
        if _has_the_same_bytes(before.content, after.content):
            draft.files[name] = before


def _has_the_same_bytes(before: Content, after: Content) -> bool:
    """Of contents of one size: whether what is new in one are the bytes of the other, and all else is in place."""
    at = 0
    for part in after:
        there = span_of(before, at, part_size(part))
        if there != (part,) and not _is_new_part(part, there):
            return False
        at += part_size(part)
    return True


def _is_new_part(part: Part, there: Content) -> bool:
    if isinstance(part, Made):
        return crc_of(part) == crc32c(read_content(there))
    return isinstance(part, bytes) and part == read_content(there)


def is_head(part: Content, whole: Content) -> bool:
    """Whether a content is the beginning of another, as far as the places say that its bytes are from."""
    part, whole = _content(DraftFile(part)) or (), _content(DraftFile(whole)) or ()
    left = content_size(part)
    for n, piece in enumerate(part):
        if n >= len(whole):
            return False
        other = whole[n]
        if piece != other and not (left == part_size(piece) and _begins(piece, other)):
            return False
        left -= part_size(piece)
    return True


def _begins(piece: Part, other: Part) -> bool:
    if isinstance(piece, FileRange) and isinstance(other, FileRange):
        return (piece.path, piece.start) == (other.path, other.start) and piece.stop <= other.stop
    return isinstance(piece, bytes) and isinstance(other, bytes) and other.startswith(piece)


def _is_the_same(found: DraftFile | None, wanted: DraftFile | None) -> bool:
    """Whether a file is what it is to be: its bytes, and its modification time, where it is to have a certain one."""
    if found is None or wanted is None:
        return found is wanted
    return _content(found) == _content(wanted) and wanted.mtime_ns in (None, found.mtime_ns)


def _content(file: DraftFile | None) -> Content | None:
    """Without parts that are empty, so that equal files are equal."""
    return None if file is None else tuple(part for part in file.content if part_size(part))


def carried_out(before: dict[str, DraftFile], steps: Iterable[Step]) -> dict[str, Content]:
    """What the steps make of the files of a folder: for those who want to know that they are the right ones.

    Raises Corrupt if a step has nothing to work on.
    """
    files = {name: file.content for name, file in before.items()}
    for step in steps:
        if not isinstance(step, Write) and step.path not in files:
            raise Corrupt(f"no such file for a step: {step.path}")
        match step:
            case Write():
                files[step.path] = step.content
            case Truncate():
                draft = Draft("", {step.path: DraftFile(files[step.path])})
                draft.truncate(step.path, step.size)
                files[step.path] = draft.files[step.path].content
            case Rename():
                files[step.to] = files.pop(step.path)
            case Delete():
                del files[step.path]
    return files
