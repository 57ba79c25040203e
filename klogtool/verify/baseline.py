"""Findings that are known: those of a baseline file, or of a former run's JSON output.

A baseline file is JSON Lines for a repository: one finding a line, sorted, with paths relative to the file. It has no
byte positions, times or versions, so it changes only if findings do.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from klogtool.errors import KlogError
from klogtool.json_rows import restored, row_line
from klogtool.log.file import read_whole
from klogtool.verify.findings import Finding
from klogtool.verify.fingerprints import FindingIdentity, identity_of, real_place

MOST_BASELINE_BYTES = 256 << 20
MOST_OF_ONE = 1 << 31
_TELLING = ("start", "end", "first_offset", "last_offset", "field")
_HEADER = {"type": "baseline", "schema": 1, "command": "verify"}


class GoneEntry(Struct, frozen=True):
    """A known finding that was not found again. count: how many equal ones are gone."""

    id: str
    path: str
    count: int


class Baseline:
    """Which findings are known. Each counts once. path: the file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = os.path.realpath(os.path.dirname(path) or os.curdir)
        self._identities: Counter[FindingIdentity] = Counter()
        self._run = _FormerRun()

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Read a baseline file, or the JSON output of one run or of several. Raises KlogError for a file that cannot be
        read or has other contents."""
        baseline = cls(path)
        lines = read_whole(path, limit=MOST_BASELINE_BYTES).splitlines() or [b""]
        first = _parse(lines[0], path, 1)
        if first.get("type") == "baseline":
            if first.get("schema") != _HEADER["schema"] or first.get("command") != _HEADER["command"]:
                raise _no_baseline("not a baseline that this klogtool reads", baseline.path, 1)
            for number, line in enumerate(lines[1:], start=2):
                baseline._add_known(_parse(line, path, number), number)
        else:
            baseline._run.add_lines(lines, path)
        return baseline

    def knows(self, finding: Finding) -> bool:
        """Return whether the finding is known; of several equal ones, as many as there were."""
        identity = identity_of(finding, self._folder) if self._identities else None
        if identity is None or self._identities[identity] <= 0:
            return self._run.knows(finding)
        self._identities[identity] -= 1
        return True

    def gone(self, paths: Sequence[str]) -> Iterator[GoneEntry]:
        """Yield what is known under the paths, and was not asked about."""
        roots = [os.path.realpath(path) for path in paths]
        folder = os.path.dirname(self.path)
        for identity, count in self._identities.items():
            if count > 0 and _is_under(os.path.normpath(os.path.join(self._folder, identity.path)), roots):
                yield GoneEntry(identity.id, os.path.normpath(os.path.join(folder, identity.path)), count)
        yield from (gone for gone in self._run.gone() if _is_under(gone.path, roots))

    def _add_known(self, row: dict[str, object], number: int) -> None:
        finding_id, path, field, count = row.get("id"), row.get("path"), row.get("field"), row.get("count", 1)
        first, last = row.get("first_offset"), row.get("last_offset")
        if not isinstance(finding_id, str) or not isinstance(path, str) or not isinstance(field, str | None):
            raise _no_baseline("a known finding without id or path, or with a field that is no text", self.path, number)
        if not (first is None or type(first) is int) or not (last is None or type(last) is int):
            raise _no_baseline("an offset that is not a number", self.path, number)
        if type(count) is not int or not 1 <= count <= MOST_OF_ONE:
            raise _no_baseline("a count that is not a positive number", self.path, number)
        self._identities[FindingIdentity(finding_id, path, field, first, last)] += count


def is_baseline_file(path: str) -> bool:
    """Return whether a file is a baseline that klogtool wrote. Raises KlogError if it cannot be read."""
    first = read_whole(path, limit=MOST_BASELINE_BYTES).partition(b"\n")[0]
    return first == row_line(_HEADER).encode()


def baseline_lines(identities: Iterable[FindingIdentity]) -> Iterator[str]:
    """Yield the lines of a baseline file, with their ends."""
    yield row_line(_HEADER) + "\n"
    counts = Counter(identities)
    for identity in sorted(counts, key=_order):
        fields = {"path": identity.path, "id": identity.id, **identity._asdict()}
        row = {name: value for name, value in fields.items() if value is not None}
        count = {"count": counts[identity]} if counts[identity] > 1 else {}
        yield row_line(row | count) + "\n"


def _order(identity: FindingIdentity) -> tuple[Any, ...]:
    first, last = identity.first_offset, identity.last_offset
    return (
        identity.path,
        identity.id,
        -1 if first is None else first,
        -1 if last is None else last,
        identity.field or "",
    )


def _is_under(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


class _FormerRun:
    """The findings of JSON outputs: known by id, file, bytes, offsets and field; the wording may change.

    Two paths are the same file if they lead to the same place, however they were typed and whatever the working
    directory; or if they were typed the same way, so that a baseline works for a copy too.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[str, str]] = []  # id, place
        self._used: set[int] = set()
        self._numbers: dict[tuple[Any, ...], list[int]] = defaultdict(list)

    def add_lines(self, lines: Sequence[bytes], path: str) -> None:
        """Add the lines of a file."""
        folder = ""
        for number, line in enumerate(lines, start=1):
            row = _parse(line, path, number)
            kind = row.get("type")
            if number == 1 and (kind, row.get("command")) != ("klogtool", "verify"):
                raise _no_baseline("does not begin as the output of klogtool verify --format json", path, number)
            if kind == "klogtool":
                folder = str(row.get("cwd", ""))
            elif kind == "finding":
                finding_id, of = row.get("id"), row.get("path")
                if not isinstance(finding_id, str) or not isinstance(of, str):
                    raise _no_baseline("a finding without id or path", path, number)
                keys = _keys(finding_id, of, row, folder)
                for key in keys:
                    self._numbers[key].append(len(self._rows))
                self._rows.append((finding_id, keys[0][1]))

    def knows(self, finding: Finding) -> bool:
        """Return whether the finding is known; of several equal ones, as many as there were."""
        if not self._rows:
            return False
        telling = {name: getattr(finding, name) for name in _TELLING}
        for key in _keys(finding.id, finding.path, telling, ""):
            numbers = self._numbers.get(key, [])
            while numbers:
                number = numbers.pop()
                if number not in self._used:
                    self._used.add(number)
                    return True
        return False

    def gone(self) -> Iterator[GoneEntry]:
        """Yield what was not asked about."""
        counts = Counter(row for number, row in enumerate(self._rows) if number not in self._used)
        yield from (GoneEntry(finding_id, place, count) for (finding_id, place), count in counts.items())


def _keys(finding_id: str, path: str, row: dict[str, object], folder: str) -> list[tuple[Any, ...]]:
    """Return the keys of a finding: by the real path of its file, and by the path as typed."""
    telling = finding_id, *(repr(row.get(name)) for name in _TELLING)
    return [("place", real_place(os.path.join(folder, path)), *telling), ("typed", os.path.normpath(path), *telling)]


def _parse(line: bytes, path: str, number: int) -> dict[str, object]:
    try:
        row = restored(json.loads(line))
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise _no_baseline("no JSON object", path, number)
    return row


def _no_baseline(why: str, path: str, number: int) -> KlogError:
    return KlogError(f"line {number}: {why}", path=path)
