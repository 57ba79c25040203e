"""A log dir or a partition dir described, so that building the description gives the same bytes.

Sound batches are said in words. Every other byte of a `.log` is raw. Files that do not follow from the batches by the
rules of a broker are given as they are: the description is built, and compared with what is there.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from klogtool.broker.config import DEFAULTS
from klogtool.broker.releases import Release
from klogtool.building.describing_logs import walk_log
from klogtool.building.log_dir import build_log_dir
from klogtool.building.partition import LogInMaking, Terms, build_partition, topic_id_of
from klogtool.building.spec import (
    CLOCK_START_MS,
    CLOCK_STEP_MS,
    Coded,
    File,
    LogDirSpec,
    PartitionSpec,
    SegmentSpec,
    Setting,
    Spec,
)
from klogtool.building.spec_data import describe_content
from klogtool.errors import AboveLimit, KlogError
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.framing import CURRENT_MAGIC, Frame, find_frame
from klogtool.format.identity import (
    build_partition_metadata,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
)
from klogtool.format.indexes import OFFSET_ENTRIES, OFFSET_INDEX_ENTRY_SIZE, entries_before_zero_tail
from klogtool.format.names import FileKind, TopicPartition, build_file_name, parse_file_name
from klogtool.format.uuids import build_uuid
from klogtool.log import logdir
from klogtool.log.entries import read_entry
from klogtool.log.file import LogFile, ReadErrors
from klogtool.log.folder import find_partition_dir_name, is_file, own_name
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition as PartitionDir
from klogtool.log.windows import Window

MOST_BYTES = 256 << 20
LOCK = ".lock"
Files = Mapping[str, bytes]  # by path
_METADATA = FileKind.PARTITION_METADATA.value


class Described(Struct, frozen=True):
    """A spec, and what is not in it: paths that are neither files nor folders, and the lock."""

    spec: Spec
    left_out: tuple[str, ...]


class CheckpointOffsets(Struct, frozen=True):
    """What the checkpoints of a log dir say of a partition."""

    log_start_offset: int | None = None
    high_watermark: int | None = None
    recovery_point: int | None = None
    first_dirty_offset: int | None = None


def describe(path: str, kafka: Release) -> Described:
    """Describe a log dir or a partition dir, by the rules of a release.

    Raises KlogError if it is neither or cannot be read, AboveLimit if it is too large.
    """
    opened = open_path(path)
    if not isinstance(opened, PartitionDir | logdir.LogDir):
        raise KlogError("a description is of a partition dir or a log dir, not of a file", path=path)
    tree = _Tree()
    if isinstance(opened, PartitionDir):
        name = own_name(path)
        if find_partition_dir_name(name) is None or not _is_utf8(name):
            raise KlogError("a description needs the name of a partition dir: a topic, a hyphen, a number", path=path)
        tree.add(path, f"{name}/")
        return Described(_described(tree.files, [name], kafka, log_dir=False), tuple(tree.left_out))
    tree.add(path, "")
    top = [name for name in tree.folders if "/" not in name and _is_utf8(name)]
    names = [name for name in top if find_partition_dir_name(name) is not None]
    return Described(_described(tree.files, names, kafka, log_dir=True), tuple(tree.left_out))


class _Tree:
    """All files below a folder, in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.folders: list[str] = []
        self.left_out: list[str] = []
        self._size = 0

    def add(self, path: str, prefix: str) -> None:
        """Add what is below a folder. Raises KlogError if it cannot be read, AboveLimit if it is too much."""
        with ReadErrors(path), os.scandir(path) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                self.folders.append(name)
                self.add(entry.path, f"{name}/")
            elif is_file(entry) and name != LOCK:
                self.files[name] = self._read(entry.path)
            elif name != LOCK:
                self.left_out.append(entry.path)

    def _read(self, path: str) -> bytes:
        with LogFile(path) as file:
            self._size += file.size
            if self._size > MOST_BYTES:
                raise AboveLimit(f"more than {MOST_BYTES:,} bytes of files: too much for a description", path=path)
            return file.read(0, file.size)


def _described(files: Files, names: list[str], kafka: Release, *, log_dir: bool) -> Spec:
    """Return the spec of files by their paths. names: of partition dirs."""
    own = {name: data for name, data in files.items() if name.split("/")[0] not in names or "/" not in name}
    inside = {name: _below(files, name) for name in names}
    start_ms = next(filter(None, map(_first_time, inside.values())), CLOCK_START_MS)
    terms = Terms(kafka, start_ms, CLOCK_STEP_MS, {})
    lines = _checkpoint_lines(own)
    partitions = tuple(
        _describe_partition(name, inside[name], terms, lines.get(name, CheckpointOffsets())) for name in names
    )
    spec = Spec(
        kafka=kafka,
        clock=start_ms,
        log_dir=_describe_log_dir(own) if log_dir else None,
        partitions=partitions,
    )
    try:
        built = build_log_dir(spec, "").draft
    except KlogError:  # meta.properties says what no broker writes: it is given as it is
        spec = replace(spec, log_dir=LogDirSpec())
        built = build_log_dir(spec, "").draft
    derived = {name: built.read(name) for name in built.names() if name.split("/")[0] not in names}
    listed, absent = _differences(derived, own)
    return replace(spec, files=listed, absent=absent)


