"""What a start does with the left-overs of an interrupted cleaning, split or deletion, before it loads any segment.

These are LogLoader's first three passes: removeTempFilesAndCollectSwapFiles, the segments that swapped ones replace,
and the new names.
"""

from __future__ import annotations

import os

from msgspec import Struct, field

from klogtool.broker.config import LogConfig
from klogtool.broker.draft import Draft
from klogtool.broker.releases import Rules
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.broker.unified_log.overflow_split import CLEANED, SWAP
from klogtool.errors import AtPath
from klogtool.format.names import FileKind, find_base_offset, parse_base_offset
from klogtool.log.file import denied, is_denied

_KRAFT_DELETED = ".checkpoint.deleted"


class LeftOvers(Struct):
    """Names of files. removed: of unfinished and deleted ones, in a safe order. replaced: those of segments that a
    swapped one replaces. swapped: those that lost their `.swap`."""

    removed: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    swapped: list[str] = field(default_factory=list)


def settle_left_overs(draft: Draft, config: LogConfig, rules: Rules, left_overs: LeftOvers | None = None) -> LeftOvers:
    """Change the draft as a start does, and fill `left_overs`. Raises Corrupt or Unsupported, with Kafka's class, if a
    broker does not come to load a segment; Unreadable for a file that it may not read."""
    left_overs = left_overs or LeftOvers()
    swaps = _remove_temporary_files(draft, left_overs)
    if swaps:
        _complete_swaps(draft, swaps, config, rules, left_overs)
    return left_overs


def base_of(draft: Draft, name: str) -> int:
    """Return the base offset in a name, as Java reads it. Raises Corrupt."""
    with AtPath(os.path.join(draft.path, name)):
        return parse_base_offset(name)


def _remove_temporary_files(draft: Draft, left_overs: LeftOvers) -> list[str]:
    """Delete `.deleted` and incomplete files; return the names of swaps that have to be completed."""
    names = draft.names_found()
    for name in names:
        path = os.path.join(draft.path, name)
        if is_denied(path):
            raise denied(path)
    doomed = [name for name in names if name.endswith(DELETED) and not name.endswith(_KRAFT_DELETED)]
    cleaned = [name for name in names if name.endswith(CLEANED)]
    first_cleaned = min((base_of(draft, name) for name in cleaned), default=None)
    swaps = {name: base_of(draft, name) for name in names if name.endswith(SWAP)}
    # A swap at or above the lowest incomplete file belongs to an incomplete set. Its files are deleted before the
    # files that show that.
    invalid = [name for name, base in swaps.items() if first_cleaned is not None and base >= first_cleaned]
    left_overs.removed = [*doomed, *invalid, *cleaned]
    for name in left_overs.removed:
        draft.delete(name)
    return [name for name in swaps if name not in invalid]


def _complete_swaps(draft: Draft, swaps: list[str], config: LogConfig, rules: Rules, left_overs: LeftOvers) -> None:
    """Delete the segments that swapped ones replace, and rename the swapped files."""
    logs = [name for name in swaps if name.removesuffix(SWAP).endswith(FileKind.LOG.value)]
    spans = [_span_of_swap(draft, name, config, rules) for name in logs]
    if spans:
        low, high = min(base for base, _ in spans), max(end for _, end in spans)
        names = [name for name in draft.names_found() if not name.endswith(SWAP)]
        left_overs.replaced = [
            name for name in names if (base := find_base_offset(name)) is not None and low <= base < high
        ]
        for name in left_overs.replaced:
            draft.delete(name)
    for name in draft.names_found():
        plain = name.removesuffix(SWAP)
        if plain != name and plain not in draft.folders:  # a folder stays: nobody looks whether the rename failed
            draft.move(name, plain)
            left_overs.swapped.append(name)


def _span_of_swap(draft: Draft, name: str, config: LogConfig, rules: Rules) -> tuple[int, int]:
    """Return base offset and next offset. Kafka opens it as a new segment for that, so a missing index is created."""
    segment = LogSegment(draft, parse_base_offset(name), config, SWAP, rules=rules)
    next_offset = segment.read_next_offset()
    segment.write_back()
    return segment.base_offset, next_offset
