"""Findings of verify and their summary: as blocks of text for people, and as rows for JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klogtool.escape import escaped, joined
from klogtool.render.counts import count_text
from klogtool.verify.findings import Finding, Severity

if TYPE_CHECKING:
    from klogtool.verify.verification import Summary
    from klogtool.verify.weighing import NotCounted


# What an id means, and what readers or a broker do then, in one to three sentences. docs/findings.md has the details.
MEANINGS = {
    "batch-crc": "Bytes under the CRC have changed since they were written. Consumers stop here until they seek past "
    "the batch. A broker that recovers this segment cuts the log at this byte.",
    "batch-header": "A field that no CRC covers contradicts the rest. The records are whole. A broker uses the field "
    "as it is, or cuts the log here.",
    "batch-attributes": "No broker writes such a batch, although its CRC matches.",
    "torn-batch": "The last write was not finished. A broker that recovers this segment cuts the batch off. A "
    "broker that "
    "does not recover it appends after it, and loses what it appends.",
    "zero-tail": "The file was extended before its data was written, for example at a power failure. A broker that "
    "recovers this segment cuts the zeros off. A broker that does not recover it may refuse to start.",
    "foreign-bytes": "These bytes are not a batch. Consumers stop here. A broker that recovers this segment cuts the "
    "log at this byte.",
    "offset-order": "Offsets must increase. Consumers pass over what goes back, unless a fetch begins exactly here. A "
    "broker that recovers this segment may empty it completely.",
    "offset-overflow": "An index of this segment cannot hold the offset. A broker that recovers this segment "
    "splits it.",
    "records-invalid": "Consumers stop in this batch, or see fewer or other records than were written.",
    "epoch-order": "Leader epochs never decrease. Followers may truncate their logs at the wrong offset.",
    "sequence-gap": "Batches of this producer are missing, or are in a different order.",
    "timestamp-implausible": "Retention by time waits until the newest timestamp of a segment is old enough.",
    "index-missing": "Rebuilding reads the whole segment, so damage that was not noticed before will surface.",
    "index-size": "The bytes after the last whole entry are not an entry. A broker that trims the file cuts them off.",
    "index-order": "Lookups in it find a wrong position: readers may start too late, or at the beginning.",
    "index-entry": "Readers that look up an offset here may start in the middle of a batch, or too late.",
    "timeindex-missing": "Until it is rebuilt, nothing says which times are in the segment.",
    "timeindex-size": "The bytes after the last whole entry are not an entry. A broker that trims the file cuts "
    "them off.",
    "timeindex-order": "Lookups by time find a wrong position.",
    "timeindex-entry": "Lookups by time skip records, or retention uses a wrong time.",
    "timeindex-max": "Retention and lookups by time treat this segment as older than it is.",
    "txnindex-missing": "Consumers with read_committed see aborted records as committed. A broker does not notice.",
    "txnindex-size": "A broker reads only whole entries, and appends new entries after the rest, where they are "
    "not found.",
    "txnindex-entry": "Consumers with read_committed see aborted records as committed, or miss committed records. "
    "A broker "
    "does not notice.",
    "index-untrimmed": "This is normal after a kill, and in __cluster_metadata-0 after any stop of Kafka 4.4.0. "
    "A broker that recovers this segment trims the file.",
    "snapshot-corrupt": "A broker restores the producers from an older snapshot and from the log after it.",
    "snapshot-content": "A broker that loads it accepts duplicates, or refuses new records.",
    "snapshot-stray": "It describes records that are not in the log.",
    "snapshot-missing": "Brokers that keep one for each segment can truncate a log without reading all of it.",
    "epochs-corrupt": "A broker cannot load the log dir, or does not start.",
    "epochs-content": "Followers that ask for the end of an epoch get a wrong answer, and truncate too much or too "
    "little.",
    "epochs-missing": "Followers that ask for the end of an epoch get no answer.",
    "partition-metadata-corrupt": "A broker cannot load the log dir, or does not start.",
    "partition-metadata-missing": "If topics have ids, a broker does not recognise the partition without it.",
    "topic-id-mismatch": "The partition belongs to another topic of the same name, or was copied from elsewhere.",
    "segment-gap": "This is normal after compaction. Otherwise records are lost.",
    "segment-overlap": "Readers get one copy or the other, and may miss records between them.",
    "segment-name": "A broker knows where a segment starts only by its name.",
    "orphan-file": "If the segment was not deleted on purpose, its records are lost.",
    "leftover-cleaned": "A cleaning or a split was interrupted before it was complete.",
    "leftover-swap": "A cleaning or a split was interrupted when it was almost complete.",
    "leftover-deleted": "Until a broker starts, the deletion can be taken back.",
    "foreign-file": "It takes up space and does no harm.",
    "foreign-folder": "A log dir may contain only partition dirs.",
    "duplicate-partition": "A broker cannot decide which copy to use.",
    "checkpoint-corrupt": "It can be deleted. A broker then finds its contents again, at a cost.",
    "checkpoint-entry": "The file contradicts the logs.",
    "meta-properties-corrupt": "It says which broker and cluster the log dir belongs to.",
    "meta-properties-missing": "It says which broker and cluster the log dir belongs to.",
    "meta-properties-conflict": "All log dirs of a broker have the same cluster id and node id, and each has its "
    "own directory id.",
    "kraft-snapshot-corrupt": "Without it the cluster's metadata may be lost. Then every partition becomes a stray.",
    "metadata-replay": "The record is sound, but contradicts those before it. A controller that reads it ends.",
    "quorum-voter": "A dynamic quorum knows its voters by node id and directory id.",
    "quorum-state-corrupt": "It records which candidate this node voted for.",
    "unclean-shutdown": "This is normal after a kill, and while a broker is running.",
    "clean-marker-false": "This is the most dangerous state: a broker acknowledges what it writes next, and then "
    "loses it.",
    "unreadable": "If the broker cannot read it, it takes this log dir offline.",
}
# What a field adds to the meaning of an id. Each sentence about consumers was tried with Kafka's own.
OF_FIELDS = {
    (
        "batch-header",
        "base_offset",
    ): "Consumers get its records under these offsets, and miss records that follow under lower ones.",
    ("batch-header", "length"): "After a clean stop, a broker may end the log here, or refuse to start.",
    (
        "batch-header",
        "magic",
    ): "Consumers stop here. With magic 0 or 1 they stop already at the fetch that has this batch.",
    ("batch-header", "partition_leader_epoch"): "Consumers do not notice.",
    ("batch-attributes", "attributes"): "Consumers read on.",
    ("batch-attributes", "codec"): "Consumers stop at the first fetch that has this batch, also before it.",
    ("batch-attributes", "last_offset_delta"): "Consumers read on.",
    (
        "batch-attributes",
        "records_count",
    ): "Consumers read the records that are in it, and miss later records at the same "
    "offsets. If there are fewer records than that, they stop.",
    ("batch-attributes", "size"): "Consumers stop here, or pass over its records.",
    ("batch-attributes", "producer"): "Consumers read on. A broker may refuse what this producer sends next.",
}
# Where a field makes the meaning of an id another one.
INSTEAD = {("records-invalid", "header"): "The records can be read: consumers get them as they are."}
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
        lines = [f"{LABELS[finding.severity]:<9}{self._name(finding.path)}"]
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

    def _name(self, path: str) -> str:
        name = path
        if len(self._roots) == 1 and path.startswith(self._roots[0].rstrip("/") + "/"):
            name = os.path.relpath(path, self._roots[0])
        return name


def explained_text(finding: Finding) -> str:
    """Return what is wrong, and what that means, in sentences."""
    key = finding.id, finding.field or ""
    meaning = _UNCHECKED if finding.is_unchecked else INSTEAD.get(key, MEANINGS[finding.id])
    more = OF_FIELDS.get(key)
    return " ".join([_sentence(finding.detail), meaning, *([] if more is None else [more])])


def where_texts(finding: Finding) -> Iterator[str]:
    """Yield the field, the bytes and the offsets, as far as they apply."""
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
    """Add a capital, unless the first word may be a name (t-0, cluster.id), and a full stop."""
    word = text.partition(" ")[0].removesuffix(",").removesuffix(":")
    first = text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text
    return first if first.endswith(".") else first + "."


def closing_line(summary: Summary, not_counted: NotCounted | None, *, notes_shown: bool, status: int) -> str:
    """Return the last line: how many of each severity, what was read, what did not count, the exit status."""
    found = [count_text(summary.errors, "error"), count_text(summary.warnings, "warning")]
    notes = count_text(summary.infos, "note")
    if summary.infos and not notes_shown:
        notes += " (--notes shows them)"
    what = f"{count_text(summary.records, 'record')} in {count_text(summary.batches, 'batch', 'batches')}"
    read = f"{what} read" if summary.deep else f"{what}, by their headers (--deep opens them)"
    left_out = [] if summary.complete else [f"Left out: {_left_out(summary)}"]
    apart = [] if not_counted is None else list(not_counted_texts(not_counted))
    sentences = [", ".join([*found, notes]), *apart, read, *left_out]
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


def _by_teller(counts: Mapping[tuple[str, str], int]) -> Iterator[tuple[str, int, str]]:
    """Yield each file or option with the number of findings and their ids."""
    for told_by in dict.fromkeys(teller for teller, _ in counts):
        ids = {finding_id: count for (teller, finding_id), count in counts.items() if teller == told_by}
        yield told_by, sum(ids.values()), ", ".join(f"{finding_id} {count:,}" for finding_id, count in ids.items())


def _why_not_read(summary: Summary) -> Iterator[tuple[bool, str]]:
    yield summary.was_time_up, "time was up (--max-duration)"
    yield summary.was_changed, "files went away while they were read: does a broker run here?"
    yield not summary.was_time_up and not summary.was_changed, "not in this subset (--subset)"


def left_out_line(summary: Summary, excluded_by: Sequence[str] = ()) -> str:
    """Return the line that says what was not read, and why. It comes first if something was left out."""
    reasons = []
    if not summary.is_as_asked:
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


def finding_row(finding: Finding, *, is_known: bool = False) -> dict[str, Any]:
    """Return a finding in JSON's types; fields that do not apply are absent."""
    fields = ("start", "end", "first_offset", "last_offset", "field", "detail", "cure")
    row: dict[str, Any] = {
        "type": "finding",
        "id": finding.id,
        "severity": finding.severity.value,
        "path": finding.path,
    }
    row |= {name: value for name in fields if (value := getattr(finding, name)) is not None}
    return row | {"known": True} if is_known else row


