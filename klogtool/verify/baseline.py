"""Findings that are known: those of a former run's JSON output."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from typing import Any

from klogtool.errors import KlogError
from klogtool.json_rows import restored
from klogtool.log.file import read_whole
from klogtool.verify.findings import Finding

MOST_BASELINE_BYTES = 256 << 20
_TELLING = ("start", "end", "first_offset", "last_offset", "field")


class Baseline:
    """Which findings are known, by id, file, bytes, offsets and field; the wording may change. Each counts once.

    Two paths are the same file if they lead to the same place, however they were typed and whatever the working
    directory; or if they were typed the same way, so that a baseline works for a copy too.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._used: set[int] = set()
        self._numbers: dict[tuple[Any, ...], list[int]] = defaultdict(list)

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Read JSON lines, the output of one run or of several. Raises KlogError for a file that cannot be read or has
        other contents."""
        baseline, folder = cls(), ""
        lines = read_whole(path, limit=MOST_BASELINE_BYTES).splitlines()
        for number, line in enumerate(lines or [b""], start=1):
            row = _parse(line, path, number)
            kind = row.get("type")
            if number == 1 and (kind, row.get("command")) != ("klogtool", "verify"):
                raise _no_baseline("does not begin as the output of klogtool verify --format json", path, number)
            if kind == "klogtool":
                folder = str(row.get("cwd", ""))
            elif kind == "finding":
                if not isinstance(row.get("id"), str) or not isinstance(row.get("path"), str):
                    raise _no_baseline("a finding without id or path", path, number)
                baseline.add(row, folder)
        return baseline

    def add(self, row: dict[str, Any], folder: str) -> None:
        """Add a known finding. folder: the working directory of the run that found it."""
        for key in _keys(row["id"], row["path"], row, folder):
            self._numbers[key].append(self._rows)
        self._rows += 1

    def knows(self, finding: Finding) -> bool:
        """Return whether the finding is known; of several equal ones, as many as there were."""
        telling = {name: getattr(finding, name) for name in _TELLING}
        for key in _keys(finding.id, finding.path, telling, ""):
            numbers = self._numbers.get(key, [])
            while numbers:
                number = numbers.pop()
                if number not in self._used:
                    self._used.add(number)
                    return True
        return False


def _keys(finding_id: str, path: str, row: dict[str, Any], folder: str) -> list[tuple[Any, ...]]:
    """Return the keys of a finding: by the real path of its file, and by the path as typed."""
    telling = finding_id, *(repr(row.get(name)) for name in _TELLING)
    return [("place", _place(os.path.join(folder, path)), *telling), ("typed", os.path.normpath(path), *telling)]


def _place(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a path cannot contain a zero byte
        return path


def _parse(line: bytes, path: str, number: int) -> dict[str, Any]:
    try:
        row = restored(json.loads(line))
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise _no_baseline("no JSON object", path, number)
    return row


def _no_baseline(why: str, path: str, number: int) -> KlogError:
    return KlogError(f"line {number}: {why}", path=path)
