"""Bytes that salvage rejects, kept as files with a manifest: nobody should have to throw away what cannot be read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from klogtool.errors import Corrupt
from klogtool.log.file import LogFile
from klogtool.repair.draft import Content, Piece
from klogtool.repair.plan import Plan

MANIFEST = "manifest.json"
SCHEMA = 1
PIECE_BYTES = 1 << 20


def rejected_files(plan: Plan) -> dict[str, Content]:
    """The files to be, by name: one for each stretch of bytes that the plan of a salvage rejects, and the manifest.

    Empty where nothing is rejected. Raises KlogError where the bytes cannot be read any more.
    """
    rows = [_row(plan.path, part) for part in plan.answer["rejected"]]
    if not rows:
        return {}
    manifest = {"schema": SCHEMA, "plan": plan.id, "partition": plan.path, "ranges": rows}
    files: dict[str, Content] = {
        row["bytes"]: (Piece(os.path.join(plan.path, row["file"]), row["start"], row["end"]),) for row in rows
    }
    return files | {MANIFEST: (json.dumps(manifest, indent=1).encode() + b"\n",)}


def _row(path: str, part: Mapping[str, Any]) -> dict[str, Any]:
    name = f"{part['file']}.{part['start']}-{part['end']}.bytes"
    sha256 = hashlib.sha256()
    for piece in _pieces(os.path.join(path, part["file"]), part["start"], part["end"]):
        sha256.update(piece)
    told = {key: part[key] for key in ("file", "start", "end")}
    rest = {key: part[key] for key in ("cause", "detail", "first_offset", "last_offset")}
    return {**told, "size": part["end"] - part["start"], "sha256": sha256.hexdigest(), **rest, "bytes": name}


def _pieces(path: str, start: int, end: int) -> Iterator[bytes]:
    with LogFile(path) as file:
        while start < end:
            piece = file.read(start, min(PIECE_BYTES, end - start))
            if not piece:
                raise Corrupt("the file has become shorter while it was read", path=path, position=start)
            yield piece
            start += len(piece)
