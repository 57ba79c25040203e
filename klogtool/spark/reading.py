"""The records of a split as Arrow record batches: what one task does, with or without Spark."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from klogtool.errors import Corrupt, KlogError
from klogtool.lazy_dataclasses import dataclass
from klogtool.render.arrow import Tally, walk_record_batches
from klogtool.render.arrow_memory import Blocks
from klogtool.render.selection import LARGEST, SMALLEST, Selection
from klogtool.spark.filters import Bounds
from klogtool.spark.planning import Piece, Split
from klogtool.spark.storage import open_place
from klogtool.spark.transactions import AbortedRange

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
METADATA_COLUMNS = (
    "_segment",
    "_position",
    "_batch_base_offset",
    "_producer_id",
    "_producer_epoch",
    "_sequence",
    "_is_control",
    "_is_transactional",
    "_compression",
    "_crc_ok",
    "_partition_leader_epoch",
)
PRODUCER_COLUMNS = ("offset", "_producer_id", "_is_transactional")
LOGGER = logging.getLogger("klogtool.spark")


@dataclass(frozen=True, slots=True)
class Task:
    """How splits are read. columns: of render.arrow; mode: what to do about damage."""

    columns: tuple[str, ...]
    bounds: Bounds
    mode: str

    @property
    def is_strict(self) -> bool:
        """Whether the first damage is an error."""
        return self.mode == "FAILFAST"


def columns_of(*, headers: bool, metadata: bool) -> tuple[str, ...]:
    """The columns of records, in order."""
    return (*RECORD_COLUMNS, *(["headers"] if headers else []), *(METADATA_COLUMNS if metadata else []))


def read_split(split: Split, task: Task) -> Iterator[pa.RecordBatch]:
    """The records of a split, in order, in record batches of at most 65 536 rows; none is empty.

    Control records are none of them. FAILFAST: raises Corrupt or Unsupported at the first damage, a wrong checksum
    included. PERMISSIVE: gives what can be read. DROPMALFORMED: the same, without batches of a wrong checksum. Whatever
    is left out is logged. Raises Unreadable where a file is not there any more.
    """
    spare_collections()
    blocks = Blocks()
    for piece in split.pieces:
        for batch in _read_piece(piece, task, blocks):
            if batch.num_rows:
                yield batch


@cache
def spare_collections() -> None:
    """Spark's workers collect garbage behind every task, over all modules there are: 40 ms. Once per process."""
    gc.collect()
    gc.freeze()


def _read_piece(piece: Piece, task: Task, blocks: Blocks) -> Iterator[pa.RecordBatch]:
    extra = PRODUCER_COLUMNS if piece.aborted else ()
    tally, storage = Tally(), open_place(piece.place)[0]
    whole = piece.next_base_offset is not None and piece.end == piece.log.size
    with storage.open(piece.log) as file:
        walk = walk_record_batches(
            file,
            topic=piece.topic,
            partition=piece.partition,
            selection=_selection(piece, task.bounds),
            start=piece.start,
            end=None if whole else piece.end,  # behind the last batch of a whole segment nothing is to lie
            jobs=1,
            columns=tuple(dict.fromkeys((*task.columns, *extra, "_crc_ok"))),
            with_control=False,
            on_damage=None if task.is_strict else _tell,
            tally=tally,
            resync=not task.is_strict,
            blocks=blocks,
        )
        invalid = 0
        for batch in walk:
            if tally.invalid > invalid:
                _judge(file.path, tally, task)
                invalid = tally.invalid
            yield _left(batch, piece.aborted, task, has_invalid=invalid > 0)


def _selection(piece: Piece, bounds: Bounds) -> Selection | None:
    first, last = max(piece.first_offset, bounds.offsets[0]), min(piece.last_offset, bounds.offsets[1])
    if (first, last, bounds.timestamps, bounds.key) == (SMALLEST, LARGEST, (SMALLEST, LARGEST), None):
        return None
    return Selection((first, last), bounds.timestamps, key=bounds.key)


def _tell(error: KlogError) -> None:
    LOGGER.warning("left out: %s", error)


def _judge(path: str, tally: Tally, task: Task) -> None:
    """Batches with a wrong checksum."""
    first = tally.first_invalid
    error = Corrupt(
        "the checksum does not match", path=first[0] if first else path, position=first[1] if first else None
    )
    if task.is_strict:
        raise error
    LOGGER.warning("%s: %s", "left out" if task.mode == "DROPMALFORMED" else "given all the same", error)


def _left(batch: pa.RecordBatch, aborted: Sequence[AbortedRange], task: Task, *, has_invalid: bool) -> pa.RecordBatch:
    """Without rows that nobody is to see, and without columns that nobody asked for."""
    import pyarrow.compute as pc

    if aborted:
        batch = batch.filter(pc.invert(_is_aborted(batch, aborted)))
    if has_invalid and task.mode == "DROPMALFORMED":
        batch = batch.filter(batch.column("_crc_ok"))
    return batch.select(list(task.columns)) if batch.schema.names != list(task.columns) else batch


def _is_aborted(batch: pa.RecordBatch, aborted: Sequence[AbortedRange]) -> Any:
    """Which rows are of aborted transactions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.repeat(pa.scalar(False), batch.num_rows)
    for txn in aborted:
        ours = pc.equal(batch.column("_producer_id"), txn.producer_id)
        since = pc.greater_equal(batch.column("offset"), txn.first_offset)
        until = pc.less_equal(batch.column("offset"), txn.last_offset)
        found = pc.or_(found, pc.and_(ours, pc.and_(since, until)))
    return pc.and_(found, batch.column("_is_transactional"))
