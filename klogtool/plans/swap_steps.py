"""The steps that put segments in place of others as the broker's cleaner does (LocalLog.replaceSegments). What a start
makes of files that such steps left is decided in broker/unified_log/left_overs.py.

If the run is killed between any two steps, LogLoader brings the dir to its old state or to its new one:

 1. All new files are written as `.cleaned`. A start deletes those, and the old segments are complete.
 2. They are renamed to `.swap`, highest base offset first. While there is a `.cleaned`, a start deletes every `.swap`
    at or above it.
 3. The old files are renamed to `.deleted`, from the first segment on. From here on a start completes the swap.
 4. The new files get their names, from the first segment on.
"""

from __future__ import annotations

from collections.abc import Iterable

from klogtool.broker.content import Content, content_size
from klogtool.broker.draft import DraftFile
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.broker.unified_log.overflow_split import CLEANED, SWAP
from klogtool.format.names import SEGMENT_KINDS, FileKind, build_file_name, parse_file_name
from klogtool.plans.plan import Delete, Rename, Step, Write


def swap_in(base_offsets: Iterable[int], state: dict[str, DraftFile], wanted: dict[str, DraftFile]) -> list[Step]:
    """Return steps for new segments of these base offsets, if they stay and differ. state: the current files; it is
    updated. wanted: the files as they should be."""
    new = [base for base in sorted(base_offsets) if any(state.get(n) != wanted.get(n) for n in _names(base))]
    new = [base for base in new if build_file_name(FileKind.LOG, base) in wanted]
    steps: list[Step] = []
    for base in new:
        for name in _wanted_names(base, wanted):
            steps.append(Write(name + CLEANED, wanted[name].content, wanted[name].mtime_ns))
    for base in reversed(new):
        steps += (Rename(name + CLEANED, name + SWAP) for name in _wanted_names(base, wanted))
    for name in _replaced(new, state, wanted):
        steps += _remove(name, state, wanted)
    for base in new:
        for name in _wanted_names(base, wanted):
            steps.append(Rename(name + SWAP, name))
            state[name] = wanted[name]
    return steps


def _names(base_offset: int) -> list[str]:
    return [build_file_name(kind, base_offset) for kind in SEGMENT_KINDS]


def _wanted_names(base_offset: int, wanted: dict[str, DraftFile]) -> list[str]:
    return [name for name in _names(base_offset) if name in wanted]


def _replaced(new: list[int], state: dict[str, DraftFile], wanted: dict[str, DraftFile]) -> list[str]:
    """Return the files of segments that the new ones replace: theirs, and those between them that should not stay."""
    bases = {
        file.base_offset for name in state if (file := parse_file_name(name)).kind in SEGMENT_KINDS and not file.suffix
    }
    begun = [base for base in bases if base is not None and new and base >= new[0]]
    gone = {base for base in begun if build_file_name(FileKind.LOG, base) not in wanted}
    return [name for base in sorted({*new, *gone}) for name in _names(base) if name in state]


def _remove(name: str, state: dict[str, DraftFile], wanted: dict[str, DraftFile]) -> list[Step]:
    """Delete a file, or rename it to the wanted `.deleted` file."""
    doomed, file = wanted.get(name + DELETED), state.pop(name)
    if doomed is None:
        return [Delete(name)]
    state[name + DELETED] = doomed
    if _parts(doomed.content) == _parts(file.content) and doomed.mtime_ns in (None, file.mtime_ns):
        return [Rename(name, name + DELETED)]
    return [Write(name + DELETED, doomed.content, doomed.mtime_ns), Delete(name)]


def _parts(content: Content) -> Content:
    return tuple(part for part in content if content_size((part,)))
