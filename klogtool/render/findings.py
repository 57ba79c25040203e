"""Findings of verify and their summary: as blocks of text for people, and as rows for JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator

from klogtool.render.counts import count_text
from klogtool.repair.findings import Finding, Severity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from klogtool.repair.verify import Summary

# What an id means, and what readers or a broker make of it: one or two sentences, as docs/findings.md has them in full.
MEANINGS = {
    "batch-crc": "Bytes under the CRC are not what was written. Readers stop here; a broker that recovers this segment "
    "cuts the log at this byte.",
    "batch-header": "A field that no CRC covers contradicts the rest; the records are whole. A broker takes the field "
    "as it is, or cuts the log here.",
    "batch-attributes": "No broker writes such a batch, though its CRC holds. Readers stop here.",
    "torn-batch": "The end of the file came in the middle of a write. A broker that recovers cuts it off; one that "
    "does not writes on into it, and loses what it writes.",
    "zero-tail": "Space was there before the data, as after a power failure. A broker that recovers cuts it off; one "
    "that does not may refuse to start.",
    "foreign-bytes": "These bytes are no batch. Readers stop here; a broker that recovers this segment cuts the log at "
    "this byte.",
    "offset-order": "Offsets must ascend. Readers see records twice, or miss some; a broker that recovers may empty "
    "the whole segment.",
    "offset-overflow": "An index of this segment cannot hold the offset. A broker that recovers splits the segment.",
    "records-invalid": "Readers stop at this batch, or see something else than was written.",
    "epoch-order": "Leader epochs never go down. Followers may cut their logs at the wrong place.",
    "sequence-gap": "Batches of this producer are missing, or lie in another order.",
    "timestamp-implausible": "Retention by time waits for the newest timestamp of a segment.",
    "index-missing": "A damage in the segment that nobody looked at so far comes up then.",
    "index-size": "The bytes behind the last whole entry are none; a broker that trims the file cuts them off.",
    "index-order": "Searches in it end anywhere: readers may be sent too far, or to the beginning.",
    "index-entry": "Readers that look up an offset here may start in the middle of a batch, or too late.",
    "timeindex-missing": "Until it is built anew, nothing tells which times are in the segment.",
    "timeindex-size": "The bytes behind the last whole entry are none; a broker that trims the file cuts them off.",
    "timeindex-order": "Searches by time end anywhere.",
    "timeindex-entry": "Searches by time skip records, or retention counts from a wrong time.",
    "timeindex-max": "Retention and searches by time take this segment for older than it is.",
    "txnindex-missing": "To read_committed consumers aborted records look committed. A broker does not notice.",
    "txnindex-size": "A broker reads whole entries only, and appends behind the rest, where nobody finds it.",
    "txnindex-entry": "To read_committed consumers aborted records look committed, or the reverse. A broker does not "
    "notice.",
    "index-untrimmed": "Normal after a kill: a broker that recovers trims it.",
    "snapshot-corrupt": "Producers are then taken from an older snapshot and the log behind it.",
    "snapshot-content": "A broker that starts from it takes duplicates for new records, or refuses new ones.",
    "snapshot-stray": "It stands for records that are not there.",
    "snapshot-missing": "Brokers that keep one for each segment can cut a log without reading all of it.",
    "epochs-corrupt": "A broker cannot load the log dir, or does not start.",
    "epochs-content": "Followers that ask where an epoch ended get a wrong answer, and cut too much or too little.",
    "epochs-missing": "Followers that ask where an epoch ended get no answer.",
    "partition-metadata-corrupt": "A broker cannot load the log dir, or does not start.",
    "partition-metadata-missing": "Where topics have ids, a broker does not know the partition without it.",
    "topic-id-mismatch": "The partition is of another generation of its topic, or was copied from elsewhere.",
    "segment-gap": "Normal after compaction; else records are gone.",
    "segment-overlap": "Readers get one copy or the other, and may miss records between.",
    "segment-name": "A broker reads segments by their names only.",
    "orphan-file": "If the segment was not meant to go, its records are lost.",
    "leftover-cleaned": "A cleaning or a split was interrupted before it was done.",
    "leftover-swap": "A cleaning or a split was interrupted when it was nearly done.",
    "leftover-deleted": "Until a broker starts it can still be taken back.",
    "foreign-file": "It takes up space and does no harm.",
    "foreign-folder": "A log dir holds partition dirs only.",
    "duplicate-partition": "A broker cannot tell which of them counts.",
    "checkpoint-corrupt": "It can be deleted: what it says is found anew, at a price.",
    "checkpoint-entry": "The file says something else than the logs.",
    "meta-properties-corrupt": "It says whose log dir this is.",
    "meta-properties-missing": "It says whose log dir this is.",
    "meta-properties-conflict": "All log dirs of a broker have its cluster id and node id, and each a directory id of "
    "its own.",
    "kraft-snapshot-corrupt": "Without it the cluster's metadata may be lost, and with that every partition becomes a "
    "stray.",
    "quorum-state-corrupt": "It remembers whom this node voted for.",
    "unclean-shutdown": "Normal after a kill, and while a broker is running.",
    "clean-marker-false": "The most dangerous state there is: what a broker writes next is acknowledged, and lost.",
    "unreadable": "A broker that cannot read it either gives the log dir up.",
}
_LABELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_COLOURS = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;33m", Severity.INFO: "\x1b[1;36m"}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_INDENT = " " * 9
_UNSEEN = {n: f"\\x{n:02x}" for n in (*range(32), 127)}  # would move a terminal's cursor
NARROWEST = 40


class FindingText:
    """Findings as blocks of text. width: columns; colour: whether to colour them, which only repeats the words.

    roots: the paths that were asked for; what lies under the only one is named from there on.
    """

    def __init__(self, roots: list[str], *, width: int, colour: bool) -> None:
        self._roots = roots
        self._width, self._colour = max(width, NARROWEST), colour

    def block(self, finding: Finding) -> str:
        """One finding, several lines."""
        label = f"{_LABELS[finding.severity]:<9}"
        if self._colour:
            label = f"{_COLOURS[finding.severity]}{label}{_PLAIN}"
        lines = [label + self._name(finding.path)]
        lines += self._filled("   ".join([finding.id, *_where(finding)]))
        lines += self._filled(f"{_sentence(finding.detail)} {MEANINGS[finding.id]}")
        if finding.cure is not None:
            lines.append(f"{_INDENT}→  {finding.cure.translate(_UNSEEN)}")  # in one line, to be copied
        return "\n".join(lines)

    def _filled(self, text: str) -> list[str]:
        """Indented lines that fit, words whole."""
        lines: list[str] = []
        gap = ""
        for word in text.translate(_UNSEEN).split(" "):
            if not word:  # there are several blanks
                gap += " "
            elif lines and len(lines[-1]) + len(gap) + len(word) <= self._width:
                lines[-1] += gap + word
                gap = " "
            else:
                lines.append(_INDENT + word)
                gap = " "
        return lines

    def _name(self, path: str) -> str:
        name = path
        if len(self._roots) == 1 and path.startswith(self._roots[0].rstrip("/") + "/"):
            name = os.path.relpath(path, self._roots[0])
        return name.translate(_UNSEEN)


def _where(finding: Finding) -> Iterator[str]:
    if finding.field is not None:
        yield finding.field
    if finding.start is not None:
        yield f"byte {finding.start:,}" if finding.end is None else f"bytes {finding.start:,} to {finding.end:,}"
    first, last = finding.first_offset, finding.last_offset
    if first is not None and last is not None and first != last:
        yield f"offsets {first:,} to {last:,}"
    elif first is not None or last is not None:
        yield f"offset {first if first is not None else last:,}"


def _sentence(text: str) -> str:
    """Begins with a capital, unless that is a name, and ends with a full stop."""
    first = text[:1].upper() + text[1:] if text[:2].islower() else text
    return first if first.endswith(".") else first + "."


def closing_line(summary: Summary, known: int, *, notes_shown: bool, status: int) -> str:
    """The last line: how many of each, what was read, what was left out, the exit status."""
    found = [count_text(summary.errors, "error"), count_text(summary.warnings, "warning")]
    notes = count_text(summary.infos, "note")
    if summary.infos and not notes_shown:
        notes += " (--notes shows them)"
    told = ", ".join([*found, notes])
    read = f"{count_text(summary.records, 'record')} in {count_text(summary.batches, 'batch', 'batches')} read"
    sentences = [told, read, *_left_out(summary)]
    if known:
        sentences.insert(1, f"{count_text(known, 'finding')} of the baseline not counted")
    return "".join(f"{sentence}.  " for sentence in sentences) + f"Exit status {status}."


def _left_out(summary: Summary) -> Iterator[str]:
    if not summary.complete:
        partitions = count_text(summary.left_out_partitions, "partition")
        segments = f" and {count_text(summary.left_out_segments, 'segment')}" if summary.left_out_segments else ""
        yield f"Left out: {partitions}{segments}"


# JSON.


def row_line(row: dict[str, Any]) -> str:
    """One object, compact; in ASCII, since bytes of file names that are no text have no other form in JSON."""
    import json  # not for text

    return json.dumps(row, separators=(",", ":"))


def finding_row(finding: Finding, *, is_known: bool = False) -> dict[str, Any]:
    """A finding in JSON's types; fields that do not apply are absent."""
    fields = ("start", "end", "first_offset", "last_offset", "field", "detail", "cure")
    row: dict[str, Any] = {
        "type": "finding",
        "id": finding.id,
        "severity": finding.severity.value,
        "path": finding.path,
    }
    row |= {name: value for name in fields if (value := getattr(finding, name)) is not None}
    return row | {"known": True} if is_known else row


def summary_row(summary: Summary, known: int | None) -> dict[str, Any]:
    """The summary in JSON's types. known: findings of the baseline that came up again, None without one."""
    names = ("partitions", "files", "batches", "records", "bytes", "seconds", "errors", "warnings", "infos")
    row: dict[str, Any] = {"type": "summary", **{name: getattr(summary, name) for name in names}}
    row["seconds"] = round(summary.seconds, 3)
    row["complete"] = summary.complete
    if known is not None:
        row["known"] = known
    if not summary.complete:
        row["left_out"] = {"partitions": summary.left_out_partitions, "segments": summary.left_out_segments}
    return row
