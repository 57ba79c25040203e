"""build: a log dir out of a spec, as a value: every file, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from klogtool.broker.content import Content, content_size
from klogtool.building.log_dir import BuiltLogDir, build_log_dir
from klogtool.building.partition import BuiltPartition
from klogtool.building.spec import Spec
from klogtool.format.names import FileKind

COMMAND = "build"


class BuildPlan(Struct, frozen=True):
    """What to write: contents by path below the log dir, and folders, outer ones first. answer: as in
    docs/contract.md."""

    path: str
    files: Mapping[str, Content]
    folders: tuple[str, ...]
    answer: Mapping[str, Any]

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
    return BuildPlan(path, files, _folders(built), _answer(spec, built))


def _folders(built: BuiltLogDir) -> tuple[str, ...]:
    """Return the folders of all files, and those of partitions without files."""
    found = set(built.draft.folders)
    for name in built.draft.files:
        parts = name.split("/")[:-1]
        found.update("/".join(parts[: n + 1]) for n in range(len(parts)))
    return tuple(sorted(found))


def _answer(spec: Spec, built: BuiltLogDir) -> dict[str, Any]:
    sizes = [file.size for file in built.draft.files.values()]
    return {
        "partitions": [_partition_row(made, built) for made in built.partitions],
        "files": len(sizes),
        "bytes": sum(sizes),
        "wounds": len(spec.wounds),
        "kafka": spec.kafka,
    }


def _partition_row(made: BuiltPartition, built: BuiltLogDir) -> dict[str, Any]:
    logs = [
        file.size
        for name, file in built.draft.files.items()
        if name.startswith(f"{made.dir}/") and name.endswith(FileKind.LOG.value)
    ]
    return {
        "partition": made.dir,
        "log_start_offset": made.log_start_offset,
        "log_end_offset": made.log_end_offset,
        "high_watermark": made.high_watermark,
        "segments": made.segments,
        "batches": made.batches,
        "bytes": sum(logs),
    }
