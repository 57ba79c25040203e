"""Rehearses the start of one partition: it is loaded as a broker loads it, over a draft, and nothing is written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.doctor.answers import Ahead, Prospect, What, Work
from klogtool.doctor.lost_records import LostRecords, count_lost, last_timestamp
from klogtool.doctor.retention_ahead import walk_retention
from klogtool.errors import KlogError
from klogtool.format.names import OFFSET_DIGITS, FileKind, parse_file_name
from klogtool.log.file import Unreadable
from klogtool.log.folder import names_in
from klogtool.log.partition import Partition
from klogtool.plans.plan import Plan
from klogtool.plans.recover import plan_partition
from klogtool.plans.recover_log_dir import RecoverQuestion
from klogtool.verify.findings import Severity
from klogtool.verify.stops import Outcome, stop_of
from klogtool.verify.verify_names import verify_names

LOG = FileKind.LOG
_CANONICAL = OFFSET_DIGITS + len(LOG.value)

_WHAT = {Outcome.REFUSES: What.REFUSES, Outcome.OFFLINE: What.OFFLINE, Outcome.UNSERVED: What.UNSERVED}


class Rehearsed(Struct, frozen=True):
    """A partition's start: the prospect, and what is ahead beyond ordinary work.

    looks_up_unstable: loading looks up where the first transaction begins that is open, or that ended in replayed
    batches.
    """

    prospect: Prospect
    ahead: tuple[Ahead, ...] = ()
    looks_up_unstable: bool = False


def what_of(outcome: Outcome) -> What:
    """Return the same outcome in the doctor's words."""
    return _WHAT[outcome]


def rehearse(path: str, question: RecoverQuestion, checkpoints: Checkpoints, threads: int) -> Rehearsed:
    """Rehearse the start of a partition dir. An error is a point."""
    began = time.monotonic()
    try:
        log, plan = plan_partition(path, question, checkpoints, threads)
    except KlogError as error:
        return Rehearsed(Prospect(path, Work.NOT_LOADED), (_refused(path, error),))
    ahead = (*_walk_ahead(path, log, plan.answer), *walk_ignored(Partition(path)))
    prospect, unstable = _prospect(path, log, plan, time.monotonic() - began), log.looked_up_unstable
    return Rehearsed(prospect, (*ahead, *walk_retention(path, log, checkpoints)), unstable)


def walk_ignored(partition: Partition) -> Iterator[Ahead]:
    """Yield segments that a broker never reads, because their names have not 20 digits. Raises KlogError if the folder
    cannot be listed."""
    names = [name for name in names_in(partition.path) if name.endswith(LOG.value) and len(name) != _CANONICAL]
    if names:
        yield from (point for point in _walk_names(partition) if point.what is What.IGNORED)


def glance(partition: Partition) -> Rehearsed:
    """Judge a partition dir by its names alone (`--quick`). What a start would cut is not known then."""
    try:
        ahead = tuple(_walk_names(partition))
    except KlogError as error:
        return Rehearsed(Prospect(partition.path, Work.NOT_LOADED), (_refused(partition.path, error),))
    return Rehearsed(Prospect(partition.path, Work.NAMES_ONLY, log_bytes=log_bytes(partition.path)), ahead)


def _walk_names(partition: Partition) -> Iterator[Ahead]:
    for finding in verify_names(partition)[1]:
        if finding.id == "unreadable":
            yield Ahead(finding.path, What.OFFLINE, finding.detail, Severity.ERROR, finding=finding.id)
        elif finding.id == "segment-name":
            name = parse_file_name(os.path.basename(finding.path))
            what = What.REFUSES if name.base_offset is None else What.IGNORED
            if name.base_offset is None or name.base_offset >= 0:  # a name below zero does no harm
                yield Ahead(
                    finding.path,
                    what,
                    finding.detail,
                    Severity.ERROR,
                    lost_bytes=os.path.getsize(finding.path) if what is What.IGNORED else 0,
                    finding=finding.id,
                    cure=finding.cure,
                )


def _refused(path: str, error: KlogError) -> Ahead:
    if isinstance(error, Unreadable):
        detail = f"{error.reason}: if the broker's user cannot read it either, the log dir goes offline"
        return Ahead(error.path or path, What.OFFLINE, detail, Severity.ERROR, finding="unreadable")
    stop = stop_of(error)
    at = error.path or path
    is_name = stop.kafka_class == "NumberFormatException" and parse_file_name(os.path.basename(at)).base_offset is None
    finding = "segment-name" if is_name and os.path.isfile(at) else None
    detail = f"{stop.kafka_class}: {error.reason}"
    return Ahead(at, what_of(stop.outcome), detail, Severity.ERROR, stop=stop, finding=finding)


def _prospect(path: str, log: LoadedLog, plan: Plan, seconds: float) -> Prospect:
    sizes = _log_sizes(plan)
    recovered = sum(sizes.get(base, 0) for base in set(plan.answer["recovered"]))
    return Prospect(
        path,
        _work(log, plan),
        recovered,
        sum(sizes.values()),
        sum(sizes.values()) - recovered,
        max(0, plan.bytes_freed),
        log.log_end_offset,
        seconds if recovered else 0.0,
        len(sizes),
    )


