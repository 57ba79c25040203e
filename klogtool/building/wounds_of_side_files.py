"""Wounds of the files beside a log: indexes, producer snapshots, checkpoints, ids; gone, stale, forged, left over.

`file` names the side file, the `.log` beside it, or a partition dir: then the last file of that kind is meant, or that
of `segment`. A forged file is whole: its checksum matches, and it says something wrong.
Numbers wrap as Java's do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from klogtool.broker.draft import Draft
from klogtool.building.wound_places import below, beside, check_new, copy, find_file, is_in_folder, parsed, put, wrong
from klogtool.errors import KlogError
from klogtool.format.checkpoints import build_leader_epoch_checkpoint, parse_leader_epoch_checkpoint
from klogtool.format.identity import build_partition_metadata, parse_partition_metadata
from klogtool.format.indexes import (
    OFFSET_ENTRIES,
    OFFSET_INDEX_ENTRY_SIZE,
    TIME_ENTRIES,
    TIME_INDEX_ENTRY_SIZE,
    build_txn_index,
    entries_before_zero_tail,
    parse_txn_index,
)
from klogtool.format.java_numbers import MAX_LONG, wrap_int, wrap_long
from klogtool.format.names import FileKind
from klogtool.format.producer_snapshot import build_producer_snapshot, parse_producer_snapshot

IndexKind: TypeAlias = Literal["index", "timeindex"]
Suffix: TypeAlias = Literal[".cleaned", ".swap", ".deleted"]

MOST_INDEX_BYTES = 64 << 20


def drop_file(draft: Draft, file: str, *, segment: int | None = None) -> None:
    """Delete any file."""
    draft.delete(find_file(draft, file, segment))


def drop_index(draft: Draft, file: str, *, segment: int | None = None) -> None:
    """Delete an `.index`."""
    draft.delete(find_file(draft, file, segment, FileKind.OFFSET_INDEX))


def drop_timeindex(draft: Draft, file: str, *, segment: int | None = None) -> None:
    """Delete a `.timeindex`."""
    draft.delete(find_file(draft, file, segment, FileKind.TIME_INDEX))


def drop_txnindex(draft: Draft, file: str, *, segment: int | None = None) -> None:
    """Delete a `.txnindex`: consumers with read_committed then see aborted records."""
    draft.delete(find_file(draft, file, segment, FileKind.TXN_INDEX))


def drop_snapshot(draft: Draft, file: str, *, segment: int | None = None) -> None:
    """Delete a producer snapshot. segment: the offset in its name."""
    draft.delete(find_file(draft, file, segment, FileKind.PRODUCER_SNAPSHOT))


def drop_epochs(draft: Draft, file: str) -> None:
    """Delete a partition's `leader-epoch-checkpoint`."""
    draft.delete(_of_partition(draft, file, FileKind.LEADER_EPOCH_CHECKPOINT))


def stale_index(
    draft: Draft, file: str, *, kind: IndexKind = "index", entries: int = 1, segment: int | None = None
) -> None:
    """Take the last entries out of an index: it was not written to the end. The log is whole."""
    name, sound, size = _index(draft, file, kind, segment)
    if not 1 <= entries <= len(sound) // size:
        raise wrong(draft, name, f"{entries} entries cannot be taken out: the index has {len(sound) // size}")
    put(draft, name, sound[: len(sound) - entries * size])


def preallocate_index(
    draft: Draft, file: str, *, kind: IndexKind = "index", size: int = 4096, segment: int | None = None
) -> None:
    """Make an index `size` bytes long by zeros behind its entries, as it is while a broker writes to it."""
    name, sound, _ = _index(draft, file, kind, segment)
    if not len(sound) < size <= MOST_INDEX_BYTES:
        raise wrong(draft, name, f"{size:,} is not a size from {len(sound) + 1:,} to {MOST_INDEX_BYTES:,}")
    put(draft, name, sound + bytes(size - len(sound)))


def forge_index(draft: Draft, file: str, *, entry: int = -1, shift: int = 1, segment: int | None = None) -> None:
    """Move the position of an entry of an `.index` by `shift` bytes: it points into a batch."""
    name = find_file(draft, file, segment, FileKind.OFFSET_INDEX)
    base = _base_of(name)
    entries = OFFSET_ENTRIES.parse(draft.read(name), base)
    _check_entry(draft, name, entries, entry)
    entries[entry] = replace(entries[entry], position=wrap_int(entries[entry].position + shift))
    put(draft, name, OFFSET_ENTRIES.build(entries, base))


def forge_timeindex(draft: Draft, file: str, *, entry: int = -1, shift: int = 1, segment: int | None = None) -> None:
    """Move the timestamp of an entry of a `.timeindex` by `shift` milliseconds: no batch has it."""
    name = find_file(draft, file, segment, FileKind.TIME_INDEX)
    base = _base_of(name)
    entries = TIME_ENTRIES.parse(draft.read(name), base)
    _check_entry(draft, name, entries, entry)
    entries[entry] = replace(entries[entry], timestamp=wrap_long(entries[entry].timestamp + shift))
    put(draft, name, TIME_ENTRIES.build(entries, base))


