"""What an option costs: what is readable in a partition dir now, and not after the option and a start.

All options of a log are measured by the same yardstick, and so is the start without one. Nothing is written: the
option's plan is carried out in a draft, which a start loads.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from klogtool.broker.circumstances import LoadTerms, terms_of
from klogtool.broker.draft import Draft, DraftFile
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.doctor.claims import Lost, OffsetRange, WhyUnknown
from klogtool.doctor.partition_claims import compared, follow, with_hidden
from klogtool.doctor.patient import Patient
from klogtool.doctor.readable import few, ranges_of, walk_readable
from klogtool.errors import KlogError
from klogtool.format.names import FileKind
from klogtool.log.offset_ranges import Offsets
from klogtool.plans.plan import Plan, files_after
from klogtool.plans.recover import knows_interval
from klogtool.plans.recover_answer import find_may_lose
from klogtool.plans.recover_gaps import find_deleted_in_error, find_gaps


class Priced(Struct, frozen=True):
    """lost: what is readable now and not then. readable: the offsets that can be read then; None if unknown."""

    lost: Lost
    readable: tuple[OffsetRange, ...] | None = None


_UNKNOWN = Priced(Lost(None, (), WhyUnknown.NOT_LOADED))


def price_of(plan: Plan, patient: Patient) -> Priced:
    """Return what a plan for a partition dir costs, with the start that follows it."""
    return price_of_files(plan.path, files_after(Draft.of(plan.path), plan.steps), patient)


def price_without(path: str, name: str, patient: Patient) -> Priced:
    """Return what it costs to move what is no file out of a partition dir, by its name there."""
    try:
        files = Draft.of(path).before
    except KlogError:
        return _UNKNOWN
    return price_of_files(path, files, patient, without=name)


def price_of_files(
    path: str, files: Mapping[str, DraftFile], patient: Patient, *, without: str | None = None
) -> Priced:
    """Return what it costs if a partition dir has these files when the broker starts, and all that is no file but
    one."""
    terms = terms_of(path, patient.circumstances, clean_by_default=False, checkpoints=patient.checkpoints_of(path))
    try:
        draft = Draft.of(path)
        log = LoadedLog(Draft(path, dict(files), draft.folders - {without}, draft.devices - {without}), terms)
        if not knows_interval(path, terms, patient.checkpoints_of(path)) and find_may_lose(log) is not None:
            return Priced(Lost(None, (), WhyUnknown.ELSEWHERE))
        return _priced(draft, log, _deleted_in_error(path, draft, terms))
    except (KlogError, ValueError):  # a broker does not load it; or the bytes are in a plan only
        return _UNKNOWN


def _deleted_in_error(path: str, draft: Draft, terms: LoadTerms) -> Mapping[str, Offsets]:
    """Return what of `.deleted` logs counts as lost with the start, whatever an option makes of them."""
    if not any(name.endswith(FileKind.LOG.value + DELETED) for name in draft.before):
        return {}
    log = LoadedLog(Draft(path, dict(draft.before), draft.folders, draft.devices), terms)
    return find_deleted_in_error(log, find_gaps(log, log.terms.compaction))


def _priced(draft: Draft, log: LoadedLog, deleted_in_error: Mapping[str, Offsets]) -> Priced:
    followed = follow(log)
    if isinstance(followed, WhyUnknown):
        return Priced(Lost(None, (), followed))
    measured = compared(log, draft.before, deleted_in_error, followed, looks_behind_end=True)
    measured = with_hidden(measured, followed)
    count = measured.lost_records + measured.hidden_records
    ranges = ranges_of((*measured.lost, *(part for _, part in measured.hidden))) if count else ()
    records = None if measured.is_cleaned else count
    reason = WhyUnknown.COMPACTED if measured.is_cleaned else None
    return Priced(Lost(records, ranges, reason), _readable(log) if followed.got is None else followed.got)


def _readable(log: LoadedLog) -> tuple[OffsetRange, ...]:
    offsets = Offsets()
    for segment in log.segments.all:
        with segment.open_log() as file:
            for part in walk_readable(file, 0, file.size):
                first, last = (
                    max(part.first_offset, log.log_start_offset),
                    min(part.last_offset, log.log_end_offset - 1),
                )
                if first <= last:
                    offsets.add(first, last)
    return few(offsets.ranges)
