"""The batches of a segment that decide what is remembered of its producers: markers, beginnings, and last ones.

Of a producer's batches a snapshot keeps the last, and a transaction its first; what lies between changes nothing. So
of a million batches a few thousand are made into objects. To leave out fewer is never wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from klogtool import kernels
from klogtool.format.batch import (
    BATCH_HEADER,
    CONTROL_BIT,
    NO_PRODUCER_ID,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_BIT,
    RecordBatch,
)
from klogtool.format.framing import walk_frames
from klogtool.format.unpackers import field_names, unpacker_of
from klogtool.log.file import LogFile
from klogtool.log.windows import BufferPool, Window, walk_windows

_BATCH_HEADER, _NAMES = unpacker_of(BATCH_HEADER), field_names(BATCH_HEADER)
_BASE_OFFSET, _ATTRIBUTES = _NAMES.index("base_offset"), _NAMES.index("attributes")
_PRODUCER_ID, _RECORDS_COUNT = _NAMES.index("producer_id"), _NAMES.index("records_count")
_NO_BYTES = memoryview(b"")

# How far the transaction is that a producer has open, as far as this segment tells.
_CLOSED, _BEGUN, _HOLDS_RECORDS = 0, 1, 2


def walk_producer_batches(
    path: str, spans: Sequence[tuple[int, int]], marks: Sequence[int] = ()
) -> Iterator[RecordBatch | int]:
    """The batches in these spans of bytes of a log that change what is known of producers, in their order.

    Every marker; of each transaction the first batch, and the first with records; of each producer the last batch
    before a marker, before a mark, and of all. marks: offsets, ascending; each comes up itself, once all batches that
    begin below it have. A marker's bytes may be looked at until the next batch is asked for; other batches have none.
    Raises KlogError where the file cannot be read.
    """
    thinned = _Thinned(marks)
    with LogFile(path) as file:
        for start, end in spans:
            pool = BufferPool()
            for window in walk_windows(file, kernels.whole_frames(), start=start, end=end, pool=pool):
                yield from thinned.walk(window)
                if not window.last:
                    pool.give_back(window.data)
    yield from thinned.rest()


class _Thinned:
    """What was left out so far, and may yet be wanted: the last batch of each producer."""

    def __init__(self, marks: Sequence[int]) -> None:
        self._marks = list(reversed(marks))
        self._waiting: dict[int, RecordBatch] = {}
        self._txns: dict[int, int] = {}

    def walk(self, window: Window) -> Iterator[RecordBatch | int]:
        """The batches of a window."""
        data = window.data
        for frame in walk_frames(data, 0, window.cut):
            if frame.magic < 2 or len(data) - frame.position < RECORD_BATCH_OVERHEAD:
                continue
            fields: tuple[Any, ...] = _BATCH_HEADER.unpack_from(data, frame.position)
            while self._marks and fields[_BASE_OFFSET] >= self._marks[-1]:
                yield from self._let_go()
                yield self._marks.pop()
            if fields[_PRODUCER_ID] > NO_PRODUCER_ID:
                view = data[frame.position : frame.position + frame.size]
                yield from self._batch(fields, window.base + frame.position, view)

    def rest(self) -> Iterator[RecordBatch | int]:
        """The last batch of each producer, then the marks that no batch came up to."""
        yield from self._let_go()
        while self._marks:
            yield self._marks.pop()

    def _batch(self, fields: tuple[Any, ...], position: int, view: memoryview) -> Iterator[RecordBatch]:
        producer_id, attributes = fields[_PRODUCER_ID], fields[_ATTRIBUTES]
        txn = self._txns.get(producer_id, _CLOSED)
        if attributes & CONTROL_BIT:
            now, wanted = _CLOSED, True
        elif attributes & TRANSACTIONAL_BIT:
            now = _HOLDS_RECORDS if fields[_RECORDS_COUNT] > 0 else max(txn, _BEGUN)
            wanted = now > txn
        else:
            now, wanted = txn, txn != _CLOSED
        self._txns[producer_id] = now
        before = self._waiting.pop(producer_id, None)
        if not wanted:
            self._waiting[producer_id] = RecordBatch(position, *(*fields, _NO_BYTES))
            return
        if before is not None:
            yield before
        kept = view.toreadonly() if attributes & CONTROL_BIT else _NO_BYTES
        yield RecordBatch(position, *(*fields, kept))

    def _let_go(self) -> Iterator[RecordBatch]:
        waiting = sorted(self._waiting.values(), key=lambda batch: batch.position)
        self._waiting.clear()
        yield from waiting
