"""The names in a partition dir: the files as a broker interprets them, and names that show a problem.

The rules are those of LogLoader, which distinguishes files by their names alone. File contents are not read here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from klogtool.causes import Reason, from_text
from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import (
    INDEX_KINDS,
    METADATA_TOPIC,
    FileKind,
    FileName,
    TopicPartition,
    build_file_name,
    find_base_offset,
    find_renamed_log,
    is_log_name,
    is_visible_to_java,
    parse_base_offset,
    parse_file_name,
)
from klogtool.log.file import LogFile
from klogtool.log.folder import find_nested_logs, list_folder
from klogtool.log.partition import Partition, has_partition_files
from klogtool.verify.causes import CureCause, NameCause
from klogtool.verify.cures import (
    MOST_MAGIC_BYTES,
    is_packed,
    move_out_of_partition,
    renaming,
    unpacking,
    unpacking_into,
)
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.header_end import STILL_OPEN, find_next_offset, find_span_only_in, first_offset_of_log
from klogtool.verify.segment_report import SegmentReport
from klogtool.verify.stops import Stop, reason_of_stop, refuses, stop_of
from klogtool.verify.swaps import JudgedSwaps

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
_OFFSET_BYTES = 8  # a batch begins with its base offset
TEXT_KINDS = (FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA)


class Layout(Struct, frozen=True):
    """A partition dir by names. segments, snapshots, kraft_snapshots: offset -> name, ascending.

    names: of all readable files, whatever they are. present: also unreadable files, and folders with the name of a
    file; segments and snapshots include these. renamed_logs: name of a `.log` -> a file that may be it (see
    find_renamed_log). files: the total number.
    """

    partition: Partition
    names: frozenset[str]
    present: frozenset[str]
    segments: dict[int, str]
    snapshots: dict[int, str]
    kraft_snapshots: dict[int, str]
    renamed_logs: dict[str, str]
    files: int

    @property
    def path(self) -> str:
        """The partition dir."""
        return self.partition.path

    @property
    def is_metadata(self) -> bool:
        """Whether it is the log of a KRaft cluster's metadata."""
        return self.partition.topic_partition == METADATA_PARTITION

    @property
    def has_swaps(self) -> bool:
        """Whether a cleaning or split was interrupted when it was almost complete."""
        return any(name.endswith(".swap") for name in self.names)

    def path_of(self, name: str) -> str:
        """Return the path of one of its files."""
        return os.path.join(self.path, name)

    def find(self, kind: FileKind, base_offset: int | None = None) -> str | None:
        """Return the path of a file by its kind, and base offset if it belongs to a segment; None if there is none."""
        name = kind.value if base_offset is None else build_file_name(kind, base_offset)
        return self.path_of(name) if name in self.names else None


def verify_names(partition: Partition) -> tuple[Layout, list[Finding]]:
    """Return the files of a partition dir, and findings of their names. Raises KlogError if the folder cannot be
    listed."""
    folder = list_folder(partition.path)
    names = {file.name for file in folder.files}
    first = min(filter(is_log_name, names), default="")  # below it may be a copy of what retention deleted
    nested = find_nested_logs(partition.path, folder.folders, names)
    with_logs = {os.path.dirname(path) for path, log in nested.items() if first < log}
    findings = [_judge_folder(partition.path, name, has_logs=name in with_logs) for name in folder.folders]
    readable = []
    for file in folder.files:
        refusal = _refusal(os.path.join(partition.path, file.name)) if is_visible_to_java(file.name) else None
        if refusal is None:
            readable.append(file)
        else:
            findings.append(refusal)
    present = [*folder.files, *map(parse_file_name, filter(_is_place_of_file, folder.folders))]
    layout = _layout(partition, readable, present, len(folder.files))
    judged = [finding for file in readable if (finding := _judge(layout, file))]
    return layout, [*findings, *judged, *_leftovers(layout, readable)]


def _layout(partition: Partition, readable: list[FileName], present: list[FileName], count: int) -> Layout:
    def by_offset(kind: FileKind) -> dict[int, str]:
        names = {
            file.base_offset: file.name
            for file in present
            if file.kind is kind and not file.suffix and file.base_offset is not None
        }
        if kind is FileKind.LOG:
            names = {offset: name for offset, name in names.items() if name == build_file_name(kind, offset)}
        return dict(sorted(names.items()))

    by_name = sorted(readable, key=attrgetter("name"), reverse=True)
    return Layout(
        partition,
        frozenset(file.name for file in readable),
        frozenset(file.name for file in present),
        by_offset(FileKind.LOG),
        by_offset(FileKind.PRODUCER_SNAPSHOT),
        by_offset(FileKind.KRAFT_SNAPSHOT),
        {log: file.name for file in by_name if (log := find_renamed_log(file.name))},
        count,
    )


