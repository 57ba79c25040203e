"""Log dirs as trees in memory: scenarios out of the fixtures, wounds for whole directories, and a place to lay them.

A tree maps paths to bytes, or to something that is no file. `here` is the log dir that is asked about, `there` another
one: a second disk of the same broker, or copies of the same partitions.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from choices import Choices
from damaged import EXTREMES, FIXTURES, LARGEST_SEED_BYTES, damaged

from klogtool.format.checksums import crc32c
from klogtool.format.fields import field_positions
from klogtool.format.layouts import SNAPSHOT_HEADER
from klogtool.format.names import FileKind, parse_file_name

HERE, THERE = "here", "there"
SEGMENTS_KEPT = 2
OFFSET = re.compile(r"\d{20}")
ROOT_FILE = FileKind.RECOVERY_POINT_CHECKPOINT.value


class Odd(Enum):
    """What may lie where a file should."""

    FOLDER = "a folder"
    FIFO = "a FIFO"
    NOWHERE = "a link to nothing"
    ITSELF = "a link to itself"
    ENDLESS = "a link to a device without end"


Node = bytes | Odd
Tree = dict[str, Node]


# ---------------------------------------------------------------- scenarios


@dataclass(frozen=True)
class Scenario:
    """name: the fixture and the partitions of it that are in it."""

    name: str
    tree: Tree


def scenarios() -> list[Scenario]:
    """Each log dir of the fixtures with its first two partitions, or one of the others; of each the last segments only,
    for speed."""
    found = []
    for root in sorted(path.parent for path in FIXTURES.rglob(ROOT_FILE)):
        folders = sorted(path for path in root.iterdir() if path.is_dir())
        for some in (folders[:2], *([folder] for folder in folders[2:])):
            name = f"{root.relative_to(FIXTURES)} {' '.join(folder.name for folder in some)}"
            found.append(Scenario(name, _tree_of(root, some)))
    return found


def _tree_of(root: pathlib.Path, folders: list[pathlib.Path]) -> Tree:
    tree: Tree = {f"{HERE}/{path.name}": path.read_bytes() for path in sorted(root.iterdir()) if path.is_file()}
    for folder in folders:
        tree |= {f"{HERE}/{folder.name}/{name}": data for name, data in _last_segments(folder).items()}
    other = root.parent / "d2" if root.name == "d1" else root
    beside = [folder for folder in folders if other == root] or sorted(p for p in other.iterdir() if p.is_dir())[-1:]
    tree |= {f"{THERE}/{path.name}": path.read_bytes() for path in sorted(other.iterdir()) if path.is_file()}
    for folder in beside[:1]:
        tree |= {f"{THERE}/{folder.name}/{name}": data for name, data in _last_segments(folder).items()}
    return tree


def _last_segments(folder: pathlib.Path) -> Tree:
    """The files of a partition dir, without those that belong to older segments, and without large ones."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    bases = sorted(path.stem for path in files if path.suffix == ".log")
    first = bases[-SEGMENTS_KEPT:][:1]
    return {
        path.name: path.read_bytes()
        for path in files
        if path.stat().st_size <= LARGEST_SEED_BYTES and not (OFFSET.match(path.name) and [path.name[:20]] < first)
    }


# ---------------------------------------------------------------- wounds


OFFSETS = ("0", "1", "7", "30", "-1", "+5", "2147483648", "9223372036854775807", "9223372036854775808", "x", "٣")
KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
SUFFIXES = ("", ".swap", ".cleaned", ".deleted", ".tmp")
NAMES_IN_PARTITION = (
    "leader-epoch-checkpoint",
    "partition.metadata",
    "quorum-state",
    "00000000000000000000-0000000000.checkpoint",
    "00000000000000000007-0000000001.checkpoint.part",
    "remote_log_snapshot",
    ".lock",
    "notes.txt",
    "\udcff.log",
    "\n.log",
)
NAMES_IN_ROOT = (
    ".kafka_cleanshutdown",
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "bootstrap.checkpoint",
    ".lock",
    "notes.txt",
)
FOLDERS = (
    "t-0",
    "t-1",
    "t-00",
    "t--1",
    "-0",
    "t",
    "x-99999999999",
    "__cluster_metadata-0",
    "__cluster_metadata-1",
    "remote-log-index-cache",
    "\udcff-0",
    "t-0.0123456789abcdef0123456789abcdef-delete",
    "t-0.0123456789abcdef0123456789abcdef-future",
    "t-0.0123456789abcdef0123456789abcdef-stray",
    "t-0.x-delete",
    "lost+found",
)
LARGE_BYTES = (4096, 1 << 14, 1 << 17)

