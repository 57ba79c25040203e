"""Entries of a log whose length or magic is wrong, and whose checksum holds all the same: they can be read.

Length and magic lie outside of the checksum. verify finds by it what they should be, and salvage sets them right; who
shows records or batches beyond damage reads the log through a file in which they are right. One rule for all:
DamageJudge.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from klogtool.errors import Corrupt
from klogtool.format.fields import field_positions
from klogtool.format.framing import LOG_OVERHEAD, Frame
from klogtool.format.layouts import BATCH_HEADER
from klogtool.format.names import parse_file_name
from klogtool.format.succession import facts_at
from klogtool.log.file import LogFile
from klogtool.log.probing import Probe
from klogtool.log.proving import RowPool, walk_proved_calmly
from klogtool.verify.log_damage import MANY_WRONG_BATCHES, Damage, DamageJudge

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable


MAGIC = 2
_FIELDS = {field: (at, kind) for field, at, kind in field_positions(BATCH_HEADER) if field in ("length", "magic")}
_MOST_FIELD_BYTES = 4
_TO_MAGIC = -1  # among lengths: the field is a magic


class SetRight(Corrupt):
    """That an entry is read although it is damaged. field: the wrong one; was, now: what it says, and what is right."""

    def __init__(self, damage: Damage, path: str, field: str, was: int, now: int) -> None:
        how = "up to the next sound entry" if damage.entry is None else "with the corrected field"
        super().__init__(f"{damage.detail}; read {how}", path=path, position=damage.start)
        self.field, self.was, self.now = field, was, now

    def as_row(self) -> dict[str, str | int]:
        """In the words of salvage's answer."""
        return {"field": self.field, "was": self.was, "is": self.now}


def mended(
    file: LogFile, *, start: int = 0, end: int, on_mended: Callable[[SetRight], None] = lambda _: None
) -> LogFile:
    """The same log with each length and magic set right that is all that is wrong with its entry; it is not to be
    closed. The file itself where there are none. Damage that by its length goes on past a sound entry ends there.

    start: where an entry begins; end: up to where they are looked for. on_mended: told of each. The smallest offset
    that an entry may have is told by the name of the file. Every checksum is looked at. Raises Unreadable.
    """
    search = _Search(file, end)
    search.walk(start, on_mended)
    return _Mended(file, search.positions, search.values) if search.positions else file


class _Search:
    """Finds the wrong fields of a log. positions: their bytes, ascending; values: what they are to be."""

    def __init__(self, file: LogFile, end: int) -> None:
        base_offset = parse_file_name(os.path.basename(file.path)).base_offset or 0
        self.positions, self.values = array("q"), array("q")
        self._file, self._end, self._last_offset, self._wrong_batches = file, min(end, file.size), base_offset - 1, 0
        self._probe = Probe(file, end=file.size, lowest=base_offset)
        self._judge = DamageJudge(self._probe, base_offset)

    def walk(self, at: int, on_mended: Callable[[SetRight], None]) -> None:
        """All of the log from byte `at` on."""
        pool, calm = RowPool(), True
        while at < self._end:
            for proved in walk_proved_calmly(self._file, at, pool, end=self._end, calm=calm):
                for rows, count in proved.rows:
                    self._last_offset = facts_at(rows, count - 1).last_offset
                at = proved.reached
            for damage in self._damages(at) if at < self._end else ():
                self._note(damage, on_mended)
                at, calm = damage.end, False

    def _damages(self, at: int) -> list[Damage]:
        """What is wrong where no plain entry begins; an entry that is only not plain as what it is."""
        judged = self._probe.judge(at)
        if judged is not None:
            return [Damage("", at, judged.facts.end, "", entry=judged)]
        many = self._wrong_batches >= MANY_WRONG_BATCHES
        run = self._judge.judge_run(at, self._last_offset) if many else None
        return [run] if run is not None else self._judge.judge(at, self._last_offset)

    def _note(self, damage: Damage, on_mended: Callable[[SetRight], None]) -> None:
        self._wrong_batches += damage.id == "batch-crc"
        if damage.entry is None:
            frame = self._probe.frame(damage.start)
            if isinstance(frame, Frame) and frame.size > damage.size:
                self._set(damage, "length", max(0, damage.size - LOG_OVERHEAD), on_mended)
            return
        self._last_offset = damage.entry.facts.last_offset
        if damage.field in _FIELDS and damage.entry.is_sound:
            self._set(damage, damage.field, damage.size - LOG_OVERHEAD, on_mended)

    def _set(self, damage: Damage, field: str, length: int, on_mended: Callable[[SetRight], None]) -> None:
        at, kind = _FIELDS[field]
        was = kind.parse(self._probe.head(damage.start)[at : at + kind.sizeof()])
        self.positions.append(damage.start + at)
        self.values.append(_TO_MAGIC if field == "magic" else length)
        on_mended(SetRight(damage, self._file.path, field, was, MAGIC if field == "magic" else length))


class _Mended(LogFile):
    """A file as another one is, but for some fields. It is not to be closed."""

    is_mappable = False

    def __init__(self, file: LogFile, positions: array[int], values: array[int]) -> None:
        self.path, self.size = file.path, file.size
        self._file, self._positions, self._values = file, positions, values

    def read(self, position: int, size: int) -> bytes:
        """See LogFile."""
        found = bytearray(self._file.read(position, size))
        self._mend(memoryview(found), position)
        return bytes(found)

    def read_into(self, buffer: bytearray | mmap.mmap, position: int, size: int) -> memoryview:
        """See LogFile."""
        view = self._file.read_into(buffer, position, size)
        self._mend(view, position)
        return view

    def map(self, position: int, size: int) -> memoryview:
        """See LogFile. An entry that is mended proved itself: its size is true, and it may be in memory."""
        if not self._fields_in(position, size):
            return self._file.map(position, size)
        return memoryview(self.read(position, size))

    def size_now(self) -> int:
        """See LogFile."""
        return self._file.size_now()

    def close(self) -> None:
        """The file is whose it was."""

    def _mend(self, view: memoryview, position: int) -> None:
        for n in self._fields_in(position, len(view)):
            at = self._positions[n] - position
            for k, byte in enumerate(self._field(n)):
                if 0 <= at + k < len(view):
                    view[at + k] = byte

    def _fields_in(self, position: int, size: int) -> range:
        """Numbers of the fields of which bytes may lie there."""
        first = bisect_right(self._positions, position - _MOST_FIELD_BYTES)
        return range(first, bisect_left(self._positions, position + size))

    def _field(self, n: int) -> bytes:
        """The right bytes of a field."""
        value = self._values[n]
        return bytes([MAGIC]) if value == _TO_MAGIC else value.to_bytes(_MOST_FIELD_BYTES, "big")
