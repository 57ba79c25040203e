"""What runs remember of each thing that they read, as lines of a file outside of the log dirs.

A run adds a line for each thing, and replaces the file at its end. So a run that is killed loses no more than what it
was reading. Each line begins with its own sum: this file may rot, too. A line that is damaged is counted, and its thing
is read again.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

from klogtool.errors import Refused
from klogtool.kernels import crc32c

SUM_DIGITS = 8


class RememberedThing(Protocol):
    """id: of the very bytes that were read. checked_ms: when the run began that read them."""

    @property
    def id(self) -> Hashable:
        """Which bytes."""

    @property
    def checked_ms(self) -> int:
        """When the run began."""


Thing = TypeVar("Thing", bound=RememberedThing)


class Remembered(Generic[Thing]):
    """All that is remembered: the newest line of each thing. damaged: how many lines were, or were of the future."""

    def __init__(self, kind: type[Thing], command: str, path: str, data: bytes, now_ms: int) -> None:
        """Read the state in a file. What follows the last line end is no line: a run was killed there. Raises Refused
        for another file."""
        self.first_line = f"klogtool {command} 1\n".encode()
        if data[: len(self.first_line)] != self.first_line[: len(data)]:
            raise Refused(
                f"it exists, and is not a state of klogtool {command}",
                path=path,
                cure=f"Name another file with --state: klogtool {command} makes it.",
            )
        *lines, _ = data[len(self.first_line) :].split(b"\n")
        known = [one for line in lines if (one := _parsed(line, kind)) is not None and one.checked_ms <= now_ms]
        self._by_id = {one.id: one for one in known}
        self.damaged = len(lines) - len(known)

    def find(self, thing: Hashable) -> Thing | None:
        """Return what is remembered of these very bytes; None if they were never read."""
        return self._by_id.get(thing)

    def add(self, thing: Thing) -> bytes:
        """Remember a thing; return the line for the file."""
        self._by_id[thing.id] = thing
        return _line(thing)

    def lines(self, present: Collection[Hashable], *, since_ms: int) -> Iterator[bytes]:
        """Yield the whole file: what is remembered of things that are present, or were read since."""
        yield self.first_line
        for one in self._by_id.values():
            if one.checked_ms >= since_ms or one.id in present:
                yield _line(one)


def _line(thing: RememberedThing) -> bytes:
    data = msgspec.json.encode(thing)
    return b"%08x %s\n" % (crc32c(data), data)


def _parsed(line: bytes, kind: type[Thing]) -> Thing | None:
    data = line[SUM_DIGITS + 1 :]
    if line[: SUM_DIGITS + 1] != b"%08x " % crc32c(data):
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError):  # msgspec's errors are such
        return None
