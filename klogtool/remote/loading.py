"""A partition in remote storage, loaded as if a broker had it on its disk.

Only the segments that a question needs are read: they are found by their names, and a time by halving.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints, Circumstances, terms_of
from klogtool.broker.content import FileRange
from klogtool.broker.draft import Draft, DraftFile
from klogtool.broker.unified_log.loaded_partition import LoadedPartition
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.format.names import INDEX_KINDS, FileKind, build_file_name
from klogtool.format.tiered.objects import TierLayout
from klogtool.format.tiered.segments import RemoteSegment
from klogtool.log.storage import NS_A_MS, LocalStorage
from klogtool.remote.described import describe
from klogtool.remote.named import segments_of
from klogtool.remote.segment_file import find_side_file, open_log
from klogtool.remote.store import RemoteStore, StoredSegment

PIECE_BYTES = 8 << 20
Save = Callable[[str, Iterator[bytes]], str]


class NeededOfLog(Struct, frozen=True):
    """What a question needs of a partition: the segments of these offsets, the first with a record of these times or
    later. behind: all segments behind these, too."""

    offsets: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    first: bool = False
    last: bool = False
    largest_time: bool = False
    behind: bool = False


def load_named(store: RemoteStore, wanted: NeededOfLog, circumstances: Circumstances, save: Save) -> LoadedPartition:
    """Load the segments that are wanted, as if a broker had them on its disk. save: keeps bytes under a name for as
    long as the partition is used, and returns the path. Raises KlogError if an object that is needed cannot be read."""
    segments = segments_of(store)
    selected = [segments[n] for n in _choose(store, segments, wanted)]
    files = dict(_walk_files(store, selected, save))
    terms = terms_of(f"{selected[0].topic}-{selected[0].key.partition}", circumstances, checkpoints=Checkpoints(None))
    return LoadedPartition(LoadedLog(Draft(selected[0].folder, files), terms))


def _choose(store: RemoteStore, segments: Sequence[StoredSegment], wanted: NeededOfLog) -> list[int]:
    """Return the numbers of the segments that are needed, ascending."""
    last, starts = len(segments) - 1, [one.start_offset for one in segments]

    @cache
    def described(number: int) -> RemoteSegment:
        return describe(store, segments[number])

    numbers = {0} if wanted.first else set[int]()
    for offset in wanted.offsets:
        number = max(0, bisect_right(starts, offset) - 1)
        numbers.add(number)
        if number < last and described(number).end_offset < offset:  # a reader goes on to the next one
            numbers.add(number + 1)
    for time in wanted.times:
        numbers.add(min(last, bisect_left(range(last + 1), time, key=lambda n: described(n).max_timestamp_ms)))
    if wanted.largest_time:
        numbers.add(max(range(last + 1), key=lambda n: described(n).max_timestamp_ms))
    if wanted.last or not numbers:
        numbers.add(last)
    return list(range(min(numbers), last + 1)) if wanted.behind else sorted(numbers)


def _walk_files(store: RemoteStore, selected: Sequence[StoredSegment], save: Save) -> Iterator[tuple[str, DraftFile]]:
    """Yield the files of a partition dir that has these segments."""
    for one in selected:
        log = _log_of(store, one, save)
        yield build_file_name(FileKind.LOG, one.start_offset), DraftFile((log,), one.newest_ms * NS_A_MS)
        for kind in INDEX_KINDS:
            if (data := find_side_file(store, one, kind)) is not None:
                yield build_file_name(kind, one.start_offset), DraftFile((data,) if data else ())
    newest = selected[-1]
    if snapshot := find_side_file(store, newest, FileKind.PRODUCER_SNAPSHOT):
        end = describe(store, newest).end_offset + 1
        yield build_file_name(FileKind.PRODUCER_SNAPSHOT, end), DraftFile((snapshot,))
    if epochs := find_side_file(store, newest, FileKind.LEADER_EPOCH_CHECKPOINT):
        yield FileKind.LEADER_EPOCH_CHECKPOINT.value, DraftFile((epochs,))


def _log_of(store: RemoteStore, segment: StoredSegment, save: Save) -> FileRange:
    """Return the log of a segment as a file on this machine."""
    with open_log(store, segment) as file:
        if segment.layout is TierLayout.LOCAL and isinstance(store.storage, LocalStorage):
            return FileRange(file.path, 0, file.size)
        chunks = (file.read(at, min(PIECE_BYTES, file.size - at)) for at in range(0, file.size, PIECE_BYTES))
        return FileRange(save(build_file_name(FileKind.LOG, segment.start_offset), chunks), 0, file.size)
