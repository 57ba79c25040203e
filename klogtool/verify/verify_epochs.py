"""Compares leader-epoch-checkpoint with the leader epochs in the batches."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from msgspec.structs import replace

from klogtool.causes import Reason, from_text
from klogtool.errors import KlogError
from klogtool.format.checkpoints import EpochEntry, assign_leader_epochs, parse_leader_epoch_checkpoint
from klogtool.format.names import FileKind
from klogtool.log.file import Unreadable, read_whole
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.log.segment import Segment
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.verify.causes import EpochCause
from klogtool.verify.epoch_order import wrong_epochs
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.segment_report import EpochRun, SegmentReport
from klogtool.verify.stops import reason_of_stop, stop_of
from klogtool.verify.verify_names import Layout

IMPOSSIBLE = -2  # an epoch that no batch can have


def read_epochs(path: str) -> list[EpochEntry] | Finding:
    """Return the lines of the file, or the finding that says what is wrong with it."""
    try:
        lines = parse_leader_epoch_checkpoint(read_whole(path, limit=MOST_TEXT_BYTES))
        assign_leader_epochs(lines)
        return lines
    except Unreadable as error:
        return Finding(Kind.UNREADABLE, path, from_text(error.reason))
    except KlogError as error:
        return Finding(Kind.EPOCHS_CORRUPT, path, reason_of_stop(error), stop=stop_of(error))


def verify_epochs(
    layout: Layout, reports: Sequence[SegmentReport], log_start_offset: int, log_end_offset: int | None
) -> Iterator[Finding]:
    """Yield findings of leader-epoch-checkpoint, and of batches whose leader epoch contradicts their neighbours or this
    file.

    reports: of all segments, in order. Readers do not get offsets below log_start_offset, and a broker has forgotten
    their epochs. log_end_offset: None if uncertain: after a log was cut in a gap of its offsets, it is higher than its
    batches show, until the next start.
    """
    lines = yield from _read(layout)
    cache = LeaderEpochFileCache(lines or ())
    runs = yield from _verify_fields(reports, cache)
    believed = _believable(_remembered(_without_doubt(runs, reports)))
    path = layout.path_of(FileKind.LEADER_EPOCH_CHECKPOINT.value)
    if lines is not None:
        wrong = _wrong_lines(lines, log_end_offset) or _wrong_epoch(believed, cache, reports, log_start_offset)
        if wrong is not None:
            yield Finding(Kind.EPOCHS_CONTENT, path, wrong)
    elif believed and FileKind.LEADER_EPOCH_CHECKPOINT.value not in layout.present:
        yield Finding(Kind.EPOCHS_MISSING, path, EpochCause.MISSING(epochs=_epochs(believed)))


def _read(layout: Layout) -> Generator[Finding, None, list[EpochEntry] | None]:
    """Return the lines of the file, as the value of `yield from`; None if it is missing or cannot be read."""
    path = layout.find(FileKind.LEADER_EPOCH_CHECKPOINT)
    if path is None:
        return None
    lines = read_epochs(path)
    if isinstance(lines, Finding):
        yield lines
        return None
    return lines


def _verify_fields(
    reports: Sequence[SegmentReport], known: LeaderEpochFileCache
) -> Generator[Finding, None, list[EpochRun]]:
    """Yield a finding for each batch with a wrong epoch; the runs with the right ones are the value of `yield from`.

    Epochs that the scans of the segments have reported are not reported again.
    """
    false = {(report.path, position) for report in reports for position, _, _ in report.false_epochs}
    placed = [
        (report, replace(run, epoch=IMPOSSIBLE) if (report.path, run.position) in false else run)
        for report in reports
        for run in report.epochs
    ]
    sound: list[EpochRun | None] = [run for _, run in placed]
    numbers = [n for n, (_, run) in enumerate(placed) if run.magic >= 2]
    for n, right in wrong_epochs([placed[n][1] for n in numbers], known).items():
        report, run = placed[numbers[n]]
        why = EpochCause.NO_FIT() if right is None else EpochCause.OTHERS_SAY(epoch=right)
        if (report.path, run.position) not in false:
            yield _wrong_field(run, report.path, why)
        sound[numbers[n]] = None if right is None else replace(run, epoch=right)
    return [run for run in sound if run is not None]


def _without_doubt(runs: Sequence[EpochRun], reports: Sequence[SegmentReport]) -> list[EpochRun]:
    """Return the runs without batches at their ends whose epoch was reported as false: they may belong to another
    run."""
    by_first = {first: last for report in reports for _, first, last in report.false_epochs if first <= last}
    by_last = {last: first for first, last in by_first.items()}
    sound = []
    for run in runs:
        first, last = run.first_offset, run.last_offset
        while first in by_first:
            first = by_first[first] + 1
        while last in by_last:
            last = by_last[last] - 1
        if first <= last:
            sound.append(replace(run, first_offset=first, last_offset=last))
    return sound


def _wrong_field(run: EpochRun, path: str, why: Reason) -> Finding:
    return Finding(
        Kind.BATCH_HEADER,
        path,
        EpochCause.WRONG(epoch=run.epoch, why=why),
        run.position,
        _end_of(path, run.position),
        run.first_offset,
        run.last_offset,
        "partition_leader_epoch",
    )


def _end_of(path: str, position: int) -> int | None:
    """Return the byte after the batch that begins at a position."""
    try:
        batch = next(Segment(path).batches(position), None)
    except KlogError:
        return None
    return None if batch is None else batch.position + batch.size


def _wrong_lines(lines: list[EpochEntry], log_end_offset: int | None) -> Reason | None:
    entries = assign_leader_epochs(lines)
    if entries != lines:
        return EpochCause.NOT_ASCENDING()
    if log_end_offset is not None and entries and entries[-1].start_offset > log_end_offset:
        last = entries[-1]
        return EpochCause.BEYOND_END(epoch=last.epoch, start=last.start_offset, end=log_end_offset)
    return None


def _wrong_epoch(
    believed: list[EpochRun], cache: LeaderEpochFileCache, reports: Sequence[SegmentReport], log_start_offset: int
) -> Reason | None:
    """Batches are searched only if the epoch of the log start seems wrong: it may be in a gap."""
    if next(_wrong_epochs(believed, cache, log_start_offset), None) is None:
        return None
    return next(_wrong_epochs(believed, cache, _first_kept(reports, log_start_offset)), None)


def _wrong_epochs(believed: Sequence[EpochRun], cache: LeaderEpochFileCache, first: int) -> Iterator[Reason]:
    for run in (run for run in believed if run.last_offset >= first):
        for offset in (max(run.first_offset, first), run.last_offset):
            stored = cache.epoch_for_offset(offset)
            if stored != run.epoch:
                by_file = EpochCause.UNKNOWN() if stored is None else stored
                yield EpochCause.OTHER_IN_LOG(offset=offset, epoch=run.epoch, by_file=by_file)


def _first_kept(reports: Sequence[SegmentReport], log_start_offset: int) -> int:
    """Return the first offset of a batch from the log start on. A gap may be between: if all records are deleted, a
    broker forgets the epoch, and learns it again from the next appended batch (LeaderEpochFileCache.assign)."""
    holder = next((report for report in reports if report.next_offset > log_start_offset), None)
    if holder is None or holder.first_offset is None:
        return log_start_offset
    try:
        for batch in Segment(holder.path).batches():
            if batch.last_offset >= log_start_offset:
                return max(batch.base_offset or 0, log_start_offset)
    except KlogError:
        pass  # the scan reports the damage
    return log_start_offset


def _remembered(runs: Sequence[EpochRun]) -> list[EpochRun]:
    """Return the runs after the last message of an old format, which makes a broker forget all epochs."""
    forgotten = max((n for n, run in enumerate(runs) if run.epoch < 0), default=-1)
    return list(runs[forgotten + 1 :])


def _believable(runs: list[EpochRun]) -> list[EpochRun]:
    """Return the runs without those that do not fit their neighbours: a damaged epoch, which the scan reports."""
    kept: list[EpochRun] = []
    for n, run in enumerate(runs):
        later = runs[n + 1].epoch if n + 1 < len(runs) else run.epoch
        is_peak = run.epoch > later and (not kept or kept[-1].epoch <= later)
        if is_peak or (kept and run.epoch < kept[-1].epoch):
            continue
        if kept and kept[-1].epoch == run.epoch:
            kept[-1] = replace(kept[-1], last_offset=run.last_offset)
        else:
            kept.append(run)
    return kept


def _epochs(runs: list[EpochRun]) -> Reason:
    first, last = runs[0].epoch, runs[-1].epoch
    return EpochCause.ONE(epoch=first) if first == last else EpochCause.FROM_TO(first=first, last=last)
