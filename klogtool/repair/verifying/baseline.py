"""Findings that are known: those of a former run's JSON output."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

from klogtool.errors import KlogError
from klogtool.log.file import read_whole
from klogtool.repair.findings import Finding

MOST_BASELINE_BYTES = 256 << 20
_TELLING = ("start", "end", "first_offset", "last_offset", "field")


class Baseline:
    """Which findings are known, by id, path, bytes, offsets and field; the words may change. Each counts once."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._left = Counter(_key(row["id"], row["path"], row) for row in rows)

    @classmethod
    def read(cls, path: str) -> Baseline:
        """From a file of JSON lines. Raises KlogError for one that cannot be read, or is none."""
        rows = []
        lines = read_whole(path, limit=MOST_BASELINE_BYTES).splitlines()
        for number, line in enumerate(lines or [b""], start=1):
            row = _parse(line, path, number)
            if number == 1 and (row.get("type"), row.get("command")) != ("klogtool", "verify"):
                raise _no_baseline("does not begin as the output of klogtool verify --format json", path, number)
            if row.get("type") == "finding":
                if not isinstance(row.get("id"), str) or not isinstance(row.get("path"), str):
                    raise _no_baseline("a finding without id or path", path, number)
                rows.append(row)
        return cls(rows)

    def knows(self, finding: Finding) -> bool:
        """Whether it was there before; of several alike, as many as there were."""
        key = _key(finding.id, finding.path, {name: getattr(finding, name) for name in _TELLING})
        if self._left[key] <= 0:
            return False
        self._left[key] -= 1
        return True


def _key(finding_id: str, path: str, row: dict[str, Any]) -> tuple[Any, ...]:
    return finding_id, os.path.normpath(path), *(repr(row.get(name)) for name in _TELLING)


def _parse(line: bytes, path: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise _no_baseline("no JSON object", path, number)
    return row


def _no_baseline(why: str, path: str, number: int) -> KlogError:
    return KlogError(f"line {number}: {why}", path=path)
