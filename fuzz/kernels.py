#!/usr/bin/env python3
"""Damaged inputs through the kernels: `kernels.py [--seconds N | --inputs N] [--seed S]`.

Meant to run under ASan and UBSan (sanitize.sh). Each input and each output lies in a malloc block of its exact size:
in Python's own arenas the sanitizer would not see a byte too far. What has a simple counterpart in klogtool/format is
compared with it; the text of dumps is compared in dump_log.py.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from damaged import damaged, seeds  # first: it makes the modules of tests/ known

from klogtool import kernels
from klogtool.format import checksums, codecs, framing

from guard_pages import entry_body  # isort: skip

OUT_SIZES = (1, 500, 2000, 1 << 16, 1 << 20)
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


def try_dump(rng: random.Random, data: bytes) -> None:
    """All entries, each that the kernel leaves to the reference stepped over, with too little room now and then."""
    native = kernels.native
    cut, _ = framing.whole_frames(data, len(data))
    flags = rng.choice((0, native.DEEP, native.DEEP | native.PRINT_DATA, 7, native.DEEP | native.JSON))
    select, name = chosen_selection(rng), b'"t-0/0.log"'
    room, gap_pairs = rng.choice(OUT_SIZES), rng.choice((1, 4, 1024))
    state, body = array("q", (-1, 0, 0, 0, 0)), None
    at = 0
    with copied(data) as log, copied(name) as file:
        for _ in range(MOST_CALLS):
            gaps = array("q", bytes(16 * gap_pairs))
            with block(room) as out, copied(body or b"") as inside:
                given = None if body is None else inside
                at, written, why = native.dump(log, at, cut, 0, flags, state, gaps, out, given, select, file)
            body, state[1] = None, 0
            if why == native.DONE:
                break
            if why == native.BODY:
                body = entry_body(data, at)
            if why == native.FULL and not written:
                room, gap_pairs = max(state[2], 1 << 20), 1 + state[2] // 64
            if why == native.REFERENCE or (why == native.BODY and body is None):
                frame = framing.find_frame(data, at, cut)
                if not isinstance(frame, framing.Frame):
                    break
                at += frame.size
        else:
            raise AssertionError("dump() does not come to an end")


TARGETS: tuple[Callable[[random.Random, bytes], None], ...] = (try_checksums, try_walk, try_inflate, try_dump, try_dump)


def run(seed: int, inputs: int, seconds: float) -> int:
    """How many inputs went through; the last one can be had again by its seed."""
    found = [data for _, data in seeds((".log", ".checkpoint"))]
    until = time.monotonic() + seconds
    for n in range(inputs):
        if time.monotonic() > until:
            return n
        rng = random.Random(f"{seed}-{n}")
        data = damaged(rng, rng.choice(found), healed=rng.random() < 0.5)
        try:
            rng.choice(TARGETS)(rng, data)
        except BaseException:
            print(f"kernels.py: input {n} of seed {seed}", file=sys.stderr)
            raise
    return inputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--inputs", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    if kernels.native is None:
        raise SystemExit("kernels.py: the extension is not built")
    done = run(options.seed, options.inputs, options.seconds)
    print(f"{done} damaged inputs through {kernels.native.__file__}, seed {options.seed}: nothing found")


if __name__ == "__main__":
    main()
