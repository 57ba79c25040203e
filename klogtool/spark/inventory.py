"""What is on some disks: a row for each copy of each partition, from the headers of all its batches.

Nothing is decompressed, and the records of large batches are not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from msgspec import field

from klogtool.broker.circumstances import Circumstances
from klogtool.errors import KlogError
from klogtool.format.codecs import CODEC_NAMES
from klogtool.format.names import FileKind
from klogtool.format.uuids import build_uuid
from klogtool.log.storage import LOCAL_SCHEMES
from klogtool.plans.reclaimable_bytes import Headroom, find_headroom
from klogtool.render.arrow_reference import column_text
from klogtool.render.inventory import InventoryRow
from klogtool.spark.batch_columns import codec_of
from klogtool.spark.causes import LogCause
from klogtool.spark.copies import Copy, find_copies
from klogtool.spark.head_columns import HeadRows, walk_head_rows
from klogtool.spark.heads import FAR_PIECE_BYTES, Head
from klogtool.spark.options import places_of
from klogtool.spark.planning import OPEN_COST_BYTES, SegmentRange, whole_segment
from klogtool.spark.spreading import spread_groups
from klogtool.spark.starting import Session
from klogtool.spark.tables import HeaderTotals

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BYTES = 512 << 20
TASKS_A_SLOT = 4
FOLDERS_A_TASK = 32


def find_fleet(paths: Sequence[str]) -> list[Copy]:
    """Return all copies of partitions under some paths. Raises Unreadable if a path cannot be listed, Refused if there
    is nothing."""
    return find_copies(places_of(list(paths), ""))


def take_inventory(
    session: Session,
    copies: Sequence[Copy],
    circumstances: Circumstances,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[InventoryRow]:
    """A row for each copy, in order of topic, partition and folder."""
    parts = [whole_segment(copy, segment) for copy in copies for segment in copy.segments]
    many = session.slots * TASKS_A_SLOT
    most = max(1, min(MOST_BYTES, sum(map(_cost, parts)) // many))
    walked = spread_groups(session, walk_part, parts, _cost, most, on_progress=on_progress)
    local = [copy.folder for copy in copies if copy.place.scheme in LOCAL_SCHEMES and copy.tiered_id is None]
    look = partial(find_headroom, circumstances=circumstances)
    rooms = spread_groups(session, look, local, lambda _: 1, max(FOLDERS_A_TASK, len(local) // many))
    return list(inventory_rows(copies, walked, dict(zip(local, rooms, strict=True))))


def _cost(part: SegmentRange) -> int:
    return part.log.size + OPEN_COST_BYTES


# What a task does.


class HeadCounts(HeaderTotals):
    """What the headers of a segment show, up to the first damage. codec_bytes: by codec; sizes: batches by the bits of
    their size."""

    codec_bytes: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    damage: str | None = None

    def add(self, head: Head) -> None:
        """Add a header."""
        super().add(head)
        self.sizes[head.size.bit_length()] += 1
        self.codec_bytes[codec_of(head)] += head.size

    def add_rows(self, rows: HeadRows) -> None:
        """Add many headers."""
        import pyarrow.compute as pc

        super().add_rows(rows)
        sizes = rows.column("size")
        for size in pc.value_counts(pc.floor(pc.log2(sizes))).to_pylist():
            self.sizes[int(size["values"]) + 1] += size["counts"]
        for codec in pc.unique(rows.codec_ids()).to_pylist():
            self.codec_bytes[CODEC_NAMES[codec]] += pc.sum(sizes.filter(pc.equal(rows.codec_ids(), codec))).as_py()


def walk_part(part: SegmentRange) -> HeadCounts:
    """Return what the headers of one segment show."""
    counts = HeadCounts()
    with part.open(ahead_bytes=FAR_PIECE_BYTES) as file:
        try:
            counts.add_all(walk_head_rows(file, 0, part.log.size, may_be_preallocated=part.is_active))
        except KlogError as error:
            counts.damage = str(error)
    return counts


# The rows.


def inventory_rows(
    copies: Sequence[Copy], walked: Iterable[HeadCounts], rooms: dict[str, Headroom]
) -> Iterator[InventoryRow]:
    """Yield a row for each copy. walked: of all their segments, in order."""
    segments = iter(walked)
    counts: Counter[tuple[str | None, int | None]] = Counter((c.topic, c.partition) for c in copies if c.topic)
    ids: dict[str | None, set[bytes]] = {}
    for copy in copies:
        if copy.topic and copy.topic_id is not None:
            ids.setdefault(copy.topic, set()).add(copy.topic_id)
    for copy in copies:
        yield _row(
            copy,
            [next(segments) for _ in copy.segments],
            copies=counts.get((copy.topic, copy.partition), 1),
            other_topic_id=len(ids.get(copy.topic, ())) > 1,
            headroom=rooms.get(copy.folder, Headroom(why_unknown=str(LogCause.ELSEWHERE()))),
        )


def _row(
    copy: Copy, parts: Sequence[HeadCounts], *, copies: int, other_topic_id: bool, headroom: Headroom
) -> InventoryRow:
    magics = Counter(magic for part in parts for magic in part.magics)
    sizes = sum((part.sizes for part in parts), Counter[int]())
    codecs = sum((part.codec_bytes for part in parts), Counter[str]())
    batches = sum(part.batches for part in parts)
    ends = [part.last_offset + 1 for part in parts if part.last_offset is not None]
    known = [*CODEC_NAMES, "unknown"]
    latest = max((part.max_timestamp for part in parts if part.max_timestamp is not None), default=-1)
    return InventoryRow(
        topic=copy.topic,
        partition=copy.partition,
        folder=copy.folder,
        topic_id=None if copy.topic_id is None else build_uuid(copy.topic_id),
        copies=copies,
        other_topic_id=other_topic_id,
        segments=len(copy.segments),
        bytes=copy.size,
        index_bytes=sum(stored.size for segment in copy.segments for stored in segment.indexes.values()),
        log_start_offset=copy.log_start_offset,
        log_end_offset=ends[-1] if ends else copy.segments[-1].base_offset,
        leader_epoch=copy.latest_epoch if FileKind.LEADER_EPOCH_CHECKPOINT.value in copy.side else None,
        batches=batches,
        records=sum(part.records for part in parts),
        magics=dict(sorted(magics.items())),
        codecs={name: codecs[name] for name in sorted(codecs, key=known.index)},
        mean_batch_bytes=sum(part.valid_bytes for part in parts) // batches if batches else None,
        largest_batch_bytes=max((part.largest_batch for part in parts), default=0),
        batch_sizes={1 << bits: sizes[bits] for bits in sorted(sizes)},
        transactional_batches=sum(part.transactional_batches for part in parts),
        control_batches=sum(part.control_batches for part in parts),
        max_timestamp=None if latest < 0 else latest,
        modified_ms=max(segment.log.mtime_ms for segment in copy.segments),
        damage=next((part.damage for part in parts if part.damage), None),
        headroom=headroom,
    )


# The file.

_SHORT = ("partition", "copies", "leader_epoch")  # numbers of 32 bits


def inventory_schema() -> pa.Schema:
    """Return the columns as an Arrow schema."""
    import pyarrow as pa

    kinds = {
        str: pa.string(),
        bool: pa.bool_(),
        int: pa.int64(),
        float: pa.float64(),
        dict[int, int]: pa.map_(pa.int64(), pa.int64()),
        dict[str, int]: pa.map_(pa.string(), pa.int64()),
    }
    hints = get_type_hints(InventoryRow) | get_type_hints(Headroom)
    del hints["headroom"]
    plain = {name: hint if get_origin(hint) is dict else (*get_args(hint), hint)[0] for name, hint in hints.items()}
    return pa.schema([(name, pa.int32() if name in _SHORT else kinds[kind]) for name, kind in plain.items()])


def write_inventory(rows: Iterable[InventoryRow], sink: Any) -> None:
    """Write the rows as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = [{name: _in_a_column(value) for name, value in row.columns().items()} for row in rows]
    pq.write_table(pa.Table.from_pylist(flat, inventory_schema()), sink)


def _in_a_column(value: Any) -> Any:
    if isinstance(value, str):
        return column_text(value)
    return list(value.items()) if isinstance(value, dict) else value
