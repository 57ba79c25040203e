"""What is on some disks: a row for each copy of each partition, from the headers of all its batches.

Nothing is decompressed, and the records of large batches are not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import astuple

from klogtool.broker.circumstances import Circumstances
from klogtool.errors import KlogError
from klogtool.format.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from klogtool.format.codecs import CODEC_NAMES
from klogtool.format.names import FileKind
from klogtool.format.uuids import build_uuid
from klogtool.log.storage import LOCAL_SCHEMES, open_place
from klogtool.plans.reclaimable_bytes import Headroom, find_headroom
from klogtool.render.arrow_reference import column_text
from klogtool.spark.copies import Copy, find_copies
from klogtool.spark.head_columns import HeadRows, walk_head_rows
from klogtool.spark.heads import FAR_PIECE_BYTES
from klogtool.spark.options import places_of
from klogtool.spark.planning import OPEN_COST_BYTES, SegmentRange
from klogtool.spark.spreading import packed, spread
from klogtool.spark.starting import Session
from klogtool.spark.tables import codec_of

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BYTES = 512 << 20
TASKS_A_SLOT = 4
FOLDERS_A_TASK = 32
Row = dict[str, Any]


class Fleet(Struct, frozen=True):
    """All copies of partitions under some paths, and the pieces of their logs."""

    copies: tuple[Copy, ...]

    @property
    def size(self) -> int:
        """Bytes of all logs."""
        return sum(copy.size for copy in self.copies)


def find_fleet(paths: Sequence[str]) -> Fleet:
    """List what is there. Raises Unreadable if a path cannot be listed, Refused if there is nothing."""
    return Fleet(tuple(find_copies(places_of(list(paths), ""))))


def take_inventory(
    session: Session, fleet: Fleet, circumstances: Circumstances, *, on_progress: Callable[[int], None] = lambda _: None
) -> list[Row]:
    """A row for each copy, in order of topic, partition and folder; see COLUMNS."""
    pieces = [piece for copy in fleet.copies for piece in pieces_of(copy)]
    many = session.slots * TASKS_A_SLOT
    most = max(1, min(MOST_BYTES, sum(map(_cost, pieces)) // many))
    tasks = list(packed(pieces, _cost, most))
    walked = spread(
        session, walk_pieces, [some for some, _ in tasks], sizes=[n for _, n in tasks], on_progress=on_progress
    )
    local = [copy.folder for copy in fleet.copies if copy.place.scheme in LOCAL_SCHEMES]
    asked = [some for some, _ in packed(local, lambda _: 1, max(FOLDERS_A_TASK, len(local) // many))]
    rooms = dict(pair for some in spread(session, partial(look_at_folders, circumstances), asked) for pair in some)
    return list(inventory_rows(fleet.copies, (row for some in walked for row in some), rooms))


def _cost(piece: SegmentRange) -> int:
    return piece.log.size + OPEN_COST_BYTES


def pieces_of(copy: Copy) -> Iterator[SegmentRange]:
    """Yield its segments."""
    for segment in copy.segments:
        beside = tuple((kind, stored.size) for kind, stored in segment.indexes.items())
        yield SegmentRange(
            copy.place,
            segment.log,
            copy.topic,
            copy.partition,
            0,
            segment.size,
            next_base_offset=segment.next_base_offset,
            base_offset=segment.base_offset,
            beside=beside,
        )


# What a task does.


def walk_pieces(pieces: Sequence[SegmentRange]) -> list[Row]:
    """Return what the headers of each segment show."""
    return [walk_piece(piece) for piece in pieces]


def walk_piece(piece: SegmentRange) -> Row:
    """Return the same for one segment. Nothing after damage counts: `damage` says where."""
    row: Row = dict.fromkeys(("batches", "records", "control_batches", "transactional_batches", "valid_bytes"), 0)
    row |= {"magics": Counter(), "codecs": {}, "sizes": Counter(), "largest": 0, "damage": None}
    row |= {"max_timestamp": -1, "last_offset": None}
    with open_place(piece.place)[0].open(piece.log, ahead_bytes=FAR_PIECE_BYTES) as file:
        try:
            for found in walk_head_rows(file, 0, piece.log.size, may_be_preallocated=piece.is_active):
                if isinstance(found, HeadRows):
                    _count_rows(row, found)
                else:
                    _count(row, found)
        except KlogError as error:
            row["damage"] = str(error)
    return row


def _count(row: Row, head: Any) -> None:
    entry, size = head.entry, head.size
    row["batches"] += 1
    row["records"] += 1 if entry.records_count is None else entry.records_count
    row["control_batches"] += entry.is_control
    row["transactional_batches"] += entry.is_transactional
    row["valid_bytes"], row["last_offset"] = head.end, entry.last_offset
    row["max_timestamp"] = max(row["max_timestamp"], entry.max_timestamp)
    row["largest"] = max(row["largest"], size)
    row["magics"][entry.magic] += 1
    row["sizes"][size.bit_length()] += 1
    codec = row["codecs"].setdefault(codec_of(head), [0, 0])
    codec[0] += 1
    codec[1] += size


def _count_rows(row: Row, rows: HeadRows) -> None:
    """Count many batches at a time."""
    import pyarrow.compute as pc

    sizes = rows.column("size")
    row["batches"] += rows.count
    row["records"] += pc.sum(rows.column("records_count")).as_py()
    row["control_batches"] += pc.sum(rows.has_bit(CONTROL_BIT)).as_py()
    row["transactional_batches"] += pc.sum(rows.has_bit(TRANSACTIONAL_BIT)).as_py()
    row["valid_bytes"], row["last_offset"] = rows.end, rows.column("last_offset")[rows.count - 1].as_py()
    row["max_timestamp"] = max(row["max_timestamp"], pc.max(rows.column("max_timestamp")).as_py())
    row["largest"] = max(row["largest"], pc.max(sizes).as_py())
    row["magics"][2] += rows.count
    for size in pc.value_counts(pc.floor(pc.log2(sizes))).to_pylist():
        row["sizes"][int(size["values"]) + 1] += size["counts"]
    for codec in pc.value_counts(rows.codec_ids()).to_pylist():
        told = row["codecs"].setdefault(CODEC_NAMES[codec["values"]], [0, 0])
        told[0] += codec["counts"]
        told[1] += pc.sum(sizes.filter(pc.equal(rows.codec_ids(), codec["values"]))).as_py()


def look_at_folders(circumstances: Circumstances, folders: Sequence[str]) -> list[tuple[str, Headroom]]:
    """Return the headroom of partition dirs."""
    return [(folder, find_headroom(folder, circumstances)) for folder in folders]


# The rows.

COLUMNS = {
    "topic": "string",
    "partition": "int",
    "folder": "string",
    "topic_id": "string",
    "copies": "int",
    "other_topic_id": "bool",
    "segments": "bigint",
    "bytes": "bigint",
    "index_bytes": "bigint",
    "log_start_offset": "bigint",
    "log_end_offset": "bigint",
    "leader_epoch": "int",
    "batches": "bigint",
    "records": "bigint",
    "magics": "map<int>",
    "codecs": "map<string>",
    "mean_batch_bytes": "bigint",
    "largest_batch_bytes": "bigint",
    "batch_sizes": "map<int>",
    "transactional_batches": "bigint",
    "control_batches": "bigint",
    "max_timestamp": "bigint",
    "modified_ms": "bigint",
    "damage": "string",
    "cleanup_policy": "string",
    "retention_ms": "bigint",
    "retention_bytes": "bigint",
    "retention_due_bytes": "bigint",
    "cleanable_bytes": "bigint",
    "cleanable_ratio": "double",
    "is_cleaning_due": "bool",
    "why_unknown": "string",
}
"""The columns of a row. magics: segments by magic; codecs: bytes by codec; batch_sizes: batches by the power of two
above their size. copies: how many copies of the partition are under the paths. damage: the first one, where the count
ends."""


def inventory_rows(copies: Sequence[Copy], walked: Iterable[Row], rooms: dict[str, Headroom]) -> Iterator[Row]:
    """Yield a row for each copy. walked: of all their segments, in order."""
    segments = iter(walked)
    counts: Counter[tuple[str | None, int | None]] = Counter((c.topic, c.partition) for c in copies if c.topic)
    ids: dict[str | None, set[bytes]] = {}
    for copy in copies:
        if copy.topic and copy.topic_id is not None:
            ids.setdefault(copy.topic, set()).add(copy.topic_id)
    for copy in copies:
        parts = [next(segments) for _ in copy.segments]
        row = _copy_row(copy) | _summed(copy, parts)
        row["copies"] = counts.get((copy.topic, copy.partition), 1)
        row["other_topic_id"] = len(ids.get(copy.topic, ())) > 1
        room = rooms.get(copy.folder, Headroom(why_unknown="not on this machine"))
        yield row | dict(zip(room.__struct_fields__, astuple(room), strict=True))


def _copy_row(copy: Copy) -> Row:
    topic_id = copy.topic_id
    return {
        "topic": copy.topic,
        "partition": copy.partition,
        "folder": copy.folder,
        "topic_id": None if topic_id is None else build_uuid(topic_id),
        "segments": len(copy.segments),
        "bytes": copy.size,
        "index_bytes": sum(stored.size for segment in copy.segments for stored in segment.indexes.values()),
        "log_start_offset": copy.log_start_offset,
        "leader_epoch": copy.latest_epoch if FileKind.LEADER_EPOCH_CHECKPOINT.value in copy.side else None,
        "modified_ms": max(segment.log.mtime_ms for segment in copy.segments),
    }


def _summed(copy: Copy, parts: Sequence[Row]) -> Row:
    row: Row = {
        name: sum(part[name] for part in parts)
        for name in ("batches", "records", "control_batches", "transactional_batches")
    }
    magics: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    codecs: Counter[str] = Counter()
    for part in parts:
        magics.update(part["magics"].keys())
        sizes.update(part["sizes"])
        codecs.update({name: size for name, (_, size) in part["codecs"].items()})
    valid = sum(part["valid_bytes"] for part in parts)
    ends = [part["last_offset"] + 1 for part in parts if part["last_offset"] is not None]
    known = [*CODEC_NAMES, "unknown"]
    times = max((part["max_timestamp"] for part in parts), default=-1)
    return row | {
        "log_end_offset": ends[-1] if ends else copy.segments[-1].base_offset,
        "magics": dict(sorted(magics.items())),
        "codecs": {name: codecs[name] for name in sorted(codecs, key=known.index)},
        "batch_sizes": {1 << bits: sizes[bits] for bits in sorted(sizes)},
        "mean_batch_bytes": valid // row["batches"] if row["batches"] else None,
        "largest_batch_bytes": max((part["largest"] for part in parts), default=0),
        "max_timestamp": None if times < 0 else times,
        "damage": next((part["damage"] for part in parts if part["damage"]), None),
    }


def inventory_schema() -> pa.Schema:
    """Return the columns as an Arrow schema."""
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "map<int>": pa.map_(pa.int64(), pa.int64()),
        "map<string>": pa.map_(pa.string(), pa.int64()),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])


def write_inventory(rows: Sequence[Row], sink: Any) -> None:
    """Write the rows as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = [{name: _in_a_column(row[name]) for name in COLUMNS} for row in rows]
    pq.write_table(pa.Table.from_pylist(flat, inventory_schema()), sink)


def _in_a_column(value: Any) -> Any:
    if isinstance(value, str):
        return column_text(value)
    return list(value.items()) if isinstance(value, dict) else value
