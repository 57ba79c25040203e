"""The answer of build, as text."""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.escape import as_paragraph
from klogtool.plans.build import BuildResult, PartitionTotals
from klogtool.render.words import count_text

MOST_NAMED = 20  # partitions in the text


@as_paragraph
def build_text(result: BuildResult, output: str) -> Iterator[str]:
    """Return what was built, a line for each partition."""
    partitions = result.partitions
    yield from map(_partition_line, partitions[:MOST_NAMED])
    if len(partitions) > MOST_NAMED:
        yield f"... and {len(partitions) - MOST_NAMED:,} more partitions"
    wounds = f", {count_text(result.wounds, 'wound')}" if result.wounds else ""
    files = count_text(result.files, "file")
    yield f"{output}: {files} of {result.bytes:,} bytes, as Kafka {result.kafka} leaves them{wounds}"


def _partition_line(row: PartitionTotals) -> str:
    segments = count_text(row.segments, "segment")
    batches = count_text(row.batches, "batch", "batches")
    offsets = f"offsets {row.log_start_offset:,} to {row.log_end_offset:,}"
    return f"{row.partition}: {offsets}, {segments}, {batches}, {row.bytes:,} bytes"
