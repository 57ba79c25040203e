"""Faults of what is sound, in a wrong place: blocks, batches, side files and left-overs of another segment, partition
or time. A restore, a file system and a hand with `cp` leave these."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from kafka.layout import BATCH, Entry, put, walk, with_field

from .disks import Disks, Fault, segment_files

BLOCK = 512
ENDINGS = (".index", ".timeindex", ".txnindex", ".snapshot")
INDEX_BYTES = (16384, 16380, 16376, 12288, 4096, 20480)
CONTROL, LOG_PADDED_TO = 0x20, (3000, 4096, 8192)


# ---------------------------------------------------------------- blocks


def misdirected_write(disks: Disks) -> str:
    """A block of one file lies in the middle of another one, or of the same."""
    one, other = disks.log(), disks.log()
    data, source = one.read_bytes(), other.read_bytes()
    at, of = (disks.rng.randrange(len(each)) // BLOCK * BLOCK for each in (data, source))
    one.write_bytes(put(data, at, source[of : of + BLOCK])[: max(len(data), at + BLOCK)])
    return f"block {at} of {disks.name(one)} is block {of} of {disks.name(other)}"


def lost_write(disks: Disks) -> str | None:
    """A block is as it was in an older state."""
    log = disks.log()
    old = disks.older_copy(log.parent) / log.name
    data, source = log.read_bytes(), old.read_bytes()
    at = disks.rng.randrange(len(data)) // BLOCK * BLOCK
    block = (source[at : at + BLOCK]).ljust(min(BLOCK, len(data) - at), b"\0")
    log.write_bytes(put(data, at, block)[: len(data)])
    return f"block {at} of {disks.name(log)} is older ({old.parts[-4]})"


def bytes_missing(disks: Disks) -> str:
    """A download that went on at a wrong place: what follows has moved."""
    log = disks.log()
    data = log.read_bytes()
    at, size = disks.rng.randrange(len(data)), disks.rng.choice([1, 7, 61, 300])
    log.write_bytes(data[:at] + data[at + size :])
    return f"{size} bytes missing at {at} of {disks.name(log)}"


def bytes_too_many(disks: Disks) -> str:
    log = disks.log()
    data = log.read_bytes()
    at, size = disks.rng.randrange(len(data)), disks.rng.choice([1, 7, 61, 300])
    log.write_bytes(data[:at] + data[max(0, at - size) : at] + data[at:])
    return f"{size} bytes twice at {at} of {disks.name(log)}"


def padded_log(disks: Disks) -> str:
    """Preallocated, and not cut to what was written since the broker was killed."""
    log = disks.log()
    size = disks.rng.choice(LOG_PADDED_TO)
    if size > log.stat().st_size:
        os.truncate(log, size)
    return f"{disks.name(log)} padded to {size}"


# ---------------------------------------------------------------- batches


def remove_markers(disks: Disks) -> str | None:
    """The transactions of a segment, or of the partition, have no end any more."""
    logs = disks.files(".log") if disks.rng.random() < 0.5 else [disks.log()]
    removed = sum(_keep(log, lambda entry: not entry.value("attributes") & CONTROL) for log in logs)
    return f"{removed} markers out of {len(logs)} segments of {disks.name(logs[0].parent)}" if removed else None


def remove_producer(disks: Disks) -> str | None:
    """All batches of one producer are left out, markers too."""
    log = disks.log()
    ids = sorted({entry.value("producer_id") for entry in walk(log.read_bytes())})
    one = disks.rng.choice(ids)
    removed = _keep(log, lambda entry: entry.value("producer_id") != one)
    return f"{removed} batches of producer {one} out of {disks.name(log)}"


def _keep(log: Path, is_kept: Callable[[Entry], bool]) -> int:
    data = log.read_bytes()
    entries = [entry for entry in walk(data) if entry.magic == 2]
    kept = [entry for entry in entries if is_kept(entry)]
    if len(kept) < len(entries):
        log.write_bytes(b"".join(entry.data for entry in kept) + data[entries[-1].end :])
    return len(entries) - len(kept)


def move_batches(disks: Disks) -> str:
    """The last batches of one segment lie at the end, or at the start, of another one."""
    one, other = disks.rng.sample(disks.files(".log"), 2)
    data, rest = one.read_bytes(), other.read_bytes()
    entries = walk(data)
    first = disks.rng.choice(entries[-3:])
    is_kept, is_before = disks.rng.random() < 0.4, disks.rng.random() < 0.5
    moved = data[first.position : entries[-1].end]
    other.write_bytes(moved + rest if is_before else rest + moved)
    if not is_kept:
        one.write_bytes(data[: first.position])
    how = f"{'copied' if is_kept else 'moved'} {'before' if is_before else 'behind'}"
    return f"batches of {disks.name(one)} from {first.position} on {how} those of {disks.name(other)}"


def renumber_batches(disks: Disks) -> str:
    """Base offsets from a batch on are others: a copy of another replica's life, or a tool that numbers anew."""
    log = disks.log()
    data = log.read_bytes()
    entries = walk(data)
    at, shift = disks.rng.randrange(len(entries)), disks.rng.choice([-20, -3, -1, 1, 2, 15])
    changed = [entry.data if n < at else _moved(entry, shift) for n, entry in enumerate(entries)]
    log.write_bytes(b"".join(changed) + data[entries[-1].end :])
    return f"batches of {disks.name(log)} from number {at} on renumbered by {shift}"


