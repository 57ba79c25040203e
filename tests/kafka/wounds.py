"""Random damages of a partition dir, most of them without a name: bits, cuts, zeros, files that are gone, have another
name or are there twice, batches moved about, header fields changed under a right checksum; and questions that are asked
with other checkpoints and settings than the log was written with.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from klogtool.errors import KlogError
from klogtool.format.checksums import crc32c
from klogtool.format.names import parse_base_offset

from .damage import harm
from .folders import files_of

STRANGE_NAMES = (
    "foo",
    "12.log",
    f"{7:020d}.index",
    f"{7:020d}.snapshot",
    "9.snapshot",
    "x.timeindex",
    f"{3:020d}.log",
    "-5.log",
    "foo.snapshot",
    ".log",
    "3.txnindex",
    "leader-epoch-checkpoint.tmp",
    f"{0:020d}-0000000001.checkpoint.deleted",
)


def wound(rng: random.Random, folder: Path, args: dict[str, Any], config: dict[str, str]) -> str:
    """One of them, done and told."""
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    if not paths:
        return "nothing is there"
    if rng.random() < 0.2:
        return _another_question(rng, folder, args, config)
    if rng.random() < 0.2:
        return _in_a_way_that_has_a_name(rng, folder)
    logs = [path for path in paths if path.suffix == ".log" and path.stat().st_size > 61]
    if logs and rng.random() < 0.4:
        return rng.choice((_move_batches, _repeat_batch, _change_offset, _change_header, _change_header))(
            rng, rng.choice(logs)
        )
    return rng.choice((_flip, _flip, _flip, _cut, _append, _append, _remove, _rename, _copy))(rng, rng.choice(paths))


def _in_a_way_that_has_a_name(rng: random.Random, folder: Path) -> str:
    """One of damage.py's; it may concern several files."""
    before = files_of(folder)
    files = dict(before)
    name, told = harm(files, rng)
    for path in sorted({*before, *files}):
        if path not in files:
            (folder / path).unlink()
        elif files[path] != before.get(path) and not path.endswith("/"):
            (folder / path).write_bytes(files[path])
    return f"{name}: {told}"


def _another_question(rng: random.Random, folder: Path, args: dict[str, Any], config: dict[str, str]) -> str:
    offsets = [0, 1, 5, 20, 60, 10**6, *_bases(folder)]
    what = rng.choice(("clean", "recovery_point", "log_start_offset", "index.interval.bytes", "segment.index.bytes"))
    if what == "clean":
        args["clean"] = not args.get("clean")
    elif what in ("recovery_point", "log_start_offset"):
        args[what] = rng.choice([*offsets, 2**63 - 1] if what == "recovery_point" else offsets)
    else:
        config[what] = rng.choice(("0", "50", "1000") if "interval" in what else ("8", "12", "24", "40", "100", "2000"))
    return f"{what}: {args.get(what, config.get(what))}"


def _bases(folder: Path) -> list[int]:
    found = []
    for path in folder.glob("*.log"):
        try:
            found.append(parse_base_offset(path.name))
        except KlogError:
            continue
    return found


def _flip(rng: random.Random, path: Path) -> str:
    data = bytearray(path.read_bytes())
    if not data:
        return f"{path.name} is empty"
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"a bit of byte {at} of {path.name} is flipped"


def _cut(rng: random.Random, path: Path) -> str:
    size = rng.randrange(path.stat().st_size + 1)
    path.write_bytes(path.read_bytes()[:size])
    return f"{path.name} is cut at {size}"


def _append(rng: random.Random, path: Path) -> str:
    more = rng.choice((bytes(rng.choice((1, 7, 12, 17, 18, 40, 100))), rng.randbytes(rng.randrange(1, 80))))
    path.write_bytes(path.read_bytes() + more)
    return f"{len(more)} bytes, {'some' if any(more) else 'none'} of them not zero, are put behind {path.name}"


def _remove(_: random.Random, path: Path) -> str:
    path.unlink()
    return f"{path.name} is gone"


