"""Bytes that salvage rejects, kept as files with a manifest, so that nobody has to throw away unreadable bytes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.broker.content import Content, FileRange
from klogtool.errors import Changed
from klogtool.json_rows import presentable
from klogtool.plans.plan import Plan
from klogtool.salvage.patchy import PatchyFile
from klogtool.verify.findings import Kind

MANIFEST = "manifest.json"
SCHEMA = 1
PIECE_BYTES = 1 << 20


def rejected_files(plan: Plan) -> dict[str, Content]:
    """Return the files, by name: one for each range of bytes that the plan of a salvage rejects, and the manifest.

    Empty if nothing is rejected. Bytes that the disk cannot read are zeros. Raises KlogError if a file has changed.
    """
    rows, files = [], {}
    for part in plan.answer["rejected"]:
        with PatchyFile(os.path.join(plan.path, part["file"])) as file:
            rows.append(_row(part, file))
            files[rows[-1]["bytes"]] = _content(file, part["start"], part["end"])
    if not rows:
        return {}
    manifest = {"schema": SCHEMA, "plan": plan.id, "partition": plan.path, "ranges": rows}
    return files | {MANIFEST: (json.dumps(presentable(manifest), indent=1).encode() + b"\n",)}


def _row(part: Mapping[str, Any], file: PatchyFile) -> dict[str, Any]:
    start, end = part["start"], part["end"]
    sha256 = hashlib.sha256()
    for piece in _pieces(file, start, end):
        sha256.update(piece)
    told = {key: part[key] for key in ("file", "start", "end")}
    rest = {key: part[key] for key in ("cause", "detail", "first_offset", "last_offset")}
    name = f"{part['file']}.{start}-{end}.bytes"
    row = {**told, "size": end - start, "sha256": sha256.hexdigest(), **rest, "bytes": name}
    if bad := file.bad_within(start, end):
        row[Kind.UNREADABLE] = bad
    return row


def _content(file: PatchyFile, start: int, end: int) -> Content:
    """Return pieces of the file, with zeros for bytes that cannot be read."""
    parts: list[FileRange | bytes] = []
    for bad_start, bad_end in [*file.bad_within(start, end), (end, end)]:
        parts += [FileRange(file.path, start, bad_start)] * (start < bad_start)
        parts += [bytes(bad_end - bad_start)] * (bad_start < bad_end)
        start = bad_end
    return tuple(parts)


def _pieces(file: PatchyFile, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        piece = file.read(start, min(PIECE_BYTES, end - start))
        if not piece:
            raise Changed("the file became shorter while it was read", path=file.path, position=start)
        yield piece
        start += len(piece)
