"""leader-epoch-checkpoint, held against the leader epochs that the batches themselves carry."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.errors import KlogError
from klogtool.format.checkpoints import EpochEntry, assign_leader_epochs, parse_leader_epoch_checkpoint
from klogtool.format.names import FileKind
from klogtool.lazy_dataclasses import dataclass, replace
from klogtool.log.file import Unreadable, read_whole
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.repair.findings import Finding
from klogtool.repair.verifying.cures import rebuild_index
from klogtool.repair.verifying.names import Layout


@dataclass(frozen=True, slots=True)
class EpochRun:
    """Batches that follow each other and carry the same leader epoch: the first offset of the first, the last of the
    last."""

    epoch: int
    first_offset: int
    last_offset: int


def verify_epochs(
    layout: Layout, runs: Sequence[EpochRun], log_start_offset: int, log_end_offset: int | None
) -> Iterator[Finding]:
    """Findings of leader-epoch-checkpoint.

    runs: all of the log, in order. Offsets below log_start_offset are no reader's any more, and a broker has
    forgotten their epochs. log_end_offset: None if it is not known for certain: after a log was cut in a gap of its
    offsets it is higher than its batches say, until the next start.
    """
    name = FileKind.LEADER_EPOCH_CHECKPOINT.value
    path, cure = layout.path_of(name), rebuild_index(layout.path, name)
    told = _believable(_remembered(runs))
    if layout.find(FileKind.LEADER_EPOCH_CHECKPOINT) is None:
        if told and not _is_beside(layout):
            detail = f"the log has {_epochs(told)}; followers cannot find where theirs diverges"
            yield Finding("epochs-missing", path, detail, cure=cure)
        return
    try:
        lines = parse_leader_epoch_checkpoint(read_whole(path, limit=MOST_TEXT_BYTES))
        cache = LeaderEpochFileCache(lines)
    except Unreadable as error:
        yield Finding("unreadable", path, error.reason)
        return
    except KlogError as error:
        what = "takes the log dir offline" if error.kafka_class == "KafkaStorageException" else "does not start"
        yield Finding("epochs-corrupt", path, f"{error.reason}: a broker {what} ({error.kafka_class})", cure=cure)
        return
    wrong = _wrong(lines, cache, told, log_start_offset, log_end_offset)
    if wrong is not None:
        yield Finding("epochs-content", path, wrong, cure=cure)


def _is_beside(layout: Layout) -> bool:
    """Whether it could not be read, or is no file, which has been told."""
    return os.path.lexists(layout.path_of(FileKind.LEADER_EPOCH_CHECKPOINT.value))


def _wrong(
    lines: list[EpochEntry],
    cache: LeaderEpochFileCache,
    told: list[EpochRun],
    log_start_offset: int,
    log_end_offset: int | None,
) -> str | None:
    if assign_leader_epochs(lines) != lines:
        return "epochs or their start offsets do not ascend: of lines that contradict each other the later one counts"
    if log_end_offset is not None and cache.entries and cache.entries[-1].start_offset > log_end_offset:
        last = cache.entries[-1]
        return f"epoch {last.epoch} begins at {last.start_offset}, but the log ends at {log_end_offset}"
    for run in (run for run in told if run.last_offset >= log_start_offset):
        for offset in (max(run.first_offset, log_start_offset), run.last_offset):
            stored = cache.epoch_for_offset(offset)
            if stored != run.epoch:
                by_file = "unknown" if stored is None else str(stored)
                return f"the epoch of offset {offset} is {run.epoch} by the log, {by_file} by this file"
    return None


def _remembered(runs: Sequence[EpochRun]) -> list[EpochRun]:
    """Without those before a message of an old format, which makes a broker forget all epochs."""
    forgotten = max((n for n, run in enumerate(runs) if run.epoch < 0), default=-1)
    return list(runs[forgotten + 1 :])


def _believable(runs: list[EpochRun]) -> list[EpochRun]:
    """Without the runs that stand out of their neighbours: a damaged epoch, which the scan tells of."""
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


def _epochs(told: list[EpochRun]) -> str:
    first, last = told[0].epoch, told[-1].epoch
    return f"leader epoch {first}" if first == last else f"leader epochs {first} to {last}"
