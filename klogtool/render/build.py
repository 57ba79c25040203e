"""The answer of build, as text."""

from __future__ import annotations

from klogtool.escape import joined
from klogtool.plans.build import BuildResult, PartitionTotals
from klogtool.render.counts import count_text

MOST_NAMED = 20  # partitions in the text


def build_text(result: BuildResult, output: str) -> str:
    """Return what was built, a line for each partition."""
    partitions = result.partitions
    lines = [_partition_line(row) for row in partitions[:MOST_NAMED]]
    if len(partitions) > MOST_NAMED:
        lines.append(f"... and {len(partitions) - MOST_NAMED:,} more partitions")
    wounds = f", {count_text(result.wounds, 'wound')}" if result.wounds else ""
    files = count_text(result.files, "file")
    lines.append(f"{output}: {files} of {result.bytes:,} bytes, as Kafka {result.kafka} leaves them{wounds}")
    return joined(lines)


def _partition_line(row: PartitionTotals) -> str:
    segments = count_text(row.segments, "segment")
    batches = count_text(row.batches, "batch", "batches")
    offsets = f"offsets {row.log_start_offset:,} to {row.log_end_offset:,}"
    return f"{row.partition}: {offsets}, {segments}, {batches}, {row.bytes:,} bytes"