def _refusal(path: str) -> Finding | None:
    """Return a finding if a file cannot be opened; a broker checks that it may read every regular file (LogLoader)."""
    try:
        with LogFile(path):
            return None
    except KlogError as error:
        return Finding(Kind.UNREADABLE, path, from_text(error.reason))


def _is_place_of_file(name: str) -> bool:
    """Return whether a folder has a name that a file of a partition has."""
    file = parse_file_name(name)
    return not file.suffix and has_partition_files([name])


def _judge_folder(path: str, name: str, *, has_logs: bool) -> Finding:
    where = os.path.join(path, name)
    if _is_place_of_file(name):
        return Finding(Kind.UNREADABLE, where, NameCause.FOLDER())
    if has_logs:
        cure = CureCause.MOVE_UP(folder=where, path=path)
        return Finding(Kind.FOREIGN_FILE, where, NameCause.NESTED_LOGS(), cured_by=cure)
    return Finding(Kind.FOREIGN_FILE, where, NameCause.FOREIGN_FOLDER())


def _judge(layout: Layout, file: FileName) -> Finding | None:
    """Judge a name, except .cleaned and .swap, which are only judged together."""
    path = layout.path_of(file.name)
    if file.kind is FileKind.FOREIGN and not is_visible_to_java(file.name):
        return Finding(Kind.FOREIGN_FILE, path, NameCause.NOT_FOUND())
    if file.name.endswith(".deleted"):
        return Finding(Kind.LEFTOVER_DELETED, path, NameCause.DELETED())
    if file.name.endswith((".cleaned", ".swap")):
        return None
    if file.kind is FileKind.KRAFT_SNAPSHOT and layout.is_metadata:
        return _judge_kraft_snapshot(file, path)
    if file.suffix:
        known = file.suffix == ".tmp" and not file.kind.has_base_offset
        return None if known else Finding(Kind.FOREIGN_FILE, path, NameCause.FOREIGN_FILE())
    if file.kind.has_base_offset:
        return _judge_offset(layout, file, path)
    if file.kind in TEXT_KINDS or (file.kind is FileKind.QUORUM_STATE and layout.is_metadata):
        return None
    lost = _beside_empty(layout, path, file) or _still_open(layout, path, file)
    return lost or Finding(Kind.FOREIGN_FILE, path, NameCause.NOT_OF_PARTITION())


def _beside_empty(layout: Layout, path: str, file: FileName) -> Finding | None:
    """Return a finding if a file is beside an empty segment of its name, as logrotate leaves both: a plain one that
    begins with an offset of the segment is what that had."""
    log = find_renamed_log(file.name)
    if log is not None and log not in layout.names:
        return _in_place_of_missing(layout, path, log)
    if log is None or log not in layout.segments.values() or os.path.getsize(layout.path_of(log)):
        return None
    with LogFile(path) as opened:
        start = opened.read(0, _OFFSET_BYTES)
    if is_packed(start):
        cure = unpacking_into(path, layout.path_of(log))
        return Finding(Kind.FOREIGN_FILE, path, NameCause.BESIDE_EMPTY_PACKED(log=log), cured_by=cure)
    base, first = parse_base_offset(log), int.from_bytes(start[:_OFFSET_BYTES], "big")
    following = min((other for other in layout.segments if other > base), default=MAX_LONG)
    if len(start) < _OFFSET_BYTES or not base <= first < following:
        return None
    cure = renaming(path, layout.path_of(log), over_empty=True)
    return Finding(Kind.FOREIGN_FILE, path, NameCause.BESIDE_EMPTY(log=log), cured_by=cure, loses=True)


def _in_place_of_missing(layout: Layout, path: str, log: str) -> Finding | None:
    """Return a finding if a file may be a segment that is gone. Below the first one it may be a copy of one that
    retention deleted, which deletes the index as well."""
    base = parse_base_offset(log)
    if build_file_name(FileKind.OFFSET_INDEX, base) not in layout.names and base < min(layout.segments, default=0):
        return None
    cure = unpacking(path) if _is_packed(path) else renaming(path, layout.path_of(log))
    return Finding(Kind.FOREIGN_FILE, path, NameCause.FOR_MISSING(log=log), cured_by=cure)


