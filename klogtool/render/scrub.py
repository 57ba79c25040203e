"""What scrub found and read: blocks of text as verify has them, rows for JSON, and a closing line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from klogtool.broker.timestamps import duration_text
from klogtool.escape import escaped, joined
from klogtool.render.findings import FindingRow, FindingText, finding_row
from klogtool.render.words import count_text
from klogtool.scrub.other_copies import CopyState, CopyVerdict
from klogtool.scrub.scrub_run import EarlierFindings, ScrubSummary
from klogtool.verify.findings import Finding, Severity

STATES = {
    CopyState.WHOLE: "is whole here",
    CopyState.DAMAGED: "is damaged there, or before",
    CopyState.UNKNOWN: "says nothing about it",
}
_INDENT, MINUTE_MS = " " * 9, 60_000


def scrub_block(finding: Finding, copies: Sequence[CopyVerdict], text: FindingText) -> str:
    """Show a finding, and what the copies of other brokers are there."""
    whole = text.block(finding)
    of_copies = joined(f"{_INDENT}The copy of {one.name} {STATES[one.state]}." for one in copies)
    if not of_copies:
        return whole
    above, last = whole.rsplit("\n", 1)
    return f"{above}\n{of_copies}\n{last}" if finding.cure is not None else f"{whole}\n{of_copies}"


def earlier_line(earlier: EarlierFindings) -> str:
    """Return the line of a segment with findings of earlier runs, which was not due."""
    ids = ", ".join(f"{name} {count:,}" for name, count in sorted(earlier.findings.items()))
    return escaped(f"known    {earlier.path}: {ids} (found earlier; klogtool verify shows it)")


def scrub_closing_line(summary: ScrubSummary, *, now_ms: int, status: int) -> str:
    """Return the last line: what stands, what was read, what is left, the exit status."""
    return "  ".join([*(f"{sentence}." for sentence in _sentences(summary, now_ms)), f"Exit status {status}."])


def _sentences(summary: ScrubSummary, now_ms: int) -> Iterator[str]:
    errors, warnings = (summary.count(severity) for severity in (Severity.ERROR, Severity.WARNING))
    yield f"{count_text(errors, 'error')}, {count_text(warnings, 'warning')}"
    read = f"{summary.checked:,} of {count_text(summary.segments, 'closed segment')} checked"
    yield f"{read}, {count_text(summary.bytes, 'byte')} read"
    yield f"Time was up: {summary.due:,} more are due" if summary.due else "No more are due"
    if summary.gone:
        yield f"{summary.gone:,} went away before they were read"
    if summary.changed:
        yield f"{summary.changed:,} changed while they were read: the next run reads them again"
    if summary.unflushed:
        yield f"{count_text(summary.unflushed, 'closed segment')} above the recovery point left to a later run"
    if summary.fleeting:
        what = count_text(summary.fleeting, "finding")
        yield f"{what} did not come again in a second read: suspect memory, cables and controllers, not the disk"
    if summary.damaged:
        lines = count_text(summary.damaged, "line")
        yield f"{lines} of the state damaged, or of the future: what they said was forgotten"
    if summary.oldest_unread_ms is not None:
        minutes = max(1, -(-(now_ms - summary.oldest_unread_ms) // MINUTE_MS))
        yield f"Nothing is unchecked for longer than {duration_text(minutes * MINUTE_MS)}"


class ScrubFindingRow(FindingRow, Struct, frozen=True, omit_defaults=True, tag_field="type", tag="finding"):
    """A finding in JSON; copies is absent without --replica."""

    copies: tuple[CopyVerdict, ...] = ()


def scrub_finding_row(finding: Finding, copies: Sequence[CopyVerdict]) -> ScrubFindingRow:
    """Return a finding as it is in JSON."""
    return ScrubFindingRow(**asdict(finding_row(finding)), copies=tuple(copies))


def earlier_row(earlier: EarlierFindings) -> dict[str, object]:
    """Return the JSON of a segment with findings of earlier runs."""
    return {"type": "earlier", "path": earlier.path, "findings": dict(sorted(earlier.findings.items()))}


def scrub_summary_row(summary: ScrubSummary) -> dict[str, object]:
    """Return the last line of JSON."""
    names = ("segments", "checked", "gone", "changed", "due", "unflushed", "bytes", "seconds", "fleeting", "damaged")
    row: dict[str, object] = {"type": "summary", **{name: getattr(summary, name) for name in names}}
    row["seconds"] = round(summary.seconds, 3)
    row |= {f"{severity.value}s": summary.count(severity) for severity in (Severity.ERROR, Severity.WARNING)}
    return row | {"oldest_unread_ms": summary.oldest_unread_ms, "complete": summary.is_complete}