def _moved(entry: Entry, shift: int) -> bytes:
    return with_field(entry.data, BATCH, "base_offset", max(0, entry.value("base_offset") + shift))


def join_segments(disks: Disks) -> str | None:
    """`cat` of two neighbours; the second of them goes, or stays."""
    logs = sorted(disks.partition().glob("*.log"))
    at = disks.rng.randrange(len(logs) - 1)
    one, other = logs[at : at + 2]
    one.write_bytes(one.read_bytes() + other.read_bytes())
    is_gone = disks.rng.random() < 0.6
    for file in segment_files(other) if is_gone else []:
        file.unlink()
    return f"{disks.name(other)} behind {disks.name(one)}{', and gone' * is_gone}"


def split_segment(disks: Disks) -> str | None:
    """A segment in two at the border of a batch, each under its first offset, without indexes of the second."""
    log = disks.log()
    data = log.read_bytes()
    entry = disks.rng.choice(walk(data)[1:])
    new = log.with_name(f"{entry.value('base_offset'):020d}.log")
    if new.exists():
        return None
    new.write_bytes(data[entry.position :])
    os.truncate(log, entry.position)
    return f"{disks.name(log)} split at {entry.position}: {new.name}"


# ---------------------------------------------------------------- side files


def side_files_of_another(disks: Disks) -> str:
    """All indexes of a segment are those of another one."""
    one, other = disks.rng.sample(disks.files(".log"), 2)
    copied = []
    for file in segment_files(other):
        if file.suffix in ENDINGS and disks.rng.random() < 0.8:
            shutil.copy2(file, one.with_suffix(file.suffix))
            copied.append(file.suffix)
    return f"{' '.join(copied)} of {disks.name(one)} are those of {other.name}"


def side_files_emptied(disks: Disks) -> str:
    """Of a segment, or of a whole partition, all indexes are empty, or zeros, or at a size that no broker gave them."""
    log = disks.log()
    size = disks.rng.choice([0, None, *INDEX_BYTES])
    files = list(log.parent.iterdir()) if disks.rng.random() < 0.3 else segment_files(log)
    for file in sorted(files):
        if file.suffix in (".index", ".timeindex") and file.is_file():
            file.write_bytes(bytes(file.stat().st_size if size is None else size))
    return f"indexes of {disks.name(log)} ({len(files)} files) are {size} zeros"


def preallocated_indexes(disks: Disks) -> str:
    """The zeros that a killed broker leaves behind the entries."""
    log = disks.log()
    size = disks.rng.choice(INDEX_BYTES)
    padded = [file for file in segment_files(log) if file.suffix in (".index", ".timeindex")]
    for file in padded:
        if file.stat().st_size < size:
            os.truncate(file, size)
    return f"{' '.join(file.suffix for file in padded)} of {disks.name(log)} padded to {size}"


