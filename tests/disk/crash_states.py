"""Every state that a crash can leave of a run, in bounds: each prefix of its calls, with what was not synced lost.

A recording disk remembers what each call did to names, contents and times. What a file system may have kept of that:

- Contents: all that was synced. Of a file with other contents than the last sync had, the old ones; or the new size
  with zeros (writeback, XFS), or the new bytes up to a block of 512 or 4,096 bytes and zeros behind, or an end there.
- Names in one order (the journal of ext4, the log of XFS): of the changes that are not synced, the last ones are lost.
- Names by folder (overlay, which writes into several folders of the file system below): of each folder the last ones.
- Names of synced files (the log tree of btrfs): those of files that were synced stay, others before them are lost.

At most three changes are lost at a time, and all of them together. Two states in which every name leads to the same
file with the same bytes, size and time are one group: whoever comes after the crash cannot tell them apart.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import random
import shutil
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from mortal import Attics

from klogtool.disk.disk import Disk

MOST_LOST = 3
BLOCKS = (512, 4096)
CHANGING = (
    "write", "write_pieces", "extend", "fill", "truncate", "rename", "link", "delete", "mkdir", "rmdir", "describe"
)  # fmt: skip


class FileValue(NamedTuple):
    """What a file is."""

    data: bytes
    mode: int
    mtime_ns: int


Listing = dict[str, int]  # inodes by name


class Change(NamedTuple):
    """What a call did. names: (folder, name, inode, or None where the name is gone). synced: the file or folder that is
    on the device by now."""

    verb: str
    names: tuple[tuple[int, str, int | None], ...] = ()
    files: Mapping[int, FileValue] = {}
    folders: Mapping[int, tuple[int, int]] = {}
    synced: int | None = None


class World(NamedTuple):
    """All files and folders below a root, by inode; folders have mode and time."""

    listings: dict[int, Listing]
    files: dict[int, FileValue]
    folders: dict[int, tuple[int, int]]

    def key(self, root: int) -> Hashable:
        """Return the same for two states that nobody can tell apart."""
        return tuple((path, inode, self.files.get(inode) or self.folders[inode]) for path, inode in self.walk(root))

    def walk(self, folder: int, path: str = "") -> Iterator[tuple[str, int]]:
        """Yield each path, a folder before what is in it."""
        for name, inode in sorted(self.listings[folder].items()):
            yield f"{path}{name}", inode
            if inode in self.listings:
                yield from self.walk(inode, f"{path}{name}/")


class Stage:
    """A folder whose files and folders keep their inodes, whatever state it is put into: each has a second place, in an
    attic beside it. What has no place in a state waits there."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root, self.attic = root, pathlib.Path(f"{root}.attic")
        shutil.rmtree(self.attic, ignore_errors=True)
        self.attic.mkdir()
        Attics.folders.add(str(self.attic))

    def look(self) -> World:
        """Return what there is now. Each file gets its place in the attic."""
        world = World({}, {}, {})
        self._look(self.root, world)
        return world

    def _look(self, folder: pathlib.Path, world: World) -> None:
        about = folder.stat()
        listing = world.listings[about.st_ino] = {}
        world.folders[about.st_ino] = about.st_mode & 0o7777, about.st_mtime_ns
        for entry in os.scandir(folder):
            found = entry.stat(follow_symlinks=False)
            listing[entry.name] = found.st_ino
            if entry.is_dir(follow_symlinks=False):
                self._look(pathlib.Path(entry.path), world)
            elif found.st_ino not in world.files:
                data = pathlib.Path(entry.path).read_bytes()
                world.files[found.st_ino] = FileValue(data, found.st_mode & 0o7777, found.st_mtime_ns)
                with suppress(FileExistsError):
                    os.link(entry.path, self.attic / str(found.st_ino))

    def take_away(self, folder: pathlib.Path) -> None:
        """Move an empty folder into the attic, in place of its deletion."""
        os.rename(folder, self.attic / f"folder-{folder.stat().st_ino}")

    def put(self, world: World, root: int) -> None:
        """Make it so."""
        self._clear(self.root)
        self._put(self.root, root, world)

    def _clear(self, folder: pathlib.Path) -> None:
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                self._clear(pathlib.Path(entry.path))
                self.take_away(pathlib.Path(entry.path))
            else:
                os.unlink(entry.path)

    def _put(self, folder: pathlib.Path, inode: int, world: World) -> None:
        for name, child in world.listings[inode].items():
            path = folder / name
            if child in world.listings:
                os.rename(self.attic / f"folder-{child}", path)
                self._put(path, child, world)
                continue
            value, kept = world.files[child], self.attic / str(child)
            if kept.read_bytes() != value.data:
                kept.write_bytes(value.data)
            os.chmod(kept, value.mode)
            os.utime(kept, ns=(value.mtime_ns, value.mtime_ns))
            os.link(kept, path)
        mode, mtime_ns = world.folders[inode]
        os.chmod(folder, mode)
        os.utime(folder, ns=(mtime_ns, mtime_ns))


