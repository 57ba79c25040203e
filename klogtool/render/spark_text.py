"""The text output of the commands on Spark: counts and tables.

Also what an export did, as rows and as text: a line for each partition, what was left out, and the sum.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from klogtool.causes import Reason
from klogtool.escape import joined
from klogtool.plans.plan import Plan
from klogtool.plans.results import LeftAlone
from klogtool.render.compact import compact_text
from klogtool.render.findings import LABELS, closing_line
from klogtool.render.words import Row, count_text, in_words, number_table, words
from klogtool.verify.findings import Finding, Severity
from klogtool.verify.verification import Summary

MOST_FOLDERS = 10
ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)


def findings_text(findings: Sequence[Finding], summary: Summary, status: int) -> Iterator[str]:
    """Yield how many findings there are of each kind, where most errors are, and the closing line of `verify`."""
    kinds = Counter((ORDER.index(finding.severity), finding.id) for finding in findings)
    for (rank, name), count in sorted(kinds.items(), key=lambda kind: (kind[0][0], -kind[1])):
        folders = {_folder(finding) for finding in findings if finding.id == name}
        where = next(iter(folders)) if len(folders) == 1 else count_text(len(folders), "folder")
        yield f"{LABELS[ORDER[rank]]:<8} {name:<26} {count:>9,}  {where}"
    worst = Counter(_folder(finding) for finding in findings if finding.severity is Severity.ERROR)
    if worst:
        yield from ("", "Most errors:")
        yield from (f"{count:>9,}  {folder}" for folder, count in worst.most_common(MOST_FOLDERS))
    if findings:
        yield ""
    yield closing_line(summary, None, notes_shown=True, status=status)


def _folder(finding: Finding) -> str:
    return finding.path if os.path.isdir(finding.path) else os.path.dirname(finding.path)


class ExportedTopic(Struct, frozen=True, tag="exported"):
    """What was exported of a topic. topic: empty for folders without one."""

    topic: str
    rows: int
    files: int
    bytes: int


def exported_text(totals: Sequence[ExportedTopic], invalid: int, output: str, undecoded: int) -> Iterator[str]:
    """Yield what was exported, by topic, and where it is."""
    rows = [(row.topic or "(no topic)", f"{row.rows:,}", f"{row.files:,}", f"{row.bytes:,}") for row in totals]
    if rows:
        yield from number_table([("topic", "records", "files", "bytes"), *rows], range(1, 4))
        yield ""
    records, files = sum(row.rows for row in totals), sum(row.files for row in totals)
    yield f"{count_text(records, 'record')} in {count_text(files, 'file')}: {output}"
    if invalid:
        yield f"{invalid:,} keys and values are not JSON, and are null there."
    if undecoded:
        yield f"{undecoded:,} keys and values could not be decoded: key_error and value_error say why."


def compacted_text(plans: Sequence[Plan], output: str) -> Iterator[str]:
    """Yield a paragraph for each cleaned partition, how many were only copied and why, and where the result is."""
    yield from (compact_text(plan, is_whole=False) for plan in plans if not isinstance(plan.result, LeftAlone))
    left_alone = Counter(words(plan.result.skipped) for plan in plans if isinstance(plan.result, LeftAlone))
    yield from (joined([f"{count_text(count, 'partition')} copied: {why}"]) for why, count in left_alone.items())
    yield joined([f"Done: {output}"])


class UnreadRange(Struct, frozen=True):
    """Bytes from `start` up to `end` of which not all records are rows.

    first_offset, last_offset: where the missing offsets are, inclusive; None if nothing says it. Not each of them may
    have existed: compaction leaves gaps, too.
    """

    path: str
    start: int
    end: int
    first_offset: int | None
    last_offset: int | None
    reason: str


class PartitionExport(Struct, frozen=True):
    """What a run added of a partition. next_offset: the next run begins there. reason: why offsets are missing that no
    damage explains."""

    cluster_id: str | None
    topic_id: str | None
    topic: str
    partition: int
    records: int
    files: int
    bytes: int
    next_offset: int
    left_out: tuple[UnreadRange, ...] = ()
    reason: Reason | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return not self.left_out and self.reason is None


def partition_rows(result: PartitionExport) -> Iterator[Row]:
    """Yield the row of a partition, and one for each range that was left out."""
    row = in_words(result)
    unread_ranges = row.pop("left_out")
    yield {"type": "exported", **row}
    yield from ({"type": "left_out", **unread} for unread in unread_ranges)


def partition_text(result: PartitionExport, *, verbose: bool) -> Iterator[str]:
    """Yield the line of a partition, and what was left out of it. verbose: also if nothing is new."""
    name = f"{result.topic}-{result.partition}"
    if result.records or verbose:
        size = f"{count_text(result.records, 'record')} in {count_text(result.files, 'file')}"
        yield f"{name}  {size}, up to offset {result.next_offset:,}"
    for unread in result.left_out:
        where = f"{unread.path}: bytes {unread.start:,} to {unread.end:,}{_offsets(unread)}"
        yield f"{name}  left out: {where}: {unread.reason}"
    if result.reason is not None:
        yield f"{name}  left out: {result.reason}"


def _offsets(unread: UnreadRange) -> str:
    first, last = unread.first_offset, unread.last_offset
    if first is None and last is None:
        return ""
    if last is None:
        return f", offsets from {first:,}"
    return f", offsets up to {last:,}" if first is None else f", offsets {first:,} to {last:,}"


def export_summary_row(results: Sequence[PartitionExport], output: str) -> Row:
    """Return the last row: the sum of the run."""
    return {
        "type": "summary",
        "partitions": len(results),
        "records": sum(result.records for result in results),
        "files": sum(result.files for result in results),
        "bytes": sum(result.bytes for result in results),
        "left_out": sum(not result.is_whole for result in results),
        "output": output,
    }


def export_summary_text(results: Sequence[PartitionExport], output: str) -> str:
    """Return the last line: the sum of the run."""
    records, files = sum(result.records for result in results), sum(result.files for result in results)
    what = f"{count_text(records, 'new record')} in {count_text(files, 'file')}" if records else "nothing is new"
    wrong = sum(not result.is_whole for result in results)
    return f"{what}: {output}" + (f"; {count_text(wrong, 'partition')} not whole" if wrong else "")
