"""Offsets before the first segment of a log that only leader-epoch-checkpoint shows.

Retention that deletes segments removes their epochs, too, but later (UnifiedLog.maybeIncrementLogStartOffset): until
then the segments lie there as `.deleted` files. Somebody who removes files leaves the epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from klogtool.broker.circumstances import Checkpoints, Circumstances, LoadTerms, terms_of
from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft, DraftFile
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.errors import KlogError
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint
from klogtool.format.names import FileKind
from klogtool.log.offset_ranges import Offsets
from klogtool.verify.causes import PartitionCause
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.only_copies import HIGHEST
from klogtool.verify.segment_report import SegmentReport
from klogtool.verify.swaps import offsets_in_log

EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value


def find_lost_start(files: Mapping[str, DraftFile], terms: LoadTerms, last: int) -> list[tuple[int, int]]:
    """Return the offsets from the first leader epoch, or the log start, to `last` that no `.deleted` log has; none if
    remote storage or a cleaning may explain them, or a file cannot be read."""
    is_explained = _is_tiered(terms) or terms.compaction is not None
    if EPOCHS not in files or is_explained or terms.log_start_offset > last:
        return []
    try:
        epochs = parse_leader_epoch_checkpoint(read_content(files[EPOCHS].content))
        first = max(terms.log_start_offset, min((each.start_offset for each in epochs), default=HIGHEST))
        deleted = Offsets()
        for name in files if first <= last else ():
            if name.endswith(f"{FileKind.LOG.value}{DELETED}"):
                deleted.add_all(offsets_in_log(files[name].content).all)
    except KlogError:
        return []
    return list(deleted.holes(first, last)) if first <= last else []


def _is_tiered(terms: LoadTerms) -> bool:
    """Return whether the first records may be in remote storage. A log start has a line in its checkpoint if it is
    above the first segment, or the topic is tiered (LogManager.checkpointLogStartOffsetsInDir): 0 is above none."""
    by_line = terms.is_tiered is None and (terms.has_remote_storage or terms.log_start_offset == 0)
    return bool(terms.is_tiered) or terms.config.remote_storage_enable or by_line


def walk_lost_start(
    path: str, reports: Sequence[SegmentReport], circumstances: Circumstances, beside: Checkpoints
) -> Iterator[Finding]:
    """Yield findings of what a partition dir lacks before its first segment. reports: of all segments."""
    if not reports or not reports[0].begins:
        return
    with suppress(KlogError):  # of the log dir, which is told there
        terms = terms_of(path, circumstances, checkpoints=beside)
        for first, last in find_lost_start(Draft.of(path).before, terms, reports[0].begins - 1):
            reason = PartitionCause.EPOCHS_BEGIN(offset=first)
            yield Finding(Kind.SEGMENT_GAP, reports[0].path, reason, first_offset=first, last_offset=last)