Wound = Callable[[Choices, Tree], str]


def wound(rng: Choices, tree: Tree) -> Iterator[str]:
    """Change a tree in one to four ways; says how."""
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        yield rng.choice(WOUNDS)(rng, tree)


def damage_log(rng: Choices, tree: Tree) -> str:
    return _damage(rng, tree, [path for path in _files(tree) if path.endswith((".log", ".checkpoint"))])


def damage_any(rng: Choices, tree: Tree) -> str:
    return _damage(rng, tree, _files(tree))


def _damage(rng: Choices, tree: Tree, paths: list[str]) -> str:
    if not paths:
        return "nothing to damage"
    path = rng.choice(paths)
    heals = rng.chance(2)
    data = bytearray(damaged(rng, _bytes(tree, path), healed=heals and ".snapshot" not in path))
    if heals and ".snapshot" in path:
        heal_snapshot(data)
    tree[path] = bytes(data)
    return f"damage {path}{', checksums right again' if heals else ''}"


def heal_snapshot(data: bytearray) -> None:
    """The CRC of a producer snapshot made right again."""
    at, size = next((at, kind.sizeof()) for name, at, kind in field_positions(SNAPSHOT_HEADER) if name == "crc")
    if len(data) >= at + size:
        data[at : at + size] = crc32c(data[at + size :]).to_bytes(size, "big")


