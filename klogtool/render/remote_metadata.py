"""What `klogtool remote metadata` rebuilds, as a row of JSON (docs/contract.md) and as text."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import Struct

from klogtool.escape import quoted
from klogtool.plans.remote_metadata import RebuiltMetadata
from klogtool.render.counts import count_text


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
