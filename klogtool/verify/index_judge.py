"""Compares the offset and the time index of a segment with its log, entry by entry during the walk."""

from __future__ import annotations

from klogtool.causes import Reason
from klogtool.format.batch_proof import EntryFacts
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.succession import Succession, Why
from klogtool.log.offset_ranges import Offsets
from klogtool.log.probing import Probe
from klogtool.verify.causes import IndexCause
from klogtool.verify.closed_end import is_right_end
from klogtool.verify.index_damage import IndexFile


class IndexJudge:
    """Judges the index entries at which a succession stopped. Damaged parts of the log prove nothing about them.

    Either index may be missing. closed_at: where the log ended at a clean stop, or None.
    """

    def __init__(
        self,
        succession: Succession,
        probe: Probe,
        offset_index: IndexFile | None,
        time_index: IndexFile | None,
        closed_at: int | None = None,
    ) -> None:
        self._closed_at = closed_at
        self._succession, self._probe = succession, probe
        self._offset_index, self._time_index = offset_index, time_index
        self._damaged_bytes, self._missing_offsets, self._some_missing = Offsets(), Offsets(), False
        self._doubtful_position = -1

    def note_damage(self, start: int, end: int) -> None:
        """Note bytes of the log in which no entry was found."""
        self._damaged_bytes.add(start, end - 1)
        self._some_missing = True

    def note_next(self, entry: EntryFacts) -> None:
        """Note the next entry that was found: offsets of the damage before it are below its own."""
        if self._some_missing:
            if entry.lowest_offset - 1 > self._succession.last_offset:
                self._missing_offsets.add(self._succession.last_offset + 1, entry.lowest_offset - 1)
            self._some_missing = False

    def note_disorder(self, entry: EntryFacts) -> None:
        """Note that the offset of this entry, or of the one before, is wrong: offsets from there up to the next entry
        prove nothing about the indexes."""
        succession = self._succession
        self._doubtful_position = entry.position
        # Of two entries that contradict each other it is not known which is wrong, but the one behind both bounds them.
        # Behind the last entry nothing does: then every higher offset is in doubt.
        after = self._probe.judge(entry.end) if entry.end < self._probe.end else None
        if after is not None:
            highest = after.facts.lowest_offset - 1
        else:
            highest = max(entry.last_offset, succession.last_offset) if entry.end < self._probe.end else MAX_LONG
        self._missing_offsets.add(succession.before_offset + 1, max(highest, succession.last_offset))
        # What the indexes had noted so far was compared with a wrong offset. Kept, it would accuse them once more.
        succession.index_noted = succession.time_noted = -1

    def judge(self, why: int, entry: EntryFacts) -> None:
        """Record the index entry as false if it is, and continue after it."""
        succession = self._succession
        if why == Why.INDEX:
            self._judge_offset(entry)
        elif why == Why.INDEX_REACH:
            # Once: the following entries would all be "after" the same false one.
            self._note_reach()
            succession.index_noted = -1
        elif why == Why.TIME:
            self._judge_time(entry)
        elif why == Why.TIME_REACH:
            self._note_time_reach()
            succession.time_noted = -1

    def contradicts_offset(self, why: int, entry: EntryFacts) -> bool:
        """Return whether the entry's offset is wrong, not the index's: nothing after it could show it, and before it
        only the offset between the two is missing."""
        succession, index = self._succession, self._offset_index
        if why != Why.INDEX or index is None or entry.end < self._probe.end or succession.gaps:
            return False
        relative_offset, position = index.entry(succession.index_at)
        return position == entry.position and relative_offset > succession.last_offset - succession.base_offset

    def finish(self, valid_end: int) -> None:
        """Finish both indexes; the last sound entry of the log ends at byte `valid_end`."""
        succession, has_tail = self._succession, valid_end < self._probe.end
        highest = max(-1, succession.last_offset - succession.base_offset)
        if self._offset_index is not None:
            self._finish_offsets(self._offset_index)
            # Bytes after the last sound entry may have held the batch that the index means, so it is not false then.
            if succession.index_noted > highest and not has_tail:
                self._note_reach()
        if self._time_index is not None:
            self._finish_times(self._time_index, has_tail=has_tail)
            if succession.time_noted > highest and not has_tail:
                self._note_time_reach()

    def _finish_offsets(self, index: IndexFile) -> None:
        for number in range(self._succession.index_at, len(index)):
            position = index.entry(number)[1]
            if position >= self._probe.end:
                self._note_offset(number, IndexCause.LOG_ENDS(size=self._probe.end))
            # In damaged bytes a batch may have begun there: the log is at fault, not the index.
            elif position not in self._damaged_bytes:
                self._note_offset(number, IndexCause.NO_BATCH())

    def _finish_times(self, index: IndexFile, *, has_tail: bool) -> None:
        succession = self._succession
        for number in range(succession.time_at, len(index)):
            relative_offset = index.entry(number)[1]
            behind = succession.base_offset + relative_offset > succession.last_offset
            if not self._is_missing(relative_offset) and not (has_tail and behind):
                self._note_time(number)

    # Offset index.

    def _judge_offset(self, entry: EntryFacts) -> None:
        succession, index = self._succession, self._offset_index
        assert index is not None  # the index has this entry
        number, succession.index_at = succession.index_at, succession.index_at + 1
        position = index.entry(number)[1]
        # An offset too high only costs a look-up time. One too low hides records: LogSegment.translateOffset begins at
        # the largest index entry at or below its target, and never looks back.
        if position == entry.position and not self._has_doubtful_offset(entry):
            least = entry.first_offset if entry.tells_first_offset else self._succession.last_offset + 1
            self._note_offset(number, IndexCause.OTHER_OFFSET(offset=least))
        elif position < entry.position and position not in self._damaged_bytes:
            self._note_offset(number, IndexCause.NO_BATCH())

    def _has_doubtful_offset(self, entry: EntryFacts) -> bool:
        """Return whether the log's entry is wrong, because the next entry contradicts it too."""
        if entry.position == self._doubtful_position:
            return True
        after = self._probe.judge(entry.end) if entry.end < self._probe.end else None
        return after is not None and after.facts.tells_first_offset and after.facts.first_offset <= entry.last_offset

    def _note_offset(self, number: int, why: Reason) -> None:
        _note(self._offset_index, number, why)

    def _note_reach(self) -> None:
        succession, index = self._succession, self._offset_index
        assert index is not None  # the index has noted an entry
        if not self._is_missing(succession.index_noted):
            number = index.last_with(0, succession.index_noted, succession.index_at)
            self._note_offset(number, IndexCause.ENDS_BELOW())

    # Time index.

    def _judge_time(self, entry: EntryFacts) -> None:
        succession, index = self._succession, self._time_index
        assert index is not None  # the index has this entry
        number, succession.time_at = succession.time_at, succession.time_at + 1
        timestamp, relative_offset = index.entry(number)
        if entry.position == self._doubtful_position or self._is_missing(relative_offset):
            return
        if self._is_beyond_closed_end(entry):
            return
        # The right time with an offset outside of the batch: the batch's own offset may be what is wrong.
        if timestamp != entry.max_timestamp or not self._has_doubtful_offset(entry):
            self._note_time(number)

    def _note_time(self, number: int) -> None:
        _note(self._time_index, number, IndexCause.NOT_LARGEST())

    def _note_time_reach(self) -> None:
        succession, index = self._succession, self._time_index
        assert index is not None  # the index has noted an entry
        if not self._is_missing(succession.time_noted):
            number = index.last_with(1, succession.time_noted, succession.time_at)
            _note(index, number, IndexCause.MESSAGES_END_BELOW())

    def _is_beyond_closed_end(self, entry: EntryFacts) -> bool:
        """Return whether the offsets of the last batch are wrong, because the log was closed below them."""
        if self._closed_at is None or entry.end < self._probe.end or entry.last_offset < self._closed_at:
            return False
        last_record = self._probe.last_record(entry)
        return entry.lowest_offset >= self._closed_at or is_right_end(entry.lowest_offset, last_record, self._closed_at)

    def _is_missing(self, relative_offset: int) -> bool:
        """Return whether an offset is in a damaged part of the log."""
        return self._succession.base_offset + relative_offset in self._missing_offsets


def _note(index: IndexFile | None, number: int, why: Reason) -> None:
    assert index is not None  # the index has this entry
    index.note_false(number, why)