def summary_row(summary: Summary, not_counted: NotCounted | None) -> dict[str, Any]:
    """Return the summary in JSON's types; fields about what did not count are absent if there is nothing to tell."""
    names = ("partitions", "files", "batches", "records", "bytes", "seconds", "errors", "warnings", "infos")
    row: dict[str, Any] = {"type": "summary", **{name: getattr(summary, name) for name in names}}
    row["seconds"] = round(summary.seconds, 3)
    row["deep"] = summary.deep
    row["complete"] = summary.complete
    row |= {} if not_counted is None else _not_counted_fields(not_counted)
    if not summary.is_as_asked:
        row["left_out"] = {"partitions": summary.left_out_partitions, "segments": summary.left_out_segments}
    if summary.excluded_partitions or summary.excluded_paths:
        row["excluded"] = {"partitions": summary.excluded_partitions, "paths": summary.excluded_paths}
    return row


def _not_counted_fields(not_counted: NotCounted) -> dict[str, Any]:
    row: dict[str, Any] = {} if not_counted.known is None else {"known": not_counted.known}
    if not_counted.gone:
        row["gone"] = [{"id": one.id, "path": one.path, "count": one.count} for one in not_counted.gone]
    for name, counts in (("ignored", not_counted.ignored), ("changed", not_counted.changed)):
        if counts:
            row[name] = [{"id": one, "by": by, "count": count} for (by, one), count in counts.items()]
    return row
