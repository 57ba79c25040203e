"""Faults of whole log dirs: checkpoints, the clean marker, ids, folders that are absent, moved, renamed, copied."""

from __future__ import annotations

import base64
import os
import re
import shutil

from .bases import LOG_DIRS
from .disks import CHECKPOINTS, MARKER, METADATA, Disks, Fault, read_lines, write_lines

BROKEN = ("", "0\n", "hello\n", "0\n5\nplain 0 3\n", "0\n1\nplain 0 x\n", "7\n0\n", "0\n1\nplain 0 3\nplain 0 4\n")
EXTRA = (
    "foo",
    "new-0",
    "plain-7",
    "lost+found",
    "plain-0.bak",
    "remote-log-index-cache",
    "plain-00",
    "x-3.0123456789abcdef0123456789abcdef-delete",
    "y-2.0123456789abcdef0123456789abcdef-stray",
    "plain-0.0123456789abcdef0123456789abcdef-future",
    "plain-1.ABC-stray",
    "plain-1-delete",
    "plain-0 (copy)",
    "plain-99999999999",
    ".snapshot-0",
    "-0",
)


def older_checkpoint(disks: Disks) -> str | None:
    log_dir, name = disks.log_dir(), disks.rng.choice(CHECKPOINTS)
    old = disks.rng.choice(disks.older) / log_dir.name / name
    if not old.exists():
        return None
    shutil.copy2(old, log_dir / name)
    return f"older {log_dir.name}/{name} ({old.parts[-3]})"


def remove_checkpoint(disks: Disks) -> str:
    file = disks.log_dir() / disks.rng.choice(CHECKPOINTS)
    file.unlink(missing_ok=True)
    return f"remove {disks.name(file)}"


