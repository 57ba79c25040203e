"""What the names in a partition dir say: the files in the roles a broker gives them, and the names that bode ill.

The rules are those of LogLoader, which tells files apart by their names alone; what is in them is not looked at here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from klogtool.errors import Corrupt, KlogError
from klogtool.format.names import FileKind, FileName, TopicPartition, build_file_name, parse_base_offset
from klogtool.lazy_dataclasses import dataclass
from klogtool.log.file import LogFile
from klogtool.log.folder import list_folder
from klogtool.log.partition import Partition
from klogtool.repair.findings import Finding
from klogtool.repair.verifying.cures import move_out, recover, renaming

METADATA_TOPIC = "__cluster_metadata"
METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
INDEX_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
TEXT_KINDS = (FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA)


@dataclass(frozen=True, slots=True)
class Layout:
    """A partition dir by names. segments, snapshots, kraft_snapshots: offset to name, ascending.

    names: of all files that can be read, whatever they are. files: how many there are at all.
    """

    partition: Partition
    names: frozenset[str]
    segments: dict[int, str]
    snapshots: dict[int, str]
    kraft_snapshots: dict[int, str]
    files: int

    @property
    def path(self) -> str:
        """The partition dir."""
        return self.partition.path

    @property
    def is_metadata(self) -> bool:
        """Whether it is the log of a KRaft cluster's metadata."""
        return self.partition.topic_partition == METADATA_PARTITION

    def path_of(self, name: str) -> str:
        """Where a file of it lies."""
        return os.path.join(self.path, name)

    def find(self, kind: FileKind, base_offset: int | None = None) -> str | None:
        """The path of a file, by its kind and for a segment's its base offset; None if there is none."""
        name = kind.value if base_offset is None else build_file_name(kind, base_offset)
        return self.path_of(name) if name in self.names else None


def verify_names(partition: Partition) -> tuple[Layout, list[Finding]]:
    """The files of a partition dir, and what their names tell. Raises KlogError if the folder cannot be listed."""
    folder = list_folder(partition.path)
    findings = [_judge_folder(partition.path, name) for name in folder.folders]
    readable = []
    for file in folder.files:
        refusal = _refusal(os.path.join(partition.path, file.name))
        if refusal is None:
            readable.append(file)
        else:
            findings.append(refusal)
    layout = _layout(partition, readable, len(folder.files))
    judged = [finding for file in readable if (finding := _judge(layout, file))]
    return layout, [*findings, *judged, *_leftovers(layout, readable)]


def _layout(partition: Partition, files: list[FileName], count: int) -> Layout:
    def by_offset(kind: FileKind) -> dict[int, str]:
        found = {f.base_offset: f.name for f in files if f.kind is kind and not f.suffix and f.base_offset is not None}
        if kind is FileKind.LOG:
            found = {offset: name for offset, name in found.items() if name == build_file_name(kind, offset)}
        return dict(sorted(found.items()))

    return Layout(
        partition,
        frozenset(file.name for file in files),
        by_offset(FileKind.LOG),
        by_offset(FileKind.PRODUCER_SNAPSHOT),
        by_offset(FileKind.KRAFT_SNAPSHOT),
        count,
    )


def _refusal(path: str) -> Finding | None:
    """What stands against opening a file; a broker looks whether it may read every regular file (LogLoader)."""
    try:
        with LogFile(path):
            return None
    except KlogError as error:
        return Finding("unreadable", path, error.reason)


def _judge_folder(path: str, name: str) -> Finding:
    where = os.path.join(path, name)
    stem = name.partition(".")[0]
    if stem.isdigit() and name.endswith(tuple(kind.value for kind in (FileKind.LOG, *INDEX_KINDS))):
        return Finding("unreadable", where, "a folder in the place of a file: for a broker the file is not there")
    if name in {kind.value for kind in TEXT_KINDS}:
        return Finding("unreadable", where, "a folder in the place of a file: a broker cannot read it")
    return Finding("foreign-file", where, "a folder that is not Kafka's; a broker leaves it alone")


