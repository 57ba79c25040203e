"""Writes an image of a log dir into a new folder, and packs it; the source is only read.

Order of effects: check the places; build the folder, the archive and the map of names beside their places under
temporary names; then rename the map, the archive and, last, the folder. A kill before that leaves only files that end
in `.part`.
"""

from __future__ import annotations

import json
import os
import tarfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.disk.attributes import FileAttributes, attributes_of
from klogtool.disk.causes import OutputRefusal
from klogtool.disk.disk import Disk, remove_folder
from klogtool.disk.facts import check_saving_place
from klogtool.disk.output import check_in_no_log_dir, check_place
from klogtool.errors import FileCause, KlogError, Refused
from klogtool.log.file import read_whole, unreadable
from klogtool.log.log_dirs import is_log_dir, is_partition_dir
from klogtool.plans.causes import PlanRefusal
from klogtool.plans.image import ImageFile, ImagePlan, walk_chunks
from klogtool.plans.image_log import BlankedChunk
from klogtool.plans.image_names import SECRET_BYTES, TopicNames, read_names

MOST_MAP_BYTES = 1 << 30
PRIVATE_MODE, OURS, OUR_FOLDERS = 0o600, 0o600, 0o700
SECTOR_BYTES = 512  # the unit of st_blocks


class ImagePlaces(Struct, frozen=True):
    """Where an image goes: its folder, the map of names or None, its archive or None."""

    output: str
    names: str | None = None
    pack: str | None = None


class WrittenImage(Struct):
    """What was written. bytes: sizes of all files; kept_bytes: what they take on disk; packed_bytes: size of the
    archive. unread: files that could not be read, each with the reason; they are blank. holes: how many bytes of a file
    cannot be read as its kind."""

    files: int = 0
    bytes: int = 0
    kept_bytes: int = 0
    packed_bytes: int | None = None
    unread: list[tuple[str, str]] = field(default_factory=list)
    holes: dict[str, int] = field(default_factory=dict)


def check_places(places: ImagePlaces, source: str) -> None:
    """Raises Refused if the image, its archive or the map of names may not be where they are to be; KlogError if a
    parent does not exist."""
    check_place(places.output, source)
    check_in_no_log_dir(places.output, "an image")
    for path in (places.pack, places.names):
        if path is not None and not os.path.isdir(os.path.dirname(os.path.realpath(path))):
            raise KlogError(FileCause.NO_FOLDER(), path=os.path.dirname(os.path.realpath(path)))
        if path is not None and _is_within(path, places.output):
            raise Refused(OutputRefusal.IN_IMAGE(), path=path)
    if places.pack is not None:
        check_saving_place(places.pack)
    if places.names is not None:
        # Refused for a place in a log dir. A map of names that is there already is read and replaced.
        folder = os.path.dirname(os.path.realpath(places.names))
        if not os.path.lexists(places.names):
            check_saving_place(places.names)
        elif is_log_dir(folder) or is_partition_dir(folder):
            raise Refused(OutputRefusal.FILE_IN_LOG_DIR(), path=places.names)


def find_names(path: str | None) -> TopicNames:
    """Return the names for an image: those of an existing map, or new ones; without a map, names stay as they are.

    Raises KlogError for a file that is not such a map.
    """
    if path is None:
        return TopicNames(None)
    if not os.path.lexists(path):
        return TopicNames(os.urandom(SECRET_BYTES))
    try:
        return read_names(json.loads(read_whole(path, limit=MOST_MAP_BYTES)))
    except (ValueError, RecursionError):
        raise Refused(PlanRefusal.NO_MAP(), path=path) from None
    except KlogError as error:
        raise Refused(error.reason, path=path) from error


