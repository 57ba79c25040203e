"""Faults in the files of a partition: bytes, sizes, names, left-overs, older copies."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .disks import Disks, Fault, segment_files

OLD_S = 1.5e9  # 2017
SIDES = (".index", ".timeindex", ".txnindex")


def flip_bit_of_log(disks: Disks) -> str:
    return _flip(disks, disks.log(), 1 << 30)


def flip_bit_of_side_file(disks: Disks) -> str:
    return _flip(disks, disks.side_file(), 200)


def _flip(disks: Disks, file: Path, within: int) -> str:
    data = bytearray(file.read_bytes())
    at, mask = disks.rng.randrange(min(len(data), within)), 1 << disks.rng.randrange(8)
    data[at] ^= mask
    file.write_bytes(data)
    return f"flip {disks.name(file)} byte {at} mask {mask}"


def cut_log(disks: Disks) -> str:
    file = disks.log()
    return _cut(disks, file, disks.rng.randrange(file.stat().st_size))


def cut_side_file(disks: Disks) -> str:
    file = disks.side_file()
    return _cut(disks, file, disks.rng.choice([0, disks.rng.randrange(file.stat().st_size)]))


def _cut(disks: Disks, file: Path, size: int) -> str:
    os.truncate(file, size)
    return f"cut {disks.name(file)} to {size}"


def zero_bytes_of_log(disks: Disks) -> str:
    file = disks.log()
    data = bytearray(file.read_bytes())
    at = disks.rng.randrange(len(data))
    size = min(len(data) - at, disks.rng.choice([4, 16, 100, 512]))
    data[at : at + size] = bytes(size)
    file.write_bytes(data)
    return f"zero {disks.name(file)} {at}+{size}"


def zero_page(disks: Disks) -> str:
    """What a power failure leaves of a page, or of the end of a file, that was not synced."""
    file = disks.rng.choice(disks.files())
    data = bytearray(file.read_bytes())
    at = disks.rng.randrange(len(data)) // 512 * 512
    end = disks.rng.choice([at + 512, len(data)])
    data[at:end] = bytes(min(end, len(data)) - at)
    file.write_bytes(data)
    return f"zero page {disks.name(file)} {at}..{min(end, len(data))}"


def zero_index(disks: Disks) -> str:
    file = disks.rng.choice(disks.files(".index", ".timeindex"))
    size = disks.rng.choice([file.stat().st_size, 16380 if file.suffix == ".timeindex" else 16384])
    file.write_bytes(bytes(size))
    if disks.rng.random() < 0.5:
        os.utime(file, (OLD_S, OLD_S))
    return f"zeros, {size} of them, in place of {disks.name(file)}"


def append_bytes(disks: Disks) -> str:
    file = disks.log()
    size = disks.rng.choice([1, 8, 17, 30, 70, 300])
    data = bytes(size) if disks.rng.random() < 0.5 else disks.rng.randbytes(size)
    file.write_bytes(file.read_bytes() + data)
    return f"append {size} {'random bytes' if any(data) else 'zeros'} to {disks.name(file)}"


def append_to_side_file(disks: Disks) -> str:
    file = disks.side_file(with_id=False)
    size = disks.rng.choice([1, 8, 12, 24, 34])
    file.write_bytes(file.read_bytes() + (bytes(size) if disks.rng.random() < 0.5 else disks.rng.randbytes(size)))
    return f"append {size} bytes to {disks.name(file)}"


def append_other_log(disks: Disks) -> str:
    """The end of one .log behind another: blocks that the file system mixed up."""
    one, other = disks.rng.sample(disks.files(".log"), 2)
    data = other.read_bytes()
    at = disks.rng.randrange(len(data))
    one.write_bytes(one.read_bytes() + data[at:])
    return f"append {disks.name(other)} from {at} on to {disks.name(one)}"


def swap_files(disks: Disks) -> str:
    ending = disks.rng.choice([".log", ".log", ".index", ".timeindex", ".snapshot", ".txnindex"])
    one, other = disks.rng.sample(disks.files(ending), 2)
    between = one.with_name("swapped.tmp")
    one.rename(between), other.rename(one), between.rename(other)
    return f"swap {disks.name(one)} and {disks.name(other)}"


def remove_segment(disks: Disks) -> str:
    log = disks.log()
    is_whole = disks.rng.random() < 0.6
    for file in segment_files(log) if is_whole else [log]:
        file.unlink()
    return f"remove {'segment' if is_whole else '.log'} {disks.name(log)}"


def remove_newest_segments(disks: Disks) -> str | None:
    logs = sorted(disks.partition().glob("*.log"))
    count = disks.rng.choice([1, 2, len(logs)])
    for log in logs[-count:]:
        for file in segment_files(log):
            file.unlink()
    return f"remove the last {count} segments of {disks.name(logs[0].parent)}" if logs else None


def remove_side_file(disks: Disks) -> str:
    file = disks.side_file(with_id=False)
    file.unlink()
    return f"remove {disks.name(file)}"


def remove_side_files(disks: Disks) -> str:
    partition, ending = disks.partition(), disks.rng.choice([".snapshot", *SIDES])
    for file in partition.glob(f"*{ending}"):
        file.unlink()
    return f"remove all {ending} of {disks.name(partition)}"


def duplicate_segment(disks: Disks) -> str | None:
    log = disks.log()
    new = f"{max(0, int(log.name[:20]) + disks.rng.choice([-7, -1, 1, 3, 20, 200])):020d}"
    if (log.parent / f"{new}.log").exists():
        return None
    for file in segment_files(log) if disks.rng.random() < 0.6 else [log]:
        if file.suffix in (".log", ".index", ".timeindex"):
            shutil.copy2(file, file.with_name(new + file.suffix))
    return f"duplicate {disks.name(log)} as {new}"


def rename_segment(disks: Disks) -> str | None:
    log = disks.log()
    new = f"{max(0, int(log.name[:20]) + disks.rng.choice([-7, -1, 1, 3, 30])):020d}"
    if (log.parent / f"{new}.log").exists():
        return None
    is_whole = disks.rng.random() < 0.7
    for file in segment_files(log) if is_whole else [log]:
        file.rename(file.with_name(new + file.name[20:]))
    return f"rename {'segment' if is_whole else '.log'} {disks.name(log)} to {new}"


def name_file_oddly(disks: Disks) -> str:
    file = disks.rng.choice(disks.files())
    new = disks.rng.choice([f"{file.name}.bak", f"{file.name}~", file.name.lstrip("0") or "0.log", f"x{file.name}"])
    if disks.rng.random() < 0.5:
        shutil.copy2(file, file.with_name(new))
    else:
        file.rename(file.with_name(new))
    return f"{disks.name(file)} is at {new}, too (or instead)" if file.exists() else f"{disks.name(file)} is at {new}"


def older_file(disks: Disks) -> str:
    partition = disks.partition()
    old = disks.older_copy(partition)
    file = disks.rng.choice(_files_but_the_id(old))
    shutil.copy2(file, partition / file.name)
    return f"older {disks.name(partition)}/{file.name} ({file.parts[-4]})"


def some_older_files(disks: Disks) -> str:
    partition = disks.partition()
    old = disks.older_copy(partition)
    files = [file for file in _files_but_the_id(old) if disks.rng.random() < 0.5]
    for file in files:
        shutil.copy2(file, partition / file.name)
    return f"older files in {disks.name(partition)} ({old.parts[-3]}): {[file.name for file in files]}"


def older_partition(disks: Disks) -> str:
    """All files restored from an older copy; newer ones are gone."""
    partition = disks.partition()
    old = disks.older_copy(partition)
    for file in _files_but_the_id(partition):
        file.unlink()
    for file in _files_but_the_id(old):
        shutil.copy2(file, partition / file.name)
    return f"older {disks.name(partition)} as a whole ({old.parts[-3]})"


def _files_but_the_id(partition: Path) -> list[Path]:
    """The topic's id stays: it may be an older copy of another topic's partition."""
    return [path for path in sorted(partition.iterdir()) if path.is_file() and path.name != "partition.metadata"]


def left_over(disks: Disks) -> str:
    """What an interrupted cleaning or splitting leaves; some cut short, some without their originals."""
    log = disks.log()
    suffix = disks.rng.choice([".swap", ".swap", ".cleaned", ".deleted"])
    is_whole = disks.rng.random() < 0.6
    for file in segment_files(log):
        if file == log or (is_whole and file.suffix in SIDES):
            shutil.copy2(file, file.with_name(file.name + suffix))
    told = f"{'whole ' if is_whole else ''}left-over {suffix} of {disks.name(log)}"
    if disks.rng.random() < 0.3 and log.stat().st_size > 200:
        size = disks.rng.randrange(log.stat().st_size)
        os.truncate(log.with_name(log.name + suffix), size)
        told += f", cut to {size}"
    if disks.rng.random() < 0.3:
        log.unlink()
        told += ", without the original"
    return told


def folder_in_place_of_file(disks: Disks) -> str:
    file = disks.rng.choice(disks.files())
    file.unlink()
    file.mkdir()
    return f"folder in place of {disks.name(file)}"


def link_in_place_of_file(disks: Disks) -> str:
    """A link to the same bytes, beside the log dirs: what somebody does whose disk is full."""
    file = disks.log()
    place = disks.root / "elsewhere"
    place.mkdir(exist_ok=True)
    target = place / f"{file.parent.name}.{file.name}"
    shutil.move(file, target)
    file.symlink_to(os.path.relpath(target, file.parent))
    return f"link in place of {disks.name(file)}"


def link_to_nowhere(disks: Disks) -> str:
    """The disk that a link leads to is not mounted."""
    file = disks.rng.choice(disks.files())
    file.unlink()
    file.symlink_to("../not-mounted")
    return f"link to nowhere in place of {disks.name(file)}"


def link_to_no_file(disks: Disks) -> str:
    """To a device, a folder, or round and round. (No FIFO: each start would wait for ever.)"""
    file = disks.rng.choice(disks.files())
    target = disks.rng.choice(["/dev/null", "/dev/zero", "/dev/full", ".", "..", file.name])
    file.unlink()
    file.symlink_to(target)
    return f"link to {target} in place of {disks.name(file)}"


def full_folder_in_place_of_file(disks: Disks) -> str:
    """What `mkdir` and `mv` in the wrong order leave: the file is inside."""
    file = disks.rng.choice(disks.files())
    aside = file.rename(file.with_name("aside"))
    file.mkdir()
    aside.rename(file / file.name)
    return f"folder with the file inside in place of {disks.name(file)}"


def old_times(disks: Disks) -> str:
    partition = disks.partition()
    for file in partition.iterdir():
        os.utime(file, (OLD_S, OLD_S))
    return f"times of {disks.name(partition)} set to 2017"


def wrong_epochs(disks: Disks) -> str:
    """Leader epochs that contradict the batches: a file of another replica, or of another life."""
    partition = disks.partition()
    rows = disks.rng.choice([["0 0"], ["0 0", "3 20", "9 40"], ["40 0"], [], ["5 90000"], ["2 10", "1 20"], ["x 1"]])
    (partition / "leader-epoch-checkpoint").write_text("".join(f"{row}\n" for row in ["0", str(len(rows)), *rows]))
    return f"leader epochs of {disks.name(partition)}: {rows}"


MENU: list[tuple[Fault, float]] = [
    (flip_bit_of_log, 7),
    (flip_bit_of_side_file, 5),
    (cut_log, 6),
    (cut_side_file, 5),
    (zero_bytes_of_log, 4),
    (zero_page, 3),
    (zero_index, 2),
    (append_bytes, 4),
    (append_to_side_file, 2),
    (append_other_log, 1.5),
    (swap_files, 4),
    (remove_segment, 4),
    (remove_newest_segments, 2),
    (remove_side_file, 4),
    (remove_side_files, 3),
    (duplicate_segment, 3),
    (rename_segment, 3),
    (name_file_oddly, 1.5),
    (older_file, 6),
    (some_older_files, 6),
    (older_partition, 3),
    (left_over, 5),
    (folder_in_place_of_file, 1.5),
    (link_in_place_of_file, 0.7),
    (link_to_nowhere, 0.5),
    (link_to_no_file, 0.7),
    (full_folder_in_place_of_file, 0.5),
    (old_times, 1.5),
    (wrong_epochs, 1.5),
]
