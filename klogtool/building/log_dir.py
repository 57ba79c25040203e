"""A whole log dir: its partitions, its own files as a clean stop leaves them, files as given, and wounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any

from msgspec import UNSET, Struct

from klogtool.broker.draft import Draft
from klogtool.building.bounds import MOST_BYTES, check_size
from klogtool.building.entries import clock_of
from klogtool.building.partition import (
    BuiltPartition,
    Terms,
    build_partition,
    check_name,
    name_of,
    topic_id_of,
)
from klogtool.building.places import at_place
from klogtool.building.spec import LogDir, Spec
from klogtool.building.spec_data import pieces_bytes
from klogtool.building.wounds import NAME, read_wound
from klogtool.errors import AboveLimit, KlogError
from klogtool.format.checkpoints import build_offset_checkpoint
from klogtool.format.identity import CleanShutdown, MetaProperties, build_clean_shutdown, build_meta_properties
from klogtool.format.names import METADATA_TOPIC, FileKind, TopicPartition
from klogtool.format.uuids import parse_uuid


class BuiltLogDir(Struct, frozen=True):
    """A log dir as made: a draft whose files are named by their paths below it, and its partitions."""

    draft: Draft
    partitions: tuple[BuiltPartition, ...]


def build_log_dir(spec: Spec, path: str) -> BuiltLogDir:
    """Make a log dir. The same spec gives the same bytes. path: where it will be, for errors about its files.

    Raises KlogError, with the place in the spec, for what cannot be; AboveLimit for more than fits.
    """
    check_size(spec)
    terms = Terms(spec.kafka, *clock_of(spec), spec.config)
    built: list[BuiltPartition] = []
    for n, partition in enumerate(spec.partitions):
        with at_place(f"partitions[{n}]"):
            made = build_partition(partition, terms)
            if any(made.dir == other.dir for other in built):
                raise KlogError(f"{made.dir} is there twice")
            built.append(made)
    files = {f"{made.dir}/{name}": file for made in built for name, file in made.draft.files.items()}
    draft = Draft(path, {}, [made.dir for made in built])
    draft.files |= files
    if spec.log_dir is not None:
        with at_place("log_dir"):
            _add_own_files(draft, spec.log_dir, built)
    _take_files_as_given(draft, spec)
    _check_folders(draft)
    for n, wound in enumerate(spec.wounds):
        with at_place(f"wounds[{n}]"):
            _inflict(draft, wound)
    return BuiltLogDir(draft, tuple(built))


def _add_own_files(draft: Draft, asked: LogDir, built: Iterable[BuiltPartition]) -> None:
    """Add what a broker writes into a log dir when it stops."""
    if asked.date is not None and not (asked.date.isascii() and asked.date.isprintable()):
        raise KlogError("date is one line of ASCII")
    draft.write(FileKind.META_PROPERTIES.value, build_meta_properties(_identity_of(asked), date=asked.date))
    lines = [(made.topic_partition, made) for made in built if made.topic_partition is not None]
    for kind, offset_of in _CHECKPOINTS.items():
        offsets = {name: offset for name, made in lines if (offset := offset_of(name, made)) is not None}
        is_new = kind is FileKind.CLEANER_CHECKPOINT and not offsets  # empty until something is cleaned
        draft.write(kind.value, b"" if is_new else build_offset_checkpoint(offsets))
    if asked.stop == "clean":
        version = None if asked.broker_epoch is None else 0
        draft.write(FileKind.CLEAN_SHUTDOWN.value, build_clean_shutdown(CleanShutdown(version, asked.broker_epoch)))


def _not_of_metadata(name: TopicPartition, offset: int | None) -> int | None:
    """The log of a KRaft quorum has no line in the checkpoints of a broker."""
    return None if name.topic == METADATA_TOPIC else offset


_CHECKPOINTS: Mapping[FileKind, Callable[[TopicPartition, BuiltPartition], int | None]] = {
    FileKind.RECOVERY_POINT_CHECKPOINT: lambda name, made: _not_of_metadata(name, made.recovery_point),
    FileKind.REPLICATION_CHECKPOINT: lambda name, made: _not_of_metadata(name, made.high_watermark),
    FileKind.LOG_START_CHECKPOINT: lambda name, made: _not_of_metadata(name, made.log_start_checkpoint),
    FileKind.CLEANER_CHECKPOINT: lambda name, made: _not_of_metadata(name, made.first_dirty_offset),
}


def _identity_of(asked: LogDir) -> MetaProperties:
    if asked.version == 1 and (asked.cluster_id is None or asked.node_id is None):
        raise KlogError("version 1 has a cluster_id and a node_id")
    return MetaProperties(asked.version, asked.cluster_id, asked.node_id, _directory_id(asked))


def _directory_id(asked: LogDir) -> bytes | None:
    if asked.directory_id is UNSET:
        return topic_id_of(f"directory of node {asked.node_id}")
    return None if asked.directory_id is None else parse_uuid(str(asked.directory_id))


def _take_files_as_given(draft: Draft, spec: Spec) -> None:
    for n, file in enumerate(spec.files):
        with at_place(f"files[{n}]"):
            name = name_of(file)
            check_name(name)
            draft.write(name, pieces_bytes(file.content))
    for name in spec.absent:
        if name not in draft:
            raise KlogError(f"absent: there would be no file of this name: {name}")
        draft.delete(name)


def _check_folders(draft: Draft) -> None:
    """Raises KlogError if a name is that of a file and of a folder."""
    for name in draft.files:
        folders = accumulate(name.split("/")[:-1], "{}/{}".format)
        both = next((folder for folder in folders if folder in draft.files), name if name in draft.folders else None)
        if both is not None:
            raise KlogError(f"{both} is a file and a folder")


def _inflict(draft: Draft, wound: Mapping[str, Any]) -> None:
    """Damage a draft. wound: a name, with its arguments as a mapping. Raises KlogError if it does not fit."""
    if len(wound) != 1:
        raise KlogError(f"a wound has one name, as in `flip_bit: {{file: t-0, at: 70}}`; here are {len(wound)}")
    ((name, arguments),) = wound.items()
    if not isinstance(arguments, Mapping):
        raise KlogError(f"the arguments of {name} are a mapping, as in `{name}: {{file: t-0}}`")
    found = read_wound({**arguments, NAME: name})
    with at_place(f"{name} of {found.file or 'the log dir'}"):
        found.inflict(draft)
    if sum(file.size for file in draft.files.values()) > MOST_BYTES:
        raise AboveLimit(f"{name} makes the log dir larger than klogtool builds ({MOST_BYTES:,} bytes)")
