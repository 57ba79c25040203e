"""build: a log dir out of a spec, as a value: every file, and the answer."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from klogtool.broker.content import Content, content_size
from klogtool.building.log_dir import BuiltLogDir, build_log_dir
from klogtool.building.partition import BuiltPartition
from klogtool.building.spec import Spec
from klogtool.format.names import FileKind

COMMAND = "build"


class PartitionTotals(Struct, frozen=True):
    """What a partition has. bytes: of its `.log`s."""

    partition: str
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    segments: int
    batches: int
    bytes: int


class BuildResult(Struct, frozen=True):
    """The answer of docs/contract.md. files, bytes, wounds: how many. kafka: the release."""

    partitions: list[PartitionTotals]
    files: int
    bytes: int
    wounds: int
    kafka: str


class BuildPlan(Struct, frozen=True):
    """What to write: contents by path below the log dir, and folders, outer ones first."""

    path: str
    files: Mapping[str, Content]
    folders: tuple[str, ...]
    result: BuildResult

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(content_size, self.files.values()))


def decide(path: str, spec: Spec) -> BuildPlan:
    """Plan the log dir of a spec. path: where it will be.

    Raises KlogError, with the place in the spec, for what cannot be made; AboveLimit for more than fits.
    """
    built = build_log_dir(spec, path)
    files = {name: built.draft.files[name].content for name in built.draft.names()}
    return BuildPlan(path, files, _folders(built), _result(spec, built))


def _folders(built: BuiltLogDir) -> tuple[str, ...]:
    """Return the folders of all files, and those of partitions without files."""
    folders = set(built.draft.folders)
    for name in built.draft.files:
        parts = name.split("/")[:-1]
        folders.update("/".join(parts[: n + 1]) for n in range(len(parts)))
    return tuple(sorted(folders))


def _result(spec: Spec, built: BuiltLogDir) -> BuildResult:
    sizes = [file.size for file in built.draft.files.values()]
    partitions = [_partition(partition, built) for partition in built.partitions]
    return BuildResult(partitions, len(sizes), sum(sizes), len(spec.wounds), spec.kafka)


def _partition(partition: BuiltPartition, built: BuiltLogDir) -> PartitionTotals:
    logs = [
        file.size
        for name, file in built.draft.files.items()
        if name.startswith(f"{partition.dir}/") and name.endswith(FileKind.LOG.value)
    ]
    return PartitionTotals(
        partition.dir,
        partition.log_start_offset,
        partition.log_end_offset,
        partition.high_watermark,
        partition.segments,
        partition.batches,
        sum(logs),
    )