def _below(files: Files, folder: str) -> dict[str, bytes]:
    start = f"{folder}/"
    return {name.removeprefix(start): data for name, data in files.items() if name.startswith(start)}


def _differences(derived: Files, wanted: Files) -> tuple[tuple[File, ...], tuple[str, ...]]:
    """Return files that have to be given as they are, and names of files that are not there."""
    listed = (
        File(name=name if _is_utf8(name) else Coded(hex=os.fsencode(name).hex()), content=describe_content(data))
        for name, data in wanted.items()
        if derived.get(name) != data
    )
    return tuple(listed), tuple(sorted(derived.keys() - wanted.keys()))


def _is_utf8(name: str) -> bool:
    return name.isascii() or os.fsencode(name).decode(errors="ignore") == name


# Partitions.


def _describe_partition(name: str, files: Files, terms: Terms, lines: CheckpointOffsets) -> PartitionSpec:
    """Describe a partition dir by its files. If that fails, they are given as they are."""
    plain = _named(name)
    plain = replace(plain, topic_id=_describe_topic_id(name, files))
    for partition in (_in_words(plain, name, files, terms, lines), plain):
        try:
            draft = build_partition(partition, terms).draft
        except KlogError:
            continue
        listed, absent = _differences({each: draft.read(each) for each in draft.names()}, files)
        return replace(partition, files=listed, absent=absent)
    raise KlogError(f"{name} cannot be described")


def _named(name: str) -> PartitionSpec:
    parsed = find_partition_dir_name(name)
    if parsed is not None and f"{parsed.topic}-{parsed.partition}" == name:
        return PartitionSpec(topic=parsed.topic, partition=parsed.partition)
    return PartitionSpec(dir=name)


def _describe_topic_id(name: str, files: Files) -> str | UnsetType | None:
    """Return the topic id, if partition.metadata is as a broker writes it; None: no such file is derived."""
    data = files.get(_METADATA)
    try:
        parsed = None if data is None else parse_partition_metadata(data)
    except KlogError:
        parsed = None
    if parsed is None or build_partition_metadata(parsed) != data:
        return None
    return UNSET if parsed.topic_id == topic_id_of(name.rpartition("-")[0]) else build_uuid(parsed.topic_id)


def _in_words(plain: PartitionSpec, name: str, files: Files, terms: Terms, lines: CheckpointOffsets) -> PartitionSpec:
    """Return the partition with its batches in words, as far as they can be appended."""
    bases = _bases(files)
    if not bases:
        return plain
    magic = next((entry for base in bases for entry in _first_magics(files[bases[base]])), CURRENT_MAGIC)
    first, interval = next(iter(bases)), find_interval(files, bases)
    config: dict[str, Setting] = {} if interval is None else {INDEX_INTERVAL: interval}
    partition = replace(plain, config=config, magic=magic, segments=(SegmentSpec(base=first),))
    making = LogInMaking(partition, terms, name)
    segments: list[SegmentSpec] = []
    for base, file in bases.items():
        try:
            if segments:
                making.roll(base)
        except KlogError:
            continue
        steps = walk_log(files[file], base, making.course, making.append, making.put_raw)
        segments.append(SegmentSpec(base=base, log=tuple(steps)))
    return _with_lines(replace(partition, segments=tuple(segments)), lines, making)


def _with_lines(partition: PartitionSpec, lines: CheckpointOffsets, making: LogInMaking) -> PartitionSpec:
    """Return the partition with what the checkpoints say, if that is not what follows anyway."""
    end, start = making.log.log_end_offset, lines.log_start_offset
    is_start = start is not None and making.log.segments.first.base_offset < start <= end
    return replace(
        partition,
        log_start_offset=start if is_start else None,
        high_watermark=None if lines.high_watermark == end else _offset(lines.high_watermark),
        recovery_point=None if lines.recovery_point == end else _offset(lines.recovery_point),
        first_dirty_offset=_offset(lines.first_dirty_offset),
    )