class StageDisk(Disk):
    """Works on a stage, and does not wait for the device."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def rmdir(self, path: str) -> None:
        """A folder that is not empty is refused, as by the system."""
        if os.listdir(path):
            os.rmdir(path)
        self.stage.take_away(pathlib.Path(path))

    def sync(self, path: str) -> None:
        """Do nothing."""

    def sync_dir(self, path: str) -> None:
        """Do nothing."""


class RecordingDisk(StageDisk):
    """Remembers what each call changed."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.root = stage.root.stat().st_ino
        self.before = self._now = stage.look()
        self.changes: list[Change] = []

    def note(self, verb: str, synced: str | None = None) -> None:
        """Compare what there is with what there was."""
        before, now = self._now, self.stage.look()
        self._now = now
        names = tuple(
            (folder, name, now.listings[folder].get(name))
            for folder in now.listings
            for name in sorted({*now.listings[folder], *before.listings.get(folder, {})})
            if now.listings[folder].get(name) != before.listings.get(folder, {}).get(name)
        )
        files = {inode: value for inode, value in now.files.items() if before.files.get(inode) != value}
        folders = {inode: value for inode, value in now.folders.items() if before.folders.get(inode) != value}
        done = None if synced is None else os.stat(synced).st_ino
        if names or files or folders or done is not None:
            self.changes.append(Change(verb, names, files, folders, done))

    def sync(self, path: str) -> None:
        """What the file has is on the device."""
        self.note("sync", path)

    def sync_dir(self, path: str) -> None:
        """So are the names in the folder."""
        self.note("sync_dir", path)


def _recorded(name: str) -> Any:
    def verb(self: RecordingDisk, *given: Any) -> None:
        getattr(StageDisk, name)(self, *given)
        self.note(name)

    return verb


for _name in CHANGING:
    setattr(RecordingDisk, _name, _recorded(_name))


class CrashStates:
    """The states of a recorded run. count: how many were made so far, of how many groups `groups`. earlier: the states
    of a run that was killed after so many calls, which the recorded one went on from: some of it is not synced."""

    def __init__(self, recorded: RecordingDisk, earlier: CrashStates | None = None, killed_after: int = 0) -> None:
        self.before: World = recorded.before if earlier is None else earlier.before
        self.changes: list[Change] = ([] if earlier is None else earlier.changes[:killed_after]) + recorded.changes
        self.root, self.first = recorded.root, killed_after
        self.count = 0
        self.groups: set[Hashable] = set()

    def walk(self, most: int | None = None, seed: str = "") -> Iterator[tuple[int, World]]:
        """Yield one state of each group, with the number of calls that were made. most: only after so many of these
        numbers, chosen by a seed."""
        numbers = range(self.first, len(self.changes) + 1)
        for n in numbers if most is None else random.Random(seed).sample(numbers, min(most, len(numbers))):
            for world in self._after(n):
                self.count += 1
                key = world.key(self.root)
                if key not in self.groups:
                    self.groups.add(key)
                    yield n, world

    def cut_short(self, n: int) -> World:
        """Return the state after so many calls, of which nothing is lost."""
        return self._world(n, frozenset(), self._on_the_device(n)[1])

    def _after(self, n: int) -> Iterator[World]:
        durable, values, synced = self._on_the_device(n)
        open_names = [k for k in range(n) if self.changes[k].names and k not in durable]
        dirty = [inode for inode, value in values.items() if synced.get(inode) != value]
        lost_names = _lost_names(self.changes, n, open_names)
        for lost in lost_names:
            for some in range(len(dirty) + 1):
                if some > 0 and some + len(lost) > MOST_LOST and not (some == len(dirty) and lost == lost_names[-1]):
                    continue
                for inodes in itertools.combinations(dirty, some):
                    for kind in _KINDS if inodes else (_old,):
                        torn = {inode: kind(values[inode], synced.get(inode)) for inode in inodes}
                        yield self._world(n, lost, values | torn)

    def _on_the_device(self, n: int) -> tuple[set[int], dict[int, FileValue], dict[int, FileValue]]:
        """Return the changes whose names are synced, all files as they are, and as they were at their last sync."""
        durable: set[int] = set()
        values, synced = dict(self.before.files), dict(self.before.files)
        waiting: list[int] = []
        for k, change in enumerate(self.changes[:n]):
            values |= change.files
            if change.names:
                waiting.append(k)
            if change.synced in values:
                synced[change.synced] = values[change.synced]
            elif change.synced is not None:
                done = {k for k in waiting if any(name[0] == change.synced for name in self.changes[k].names)}
                durable |= done
                waiting = [k for k in waiting if k not in done]
        return durable, values, synced

    def _world(self, n: int, lost: frozenset[int], values: dict[int, FileValue]) -> World:
        listings = {folder: dict(listing) for folder, listing in self.before.listings.items()}
        folders = dict(self.before.folders)
        touched = {folder for k in lost for folder, _, _ in self.changes[k].names}
        for k, change in enumerate(self.changes[:n]):
            for folder, value in change.folders.items():
                listings.setdefault(folder, {})
                if folder not in touched or folder not in folders or k < min(lost):
                    folders[folder] = value
            for folder, name, inode in () if k in lost else change.names:
                if inode is None:
                    listings[folder].pop(name, None)
                else:
                    listings[folder][name] = inode
        return World(listings, values, folders)


