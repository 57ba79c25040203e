"""The segments of a remote store as columns: what `klogtool remote ls --format arrow` writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from msgspec.structs import asdict

from klogtool.remote.inventory import ListedPartition
from klogtool.render.arrow import load_pyarrow
from klogtool.render.arrow_reference import column_text
from klogtool.render.remote import segment_row

ROWS = 1 << 14  # of a record batch


def write_segments(partitions: Iterable[ListedPartition], sink: BinaryIO) -> None:
    """Write an Arrow IPC file with a row for each segment. Raises Unsupported without pyarrow."""
    pa = load_pyarrow()
    epoch = pa.struct([("epoch", pa.int32()), ("start_offset", pa.int64())])
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("layout", pa.string()),
            ("segment_id", pa.string()),
            ("start_offset", pa.int64()),
            ("end_offset", pa.int64()),
            ("epochs", pa.list_(epoch)),
            ("size", pa.int64()),
            ("state", pa.string()),
            ("event_ms", pa.int64()),
            ("objects", pa.map_(pa.string(), pa.int64())),
            ("error", pa.string()),
        ]
    )
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(pa.Table.from_pylist(list(_rows(partitions)), schema), ROWS)


def _rows(partitions: Iterable[ListedPartition]) -> Iterator[dict[str, object]]:
    for partition in partitions:
        layout = None if partition.layout is None else partition.layout.value
        for segment in partition.segments:
            row = segment_row(partition, segment)
            epochs = [{"epoch": epoch, "start_offset": start} for epoch, start in row.epochs]
            own = {"topic_id": partition.topic_id, "layout": layout, "epochs": epochs, "topic": column_text(row.topic)}
            yield asdict(row) | own | {"objects": list(row.objects.items())}
