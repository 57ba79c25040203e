"""What a recovery did, in words: the answer, what became of each segment and why, and what else there is to say."""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.errors import KlogError
from klogtool.format.names import FileKind, parse_file_name
from klogtool.repair.lost_offsets import find_lost_offsets
from klogtool.repair.plan import SegmentVerdict
from klogtool.repair.unified_log.content_file import ContentFile
from klogtool.repair.unified_log.loading import LoadedLog
from klogtool.repair.unified_log.segment import LogSegment
from klogtool.repair.unified_log.split import DELETED, SWAP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SIDE_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
_CHUNK_BYTES = 1 << 20


def recovery_answer(log: LoadedLog) -> dict[str, Any]:
    """The contract's answer; beside it `loses_records`: whether anything but zeros goes, and `lost`: which offsets."""
    report = log.report
    truncated = [cut for segment in log.segments.all if (cut := _cut_of(log, segment)) is not None]
    loses_records = _deletes_records(log) or any(not _is_zeros(log, cut) for cut in truncated)
    lost = find_lost_offsets(log.draft, log.log_end_offset) if loses_records else None
    return {
        "recovered": report.recovered,
        "truncated": truncated,
        "deleted_segments": report.deleted_segments,
        "split": report.was_split,
        "rebuilt": _rebuilt(log),
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "loses_records": loses_records,
        "lost": None if lost is None else {"first_offset": lost[0], "last_offset": lost[1]},
    }


def losses_of_loading(log: LoadedLog) -> dict[str, Any] | None:
    """What a log lost as it was loaded: `truncated`, `deleted_segments` and `lost` of the answer; None if no record
    went. To be asked before anything else is done to the log."""
    if not (log.report.recovered or log.report.deleted_segments):
        return None
    answer = recovery_answer(log)
    if not answer["loses_records"]:
        return None
    return {
        "truncated": answer["truncated"],
        "deleted_segments": list(answer["deleted_segments"]),
        "lost": answer["lost"],
    }


def recovery_verdicts(log: LoadedLog) -> tuple[SegmentVerdict, ...]:
    """What becomes of each segment, by base offset."""
    found = {base: SegmentVerdict(base, "delete", _why_deleted(log)) for base in log.report.deleted_segments}
    found |= {segment.base_offset: _verdict(log, segment) for segment in log.segments.all}
    return tuple(found[base] for base in sorted(found))


def recovery_notes(log: LoadedLog) -> Iterator[str]:
    """What was done about leftovers."""
    report = log.report
    if report.removed:
        yield f"{len(report.removed)} files that an interrupted operation left are removed"
    if report.swapped:
        yield f"an interrupted swap is completed: {len(report.swapped)} files get their names"
    if report.replaced:
        yield f"{len(report.replaced)} files of segments that it stands for are removed"
    if report.was_split:
        yield "a segment whose offsets do not fit its indexes is split"


def _verdict(log: LoadedLog, segment: LogSegment) -> SegmentVerdict:
    base, report = segment.base_offset, log.report
    cut = _cut_of(log, segment)
    if _size_before(log, segment) is None:
        why = "split off from another segment" if report.was_split and segment.size else "the log needs one"
        return SegmentVerdict(base, "create", why)
    if cut is not None:
        action = "empty" if base in report.emptied else "truncate"
        return SegmentVerdict(base, action, cut["reason"] or "the bytes behind the last batch are no whole batch", cut)
    if base in report.recovered:
        return SegmentVerdict(base, "recover", "sound; its side files are made anew")
    if any(name.startswith(segment.log_name) for name in report.swapped):
        return SegmentVerdict(base, "swap", "an interrupted swap is completed")
    why = "the last stop was clean" if log.terms.is_clean else "below the recovery point"
    return SegmentVerdict(base, "keep", why)


def _why_deleted(log: LoadedLog) -> str:
    cut = next((segment.base_offset for segment in log.segments.all if _cut_of(log, segment) is not None), None)
    if cut is None:
        return f"the log ends below its start offset {log.terms.log_start_offset}"
    return f"behind the cut in segment {cut}"


def _cut_of(log: LoadedLog, segment: LogSegment) -> dict[str, Any] | None:
    """A row of `truncated`. After a split sizes tell nothing."""
    before = _size_before(log, segment)
    if before is None or segment.size >= before or log.report.was_split:
        return None
    return {
        "segment": segment.base_offset,
        "position": segment.size,
        "bytes": before - segment.size,
        "reason": _reason(log, segment.base_offset),
    }


def _reason(log: LoadedLog, base_offset: int) -> str | None:
    if base_offset in log.report.emptied:
        return "an offset at an index entry is not above the one before: the whole segment is given up"
    stopped_by: KlogError | None = log.report.stopped_by.get(base_offset)
    return None if stopped_by is None else stopped_by.reason


def _name_before(log: LoadedLog, segment: LogSegment) -> str | None:
    """The name that its `.log` had: that of a swap, if there is one."""
    names = (segment.log_name + SWAP, segment.log_name)
    return next((name for name in names if name in log.draft.before), None)


def _size_before(log: LoadedLog, segment: LogSegment) -> int | None:
    name = _name_before(log, segment)
    return None if name is None else log.draft.before[name].size


def _rebuilt(log: LoadedLog) -> list[str]:
    """Names of side files of recovered segments that are new, or other than they were."""
    changed = (parse_file_name(name) for name in sorted(log.draft.changed()) if name in log.draft)
    recovered = set(log.report.recovered)
    return [
        file.name for file in changed if file.kind in _SIDE_KINDS and not file.suffix and file.base_offset in recovered
    ]


def _deletes_records(log: LoadedLog) -> bool:
    deleted = (name for name in log.draft.files if name.endswith(FileKind.LOG.value + DELETED))
    return bool(log.report.deleted_segments) and any(log.draft.size(name) for name in deleted)


def _is_zeros(log: LoadedLog, cut: dict[str, Any]) -> bool:
    """Whether what is cut off is nothing but zeros, as a preallocated file has them."""
    segment = log.segments[cut["segment"]]
    name = _name_before(log, segment)
    content = log.draft.before[name].content if name else ()
    with ContentFile(segment.path, content) as file:
        for position in range(cut["position"], file.size, _CHUNK_BYTES):
            if any(file.read(position, _CHUNK_BYTES)):
                return False
    return True
