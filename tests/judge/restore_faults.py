"""Faults of restores and of whole disks: copies that ended early, that were laid over what was there, or that landed
one folder too deep; files that a file system cut, emptied, or made one of."""

from __future__ import annotations

import base64
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from .disks import CHECKPOINTS, MARKER, METADATA, PARTITION, Disks, Fault, partitions_of, read_lines, write_lines

ID = "partition.metadata"
FAR_TIMES_S = (0, 1, -86400, 4102444800, 2**33)  # 1970, the day before, 2100, 2242
UNITS = (64, 256, 512, 1024, 4096)


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_file()]


# ---------------------------------------------------------------- in a partition


def restore_ended_early(disks: Disks) -> str:
    """`tar` or `scp` of a partition, now or older, went as far as some file, in the order of names or of the disk."""
    partition = disks.partition()
    is_older = disks.rng.random() < 0.4
    files = [(path.name, path.read_bytes()) for path in _files(disks.older_copy(partition) if is_older else partition)]
    if is_older:
        files = [(name, data) for name, data in files if name != ID]
    if disks.rng.random() < 0.4:
        disks.rng.shuffle(files)
    count = disks.rng.randrange(len(files))
    for path in _files(partition):
        if path.name != ID or disks.rng.random() < 0.2:
            path.unlink()
    for name, data in files[:count]:
        (partition / name).write_bytes(data)
    name, data = files[count]
    size = disks.rng.choice([0, disks.rng.randrange(len(data) + 1)])
    (partition / name).write_bytes(data[:size])
    return f"{'older ' * is_older}{disks.name(partition)} restored up to {name}, of which {size} bytes"


