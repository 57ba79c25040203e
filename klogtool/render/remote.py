"""Answers of `klogtool remote`: rows of JSON (docs/contract.md), and text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec import Struct

from klogtool.escape import quoted
from klogtool.format.tiered.objects import TierLayout
from klogtool.format.tiered.segments import SegmentState
from klogtool.plans.remote_fetch import FetchedLog
from klogtool.plans.remote_metadata import RebuiltMetadata
from klogtool.remote.fetching import LogChoice, MissingOffsets
from klogtool.remote.inventory import ListedPartition, ListedSegment
from klogtool.remote.store import RemoteStore
from klogtool.render.counts import count_text, offsets_text

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
    """A partition. end_offset: exclusive. states: null without metadata. The last three: null without a log dir."""

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


class StoreSummaryRow(Struct, frozen=True, tag_field="type", tag="summary"):
    """The whole store. foreign: objects that are of no segment; foreign_layout: whose they are."""

    partitions: int
    segments: int
    bytes: int
    foreign: int
    foreign_layout: str | None


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


def store_summary(store: RemoteStore, partitions: list[ListedPartition]) -> StoreSummaryRow:
    """Return the row of the whole store."""
    return StoreSummaryRow(
        len(partitions),
        sum(len(partition.stored) for partition in partitions),
        sum(partition.size for partition in partitions),
        len(store.foreign),
        store.others.value if store.foreign else None,
    )


def listed_text(partition: ListedPartition, *, verbose: bool) -> Iterator[str]:
    """Yield the lines of a partition; verbose: with one for each segment."""
    layout = "no objects" if partition.layout is None else partition.layout.value
    end = "an unknown end" if partition.end_offset is None else f"{partition.end_offset - 1:,}"
    stored = f"{count_text(len(partition.stored), 'segment')}, {count_text(partition.size, 'byte')}"
    yield f"{partition.topic}-{partition.partition}  {partition.topic_id}  {layout}"
    yield f"  offsets {partition.start_offset:,} to {end}, {_epochs_text(partition.epochs)}; {stored}"
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
    objects = "no objects" if segment.stored is None else f"{count_text(segment.size, 'byte')}"
    return f"{segment.key.segment_id}  {segment.start_offset:,} to {end}  {objects}  {state}"


def store_text(store: RemoteStore, partitions: list[ListedPartition]) -> Iterator[str]:
    """Yield the closing lines."""
    whole = store_summary(store, partitions)
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
    for one in missing:
        why = "no segment serves them" if one.why is None else one.why
        yield f"  MISSING {offsets_text(one.first_offset, one.last_offset)}: {why}"


class LeftOutRow(Struct, frozen=True):
    """Objects without a record. why: null if they lie below the start of the log."""

    path: str
    why: str | None


class RebuiltMetadataRow(Struct, frozen=True, tag_field="type", tag="answer"):
    """The answer. partitions: of the topic; folders: those that have records."""

    command: str
    output: str | None
    partitions: int
    folders: list[str]
    segments: int
    left_out: list[LeftOutRow]


def rebuilt_row(rebuilt: RebuiltMetadata, output: str | None) -> RebuiltMetadataRow:
    """Return the row."""
    left_out = [LeftOutRow(one.path, one.why) for one in rebuilt.left_out]
    return RebuiltMetadataRow(
        "remote metadata", output, rebuilt.partitions, rebuilt.folders, len(rebuilt.segments), left_out
    )


def rebuilt_text(rebuilt: RebuiltMetadata, output: str | None, *, is_adopted: bool) -> Iterator[str]:
    """Yield what it has, and what to do with it."""
    folders = count_text(len(rebuilt.folders), "partition dir")
    yield f"{count_text(len(rebuilt.segments), 'segment')} in {folders}, of {rebuilt.partitions:,} partitions"
    for one in rebuilt.left_out:
        yield f"  left out: {one.path}: {one.why or 'below the start of the log'}"
    if output is None:
        yield "Nothing was written. --output DIR writes the partition dirs."
        return
    yield "While all brokers are stopped, in each log dir that has the partition dir of the same name:"
    for name in rebuilt.folders:
        yield f"  mv LOGDIR/{name} ELSEWHERE/ && cp -r {quoted(os.path.join(os.path.abspath(output), name))} LOGDIR/"
    yield "Keep the file partition.metadata of the old dir, and delete the topic's lines in the checkpoints of LOGDIR."
    if is_adopted:
        yield "For the adopted topic: its local dirs have a leader-epoch-checkpoint with the one entry `0 0`, its lines"
        yield "in log-start-offset-checkpoint are the starts of the segments, and remote-log-index-cache is emptied."
