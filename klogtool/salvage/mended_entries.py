"""Entries of a log whose length or magic is wrong but whose CRC is right, so they can be read.

The CRC does not cover length and magic. verify finds the right values by the CRC, and salvage corrects them. Code that
shows records or batches after damage reads the log through a file in which these fields are corrected. DamageJudge has
the one rule for all three.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from klogtool.causes import Cause, some
from klogtool.errors import Corrupt
from klogtool.format.fields import field_positions
from klogtool.format.framing import LOG_OVERHEAD, Frame
from klogtool.format.layouts import BATCH_HEADER
from klogtool.format.names import parse_file_name
from klogtool.format.succession import facts_at
from klogtool.log.file import LogFile
from klogtool.log.probing import Probe
from klogtool.log.proving import RowPool, walk_proved_calmly
from klogtool.log.resync import find_batch_behind
from klogtool.verify.findings import Kind
from klogtool.verify.log_damage import MANY_WRONG_BATCHES, Damage, DamageJudge

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable


MAGIC = 2
_FIELDS = {field: (at, kind) for field, at, kind in field_positions(BATCH_HEADER) if field in ("length", "magic")}
_MOST_FIELD_BYTES = 4
_TO_MAGIC = -1  # stands for a magic field in the list of lengths


class SetRightCause(Cause):
    """How a damaged entry was read."""

    UP_TO_NEXT, CORRECTED = some(2)


class SetRight(Corrupt):
    """An entry was read although it is damaged. field: the wrong field; was, now: its value, and the right value."""

    def __init__(self, damage: Damage, path: str, field: str, was: int, now: int) -> None:
        cause = SetRightCause.UP_TO_NEXT if damage.entry is None else SetRightCause.CORRECTED
        super().__init__(cause(damage=damage.reason), path=path, position=damage.start)
        self.field, self.was, self.now = field, was, now


def mended(
    file: LogFile, *, start: int = 0, end: int, on_mended: Callable[[SetRight], None] = lambda _: None
) -> LogFile:
    """Return the log with each wrong length and magic corrected, if nothing else is wrong with the entry. The
    result must not be closed. If there are none, it is the file itself. If the length of a damaged entry reaches past a
    sound entry, the damage ends there.

    start: where an entry begins; end: the end of the search. on_mended: called for each. The smallest possible offset
    is taken from the file's name. Every CRC is checked. Raises Unreadable.
    """
    search = _Search(file, end)
    search.walk(start, on_mended)
    return _Mended(file, search.positions, search.values) if search.positions else file


def hides_entries(file: LogFile, position: int, *, end: int, start: int | None = None) -> bool:
    """Return whether bytes that are no whole entry by their length, up to byte `end`, are damage all the same: a sound
    entry lies behind them, or they are an entry with a false length. Else they may be an entry that is being written,
    or was when a broker died.

    start: where the entry before them begins, if its length is to be judged, too. Raises Unreadable.
    """
    following = find_batch_behind(file, position, end=end)
    return following is not None or mended(file, start=position if start is None else start, end=end) is not file


class _Search:
    """Finds the wrong fields of a log. positions: of their bytes, ascending; values: the right ones."""

    def __init__(self, file: LogFile, end: int) -> None:
        base_offset = parse_file_name(os.path.basename(file.path)).base_offset or 0
        self.positions, self.values = array("q"), array("q")
        self._file, self._end, self._last_offset, self._wrong_batches = file, min(end, file.size), base_offset - 1, 0
        self._probe = Probe(file, end=file.size, lowest=base_offset)
        self._judge = DamageJudge(self._probe, base_offset)

    def walk(self, at: int, on_mended: Callable[[SetRight], None]) -> None:
        """Search the log from byte `at` on."""
        pool, calm = RowPool(), True
        while at < self._end:
            for proved in walk_proved_calmly(self._file, at, pool, end=self._end, calm=calm):
                for rows, count in proved.rows:
                    self._last_offset = facts_at(rows, count - 1).last_offset
                at = proved.reached
            if at < self._end:
                at, calm = self._pass_what_is_not_plain(at, on_mended), False

    def _pass_what_is_not_plain(self, at: int, on_mended: Callable[[SetRight], None]) -> int:
        """Return the end of the damage that begins here, or of the sound entry that is not plain."""
        judged = self._probe.judge(at)
        if judged is not None:
            self._last_offset = judged.facts.last_offset
            return judged.facts.end
        many = self._wrong_batches >= MANY_WRONG_BATCHES
        run = self._judge.judge_run(at, self._last_offset) if many else None
        damages = [run] if run is not None else self._judge.judge(at, self._last_offset)
        for damage in damages:
            self._note(damage, on_mended)
        return damages[-1].end

    def _note(self, damage: Damage, on_mended: Callable[[SetRight], None]) -> None:
        self._wrong_batches += damage.id == Kind.BATCH_CRC
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
    """A file with some corrected fields. It must not be closed."""

    is_mappable = False

    def __init__(self, file: LogFile, positions: array[int], values: array[int]) -> None:
        self.path, self.size = file.path, file.size
        self._file, self._positions, self._values = file, positions, values

    def read(self, position: int, size: int) -> bytes:
        """See LogFile."""
        result = bytearray(self._file.read(position, size))
        self._mend(memoryview(result), position)
        return bytes(result)

    def read_into(self, buffer: bytearray | mmap.mmap, position: int, size: int) -> memoryview:
        """See LogFile."""
        view = self._file.read_into(buffer, position, size)
        self._mend(view, position)
        return view

    def map(self, position: int, size: int) -> memoryview:
        """See LogFile. A corrected entry has proved its size, so it may be read into memory."""
        if not self._fields_in(position, size):
            return self._file.map(position, size)
        return memoryview(self.read(position, size))

    def size_now(self) -> int:
        """See LogFile."""
        return self._file.size_now()

    def close(self) -> None:
        """Do nothing: the file belongs to its opener."""

    def _mend(self, view: memoryview, position: int) -> None:
        for n in self._fields_in(position, len(view)):
            at = self._positions[n] - position
            for k, byte in enumerate(self._field(n)):
                if 0 <= at + k < len(view):
                    view[at + k] = byte

    def _fields_in(self, position: int, size: int) -> range:
        """Return the numbers of the fields that have bytes in this range."""
        first = bisect_right(self._positions, position - _MOST_FIELD_BYTES)
        return range(first, bisect_left(self._positions, position + size))

    def _field(self, n: int) -> bytes:
        """Return the right bytes of a field."""
        value = self._values[n]
        return bytes([MAGIC]) if value == _TO_MAGIC else value.to_bytes(_MOST_FIELD_BYTES, "big")
