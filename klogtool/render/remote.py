"""Answers of `klogtool remote`: rows of JSON (docs/contract.md), and text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.tiered.objects import TierLayout
from klogtool.format.tiered.segments import SegmentState
from klogtool.plans.remote_fetch import FetchedLog
from klogtool.plans.remote_metadata import LackedOffsets, RebuiltMetadata
from klogtool.remote.fetching import LogChoice, MissingOffsets
from klogtool.remote.inventory import ListedPartition, ListedSegment
from klogtool.remote.store import RemoteStore
from klogtool.render.words import count_text, offsets_text

MOST_NAMED = 20  # of what cannot be read, or be had
_VALUES = re.compile(r"[\w-]{22}|\d+")  # ids and numbers: what differs between errors of one kind
_OTHERS = {
    TierLayout.ICEBERG: "of Aiven's plugin in Iceberg mode: the records are in Parquet files of a table",
    TierLayout.PINTEREST: "named as Pinterest's uploader names them: local segments, without ids",
    TierLayout.CONFLUENT: "named as Confluent Platform names tiered segments: its layout is not public",
    TierLayout.REDPANDA: "named as Redpanda names tiered segments: not segments of Kafka",
    TierLayout.AUTOMQ: "named as AutoMQ names them: not segments of Kafka",
    TierLayout.WARPSTREAM: "in a folder named as WarpStream names its own: not segments of Kafka",
    TierLayout.INKLESS: "named as Inkless names WAL objects: batches of several partitions in one",
    TierLayout.UNKNOWN: "of no layout that klogtool knows",
}


class RemotePartitionRow(Struct, frozen=True, tag_field="type", tag="partition"):
    """A partition. end_offset: exclusive. states: null without metadata. log_start_offset and the two after it: null
    without a log dir. missing: offsets, first and last, between start and end that no object has."""

    topic: str
    topic_id: str
    partition: int
    layout: str | None
    segments: int
    bytes: int
    start_offset: int | None
    end_offset: int | None
    epochs: tuple[tuple[int, int], ...]
    states: dict[str, int] | None
    log_start_offset: int | None
    local_start_offset: int | None
    log_end_offset: int | None
    missing: list[tuple[int, int]]


class RemoteSegmentRow(Struct, frozen=True, tag_field="type", tag="segment"):
    """A segment. end_offset: inclusive. size: of its log, as a broker had it. state: null without metadata. objects:
    bytes by suffix. error: why its objects do not say what it is."""

    topic: str
    partition: int
    segment_id: str
    start_offset: int
    end_offset: int | None
    epochs: tuple[tuple[int, int], ...]
    size: int | None
    state: str | None
    event_ms: int | None
    objects: dict[str, int]
    error: str | None


class UnreadRow(Struct, frozen=True):
    """What could not be read. more: how many others cannot be read for a reason of the same kind."""

    path: str | None
    position: int | None
    why: str
    more: int


class StoreSummaryRow(Struct, frozen=True, tag_field="type", tag="summary"):
    """The whole store. foreign: objects that are of no segment; foreign_layout: whose they are. unread: how many errors
    there were; first_unread: the first of each kind, no more than a few."""

    partitions: int
    segments: int
    bytes: int
    foreign: int
    foreign_layout: str | None
    unread: int
    first_unread: list[UnreadRow]


def listed_rows(partition: ListedPartition) -> Iterator[Struct]:
    """Yield the row of a partition, then those of its segments."""
    local = partition.local
    states = {state.value: count for state, count in sorted(partition.states.items(), key=lambda one: one[0].value)}
    yield RemotePartitionRow(
        partition.topic,
        partition.topic_id,
        partition.partition,
        None if partition.layout is None else partition.layout.value,
        len(partition.stored),
        partition.size,
        partition.start_offset,
        partition.end_offset,
        partition.epochs,
        states if partition.has_metadata else None,
        None if local is None else local.start,
        None if local is None else local.local_start,
        None if local is None else local.end,
        partition.holes,
    )
    for segment in partition.segments:
        yield segment_row(partition, segment)


def segment_row(partition: ListedPartition, segment: ListedSegment) -> RemoteSegmentRow:
    """Return the row of a segment."""
    known = segment.metadata
    return RemoteSegmentRow(
        partition.topic,
        partition.partition,
        segment.key.segment_id,
        segment.start_offset,
        None if known is None else known.end_offset,
        () if known is None else known.epochs,
        None if known is None else known.size,
        None if segment.state is SegmentState.UNKNOWN else segment.state.value,
        None if known is None else known.event_ms,
        {} if segment.stored is None else {name: one.size for name, one in sorted(segment.stored.objects.items())},
        None if segment.problem is None else segment.problem.reason,
    )


def first_unread(errors: Iterable[KlogError]) -> list[UnreadRow]:
    """Return the first error of each kind: those that differ in ids and numbers only are of one."""
    first: dict[str, UnreadRow] = {}
    for error in errors:
        kind = _VALUES.sub("", error.reason)
        if (known := first.get(kind)) is None:
            first[kind] = UnreadRow(error.path, error.position, error.reason, 0)
        else:
            first[kind] = replace(known, more=known.more + 1)
    return list(first.values())


def unread_lines(errors: Sequence[KlogError], *, verbose: bool) -> Iterator[str]:
    """Yield a line for each kind of error, with the first object, no more than a few. verbose: for each error."""
    if verbose:
        yield from map(str, errors)
        return
    kinds = first_unread(errors)
    for one in kinds[:MOST_NAMED]:
        more = f" (and {one.more:,} more like this: -v shows all)" if one.more else ""
        yield f"{KlogError(one.why, path=one.path, position=one.position)}{more}"
    if left := sum(1 + one.more for one in kinds[MOST_NAMED:]):
        yield f"and {left:,} more (-v shows all)"


def store_summary(
    store: RemoteStore, partitions: list[ListedPartition], errors: Sequence[KlogError]
) -> StoreSummaryRow:
    """Return the row of the whole store. errors: why objects or metadata cannot be read."""
    return StoreSummaryRow(
        len(partitions),
        sum(len(partition.stored) for partition in partitions),
        sum(partition.size for partition in partitions),
        len(store.foreign),
        store.others.value if store.foreign else None,
        len(errors),
        first_unread(errors)[:MOST_NAMED],
    )


def listed_text(partition: ListedPartition, *, verbose: bool) -> Iterator[str]:
    """Yield the lines of a partition; verbose: with one for each segment."""
    layout = "no objects" if partition.layout is None else partition.layout.value
    end = "an unknown end" if partition.end_offset is None else f"{partition.end_offset - 1:,}"
    stored = f"{count_text(len(partition.stored), 'segment')}, {count_text(partition.size, 'byte')}"
    yield f"{partition.topic}-{partition.partition}  {partition.topic_id}  {layout}"
    yield f"  offsets {partition.start_offset:,} to {end}, {_epochs_text(partition.epochs)}; {stored}"
    if holes := partition.holes:
        more = f" and {len(holes) - MOST_NAMED:,} more ranges" if len(holes) > MOST_NAMED else ""
        yield f"  no object has {', '.join(offsets_text(*one) for one in holes[:MOST_NAMED])}{more}"
    if partition.has_metadata:
        yield f"  metadata: {_states_text(partition)}"
    elif partition.stored:
        yield "  metadata: none"
    if (local := partition.local) is not None:
        yield f"  broker: log starts at {local.start:,}, local from {local.local_start:,}, ends at {local.end:,}"
    for segment in partition.segments if verbose else ():
        yield f"    {_segment_text(segment)}"


def _states_text(partition: ListedPartition) -> str:
    named = {SegmentState.UNKNOWN: "without metadata"}
    states = sorted(partition.states.items(), key=lambda one: one[0].value)
    return ", ".join(f"{count:,} {named.get(state, state.value)}" for state, count in states)


def _epochs_text(epochs: tuple[tuple[int, int], ...]) -> str:
    if not epochs:
        return "leader epochs unknown"
    names = ", ".join(f"{epoch} from {start:,}" for epoch, start in epochs)
    return f"leader {'epoch' if len(epochs) == 1 else 'epochs'} {names}"


def _segment_text(segment: ListedSegment) -> str:
    state = "no metadata" if segment.state is SegmentState.UNKNOWN else segment.state.value
    if segment.problem is not None:
        state = f"{state}; {segment.problem.reason}"
    end = "?" if segment.metadata is None else f"{segment.metadata.end_offset:,}"
    objects = "no objects" if segment.stored is None else count_text(segment.size, "byte")
    return f"{segment.key.segment_id}  {segment.start_offset:,} to {end}  {objects}  {state}"


def store_text(store: RemoteStore, whole: StoreSummaryRow) -> Iterator[str]:
    """Yield the closing lines."""
    counts = f"{count_text(whole.partitions, 'partition')}, {count_text(whole.segments, 'segment')}"
    yield f"{counts}, {count_text(whole.bytes, 'byte')}"
    if store.foreign:
        first = store.foreign[0].path
        yield f"{count_text(whole.foreign, 'other object')}, {_OTHERS[store.others]}; the first: {first}"


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
    return _fetch_row(partition, None, choice.start, None, size, choice.missing)


def fetched_row(partition: ListedPartition, fetched: FetchedLog, output: str) -> FetchRow:
    """Return the row of what was fetched."""
    start, end = fetched.log_start_offset, fetched.log_end_offset
    return _fetch_row(partition, output, start, end, fetched.bytes, fetched.missing)


def _fetch_row(
    partition: ListedPartition,
    output: str | None,
    start: int,
    end: int | None,
    size: int,
    missing: Iterable[MissingOffsets],
) -> FetchRow:
    lines = None if end is None else _checkpoint_lines(start, end)
    name = partition.topic, partition.partition, partition.topic_id
    return FetchRow("remote fetch", *name, output, start, end, size, tuple(missing), lines)


def _checkpoint_lines(start: int, end: int) -> dict[str, int]:
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
    for file, offset in _checkpoint_lines(start, end).items():
        yield f"  in LOGDIR/{file}: {partition.topic} {partition.partition} {offset}"
    yield "For another topic or cluster, first:"
    yield f"  klogtool transplant {quoted(output)} --topic-id ID --output TRANSPLANTED --topic ... --partition ..."


def _missing_text(missing: Iterable[MissingOffsets]) -> Iterator[str]:
    for number, one in enumerate(missing := list(missing)):
        if number == MOST_NAMED:
            yield f"  and {len(missing) - MOST_NAMED:,} more such ranges (--json names all)"
            break
        path = "" if one.path is None else f"{one.path}: "
        why = "no segment serves them" if one.why is None else f"{path}{one.why}"
        offsets = f"offsets from {one.first_offset:,} on"  # nobody knows how many
        if one.last_offset is not None:
            offsets = offsets_text(one.first_offset, one.last_offset)
        yield f"  MISSING {offsets}: {why}"


class LeftOutRow(Struct, frozen=True):
    """Objects without a record. why: null if they lie below the start of the log."""

    path: str
    why: str | None


class RebuiltMetadataRow(Struct, frozen=True, tag_field="type", tag="answer"):
    """The answer. partitions: of the topic; folders: those that have records. missing: offsets that no object has."""

    command: str
    output: str | None
    partitions: int
    folders: list[str]
    segments: int
    left_out: list[LeftOutRow]
    missing: list[LackedOffsets]


def rebuilt_row(rebuilt: RebuiltMetadata, output: str | None) -> RebuiltMetadataRow:
    """Return the row."""
    left_out = [LeftOutRow(one.path, one.why) for one in rebuilt.left_out]
    return RebuiltMetadataRow(
        "remote metadata",
        output,
        rebuilt.partitions,
        rebuilt.folders,
        len(rebuilt.segments),
        left_out,
        list(rebuilt.missing),
    )


def rebuilt_text(rebuilt: RebuiltMetadata, output: str | None, *, is_adopted: bool, verbose: bool) -> Iterator[str]:
    """Yield what it has, and what to do with it."""
    folders = count_text(len(rebuilt.folders), "partition dir")
    partitions = count_text(rebuilt.partitions, "partition")
    yield f"{count_text(len(rebuilt.segments), 'segment')} in {folders}, of {partitions}"
    left_out = [KlogError(one.why or "below the start of the log", path=one.path) for one in rebuilt.left_out]
    yield from (f"  left out: {line}" for line in unread_lines(left_out, verbose=verbose))
    for lacked in rebuilt.missing[:MOST_NAMED]:
        offsets = offsets_text(lacked.first_offset, lacked.last_offset)
        yield f"  MISSING {lacked.topic}-{lacked.partition} {offsets}: no object has them"
    if (more := len(rebuilt.missing) - MOST_NAMED) > 0:
        yield f"  and {more:,} more such ranges (--json names all)"
    if output is None:
        yield "Nothing was written. --output DIR writes the partition dirs."
        return
    yield "While all brokers are stopped, in each log dir that has the partition dir of the same name:"
    for name in rebuilt.folders:
        yield f"  mv LOGDIR/{name} ELSEWHERE/ && cp -r {quoted(os.path.join(os.path.abspath(output), name))} LOGDIR/"
    yield "Delete the topic's lines in the checkpoints of LOGDIR."
    if rebuilt.topic_id is None:
        yield "Keep the file partition.metadata of the old dirs: a broker sets a dir without it aside (-stray). If they"
        yield "are gone, name the log dir that has __cluster_metadata-0 with --local: it has the topic's id."
    if is_adopted:
        yield "For the adopted topic: its local dirs have a leader-epoch-checkpoint with the one entry `0 0`, its lines"
        yield "in log-start-offset-checkpoint are the starts of the segments, and remote-log-index-cache is emptied."