def _judge(layout: Layout, file: FileName) -> Finding | None:
    """What a name tells, but for .cleaned and .swap, which only count together."""
    path = layout.path_of(file.name)
    if file.name.endswith(".deleted"):
        return Finding("leftover-deleted", path, "was about to be deleted; a broker does that at its start")
    if file.name.endswith((".cleaned", ".swap")):
        return None
    if file.kind is FileKind.KRAFT_SNAPSHOT and layout.is_metadata:
        return _judge_kraft_snapshot(file, path)
    if file.suffix:
        known = file.suffix == ".tmp" and not file.kind.has_base_offset
        return None if known else Finding("foreign-file", path, "not a file of Kafka's; a broker leaves it alone")
    if file.kind.has_base_offset:
        return _judge_offset(layout, file, path)
    if file.kind in TEXT_KINDS or (file.kind is FileKind.QUORUM_STATE and layout.is_metadata):
        return None
    return Finding("foreign-file", path, "not a file of a partition's; a broker leaves it alone")


def _judge_kraft_snapshot(file: FileName, path: str) -> Finding | None:
    if file.base_offset is None:
        return Finding(
            "kraft-snapshot-corrupt",
            path,
            "the name holds no end offset and epoch: a broker does not start",
            cure=move_out(path),
        )
    if file.suffix:
        return Finding("leftover-deleted", path, "a snapshot that was not finished; a broker deletes it at its start")
    return None


def _judge_offset(layout: Layout, file: FileName, path: str) -> Finding | None:
    if file.base_offset is None:
        return _no_offset(file.name, path)
    canonical = build_file_name(file.kind, file.base_offset)
    if file.kind is FileKind.LOG:
        if file.base_offset < 0:
            return Finding("segment-name", path, "no offset is below zero")
        if file.name != canonical:
            detail = f"not 20 digits: a broker makes an empty {canonical} and never reads this file"
            return Finding("segment-name", path, detail, cure=renaming(path, layout.path_of(canonical)))
    if file.kind in INDEX_KINDS:
        log = build_file_name(FileKind.LOG, file.base_offset)
        if log not in layout.names:
            detail = f"there is no {log} for it; a broker deletes it at its start"
            return Finding("orphan-file", path, detail, first_offset=file.base_offset)
        if file.name != canonical:
            return Finding("foreign-file", path, f"not 20 digits: a broker reads {canonical} and leaves this alone")
    return None


def _no_offset(name: str, path: str) -> Finding:
    try:
        parse_base_offset(name)
        why = "its offset cannot be read"
    except Corrupt as error:
        why = f"{error.kafka_class}: {error.reason}" if error.kafka_class else error.reason
    return Finding(
        "segment-name",
        path,
        f"the name is no offset, and a broker does not start over it ({why})",
        cure=move_out(path),
    )


# What an interrupted cleaning, split or deletion left: LogLoader.removeTempFilesAndCollectSwapFiles.


def _leftovers(layout: Layout, files: list[FileName]) -> Iterator[Finding]:
    names = [file.name for file in files if file.name.endswith((".cleaned", ".swap"))]
    offsets = {name: _offset_or_none(name) for name in names}
    cleaned = [offset for name, offset in offsets.items() if name.endswith(".cleaned") and offset is not None]
    lowest_cleaned = min(cleaned, default=None)
    for name, offset in offsets.items():
        path = layout.path_of(name)
        if offset is None:
            yield _no_offset(name, path)
        elif name.endswith(".cleaned"):
            detail = (
                "half written by the cleaner, or by a split: a broker deletes it and keeps the segments as they are"
            )
            yield Finding("leftover-cleaned", path, detail, first_offset=offset, cure=recover(layout.path))
        else:
            detail = _fate_of_swap(layout, name, offset, lowest_cleaned)
            yield Finding("leftover-swap", path, detail, first_offset=offset, cure=recover(layout.path))


def _offset_or_none(name: str) -> int | None:
    try:
        return parse_base_offset(name)
    except Corrupt:
        return None


def _fate_of_swap(layout: Layout, name: str, offset: int, lowest_cleaned: int | None) -> str:
    final = name.removesuffix(".swap")
    if lowest_cleaned is not None and offset >= lowest_cleaned:
        return "a .cleaned file at or below it says that the swap was not ready: a broker deletes it, nothing is lost"
    if not final.endswith(FileKind.LOG.value):
        return f"a broker renames it to {final}"
    index = build_file_name(FileKind.OFFSET_INDEX, offset, ".swap")
    unindexed = "" if index in layout.names else f"; without {index} its index will be zeros, and is not built anew"
    return (
        f"a broker completes the swap: it deletes the files of the segments whose place this takes, "
        f"and renames it to {final}{unindexed}"
    )