def write_image(
    plan: ImagePlan,
    names: TopicNames,
    places: ImagePlaces,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
    disk: Disk | None = None,
) -> WrittenImage:
    """Write the image, its archive and the map of names. After an error there is none of them.

    on_progress: gets the number of bytes done. Raises Refused, KlogError, and OSError if the system refuses.
    """
    disk, written = disk or Disk(), WrittenImage()
    check_places(places, plan.path)
    output = os.path.realpath(places.output)
    with _parts(disk) as part_of:
        part = part_of(output)
        for _, name in plan.folders:
            disk.mkdir(os.path.join(part, name) if name else part)
        for file in plan.files:
            _write_file(disk, file, os.path.join(part, file.name), names, written)
            on_progress(file.size)
        for source, name in reversed(plan.folders):
            folder = os.path.join(part, name) if name else part
            disk.describe(folder, _like(source, OUR_FOLDERS))
            disk.sync_dir(folder)
        if places.pack is not None:
            written.packed_bytes = _pack(part, os.path.basename(output), part_of(os.path.realpath(places.pack)))
        if places.names is not None:
            names_part = part_of(os.path.realpath(places.names))
            data = json.dumps(names.as_json(), indent=1, sort_keys=True).encode() + b"\n"
            disk.write(names_part, (data,), FileAttributes(PRIVATE_MODE, os.geteuid(), os.getegid()))
            disk.sync(names_part)
        named = (places.names, places.pack, places.output)
        _publish(disk, {os.path.realpath(place): part_of(os.path.realpath(place)) for place in named if place})
    return written


def _is_within(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath((path, folder)) == folder


@contextmanager
def _parts(disk: Disk) -> Iterator[Callable[[str], str]]:
    """Give temporary names for places. What still has one of them at the end is deleted."""
    parts: dict[str, str] = {}

    def part_of(place: str) -> str:
        return parts.setdefault(place, f"{place}.{uuid.uuid4().hex}.part")

    try:
        yield part_of
    finally:
        for part in parts.values():
            with suppress(OSError):  # the first error is the one to report
                if os.path.isdir(part):
                    remove_folder(disk, part)
                elif os.path.lexists(part):
                    disk.delete(part)


def _publish(disk: Disk, parts: Mapping[str, str]) -> None:
    """Give everything its name, by place. After an error, what was new is deleted."""
    new: list[str] = []
    try:
        for place, part in parts.items():
            is_new = not os.path.lexists(place)
            disk.rename(part, place)
            new += [place] if is_new and os.path.isfile(place) else []
            disk.sync_dir(os.path.dirname(place))
    except OSError:
        for place in new:
            with suppress(OSError):
                disk.delete(place)
        raise


def _like(source: str, mode: int) -> FileAttributes:
    """Return time and mode of the original; the file is ours, and we may read it."""
    attributes = attributes_of(source)
    return replace(attributes, mode=attributes.mode | mode, uid=os.geteuid(), gid=os.getegid(), extended=())


def _write_file(disk: Disk, file: ImageFile, path: str, names: TopicNames, written: WrittenImage) -> None:
    """Write a file; if the original cannot be read, a hole of its size. An original that is gone is left out."""

    def on_hole(size: int) -> None:
        if size:
            written.holes[file.source] = written.holes.get(file.source, 0) + size

    try:
        like = _like(file.source, OURS)
    except OSError as error:
        written.unread.append((file.source, unreadable(file.source, error).reason))
        return
    try:
        disk.write_parts(path, walk_chunks(file, names, on_hole), like)
    except KlogError as error:
        written.unread.append((file.source, error.reason))
        hole: tuple[BlankedChunk, ...] = (file.size,)
        disk.write_parts(path, hole, like)
    disk.sync(path)
    status = os.stat(path)
    written.files, written.bytes = written.files + 1, written.bytes + status.st_size
    written.kept_bytes += status.st_blocks * SECTOR_BYTES


def _pack(folder: str, name: str, path: str) -> int:
    """Pack a folder into a gzipped tar archive that does not name its owner; return its size."""
    with tarfile.open(path, "x:gz") as archive:
        archive.add(folder, name, filter=_without_owner)
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return os.path.getsize(path)


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info