def edit_checkpoint(disks: Disks) -> str:
    file = disks.log_dir() / disks.rng.choice(CHECKPOINTS[:3])
    lines = read_lines(file)
    partition = disks.rng.choice([path.name for path in disks.partitions() if path.parent == file.parent])
    was = lines.get(partition, 0)
    lines[partition] = disks.rng.choice([0, was // 2, max(0, was - 5), was + 7, 100000, -3, 25, 60])
    write_lines(file, lines)
    return f"edit {disks.name(file)}: {partition} {lines[partition]} (was {was})"


def break_checkpoint(disks: Disks) -> str:
    file = disks.log_dir() / disks.rng.choice(CHECKPOINTS)
    text = disks.rng.choice(BROKEN)
    file.write_text(text)
    return f"{disks.name(file)} reads {text!r}"


def swap_checkpoints(disks: Disks) -> str:
    """The same file of both log dirs, exchanged."""
    name = disks.rng.choice(CHECKPOINTS[:3])
    one, other = (log_dir / name for log_dir in disks.log_dirs)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second), other.write_bytes(first)
    return f"swap {name} of both log dirs"


def change_marker(disks: Disks) -> str:
    marker = disks.log_dir() / MARKER
    if marker.exists():
        marker.unlink()
        return f"remove the marker of {marker.parent.name}"
    marker.write_text('{"version":0,"brokerEpoch":-1}')
    return f"marker added to {marker.parent.name}"


def change_topic_id(disks: Disks) -> str:
    file = disks.partition() / "partition.metadata"
    how = disks.rng.choice(["random", "of another", "gone", "short"])
    if how == "gone":
        file.unlink()
    elif how == "of another":
        shutil.copy2(disks.partition() / "partition.metadata", file)
    elif how == "short":
        file.write_text("version: 0\n")
    else:
        text = base64.urlsafe_b64encode(disks.rng.randbytes(16)).decode().rstrip("=")
        file.write_text(f"version: 0\ntopic_id: {text}\n")
    return f"{disks.name(file)}: {how}"


def swap_topic_ids(disks: Disks) -> str:
    one, other = disks.rng.sample(disks.partitions(), 2)
    first, second = ((folder / "partition.metadata").read_bytes() for folder in (one, other))
    (one / "partition.metadata").write_bytes(second), (other / "partition.metadata").write_bytes(first)
    return f"swap the topic ids of {disks.name(one)} and {disks.name(other)}"


def extra_folder(disks: Disks) -> str | None:
    folder = disks.log_dir() / disks.rng.choice(EXTRA)
    if folder.exists():
        return None
    folder.mkdir()
    if disks.rng.random() < 0.5 and "-" in folder.name:
        for file in disks.partition().iterdir():
            if file.is_file():
                shutil.copy2(file, folder / file.name)
    return f"extra folder {disks.name(folder)} with {len(list(folder.iterdir()))} files"


def extra_file(disks: Disks) -> str:
    file = disks.log_dir() / disks.rng.choice(["notes.txt", "core", ".DS_Store", "backup.tar", "plain-0.log"])
    file.write_bytes(disks.rng.randbytes(40))
    return f"extra file {disks.name(file)}"


def move_partition(disks: Disks) -> str | None:
    partition = disks.partition()
    target = disks.other_log_dir(partition.parent) / partition.name
    if target.exists():
        return None
    shutil.move(partition, target)
    return f"move {disks.name(partition)} to {target.parent.name}"


def copy_partition(disks: Disks) -> str | None:
    """The same partition in both log dirs; half of them the older copy."""
    partition = disks.partition()
    target = disks.other_log_dir(partition.parent) / partition.name
    if target.exists():
        return None
    is_older = disks.rng.random() < 0.5
    shutil.copytree(disks.older_copy(partition) if is_older else partition, target)
    return f"{'older ' if is_older else ''}{partition.name} in {target.parent.name}, too"


def rename_partition(disks: Disks) -> str:
    partition, suffix = disks.partition(), disks.rng.choice(["future", "delete", "stray"])
    is_copied = suffix == "future" and disks.rng.random() < 0.5
    is_elsewhere = is_copied or disks.rng.random() < 0.4
    log_dir = disks.other_log_dir(partition.parent) if is_elsewhere else partition.parent
    target = log_dir / f"{partition.name}.{disks.rng.getrandbits(128):032x}-{suffix}"
    (shutil.copytree if is_copied else shutil.move)(partition, target)
    return f"{'copy' if is_copied else 'rename'} {disks.name(partition)} to {disks.name(target)}"


def older_beside(disks: Disks) -> str | None:
    """An older copy of a partition under a name that a move or a deletion gives, beside the partition or not."""
    partition, suffix = disks.partition(), disks.rng.choice(["future", "future", "delete", "stray"])
    old = disks.older_copy(partition)
    target = disks.log_dir() / f"{partition.name}.{disks.rng.getrandbits(128):032x}-{suffix}"
    shutil.copytree(old, target)
    return f"older {partition.name} ({old.parts[-3]}) as {disks.name(target)}"


def link_in_place_of_partition(disks: Disks) -> str:
    """The folder lies elsewhere, and a link leads there."""
    partition = disks.partition()
    place = disks.root / "elsewhere"
    place.mkdir(exist_ok=True)
    shutil.move(partition, place / partition.name)
    partition.symlink_to(f"../elsewhere/{partition.name}")
    return f"link in place of {disks.name(partition)}"


def file_in_place_of_partition(disks: Disks) -> str:
    partition = disks.partition()
    shutil.rmtree(partition)
    partition.write_bytes(b"")
    return f"file in place of {disks.name(partition)}"


def exchange_log_dirs(disks: Disks) -> str:
    """The disks are mounted at each other's place."""
    one, other = disks.log_dirs
    between = disks.root / "between"
    one.rename(between), other.rename(one), between.rename(other)
    return "the log dirs exchanged"


def exchange_partitions(disks: Disks) -> str:
    """Two partition dirs under each other's name, as after a restore by hand."""
    one, other = disks.rng.sample(disks.partitions(), 2)
    between = one.with_name("between")
    first, second = one.name, other.name
    one.rename(between)
    other.rename(one.parent / first)
    shutil.move(between, other.parent / second)
    return f"exchange the folders {disks.name(one)} and {disks.name(other)}"


def remove_partition(disks: Disks) -> str:
    partition = disks.partition()
    shutil.rmtree(partition)
    return f"remove {disks.name(partition)}"


def empty_partition(disks: Disks) -> str:
    partition = disks.partition()
    for file in partition.iterdir():
        file.unlink()
    return f"empty {disks.name(partition)}"


def older_partition_folder(disks: Disks) -> str:
    partition = disks.partition()
    old = disks.older_copy(partition)
    shutil.rmtree(partition)
    shutil.copytree(old, partition)
    return f"older {disks.name(partition)} as a whole, id included ({old.parts[-3]})"


def older_log_dir(disks: Disks) -> str:
    """One whole log dir from an older snapshot of its disk, the other as it is."""
    log_dir = disks.log_dirs[1]
    old = disks.rng.choice(disks.older) / log_dir.name
    shutil.rmtree(log_dir)
    shutil.copytree(old, log_dir, symlinks=True)
    return f"older {log_dir.name} as a whole ({old.parts[-2]})"


def change_meta_properties(disks: Disks) -> str:
    file = disks.log_dir() / "meta.properties"
    text = file.read_text()
    how = disks.rng.choice(["gone", "of the other", "without directory.id", "another cluster", "empty", "another node"])
    if how == "gone":
        file.unlink()
    elif how == "of the other":
        shutil.copy2(disks.other_log_dir(file.parent) / file.name, file)
    elif how == "without directory.id":
        file.write_text(re.sub(r"directory\.id=.*\n", "", text))
    elif how == "another cluster":
        file.write_text(re.sub(r"cluster\.id=.*", "cluster.id=AAAAAAAAQAAAAAAAAAAAAQ", text))
    elif how == "another node":
        file.write_text(re.sub(r"node\.id=.*", "node.id=7", text))
    else:
        file.write_text("")
    return f"{disks.name(file)}: {how}"


def damage_metadata(disks: Disks) -> str:
    folder = disks.root / LOG_DIRS[0] / METADATA
    file = disks.rng.choice([path for path in sorted(folder.iterdir()) if path.is_file() and path.stat().st_size])
    how = disks.rng.choice(["flip", "cut", "gone"])
    if how == "gone":
        file.unlink()
        return f"metadata {file.name}: gone"
    data = bytearray(file.read_bytes())
    at = disks.rng.randrange(min(len(data), 9000))
    if how == "flip":
        data[at] ^= 1 << disks.rng.randrange(8)
        file.write_bytes(data)
    else:
        os.truncate(file, at)
    return f"metadata {file.name}: {how} {at}"


def older_metadata(disks: Disks) -> str:
    """The cluster's metadata from an older copy: it does not know what came later."""
    folder = disks.root / LOG_DIRS[0] / METADATA
    old = disks.rng.choice(disks.older) / LOG_DIRS[0] / METADATA
    shutil.rmtree(folder)
    shutil.copytree(old, folder)
    return f"older {disks.name(folder)} ({old.parts[-3]})"


MENU: list[tuple[Fault, float]] = [
    (older_checkpoint, 5),
    (remove_checkpoint, 2),
    (edit_checkpoint, 5),
    (break_checkpoint, 1.2),
    (swap_checkpoints, 1),
    (change_marker, 4),
    (change_topic_id, 1.5),
    (swap_topic_ids, 1),
    (extra_folder, 1.5),
    (extra_file, 0.7),
    (move_partition, 2),
    (copy_partition, 1),
    (rename_partition, 2.5),
    (older_beside, 2),
    (link_in_place_of_partition, 0.5),
    (file_in_place_of_partition, 0.4),
    (exchange_log_dirs, 0.4),
    (exchange_partitions, 1),
    (remove_partition, 1.5),
    (empty_partition, 0.7),
    (older_partition_folder, 3),
    (older_log_dir, 0.7),
    (change_meta_properties, 0.6),
    (damage_metadata, 0.8),
    (older_metadata, 0.4),
]
