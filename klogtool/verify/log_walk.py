"""One walk over a segment's log: plain entries go by fast, what is not plain is judged, and the walk goes on."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Generator, Iterator
from itertools import pairwise

from msgspec.structs import astuple, replace

from klogtool import kernels
from klogtool.causes import Reason
from klogtool.format.batch import NO_PRODUCER_ID
from klogtool.format.batch_proof import DELTA, FACTS, FLAGS, HEADER, NOT_TOLD, PRODUCER, EntryFacts, Judged
from klogtool.format.succession import EpochStart, Future, Succession, Why, facts_at
from klogtool.log.file import LogFile
from klogtool.log.probing import Probe
from klogtool.log.producer_replay import KeptHeaders
from klogtool.log.proving import LARGEST_WHOLE_BYTES, Proved, RowPool, walk_proved, walk_proved_calmly
from klogtool.verify.causes import DamageCause
from klogtool.verify.findings import Kind
from klogtool.verify.index_damage import IndexFile
from klogtool.verify.index_judge import IndexJudge
from klogtool.verify.log_damage import MANY_WRONG_BATCHES, Damage, DamageJudge
from klogtool.verify.log_order import OrderJudge
from klogtool.verify.segment_report import EpochRun, SegmentContext, SegmentReport

ABOUT_INDEXES = (Why.INDEX, Why.INDEX_REACH, Why.TIME, Why.TIME_REACH)
ABOUT_OFFSETS = (Why.OFFSET, Why.OVERFLOW, Why.INDEX)
OLD_MAGICS = 0b11
READ_ON = (FLAGS, DELTA, PRODUCER)  # what a header may say wrong, and consumers get the records nevertheless
_FIRST = FACTS.index("first_offset")
_ROWS = RowPool()  # of all walks: many segments are small


class LogWalk:
    """What is known of a log so far. What is wrong with the indexes is noted there, what is wrong with the log yielded.

    deep, jobs, on_progress: see verify_segment.
    """

    def __init__(
        self,
        file: LogFile,
        base_offset: int,
        context: SegmentContext,
        indexes: tuple[IndexFile | None, IndexFile | None],
        *,
        deep: bool = False,
        jobs: int = 1,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self._file, self._deep, self._jobs, self._on_progress = file, deep, jobs, on_progress
        entries = [b"" if index is None else index.data for index in indexes]
        self._succession: Succession = kernels.native.Succession(base_offset, context.now_ms, *entries)
        self._epochs: list[EpochStart] = []
        self._probe = Probe(file, end=file.size, lowest=base_offset)
        self._damage = DamageJudge(self._probe, base_offset, deep=deep)
        self._order = OrderJudge(self._succession, self._probe, context.next_base, self._epochs)
        self._indexes = IndexJudge(self._succession, self._probe, *indexes, context.closed_at)
        self._sound: list[tuple[int, int]] = []
        self._rows = _ROWS
        self._wrong_batches = 0
        is_kept = context.keeps_headers and not file.is_mappable  # what is mapped is cheap to look at again
        self._headers = KeptHeaders() if is_kept else None

    def walk(self) -> Iterator[Damage]:
        """All of the log. Raises KlogError where it cannot be read."""
        at, end, calm = 0, self._file.size, True
        while at < end:
            for proved in self._runs(at, calm=calm):
                for rows, count in proved.rows:
                    followed = list(self._follow(rows, count))
                    yield from followed
                    if self._headers is not None and self._headers.is_whole:
                        self._headers.add(rows, count)
                    if not self._deep and self._succession.magics & OLD_MAGICS:
                        yield from self._open_wrappers(rows, count, {damage.start for damage in followed})
                self._note_sound(at, proved.reached)
                at = proved.reached
            if at < end:
                start, at, calm = at, (yield from self._judge(at)), False
                self._progress(at - start)
        yield from self._order.finish()
        self._indexes.finish(self._valid_end)

    @property
    def future(self) -> Future:
        """Entries later than now."""
        return self._succession.future

    @property
    def last_position(self) -> int:
        """Where the last entry begins; 0 if there is none."""
        return EntryFacts(*self._succession.previous).position if self._succession.batches else 0

    def fill(self, report: SegmentReport) -> None:
        """What was found, into the report."""
        succession, size = self._succession, self._file.size
        report.batches, report.records, report.bytes = succession.batches, succession.records, succession.bytes
        report.next_offset = succession.last_offset + 1
        report.first_offset = succession.first_offset if succession.batches else None
        report.sound = tuple(self._sound)
        report.is_damaged |= self._sound != ([(0, size)] if size else [])
        report.has_damaged_tail = self._valid_end < size
        report.has_gaps = bool(succession.gaps) or succession.sparse
        report.has_producers = succession.has_producers
        report.has_transactions = succession.has_transactions
        report.has_old_messages = bool(succession.magics & OLD_MAGICS)
        report.largest_timestamp = succession.largest_timestamp
        report.epochs = list(self._epoch_runs())
        if self._headers is not None and self._headers.is_whole and succession.has_producers:
            report.headers = self._headers

    def _epoch_runs(self) -> Iterator[EpochRun]:
        at_end = (0, 0, self._succession.last_offset, 0, self._succession.batches, 0)
        for start, behind in pairwise([*self._epochs, at_end]):
            epoch, first_offset, _, position, batches, magic = start
            yield EpochRun(epoch, first_offset, behind[2], behind[4] - batches, magic, position)

    @property
    def _valid_end(self) -> int:
        """Byte behind the last entry that is sound."""
        return self._sound[-1][1] if self._sound else 0

    def _runs(self, at: int, *, calm: bool) -> Iterator[Proved]:
        """The plain entries from byte `at` on, some at a time."""
        file, rows = self._file, self._rows
        for proved in walk_proved_calmly(file, at, rows, end=file.size, calm=calm, deep=self._deep, jobs=self._jobs):
            yield proved
            self._progress(proved.reached - at)
            at = proved.reached

    def _open_wrappers(self, rows: array[int], count: int, reported: Collection[int]) -> Iterator[Damage]:
        """Open the wrapper messages of these entries: readers and recovery have to, to know their first offset, and a
        broker does not start if it cannot. reported: where damage begins that is reported already."""
        if NOT_TOLD not in rows[_FIRST : count * len(FACTS) : len(FACTS)]:
            return
        at, end = facts_at(rows, 0).position, facts_at(rows, count - 1).end
        while at < end:
            for proved in walk_proved(self._file, at, self._rows, end=end, deep=True, jobs=self._jobs):
                at = proved.reached
            judged = self._probe.judge(at, deep=True) if at < end else None
            if judged is None:
                return
            is_wrapper = judged.facts.magic < 2  # a batch of magic 2 says in its header where it begins
            wrong = judged.records_contradiction
            is_unreadable = is_wrapper and not judged.is_readable and judged.contradiction is None
            if is_unreadable and wrong is not None and at not in reported:
                yield _of_entry(Kind.RECORDS_INVALID, judged.facts, wrong)
            at = judged.facts.end

    def _follow(self, rows: array[int], count: int) -> Iterator[Damage]:
        """Hold entries against those before them, and against the indexes."""
        self._indexes.note_next(facts_at(rows, 0))
        number = 0
        while number < count:
            number, why = self._succession.follow(rows, number, count)
            self._epochs += self._succession.fetch_epochs()
            if why == Why.DONE:
                continue
            entry = facts_at(rows, number)
            if why in ABOUT_INDEXES and not self._indexes.contradicts_offset(why, entry):
                self._indexes.judge(why, entry)
                continue
            if why in ABOUT_OFFSETS:
                self._indexes.note_disorder(entry)
            yield from self._order.judge(why, rows, number)

    def _judge(self, at: int) -> Generator[Damage, None, int]:
        """What is wrong from byte `at` on, where no plain entry begins; returns where the next one does."""
        while at < self._file.size:
            judged = self._probe.judge(at, deep=self._deep)
            if judged is None:
                at = yield from self._judge_damage(at)
                continue
            if judged.is_plain and judged.facts.size <= LARGEST_WHOLE_BYTES:
                break
            yield from self._take(judged)
            self._headers = None  # of what is not plain, not all is kept
            if judged.is_sound:  # only too large for a window
                self._note_sound(at, judged.facts.end)
            at = judged.facts.end
        return at

    def _judge_damage(self, at: int) -> Generator[Damage, None, int]:
        last_offset = self._succession.last_offset
        run = self._damage.judge_run(at, last_offset) if self._wrong_batches >= MANY_WRONG_BATCHES else None
        for damage in self._damage.judge(at, last_offset) if run is None else [run]:
            yield damage
            at = damage.end
            self._wrong_batches += damage.id == Kind.BATCH_CRC
            if damage.entry is None:
                self._indexes.note_damage(damage.start, damage.end)
            else:
                yield from self._take(damage.entry)
        return at

    def _take(self, judged: Judged) -> Iterator[Damage]:
        """An entry whose checksum holds, whatever else is wrong with it."""
        facts = judged.facts
        fault = judged.contradiction
        if fault is not None and (judged.is_readable or fault.field not in READ_ON):
            yield _of_entry(Kind.BATCH_ATTRIBUTES, facts, fault.detail, fault.field)
        elif judged.records_contradiction is not None:
            field = HEADER if judged.is_readable else None
            yield _of_entry(Kind.RECORDS_INVALID, facts, judged.records_contradiction, field)
        elif judged.unchecked is not None:
            yield _of_entry(Kind.UNREADABLE, facts, DamageCause.UNCHECKED(why=judged.unchecked))
        yield from self._follow(array("q", astuple(_believable(judged))), 1)

    def _note_sound(self, start: int, end: int) -> None:
        if self._sound and self._sound[-1][1] == start:
            self._sound[-1] = self._sound[-1][0], end
        elif start < end:
            self._sound.append((start, end))

    def _progress(self, done: int) -> None:
        if self._on_progress is not None and done:
            self._on_progress(done)


def _of_entry(kind: Kind, facts: EntryFacts, reason: Reason, field: str | None = None) -> Damage:
    first = facts.first_offset if facts.tells_first_offset else None
    last = facts.last_offset if first is None else max(first, facts.last_offset)
    return Damage(kind, facts.position, facts.end, reason, first, last, field)


def _believable(judged: Judged) -> EntryFacts:
    """Of an entry that may contradict itself: what can be held against others all the same."""
    facts = judged.facts
    if judged.is_plain:
        return facts
    first = facts.first_offset if facts.magic >= 2 else NOT_TOLD
    last = max(first, facts.last_offset)
    return replace(
        facts,
        first_offset=first,
        last_offset=last,
        records_count=max(0, facts.records_count),
        producer_id=NO_PRODUCER_ID,
    )
