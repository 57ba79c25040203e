"""Where the bytes of a disk are, for the viewer speedscope: log dir, topic, partition, segment, and what is in it.

The format is speedscope's own: a profile whose samples are stacks of names, each with a number of bytes. Keys, values
and headers are added up in Arrow's columns, by the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from klogtool.errors import KlogError, Unsupported
from klogtool.escape import escaped
from klogtool.format.names import FileKind, FileName
from klogtool.log.file import LogFile
from klogtool.log.folder import Folder, find_partition_dir_name, list_folder
from klogtool.log.opened import open_path
from klogtool.render.arrow import LogPart, RecordQuery, walk_record_batches

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
COLUMNS = ("key", "value", "headers", "_is_control", "_compression")
NAMES = {
    FileKind.OFFSET_INDEX: "offset index",
    FileKind.TIME_INDEX: "time index",
    FileKind.TXN_INDEX: "transaction index",
    FileKind.PRODUCER_SNAPSHOT: "producer snapshot",
}

Stack = tuple[str, ...]
Told = Callable[[KlogError], None]


def profile(paths: Iterable[str], tell: Told, name: str) -> dict[str, object]:
    """Return the file of speedscope for log dirs and partition dirs. tell: takes damage, and what cannot be read.

    Raises KlogError for a path that is neither.
    """
    stacks = [(stack, size) for path in paths for stack, size in _walk_path(path, tell) if size > 0]
    frames: dict[str, int] = {}
    samples = [[frames.setdefault(frame, len(frames)) for frame in stack] for stack, _ in stacks]
    total = sum(size for _, size in stacks)
    sampled = {
        "type": "sampled",
        "name": name,
        "unit": "bytes",
        "startValue": 0,
        "endValue": total,
        "samples": samples,
        "weights": [size for _, size in stacks],
    }
    return {
        "$schema": SCHEMA,
        "exporter": "klogtool",
        "name": name,
        "activeProfileIndex": 0,
        "profiles": [sampled],
        "shared": {"frames": [{"name": escaped(frame)} for frame in frames]},
    }


def _walk_path(path: str, tell: Told) -> Iterator[tuple[Stack, int]]:
    open_path(path)
    if not os.path.isdir(path):
        raise Unsupported("a file; speedscope needs a log dir or a partition dir", path=path)
    if find_partition_dir_name(os.path.basename(os.path.abspath(path))) is not None:
        yield from _walk_partition((), path, tell)
        return
    folder = list_folder(path)
    for file in folder.files:
        yield (path, "files of the log dir", file.name), _size(folder, file, tell)
    for name in folder.folders:
        yield from _walk_partition((path,), os.path.join(path, name), tell)


def _walk_partition(above: Stack, path: str, tell: Told) -> Iterator[tuple[Stack, int]]:
    own = os.path.basename(os.path.abspath(path))
    named = find_partition_dir_name(own)
    stack = (*above, own) if named is None else (*above, f"topic {named.topic}", own)
    try:
        folder = list_folder(path)
    except KlogError as error:
        tell(error)
        return
    for file in folder.files:
        size = _size(folder, file, tell)
        segment = "files of the partition" if file.base_offset is None else f"segment {file.base_offset:020d}"
        if file.kind is FileKind.LOG and file.base_offset is not None:
            segment = segment + file.suffix
            yield from (((*stack, segment, *part), bytes_) for part, bytes_ in _walk_log(folder, file, size, tell))
        else:
            yield (*stack, segment, NAMES.get(file.kind, file.name) + file.suffix), size


def _size(folder: Folder, file: FileName, tell: Told) -> int:
    try:
        return os.lstat(os.path.join(folder.path, file.name)).st_size
    except OSError as error:
        tell(KlogError((error.strerror or str(error)).lower(), path=os.path.join(folder.path, file.name)))
        return 0


def _walk_log(folder: Folder, file: FileName, size: int, tell: Told) -> Iterator[tuple[Stack, int]]:
    """Yield the parts of a `.log`. Their sizes add up to the size of the file."""
    sums = dict.fromkeys(("keys", "values", "headers", "control records"), 0)
    codecs: set[str] = set()
    try:
        with LogFile(os.path.join(folder.path, file.name)) as log:
            query = RecordQuery(columns=COLUMNS, on_damage=tell, resync=True)
            for batch in walk_record_batches(log, LogPart(None, None, end=size), query):
                _add(sums, codecs, batch)
    except KlogError as error:
        tell(error)
    yield from _shares(sums, codecs, size)


def _add(sums: dict[str, int], codecs: set[str], batch: Any) -> None:
    import pyarrow.compute as pc

    def length(column: Any) -> int:
        return int(pc.sum(pc.binary_length(column)).as_py() or 0)

    control = batch.filter(batch["_is_control"])
    data = batch if not control.num_rows else batch.filter(pc.invert(batch["_is_control"]))
    sums["control records"] += length(control["key"]) + length(control["value"])
    sums["keys"] += length(data["key"])
    sums["values"] += length(data["value"])
    pairs = pc.list_flatten(data["headers"])
    sums["headers"] += length(pc.struct_field(pairs, "key")) + length(pc.struct_field(pairs, "value"))
    codecs.update(pc.unique(batch["_compression"]).to_pylist())


def _shares(sums: dict[str, int], codecs: set[str], size: int) -> Iterator[tuple[Stack, int]]:
    """Yield parts of a log with these sums. What is compressed takes as much of the disk as its share says."""
    total = sum(sums.values())
    if codecs <= {"none"} and total <= size:
        yield from (((name,), amount) for name, amount in sums.items())
        yield ("batch and record overhead",), size - total
        return
    packed, left = f"compressed: {', '.join(sorted(codecs - {'none'}))}", size
    for name, amount in sums.items():
        part = amount * size // total if total else 0
        left -= part
        yield (packed, name), part
    yield (packed, "not records"), left
