"""What an image of a log dir or of a partition dir has of each file: what parses as its kind, without keys, values and
names. All other bytes are holes, which are counted."""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from msgspec import Struct, field

from klogtool.causes import Text
from klogtool.format.blanked_entries import Limits, blank_index, blank_snapshot
from klogtool.format.blanked_numbers import LARGEST_RELATIVE_OFFSET
from klogtool.format.blanked_text import blank_text
from klogtool.format.names import METADATA_TOPIC, FileKind, is_visible_to_java, parse_file_name
from klogtool.log.file import LogFile, read_whole, unreadable
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.opened import open_path
from klogtool.log.side_file import MOST_INDEX_BYTES, MOST_TEXT_BYTES, kind_of
from klogtool.plans.causes import LeftOutOfImage
from klogtool.plans.image_log import BlankedChunk, changed_bytes, walk_blanked
from klogtool.plans.image_names import TopicNames


class Treatment(Enum):
    """What becomes of a file."""

    ENTRIES = "entries"
    """An index or a producer snapshot: entries that can be those of its segment stay."""
    TEXT = "text"
    """What Kafka writes stays, with other names of topics."""
    BATCHES = "batches"
    """A log: keys and values go."""
    METADATA = "metadata"
    """A log or a snapshot of `__cluster_metadata`: names are replaced, private records go."""
    BLANK = "blank"
    """Only the size stays: not Kafka's, or without contents that count."""


class ImageFile(Struct, frozen=True):
    """A file of an image. source: the path of the original. name: its path in the image. size: bytes. limits: of the
    numbers in it."""

    source: str
    name: str
    size: int
    treatment: Treatment
    limits: Limits = Limits()

    @property
    def kind(self) -> FileKind:
        """The kind of file, by the name of the original."""
        return kind_of(self.source)


class ImagePlan(Struct, frozen=True):
    """What an image has. folders: pairs of the original's path and the path in the image, outer ones first. left_out:
    paths in the original, each with the reason."""

    path: str
    folders: tuple[tuple[str, str], ...]
    files: tuple[ImageFile, ...]
    left_out: tuple[tuple[str, Text], ...]

    @property
    def blank(self) -> list[str]:
        """The paths of files that are not Kafka's, of which only the size is in the image."""
        return [file.source for file in self.files if file.kind is FileKind.FOREIGN]


def plan_image(path: str, names: TopicNames) -> ImagePlan:
    """Decide for each file under a log dir or a partition dir. Raises KlogError if the path is neither."""
    open_path(path)
    listing = _Listing(names)
    listing.add_folder(path, "", own_name(path), (os.path.realpath(path),))
    return ImagePlan(path, tuple(listing.folders), tuple(listing.files), tuple(listing.left_out))


class _Listing(Struct):
    """What was listed so far."""

    names: TopicNames
    folders: list[tuple[str, str]] = field(default_factory=list)
    files: list[ImageFile] = field(default_factory=list)
    left_out: list[tuple[str, Text]] = field(default_factory=list)

    def add_folder(self, path: str, name: str, own: str, around: tuple[str, ...]) -> None:
        """Add what is in a folder. name: its path in the image. own: its name. around: the folders that contain it."""
        self.folders.append((path, name))
        partition_dir = find_partition_dir_name(own)
        is_metadata = partition_dir is not None and partition_dir.topic == METADATA_TOPIC
        try:
            with os.scandir(path) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.left_out.append((path, unreadable(path, error).reason))
            return
        limits = _LimitsIn(inside)
        for entry in inside:
            self._add(entry, name, limits, is_metadata=is_metadata, around=around)

    def _add(
        self,
        entry: os.DirEntry[str],
        folder: str,
        limits: _LimitsIn,
        *,
        is_metadata: bool,
        around: tuple[str, ...],
    ) -> None:
        if not is_visible_to_java(entry.name) and parse_file_name(entry.name).kind is FileKind.FOREIGN:
            self.left_out.append((entry.path, LeftOutOfImage.NO_UTF8()))
            return
        try:
            about = entry.stat()
        except OSError as error:
            self.left_out.append((entry.path, unreadable(entry.path, error).reason))
            return
        if stat.S_ISREG(about.st_mode):
            how = treatment_of(entry.name, is_metadata=is_metadata)
            name = os.path.join(folder, self.names.of_file(entry.name))
            self.files.append(ImageFile(entry.path, name, about.st_size, how, limits.of(entry.name)))
        elif not stat.S_ISDIR(about.st_mode):
            self.left_out.append((entry.path, LeftOutOfImage.NO_FILE()))
        elif (real := os.path.realpath(entry.path)) in around:
            self.left_out.append((entry.path, LeftOutOfImage.LINK_UP()))
        else:
            name = os.path.join(folder, self.names.of_folder(entry.name))
            self.add_folder(entry.path, name, entry.name, (*around, real))


