#!/usr/bin/env python3
"""Damaged inputs through the kernels: `kernels.py [--seconds N | --inputs N] [--seed S] [--corpus FILE] [--add PAGE]`.

Meant to run under ASan and UBSan (sanitize.sh), where coverage leads it (led.py); `--again NUMBERS` tries one input
again. Each input and each output lies in a malloc block of its exact size: in Python's own arenas the sanitizer would
not see a byte too far. What has a simple counterpart in klogtool/format is compared with it; the text of dumps is
compared in dump_log.py.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import json
import pathlib
import random
import sys
import time
import uuid
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import fastavro
from damaged import damaged, seeds  # first: it makes the modules of tests/ known
from led import Led, Numbers, Ways, read_corpus, write_corpus
from sums import add, add_option

from klogtool import kernels
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log import mapped_windows
from klogtool.decoding.avro_programs import build_program
from klogtool.decoding.avro_schemas import AvroSchema, parse_avro_schema
from klogtool.decoding.avro_values import read_avro
from klogtool.decoding.decoded import json_text
from klogtool.decoding.schemas import Schemas
from klogtool.format import checksums, codecs, framing, resync
from klogtool.format.batch import Header, Record, parse_batch
from klogtool.format.batch_proof import FACTS, judge_entry
from klogtool.format.message import parse_message
from klogtool.format.producer_replay import ProducerReplay
from klogtool.format.succession import Succession, facts_at
from klogtool.log import windows
from klogtool.log.producer_replay import make_replay

from damage import frames_of  # isort: skip
from guard_pages import entry_body  # isort: skip
from recovered import LOG_NAME, drawn_config, recover_with  # isort: skip
from recovery_logs import BASE_OFFSET, PRODUCERS, recovery_log, wounded  # isort: skip
from replayed import replayed  # isort: skip
from worst_cases import drawn_case, worst_cases  # isort: skip

EXACT = 1  # at first; then what the kernel says that it needs, and not a byte more
OUT_SIZES = (500, 2000, 1 << 16, 1 << 20)
MOST_CALLS = 10_000

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]


@contextmanager
def block(size: int, data: bytes = b"") -> Iterator[memoryview]:
    """A malloc block of exactly `size` bytes, `data` in it."""
    address = libc.malloc(size or 1)
    try:
        view = memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B")
        view[: len(data)] = data
        yield view
    finally:
        libc.free(address)


@contextmanager
def copied(data: bytes) -> Iterator[memoryview]:
    with block(len(data), data) as view:
        yield view


def same(what: str, kernel: object, reference: object) -> None:
    if kernel != reference:
        raise AssertionError(f"{what}: kernel {kernel}, reference {reference}")


# ---------------------------------------------------------------- targets


def try_checksums(rng: random.Random, data: bytes) -> None:
    at = rng.randrange(len(data) + 1)
    with copied(data[at:]) as tail:
        same("crc32c", kernels.native.crc32c(tail), checksums.crc32c(data[at:]))
        same("crc32", kernels.native.crc32(tail), checksums.crc32(data[at:]))


def try_walk(rng: random.Random, data: bytes) -> None:
    have = data[: rng.choice((len(data), rng.randrange(len(data) + 1)))]
    end = rng.choice((len(data), len(have), len(data) + 1000))
    with copied(have) as window:
        if len(have) <= end:
            same("whole_frames", kernels.native.whole_frames(window, end), framing.whole_frames(have, end))


def try_inflate(rng: random.Random, data: bytes) -> None:
    """A damaged lz4 or snappy frame: what the kernel takes for sound, the reference does, too."""
    codec, magic = rng.choice(("lz4", "snappy")), rng.choice((0, 1, 2))
    packed = damaged(rng, codecs.compress(codec, data, magic=magic), healed=False)
    with copied(packed) as frame:
        found = kernels.native.inflate(codec, frame, magic)
    if found is not None:
        same(f"inflate {codec}", found, codecs.decompress(codec, packed, magic=magic))


def chosen_selection(rng: random.Random) -> object:
    """Nothing asked for mostly, else a bit of everything."""
    if rng.random() < 0.7:
        return None
    low, high = sorted((rng.randrange(60), rng.randrange(60)))
    always = (-(2**63), 2**63 - 1)
    offsets, timestamps = rng.choice(((low, high), always)), rng.choice(((0, 0), always, always))
    key, grep = rng.choice((None, None, b"", b"k7")), rng.choice((None, b"", b"alpha", b"\xff\xff"))
    return kernels.native.Selection(offsets, timestamps, rng.choice((None, None, 7, -1)), key, grep)


def chosen_workspace(rng: random.Random) -> Any:
    """None; one that cannot inflate zstd, or one that can."""
    work = rng.choice((None, kernels.native.Workspace(), kernels.native.Workspace()))
    if work is not None and rng.random() < 0.7:
        kernels.learn_zstd(work)
    return work


def try_dump(rng: random.Random, data: bytes) -> None:
    """All entries, each that the kernel leaves to the reference stepped over, with too little room now and then."""
    native = kernels.native
    cut, _ = framing.whole_frames(data, len(data))
    flags = rng.choice((0, native.DEEP, native.DEEP | native.PRINT_DATA, 7, native.DEEP | native.JSON))
    select, name = chosen_selection(rng), b'"t-0/0.log"'
    room, gap_pairs = rng.choice((*OUT_SIZES, EXACT)), rng.choice((1, 4, 1024))
    exact = room == EXACT
    state, body, work = native.DumpState(), None, chosen_workspace(rng)
    state.last_offset = -1
    at = 0
    with copied(data) as log, copied(name) as file:
        for _ in range(MOST_CALLS):
            gaps = array("q", bytes(16 * gap_pairs))
            with block(room) as out, copied(body or b"") as inside:
                given = None if body is None else inside
                at, written, why = native.dump(log, at, cut, 0, flags, state, gaps, out, given, select, file, work)
            body, state.gap_count = None, 0
            if why == native.DONE:
                break
            if why == native.BODY:
                body = entry_body(data, at)
            if why == native.FULL and not written:
                room, gap_pairs = state.needed if exact else 4 * room, min(4 * gap_pairs, 1 << 16)
            if why == native.REFERENCE or (why == native.BODY and body is None):
                frame = framing.find_frame(data, at, cut)
                if not isinstance(frame, framing.Frame):
                    break
                at += frame.size
        else:
            raise AssertionError("dump() does not come to an end")


def try_find_batch(rng: random.Random, data: bytes) -> None:
    """The next batch that proves itself, from anywhere, in a file that may go on behind the buffer."""
    at, lowest = rng.randrange(len(data) + 1), rng.choice((0, 0, 20, 40, -(2**63), 2**62))
    stop, end = rng.choice((len(data), rng.randrange(len(data) + 1))), len(data) + rng.choice((0, 0, 500))
    sought, last_offset = resync.Sought(lowest, end), rng.choice((-1, lowest, 25))
    with copied(data) as view:
        found = kernels.native.find_batch(view, at, stop, lowest, end)
        head = kernels.native.find_head(view, at, stop, lowest, end)
        walked = kernels.native.walk_unproved(view, at, lowest, end, last_offset)
    same("find_batch", found, resync.find_batch(data, at, stop, sought))
    same("find_head", head, resync.find_head(data, at, stop, sought))
    same("walk_unproved", walked, resync.walk_unproved(data, at, sought, last_offset))


class ExactReads(windows.Reads):
    """What is read lies in a malloc block of its size."""

    def __init__(self, file: Any, pool: windows.BufferPool) -> None:
        super().__init__(file, pool)
        self._blocks: list[tuple[memoryview, ExitStack]] = []

    def read(self, at: int, size: int) -> memoryview:
        stack = ExitStack()
        view = stack.enter_context(copied(self.file.read(at, size)))
        self._blocks.append((view, stack))
        return view

    def give_back(self, view: memoryview) -> None:
        next(stack for known, stack in self._blocks if known is view).close()


def draft_of(data: bytes) -> Draft:
    """A folder that is nowhere, with one log in it."""
    draft = Draft("nowhere", {})
    draft.write(LOG_NAME, data)
    return draft


def try_recover(rng: random.Random, data: bytes) -> None:
    """A segment under recovery: indexes, epochs, producers, transactions, cut, error."""
    config, seed, jobs = drawn_config(rng), str(rng.random()), rng.choice((1, 2))
    spans = patch.object(mapped_windows, "SPAN_BYTES", rng.choice((300, 2000, 8 << 20)))
    with spans, patch.object(mapped_windows, "Reads", ExactReads):
        kernel = recover_with("kernel", draft_of(data), seed, config, jobs)
    same("recovery", kernel, recover_with("reference", draft_of(data), seed, config))


def try_replay(rng: random.Random, data: bytes) -> None:
    """Producers and transactions."""
    cut = rng.choice((len(data), rng.randrange(len(data) + 1)))
    marks = [BASE_OFFSET + rng.randrange(300) for _ in range(rng.randrange(3))]
    start = rng.choice((0, BASE_OFFSET + 20))
    with copied(data) as log_bytes:
        kernel = replayed(make_replay(start), log_bytes, cut, marks, PRODUCERS)
    same("replay", kernel, replayed(ProducerReplay(start), memoryview(data), cut, marks, PRODUCERS))


def reference_records(data: bytes, frame: framing.Frame) -> list[Record]:
    parse = parse_batch if frame.magic >= 2 else parse_message
    return list(parse(data, frame.position).records())


def try_records(_: random.Random, data: bytes) -> None:
    """Records as objects, entry by entry, equal to the reference's wherever the kernel makes any."""
    native = kernels.native
    with copied(data) as log:
        for frame in frames_of(data):
            reader = native.RecordReader(Record, Header, log, frame.position, frame.position + frame.size)
            records, why = read_on(reader)
            body = entry_body(data, frame.position) if why == native.BODY else None
            if body is not None:
                with copied(body) as inside:
                    reader.give(inside)
                    records, why = read_on(reader)
            if why == native.DONE:
                same(f"records at byte {frame.position}", records, reference_records(data, frame))
            del reader


