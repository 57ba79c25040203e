"""What an export did, as rows and as text: a line for each partition, what was left out, and the sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, to_builtins

from klogtool.render.words import count_text

Row = dict[str, object]


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
    reason: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return not self.left_out and self.reason is None


def partition_rows(result: PartitionExport) -> Iterator[Row]:
    """Yield the row of a partition, and one for each range that was left out."""
    row = to_builtins(result)
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