def _still_open(layout: Layout, path: str, file: FileName) -> Finding | None:
    """Return a finding for a segment that was deleted while a broker had it open, as a client of NFS or FUSE keeps it,
    if its offsets are in the log's span, or its index is there. Else retention may have deleted it."""
    if not file.name.startswith(STILL_OPEN) or (first := first_offset_of_log(path)) is None:
        return None
    log, last = build_file_name(FileKind.LOG, first), find_next_offset(path) - 1
    following = min((base for base in layout.segments if base > first), default=MAX_LONG)
    is_old = (
        first < min(layout.segments, default=0) and build_file_name(FileKind.OFFSET_INDEX, first) not in layout.names
    )
    if log in layout.names or is_old or not first <= last < following:
        return None
    cure = renaming(path, layout.path_of(log))
    cause = NameCause.STILL_OPEN(log=log)
    return Finding(Kind.FOREIGN_FILE, path, cause, None, None, first, last, cured_by=cure, loses=True)


def _judge_kraft_snapshot(file: FileName, path: str) -> Finding | None:
    if file.base_offset is None:
        return Finding(
            Kind.KRAFT_SNAPSHOT_CORRUPT,
            path,
            NameCause.NO_END_OFFSET(),
            cured_by=move_out_of_partition(path),
            stop=_stop_of_snapshot_name(file.name),
        )
    if file.suffix:
        return Finding(Kind.LEFTOVER_DELETED, path, NameCause.UNFINISHED_SNAPSHOT())
    return None


def _stop_of_snapshot_name(name: str) -> Stop:
    """Return the stop as Snapshots.parse splits the name: 20 digits, a character, 10 digits."""
    for start, end in ((0, 20), (21, 31)):
        if len(name) < end:
            return refuses("StringIndexOutOfBoundsException", f"begin {start}, end {end}, length {len(name)}")
        if not name[start:end].isdecimal():
            return refuses("NumberFormatException", f'For input string: "{name[start:end]}"')
    return refuses("NumberFormatException", f'For input string: "{name}"')


def _judge_offset(layout: Layout, file: FileName, path: str) -> Finding | None:
    if file.base_offset is None:
        return _no_offset(file.name, path)
    canonical = build_file_name(file.kind, file.base_offset)
    if file.kind is FileKind.LOG:
        if file.base_offset < 0:
            return Finding(Kind.SEGMENT_NAME, path, NameCause.BELOW_ZERO(), cured_by=move_out_of_partition(path))
        if file.name != canonical:
            is_free = canonical not in layout.names
            cure = renaming(path, layout.path_of(canonical)) if is_free else move_out_of_partition(path)
            return Finding(Kind.SEGMENT_NAME, path, NameCause.NOT_20_DIGITS(name=canonical), cured_by=cure)
    if file.kind in INDEX_KINDS:
        log = build_file_name(FileKind.LOG, file.base_offset)
        if log not in layout.present:
            reason: Reason = NameCause.NO_LOG(log=log)
            put_back: Reason | None = None
            renamed = layout.renamed_logs.get(log)
            if renamed is not None:
                reason = NameCause.NO_LOG_BUT(log=log, renamed=renamed)
                old = layout.path_of(renamed)
                unpacked = unpacking(old) if _is_packed(old) else None
                put_back = unpacked or renaming(old, layout.path_of(log))
            return Finding(Kind.ORPHAN_FILE, path, reason, first_offset=file.base_offset, cured_by=put_back)
        if file.name != canonical:
            return Finding(Kind.FOREIGN_FILE, path, NameCause.IGNORED_INDEX(name=canonical))
    return None


def _is_packed(path: str) -> bool:
    with LogFile(path) as file:
        return is_packed(file.read(0, MOST_MAGIC_BYTES))


def _no_offset(name: str, path: str) -> Finding:
    try:
        parse_base_offset(name)
        why = NameCause.UNREAD_OFFSET()
    except Corrupt as error:
        why = from_text(f"{error.kafka_class}: {error.reason}" if error.kafka_class else error.reason)
    return Finding(Kind.SEGMENT_NAME, path, NameCause.NO_OFFSET(why=why), cured_by=move_out_of_partition(path))


_LEFTOVERS = (Kind.LEFTOVER_CLEANED, Kind.LEFTOVER_SWAP)


# What an interrupted cleaning, split or deletion left: LogLoader.removeTempFilesAndCollectSwapFiles.


