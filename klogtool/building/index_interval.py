"""With which index.interval.bytes a log was written, by its offset indexes.

A broker adds an entry for a batch if more bytes than that were written since the batch of the last entry. So each entry
says a bound from above, and the batch before it one from below.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from klogtool.broker.config import DEFAULTS
from klogtool.format.framing import Frame, find_frame
from klogtool.format.indexes import OFFSET_ENTRIES, OFFSET_INDEX_ENTRY_SIZE, entries_before_zero_tail
from klogtool.format.names import FileKind, build_file_name

INDEX_INTERVAL = "index.interval.bytes"


def find_interval(files: Mapping[str, bytes], bases: Mapping[int, str]) -> int | None:
    """Return a value that explains the entries of all offset indexes; None if the default does, or nothing does.

    bases: names of `.log` files by their base offsets.
    """
    least, most = 0, (1 << 31) - 1
    for base, log in bases.items():
        index = files.get(build_file_name(FileKind.OFFSET_INDEX, base), b"")
        for low, high in _bounds(files[log], index):
            least, most = max(least, low), min(most, high)
    is_default = least <= DEFAULTS.index_interval_bytes <= most
    return None if is_default or least > most else least


def _starts(log: bytes) -> Iterator[int]:
    """Yield where batches begin, up to the first damage."""
    at = 0
    while isinstance(frame := find_frame(log, at, len(log)), Frame):
        yield at
        at += frame.size


def _bounds(log: bytes, index: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bounds for each stretch of batches from one entry to the next; the last one has none from above."""
    starts = list(_starts(log))
    count = entries_before_zero_tail(index, OFFSET_INDEX_ENTRY_SIZE)
    positions = [position for _, position in OFFSET_ENTRIES.unpack(index[: count * OFFSET_INDEX_ENTRY_SIZE])]
    before = 0
    for position in positions:
        n = bisect_left(starts, position)
        if n == len(starts) or starts[n] != position or position <= before:
            return
        yield (starts[n - 1] if n else 0) - before, position - before - 1
        before = position
    if starts and starts[-1] >= before:
        yield starts[-1] - before, (1 << 31) - 1
