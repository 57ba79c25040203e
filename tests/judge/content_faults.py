"""Faults of what files have in them: each kind of damage that dumps are compared over, and what transfers do to bytes
and names."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

from kafka.damage import harm
from kafka.layout import put

from .disks import Disks, Fault, segment_files

BLOCK = 512
# How a transfer as text changes each byte of a file.
AS_TEXT: dict[str, Callable[[bytes], bytes]] = {
    "LF became CR LF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR LF became LF": lambda data: data.replace(b"\r\n", b"\n"),
    "CR is gone": lambda data: data.replace(b"\r", b""),
    "no UTF-8, so replaced": lambda data: data.decode("utf-8", "replace").encode(),
    "Latin-1 as UTF-8": lambda data: data.decode("latin-1").encode(),
    "its eighth bits are gone": lambda data: bytes(byte & 0x7F for byte in data),
    "ended at Ctrl-Z": lambda data: data.partition(b"\x1a")[0],
}


def harmed(disks: Disks) -> str | None:
    """One of the kinds of `kafka.damage`, in one partition."""
    partition = disks.partition()
    before = {path.name: path.read_bytes() for path in sorted(partition.iterdir()) if path.is_file()}
    files = dict(before)
    name, story = harm(files, disks.rng)
    for gone in before.keys() - files.keys():
        (partition / gone).unlink()
    for file in sorted(files):
        if file.endswith("/"):
            (partition / file).mkdir(exist_ok=True)
        elif files[file] != before.get(file):
            (partition / file).write_bytes(files[file])
    return f"{name} in {disks.name(partition)}: {story}" if files != before else None


def sent_as_text(disks: Disks) -> str | None:
    """One file, or all of a segment, came through something that takes bytes for text."""
    log = disks.log()
    how = disks.rng.choice(list(AS_TEXT))
    files = segment_files(log) if disks.rng.random() < 0.3 else [disks.rng.choice(segment_files(log))]
    for file in files:
        file.write_bytes(AS_TEXT[how](file.read_bytes()))
    return f"{how}: {' '.join(disks.name(file) for file in files)}"


def exchanged_blocks(disks: Disks) -> str:
    log = disks.log()
    data = log.read_bytes()
    one, other = disks.rng.sample(range(0, len(data), BLOCK), 2)
    first, second = data[one : one + BLOCK], data[other : other + BLOCK]
    log.write_bytes(put(put(data, one, second), other, first)[: len(data)])
    return f"blocks {one} and {other} of {disks.name(log)} are exchanged"


def erased_block(disks: Disks) -> str:
    """As flash memory has it: ones, or the pattern of a disk that was never written."""
    log = disks.log()
    data, byte = log.read_bytes(), disks.rng.choice([0xFF, 0xE5, 0xAA, 0x20])
    at = disks.rng.randrange(len(data)) // BLOCK * BLOCK
    log.write_bytes(put(data, at, bytes([byte]) * BLOCK)[: len(data)])
    return f"block {at} of {disks.name(log)} is {byte:#x} throughout"


def repeated_block(disks: Disks) -> str:
    """A write that was done twice, the second time behind itself."""
    log = disks.log()
    data = log.read_bytes()
    at = disks.rng.randrange(len(data)) // BLOCK * BLOCK
    log.write_bytes(put(data, at + BLOCK, data[at : at + BLOCK]))
    return f"block {at} of {disks.name(log)} is again in the next one"


def packed(disks: Disks) -> str:
    """gzip in place: under its own name, or with .gz, and without the original."""
    file = disks.rng.choice(segment_files(disks.log()))
    target = file if disks.rng.random() < 0.4 else file.with_name(f"{file.name}.gz")
    data = gzip.compress(file.read_bytes(), mtime=0)
    file.unlink()
    target.write_bytes(data)
    return f"{disks.name(file)} is gzip at {target.name}"


def named_by_a_copy(disks: Disks) -> str:
    """What file managers and other systems make of names."""
    log = disks.log()
    names: list[Callable[[Path], str]] = [
        lambda file: f"{file.stem} (1){file.suffix}",
        lambda file: f"{file.stem} - Copy{file.suffix}",
        lambda file: f"._{file.name}",
        lambda file: file.name.upper(),
        lambda file: f"{file.name}.part",
        lambda file: f".{file.name}.Xy12Zw",
        lambda file: f"{file.name}.1",
        lambda file: f".nfs{file.stem}",
        lambda file: f"{file.name} ",
    ]
    rename, is_kept = disks.rng.choice(names), disks.rng.random() < 0.5
    files = segment_files(log) if disks.rng.random() < 0.5 else [log]
    for file in files:
        (shutil.copy2 if is_kept else shutil.move)(file, file.with_name(rename(file)))
    return f"{' '.join(map(disks.name, files))} as {rename(log)}, {'too' if is_kept else 'instead'}"


MENU: list[tuple[Fault, float]] = [
    (harmed, 6),
    (sent_as_text, 1),
    (exchanged_blocks, 0.7),
    (erased_block, 0.7),
    (repeated_block, 0.5),
    (packed, 0.5),
    (named_by_a_copy, 1),
]
