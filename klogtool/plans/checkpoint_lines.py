"""What a log dir's own checkpoints should say of partitions that were written to: what a clean stop would write.

A line that fits the log stays, and so do all lines of other partitions. A missing file is not created, with two
exceptions: the checkpoint of log starts, without which a moved start is forgotten, and that of first dirty offsets if
something was cleaned. If a log start becomes lower, its line is written before the log is cut: a broker throws away the
whole log if it ends below its line. All other lines are written after the log: a recovery point that is ahead of the
log would vouch for bytes that do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from klogtool.broker.circumstances import Offsets
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import file_fact
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.causes import Reason
from klogtool.errors import Corrupt, Unsupported
from klogtool.format.checkpoints import build_offset_checkpoint, parse_offset_checkpoint
from klogtool.format.names import METADATA_TOPIC, FileKind, TopicPartition
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.plans.causes import PlanNote
from klogtool.plans.plan import Plan, Write
from klogtool.plans.question import Question

_RECOVERY_POINTS, _LOG_STARTS = FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT
_HIGH_WATERMARKS, _FIRST_DIRTY = FileKind.REPLICATION_CHECKPOINT, FileKind.CLEANER_CHECKPOINT


class CheckpointLines(Struct, frozen=True):
    """What the log dir should record of a partition. log_start_checkpoint: None if it needs no line.

    first_dirty_at_most: cleaning must begin at this offset or before it; None: unchanged. first_dirty: where cleaning
    begins next; None: nothing was cleaned.
    """

    topic_partition: TopicPartition
    log_start_offset: int
    log_end_offset: int
    log_start_checkpoint: int | None
    first_dirty_at_most: int | None = None
    first_dirty: int | None = None


def lines_of(
    log: LoadedLog, first_dirty_at_most: int | None = None, first_dirty: int | None = None
) -> CheckpointLines | None:
    """Return the lines for a log after all changes; None if the log has no name of a partition, so no checkpoint has
    it."""
    name = find_partition_dir_name(own_name(log.draft.path))
    if name is None or not name.state.is_live or name.topic == METADATA_TOPIC:
        return None
    end, start = end_at_next_start(log), log.log_start_checkpoint
    if start is not None:  # a start beyond the end deletes every segment (LogLoader.recoverLog)
        start = min(start, end)
    return CheckpointLines(
        TopicPartition(name.topic, name.partition).in_checkpoints,
        log.log_start_offset,
        end,
        start,
        first_dirty_at_most,
        first_dirty,
    )


def end_at_next_start(log: LoadedLog) -> int:
    """Return the offset after the last batch. A log that was cut inside a batch ends at the cut only while a broker
    runs. (Kafka's recovery point is that cut. After a restart it would stand for records that no longer exist, as after
    a loss.)"""
    last = log.segments.last
    if log.log_end_offset <= last.base_offset:
        return log.log_end_offset
    try:
        return min(log.log_end_offset, last.read_next_offset())
    except (Corrupt, Unsupported):  # the next start reports it
        return log.log_end_offset


def plan_checkpoints(
    command: str,
    log_dir: str,
    question: Question,
    partitions: Sequence[CheckpointLines],
    *,
    is_path: bool = False,
) -> tuple[Plan | None, Plan | None]:
    """Plan the changes of the log dir's files: those before the partitions are written, and those after. None: no
    change.

    is_path: the command is about the log dir itself, not about one partition in it. A file that cannot be read is not
    changed, and a note says so.
    """
    draft = Draft.of(log_dir)
    notes: list[Reason] = [] if is_path else [PlanNote.STATE_ONLY_IN_PLACE()]
    changed = {
        kind: offsets for kind in _NEW_LINES if (offsets := _changed(draft, kind, partitions, notes)) is not None
    }
    comes_down = _LOG_STARTS in changed and _comes_down(_read(draft, _LOG_STARTS), partitions)
    first = {_LOG_STARTS: changed.pop(_LOG_STARTS)} if comes_down else {}
    before, after = (_plan(command, draft, question, contents, notes) for contents in (first, changed))
    return before, after


def _plan(
    command: str, draft: Draft, question: Question, changed: Mapping[FileKind, Offsets], notes: Sequence[Reason]
) -> Plan | None:
    if not changed:
        return None
    facts = (file_fact(kind.value, draft.files[kind.value]) for kind in changed if kind.value in draft)
    steps = (Write(kind.value, (build_offset_checkpoint(offsets),)) for kind, offsets in changed.items())
    changes = (line for kind, offsets in changed.items() for line in _told(draft, kind, offsets))
    return Plan(command, draft.path, question, tuple(facts), tuple(steps), (), None, (*changes, *notes))


def _told(draft: Draft, kind: FileKind, offsets: Offsets) -> Iterator[Reason]:
    before = _read(draft, kind)
    for key in {**before, **offsets}:
        old, new = before.get(key, "none"), offsets.get(key, "none")
        if old != new:
            yield PlanNote.LINE(file=kind.value, topic=key.topic, partition=key.partition, old=old, new=new)


def _read(draft: Draft, kind: FileKind) -> Offsets:
    return parse_offset_checkpoint(draft.read(kind.value)) if kind.value in draft else {}


def _changed(
    draft: Draft, kind: FileKind, partitions: Sequence[CheckpointLines], notes: list[Reason]
) -> Offsets | None:
    """Return the new lines of a checkpoint; None if they do not change, or the file cannot be read."""
    try:
        before = _read(draft, kind)
    except Corrupt as error:
        notes.append(PlanNote.FILE_STAYS(file=kind.value, error=error.reason))
        return None
    is_made = kind is _LOG_STARTS or (
        kind is _FIRST_DIRTY and any(lines.first_dirty is not None for lines in partitions)
    )
    if kind.value not in draft and not is_made:
        return None
    offsets = dict(before)
    for lines in partitions:
        wanted = _NEW_LINES[kind](lines, before.get(lines.topic_partition))
        if wanted is None:
            offsets.pop(lines.topic_partition, None)
        else:
            offsets[lines.topic_partition] = wanted
    return None if offsets == before else offsets


def _comes_down(before: Offsets, partitions: Sequence[CheckpointLines]) -> bool:
    """Return whether a log begins below its line. A line that is removed because the log begins above it does not
    count."""
    return any(lines.log_start_offset < before.get(lines.topic_partition, 0) for lines in partitions)


def _high_watermark(lines: CheckpointLines, before: int | None) -> int | None:
    return None if before is None else min(max(before, lines.log_start_offset), lines.log_end_offset)


def _first_dirty(lines: CheckpointLines, before: int | None) -> int | None:
    """Return the first dirty offset for the checkpoint: LogCleanerManager.updateCheckpoints, maybeTruncateCheckpoint.
    With a line beyond the log's end, the cleaner would skip what is appended next, and the cleaner resets such a line
    to the log's beginning. So such a line is removed."""
    if lines.first_dirty is not None:
        return lines.first_dirty
    if before is None:
        return None
    return min(before, lines.log_end_offset if lines.first_dirty_at_most is None else lines.first_dirty_at_most)


_NEW_LINES: dict[FileKind, Callable[[CheckpointLines, int | None], int | None]] = {
    _LOG_STARTS: lambda lines, _: lines.log_start_checkpoint,
    _RECOVERY_POINTS: lambda lines, _: lines.log_end_offset,
    _HIGH_WATERMARKS: _high_watermark,
    _FIRST_DIRTY: _first_dirty,
}