def _rename(rng: random.Random, path: Path) -> str:
    name = path.name + rng.choice((".swap", ".cleaned", ".deleted", ".tmp"))
    path.rename(path.with_name(name))
    return f"{path.name} is called {name}"


def _copy(rng: random.Random, path: Path) -> str:
    name = rng.choice((*(path.name + end for end in (".swap", ".cleaned", ".deleted", ".swap")), *STRANGE_NAMES))
    path.with_name(name).write_bytes(path.read_bytes())
    return f"a copy of {path.name} is called {name}"


# Batches: (position, bytes), as far as lengths lead.


def _batches(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while len(data) - at > 17:
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if not 26 <= size <= len(data) - at:
            break
        found.append((at, data[at : at + size]))
        at += size
    return found


def _on_batches(change: Callable[[random.Random, list[bytes]], str], rng: random.Random, path: Path) -> str:
    data = path.read_bytes()
    batches = _batches(data)
    if not batches:
        return f"{path.name} has no batch"
    changed = [batch for _, batch in batches]
    told = change(rng, changed)
    path.write_bytes(b"".join(changed) + data[sum(len(batch) for _, batch in batches) :])
    return f"{path.name}: {told}"


def _move_batches(rng: random.Random, path: Path) -> str:
    def change(rng: random.Random, batches: list[bytes]) -> str:
        n = rng.randrange(len(batches))
        batches.insert(rng.randrange(len(batches)), batches.pop(n))
        return f"batch {n} is elsewhere"

    return _on_batches(change, rng, path)


def _repeat_batch(rng: random.Random, path: Path) -> str:
    def change(rng: random.Random, batches: list[bytes]) -> str:
        n = rng.randrange(len(batches))
        batches.insert(n, batches[n])
        return f"batch {n} is there twice"

    return _on_batches(change, rng, path)


def _change_offset(rng: random.Random, path: Path) -> str:
    def change(rng: random.Random, batches: list[bytes]) -> str:
        n = rng.randrange(len(batches))
        base = int.from_bytes(batches[n][:8], "big", signed=True)
        far = (base + 2**31, base + 2**32, base - 1, base + 3)
        offset = rng.choice((0, 1, -1, 2**31, 2**33, *far, 2**63 - 2))
        batches[n] = struct.pack(">q", max(-(2**63), min(offset, 2**63 - 1))) + batches[n][8:]
        return f"batch {n} is at offset {offset}"

    return _on_batches(change, rng, path)


# position, letter of struct, values: attributes, last offset delta, timestamps, producer, sequence, count, leader epoch
_FIELDS: tuple[tuple[int, str, tuple[int, ...]], ...] = (
    (21, ">h", (0, 8, 16, 32, 48, 5, 0x70)),
    (23, ">i", (0, 1, 100, -1, -100, 2**31 - 1)),
    (27, ">q", (0, -1, 1_700_000_000_000)),
    (35, ">q", (0, -1, 1_700_000_000_000, 2**62)),
    (43, ">q", (-1, 0, 5, 1000, -5)),
    (51, ">h", (-1, 0, 1, 5, 32767)),
    (53, ">i", (-1, 0, 2**31 - 1, 7)),
    (57, ">i", (0, 1, -1, 100)),
    (12, ">i", (-1, 0, 3, 77, -9)),
)


def _change_header(rng: random.Random, path: Path) -> str:
    """A field of a batch, its checksum set right; of a message of magic 0 or 1, any bit of it."""

    def change(rng: random.Random, batches: list[bytes]) -> str:
        n = rng.randrange(len(batches))
        batch = bytearray(batches[n])
        if batch[16] == 2 and len(batch) >= 61:
            at, letter, values = rng.choice(_FIELDS)
            struct.pack_into(letter, batch, at, rng.choice(values))
            struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
        else:
            at = rng.randrange(16, len(batch))
            batch[at] ^= 1 << rng.randrange(8)
            struct.pack_into(">I", batch, 12, zlib.crc32(bytes(batch[16:])))
        batches[n] = bytes(batch)
        return f"byte {at} of batch {n} is another one, the checksum is right"

    return _on_batches(change, rng, path)