def _offset(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


def _bases(files: Files) -> dict[int, str]:
    """Return the names of `.log` files by their base offsets, in order; of two with the same, one."""
    parsed = [parse_file_name(name) for name in files if "/" not in name]
    names = {
        file.base_offset: file.name
        for file in parsed
        if file.kind is FileKind.LOG and not file.suffix and file.base_offset is not None and file.base_offset >= 0
    }
    return dict(sorted(names.items()))


def _first_magics(data: bytes) -> Iterator[int]:
    frame = find_frame(data, 0, len(data))
    if isinstance(frame, Frame) and 0 <= frame.magic <= CURRENT_MAGIC:
        yield frame.magic


def _first_time(files: Files) -> int | None:
    """Return the time of the first record of a partition."""
    for name in _bases(files).values():
        data = files[name]
        frame = find_frame(data, 0, len(data))
        try:
            if isinstance(frame, Frame):
                entry = read_entry(Window(0, memoryview(data), len(data), last=True), frame, name)
                time = next((record.timestamp for record in entry.records()), -1)
                return time if time > 0 else None
        except KlogError:
            return None
    return None


# The log dir's own files.


def _checkpoint_lines(own: Files) -> dict[str, CheckpointOffsets]:
    """Return what the checkpoints say, by the name of the partition dir."""
    kinds = {
        "log_start_offset": FileKind.LOG_START_CHECKPOINT,
        "high_watermark": FileKind.REPLICATION_CHECKPOINT,
        "recovery_point": FileKind.RECOVERY_POINT_CHECKPOINT,
        "first_dirty_offset": FileKind.CLEANER_CHECKPOINT,
    }
    lines: dict[str, CheckpointOffsets] = {}
    for field, kind in kinds.items():
        for name, offset in _offsets(own.get(kind.value)).items():
            dir_name = f"{name.topic}-{name.partition}"
            lines[dir_name] = replace(lines.get(dir_name, CheckpointOffsets()), **{field: offset})
    return lines


def _offsets(data: bytes | None) -> dict[TopicPartition, int]:
    try:
        return {} if data is None else parse_offset_checkpoint(data)
    except KlogError:
        return {}


def _describe_log_dir(own: Files) -> LogDirSpec:
    marker, identity = own.get(FileKind.CLEAN_SHUTDOWN.value), own.get(FileKind.META_PROPERTIES.value)
    log_dir = LogDirSpec(stop="clean" if marker is not None else "unclean")
    if marker is not None:
        log_dir = replace(log_dir, broker_epoch=parse_clean_shutdown(marker).broker_epoch)
    try:
        properties = None if identity is None else parse_meta_properties(identity)
    except KlogError:
        properties = None
    if properties is None:
        return log_dir
    directory = None if properties.directory_id is None else build_uuid(properties.directory_id)
    return replace(
        log_dir,
        version=properties.version,
        cluster_id=properties.cluster_id,
        node_id=properties.node_id,
        directory_id=directory,
        date=_date_of(identity or b""),
    )


def _date_of(identity: bytes) -> str | None:
    """Return the second comment line of meta.properties: when it was written."""
    lines = identity.split(b"\n")
    date = lines[1][1:].decode(errors="replace") if len(lines) > 1 and lines[1].startswith(b"#") else ""
    return date if date and date.isascii() and date.isprintable() else None


# With which index.interval.bytes a log was written. A broker adds an entry for a batch if more bytes than that were
# written since the batch of the last entry. So each entry says a bound from above, and the batch before it one from
# below.


INDEX_INTERVAL = "index.interval.bytes"


def find_interval(files: Mapping[str, bytes], bases: Mapping[int, str]) -> int | None:
    """Return a value that explains the entries of all offset indexes; None if the default does, or nothing does.

    bases: names of `.log` files by their base offsets.
    """
    least, most = 0, (1 << 31) - 1
    for base, log in bases.items():
        index = files.get(build_file_name(FileKind.OFFSET_INDEX, base), b"")
        for low, high in _bounds(files[log], index):
            least, most = max(least, low), min(most, high)
    is_default = least <= DEFAULTS.index_interval_bytes <= most
    return None if is_default or least > most else least


def _starts(log: bytes) -> Iterator[int]:
    """Yield where batches begin, up to the first damage."""
    at = 0
    while isinstance(frame := find_frame(log, at, len(log)), Frame):
        yield at
        at += frame.size


def _bounds(log: bytes, index: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bounds for each stretch of batches from one entry to the next; the last one has none from above."""
    starts = list(_starts(log))
    count = entries_before_zero_tail(index, OFFSET_INDEX_ENTRY_SIZE)
    positions = [position for _, position in OFFSET_ENTRIES.unpack(index[: count * OFFSET_INDEX_ENTRY_SIZE])]
    before = 0
    for position in positions:
        n = bisect_left(starts, position)
        if n == len(starts) or starts[n] != position or position <= before:
            return
        yield (starts[n - 1] if n else 0) - before, position - before - 1
        before = position
    if starts and starts[-1] >= before:
        yield starts[-1] - before, (1 << 31) - 1
