"""Bytes that salvage rejects, kept as files with a manifest, so that nobody has to throw away unreadable bytes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence

from msgspec import UNSET, UnsetType, to_builtins
from msgspec.structs import asdict

from klogtool.broker.content import Content, FileRange
from klogtool.errors import became_shorter
from klogtool.json_rows import presentable
from klogtool.plans.plan import Plan
from klogtool.plans.salvage_answer import RejectedBytes, SalvageResult
from klogtool.salvage.partition_files import PatchyFile

MANIFEST = "manifest.json"
SCHEMA = 1
CHUNK_BYTES = 1 << 20


class KeptBytes(RejectedBytes, frozen=True):
    """A range of the manifest: rejected bytes, and the file `bytes` that keeps them. unreadable: zeros there."""

    size: int
    sha256: str
    bytes: str
    unreadable: Sequence[tuple[int, int]] | UnsetType = UNSET


def rejected_files(plan: Plan) -> dict[str, Content]:
    """Return the files, by name: one for each range of bytes that the plan of a salvage rejects, and the manifest.

    Empty if nothing is rejected. Bytes that the disk cannot read are zeros. Raises KlogError if a file has changed.
    """
    rows: list[KeptBytes] = []
    files: dict[str, Content] = {}
    for part in plan.result.rejected if isinstance(plan.result, SalvageResult) else ():
        with PatchyFile(os.path.join(plan.path, part.file)) as file:
            rows.append(_kept(part, file))
            files[rows[-1].bytes] = _content(file, part.start, part.end)
    if not rows:
        return {}
    manifest = {"schema": SCHEMA, "plan": plan.id, "partition": plan.path, "ranges": to_builtins(rows)}
    return files | {MANIFEST: (json.dumps(presentable(manifest), indent=1).encode() + b"\n",)}


def _kept(part: RejectedBytes, file: PatchyFile) -> KeptBytes:
    start, end = part.start, part.end
    sha256 = hashlib.sha256()
    for chunk in _chunks(file, start, end):
        sha256.update(chunk)
    kept = {**asdict(part), "detail": str(part.detail), "size": end - start, "sha256": sha256.hexdigest()}
    return KeptBytes(**kept, bytes=f"{part.file}.{start}-{end}.bytes", unreadable=file.bad_within(start, end) or UNSET)


def _content(file: PatchyFile, start: int, end: int) -> Content:
    """Return pieces of the file, with zeros for bytes that cannot be read."""
    parts: list[FileRange | bytes] = []
    for bad_start, bad_end in [*file.bad_within(start, end), (end, end)]:
        parts += [FileRange(file.path, start, bad_start)] * (start < bad_start)
        parts += [bytes(bad_end - bad_start)] * (bad_start < bad_end)
        start = bad_end
    return tuple(parts)


def _chunks(file: PatchyFile, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        chunk = file.read(start, min(CHUNK_BYTES, end - start))
        if not chunk:
            raise became_shorter(file.path, start)
        yield chunk
        start += len(chunk)