class _LimitsIn:
    """What numbers beside the segments of a folder can be at most, by the names and sizes of its logs."""

    def __init__(self, entries: Sequence[os.DirEntry[str]]) -> None:
        names = [(parse_file_name(entry.name), entry) for entry in entries]
        logs = [(name.base_offset, entry) for name, entry in names if name.kind is FileKind.LOG]
        self._sizes: dict[int, int] = {}
        for base, entry in logs:
            if base is not None:
                self._sizes[base] = max(self._sizes.get(base, 0), _size_of(entry))
        self._bases = sorted(self._sizes)
        named = [name.base_offset for name, _ in names if name.base_offset is not None]
        self._most = max([0, *named]) + LARGEST_RELATIVE_OFFSET

    def of(self, name: str) -> Limits:
        """Return the limits for a file."""
        base = parse_file_name(name).base_offset
        if base is None:
            return Limits(offset=self._most)
        following = bisect_right(self._bases, base)
        span = self._bases[following] - base if following < len(self._bases) else 0
        return Limits(self._sizes.get(base, 0), self._most, max(span, LARGEST_RELATIVE_OFFSET))


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return 0


def treatment_of(name: str, *, is_metadata: bool) -> Treatment:
    """Decide for a file by its name. is_metadata: it is in the partition dir of `__cluster_metadata`."""
    kind = parse_file_name(name).kind
    if kind in (FileKind.FOREIGN, FileKind.LOCK):
        return Treatment.BLANK
    if kind.holds_batches:
        return Treatment.METADATA if is_metadata or kind is not FileKind.LOG else Treatment.BATCHES
    return Treatment.ENTRIES if kind.has_base_offset else Treatment.TEXT


def walk_chunks(file: ImageFile, names: TopicNames, on_hole: Callable[[int], None]) -> Iterator[BlankedChunk]:
    """Yield the bytes of a file in the image; each piece is valid until the next one. on_hole: gets the number of
    bytes that cannot be read as its kind.

    Raises KlogError if it cannot be read, or becomes shorter.
    """
    if file.treatment is Treatment.BLANK:
        yield file.size
    elif file.treatment is Treatment.TEXT:
        data = read_whole(file.source, limit=MOST_TEXT_BYTES)
        blank = blank_text(data, file.kind, names.of)
        on_hole(changed_bytes(blank_text(data, file.kind, lambda topic: topic), data))
        yield blank
    elif file.treatment is Treatment.ENTRIES:
        data = read_whole(file.source, limit=MOST_INDEX_BYTES)
        is_snapshot = file.kind is FileKind.PRODUCER_SNAPSHOT
        blank = blank_snapshot(data, file.limits) if is_snapshot else blank_index(data, file.kind, file.limits)
        on_hole(changed_bytes(blank, data))
        yield blank
    else:
        with LogFile(file.source) as log:
            yield from walk_blanked(log, names if file.treatment is Treatment.METADATA else None, on_hole)
