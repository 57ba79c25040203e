"""The steps that make of a partition dir what loading and stopping made of its draft, in an order that may break off.

Killed between any two of them, the dir is one that a broker (LogLoader) and klogtool bring to the same end, with
nothing lost on the way. What that asks for:

 1. What an interrupted cleaning or split left is finished in Kafka's own order: half-made swaps before the `.cleaned`
    that tell of them; then the segments that a swap stands for; then each `.log.swap` gets its name, and only then its
    indexes: a `.log.swap` whose index has its name already would take that for one of the old segment's, and delete it.
 2. The `.log`s of a segment that was split come to be before the one they are made of shrinks. As long as that is
    whole, whoever loads it splits it again, into the same files.
 3. Segments behind a cut go before the cut is made, the last one first, and of each its `.log` first. Whoever loads it
    in between finds the damage, cuts there, and removes the rest.
 4. A segment that was recovered loses its `.index` before its `.log` is cut: without an index a broker recovers it
    whatever the last stop was, and whatever the recovery point is. But one that was given up is emptied first: its
    damage would make a broker refuse, if it met it in that way.
 5. Its new `.index` comes last, behind the other side files, the producer snapshots and the leader epochs: as long as
    it is missing, all these are made again.
 6. Snapshots that are not to stay go when the new ones are there: a log without any, after a clean stop, is one whose
    producers are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from klogtool.errors import Corrupt
from klogtool.format.names import FileKind, FileName, parse_file_name
from klogtool.repair.draft import Content, Draft, DraftFile, Piece, content_size
from klogtool.repair.loading import LoadReport
from klogtool.repair.plan import Delete, Rename, Step, Truncate, Write
from klogtool.repair.split import DELETED, SWAP

_LOG, _INDEX = FileKind.LOG, FileKind.OFFSET_INDEX
_ORDER = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


def order_steps(draft: Draft, report: LoadReport) -> tuple[Step, ...]:
    """Everything that differs between what the draft was and what it is."""
    return _Steps(draft, report).ordered()


class _Steps:
    """state: the files as they are behind the steps so far; their contents are told by what was there before all."""

    def __init__(self, draft: Draft, report: LoadReport) -> None:
        self.wanted, self.report = draft.files, report
        self.state = dict(draft.before)
        self.steps: list[Step] = []

    def ordered(self) -> tuple[Step, ...]:
        self._finish_leftovers()
        self._write_split_logs()
        self._remove_segments()
        self._cut_logs()
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
        elif _content(found) != _content(wanted):
            if found is not None and is_head(wanted.content, found.content):
                self.steps.append(Truncate(name, wanted.size))
            else:
                self.steps.append(Write(name, wanted.content, wanted.mtime_ns))
            self.state[name] = wanted

    def differing(self) -> list[str]:
        """Names of files that are not yet what they are to be."""
        names = sorted({*self.state, *self.wanted})
        return [name for name in names if _content(self.state.get(name)) != _content(self.wanted.get(name))]

    # The phases.

    def _finish_leftovers(self) -> None:
        for name in (*self.report.removed, *self.report.replaced):
            self.delete(name)
        for name in sorted(self.report.swapped, key=lambda name: (parse_file_name(name).kind is not _LOG, name)):
            self.move(name, name.removesuffix(SWAP))

    def _write_split_logs(self) -> None:
        """New `.log`s that are made of another one's bytes, the last first; and copies of it that are to be deleted."""
        if not self.report.was_split:
            return
        made = [name for name in self.differing() if name in self.wanted and self._is_of_another(name)]
        for name in sorted(made, key=lambda name: (name not in self.state, name), reverse=True):
            self.change(name)

    def _is_of_another(self, name: str) -> bool:
        file = parse_file_name(name)
        if file.kind is not _LOG or file.base_offset is None or not self.wanted[name].size:
            return False
        stem = name.removesuffix(DELETED)
        # Its source keeps its name as long as it is needed: what becomes of that one follows.
        is_moved = stem != name and self._can_move(stem, name)
        is_cut = name in self.state and is_head(self.wanted[name].content, self.state[name].content)
        return not is_moved and not is_cut

    def _remove_segments(self) -> None:
        """Files that get `.deleted`, but for snapshots: those stay until the new ones are there."""
        doomed = [parse_file_name(name) for name in self.differing() if name.endswith(DELETED) and name in self.wanted]
        for file in sorted((file for file in doomed if file.kind in _ORDER), key=_last_segment_first):
            self._doom(file.name)

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
        sources = {part.path for part in (_content(self.wanted.get(stem)) or ()) if isinstance(part, Piece)}
        moved = _content(self.state.get(stem))
        is_needed = any(isinstance(part, Piece) and part.path in sources for part in moved or ())
        return moved is not None and moved == _content(self.wanted[name]) and not is_needed

    def _cut_logs(self) -> None:
        for name in self.differing():
            file = parse_file_name(name)
            if file.kind is _LOG and not file.suffix and name in self.wanted and name in self.state:
                self._cut_log(name, name.removesuffix(_LOG.value) + _INDEX.value)
        for base_offset in set(self.report.recovered):
            self._drop_changed_index(base_offset)

    def _cut_log(self, name: str, index: str) -> None:
        if not self.wanted[name].size:
            self.change(name)
        self.delete(index)
        self.change(name)

    def _drop_changed_index(self, base_offset: int) -> None:
        """Of a segment that was recovered and not cut: it may have been because its transaction index is damaged."""
        names = [name for name in self.differing() if parse_file_name(name).base_offset == base_offset]
        indexes = [name for name in names if parse_file_name(name).kind in _ORDER and name in self.wanted]
        index = next((name for name in self.state if _is_index_of(name, base_offset)), None)
        if index is not None and indexes and index in self.wanted:
            self.delete(index)

    def _write_the_rest(self) -> None:
        differing = self.differing()
        for name in sorted(differing, key=self._when):
            if name.endswith(DELETED) and name in self.wanted:
                self._doom(name)
            elif name in self.state or name in self.wanted:
                self.change(name)

    def _when(self, name: str) -> tuple[int, str]:
        """Side files, snapshots that are new, epochs, `.index`; then what goes."""
        kind = parse_file_name(name).kind
        if name not in self.wanted or name.endswith(DELETED):
            return 4, name
        order = {FileKind.PRODUCER_SNAPSHOT: 1, FileKind.LEADER_EPOCH_CHECKPOINT: 2, _INDEX: 3}
        return order.get(kind, 0), name


