"""Producer state together with its snapshot files in a draft (the file part of ProducerStateManager).

A broker has one such object for the log, and a new one for every segment that it recovers. Each knows only the
snapshots that existed when it listed them, or that it wrote itself. Some results depend on that, so it is the same
here.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection

from klogtool.broker.config import LogConfig
from klogtool.broker.draft import Draft
from klogtool.errors import AtPath, Corrupt
from klogtool.format.names import FileKind, build_file_name, is_visible_to_java, parse_base_offset
from klogtool.format.producer_snapshot import build_producer_snapshot, parse_producer_snapshot
from klogtool.kernels import crc32c
from klogtool.log.producer_state import ProducerStateManager

_DELETED = ".deleted"


class SnapshotNames:
    """Names of snapshot files by offset, sorted by offset: a log may have as many as segments."""

    def __init__(self, draft: Draft) -> None:
        """List those of a draft. Raises Corrupt (NumberFormatException) for a snapshot whose name has no offset."""
        self._names: dict[int, str] = {}
        names = (name for name in draft.names() if name.endswith(FileKind.PRODUCER_SNAPSHOT.value))
        for name in sorted(names, key=is_visible_to_java):
            with AtPath(os.path.join(draft.path, name)):
                self._names[parse_base_offset(name)] = name
        self.offsets = sorted(self._names)

    @property
    def latest(self) -> int | None:
        """Return the highest offset."""
        return self.offsets[-1] if self.offsets else None

    def name_of(self, offset: int) -> str:
        """Return the file name for a known offset."""
        return self._names[offset]

    def add(self, offset: int, name: str) -> None:
        """Add a name, or replace the name of an offset."""
        if offset not in self._names:
            insort(self.offsets, offset)
        self._names[offset] = name

    def pop(self, offset: int) -> str | None:
        """Remove an offset and return its file name, or None."""
        name = self._names.pop(offset, None)
        if name is not None:
            del self.offsets[bisect_left(self.offsets, offset)]
        return name

    def up_to(self, offset: int) -> list[int]:
        """Return the offsets up to this one."""
        return self.offsets[: bisect_right(self.offsets, offset)]

    def above(self, offset: int) -> list[int]:
        """Return the offsets above this one."""
        return self.offsets[bisect_right(self.offsets, offset) :]


class SnapshottedProducers(ProducerStateManager):
    """Producer state of a log. now_ms: the clock that decides which producers of a snapshot have expired."""

    def __init__(self, draft: Draft, config: LogConfig, now_ms: int, snapshots: SnapshotNames | None = None) -> None:
        """snapshots: those of the draft, if already listed; they are shared from then on.

        Raises Corrupt (NumberFormatException) for a snapshot whose name has no offset.
        """
        super().__init__()
        self._draft, self._config, self.now_ms = draft, config, now_ms
        self._snapshots = SnapshotNames(draft) if snapshots is None else snapshots
        self.loaded_from: int | None = None  # offset of the snapshot from which the state was read

    @property
    def latest_snapshot_offset(self) -> int | None:
        """Return the offset of the newest known snapshot."""
        return self._snapshots.latest

    def take_snapshot(self) -> None:
        """Write a snapshot of the current state, unless the last one has the same end (takeSnapshot)."""
        if self.map_end_offset <= self.last_snapshot_offset:
            return
        name = build_file_name(FileKind.PRODUCER_SNAPSHOT, self.map_end_offset)
        self._draft.check_takes_bytes(name)
        data = build_producer_snapshot(self.snapshot_entries(), crc32c)
        before = self._draft.read(name) if name in self._draft else b""
        if before[: len(data)] != data:  # Kafka overwrites an existing file, and keeps bytes after the new end
            self._draft.write(name, data + before[len(data) :])
        self._snapshots.add(self.map_end_offset, name)
        self.last_snapshot_offset = self.map_end_offset

    def remove_stray_snapshots(self, base_offsets: Collection[int]) -> None:
        """List the snapshots again. Of those that are at no segment's base, keep only the largest, and only if no base
        is above it."""
        self._snapshots = SnapshotNames(self._draft)
        at_base = set(base_offsets)
        stray = [offset for offset in self._snapshots.offsets if offset not in at_base]
        if stray and (not at_base or stray[-1] >= max(at_base)):
            stray.pop()
        for offset in stray:
            self._delete(offset)

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int) -> None:
        """Read the state up to an offset from the newest readable snapshot; delete snapshots out of range."""
        for offset in {*self._snapshots.up_to(log_start_offset), *self._snapshots.above(log_end_offset)}:
            self._delete(offset)
        if log_end_offset != self.map_end_offset:
            self.clear()
            self._load_latest(log_start_offset)
        else:
            self.on_log_start_offset_incremented(log_start_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop the state and all snapshots (truncateFullyAndStartAt)."""
        self.clear()
        for known in list(self._snapshots.offsets):
            self._delete(known)
        self.last_snapshot_offset = 0
        self.map_end_offset = offset

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Forget settled transactions below the log start; the state reaches at least the log start."""
        self.on_high_watermark_updated(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self.last_snapshot_offset = log_start_offset if latest is None else latest

    def mark_snapshot_deleted(self, offset: int) -> None:
        """Rename the snapshot at a segment's base, together with the segment (removeAndMarkSnapshotForDeletion)."""
        name = self._snapshots.pop(offset)
        if name is not None and name in self._draft and is_visible_to_java(name):
            self._draft.move(name, name + _DELETED)

    def _load_latest(self, log_start_offset: int) -> None:
        while (latest := self.latest_snapshot_offset) is not None:
            name = self._snapshots.name_of(latest)
            if not is_visible_to_java(name):
                path = os.path.join(self._draft.path, name)
                raise Corrupt("the name is not UTF-8", path=path, kafka_class="NoSuchFileException")
            try:
                entries = parse_producer_snapshot(self._draft.read(name), crc32c)
            except Corrupt:  # a broker deletes it and uses the one before
                self._delete(latest)
                continue
            self.load(entries, self.now_ms, self._config.producer_id_expiration_ms)
            self.last_snapshot_offset = self.map_end_offset = self.loaded_from = latest
            return
        self.last_snapshot_offset = self.map_end_offset = log_start_offset

    def _delete(self, offset: int) -> None:
        name = self._snapshots.pop(offset)
        if name is not None and is_visible_to_java(name):
            self._draft.delete(name)
