"""Offsets before the first segment of a log, at which leader-epoch-checkpoint still begins.

Retention renames a segment to `.deleted` at once, and a background thread writes the new epochs a moment later
(LeaderEpochFileCache.truncateFromStartAsyncFlush). A broker that is killed in between leaves the old ones. The next
start deletes the `.deleted` files, and raises the epochs to the line of log-start-offset-checkpoint, not to the first
segment (LogLoader.load): they stay, over clean stops, too, until retention deletes again. So they do not tell whether
retention deleted the segments, or somebody removed them. An index without its `.log` does: retention renames both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from klogtool.broker.circumstances import LoadTerms
from klogtool.broker.content import read_content
from klogtool.broker.draft import DraftFile
from klogtool.errors import KlogError
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.offset_ranges import Offsets
from klogtool.verify.only_copies import HIGHEST, LEFT_LOG_SUFFIXES, find_orphans
from klogtool.verify.swaps import offsets_in_log

_EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value


def find_lost_start(files: Mapping[str, DraftFile], terms: LoadTerms, first: int) -> list[tuple[int, int]]:
    """Return the offsets from the first leader epoch, or the log start, to the first segment, `.swap` or index, that no
    left-over has: retention deleted them, or somebody. Empty if remote storage or a cleaning may explain them, or a
    file cannot be read. first: the offset with which the log begins."""
    if _EPOCHS not in files or terms.compaction is not None or terms.may_begin_elsewhere:
        return []
    left, first = Offsets(), min([first, *find_orphans(files), *_swapped_in(files)])
    try:
        epochs = parse_leader_epoch_checkpoint(read_content(files[_EPOCHS].content))
        start = max(terms.log_start_offset, min((epoch.start_offset for epoch in epochs), default=HIGHEST))
        for name in files if start < first else ():
            file = parse_file_name(name)
            if file.kind is FileKind.LOG and file.suffix in LEFT_LOG_SUFFIXES:
                left.add_all(offsets_in_log(files[name].content).all)
    except KlogError:
        return []
    return list(left.holes(start, first - 1))


def _swapped_in(files: Iterable[str]) -> Iterator[int]:
    """Yield the base offsets of `.swap` files, which a start makes segments of."""
    parsed = map(parse_file_name, files)
    yield from (
        file.base_offset
        for file in parsed
        if file.kind is FileKind.LOG and file.suffix == ".swap" and file.base_offset is not None
    )
