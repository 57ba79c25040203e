"""Findings of verify and their summary: as blocks of text for people, and as rows for JSON."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from klogtool.escape import escaped, joined
from klogtool.render.words import count_text, offsets_text
from klogtool.verify.findings import Finding, Kind, Severity

if TYPE_CHECKING:
    from klogtool.verify.verification import Summary
    from klogtool.verify.weighing import NotCounted


_UNCHECKED = "Its checksum matches. This is a limit of klogtool, not of Kafka: see docs/limits.md."
LABELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_INDENT = " " * 9
MOST_GONE = 10


class FindingText:
    """Shows findings as blocks of text. width: in columns.

    roots: the paths of the command line. If there is only one, paths under it are shown relative to it.
    """

    def __init__(self, roots: list[str], *, width: int) -> None:
        self._roots = roots
        self._width = width

    def block(self, finding: Finding) -> str:
        """Show one finding, in several lines."""
        name = finding.path
        if len(self._roots) == 1 and finding.path.startswith(self._roots[0].rstrip("/") + "/"):
            name = os.path.relpath(finding.path, self._roots[0])
        lines = [f"{LABELS[finding.severity]:<9}{name}"]
        lines += self._filled("   ".join([finding.id, *where_texts(finding)]))
        lines += self._filled(explained_text(finding))
        if finding.cure is not None:
            lines.append(f"{_INDENT}→  {finding.cure}")  # in one line, so that it can be copied
        return joined(lines)

    def _filled(self, text: str) -> list[str]:
        """Wrap a text into indented lines; words are not split."""
        lines: list[str] = []
        gap = ""
        for word in escaped(text).split(" "):
            if not word:  # there are several blanks
                gap += " "
            elif lines and len(lines[-1]) + len(gap) + len(word) <= self._width:
                lines[-1] += gap + word
                gap = " "
            else:
                lines.append(_INDENT + word)
                gap = " "
        return lines


class Meaning(Struct, frozen=True):
    """What a kind of finding is, and what readers or a broker do then, in one to three sentences; docs/findings.md has
    the details. by_field: what a field adds; each sentence about consumers was tried with Kafka's own. instead: where a
    field makes it another meaning, or (`stop`) that a start ends there."""

    meaning: str
    by_field: Mapping[str, str] = {}
    instead: Mapping[str, str] = {}


@cache
def meanings() -> Mapping[Kind, Meaning]:
    """Return what each kind of finding means."""
    return msgspec.json.decode(pkgutil.get_data(__package__, "meanings.json") or b"", type=dict[Kind, Meaning])


def explained_text(finding: Finding) -> str:
    """Return what is wrong, and what that means, in sentences."""
    kind, field = meanings()[finding.id], finding.field or ""
    otherwise = field or ("stop" if finding.stop else "")
    meaning = _UNCHECKED if finding.is_unchecked else kind.instead.get(otherwise, kind.meaning)
    more = kind.by_field.get(field)
    return " ".join([_sentence(finding.detail), meaning, *([] if more is None else [more])])


def where_texts(finding: Finding) -> Iterator[str]:
    """Yield the field, the bytes and the offsets, as far as they apply."""
    if finding.field is not None:
        yield finding.field
    if finding.start is not None:
        yield f"byte {finding.start:,}" if finding.end is None else f"bytes {finding.start:,} to {finding.end:,}"
    first, last = finding.first_offset, finding.last_offset
    first, last = last if first is None else first, first if last is None else last
    if first is not None and last is not None:
        yield offsets_text(first, last)


def _sentence(text: str) -> str:
    """Add a capital, unless the first word may be a name (t-0, cluster.id), and a full stop."""
    word = text.partition(" ")[0].removesuffix(",").removesuffix(":")
    first = text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text
    return first if first.endswith(".") else first + "."


def closing_line(summary: Summary, not_counted: NotCounted | None, *, notes_shown: bool, status: int) -> str:
    """Return the last line: how many of each severity, what was read, what did not count, the exit status."""
    counts = [count_text(summary.errors, "error"), count_text(summary.warnings, "warning")]
    notes = count_text(summary.infos, "note")
    if summary.infos and not notes_shown:
        notes += " (--notes shows them)"
    what = f"{count_text(summary.records, 'record')} in {count_text(summary.batches, 'batch', 'batches')}"
    read = f"{what} read" if summary.deep else f"{what}, by their headers (--deep opens them)"
    left_out = [] if summary.complete else [f"Left out: {_left_out(summary)}"]
    apart = [] if not_counted is None else list(not_counted_texts(not_counted))
    sentences = [", ".join([*counts, notes]), *apart, read, *left_out]
    return "".join(f"{sentence}.  " for sentence in sentences) + f"Exit status {status}."


def not_counted_texts(not_counted: NotCounted) -> Iterator[str]:
    """Yield what did not count, and why: nothing is left out in silence."""
    if not_counted.known:
        yield f"{count_text(not_counted.known, 'finding')} of the baseline not counted"
    if gone := sum(entry.count for entry in not_counted.gone):
        yield f"{count_text(gone, 'finding')} of the baseline no longer there"
    for told_by, count, ids in _by_teller(not_counted.ignored):
        yield f"{count_text(count, 'finding')} left out by {told_by} ({ids})"
    for told_by, count, ids in _by_teller(not_counted.changed):
        yield f"{count_text(count, 'finding')} with another severity by {told_by} ({ids})"


def _by_teller(counts: Mapping[tuple[str, Kind], int]) -> Iterator[tuple[str, int, str]]:
    """Yield each file or option with the number of findings and their ids."""
    for told_by in dict.fromkeys(teller for teller, _ in counts):
        ids = {finding_id: count for (teller, finding_id), count in counts.items() if teller == told_by}
        yield told_by, sum(ids.values()), ", ".join(f"{finding_id} {count:,}" for finding_id, count in ids.items())


def _why_not_read(summary: Summary) -> Iterator[tuple[bool, str]]:
    yield summary.was_time_up, "time was up"
    yield summary.was_changed, "files went away while they were read: does a broker run here?"
    yield summary.was_without_help, "a key is missing (--key), or the store did not give it"
    yield summary.was_read_before, "an earlier run read them and found nothing (--state)"
    reasons = summary.was_time_up, summary.was_changed, summary.was_without_help, summary.was_read_before
    yield not any(reasons), "not in this subset (--subset)"


def left_out_line(summary: Summary, excluded_by: Sequence[str]) -> str:
    """Return the line that says what was not read, and why. It comes first if something was left out."""
    reasons = []
    if not summary.is_whole_but_excluded:
        reasons += [text for applies, text in _why_not_read(summary) if applies]
    if summary.excluded_partitions or summary.excluded_paths:
        reasons.append(" ".join(["excluded", *(["by", " and ".join(excluded_by)] if excluded_by else [])]))
    return f"NOT READ: {_left_out(summary)}; {', or '.join(reasons)}. The findings below are about the rest."


def gone_lines(not_counted: NotCounted) -> Iterator[str]:
    """Yield a line for what is in the baseline and was not found, if there is any; no more than a few names."""
    if not_counted.gone:
        yield "No longer there, so the baseline can be written anew (--write-baseline):"
    for entry in not_counted.gone[:MOST_GONE]:
        yield f"  {entry.id}  {entry.path}" + (f"  {entry.count:,} times" if entry.count > 1 else "")
    if len(not_counted.gone) > MOST_GONE:
        yield f"  and {len(not_counted.gone) - MOST_GONE:,} more"


def _left_out(summary: Summary) -> str:
    partitions = summary.left_out_partitions + summary.excluded_partitions
    counts = (partitions, "partition"), (summary.left_out_segments, "segment"), (summary.excluded_paths, "path")
    return " and ".join(count_text(count, noun) for count, noun in counts if count)


# JSON.


class FindingRow(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="finding"):
    """A finding in JSON; fields that do not apply are absent."""

    id: Kind
    severity: Severity
    path: str
    start: int | None = None
    end: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    field: str | None = None
    detail: str | None = None
    cure: str | None = None
    known: bool = False


def finding_row(finding: Finding, *, is_known: bool = False) -> FindingRow:
    """Return a finding as it is in JSON. is_known: it is in the baseline."""
    values = {name: getattr(finding, name) for name in FindingRow.__struct_fields__ if name != "known"}
    return FindingRow(**values, known=is_known)


def summary_row(summary: Summary, not_counted: NotCounted | None) -> dict[str, object]:
    """Return the summary in JSON's types; fields about what did not count are absent if there is nothing to tell."""
    names = ("partitions", "files", "batches", "records", "bytes", "seconds", "errors", "warnings", "infos")
    row: dict[str, object] = {"type": "summary", **{name: getattr(summary, name) for name in names}}
    row["seconds"] = round(summary.seconds, 3)
    row["deep"] = summary.deep
    row["complete"] = summary.complete
    row |= {} if not_counted is None else _not_counted_fields(not_counted)
    if not summary.is_whole_but_excluded:
        row["left_out"] = {"partitions": summary.left_out_partitions, "segments": summary.left_out_segments}
    if summary.excluded_partitions or summary.excluded_paths:
        row["excluded"] = {"partitions": summary.excluded_partitions, "paths": summary.excluded_paths}
    return row


def _not_counted_fields(not_counted: NotCounted) -> dict[str, object]:
    row: dict[str, object] = {} if not_counted.known is None else {"known": not_counted.known}
    if not_counted.gone:
        row["gone"] = [{"id": one.id, "path": one.path, "count": one.count} for one in not_counted.gone]
    for name, counts in (("ignored", not_counted.ignored), ("changed", not_counted.changed)):
        if counts:
            row[name] = [{"id": one, "by": by, "count": count} for (by, one), count in counts.items()]
    return row
