"""What `klogtool remote fetch` brings back, as rows of JSON (docs/contract.md) and as text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec import Struct

from klogtool.escape import quoted
from klogtool.plans.remote_fetch import FetchedLog
from klogtool.remote.fetching import LogChoice, MissingOffsets
from klogtool.remote.inventory import ListedPartition
from klogtool.render.counts import count_text, offsets_text


class FetchRow(Struct, frozen=True, tag_field="type", tag="answer"):
    """The answer. output, log_end_offset, checkpoints: null if nothing was written. log_end_offset: exclusive. bytes:
    of all files; before they are made, of the logs."""

    command: str
    topic: str
    partition: int
    topic_id: str
    output: str | None
    log_start_offset: int
    log_end_offset: int | None
    bytes: int
    missing: tuple[MissingOffsets, ...]
    checkpoints: dict[str, int] | None


def choice_row(partition: ListedPartition, choice: LogChoice) -> FetchRow:
    """Return the row of what would be fetched."""
    size = sum(source.size for source in choice.sources)
    return _row(partition, None, choice.start, None, size, choice.missing)


def fetched_row(partition: ListedPartition, fetched: FetchedLog, output: str) -> FetchRow:
    """Return the row of what was fetched."""
    start, end = fetched.log_start_offset, fetched.log_end_offset
    return _row(partition, output, start, end, fetched.bytes, fetched.missing)


def _row(
    partition: ListedPartition,
    output: str | None,
    start: int,
    end: int | None,
    size: int,
    missing: Iterable[MissingOffsets],
) -> FetchRow:
    lines = None if end is None else _lines(start, end)
    name = partition.topic, partition.partition, partition.topic_id
    return FetchRow("remote fetch", *name, output, start, end, size, tuple(missing), lines)


def _lines(start: int, end: int) -> dict[str, int]:
    """Return the offsets that belong into checkpoints of a log dir."""
    return {
        "recovery-point-offset-checkpoint": end,
        "replication-offset-checkpoint": end,
        "log-start-offset-checkpoint": start,
    }


def choice_text(partition: ListedPartition, choice: LogChoice) -> Iterator[str]:
    """Yield the lines of what would be fetched."""
    yield f"{partition.topic}-{partition.partition}  {partition.topic_id}"
    yield f"  the log would start at {choice.start:,}"
    for source in choice.sources:
        where = "local" if source.listed is None else source.listed.key.segment_id
        last = "" if source.last_offset is None else f" to {source.last_offset:,}"
        yield f"  from {source.first_offset:,}{last}  {count_text(source.size, 'byte')}  {where}"
    yield from _missing_text(choice.missing)
    yield "Nothing was written. --output DIR writes the partition dir."


def fetched_text(partition: ListedPartition, fetched: FetchedLog, output: str) -> Iterator[str]:
    """Yield the lines of what was fetched, and what to do with it."""
    start, end = fetched.log_start_offset, fetched.log_end_offset
    name = f"{partition.topic}-{partition.partition}"
    yield f"{name}  {partition.topic_id}"
    yield f"  offsets {start:,} to {end:,} (exclusive), {count_text(fetched.bytes, 'byte')} in {quoted(output)}"
    yield from _missing_text(fetched.missing)
    yield "For the same topic, not tiered, in the log dir of a broker that is stopped:"
    yield f"  mv -nT {quoted(os.path.abspath(output))} LOGDIR/{name}"
    for file, offset in _lines(start, end).items():
        yield f"  in LOGDIR/{file}: {partition.topic} {partition.partition} {offset}"
    yield "For another topic or cluster, first:"
    yield f"  klogtool transplant {quoted(output)} --topic-id ID --output TRANSPLANTED --topic ... --partition ..."


def _missing_text(missing: Iterable[MissingOffsets]) -> Iterator[str]:
    for one in missing:
        why = "no segment serves them" if one.why is None else one.why
        yield f"  MISSING {offsets_text(one.first_offset, one.last_offset)}: {why}"
