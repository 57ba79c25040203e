"""A plain scan of a segment, until repair.verify_segment is there: one function to be replaced."""

from __future__ import annotations

from dataclasses import dataclass, field

from klogtool.errors import KlogError
from klogtool.format.batch import RecordBatch
from klogtool.log.entries import Entry, walk_entries
from klogtool.log.file import LogFile
from klogtool.log.side_file import base_offset_of
from klogtool.repair.findings import Finding
from klogtool.repair.verify_epochs import EpochRun


@dataclass(slots=True)
class SegmentReport:
    """What a scan of a segment tells beside its findings."""

    path: str
    base_offset: int
    next_offset: int
    size: int = 0
    first_offset: int | None = None
    batches: int = 0
    records: int = 0
    sound: tuple[tuple[int, int], ...] = ()
    is_damaged: bool = False
    has_damaged_tail: bool = False
    has_gaps: bool = False
    has_producers: bool = False
    epochs: list[EpochRun] = field(default_factory=list)


def scan_segment(path: str) -> tuple[list[Finding], SegmentReport]:
    """Findings and report of one `.log`."""
    base_offset = base_offset_of(path)
    report = SegmentReport(path, base_offset, base_offset)
    findings: list[Finding] = []
    end = 0
    try:
        with LogFile(path) as file:
            report.size = file.size
        for entry in walk_entries(path):
            if not entry.crc_valid:
                findings.append(
                    Finding("batch-crc", path, "does not match", entry.position, entry.position + entry.size)
                )
                report.is_damaged = True
            else:
                _count(report, entry)
            end = entry.position + entry.size
    except KlogError as error:
        findings.append(Finding("foreign-bytes", path, error.reason, end, report.size))
    if end < report.size:
        report.is_damaged = report.has_damaged_tail = True
    report.sound = ((0, end),)
    return findings, report


def _count(report: SegmentReport, entry: Entry) -> None:
    last = entry.last_offset if isinstance(entry, RecordBatch) else entry.offset
    first = entry.base_offset if isinstance(entry, RecordBatch) else last
    if report.first_offset is None:
        report.first_offset = first
    elif first != report.next_offset and isinstance(entry, RecordBatch):
        report.has_gaps = True
    report.next_offset = last + 1
    report.batches += 1
    if not isinstance(entry, RecordBatch):
        report.records += 1
        report.epochs.append(EpochRun(-1, first, last))
        return
    report.records += entry.records_count
    report.has_gaps |= entry.records_count != entry.last_offset_delta + 1
    report.has_producers |= entry.producer_id >= 0
    runs = report.epochs
    if runs and runs[-1].epoch == entry.partition_leader_epoch:
        runs[-1] = EpochRun(runs[-1].epoch, runs[-1].first_offset, last)
    else:
        runs.append(EpochRun(entry.partition_leader_epoch, first, last))