def read_on(reader: Any) -> tuple[list[Record], int]:
    records, why = reader.read()
    while why == kernels.native.FULL:
        more, why = reader.read()
        records += more
    return records, why


FIXED_COLUMNS = {
    "offset": 8,
    "timestamp": 8,
    "timestampType": 4,
    "_position": 8,
    "_batch_base_offset": 8,
    "_producer_id": 8,
    "_producer_epoch": 2,
    "_sequence": 4,
    "_compression": 1,
    "_partition_leader_epoch": 4,
}
BIT_COLUMNS = ("timestamp.present", "headers.present", "_batch_base_offset.present", "_is_control")
MORE_BIT_COLUMNS = ("_is_transactional", "_crc_ok")


def column_sizes(rows: int, headers: int, data_bytes: int) -> dict[str, int]:
    """Every buffer of Columns with the least bytes that it may have."""
    sizes = {name: width * rows for name, width in FIXED_COLUMNS.items()}
    sizes |= dict.fromkeys((*BIT_COLUMNS, *MORE_BIT_COLUMNS), (rows + 7) // 8)
    sizes["headers.offsets"] = 4 * rows + 4
    for name, count in (("key", rows), ("value", rows), ("headers.key", headers), ("headers.value", headers)):
        sizes |= {f"{name}.present": (count + 7) // 8, f"{name}.offsets": 4 * count + 4, f"{name}.data": data_bytes}
    return sizes


def try_columns(rng: random.Random, data: bytes) -> None:
    """Records into Arrow buffers of exactly the size that is said, larger ones where they do not suffice."""
    native = kernels.native
    cut, _ = framing.whole_frames(data, len(data))
    select, with_control = chosen_selection(rng), rng.random() < 0.5
    rows, headers, data_bytes = rng.choice((1, 7, 8, 100)), rng.choice((0, 1, 50)), rng.choice((0, 10, 4000))
    state, at, body, work = native.ColumnsState(), 0, None, chosen_workspace(rng)
    with copied(data) as log:
        for _ in range(MOST_CALLS):
            with ExitStack() as stack:
                sizes = column_sizes(rows, headers, data_bytes)
                buffers = {name: stack.enter_context(block(size)) for name, size in sizes.items()}
                into = native.Columns(rows, headers, buffers)
                inside = None if body is None else stack.enter_context(copied(body))
                before = at
                at, filled, why = native.columns(log, at, cut, 0, into, state, inside, select, with_control, work)
                del into
            if why == native.DONE:
                return
            if why == native.FULL:
                body = body if at == before else None
                if not filled and rng.random() < 0.5:
                    data_bytes = max(data_bytes, state.data_needed, state.header_bytes_needed)
                    headers = max(headers, state.headers_needed)
                elif not filled:
                    data_bytes, headers = 4 * data_bytes + 100, 4 * headers + 1
                continue
            body = entry_body(data, at) if why == native.BODY else None
            if body is None:
                frame = framing.find_frame(data, at, cut)
                if not isinstance(frame, framing.Frame):
                    return
                at += frame.size
                state.done_records = state.done_bytes = 0
    raise AssertionError("columns() does not come to an end")


def try_prove(rng: random.Random, data: bytes) -> None:
    """Facts of plain entries: what the kernel takes is plain; held against each other and random indexes."""
    native, width = kernels.native, len(FACTS)
    deep, room = rng.random() < 0.5, rng.choice((1, 2, 100))
    kept, at, body = array("q"), 0, None
    with copied(data) as log, block(8 * width * room) as out:
        rows = out.cast("q")
        for _ in range(MOST_CALLS):
            with copied(body or b"") as inside:
                at, count, why = native.prove(log, at, len(data), 0, rows, deep, None if body is None else inside)
            kept.extend(rows[: width * count])
            body = entry_body(data, at) if why == native.BODY else None
            if why in (native.DONE, native.CUT_OFF):
                break
            frame = framing.find_frame(data, at, len(data))
            if why != native.FULL and body is None:
                if not isinstance(frame, framing.Frame):
                    break
                at += frame.size
    for number in range(len(kept) // width):
        taken = facts_at(kept, number)
        frame = framing.find_frame(data, taken.position, len(data))
        judged = judge_entry(data, frame, deep=deep) if isinstance(frame, framing.Frame) else None
        same(f"prove at byte {taken.position}", (taken, True), (judged and judged.facts, judged and judged.is_plain))
    follow(rng, kept)


def follow(rng: random.Random, rows: array[int]) -> None:
    """Both successions take the same, and stop in front of the same."""
    count, at = len(rows) // len(FACTS), 0
    indexes = [rng.randbytes(rng.randrange(60)), rng.randbytes(rng.randrange(60))]
    if rng.random() < 0.5:
        indexes[0] = b"".join(
            bytes(3) + rng.randbytes(1) + rows[n].to_bytes(4) for n in range(0, len(rows), len(FACTS))
        )
    reference, kernel = (make(0, 50, *indexes) for make in (Succession, kernels.native.Succession))
    with copied(rows.tobytes()) as view:
        while at < count:
            expected = reference.follow(rows, at, count)
            same("follow", kernel.follow(view.cast("q"), at, count), expected)
            same("epochs", kernel.fetch_epochs(), reference.fetch_epochs())
            at = expected[0] + 1
            for succession in (reference, kernel):
                succession.index_at, succession.time_at = succession.index_at + 1, succession.time_at + 1
    for name in (
        "last_offset",
        "epoch",
        "gaps",
        "largest_timestamp",
        "index_noted",
        "time_noted",
        "future",
        "previous",
    ):
        same(name, getattr(kernel, name), getattr(reference, name))


Target = Callable[[random.Random, bytes], None]
# Each type of Avro that the kernel reads, and a record in itself.
AVRO = {
    "type": "record", "name": "R", "fields": [
        {"name": "long", "type": "long"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "decimal", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "date", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "moments", "type": {"type": "array", "items": {"type": "long", "logicalType": "timestamp-nanos"}}},
        {"name": "flags", "type": {"type": "map", "values": "boolean"}},
        {"name": "enum", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "more", "type": ["null", "R", {"type": "array", "items": "R"}]},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "float", "type": "float"},
        {"name": "double", "type": "double"},
    ],
}  # fmt: skip


@cache
def avro_schema() -> AvroSchema:
    return parse_avro_schema(Schemas("schemas", {"1.avsc": json.dumps(AVRO).encode()}), "1.avsc")


def avro_value(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """A value of AVRO as the bytes have it: numbers and bytes, no dates."""
    number, text = rng.choice((0, -1, 1 << 40, -(1 << 62))), rng.choice(("", "a", '\u202e"\\', "é" * 40))
    more = None if not depth else rng.choice((None, avro_value(rng, depth - 1), [avro_value(rng, depth - 1)]))
    return {
        "long": number, "text": rng.choice((None, text)), "decimal": rng.randbytes(rng.randrange(9)),
        "uuid": str(uuid.UUID(int=rng.getrandbits(128))), "date": rng.randrange(-(10**5), 10**5),
        "time": rng.randrange(86_400_000_000), "moments": [number] * rng.randrange(4), "flags": {text: True},
        "enum": rng.choice("AB"), "more": more, "fixed": rng.randbytes(2), "float": 0.1, "double": 1e300,
    }  # fmt: skip


def try_avro(rng: random.Random, _: bytes) -> None:
    """A value of Avro, mostly damaged: what the kernel makes text of, the reference does, too."""
    sink = io.BytesIO()
    plain = json.loads(json.dumps(AVRO), object_hook=lambda one: {k: v for k, v in one.items() if k != "logicalType"})
    fastavro.schemaless_writer(sink, fastavro.parse_schema(plain), avro_value(rng))
    value = bytearray(sink.getvalue()[: rng.choice((None, None, rng.randrange(sink.tell() + 1)))])
    for _ in range(rng.randrange(3) if value else 0):
        value[rng.randrange(len(value))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    program = build_program(avro_schema())
    text = None if program is None else program.text(bytes(value))
    if text is not None:
        same("avro", text, json_text(read_avro(avro_schema(), bytes(value))))


QUICK: tuple[Target, ...] = (try_checksums, try_walk, try_inflate, try_find_batch, try_prove, try_avro)
TARGETS: tuple[Target, ...] = (
    *QUICK,
    try_dump,
    try_dump,
    try_records,
    try_records,
    try_columns,
    try_columns,
    try_recover,
    try_recover,
    try_replay,
)


NO_BATCHES: tuple[Target, ...] = (try_checksums, try_inflate, try_avro)  # as many go through these as do by chance
OF_RECOVERY: tuple[Target, ...] = (try_recover, try_replay)


class Logs:
    """What inputs are made of: what a broker wrote, what asks the most of a kernel, and logs of many batches."""

    def __init__(self) -> None:
        self._found = [data for _, data in seeds((".log", ".checkpoint"))]
        self._worst = list(worst_cases().values())

    def made(self, numbers: Numbers) -> tuple[Target, random.Random, bytes]:
        """Return what an input is tried with, the chance of that, and its bytes, mostly damaged."""
        rng = random.Random(str(numbers[0]))
        target = rng.choice(TARGETS)
        data = self._drawn(rng, target)
        for number in numbers[1:]:
            more = random.Random(str(number))
            data = damaged(more, data, healed=more.random() < 0.7)
        return target, random.Random(str(numbers)), data

    def _drawn(self, rng: random.Random, target: Target) -> bytes:
        kind = rng.random()
        if target in OF_RECOVERY and rng.random() < 0.7:
            log = recovery_log(rng, rng.choice((1, 5, 60, 200)))
            return wounded(rng, log) if kind < 0.5 else damaged(rng, log, healed=True)
        if kind < 0.2:
            return drawn_case(rng)
        data = rng.choice(self._found) if kind < 0.7 else drawn_case(rng) if kind < 0.9 else rng.choice(self._worst)
        return damaged(rng, data, healed=rng.random() < 0.5)


def run(led: Led, inputs: int, seconds: float) -> tuple[int, int]:
    """How many inputs went through, and how many whole batches were in those of which a kernel reads batches."""
    logs, until, batches = Logs(), time.monotonic() + seconds, 0
    for n, numbers in enumerate(led.walk()):
        if n == inputs or time.monotonic() > until:
            return n, batches
        batches += try_one(logs, numbers)
    raise AssertionError("inputs have an end")


def try_one(logs: Logs, numbers: Numbers) -> int:
    """Try an input. Return how many batches a kernel reads there."""
    target, rng, data = logs.made(numbers)
    try:
        target(rng, data)
    except BaseException:
        print(f"kernels.py --again {' '.join(map(str, numbers))}", file=sys.stderr)
        raise
    return 0 if target in NO_BATCHES else sum(1 for _ in frames_of(data))


def ways_of_kernels() -> Ways | None:
    """Where the kernels tell no ways, inputs are of chance."""
    try:
        return Ways(kernels.native.__file__)
    except ValueError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--inputs", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--corpus", type=pathlib.Path, help="read first, and written at the end")
    parser.add_argument("--again", type=int, nargs="+", metavar="NUMBER", help="try this input alone")
    add_option(parser)
    options = parser.parse_args()
    if not kernels.is_built():
        raise SystemExit("kernels.py: the extension is not built")
    if options.again:
        try_one(Logs(), tuple(options.again))
        return
    ways = ways_of_kernels()
    led = Led(ways, options.seed, read_corpus(options.corpus) if options.corpus else ())
    done, batches = run(led, options.inputs, options.seconds)
    add(options.add, "kernels.py", inputs=done, batches=batches)
    how = "of chance" if ways is None else f"led by coverage ({len(led.kept)} kept, {led.count:,} ways)"
    print(f"{done:,} damaged inputs {how}, {batches:,} batches, seed {options.seed}: nothing found")
    print(f"through {kernels.native.__file__}")
    if options.corpus and ways is not None:
        write_corpus(options.corpus, led.kept)


if __name__ == "__main__":
    main()
