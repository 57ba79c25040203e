"""The answer of build, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klogtool.escape import joined
from klogtool.render.counts import count_text

MOST_NAMED = 20  # partitions in the text


def build_text(answer: Mapping[str, Any], output: str) -> str:
    """Return what was built, a line for each partition."""
    partitions = answer["partitions"]
    lines = [_partition_line(row) for row in partitions[:MOST_NAMED]]
    if len(partitions) > MOST_NAMED:
        lines.append(f"... and {len(partitions) - MOST_NAMED:,} more partitions")
    wounds = f", {count_text(answer['wounds'], 'wound')}" if answer["wounds"] else ""
    files = count_text(answer["files"], "file")
    lines.append(f"{output}: {files} of {answer['bytes']:,} bytes, as Kafka {answer['kafka']} leaves them{wounds}")
    return joined(lines)


def _partition_line(row: Mapping[str, Any]) -> str:
    segments = count_text(row["segments"], "segment")
    batches = count_text(row["batches"], "batch", "batches")
    offsets = f"offsets {row['log_start_offset']:,} to {row['log_end_offset']:,}"
    return f"{row['partition']}: {offsets}, {segments}, {batches}, {row['bytes']:,} bytes"
