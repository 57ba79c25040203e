"""Compacts one partition with many tasks, if it is too large for one.

The driver loads the log and decides what `klogtool compact` decides. Tasks find the keys of segments; Spark joins them,
as hashes and offsets only. Other tasks get the resulting map, clean groups of segments, and write the result of each;
then large unchanged files are copied. Everything is written below the assembly's `.tasks` until that is published: an
attempt that did not count leaves files that nobody refers to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from msgspec.structs import replace

from klogtool.broker.cleaning.offset_map import joined_map
from klogtool.broker.cleaning.shares import (
    GroupCleaned,
    GroupShare,
    KeyShare,
    KeysResult,
    MapResult,
    SentPass,
    clean_group,
    find_keys,
)
from klogtool.broker.content import FileRange, content_size
from klogtool.broker.draft import DraftFile
from klogtool.disk.assembling import place_aside, write_aside, write_file_aside
from klogtool.disk.output import NewFile, NewFolder, attributes_of_file, walk_new_files
from klogtool.format.names import build_file_name
from klogtool.log.file import LogFile
from klogtool.spark.spreading import exchange, packed, spread, spread_groups
from klogtool.spark.starting import Session

TASK_BYTES = 128 << 20
TASKS_A_SLOT = 4
LARGEST_SENT_BYTES = 64 << 10  # larger files are written by tasks


class TaskCrew:
    """Does shares as tasks of Spark. stage: of the assembly."""

    def __init__(self, session: Session, stage: str) -> None:
        self._session, self._stage = session, stage
        self._map: tuple[str, ...] = ()  # the files that contain it

    def find_keys(self, sent: SentPass, shares: Sequence[KeyShare]) -> tuple[int, list[KeysResult]]:
        """See Crew."""
        tasks, sizes = self._tasks(shares)
        parts = max(self._session.slots, sum(sizes) // (4 * TASK_BYTES))
        work, join = partial(_find_keys, sent, parts), partial(_join_keys, self._stage, sent.secret)
        results, joined = exchange(self._session, work, join, tasks, parts, sizes=sizes)
        self._map = tuple(place for place, _ in joined)
        return sum(entries for _, entries in joined), [keys for some in results for keys in some]

    def fill_map(self, sent: SentPass) -> MapResult:
        """See Crew."""
        [(place, result)] = spread(self._session, partial(_fill_map, self._stage), [sent])
        self._map = (place,)
        return result

    def clean_groups(self, sent: SentPass, shares: Sequence[GroupShare], latest_offset: int) -> list[GroupCleaned]:
        """See Crew."""
        tasks, sizes = self._tasks(shares)
        work = partial(_clean_groups, self._stage, sent, self._map, latest_offset)
        return [done for some in spread(self._session, work, tasks, sizes=sizes) for done in some]

    def write_files(self, folder: NewFolder) -> dict[str, str]:
        """Return where the large files of a folder are: those that were cleaned, and those that are copied now."""
        ready: dict[str, str] = {}
        due: list[NewFile] = []
        for file in walk_new_files(folder):
            place = place_aside(self._stage, file)
            if place is not None:
                ready[file.name] = place
            elif file.file.size > LARGEST_SENT_BYTES and all(isinstance(part, FileRange) for part in file.file.content):
                due.append(file)
        copy = partial(write_file_aside, self._stage)
        copied = spread_groups(self._session, copy, due, lambda file: file.file.size, TASK_BYTES)
        return ready | {file.name: place for file, place in zip(due, copied, strict=True)}

    def _tasks(self, shares: Sequence[Any]) -> tuple[list[list[Any]], list[int]]:
        """Group consecutive shares into tasks; return the groups and the size of each task."""
        total = sum(share.size for share in shares)
        target = max(TASK_BYTES, total // (self._session.slots * TASKS_A_SLOT))
        tasks = list(packed(shares, lambda share: share.size, target))
        return [some for some, _ in tasks], [size for _, size in tasks]


# What tasks do.


def _find_keys(sent: SentPass, parts: int, shares: Sequence[KeyShare]) -> tuple[list[KeysResult], list[bytes]]:
    whole = sent.arrive()
    results = [find_keys(whole, share) for share in shares]
    keys: Any = whole.offsets
    return results, keys.entries_by_hash(parts)


def _join_keys(stage: str, secret: bytes, maps: list[bytes]) -> tuple[str, int]:
    keys = joined_map(maps, secret)
    return write_aside(stage, (keys.entries_by_hash(1)[0],)), keys.entries


def _fill_map(stage: str, sent: SentPass) -> tuple[str, MapResult]:
    whole = sent.arrive()
    whole.build_map()
    keys: Any = whole.offsets
    result = MapResult(keys.entries, keys.latest_offset, whole.stats.map_is_full, whole.stats.map_messages_read)
    return write_aside(stage, (keys.entries_by_hash(1)[0],)), result


def _clean_groups(
    stage: str, sent: SentPass, map_files: tuple[str, ...], latest_offset: int, shares: Sequence[GroupShare]
) -> list[GroupCleaned]:
    whole = sent.arrive()
    whole.offsets = _map_of(map_files, sent.secret)
    whole.offsets.latest_offset = latest_offset
    return [_staged(sent, stage, share.base_offsets[0], clean_group(whole, share)) for share in shares]


@lru_cache(maxsize=1)
def _map_of(files: tuple[str, ...], secret: bytes) -> Any:
    """Read the map from its files; once per process, since all tasks of a pass have the same."""
    return joined_map(map(_all_of, files), secret)


def _all_of(path: str) -> bytes:
    with LogFile(path) as file:
        return file.read(0, file.size)


def _staged(sent: SentPass, stage: str, base_offset: int, done: GroupCleaned) -> GroupCleaned:
    """Write its files, except small ones, with mode and owner of the files that they replace."""
    source, files = sent.log.draft.path, {}
    for kind, content in done.files.items():
        size, name, file = content_size(content), build_file_name(kind, base_offset), DraftFile(content)
        if size > LARGEST_SENT_BYTES:
            new = NewFile(name, file, attributes_of_file(source, name, file), copied=False)
            content = (FileRange(write_file_aside(stage, new), 0, size),)
        files[kind] = content
    return replace(done, files=files)