def copy_over_older(disks: Disks) -> str:
    """`rsync` of the partition over an older copy of it, without --delete, ended early: old and new files, and the
    temporary one."""
    partition = disks.partition()
    old = {path.name: path for path in _files(disks.older_copy(partition)) if path.name != ID}
    new = {path.name: path for path in _files(partition) if path.name != ID}
    names = sorted(new)
    at = disks.rng.randrange(len(names))
    part = new[names[at]].read_bytes()
    for name in names[at:]:
        new[name].unlink()
    for name in old.keys() - set(names[:at]):
        shutil.copy2(old[name], partition / name)
    if is_inplace := disks.rng.random() < 0.4:
        # --inplace: what the old file has behind the part stays.
        size = disks.rng.randrange(len(part) + 1)
        rest = old[names[at]].read_bytes()[size:] if names[at] in old else b""
        (partition / names[at]).write_bytes(part[:size] + rest)
    else:
        (partition / f".{names[at]}.aB3dE6").write_bytes(part[: len(part) // 2])
    how = " --inplace" * is_inplace
    return f"rsync{how} of {disks.name(partition)} over an older copy ended at {names[at]}"


def only_one_kind(disks: Disks) -> str:
    """A backup of `*.log`, or of all but that."""
    partition = disks.partition()
    has_logs = disks.rng.random() < 0.6
    for path in _files(partition):
        if (path.suffix == ".log") != has_logs and path.name != ID:
            path.unlink()
    return f"{disks.name(partition)} has {'only' if has_logs else 'no'} .log"


def cut_to_blocks(disks: Disks) -> str:
    """The last block of files was never written: all of a partition, or those that were written last."""
    partition, unit = disks.partition(), disks.rng.choice(UNITS)
    files = sorted(_files(partition), key=lambda path: (path.stat().st_mtime_ns, path.name))
    cut = [path for path in files[disks.rng.choice([0, -1, -2, -4]) :] if path.name != ID]
    for path in cut:
        os.truncate(path, path.stat().st_size // unit * unit)
    return f"{disks.name(partition)}: cut to multiples of {unit}: {[path.name for path in cut]}"


def emptied_last(disks: Disks) -> str:
    """Files that were made last have no bytes: a power failure before their blocks were allocated."""
    partition = disks.partition()
    files = sorted(_files(partition), key=lambda path: (path.stat().st_mtime_ns, path.name))
    emptied = [path for path in files[-disks.rng.choice([1, 2, 3, 5, 8]) :] if path.name != ID]
    for path in emptied:
        os.truncate(path, 0)
    return f"{disks.name(partition)}: no bytes in {[path.name for path in emptied]}"


def merged_with_another(disks: Disks) -> str:
    """The files of another partition, or of an older state of it, were copied into the folder: all, or those that were
    not there."""
    partition = disks.partition()
    source = disks.rng.choice([path for state in disks.older for path in partitions_of(state)])
    is_over = disks.rng.random() < 0.4
    copied = [path for path in _files(source) if path.name != ID and (is_over or not (partition / path.name).exists())]
    for path in copied:
        shutil.copy2(path, partition / path.name)
    return f"{len(copied)} files of {source.name} ({source.parts[-3]}) into {disks.name(partition)}{', over' * is_over}"


def same_files_linked(disks: Disks) -> str | None:
    """A tool that saves space made one file of those with the same bytes."""
    first: dict[bytes, Path] = {}
    linked = []
    for path in _files(disks.partition()):
        data = path.read_bytes()
        if data and (one := first.setdefault(data, path)) != path:
            path.unlink()
            os.link(one, path)
            linked.append(path.name)
    return f"hard links in {disks.name(disks.partitions()[0])}: {linked}" if linked else None


def far_times(disks: Disks) -> str:
    """A clock that jumped, or a copy that set times to nothing."""
    partition, time_s = disks.partition(), disks.rng.choice(FAR_TIMES_S)
    files = _files(partition)
    chosen = disks.rng.sample(files, disks.rng.randrange(1, len(files) + 1))
    for path in sorted(chosen):
        os.utime(path, (time_s, time_s))
    return f"times of {len(chosen)} files of {disks.name(partition)} are {time_s} s"


def temporary_left(disks: Disks) -> str:
    """What a checkpoint is written to before it is renamed; or a folder of that name."""
    partition = disks.partition()
    name = disks.rng.choice(["leader-epoch-checkpoint.tmp", f"{ID}.tmp"])
    target = partition / name
    if disks.rng.random() < 0.5:
        target.mkdir()
        return f"folder {disks.name(target)}"
    target.write_bytes((partition / name.removesuffix(".tmp")).read_bytes()[: disks.rng.choice([0, 5, 100])])
    return f"left-over {disks.name(target)}"


def one_folder_too_deep(disks: Disks) -> str:
    """`cp -r` into a folder that is there already; what was in it stays, or is gone."""
    partition, source = disks.partition(), disks.partition()
    files = [(path.name, path.read_bytes()) for path in _files(source)]
    is_gone = disks.rng.random() < 0.5
    for path in _files(partition) if is_gone else []:
        if path.name != ID:
            path.unlink()
    inner = partition / source.name
    inner.mkdir()
    for name, data in files:
        (inner / name).write_bytes(data)
    return f"{disks.name(inner)} with {len(files)} files{', and nothing beside it' * is_gone}"


# ---------------------------------------------------------------- in log dirs


def behind_its_future(disks: Disks) -> str:
    """A move between log dirs whose source was restored: the partition is older than its -future."""
    partition = disks.partition()
    old = disks.older_copy(partition)
    log_dir = disks.rng.choice([partition.parent, disks.other_log_dir(partition.parent)])
    target = log_dir / f"{partition.name}.{disks.rng.getrandbits(128):032x}-future"
    shutil.move(partition, target)
    shutil.copytree(old, partition)
    return f"{disks.name(partition)} is older ({old.parts[-3]}), and as it was at {disks.name(target)}"


def new_disk(disks: Disks) -> str:
    """An empty disk, formatted with a new id."""
    log_dir = disks.log_dirs[1]
    text = (log_dir / "meta.properties").read_text()
    shutil.rmtree(log_dir)
    log_dir.mkdir()
    new = base64.urlsafe_b64encode(disks.rng.randbytes(16)).decode().rstrip("=")
    (log_dir / "meta.properties").write_text(re.sub(r"directory\.id=.*", f"directory.id={new}", text))
    return f"{log_dir.name} is a new disk"


def all_in_one_log_dir(disks: Disks) -> str:
    """All partitions moved away from a disk by hand, with or without their lines of checkpoints and their marker."""
    source = disks.log_dir()
    target = disks.other_log_dir(source)
    moved = [path for path in sorted(source.iterdir()) if PARTITION.fullmatch(path.name) and path.name != METADATA]
    count = 0
    for path in moved:
        if path.is_dir() and not (target / path.name).exists():
            shutil.move(path, target / path.name)
            count += 1
    are_lines_kept = disks.rng.random() < 0.5
    for name in CHECKPOINTS if are_lines_kept else ():
        write_lines(target / name, {**read_lines(source / name), **read_lines(target / name)})
    if disks.rng.random() < 0.3:
        (source / MARKER).unlink(missing_ok=True)
    return (
        f"{count} partitions moved to {target.name}, {'with' if are_lines_kept else 'without'} their checkpoint lines"
    )


def older_log_dir_merged(disks: Disks) -> str:
    """A backup of a log dir laid over it: all files, or those that are not there, or those that are newer (none)."""
    log_dir = disks.log_dir()
    old = disks.rng.choice(disks.older) / log_dir.name
    is_over = disks.rng.random() < 0.4
    count = _laid_over(old.rglob("*"), old, log_dir, is_over=is_over)
    return f"{count} files of an older {log_dir.name} ({old.parts[-2]}) copied into it{', over' * is_over}"


def _laid_over(paths: Iterable[Path], source: Path, target: Path, *, is_over: bool) -> int:
    count = 0
    for path in sorted(paths):
        place = target / path.relative_to(source)
        if path.is_file() and path.name != ".lock" and (is_over or not place.exists()):
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
            count += 1
    return count


def upper_case_folder(disks: Disks) -> str:
    """Through a file system that keeps one case only."""
    partition = disks.partition()
    target = partition.with_name(partition.name.upper())
    (shutil.copytree if disks.rng.random() < 0.5 else shutil.move)(partition, target)
    return f"{disks.name(partition)} as {target.name}, {'too' if partition.exists() else 'instead'}"


def same_files_of_log_dir_linked(disks: Disks) -> str:
    """The same as in a partition, in all partitions of a log dir."""
    log_dir, count = disks.log_dir(), 0
    first: dict[bytes, Path] = {}
    for path in sorted(log_dir.glob("*/*")):
        if path.is_file() and not path.is_symlink() and "__cluster" not in path.parent.name:
            data = path.read_bytes()
            if data and (one := first.setdefault(data, path)) != path:
                path.unlink()
                os.link(one, path)
                count += 1
    return f"{count} hard links in {log_dir.name}"


IN_PARTITIONS: list[tuple[Fault, float]] = [
    (restore_ended_early, 2),
    (copy_over_older, 2),
    (only_one_kind, 1),
    (cut_to_blocks, 1.5),
    (emptied_last, 1.5),
    (merged_with_another, 1.5),
    (same_files_linked, 0.7),
    (far_times, 0.7),
    (temporary_left, 0.7),
    (one_folder_too_deep, 0.7),
]
IN_LOG_DIRS: list[tuple[Fault, float]] = [
    (behind_its_future, 1.5),
    (new_disk, 0.7),
    (all_in_one_log_dir, 0.8),
    (older_log_dir_merged, 1),
    (upper_case_folder, 0.7),
    (same_files_of_log_dir_linked, 0.7),
]
