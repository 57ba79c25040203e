"""A whole log dir: its partitions, its own files as a clean stop leaves them, files as given, and wounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate

from msgspec import UNSET, Struct

from klogtool.broker.draft import Draft
from klogtool.building.entries import clock_of
from klogtool.building.generated import value_sizes
from klogtool.building.partition import BuiltPartition, Terms, build_partition, take_listed_files, topic_id_of
from klogtool.building.places import at_place
from klogtool.building.spec import File, LogDirSpec, PartitionSpec, Spec, StepSpec
from klogtool.building.spec_data import content_bound
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
            done = build_partition(partition, terms)
            if any(done.dir == other.dir for other in built):
                raise KlogError(f"{done.dir} is there twice")
            built.append(done)
    files = {f"{one.dir}/{name}": file for one in built for name, file in one.draft.files.items()}
    draft = Draft(path, {}, [one.dir for one in built])
    draft.files |= files
    if spec.log_dir is not None:
        with at_place("log_dir"):
            _add_own_files(draft, spec.log_dir, built)
    take_listed_files(draft, spec)
    _check_folders(draft)
    for n, wound in enumerate(spec.wounds):
        with at_place(f"wounds[{n}]"):
            _inflict(draft, wound)
    return BuiltLogDir(draft, tuple(built))


def _add_own_files(draft: Draft, own: LogDirSpec, built: Iterable[BuiltPartition]) -> None:
    """Add what a broker writes into a log dir when it stops."""
    if own.date is not None and not (own.date.isascii() and own.date.isprintable()):
        raise KlogError("date is one line of ASCII")
    draft.write(FileKind.META_PROPERTIES.value, build_meta_properties(_identity_of(own), date=own.date))
    lines = [(one.topic_partition, one) for one in built if one.topic_partition is not None]
    for kind, offset_of in _CHECKPOINTS.items():
        offsets = {name: offset for name, one in lines if (offset := offset_of(name, one)) is not None}
        is_new = kind is FileKind.CLEANER_CHECKPOINT and not offsets  # empty until something is cleaned
        draft.write(kind.value, b"" if is_new else build_offset_checkpoint(offsets))
    if own.stop == "clean":
        version = None if own.broker_epoch is None else 0
        draft.write(FileKind.CLEAN_SHUTDOWN.value, build_clean_shutdown(CleanShutdown(version, own.broker_epoch)))


def _not_of_metadata(name: TopicPartition, offset: int | None) -> int | None:
    """The log of a KRaft quorum has no line in the checkpoints of a broker."""
    return None if name.topic == METADATA_TOPIC else offset


_CHECKPOINTS: Mapping[FileKind, Callable[[TopicPartition, BuiltPartition], int | None]] = {
    FileKind.RECOVERY_POINT_CHECKPOINT: lambda name, one: _not_of_metadata(name, one.recovery_point),
    FileKind.REPLICATION_CHECKPOINT: lambda name, one: _not_of_metadata(name, one.high_watermark),
    FileKind.LOG_START_CHECKPOINT: lambda name, one: _not_of_metadata(name, one.log_start_checkpoint),
    FileKind.CLEANER_CHECKPOINT: lambda name, one: _not_of_metadata(name, one.first_dirty_offset),
}


def _identity_of(own: LogDirSpec) -> MetaProperties:
    if own.version == 1 and (own.cluster_id is None or own.node_id is None):
        raise KlogError("version 1 has a cluster_id and a node_id")
    return MetaProperties(own.version, own.cluster_id, own.node_id, _directory_id(own))


def _directory_id(own: LogDirSpec) -> bytes | None:
    if own.directory_id is UNSET:
        return topic_id_of(f"directory of node {own.node_id}")
    return None if own.directory_id is None else parse_uuid(str(own.directory_id))


def _check_folders(draft: Draft) -> None:
    """Raises KlogError if a name is that of a file and of a folder."""
    for name in draft.files:
        folders = accumulate(name.split("/")[:-1], "{}/{}".format)
        both = next((folder for folder in folders if folder in draft.files), name if name in draft.folders else None)
        if both is not None:
            raise KlogError(f"{both} is a file and a folder")


def _inflict(draft: Draft, wound: Mapping[str, object]) -> None:
    """Damage a draft. wound: a name, with its arguments as a mapping. Raises KlogError if it does not fit."""
    if len(wound) != 1:
        raise KlogError(f"a wound has one name, as in `flip_bit: {{file: t-0, at: 70}}`; here are {len(wound)}")
    ((name, arguments),) = wound.items()
    if not isinstance(arguments, Mapping):
        raise KlogError(f"the arguments of {name} are a mapping, as in `{name}: {{file: t-0}}`")
    inflicted = read_wound({**arguments, NAME: name})
    with at_place(f"{name} of {inflicted.file or 'the log dir'}"):
        inflicted.inflict(draft)
    if sum(file.size for file in draft.files.values()) > MOST_BYTES:
        raise AboveLimit(f"{name} makes the log dir larger than klogtool builds ({MOST_BYTES:,} bytes)")


# How much a spec may ask for: a log dir is made in memory, so its size is known before anything is made.


MOST_BYTES = 1 << 30
RECORD_OVERHEAD_BYTES = 40
ENTRY_BYTES = 128
KEY_BYTES = 16


def check_size(spec: Spec) -> None:
    """Raises AboveLimit if the spec asks for more than a log dir in memory may have; KlogError for a wrong size."""
    size = _files_size(spec.files) + sum(_partition_size(partition) for partition in spec.partitions)
    if size > MOST_BYTES:
        raise AboveLimit(f"this spec makes up to {size:,} bytes: more than klogtool builds ({MOST_BYTES:,})")


def _partition_size(partition: PartitionSpec) -> int:
    steps = [*partition.log, *(step for segment in partition.segments for step in segment.log)]
    return _files_size(partition.files) + sum(_step_size(step) for step in steps if isinstance(step, StepSpec))


def _files_size(files: Iterable[File]) -> int:
    return sum(content_bound(file.content) for file in files)


def _step_size(step: StepSpec) -> int:
    if step.generate is not None:
        return step.generate.records * (value_sizes(step.generate)[1] + KEY_BYTES + RECORD_OVERHEAD_BYTES) + ENTRY_BYTES
    if step.batch is not None:
        data = [
            each
            for record in step.batch.records
            for each in (record.key, record.value, *(part for header in record.headers for part in header))
            if each is not None
        ]
        body = 0 if step.batch.body is None else content_bound(step.batch.body)
        return ENTRY_BYTES + body + RECORD_OVERHEAD_BYTES * len(step.batch.records) + sum(map(content_bound, data))
    return ENTRY_BYTES + (0 if step.raw is None else content_bound(step.raw))
