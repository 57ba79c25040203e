"""Records that are in a log, and that a consumer passes over: their offsets are not above those before them.

A consumer that reads through goes on behind the largest offset that it has seen (CompletedFetch.nextFetchOffset), and
drops what is below. A fetch that begins exactly at such a batch finds it, so this is what a reader of the whole log
misses.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from klogtool.format.batch_proof import EntryFacts
from klogtool.format.succession import facts_at
from klogtool.log.file import LogFile
from klogtool.log.probing import Probe
from klogtool.log.proving import RowPool, walk_proved_calmly


class HiddenRecords(Struct, frozen=True):
    """The records of one batch that consumers pass over, by its header."""

    position: int
    first_offset: int
    last_offset: int
    records: int


def walk_hidden(file: LogFile, base_offset: int) -> Iterator[HiddenRecords]:
    """Yield what consumers pass over in a segment, in the order of the file. It ends where they stop: at damage.

    Raises Unreadable if the file cannot be read.
    """
    probe, pool, at, seen = Probe(file, end=file.size, lowest=base_offset), RowPool(), 0, base_offset - 1
    previous: EntryFacts | None = None
    while at < file.size:
        for proved in walk_proved_calmly(file, at, pool, end=file.size, calm=True):
            for rows, count in proved.rows:
                for number in range(count):
                    facts = facts_at(rows, number)
                    yield from _hidden(facts, previous, seen)
                    seen, previous = max(seen, _last_read(facts)), facts
            at = proved.reached
        judged = probe.judge(at) if at < file.size else None
        if judged is None:
            return
        yield from _hidden(judged.facts, previous, seen)
        seen, previous, at = max(seen, _last_read(judged.facts)), judged.facts, judged.facts.end


def hidden_part(facts: EntryFacts, seen: int) -> HiddenRecords | None:
    """Return the part of a batch that is not above the last offset that was seen; None if there is none."""
    first, last = facts.lowest_offset, max(facts.lowest_offset, facts.last_offset)
    if first > seen or not facts.records_count:
        return None
    last = min(last, seen)
    return HiddenRecords(facts.position, first, last, min(facts.records_count, last - first + 1))


def _hidden(facts: EntryFacts, previous: EntryFacts | None, seen: int) -> Iterator[HiddenRecords]:
    """Yield what is hidden of a batch, unless it is the one before again."""
    part = hidden_part(facts, seen)
    if part is not None and not (previous is not None and facts.is_copy_of(previous)):
        yield part


def _last_read(facts: EntryFacts) -> int:
    """Return the last offset that a consumer gets of a batch: records count, whatever the header says of the end."""
    return max(facts.last_offset, facts.lowest_offset + facts.records_count - 1)
