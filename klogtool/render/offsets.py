"""Committed offsets of groups: JSON rows of the contract (docs/contract.md), text, and the CSV of Kafka's tool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from msgspec import to_builtins
from msgspec.structs import asdict

from klogtool.broker.coordinator.committed_offsets import (
    CommittedOffset,
    LoadedOffsets,
    LogRange,
    LogRanges,
    OutOfRange,
    UnreadBytes,
)
from klogtool.broker.timestamps import time_text
from klogtool.format.batch import NO_PRODUCER_ID
from klogtool.format.names import OFFSETS_TOPIC
from klogtool.log.folder import own_name
from klogtool.render.words import Row, count_text, number_table

_HEADS = ("topic", "partition", "offset", "log end", "lag", "committed")
_NUMBERS = range(1, 5)  # columns that are aligned to the right
_NOT_AT_HAND = "-"
_PLAIN_IN_CSV = re.compile(r"[A-Za-z0-9._-]+")


def offset_row(one: CommittedOffset, ranges: LogRanges, result: LoadedOffsets) -> Row:
    """Return a row for JSON. lag, out_of_range: null if the partition is not at hand; coordinator_partition: null if it
    is unknown how many partitions `__consumer_offsets` has."""
    commit = one.commit
    log = ranges.find(commit.topic, commit.partition)
    where = None if log is None else log.judge(commit.offset)
    row: Row = {"type": "committed" if one.producer_id == NO_PRODUCER_ID else "pending"}
    row |= {
        **asdict(commit),
        "timestamp": one.timestamp,
        "log_start_offset": None if log is None else log.start,
        "log_end_offset": None if log is None else log.end,
        "lag": None if log is None else log.end - commit.offset,
        "out_of_range": None if where is None else where.value,
        "stored_in": one.stored_in,
        "coordinator_partition": result.coordinator_of(commit.group),
    }
    return row if one.producer_id == NO_PRODUCER_ID else row | {"producer_id": one.producer_id}


def answer_row(result: LoadedOffsets, at_ms: int | None, ranges: LogRanges) -> Row:
    """Return the contract's answer (docs/contract.md)."""
    return {
        "at": at_ms,
        "groups": len({one.commit.group for one in result.committed}),
        "committed": len(result.committed),
        "pending": len(result.pending),
        "out_of_range": len(out_of_range(result, ranges)),
        "partitions": result.partitions,
        "unserved": len(result.unserved),
        "complete": not result.damage and not result.has_foreign and is_complete_at(result, at_ms),
        "complete_from": result.complete_from,
        "logs": to_builtins(result.logs),
    }


def is_complete_at(result: LoadedOffsets, at_ms: int | None) -> bool:
    """Whether compaction and deleted segments left all that was committed at that time; None: at the end."""
    from_start = all(log.log_start_offset == 0 for log in result.logs)
    return from_start and (at_ms is None or result.complete_from is None or result.complete_from <= at_ms)


# Text.


def group_texts(result: LoadedOffsets, ranges: LogRanges) -> Iterator[str]:
    """Yield the lines of one group after another."""
    for group, commits in groupby(result.committed, key=lambda one: one.commit.group):
        yield f"group {group or '(no name)'}"
        yield from (f"  {line}" for line in number_table([_HEADS, *(_cells(c, ranges) for c in commits)], _NUMBERS))
        yield ""
    yield from _out_of_range_lines(result, ranges)
    yield from _unserved_lines(result)
    if result.pending:
        yield "In open transactions: these offsets do not count yet."
        rows: list[tuple[str, ...]] = [("group", *_HEADS[:3], "producer id")]
        rows += [(one.commit.group, *_cells(one, ranges)[:3], str(one.producer_id)) for one in result.pending]
        yield from (f"  {line}" for line in number_table(rows, (2, 3, 4)))
        yield ""


def out_of_range(result: LoadedOffsets, ranges: LogRanges) -> list[tuple[CommittedOffset, LogRange, OutOfRange]]:
    """Return the committed offsets that are outside of their log, with the log and where they lie."""
    logs = ((one, ranges.find(one.commit.topic, one.commit.partition)) for one in result.committed)
    return [(one, log, where) for one, log in logs if log is not None and (where := log.judge(one.commit.offset))]


def _out_of_range_lines(result: LoadedOffsets, ranges: LogRanges) -> Iterator[str]:
    outside = out_of_range(result, ranges)
    if not outside:
        return
    yield (
        f"OUT OF RANGE: {count_text(len(outside), 'committed offset')}. There, consumers of these groups go on at the "
        "log start or the log end, as their auto.offset.reset says; with none they fail."
    )
    for one, log, where in outside:
        commit = one.commit
        place = (
            f"below the log start {log.start:,}"
            if where is OutOfRange.BELOW_LOG_START
            else f"beyond the log end {log.end:,}"
        )
        yield f"  group {commit.group or '(no name)'}: {commit.topic}-{commit.partition} at {commit.offset:,}, {place}"
    yield ""


