"""Compares transaction indexes and producer snapshots with the producers in the segments themselves.

A replay reads what recovery would read (`log.producer_replay`). It cannot know everything: data that retention or the
cleaner dropped, producers that a broker forgot by the clock, damaged bytes. So an entry counts as false only if the log
contradicts it in one of two ways: readers would see aborted records, or miss committed ones; or nothing was dropped so
far (`_Replay.is_exact`) and the entry is not exactly what the log says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from klogtool.causes import Reason, from_text
from klogtool.errors import KlogError
from klogtool.format.batch import RecordBatch
from klogtool.format.indexes import ABORTED_TXN_SIZE, AbortedTxn, walk_txn_index
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind, build_file_name
from klogtool.format.producer_replay import NOTHING, Aborted, ReplayStop
from klogtool.format.producer_snapshot import ProducerStateEntry, parse_producer_snapshot
from klogtool.kernels import crc32c
from klogtool.log.expected_files import announced
from klogtool.log.file import LogFile, Unreadable, read_whole
from klogtool.log.producer_replay import Halt, make_replay, replay_segment, replay_spans
from klogtool.log.segment import Segment
from klogtool.verify.causes import FindingCause, SegmentCause, SnapshotCause, TxnIndexCause
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.segment_report import SegmentReport
from klogtool.verify.stable_offsets import StableOffsets, false_entry
from klogtool.verify.verify_names import Layout

MOST_SIDE_FILE_BYTES = 256 << 20  # five million producers, or eight million aborted transactions in a segment
MOST_FINDINGS_OF_A_FILE = 10


def verify_producers(
    layout: Layout, segments: Sequence[SegmentReport], log_start_offset: int, certain_end: int | None = None
) -> Iterator[Finding]:
    """Yield findings of every `.txnindex` and `.snapshot` of a partition, in the order of the log.

    segments: all of them, by base offset. certain_end: where the log ended when it was closed, if known.
    """
    replay = _Replay(segments[0].base_offset if segments else 0, log_start_offset)
    log_end_offset = segments[-1].next_offset if segments else 0
    within = [offset for offset in layout.snapshots if replay.known_from <= offset <= log_end_offset]
    for offset, name in layout.snapshots.items():
        if offset < replay.known_from:
            yield from _verify_older_snapshot(layout.path_of(name), offset)
    is_cut = bool(segments) and segments[-1].is_damaged
    stable_offsets = StableOffsets(MAX_LONG if is_cut else max(log_end_offset, certain_end or 0))
    bases = [*(segment.base_offset for segment in segments), log_end_offset + 1]

    def marks_in(n: int) -> list[int]:
        return within[bisect_left(within, bases[n]) : bisect_left(within, bases[n + 1])]

    def files_of(n: int) -> list[str]:
        logs = [segments[n].path] if segments[n].has_producers and segments[n].headers is None else []
        return [*logs, *(layout.path_of(layout.snapshots[offset]) for offset in marks_in(n))]

    for n in announced(range(len(segments)), files_of):
        segment, marks = segments[n], marks_in(n)
        if n and segments[n - 1].next_offset != segment.base_offset:
            replay.lose_track()
        yield from _verify_segment(layout, segment, replay, marks, stable_offsets)
        if replay.gave_up:
            return
    yield from stable_offsets.finish(replay.open_from())
    beyond = [layout.path_of(name) for offset, name in layout.snapshots.items() if offset > log_end_offset]
    may_be = len(beyond) == 1 and (certain_end is None or max(layout.snapshots) <= certain_end)
    for path in beyond:
        yield from _verify_snapshot_beyond(path, log_end_offset, replay, may_be=may_be)


def verify_lone_txn_index(segment: SegmentReport, file: LogFile, path: str, data: bytes | None) -> Iterator[Finding]:
    """Yield findings of the `.txnindex` of a segment of which nothing before is known: of transactions that began in
    it. file: its log; data: of the index, None if there is none."""
    replay = _Replay(segment.base_offset, segment.base_offset)
    replay.begin_segment(segment)
    for halt in replay_spans(replay.producers, file, segment.sound, []):
        if halt.why is ReplayStop.IMPOSSIBLE:
            replay.lose_track()
        elif not replay.fetch():
            return
    replay.fetch()
    if data is None:
        yield from _missing_txn_index(path, replay)
    else:
        yield from _of_txn_index(path, data, segment, replay, StableOffsets(MAX_LONG))


class _Replay:
    """The producers of a log so far, and how reliable that is.

    known_from: nothing is known of what came before this offset. is_exact: nothing after it is missing. is_unbroken:
    nothing is missing except what a cleaner drops. gave_up: there are more producers or open transactions than klogtool
    tracks. aborted, lone_aborts: of the segment that is being read.
    """

    def __init__(self, known_from: int, log_start_offset: int) -> None:
        self.known_from, self.log_start_offset = known_from, log_start_offset
        self.producers = make_replay(log_start_offset)
        self.is_exact, self.is_unbroken, self.gave_up = True, True, False
        self.aborted: list[Aborted] = []
        self.lone_aborts: dict[
            int, list[tuple[int, int]]
        ] = {}  # by offset: producers, and the last offset of what they did before
        self._is_damaged = False

    def begin_segment(self, segment: SegmentReport) -> None:
        """Begin the next segment. In a damaged one, no transaction counts that ends in it, or is open at its end."""
        if self._is_damaged:
            self.lose_track()
        self._is_damaged = segment.is_damaged
        self.aborted, self.lone_aborts = [], {}
        begins_late = segment.first_offset is not None and segment.first_offset > segment.base_offset
        if segment.is_damaged or segment.has_gaps or begins_late:
            self.is_exact = False
        self.is_unbroken = self.is_unbroken and not segment.is_damaged

    def lose_track(self) -> None:
        """Note that some of the log is missing here: transactions that are open now may have ended in it."""
        self.is_exact = self.is_unbroken = False
        self.producers.lose_track()

    def open_from(self) -> int | None:
        """Return where the first open transaction began; None if none is open, or that is uncertain."""
        readable = [first for first, _ in self.producers.open_txns() if first >= self.log_start_offset]
        return readable[0] if readable and self.is_unbroken else None

    def fetch(self) -> int:
        """Take over the transactions that have ended; return how many."""
        aborted, lone = self.producers.fetch_aborted(), self.producers.fetch_lone_aborts()
        if self._is_damaged:
            aborted = [replace(txn, is_known=False) for txn in aborted]
        self.aborted += aborted
        for offset, producer_id, before in lone:
            self.lone_aborts.setdefault(offset, []).append((producer_id, before))
        return len(aborted) + len(lone)


def _verify_segment(
    layout: Layout, segment: SegmentReport, replay: _Replay, marks: list[int], stable_offsets: StableOffsets
) -> Iterator[Finding]:
    replay.begin_segment(segment)
    spans = segment.sound if segment.has_producers else ()
    if segment.headers is None:
        halts = replay_segment(replay.producers, segment.path, spans, marks)
    else:
        halts = segment.headers.replay(replay.producers, marks)
        segment.headers = None
    for halt in halts:
        match halt.why:
            case ReplayStop.MARK:
                yield from _verify_snapshot(layout.path_of(layout.snapshots[halt.mark]), halt.mark, replay)
            case ReplayStop.IMPOSSIBLE:
                replay.lose_track()
                yield from _impossible(segment.path, halt)
            case ReplayStop.FULL if not replay.fetch():
                replay.gave_up = True
                return
    replay.fetch()
    yield from _verify_txn_index(layout, segment, replay, stable_offsets)
    yield from stable_offsets.end_segment(replay.aborted, segment.next_offset, replay.open_from())


def _impossible(path: str, halt: Halt) -> Iterator[Finding]:
    """Yield findings of data outside its transaction. The scan reports a marker that cannot be read."""
    batch = next(Segment(path).batches(halt.position))
    if isinstance(batch, RecordBatch) and not batch.is_control:
        reason, end = SegmentCause.OUTSIDE_TRANSACTION(producer_id=batch.producer_id), halt.position + halt.size
        first, last = batch.base_offset, batch.last_offset
        yield Finding(Kind.BATCH_ATTRIBUTES, path, reason, halt.position, end, first, last)


# Transaction indexes.


def _verify_txn_index(
    layout: Layout, segment: SegmentReport, replay: _Replay, stable_offsets: StableOffsets
) -> Iterator[Finding]:
    path = layout.find(FileKind.TXN_INDEX, segment.base_offset)
    if path is None:
        if build_file_name(FileKind.TXN_INDEX, segment.base_offset) not in layout.present:
            missing = segment.path.removesuffix(FileKind.LOG.value) + FileKind.TXN_INDEX.value
            yield from _missing_txn_index(missing, replay)
        return
    try:
        data = read_whole(path, limit=MOST_SIDE_FILE_BYTES)
    except KlogError as error:
        yield Finding(Kind.UNREADABLE, path, from_text(error.reason))
        return
    yield from _of_txn_index(path, data, segment, replay, stable_offsets)


def _of_txn_index(
    path: str, data: bytes, segment: SegmentReport, replay: _Replay, stable_offsets: StableOffsets
) -> Iterator[Finding]:
    if rest := len(data) % ABORTED_TXN_SIZE:
        yield Finding(Kind.TXNINDEX_SIZE, path, TxnIndexCause.TORN(size=rest), start=len(data) - rest, end=len(data))
    check = _TxnIndexCheck(path, segment, replay, stable_offsets)
    yield from _first_few(check.findings(data), path)


def _missing_txn_index(path: str, replay: _Replay) -> Iterator[Finding]:
    exposed = [txn for txn in replay.aborted if txn.visible_from != NOTHING and txn.is_known]
    if exposed:
        yield Finding(
            Kind.TXNINDEX_MISSING,
            path,
            TxnIndexCause.IN_NO_INDEX() if len(exposed) == 1 else TxnIndexCause.MANY_IN_NO_INDEX(count=len(exposed)),
            first_offset=min(txn.visible_from for txn in exposed),
            last_offset=exposed[-1].last_offset,
        )


class _TxnIndexCheck:
    """Compares one `.txnindex` with the replay of its segment."""

    def __init__(self, path: str, segment: SegmentReport, replay: _Replay, stable_offsets: StableOffsets) -> None:
        self.path, self.segment, self.replay = path, segment, replay
        self.stable_offsets = stable_offsets
        self.expected = {txn.last_offset: txn for txn in replay.aborted}

    def findings(self, data: bytes) -> Iterator[Finding]:
        """Yield false entries in order, then missing ones."""
        previous: AbortedTxn | None = None
        indexed = set()
        try:
            for n, entry in enumerate(walk_txn_index(data)):
                indexed.add(entry.last_offset)
                wrong = self._order(entry, previous) or self._wrong(entry) or self.stable_offsets.wrong(entry)
                if wrong:
                    yield self._false(n, entry, wrong)
                else:
                    self.stable_offsets.add(self.path, n, entry)
                previous = entry
        except KlogError as error:
            at = error.position or 0
            reason = FindingCause.NO_START(wrong=error.reason)
            yield Finding(Kind.TXNINDEX_ENTRY, self.path, reason, at, at + ABORTED_TXN_SIZE)
            return
        for offset, txn in self.expected.items():
            if offset not in indexed and txn.visible_from != NOTHING and txn.is_known:
                yield self._missing(txn)

    def _false(self, number: int, entry: AbortedTxn, wrong: Reason) -> Finding:
        """Return the finding for an entry; if it begins too late, with the offsets that look committed."""
        finding, txn = false_entry(self.path, number, entry, wrong), self.expected.get(entry.last_offset)
        if txn is None or not txn.is_known or txn.producer_id != entry.producer_id or txn.visible_to == NOTHING:
            return finding
        if entry.first_offset <= txn.visible_to:
            return finding
        last = min(entry.first_offset - 1, entry.last_offset)
        return replace(finding, first_offset=txn.visible_from, last_offset=last)

    def _order(self, entry: AbortedTxn, previous: AbortedTxn | None) -> Reason | None:
        if previous is not None and entry.last_offset <= previous.last_offset:
            return TxnIndexCause.NOT_ABOVE(marker=entry.last_offset)
        if min(entry.producer_id, entry.first_offset, entry.last_stable_offset) < 0:
            return TxnIndexCause.BELOW_ZERO()
        if entry.last_offset < self.segment.base_offset:
            return TxnIndexCause.BELOW_SEGMENT(marker=entry.last_offset)
        return None

    def _wrong(self, entry: AbortedTxn) -> Reason | None:
        txn = self.expected.get(entry.last_offset)
        if txn is None:
            return self._wrong_unexpected(entry)
        if txn.producer_id != entry.producer_id:
            return TxnIndexCause.OTHER_PRODUCER(marker=entry.last_offset, producer_id=txn.producer_id)
        if not txn.is_known:
            return None
        if txn.visible_to != NOTHING and entry.first_offset > txn.visible_to:
            return TxnIndexCause.LOOK_COMMITTED(start=txn.first_offset, first_offset=entry.first_offset)
        if entry.first_offset <= txn.before < txn.first_offset:  # otherwise the log goes back, which proves nothing
            return TxnIndexCause.DECIDED_BEFORE(before=txn.before)
        return self._not_exact(entry, txn) or self._wrong_last_stable_offset(entry, txn)

    def _wrong_unexpected(self, entry: AbortedTxn) -> Reason | None:
        """Judge an entry for which the replay has no transaction."""
        markers = self.replay.lone_aborts.get(entry.last_offset)
        if markers is None:
            return None if self.segment.is_damaged else TxnIndexCause.NO_MARKER(marker=entry.last_offset)
        # If the log goes back, an offset may exist twice. A broker that recovers used one of the two markers.
        wrong = [self._wrong_at_marker(entry, *marker) for marker in markers]
        return None if None in wrong else wrong[0]

    def _wrong_at_marker(self, entry: AbortedTxn, producer_id: int, before: int) -> Reason | None:
        """Judge an entry at a marker that ends nothing. before: the last offset of what its producer did before."""
        if producer_id != entry.producer_id:
            return TxnIndexCause.OTHER_PRODUCER(marker=entry.last_offset, producer_id=producer_id)
        if entry.first_offset <= before:
            return TxnIndexCause.DECIDED_BEFORE(before=before)
        if self.replay.is_exact and entry.first_offset >= self.replay.known_from:
            return TxnIndexCause.NOTHING_OPEN_THERE()
        return None

    def _not_exact(self, entry: AbortedTxn, expected: Aborted) -> Reason | None:
        if not self.replay.is_exact or entry.first_offset == expected.first_offset:
            return None
        is_older = (
            entry.first_offset < self.replay.known_from or expected.first_offset < self._floor <= entry.first_offset
        )
        return None if is_older else TxnIndexCause.STARTED_AT(start=expected.first_offset)

    def _wrong_last_stable_offset(self, entry: AbortedTxn, txn: Aborted) -> Reason | None:
        """A reader stops looking for aborted transactions at an entry whose last stable offset is after its fetch.

        Before the marker it must be where the first open transaction began. After the marker it may be where the next
        one begins, because a follower first reads a whole set of batches.
        """
        stable, expected = entry.last_stable_offset, txn.last_stable_offset
        if txn.open_from != NOTHING and stable > txn.open_from:
            return TxnIndexCause.WAS_OPEN(start=txn.open_from)
        is_known = self.replay.is_exact and self._floor <= min(stable, expected)
        if is_known and stable <= entry.last_offset and stable != expected:
            is_open = expected <= entry.last_offset
            return TxnIndexCause.FIRST_OPEN(start=expected) if is_open else TxnIndexCause.NOTHING_OPEN()
        return None

    @property
    def _floor(self) -> int:
        """Return the lowest offset that a broker may remember."""
        return max(self.replay.known_from, self.replay.log_start_offset)

    def _missing(self, txn: Aborted) -> Finding:
        first, last = txn.first_offset, txn.last_offset
        reason = TxnIndexCause.NO_ENTRY(producer_id=txn.producer_id, first=first, last=last)
        return Finding(Kind.TXNINDEX_ENTRY, self.path, reason, first_offset=txn.visible_from, last_offset=last)


# Producer snapshots.


def _verify_snapshot(path: str, offset: int, replay: _Replay) -> Iterator[Finding]:
    entries = yield from _read_snapshot(path)
    if entries is None:
        return
    check = _SnapshotCheck(offset, replay)
    wrong = [why for entry in entries if (why := check.wrong(entry))]
    wrong += check.missing(entries)
    if wrong:
        yield Finding(Kind.SNAPSHOT_CONTENT, path, _joined(wrong))


def _verify_older_snapshot(path: str, offset: int) -> Iterator[Finding]:
    """Judge a snapshot from before the log begins, of which little is known."""
    entries = yield from _read_snapshot(path)
    if wrong := [why for entry in entries or [] if (why := _beyond(entry, offset))]:
        yield Finding(Kind.SNAPSHOT_CONTENT, path, _joined(wrong))


def _verify_snapshot_beyond(path: str, log_end_offset: int, replay: _Replay, *, may_be: bool) -> Iterator[Finding]:
    """Judge a snapshot beyond the end of the log. may_be: it may be right: if a log is cut in a gap of its offsets and
    then closed, it ends at the cut, and the state is that of its last batch."""
    entries = yield from _read_snapshot(path)
    if entries is None:
        return
    check = _SnapshotCheck(log_end_offset, replay)
    wrong = [why for entry in entries if (why := check.wrong(entry))] or check.missing(entries)
    if wrong or not may_be:
        beyond = SnapshotCause.BEYOND(end=log_end_offset)
        reason = SnapshotCause.ALL(wrong=(beyond, *wrong[:1]))
        yield Finding(Kind.SNAPSHOT_STRAY, path, reason, first_offset=log_end_offset)


class _SnapshotCheck:
    """Compares one snapshot with the state of the replay after all batches below its offset."""

    def __init__(self, offset: int, replay: _Replay) -> None:
        self.offset, self.replay = offset, replay
        self._seen: set[int] = set()

    def wrong(self, entry: ProducerStateEntry) -> Reason | None:
        """Return what the log says against an entry."""
        beyond = _beyond(entry, self.offset)
        if beyond or entry.producer_id in self._seen:
            return beyond or SnapshotCause.TWICE(producer_id=entry.producer_id)
        self._seen.add(entry.producer_id)
        match = self.replay.producers.find(entry.producer_id)
        if match is None:
            is_invented = self.replay.is_exact and entry.last_offset >= self.replay.known_from
            invented = SnapshotCause.INVENTED(producer_id=entry.producer_id, last_offset=entry.last_offset)
            return invented if is_invented else None
        known, last_marker = match
        if self.replay.is_exact:
            return next(self._differences(entry, known, last_marker), None)
        if known.has_batch and entry.has_batch and known.last_offset > entry.last_offset:
            return SnapshotCause.BATCH_MISSING(producer_id=entry.producer_id, last_offset=known.last_offset)
        return None

    def missing(self, entries: list[ProducerStateEntry]) -> list[Reason]:
        """Return open transactions that the snapshot lacks; a producer without one may have expired."""
        if not self.replay.is_exact:
            return []
        present = {entry.producer_id for entry in entries}
        return [
            SnapshotCause.TXN_MISSING(producer_id=producer_id, start=first_offset)
            for first_offset, producer_id in self.replay.producers.open_txns()
            if producer_id not in present and first_offset >= self.replay.log_start_offset
        ]

    def _differences(self, entry: ProducerStateEntry, known: ProducerStateEntry, last_marker: int) -> Iterator[Reason]:
        """Yield fields that differ from the log, except those that may come from before the log begins."""
        names = ["producer_epoch", "timestamp"]
        # A producer that had expired, and then only got a marker, has no batch.
        is_only_marked = not entry.has_batch and last_marker > known.last_offset
        if not is_only_marked and (known.has_batch or entry.last_offset >= self.replay.known_from):
            names.append("last_sequence")
            # Up to 1.x a marker counted as a producer's last batch, except for the sequence.
            if entry.offset_delta != 0 or entry.last_offset != last_marker:
                names += ["last_offset", "offset_delta"]
        if entry.coordinator_epoch >= 0 and (known.coordinator_epoch >= 0 or self.replay.known_from == 0):
            names.append("coordinator_epoch")
        if not self._is_older_txn(entry.current_txn_first_offset, known.current_txn_first_offset):
            names.append("current_txn_first_offset")
        for name in names:
            stored, logged = getattr(entry, name), getattr(known, name)
            if stored != logged:
                yield SnapshotCause.DIFFERS(
                    producer_id=entry.producer_id, name=name, stored=str(stored), logged=str(logged)
                )

    def _is_older_txn(self, stored: int | None, logged: int | None) -> bool:
        if stored is not None and stored < self.replay.known_from:
            return True
        return logged is not None and logged < self.replay.log_start_offset


def _beyond(entry: ProducerStateEntry, offset: int) -> Reason | None:
    for name in ("last_offset", "current_txn_first_offset"):
        stored = getattr(entry, name)
        if stored is not None and stored >= offset:
            return SnapshotCause.FIELD_ABOVE(producer_id=entry.producer_id, name=name, stored=stored)
    return None


def _read_snapshot(path: str) -> Generator[Finding, None, list[ProducerStateEntry] | None]:
    """Return its entries, as the value of `yield from`; None if it cannot be read, which is a finding."""
    try:
        return parse_producer_snapshot(read_whole(path, limit=MOST_SIDE_FILE_BYTES), crc32c)
    except Unreadable as error:
        yield Finding(Kind.UNREADABLE, path, from_text(error.reason))
    except KlogError as error:
        yield Finding(Kind.SNAPSHOT_CORRUPT, path, SnapshotCause.UNREADABLE(wrong=error.reason))
    return None


def _joined(wrong: list[Reason]) -> Reason:
    first, more = tuple(wrong[:3]), len(wrong) - 3
    return SnapshotCause.FIRST_FEW(wrong=first, more=more) if more > 0 else SnapshotCause.ALL(wrong=first)


def _first_few(findings: Iterator[Finding], path: str) -> Iterator[Finding]:
    """Yield the first few findings and a summary, because a file of garbage has very many."""
    kept = list(islice(findings, MOST_FINDINGS_OF_A_FILE))
    yield from kept
    more = sum(1 for _ in findings)
    if more:
        yield Finding(kept[0].id, path, FindingCause.MORE(count=more))
