"""What a start makes of false side files that it believes: it fails where an index leads into the middle of a batch,
or takes a log for shorter than it is.

After a clean stop it believes all of them; after a kill, those of the segments below the recovery point.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints, Circumstances, terms_of
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.errors import Corrupt, KlogError, Refused, Unsupported
from klogtool.format.names import parse_file_name
from klogtool.log.file import Unreadable
from klogtool.verify.causes import CheckpointCause, FindingCause, IndexCause
from klogtool.verify.cures import rebuild_index
from klogtool.verify.false_offset_index import find_misled
from klogtool.verify.findings import Area, Cure, Finding, Kind, Severity
from klogtool.verify.stops import reason_of_stop, stop_of

_BELIEVED = (Area.INDEXES, Area.SNAPSHOTS)


def weigh_believed(
    findings: Sequence[Finding],
    path: str,
    circumstances: Circumstances,
    beside: Checkpoints,
    *,
    recovered_from: int,
    end_offset: int,
) -> list[Finding]:
    """Return the findings of a partition dir; one of a side file says that a start ends at it, if one does. One more
    says that a start does not see the log's end.

    recovered_from: the start reads segments anew from this offset on. end_offset: after the last sound batch. Raises
    Unreadable of a file that no finding tells.
    """
    if not any(each.id.row.area in _BELIEVED and (_base_of(each.path) or 0) < recovered_from for each in findings):
        return [*findings]
    try:
        terms = terms_of(path, circumstances, checkpoints=beside)
    except KlogError:  # of the log dir, which is told there
        return [*findings]
    try:
        log = LoadedLog(Draft.of(path), terms)
    except Unreadable as error:
        if any(each.path == error.path and each.severity is Severity.ERROR for each in findings):
            return [*findings]
        raise
    except (Corrupt, Refused, Unsupported) as error:
        at = _place_of(error, findings)
        return [*findings] if at is None else [*findings[:at], _stopping(findings[at], error), *findings[at + 1 :]]
    return [*_misleading(findings, log), *_ends_early(findings, log, end_offset)]


def _stopping(finding: Finding, error: KlogError) -> Finding:
    reason = FindingCause.STOPPED(found=finding.reason, stop=reason_of_stop(error))
    return replace(finding, reason=reason, stop=stop_of(error))


def _misleading(findings: Sequence[Finding], log: LoadedLog) -> Iterator[Finding]:
    """Yield the findings. That of an index says from which offset on consumers do not get all, if that is the first one
    of its segment, or the log start: a fetch walks on from where its entry leads (LogSegment.translateOffset)."""
    for finding in findings:
        base = _base_of(finding.path) if finding.id is Kind.INDEX_ENTRY else None
        segment = None if base is None or base in log.report.recovered else log.segments.floor(base)
        misled_at = None if segment is None or segment.base_offset != base else find_misled(log, segment)
        if misled_at is None:
            yield finding
        else:
            reason = IndexCause.READERS_MISS(found=finding.reason, offset=misled_at)
            yield replace(finding, reason=reason, loses=True)


def _ends_early(findings: Sequence[Finding], log: LoadedLog, end_offset: int) -> Iterator[Finding]:
    """Yield a finding if the last segment's index makes the log end too early (LogSegment.readNextOffset)."""
    last, end = log.segments.last, log.log_end_offset
    is_false = any(
        each.id.row.cure is Cure.OFFSET_INDEX and _base_of(each.path) == last.base_offset for each in findings
    )
    if is_false and end < end_offset:
        cure = rebuild_index(log.draft.path, Cure.OFFSET_INDEX.value, last.base_offset)
        reason = CheckpointCause.INDEX_ENDS_EARLY(end=end, last=end_offset - 1)
        yield Finding(Kind.CLEAN_MARKER_FALSE, last.path, reason, None, None, end, end_offset - 1, cured_by=cure)


def _place_of(error: KlogError, findings: Sequence[Finding]) -> int | None:
    """Return the number of the finding that explains an error of the load; None if another one tells it already."""
    of_segment = [n for n, finding in enumerate(findings) if _base_of(finding.path) == _base_of(error.path or "")]
    own = (findings[n] for n in of_segment)
    if any(each.stop is not None or (each.path == error.path and each.severity is Severity.ERROR) for each in own):
        return None
    return next((n for n in of_segment if findings[n].id.row.area in _BELIEVED), None)


def _base_of(path: str) -> int | None:
    return parse_file_name(os.path.basename(path)).base_offset
