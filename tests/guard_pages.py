"""The kernels beside pages that may not be touched: `python guard_pages.py KERNEL`, ended by SIGSEGV at a byte too far.

Every input is cut at every length and lies flush against an unreadable page; every output buffer ends at one, too.
"""

from __future__ import annotations

import ctypes
import mmap
import pathlib
import sys
from array import array
from collections.abc import Callable
from typing import Any

from damage import heal_checksums

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.format import codecs, framing
from klogtool.format.batch import CODEC_NAMES, Header, Record, parse_batch
from klogtool.format.batch import inflate as inflate_batch
from klogtool.format.batch_encoding import BatchForm, BytesColumn, HeadersColumn, RecordColumns, encode_batches
from klogtool.format.message import inflate as inflate_message
from klogtool.format.message import parse_message

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
LARGEST_INPUT_BYTES = 1200
MOST_CALLS = 1000
MOST_ROWS = 64
PROT_NONE = 0

libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """Pages of memory with an unreadable one behind them."""

    def __init__(self, size: int) -> None:
        self.room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._pages = mmap.mmap(-1, self.room + mmap.PAGESIZE)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        if libc.mprotect(self._address + self.room, mmap.PAGESIZE, PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")

    def last(self, size: int) -> memoryview:
        """The last `size` bytes before the forbidden page."""
        start = self._address + self.room - size
        return memoryview((ctypes.c_uint8 * size).from_address(start)).cast("B")

    def holding(self, data: bytes) -> memoryview:
        """`data`, flush against the forbidden page."""
        view = self.last(len(data))
        view[:] = data
        return view


IN, BODY, OUT = Guarded(1 << 16), Guarded(1 << 20), Guarded(1 << 20)


def inputs() -> list[bytes]:
    """The first entries of a segment of each magic and codec."""
    segments = [
        *sorted((FIXTURES / "magic-0/logdir").glob("create-*/00000000000000000000.log")),
        *sorted((FIXTURES / "magic-1/logdir").glob("create-*/00000000000000000000.log")),
        *sorted((FIXTURES / "every-codec/logdir").glob("create-*/00000000000000000000.log")),
        FIXTURES / "transactions/logdir/t-1/00000000000000000003.log",
    ]
    return [path.read_bytes()[:LARGEST_INPUT_BYTES] for path in segments]


def try_checksums(data: bytes) -> None:
    for size in range(len(data) + 1):
        view = IN.holding(data[:size])
        kernels.native.crc32c(view)
        kernels.native.crc32(view)


def try_walk(data: bytes) -> None:
    for size in range(len(data) + 1):
        view = IN.holding(data[:size])
        for end in (size, len(data)):
            assert kernels.native.whole_frames(view, end) == framing.whole_frames(data[:size], end)


def try_inflate(data: bytes) -> None:
    for codec in ("lz4", "snappy"):
        packed = codecs.compress(codec, data, magic=2)
        for size in range(len(packed) + 1):
            kernels.native.inflate(codec, IN.holding(packed[:size]), 2)


def entry_body(data: bytes, at: int) -> bytes | None:
    """The records of the entry at byte `at`, inflated; None where they cannot be."""
    frame = framing.find_frame(data, at, len(data))
    if not isinstance(frame, framing.Frame):
        return None
    try:
        if frame.magic >= 2:
            return inflate_batch(parse_batch(data, at))
        return inflate_message(parse_message(data, at))
    except KlogError:
        return None


def dump_all(data: bytes, cut: int, flags: int, room: int) -> None:
    """All entries of `data` that lie before `cut`, the reference's stepped over, into `room` bytes at a time."""
    native: Any = kernels.native
    state, gaps, log = native.DumpState(), array("q", bytes(1 << 12)), IN.holding(data)
    state.last_offset = -1
    at, body = 0, None
    for _ in range(MOST_CALLS):
        given = None if body is None else BODY.holding(body)
        at, written, why = native.dump(log, at, cut, 0, flags, state, gaps, OUT.last(room), given, None, b'"0.log"')
        body, state.gap_count = None, 0
        if why == native.DONE:
            return
        if why == native.BODY:
            body = entry_body(data, at)
        if why == native.FULL and not written:
            why = native.REFERENCE if room == OUT.room else why
            room = OUT.room
        if why == native.REFERENCE or (why == native.BODY and body is None):
            frame = framing.find_frame(data, at, cut)
            assert isinstance(frame, framing.Frame)
            at += frame.size
    raise AssertionError("dump() does not come to an end")


def try_dump(data: bytes) -> None:
    """Cut at every length as a file would be: the kernel is told of whole entries only, by the walk."""
    native: Any = kernels.native
    every_way = (0, native.DEEP, native.DEEP | native.PRINT_DATA, 7, native.DEEP | native.JSON)
    for size in range(len(data) + 1):
        cut, _ = framing.whole_frames(data[:size], size)
        for flags in every_way:
            dump_all(data[:size], cut, flags, OUT.room if size % 2 else 1500)


def try_dump_torn(data: bytes) -> None:
    """Cut inside an entry whose length and CRC were made to match: what lies inside now ends too early."""
    frame = framing.find_frame(data, 0, len(data))
    assert isinstance(frame, framing.Frame)
    for size in range(framing.HEADER_SIZE_UP_TO_MAGIC + 9, frame.size):
        torn = bytearray(data[:size])
        torn[8 : framing.LOG_OVERHEAD] = (size - framing.LOG_OVERHEAD).to_bytes(4, "big")
        heal_checksums(torn)
        for flags in (7, kernels.native.DEEP | kernels.native.JSON):
            dump_all(bytes(torn), size, flags, OUT.room)


def try_find_batch(data: bytes) -> None:
    for size in range(len(data) + 1):
        view = IN.holding(data[:size])
        for start in range(0, size, 97):
            kernels.native.find_batch(view, start, size, 0, size)
            kernels.native.find_batch(view, start, size, 0, len(data))
            kernels.native.find_head(view, start, size, 0, len(data))
        kernels.native.walk_unproved(view, 0, 0, size, -1)
        kernels.native.walk_unproved(view, 0, 0, len(data), -1)


def with_room(indexes: Any, most: int) -> Any:
    """Empty ones, for so many entries."""
    indexes.max_timestamp = indexes.last_timestamp = -1
    indexes.most_offset_entries = indexes.most_time_entries = most
    return indexes


def try_recover(data: bytes) -> None:
    """Whatever the kernel leaves to the reference is stepped over, until the log ends or is cut off."""
    native: Any = kernels.native
    for size in range(len(data) + 1):
        view, at = IN.holding(data[:size]), 0
        native.check_batches(view, 0, size)
        recovery = native.Recovery()
        indexes = with_room(recovery.indexes, 10**6)
        recovery.latest_epoch, recovery.last_aborted_offset = 1 << 31, -1
        recovery.keeps_ended = True
        while at < size:
            at, why = recovery.take(view, at, size, at)
            if why == native.CUT_OFF:
                break
            if why == native.REFERENCE:
                frame = framing.find_frame(data, at, len(data))
                if not isinstance(frame, framing.Frame) or frame.size > size - at:
                    break
                at += frame.size
        assert recovery.valid_bytes <= size
        assert len(indexes.take_offset_entries()) == 8 * indexes.offset_entries
        assert len(indexes.take_time_entries()) == 12 * indexes.time_entries
        recovery.take_producers_changed()
        recovery.take_txns_begun()
        recovery.take_txns_ended()


def try_append(data: bytes) -> None:
    """The survey of a set; and of what may be records, or not."""
    native: Any = kernels.native
    for size in range(len(data) + 1):
        view, at, survey = IN.holding(data[:size]), 0, native.AppendSurvey()
        survey.last_offset, survey.leader_epoch = -(2**63), 1 << 31
        while at < size:
            at, why = survey.take(view, at, size, 0)
            if why != native.DONE:
                at += 1 + at % 3
        survey.fetch_epochs()
        for count in (1, 3, 1 << 40):
            native.survey_records(view, count, 0)


def try_replay(data: bytes) -> None:
    """Markers that the kernel is not sure of are stepped over, and what cannot be."""
    native: Any = kernels.native
    for size in range(len(data) + 1):
        view, at, why = IN.holding(data[:size]), 0, -1
        replay = native.ProducerReplay(0, tuple_of, tuple_of)
        while why != 0:
            at, why = replay.take(view, at, size, None)
            frame = framing.find_frame(data, at, size)
            at += frame.size if why and isinstance(frame, framing.Frame) else 0
        replay.lose_track()
        replay.fetch_aborted()
        replay.fetch_lone_aborts()
        replay.open_txns()


def tuple_of(*fields: object) -> tuple[object, ...]:
    return fields


def try_records(data: bytes) -> None:
    native: Any = kernels.native
    for size in range(len(data) + 1):
        cut, _ = framing.whole_frames(data[:size], size)
        reader = native.RecordReader(Record, Header, IN.holding(data[:size]), 0, cut)
        why = native.FULL
        while why != native.DONE:
            _, why = reader.read()
            body = entry_body(data[:size], reader.at) if why == native.BODY else None
            if body is not None:
                reader.give(BODY.holding(body))
            elif why != native.DONE and why != native.FULL:
                frame = framing.find_frame(data, reader.at, cut)
                assert isinstance(frame, framing.Frame)
                reader.step_to(reader.at + frame.size)


def try_columns(data: bytes) -> None:
    """Room for all in one go: only the input can be overrun. The sanitizer looks after outputs (tools/fuzz)."""
    native, rows = kernels.native, 1000
    bits, fixed = dict.fromkeys(("timestamp.present", "headers.present"), rows), {"offset": 8 * rows}
    blobs = [
        f"{name}.{part}" for name in ("key", "value", "headers.key", "headers.value") for part in ("present", "data")
    ]
    offsets = [f"{name}.offsets" for name in ("headers", "key", "value", "headers.key", "headers.value")]
    sizes = {
        **bits,
        **fixed,
        "timestamp": 8 * rows,
        **dict.fromkeys(blobs, 1 << 16),
        **dict.fromkeys(offsets, 8 * rows),
    }
    for size in range(len(data) + 1):
        cut, _ = framing.whole_frames(data[:size], size)
        log, state, at, body = IN.holding(data[:size]), native.ColumnsState(), 0, None
        into = native.Columns(rows, rows, {name: memoryview(bytearray(size)) for name, size in sizes.items()})
        for _ in range(MOST_CALLS):
            given = None if body is None else BODY.holding(body)
            at, _, why = native.columns(log, at, cut, 0, into, state, given)
            if why == native.DONE:
                break
            assert why != native.FULL
            body = entry_body(data[:size], at) if why == native.BODY else None
            if body is None:
                frame = framing.find_frame(data, at, cut)
                assert isinstance(frame, framing.Frame)
                at += frame.size


def try_prove(data: bytes) -> None:
    """Rows are full after one, two or all; what is inflated lies flush against the forbidden page, too."""
    native: Any = kernels.native
    for deep in (False, True):
        for room in (1, 2, MOST_ROWS):
            rows = OUT.last(8 * len(native.FACTS) * room).cast("q")
            for size in range(len(data) + 1):
                view, at, body = IN.holding(data[:size]), 0, None
                while at < size:
                    given = None if body is None else BODY.holding(body)
                    at, count, why = native.prove(view, at, size, 0, rows, deep, given)
                    body = entry_body(data[:size], at) if why == native.BODY else None
                    if why == native.DONE or why == native.CUT_OFF:
                        break
                    frame = framing.find_frame(data[:size], at, size)
                    if not count and body is None:
                        if not isinstance(frame, framing.Frame):
                            break
                        at += frame.size


def try_follow(data: bytes) -> None:
    """What the data's entries are, held against indexes that end in the middle of an entry."""
    native: Any = kernels.native
    width = len(native.FACTS)
    for wounded in (data, data[1:]):
        room = OUT.last(8 * width * MOST_ROWS).cast("q")
        _, count, _ = native.prove(wounded, 0, len(wounded), 0, room)
        rows = IN.holding(bytes(room.cast("B")[: 8 * width * count])).cast("q")
        for size in range(50):
            succession = native.Succession(0, 0, data[:size], data[:size])
            at = 0
            while at < count:
                at, why = succession.follow(rows, at, count)
                succession.fetch_epochs()
                at += why != 0


def try_in_order(data: bytes) -> None:
    for size in range(len(data) + 1):
        for times in (False, True):
            kernels.native.entries_in_order(IN.holding(data[:size]), times)
            kernels.native.entries_in_order(IN.holding(bytes(range(256))[:size]), times)


def try_clean(data: bytes) -> None:
    """Batches into a map, and what stays of them; where the kernel stops, it is asked for that batch alone, too."""
    native: Any = kernels.native
    for size in range(len(data) + 1):
        view = IN.holding(data[:size])
        keys = native.OffsetMap(50, 45, bytes(16))
        filler = native.MapFiller(keys, native.Workspace(), 0)
        cleaner = native.BatchCleaner(keys, native.Workspace(), 10**15, 5, -1)
        with_room(cleaner.indexes, 100).interval_bytes = 50
        filler.capacity = cleaner.capacity = 1 << 20
        for taker in (filler, cleaner):
            at, why, more = 0, -1, () if taker is filler else (0,)
            while why not in (native.DONE, native.CUT_OFF):
                at, why = taker.take(view, at, size, *more)
                frame = framing.find_frame(data, at, size)
                if not isinstance(frame, framing.Frame):
                    break
                if why == native.DEFLATE:
                    taker.deflated(view[at : at + frame.size], codecs.compress("lz4", taker.body(), magic=2))
                elif frame.magic == 2 and frame.size >= 61:
                    body = entry_body(data, at)
                    given = BODY.holding(body) if body else None
                    if taker is filler:
                        filler.take_one(view[at : at + frame.size], given)
                    else:
                        cleaner.take_one(view, at, frame.size, 0, False, at % 2 == 1, given)
                at += frame.size if why else 0
        parts, made = cleaner.take_parts()
        assert sum(stop for start, stop in parts if start < 0) == len(made)


def try_compress(data: bytes) -> None:
    for size in range(len(data) + 1):
        assert kernels.native.compress_snappy(IN.holding(data[:size]))


def try_encode(data: bytes) -> None:
    native: Any = kernels.native
    form, stops = BatchForm(300), Guarded(64)
    for size in range(0, len(data) + 1, 7):
        for last in (size, size + 1):
            starts = array("i", [0, size // 2, size, last]).tobytes()
            column = BytesColumn(stops.holding(starts).cast("i"), IN.holding(data[:size]), BODY.holding(b"\1\0\1"))
            columns = RecordColumns(array("q", [0, 1, 2]), array("q", [0, 0, 0]), column, column)
            listed = HeadersColumn(stops.last(len(starts)).cast("i")[1:], column, column)
            for some in (columns, RecordColumns(columns.offsets, columns.timestamps, column, None, listed)):
                answers = []
                for encode in (native.encode_batches, encode_batches):
                    try:
                        answers.append(encode(some, 0, 3, form))
                    except ValueError as error:
                        answers.append(str(error))
                assert answers[0] == answers[1]


KERNELS: dict[str, Callable[[bytes], None]] = {
    "checksums": try_checksums,
    "walk": try_walk,
    "inflate": try_inflate,
    "dump": try_dump,
    "dump-torn": try_dump_torn,
    "find-batch": try_find_batch,
    "recover": try_recover,
    "append": try_append,
    "replay": try_replay,
    "records": try_records,
    "columns": try_columns,
    "prove": try_prove,
    "follow": try_follow,
    "in-order": try_in_order,
    "clean": try_clean,
    "compress": try_compress,
    "encode": try_encode,
}


def overrun() -> None:
    """What a mistake would do: read one byte too far, to see that the page is forbidden indeed."""
    ctypes.string_at(IN._address + IN.room - 1, 2)


if __name__ == "__main__":
    if sys.argv[1] == "overrun":
        overrun()
    tried = inputs()
    assert len(tried) == 4 + 4 + len(CODEC_NAMES) + 1
    for data in tried:
        KERNELS[sys.argv[1]](data)
