"""Why segments stay after retention: until when, and because of which record. Reads only; the log does not change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from msgspec import UNSET, Struct, UnsetType

from klogtool.broker.causes import KeptCause
from klogtool.broker.draft import Draft
from klogtool.broker.timestamps import duration_text, unit_of
from klogtool.broker.unified_log.index_files import TimeIndex
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.retention import is_tiered, upper_bound_of
from klogtool.broker.unified_log.segment_age import Age, age_by
from klogtool.causes import Reason
from klogtool.errors import KlogError
from klogtool.format.batch import NO_PRODUCER_ID, RecordBatch
from klogtool.format.framing import Frame
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind
from klogtool.log.frames import FrameReader

# Reasons other than time.
EMPTY, HIGH_WATERMARK, POLICY = "active_and_empty", "high_watermark", "policy"
TIERED, UNLIMITED, SIZE = "tiered", "unlimited", "size"
# Reasons of time, by the unit of the timestamp.
YOUNG, FUTURE, BEHIND = "young", "future", "behind"


class HoldingRecord(Struct, frozen=True):
    """The record that retention waits for. offset, producer_id: None if unknown. file_time: true if it is no record,
    but the time of the file."""

    segment: int
    offset: int | None
    producer_id: int | None
    timestamp: int
    file_time: bool | UnsetType = UNSET


class Kept(Struct, frozen=True):
    """A segment that stays. detail: why, with its values. due_ms: when it would be deleted if nothing else changes;
    None: time does not matter. held_by: the record that retention waits for."""

    segment: int
    reason: str
    due_ms: int | None
    held_by: HoldingRecord | None
    detail: Reason


def ages_of(log: LoadedLog) -> dict[int, Age]:
    """Return the age of each segment, by base offset."""
    draft = Draft(log.draft.path, dict(log.draft.files))  # opening an index changes a draft
    ages = {}
    for segment in log.segments.all:
        latest, name = segment.max_timestamp_so_far, segment.name_of(FileKind.TIME_INDEX)
        with suppress(KlogError):  # a broker fails at an index only if it has to read it
            size = segment.config.segment_index_bytes
            latest = latest or TimeIndex(draft, name, segment.base_offset, size).last_entry
        ages[segment.base_offset] = age_by(log, segment, latest)
    return ages


def explain_kept(log: LoadedLog, ages: Mapping[int, Age]) -> Iterator[Kept]:
    """Yield each segment that is left after retention. ages: from before retention."""
    explainer, holder = _Explainer(log), None
    for segment in log.segments.all:
        kept = explainer.without_time(segment)
        if kept is None:
            age = ages[segment.base_offset]
            # A segment is deleted if it is older than retention.ms, not equal.
            due_ms = age.timestamp + log.terms.config.retention_ms + 1
            if holder is not None and due_ms <= (holder.due_ms or MAX_LONG):
                behind = KeptCause.BEHIND(segment=holder.segment)
                kept = Kept(segment.base_offset, BEHIND, holder.due_ms, holder.held_by, behind)
            else:
                holder = kept = explainer.by_time(segment, age, due_ms)
        yield kept


class _Explainer:
    """Reads a copy of the draft, because opening an index changes a draft."""

    def __init__(self, log: LoadedLog) -> None:
        self._log, self._config = log, log.terms.config
        self._draft = Draft(log.draft.path, dict(log.draft.files))
        self._total_bytes = sum(segment.size for segment in log.segments.all)

    def without_time(self, segment: LogSegment) -> Kept | None:
        """Return why a segment stays whatever its age is; None if its age decides."""
        log, config, upper_bound = self._log, self._config, upper_bound_of(self._log, segment)
        if segment is log.segments.last and not segment.size:
            reason, detail = EMPTY, KeptCause.EMPTY()
        elif log.high_watermark < upper_bound:
            detail = KeptCause.HIGH_WATERMARK(reach=upper_bound, high_watermark=log.high_watermark)
            reason = HIGH_WATERMARK
        elif not config.delete:
            reason, detail = POLICY, KeptCause.POLICY(policy=",".join(config.cleanup_policy) or "empty")
        elif is_tiered(log):
            reason, detail = TIERED, KeptCause.TIERED()
        elif config.retention_ms >= 0:
            return None
        elif config.retention_bytes < 0:
            reason, detail = UNLIMITED, KeptCause.UNLIMITED()
        else:
            reason, detail = SIZE, KeptCause.SIZE(size=self._total_bytes)
        return Kept(segment.base_offset, reason, None, None, detail)

    def by_time(self, segment: LogSegment, age: Age, due_ms: int) -> Kept:
        """Return until when it stays."""
        now_ms, unit = self._log.terms.now_ms, unit_of(age.timestamp)
        duration = duration_text(abs(now_ms - age.timestamp))
        if age.timestamp <= now_ms:
            reason = YOUNG
            detail = (KeptCause.FILE_AGO if age.is_file_time else KeptCause.RECORD_AGO)(duration=duration)
        elif unit == "milliseconds":
            reason = FUTURE
            detail = (KeptCause.FILE_AHEAD if age.is_file_time else KeptCause.RECORD_AHEAD)(duration=duration)
        else:
            reason, detail = unit, KeptCause.OTHER_UNIT(timestamp=age.timestamp, unit=unit)
        return Kept(age.segment, reason, due_ms if due_ms <= MAX_LONG else None, self._holder(segment, age), detail)

    def _holder(self, segment: LogSegment, age: Age) -> HoldingRecord:
        """Return the record with the largest timestamp; if it is not found, the entry of the time index."""
        if age.offset is None:
            return HoldingRecord(age.segment, None, None, age.timestamp, True)
        try:
            record = self._find_record(segment, age.offset, age.timestamp)
        except KlogError:  # neither retention nor Kafka cares about damage further on
            record = None
        offset, producer_id = record or (age.offset, None)
        return HoldingRecord(age.segment, offset, producer_id, age.timestamp)

    def _find_record(self, segment: LogSegment, offset: int, timestamp: int) -> tuple[int, int] | None:
        """Return offset and producer id of the first record with the timestamp, in the batch that contains the
        offset."""
        looked_at = LogSegment(self._draft, segment.base_offset, segment.config)
        position = looked_at.translate_offset(offset)
        if position is None:
            return None
        with looked_at.open_log() as file:
            reader = FrameReader(file)
            frame = reader.find(position.position, file.size)
            if not isinstance(frame, Frame):
                return None
            entry = reader.read(frame)
            producer_id = entry.producer_id if isinstance(entry, RecordBatch) else NO_PRODUCER_ID
            return next(((r.offset, producer_id) for r in entry.records() if r.timestamp == timestamp), None)