def set_word(rng: Choices, tree: Tree) -> str:
    """An extreme number where an index, or a snapshot, has one."""
    paths = [path for path in _files(tree) if path.endswith(("index", ".snapshot")) and _bytes(tree, path)]
    if not paths:
        return "no index"
    path = rng.choice(paths)
    data, size = bytearray(_bytes(tree, path)), rng.choice((2, 4, 8))
    at = min(2 * rng.randrange(len(data) // 2 + 1), len(data) - 1)
    data[at : at + size] = (rng.choice(EXTREMES) % (1 << 8 * size)).to_bytes(size, "big")
    if path.endswith(".snapshot"):
        heal_snapshot(data)
    tree[path] = bytes(data)
    return f"a number of {path} at byte {at}"


def change_lines(rng: Choices, tree: Tree) -> str:
    """A text file with other lines, or other numbers in them."""
    names = ("-checkpoint", ".metadata", ".properties", "quorum-state", "cleanshutdown")
    paths = [path for path in _files(tree) if path.endswith(names)]
    if not paths:
        return "no text"
    path = rng.choice(paths)
    tree[path] = rng.choice(TEXT_WOUNDS)(rng, _bytes(tree, path))
    return f"lines of {path}"


def _number(rng: Choices, text: bytes) -> bytes:
    found = list(re.finditer(rb"-?\d+", text))
    if not found:
        return text + b"0"
    at = rng.choice(found)
    other = rng.choice((*EXTREMES, 3, 7, 2**63, 10**30))
    return text[: at.start()] + str(other).encode() + text[at.end() :]


def _drop_line(rng: Choices, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    if lines:
        del lines[rng.randrange(len(lines))]
    return b"".join(lines)


def _repeat_line(rng: Choices, text: bytes) -> bytes:
    lines = text.splitlines(keepends=True) or [b"\n"]
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"".join(lines)


def _junk_line(rng: Choices, text: bytes) -> bytes:
    junk = (b"t 0 5\n", b" \n", b"\xff\n", b"t 0\n", b"=\n", b"\\u00\n", b"version=2\n", b"0 0\n", b"7 3\n", b"{}")
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(junk))
    return b"".join(lines)


TEXT_WOUNDS = (_number, _number, _drop_line, _repeat_line, _junk_line)


def delete(rng: Choices, tree: Tree) -> str:
    path = rng.choice(_files(tree) or [""])
    tree.pop(path, None)
    return f"delete {path}"


def rename(rng: Choices, tree: Tree) -> str:
    """Another suffix, another base offset, another kind."""
    paths = [path for path in _files(tree) if path.count("/") > 1]
    if not paths:
        return "nothing to rename"
    path = rng.choice(paths)
    new = _other_name(rng, path)
    node = tree[path] if rng.chance(3) else tree.pop(path)
    tree[new] = node
    return f"{path} as {new}"


def _other_name(rng: Choices, path: str) -> str:
    folder, _, name = path.rpartition("/")
    file = parse_file_name(name)
    match rng.randrange(5):
        case 0 | 1:
            return f"{folder}/{name}{rng.choice(SUFFIXES[1:])}"
        case 2:
            return f"{folder}/{rng.choice(OFFSETS).rjust(rng.choice((20, 1)), '0')}{file.kind.value}{file.suffix}"
        case 3:
            nearby = max(0, (file.base_offset or 0) + rng.choice((1, -1, 5, -5, 30)))
            return f"{folder}/{nearby:020d}{file.kind.value or '.log'}{rng.choice(SUFFIXES)}"
        case _:
            return f"{folder}/{name.split('.')[0]}{rng.choice(KINDS)}"


def swap_contents(rng: Choices, tree: Tree) -> str:
    paths = _files(tree)
    if not paths:
        return "nothing to swap"
    path, other = rng.choice(paths), rng.choice(paths)
    tree[path], tree[other] = tree[other], tree[path]
    return f"{path} and {other} swapped"


def join(rng: Choices, tree: Tree) -> str:
    """One log, or a part of it, behind another."""
    paths = [path for path in _files(tree) if path.endswith(".log")]
    if not paths:
        return "no logs"
    path, other = rng.choice(paths), rng.choice(paths)
    piece = _bytes(tree, other)
    tree[path] = _bytes(tree, path) + piece[: rng.choice((len(piece), len(piece) // 2, 61))]
    return f"{other} behind {path}"


def add(rng: Choices, tree: Tree) -> str:
    """A file that was not there."""
    name, where = rng.choice(NAMES_IN_ROOT), HERE
    if rng.chance(2):
        where = rng.choice(_partitions(tree) or [HERE])
        name = rng.choice(NAMES_IN_PARTITION)
        if rng.chance(2):
            name = rng.choice(OFFSETS).rjust(20, "0") + rng.choice(KINDS) + rng.choice(SUFFIXES)
    path = f"{where}/{name}"
    tree[path] = rng.choice((b"", b"0\n0\n", b"version: 0\n", rng.randbytes(12), bytes(100)))
    return f"add {path}"


def make_odd(rng: Choices, tree: Tree) -> str:
    path = rng.choice(_files(tree) or [f"{HERE}/x"])
    tree[path] = rng.choice(tuple(Odd))
    return f"{path} is {tree[path]}"


def make_large(rng: Choices, tree: Tree) -> str:
    path = rng.choice(_files(tree) or [f"{HERE}/x"])
    size, data = rng.choice(LARGE_BYTES), _bytes(tree, path)
    filling = rng.choice((b"\0", b"\xff", data[-61:] or b"0\n", data or b"\n"))
    tree[path] = data + filling * (size // len(filling))
    return f"{path} grows by {size}"


def rename_folder(rng: Choices, tree: Tree) -> str:
    folder = rng.choice(_partitions(tree) or [f"{HERE}/x-0"])
    top = folder.split("/")[0]
    new = f"{rng.choice((top, top, HERE, THERE))}/{rng.choice(FOLDERS)}"
    for path in [path for path in tree if path.startswith(f"{folder}/")]:
        tree[f"{new}/{path.removeprefix(folder + '/')}"] = tree.pop(path)
    tree.setdefault(f"{new}/leader-epoch-checkpoint", b"0\n0\n")
    return f"{folder} is {new}"


def bare(rng: Choices, tree: Tree) -> str:
    """No checkpoints, no clean marker: partition dirs that lie in no log dir."""
    top = rng.choice((HERE, THERE))
    for path in [path for path in tree if path.startswith(f"{top}/") and path.count("/") == 1]:
        del tree[path]
    return f"no files in {top} itself"


def toggle_clean(rng: Choices, tree: Tree) -> str:
    path = f"{HERE}/{FileKind.CLEAN_SHUTDOWN.value}"
    if tree.pop(path, None) is None:
        tree[path] = b'{"version":0,"brokerEpoch":5}'
        return "a clean marker"
    return "no clean marker"


WOUNDS: tuple[Wound, ...] = (
    *(damage_log,) * 8,
    *(damage_any, set_word, change_lines) * 3,
    *(delete, rename, toggle_clean) * 2,
    *(swap_contents, join, add, make_odd, make_large, rename_folder, bare),
)


def _files(tree: Tree) -> list[str]:
    return [path for path, node in tree.items() if isinstance(node, bytes)]


def _partitions(tree: Tree) -> list[str]:
    return list(dict.fromkeys(path.rpartition("/")[0] for path in tree if path.count("/") == 2))


def _bytes(tree: Tree, path: str) -> bytes:
    node = tree.get(path, b"")
    return node if isinstance(node, bytes) else b""


# ---------------------------------------------------------------- on disk


class Workplace:
    """A folder with a scenario's files in it, of which only what differs is written, and put back afterwards."""

    def __init__(self, root: pathlib.Path, tree: Tree) -> None:
        self.root, self.tree = root, tree
        self._folders = _folders_of(tree)
        self._lay_anew()

    @contextmanager
    def laid(self, tree: Tree) -> Iterator[pathlib.Path]:
        """Meanwhile `tree` is there. Raises Written if it is not any more at the end."""
        paths = sorted(self.tree.keys() | tree.keys())
        changed = [path for path in paths if self.tree.get(path) is not tree.get(path)]
        self._change(self.tree, tree, changed)
        before = look(self.root)
        yield self.root
        self._check(before, tree, changed)
        self._change(tree, self.tree, changed)

    def lay_anew(self) -> None:
        """After something went wrong."""
        shutil.rmtree(self.root)
        self._lay_anew()

    def _lay_anew(self) -> None:
        for top in (HERE, THERE):
            (self.root / top).mkdir(parents=True)
        self._change({}, self.tree, sorted(self.tree))

    def _change(self, old: Tree, new: Tree, paths: list[str]) -> None:
        for path in paths:
            if path in old:
                _remove(f"{self.root}/{path}", old[path])
        self._change_folders(_folders_of(old), _folders_of(new))
        for path in paths:
            if path in new:
                _create(f"{self.root}/{path}", new[path])

    def _change_folders(self, old: set[str], new: set[str]) -> None:
        for folder in sorted(old - new, reverse=True):
            os.rmdir(f"{self.root}/{folder}")
        for folder in sorted(new - old):
            os.mkdir(f"{self.root}/{folder}")

    def _check(self, before: list[tuple[object, ...]], tree: Tree, changed: list[str]) -> None:
        """Nothing was written: neither names nor times (which are coarse: so of new files the bytes)."""
        if look(self.root) != before:
            raise Written(
                f"names, sizes or times in the folder are not as before: {set(look(self.root)) ^ set(before)}"
            )
        for path in changed:
            node = tree.get(path)
            if isinstance(node, bytes) and pathlib.Path(f"{self.root}/{path}").read_bytes() != node:
                raise Written(f"the bytes of {path} are not as before")


class Written(AssertionError):
    """Something was written that should only have been read."""


def look(root: str | os.PathLike[str]) -> list[tuple[object, ...]]:
    """Every name under a folder, with size, times and number of its file."""
    found: list[tuple[object, ...]] = []
    folders = [os.fspath(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                about = entry.stat(follow_symlinks=False)
                found.append(
                    (entry.path, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)
                )
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return found


def _folders_of(tree: Tree) -> set[str]:
    return {HERE, THERE, *(path.rpartition("/")[0] for path in tree)}


def _create(path: str, node: Node) -> None:
    match node:
        case bytes():
            with open(path, "wb", buffering=0) as file:
                file.write(node)
        case Odd.FOLDER:
            os.mkdir(path)
        case Odd.FIFO:
            os.mkfifo(path)
        case Odd.NOWHERE:
            os.symlink("nowhere", path)
        case Odd.ITSELF:
            os.symlink(path, path)
        case Odd.ENDLESS:
            os.symlink("/dev/zero", path)


def _remove(path: str, node: Node) -> None:
    if node is Odd.FOLDER:
        os.rmdir(path)
    else:
        os.unlink(path)