def _unserved_lines(result: LoadedOffsets) -> Iterator[str]:
    if not result.unserved:
        return
    count = count_text(len(result.unserved), "committed offset")
    partitions = count_text(result.partitions or 0, "partition")
    yield (
        f"NOT SERVED: {count}. {OFFSETS_TOPIC} has {partitions} now; these commits were written when it had another "
        "number. Nobody asks for these groups where they lie: their consumers go on where auto.offset.reset says. "
        "--format csv prints what kafka-consumer-groups.sh --reset-offsets --from-file takes, to commit them again."
    )
    groups = {(one.commit.group, one.stored_in): result.coordinator_of(one.commit.group) for one in result.unserved}
    for (group, stored_in), leads in groups.items():
        name, home = group or "(no name)", f"{OFFSETS_TOPIC}-{stored_in}"
        yield f"  group {name}: in {home}, its coordinator leads {OFFSETS_TOPIC}-{leads}"
    yield ""


def _cells(one: CommittedOffset, ranges: LogRanges) -> tuple[str, ...]:
    commit = one.commit
    log = ranges.find(commit.topic, commit.partition)
    end_and_lag = (_NOT_AT_HAND, _NOT_AT_HAND) if log is None else (f"{log.end:,}", f"{log.end - commit.offset:,}")
    return commit.topic, str(commit.partition), f"{commit.offset:,}", *end_and_lag, time_text(one.timestamp)


def closing_texts(result: LoadedOffsets, at_ms: int | None, ranges: LogRanges) -> Iterator[str]:
    """Yield how much there is, of which time, and since when it is complete."""
    groups = len({one.commit.group for one in result.committed})
    when = "" if at_ms is None else f", as of {time_text(at_ms)}"
    text = f"{count_text(groups, 'group')}, {count_text(len(result.committed), 'committed offset')}{when}"
    yield f"{text}; {count_text(len(result.logs), 'partition')} of __consumer_offsets read"
    if any(ranges.find(one.commit.topic, one.commit.partition) is None for one in result.committed):
        yield "-: the partition is not under the given paths, so its log end is not known"
    if result.damage:
        yield "history: not known, because a log is damaged"
    elif result.complete_from is not None:
        yield f"history: complete from {time_text(result.complete_from)} on; compaction removed earlier commits"
    elif result.logs and not result.has_foreign:
        yield "history: complete since the log start; compaction removed nothing"


# Notes.


def history_notes(result: LoadedOffsets, at_ms: int | None) -> Iterator[str]:
    """Yield what is not known of the time that was asked for, and which copies were not read."""
    for group, numbers in result.scattered.items() if result.partitions is None else ():
        places = " and ".join(f"{OFFSETS_TOPIC}-{number}" for number in numbers)
        yield (
            f"group {group or '(no name)'}: commits in {places}, so the number of partitions was changed. Only the "
            "partition of its coordinator counts, and only __cluster_metadata shows which that is: those that were "
            "committed last are shown"
        )
    for log in result.logs:
        if at_ms is not None and log.complete_from is not None and at_ms < log.complete_from:
            yield (
                f"{log.path}: complete only from {time_text(log.complete_from)} on: of earlier times, commits are "
                "missing that compaction removed"
            )
        if log.log_start_offset > 0:
            yield (
                f"{log.path}: starts at offset {log.log_start_offset:,}: what groups committed only before that is gone"
            )
        for other in log.others:
            yield f"{log.path}: read in place of {other}, which is another copy of {own_name(log.path)}"


def foreign_texts(result: LoadedOffsets) -> Iterator[str]:
    """Yield which logs have records that are no group's, and what a broker makes of them."""
    for log in result.logs:
        if log.foreign:
            broker = "" if log.load_ends else " A broker passes over them (Unknown record type)"
            yield (
                f"{log.path}: no group coordinator wrote {log.foreign:,} of its {count_text(log.records, 'record')}: "
                f"is this the folder of another partition?{broker}"
            )
        if log.load_ends is not None:
            yield (
                f"{log.path}: a group coordinator cannot read the record at offset {log.load_ends.offset:,} "
                f"({log.load_ends.reason}): a broker serves no group of this partition (before 4.0: it forgets all of "
                "its offsets). klogtool doctor says what to do"
            )


def left_out_text(one: UnreadBytes) -> str:
    """Return what is missing, and why."""
    if one.offset is not None and one.start is not None:
        return f"{one.path}: at byte {one.start}: {one.reason}: which commits are the latest may be false"
    if one.offset is not None:
        return f"{one.path}: the record at offset {one.offset:,} cannot be read: {one.reason}"
    return f"{one.path}: bytes {one.start:,} to {one.end:,} are left out: {one.reason}. Commits in them are missing"


# CSV.


def csv_lines(result: LoadedOffsets, *, with_group: bool) -> Iterator[str]:
    """Yield the lines that kafka-consumer-groups.sh --reset-offsets --from-file takes (CsvUtils).

    with_group: for several groups. Names with a line end are left out: the tool reads line by line.
    """
    for one in result.committed:
        commit = one.commit
        names = [commit.group, commit.topic] if with_group else [commit.topic]
        if not has_line_end(one):
            yield ",".join([*map(_quoted, names), str(commit.partition), str(commit.offset)])


def has_line_end(one: CommittedOffset) -> bool:
    """Whether a name in it cannot be told in CSV."""
    return any(end in one.commit.group + one.commit.topic for end in "\n\r")


def _quoted(text: str) -> str:
    return text if _PLAIN_IN_CSV.fullmatch(text) else '"' + text.replace('"', '""') + '"'
