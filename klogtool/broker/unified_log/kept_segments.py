"""Why segments stay after retention: until when, and because of which record. Reads only; the log does not change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from msgspec import UNSET, Struct, UnsetType

from klogtool.broker.draft import Draft
from klogtool.broker.timestamps import duration_text, unit_of
from klogtool.broker.unified_log.index_files import TimeIndex
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.retention import is_tiered, upper_bound_of
from klogtool.broker.unified_log.segment_age import Age, age_by
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
    """A segment that stays. detail: the reason in words. due_ms: when it would be deleted if nothing else changes;
    None: time does not matter. held_by: the record that retention waits for."""

    segment: int
    reason: str
    due_ms: int | None
    held_by: HoldingRecord | None
    detail: str


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
            due_ms = (
                age.timestamp + log.terms.config.retention_ms + 1
            )  # a segment is deleted if it is older than retention.ms, not equal
            if holder is not None and due_ms <= (holder.due_ms or MAX_LONG):
                detail = f"after segment {holder.segment}, which stays, because a log has no holes"
                kept = Kept(segment.base_offset, BEHIND, holder.due_ms, holder.held_by, detail)
            else:
                holder = kept = explainer.by_time(segment, age, due_ms)
        yield kept


def _regardless(segment: int, reason: str, detail: str) -> Kept:
    """Return that a segment stays whatever its age is."""
    return Kept(segment, reason, None, None, detail)


class _Explainer:
    """Reads a copy of the draft, because opening an index changes a draft."""

    def __init__(self, log: LoadedLog) -> None:
        self._log, self._config = log, log.terms.config
        self._draft = Draft(log.draft.path, dict(log.draft.files))
        self._total_bytes = sum(segment.size for segment in log.segments.all)

    def without_time(self, segment: LogSegment) -> Kept | None:
        """Return why a segment stays whatever its age is; None if its age decides."""
        log, config, base = self._log, self._config, segment.base_offset
        upper_bound = upper_bound_of(log, segment)
        if segment is log.segments.last and not segment.size:
            return _regardless(base, EMPTY, "active and empty: a log always has a segment")
        if log.high_watermark < upper_bound:
            detail = f"reaches up to offset {upper_bound:,}, the high watermark is {log.high_watermark:,}"
            return _regardless(base, HIGH_WATERMARK, detail)
        if not config.delete:
            policy = ",".join(config.cleanup_policy) or "empty"
            return _regardless(
                base, POLICY, f"cleanup.policy is {policy}: only segments below the log start offset are deleted"
            )
        if is_tiered(log):
            return _regardless(base, TIERED, "tiered: only a broker knows whether it is in remote storage")
        if config.retention_ms >= 0:
            return None
        if config.retention_bytes < 0:
            return _regardless(base, UNLIMITED, "neither retention.ms nor retention.bytes sets a limit")
        return _regardless(
            base,
            SIZE,
            f"the log has {self._total_bytes:,} bytes; without this segment it would have less than retention.bytes",
        )

    def by_time(self, segment: LogSegment, age: Age, due_ms: int) -> Kept:
        """Return until when it stays."""
        now_ms, unit = self._log.terms.now_ms, unit_of(age.timestamp)
        reason = YOUNG if age.timestamp <= now_ms else FUTURE if unit == "milliseconds" else unit
        what = "the file was last written" if age.is_file_time else "the newest record is"
        details = {
            YOUNG: f"{what} {duration_text(now_ms - age.timestamp)} ago",
            FUTURE: f"{what} {duration_text(age.timestamp - now_ms)} in the future",
        }
        detail = details.get(reason, f"the largest timestamp, {age.timestamp}, is in {unit}, as its size shows")
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