def _log_sizes(plan: Plan) -> dict[int, int]:
    files = ((parse_file_name(fact.path), fact.size) for fact in plan.facts)
    return {
        file.base_offset: size
        for file, size in files
        if file.kind is FileKind.LOG and not file.suffix and file.base_offset is not None
    }


def _work(log: LoadedLog, plan: Plan) -> Work:
    answer, report = plan.answer, log.report
    if answer["truncated"] or answer["deleted_segments"]:
        return Work.CUT
    if answer["split"]:
        return Work.SPLIT
    if answer["recovered"]:
        return Work.REBUILT if answer["rebuilt"] else Work.RECOVERED
    return Work.LEFTOVERS if report.removed or report.swapped or report.replaced else Work.CLEAN


# What is ahead.


def _walk_ahead(path: str, log: LoadedLog, answer: Mapping[str, Any]) -> Iterator[Ahead]:
    behind = answer["behind_end"]
    if answer["loses_records"]:
        yield _cut(path, log, answer)
    if behind is not None and behind["served"]:
        yield _served_damage(path, log, behind)
    elif behind is not None and behind["clean_marker_false"]:
        yield _ends_early(path, log, behind)
    elif behind is not None and not answer["loses_records"]:
        yield _gone_at_end(path, behind)
    for gap in answer["missing"]:
        first, last = gap["first_offset"], gap["last_offset"]
        detail = f"offsets {first:,} to {last:,} are missing already: no segment has them"
        yield Ahead(path, What.MISSING, detail, Severity.WARNING, first, last)


def _cut(path: str, log: LoadedLog, answer: Mapping[str, Any]) -> Ahead:
    lost = answer["lost"]
    first = log.log_end_offset if lost is None else lost["first_offset"]
    counted = _counted(log, first)
    all_gone = bool(log.report.below_start)
    what = What.ALL_DELETED if all_gone else What.TRUNCATED
    kept = None if all_gone else last_timestamp(log)
    return Ahead(
        path,
        what,
        _cut_text(answer, counted, all_gone=all_gone, start=log.terms.log_start_offset),
        Severity.ERROR,
        None if lost is None else lost["first_offset"],
        None if lost is None else lost["last_offset"],
        counted.records,
        counted.bytes,
        _between(kept, counted.timestamp),
        kept,
    )


def _counted(log: LoadedLog, first_offset: int) -> LostRecords:
    try:
        return count_lost(log, first_offset)
    except KlogError:  # the offsets are still told
        return LostRecords()


def _between(kept: int | None, lost: int | None) -> int:
    return 0 if kept is None or lost is None else max(0, lost - kept)


def _cut_text(answer: Mapping[str, Any], counted: LostRecords, *, all_gone: bool, start: int) -> str:
    span = ""
    if answer["lost"] is not None:
        span = f", offsets {answer['lost']['first_offset']:,} to {answer['lost']['last_offset']:,}"
    if all_gone:
        return f"all segments are deleted ({counted.bytes:,} bytes{span}): the log ends below its log start {start:,}"
    where = ""
    if answer["truncated"]:
        cut = answer["truncated"][0]
        where = f" at {cut['segment']:020d}.log:{cut['position']}"
    segments = len(answer["deleted_segments"])
    deleted = f", and {segments} segment{'s' * (segments != 1)} after the cut deleted" if segments else ""
    why = f" ({answer['why']})" if answer["why"] else ""
    return f"truncated by {counted.bytes:,} bytes{span}{where}{why}{deleted}"


def _ends_early(path: str, log: LoadedLog, behind: Mapping[str, Any]) -> Ahead:
    counted, kept = _counted(log, log.log_end_offset), last_timestamp(log)
    span = f"offsets {behind['first_offset']:,} to {behind['last_offset']:,}" if behind["offsets"] else "damaged bytes"
    told = (
        f"the clean marker is false: the broker takes {log.log_end_offset:,} for the end, and does not see {span}; "
        f"what is appended next {'goes there' if behind['offsets'] else 'follows them'}"
    )
    damage = f" ({behind['damage']})" if behind["damage"] else ""
    return Ahead(
        path,
        What.ENDS_EARLY,
        told + damage,
        Severity.ERROR,
        behind["first_offset"],
        behind["last_offset"],
        counted.records or behind["offsets"],
        counted.bytes,
        _between(kept, counted.timestamp),
        kept,
    )


def _served_damage(path: str, log: LoadedLog, behind: Mapping[str, Any]) -> Ahead:
    told = (
        f"its last batch, up to offset {log.log_end_offset - 1:,}, is damaged ({behind['damage']}): a broker does not "
        "check it after a clean stop and serves it, so consumers stop there; what is appended next follows it"
    )
    return Ahead(path, What.DAMAGED, told, Severity.ERROR)


def _gone_at_end(path: str, behind: Mapping[str, Any]) -> Ahead:
    sources = ", ".join(f"{told['by']} {told['offset']:,}" for told in behind["told_by"][:3])
    if behind["offsets"]:
        first, last = behind["first_offset"], behind["last_offset"]
        detail = f"offsets {first:,} to {last:,} are missing at its end already ({sources})"
    else:
        detail = f"its end is damaged: {behind['damage']}"
    return Ahead(path, What.MISSING, detail, Severity.WARNING, behind["first_offset"], behind["last_offset"])


def log_bytes(path: str) -> int:
    """Return roughly how many bytes will be read."""
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(FileKind.LOG.value))
    except OSError:  # reported when the file is opened
        return 0
