"""A path that names a segment or a partition in remote storage, where a command otherwise takes files of a log dir."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from klogtool.errors import KlogError
from klogtool.format.tiered import local_storage
from klogtool.format.tiered.objects import parse_object_name
from klogtool.format.tiered.sealing import RsaKey
from klogtool.log.storage import LOCAL_SCHEMES, Place
from klogtool.remote.store import RemoteStore, StoredSegment, open_store


def find_named(path: str, keys: Mapping[str, RsaKey]) -> RemoteStore | None:
    """Return a store with only the segments that a path names: a `.log` object, the folder of a partition, or a URI;
    None for a path of a log dir. Raises KlogError if it cannot be listed, or has no segment."""
    if Place(path).scheme not in LOCAL_SCHEMES:
        uri, mark, query = path.partition("?")
        return _named(path, uri.rstrip("/"), mark + query, keys)
    typed = path.removeprefix("file://")
    for uri in (typed.rstrip("/"), os.path.abspath(typed)):  # objects are named as they are typed
        if parse_object_name(uri) is not None if _is_log(uri) else _has_objects(uri):
            return _named(path, uri, "", keys)
    return None


def _is_log(uri: str) -> bool:
    match = local_storage.OBJECT.fullmatch(uri.rpartition("/")[2])
    return match is not None and match["suffix"] == local_storage.LOG


def _has_objects(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(parse_object_name(one.path) is not None for one in entries)
    except (OSError, ValueError):  # told by whoever opens it
        return False


def _named(path: str, uri: str, query: str, keys: Mapping[str, RsaKey]) -> RemoteStore:
    folder, _, name = uri.rpartition("/")
    store = open_store((folder if _is_log(uri) else uri) + query, keys)
    wanted = {
        key: one for key, one in store.segments.items() if not _is_log(uri) or one.path_of_log.endswith(f"/{name}")
    }
    if not wanted:
        raise KlogError(
            "no segment of tiered storage is there", path=store.uri, cure="klogtool remote ls STORE lists them."
        )
    return replace(store, uri=Place(path).shown, segments=wanted)


def segments_of(store: RemoteStore) -> tuple[StoredSegment, ...]:
    """Return the segments of the one partition in a store, by start offset; of several with the same one, the newest.

    Raises KlogError if there are several partitions.
    """
    folders = sorted({one.folder for one in store.segments.values()})
    if len(folders) > 1:
        raise KlogError(
            f"{len(folders)} partitions are there: name one of them, {folders[0]} for example", path=store.uri
        )
    return newest_by_start(store.segments.values())


def newest_by_start(segments: Iterable[StoredSegment]) -> tuple[StoredSegment, ...]:
    """Return the segments of a partition by start offset; of several with the same one, the newest."""
    by_start: dict[int, StoredSegment] = {}
    for one in segments:
        known = by_start.setdefault(one.start_offset, one)
        if (one.newest_ms, one.key) > (known.newest_ms, known.key):
            by_start[one.start_offset] = one
    return tuple(by_start[start] for start in sorted(by_start))


def walk_logs(store: RemoteStore) -> list[StoredSegment]:
    """Return all segments of a store that have a log, by folder and start offset."""
    logs = [one for one in store.segments.values() if one.log is not None]
    return sorted(logs, key=lambda one: (one.folder, one.start_offset, one.key))