def _leftovers(layout: Layout, files: list[FileName]) -> Iterator[Finding]:
    names = [file.name for file in files if file.name.endswith((".cleaned", ".swap")) and is_visible_to_java(file.name)]
    offsets = {name: find_base_offset(name) for name in names}
    cleaned = [offset for name, offset in offsets.items() if name.endswith(".cleaned") and offset is not None]
    lowest_cleaned = min(cleaned, default=None)
    for name, offset in offsets.items():
        path = layout.path_of(name)
        if offset is None:
            yield _no_offset(name, path)
        elif name.endswith(".cleaned"):
            yield Finding(Kind.LEFTOVER_CLEANED, path, NameCause.CLEANED(), first_offset=offset)
        else:
            reason = _fate_of_swap(layout, name, offset, lowest_cleaned)
            yield Finding(Kind.LEFTOVER_SWAP, path, reason, first_offset=offset)


def weigh_leftovers(
    layout: Layout, findings: list[Finding], reports: Sequence[SegmentReport], swaps: JudgedSwaps
) -> list[Finding]:
    """Return the findings; those of `.log.swap` and `.log.cleaned` say which offsets are lost with what goes: the
    segments, or the file itself. swaps: what a start makes of them."""
    stop = _stop_at_swap(swaps.stopped_by)
    weighed = [
        _weighed(layout, finding, reports, swaps, stop) if finding.id in _LEFTOVERS else finding for finding in findings
    ]
    return weighed if stop is None else [*weighed, stop]


def _stop_at_swap(error: KlogError | None) -> Finding | None:
    """Return a finding for the `.log.swap` at which a start ends. Names that are no offsets are told elsewhere."""
    path = "" if error is None or error.path is None else error.path
    name = parse_file_name(os.path.basename(path))
    if error is None or name.kind is not FileKind.LOG or name.suffix != ".swap" or name.base_offset is None:
        return None
    return Finding(Kind.FOREIGN_BYTES, path, reason_of_stop(error), error.position, stop=stop_of(error))


def _weighed(
    layout: Layout, finding: Finding, reports: Sequence[SegmentReport], swaps: JudgedSwaps, stop: Finding | None
) -> Finding:
    offset, path = finding.first_offset, finding.path
    if offset is None or not path.removesuffix(".swap").removesuffix(".cleaned").endswith(FileKind.LOG.value):
        return finding
    bases = {suffix: _bases_of(layout, suffix) for suffix in (".cleaned", ".swap")}
    if path.endswith(".cleaned") or offset >= min(bases[".cleaned"], default=MAX_LONG):
        span = find_span_only_in(path, reports)
        cause = NameCause.NOWHERE_ELSE
        return (
            finding
            if span is None
            else replace(finding, reason=cause(fate=finding.reason, first=span[0], last=span[1]), loses=True)
        )
    if stop is not None:
        return replace(finding, reason=NameCause.SWAP_STOPS(name=os.path.basename(stop.path)))
    # What several swaps replace together is told of the one at or below it.
    others = [base for base in bases[".swap"] if base != offset]
    first = offset if any(base < offset for base in others) else -MAX_LONG
    lost = swaps.lost.within(first, min((base for base in others if base > offset), default=MAX_LONG) - 1)
    if lost is None:
        return finding
    cause = NameCause.MAY_BE_LOST if lost.unless_compacted else NameCause.WOULD_BE_LOST
    reason = cause(fate=finding.reason, first=lost.first_offset, last=lost.last_offset)
    return replace(finding, reason=reason, loses=not lost.unless_compacted)


def _bases_of(layout: Layout, suffix: str) -> list[int]:
    """Return the base offsets of files with a suffix; of those that are to be segments, if it is `.swap`."""
    names = (name for name in layout.names if name.endswith(suffix))
    if suffix == ".swap":
        names = (name for name in names if name.endswith(FileKind.LOG.value + suffix))
    return [offset for name in names if (offset := find_base_offset(name)) is not None]


def _fate_of_swap(layout: Layout, name: str, offset: int, lowest_cleaned: int | None) -> Reason:
    final = name.removesuffix(".swap")
    if lowest_cleaned is not None and offset >= lowest_cleaned:
        return NameCause.SWAP_NOT_READY()
    if not final.endswith(FileKind.LOG.value):
        return NameCause.SWAP_RENAMED(name=final)
    index = build_file_name(FileKind.OFFSET_INDEX, offset, ".swap")
    if index in layout.names:
        return NameCause.SWAP_COMPLETED(name=final)
    return NameCause.SWAP_UNINDEXED(name=final, index=index)