def snapshot_elsewhere(disks: Disks) -> str | None:
    """A producer snapshot under another offset, or one of an older state, or of another partition."""
    snapshots = [*disks.files(".snapshot"), *disks.older_copy(disks.partition()).glob("*.snapshot")]
    source, partition = disks.rng.choice(snapshots), disks.partition()
    known = [int(file.name[:20]) for file in partition.iterdir() if file.name[:20].isdigit()]
    offset = max(0, disks.rng.choice(known) + disks.rng.choice([0, 0, -3, 1, 5, 500]))
    target = partition / f"{offset:020d}.snapshot"
    if target == source:
        return None
    shutil.copy2(source, target)
    which = "" if source.is_relative_to(disks.root) else f" ({source.parts[-4]})"
    return f"{disks.name(target)} is {source.parent.name}/{source.name}{which}"


# ---------------------------------------------------------------- left-overs


def left_over_group(disks: Disks) -> str:
    """What a cleaning of two segments into one leaves at each of its steps: originals, .cleaned, .swap, .deleted."""
    logs = sorted(disks.partition().glob("*.log"))
    at = disks.rng.randrange(len(logs) - 1)
    one, other = logs[at : at + 2]
    suffix = disks.rng.choice([".cleaned", ".swap", ".swap"])
    joined = one.read_bytes() + other.read_bytes()
    one.with_name(f"{one.name}{suffix}").write_bytes(joined)
    told = f"{one.name}{suffix} holds {one.name} and {other.name}"
    for log in (one, other):
        how = disks.rng.choice(["stays", "stays", ".deleted", "gone"])
        for file in segment_files(log) if how != "stays" else []:
            if file.suffix not in (".log", ".index", ".timeindex", ".txnindex"):
                continue
            file.rename(file.with_name(f"{file.name}.deleted")) if how == ".deleted" else file.unlink()
        told += f", {log.name} {how}"
    return told


def left_over_split(disks: Disks) -> str:
    """What a split of a segment leaves: two .swap or .cleaned files, and the original as it was, .deleted, or gone."""
    log = disks.log()
    data = log.read_bytes()
    entry = disks.rng.choice(walk(data)[1:])
    told = []
    for base, part in (
        (int(log.name[:20]), data[: entry.position]),
        (entry.value("base_offset"), data[entry.position :]),
    ):
        file = log.with_name(f"{base:020d}.log{disks.rng.choice(['.swap', '.swap', '.cleaned'])}")
        file.write_bytes(part)
        told.append(file.name)
    how = disks.rng.choice(["stays", "stays", ".deleted", "gone"])
    if how == ".deleted":
        log.rename(log.with_name(f"{log.name}.deleted"))
    elif how == "gone":
        log.unlink()
    return f"{disks.name(log)} split into {' and '.join(told)}; it is {how}"


def older_left_over(disks: Disks) -> str:
    """A segment of an older state as .swap, .cleaned or .deleted."""
    partition = disks.partition()
    old = disks.rng.choice(sorted(disks.older_copy(partition).glob("*.log")))
    name = f"{old.name}{disks.rng.choice(['.swap', '.swap', '.cleaned', '.deleted'])}"
    shutil.copy2(old, partition / name)
    return f"{disks.name(partition)}/{name} is older ({old.parts[-4]})"


MENU: list[tuple[Fault, float]] = [
    (misdirected_write, 2),
    (lost_write, 2),
    (bytes_missing, 1.5),
    (bytes_too_many, 1),
    (padded_log, 1.5),
    (remove_markers, 1.5),
    (remove_producer, 1),
    (move_batches, 2),
    (renumber_batches, 1.5),
    (join_segments, 1.5),
    (split_segment, 1.5),
    (side_files_of_another, 2),
    (side_files_emptied, 1.5),
    (preallocated_indexes, 2),
    (snapshot_elsewhere, 2),
    (left_over_group, 2),
    (left_over_split, 2),
    (older_left_over, 1.5),
]