def forge_txnindex(draft: Draft, file: str, *, entry: int = -1, shift: int = 1, segment: int | None = None) -> None:
    """Move the first offset of an aborted transaction in a `.txnindex` by `shift`."""
    name = find_file(draft, file, segment, FileKind.TXN_INDEX)
    entries = parse_txn_index(draft.read(name))
    _check_entry(draft, name, entries, entry)
    entries[entry] = replace(entries[entry], first_offset=wrap_long(entries[entry].first_offset + shift))
    put(draft, name, build_txn_index(entries))


def forge_snapshot(draft: Draft, file: str, *, entry: int = -1, shift: int = 1, segment: int | None = None) -> None:
    """Move the last sequence number of a producer in a snapshot by `shift`: the broker then refuses its next batch."""
    name = find_file(draft, file, segment, FileKind.PRODUCER_SNAPSHOT)
    entries = parse_producer_snapshot(draft.read(name))
    _check_entry(draft, name, entries, entry)
    entries[entry] = replace(entries[entry], last_sequence=wrap_int(entries[entry].last_sequence + shift))
    put(draft, name, build_producer_snapshot(entries))


def forge_epochs(draft: Draft, file: str, *, entry: int = -1, shift: int = 1) -> None:
    """Move the start offset of an epoch in a partition's `leader-epoch-checkpoint` by `shift`."""
    name = _of_partition(draft, file, FileKind.LEADER_EPOCH_CHECKPOINT)
    entries = parse_leader_epoch_checkpoint(draft.read(name))
    _check_entry(draft, name, entries, entry)
    entries[entry] = replace(entries[entry], start_offset=wrap_long(entries[entry].start_offset + shift))
    put(draft, name, build_leader_epoch_checkpoint(entries))


def wrong_topic_id(draft: Draft, file: str) -> None:
    """Give a partition the topic id of a topic that was deleted and created anew: one bit of `partition.metadata`."""
    name = _of_partition(draft, file, FileKind.PARTITION_METADATA)
    metadata = parse_partition_metadata(draft.read(name))
    other = bytes([metadata.topic_id[0] ^ 1, *metadata.topic_id[1:]])
    put(draft, name, build_partition_metadata(replace(metadata, topic_id=other)))


def drop_segment(draft: Draft, file: str, *, segment: int | None = None) -> None:
    """Delete all files of a segment, its producer snapshot included."""
    for name in _files_of_segment(draft, file, segment):
        draft.delete(name)


def copy_segment(draft: Draft, file: str, *, to: int, segment: int | None = None) -> None:
    """Copy a segment under another base offset: two segments hold the same records."""
    if not 0 <= to <= MAX_LONG:
        raise wrong(draft, file, f"{to} is no base offset")
    for name in _files_of_segment(draft, file, segment):
        copy(draft, name, beside(name, f"{to:020d}{parsed(name).kind.value}"))


def leave_over(draft: Draft, file: str, *, suffix: Suffix, segment: int | None = None) -> None:
    """Copy a segment's log and indexes under a suffix: what an interrupted cleaning or deletion leaves."""
    for name in _files_of_segment(draft, file, segment):
        if parsed(name).kind is not FileKind.PRODUCER_SNAPSHOT:
            copy(draft, name, name + suffix)


def rename_file(draft: Draft, file: str, *, to: str, segment: int | None = None) -> None:
    """Rename a file within its folder. Raises KlogError if the name is taken."""
    name = find_file(draft, file, segment)
    if "/" in to or to in ("", ".", ".."):
        raise wrong(draft, name, f"'{to}' is not the name of a file")
    check_new(draft, beside(name, to))
    draft.move(name, beside(name, to))


def _files_of_segment(draft: Draft, file: str, segment: int | None) -> list[str]:
    log = find_file(draft, file, segment)
    stem = beside(log, parsed(log).name.partition(".")[0] + ".")
    return [name for name in draft.names() if name.startswith(stem) and not parsed(name).suffix]


def _of_partition(draft: Draft, file: str, kind: FileKind) -> str:
    """Return the file of a partition dir that has this name. file: the dir, or any file in it."""
    name = below(file, kind.value) if is_in_folder(draft, file) else beside(file, kind.value)
    if name not in draft:
        raise wrong(draft, name, "no such file")
    return name


def _index(draft: Draft, file: str, kind: IndexKind, segment: int | None) -> tuple[str, bytes, int]:
    """Return an index's name, its bytes without the preallocated ones, and the size of an entry."""
    is_time = kind == "timeindex"
    name = find_file(draft, file, segment, FileKind.TIME_INDEX if is_time else FileKind.OFFSET_INDEX)
    size = TIME_INDEX_ENTRY_SIZE if is_time else OFFSET_INDEX_ENTRY_SIZE
    data = draft.read(name)
    return name, data[: entries_before_zero_tail(data, size) * size], size


def _base_of(name: str) -> int:
    base = parsed(name).base_offset
    if base is None:
        raise KlogError("the name has no base offset", path=name)
    return base


def _check_entry(draft: Draft, name: str, entries: Sequence[object], number: int) -> None:
    if not -len(entries) <= number < len(entries):
        raise wrong(draft, name, f"there is no entry {number}: the file has {len(entries)}")