def _lost_names(changes: list[Change], n: int, open_names: list[int]) -> list[frozenset[int]]:
    """Return what may be lost of the changes of names that are not synced; all of them last."""
    found = {frozenset(open_names[k:]) for k in range(len(open_names) + 1)}
    by_folder: dict[int, list[int]] = {}
    for k in open_names:
        for folder in {name[0] for name in changes[k].names}:
            by_folder.setdefault(folder, []).append(k)
    tails = [[ks[k:] for k in range(max(0, len(ks) - MOST_LOST), len(ks) + 1)] for ks in by_folder.values()]
    for chosen in itertools.product(*tails):
        lost = frozenset(itertools.chain(*chosen))
        if len(lost) <= MOST_LOST and _keeps_order(changes, open_names, lost):
            found.add(lost)
    stays = {k for k in open_names if {inode for _, _, inode in changes[k].names} & _synced_since(changes[k:n])}
    found |= {kept for lost in list(found) if _keeps_order(changes, open_names, kept := frozenset(lost - stays))}
    everything = frozenset(open_names)
    return [*sorted(found - {everything}, key=sorted), everything]


def _synced_since(changes: Sequence[Change]) -> set[int | None]:
    """Return the files and folders that were synced, without None."""
    return {change.synced for change in changes} - {None}


def _keeps_order(changes: list[Change], open_names: Iterable[int], lost: frozenset[int]) -> bool:
    """Return whether no change is kept that needs a lost one: of the same name, or in a folder that is not there."""
    gone: set[tuple[int, str]] = set()
    for k in open_names:
        if k in lost:
            gone |= {(folder, name) for folder, name, _ in changes[k].names}
        elif any((folder, name) in gone for folder, name, _ in changes[k].names):
            return False
    return True


def _old(new: FileValue, old: FileValue | None) -> FileValue:
    return FileValue(b"", new.mode, new.mtime_ns) if old is None else old


def _zeros(new: FileValue, old: FileValue | None) -> FileValue:
    kept = new.data[: _same_bytes(new, old)]
    return new._replace(data=kept + bytes(len(new.data) - len(kept)))


def _torn(block: int, *, is_cut: bool) -> Callable[[FileValue, FileValue | None], FileValue]:
    def tear(new: FileValue, old: FileValue | None) -> FileValue:
        kept = new.data[: max(_same_bytes(new, old), max(0, len(new.data) - 1) // block * block)]
        return new._replace(data=kept if is_cut else kept + bytes(len(new.data) - len(kept)))

    return tear


def _same_bytes(new: FileValue, old: FileValue | None) -> int:
    """Return how many bytes at the beginning were on the device before."""
    pairs = zip(new.data, b"" if old is None else old.data, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


_KINDS = (_old, _zeros, *(_torn(block, is_cut=is_cut) for block in BLOCKS for is_cut in (False, True)))
