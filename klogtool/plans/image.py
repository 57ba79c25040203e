"""What an image of a log dir or of a partition dir has of each file: all, nothing, or all but keys, values and names.

Names of files and of foreign folders stay, because answers depend on them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct, field

from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.file import LogFile, read_whole, unreadable
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.opened import open_path
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.plans.image_log import Piece, walk_blanked
from klogtool.plans.image_names import TopicNames, renamed_checkpoint

METADATA_TOPIC = "__cluster_metadata"
NAMES_OF_PARTITIONS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)


class Treatment(Enum):
    """What becomes of a file."""

    WHOLE = "whole"
    """All bytes stay."""
    BATCHES = "batches"
    """A log: keys and values go."""
    METADATA = "metadata"
    """A log or a snapshot of `__cluster_metadata`: names are replaced, private records go."""
    NAMES = "names"
    """A checkpoint: names are replaced."""
    BLANK = "blank"
    """Only the size stays."""


class ImageFile(Struct, frozen=True):
    """A file of an image. source: the path of the original. name: its path in the image. size: bytes."""

    source: str
    name: str
    size: int
    treatment: Treatment


class ImagePlan(Struct, frozen=True):
    """What an image has. folders: pairs of the original's path and the path in the image, outer ones first. left_out:
    paths in the original, each with the reason."""

    path: str
    folders: tuple[tuple[str, str], ...]
    files: tuple[ImageFile, ...]
    left_out: tuple[tuple[str, str], ...]

    @property
    def blank(self) -> list[str]:
        """The paths of files that are not Kafka's, of which only the size is in the image."""
        return [file.source for file in self.files if file.treatment is Treatment.BLANK]


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
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def add_folder(self, path: str, name: str, own: str, around: tuple[str, ...]) -> None:
        """Add what is in a folder. name: its path in the image. own: its name. around: the folders that contain it."""
        self.folders.append((path, name))
        found = find_partition_dir_name(own)
        is_metadata = found is not None and found.topic == METADATA_TOPIC
        try:
            with os.scandir(path) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.left_out.append((path, unreadable(path, error).reason))
            return
        for entry in inside:
            self._add(entry, name, is_metadata=is_metadata, around=around)

    def _add(self, entry: os.DirEntry[str], folder: str, *, is_metadata: bool, around: tuple[str, ...]) -> None:
        try:
            about = entry.stat()
        except OSError as error:
            self.left_out.append((entry.path, unreadable(entry.path, error).reason))
            return
        if stat.S_ISREG(about.st_mode):
            how = treatment_of(entry.name, is_metadata=is_metadata)
            name = os.path.join(folder, entry.name)
            self.files.append(ImageFile(entry.path, name, about.st_size, how))
        elif not stat.S_ISDIR(about.st_mode):
            self.left_out.append((entry.path, "neither a file nor a folder"))
        elif (real := os.path.realpath(entry.path)) in around:
            self.left_out.append((entry.path, "a link to a folder that contains it"))
        else:
            name = os.path.join(folder, self.names.of_folder(entry.name))
            self.add_folder(entry.path, name, entry.name, (*around, real))


def treatment_of(name: str, *, is_metadata: bool) -> Treatment:
    """Decide for a file by its name. is_metadata: it is in the partition dir of `__cluster_metadata`."""
    kind = parse_file_name(name).kind
    if kind is FileKind.FOREIGN:
        return Treatment.BLANK
    if kind in NAMES_OF_PARTITIONS:
        return Treatment.NAMES
    if not kind.holds_batches:
        return Treatment.WHOLE
    return Treatment.METADATA if is_metadata or kind is not FileKind.LOG else Treatment.BATCHES


def walk_pieces(file: ImageFile, names: TopicNames) -> Iterator[Piece]:
    """Yield the bytes of a file that does not stay whole; each piece is valid until the next one.

    Raises KlogError if it cannot be read, or becomes shorter.
    """
    if file.treatment is Treatment.BLANK:
        yield file.size
    elif file.treatment is Treatment.NAMES:
        yield renamed_checkpoint(read_whole(file.source, limit=MOST_TEXT_BYTES), names)
    else:
        with LogFile(file.source) as log:
            yield from walk_blanked(log, names if file.treatment is Treatment.METADATA else None)