def is_head(part: Content, whole: Content) -> bool:
    """Whether a content is the beginning of another, as far as the places say that its bytes are from."""
    part, whole = _content(DraftFile(part)) or (), _content(DraftFile(whole)) or ()
    left = content_size(part)
    for n, piece in enumerate(part):
        if n >= len(whole):
            return False
        other = whole[n]
        if piece != other and not (left == _size(piece) and _begins(piece, other)):
            return False
        left -= _size(piece)
    return True


def _begins(piece: Piece | bytes, other: Piece | bytes) -> bool:
    if isinstance(piece, Piece) and isinstance(other, Piece):
        return (piece.path, piece.start) == (other.path, other.start) and piece.stop <= other.stop
    return isinstance(piece, bytes) and isinstance(other, bytes) and other.startswith(piece)


def _size(part: Piece | bytes) -> int:
    return part.size if isinstance(part, Piece) else len(part)


def _content(file: DraftFile | None) -> Content | None:
    """Without parts that are empty, so that equal files are equal."""
    return None if file is None else tuple(part for part in file.content if _size(part))


def _last_segment_first(file: FileName) -> tuple[int, int]:
    return -(file.base_offset or 0), _ORDER.index(file.kind)


def _is_index_of(name: str, base_offset: int) -> bool:
    file = parse_file_name(name)
    return file.kind is _INDEX and not file.suffix and file.base_offset == base_offset


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
