"""Every state that a crash can leave of a run, in bounds: each prefix of its calls, with what was not synced lost.

A recording disk remembers what each call did to names, contents and times. What a file system may have kept of that:

- Contents: all that was synced. Of a file with other contents than the last sync had, the old ones; or the new size
  with zeros (writeback, XFS), or the new bytes up to a block of 512 or 4,096 bytes and zeros behind, or an end there.
- Names in one order (the journal of ext4, the log of XFS): of the changes that are not synced, the last ones are lost.
- Names by folder (overlay, which writes into several folders of the file system below): of each folder the last ones.
- Names of synced files (the log tree of btrfs): those of files that were synced stay, others before them are lost.

At most three changes are lost at a time, and all of them together. Two states in which every name leads to the same
file with the same bytes, size and time are one group: whoever comes after the crash cannot tell them apart.

`CrashStates.walk_deaths` has fewer states: after each call and inside of it, what mortal.py's disk would leave.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import random
import shutil
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from mortal import Attics, Died, Inode, system_calls

from klogtool.broker.content import read_content
from klogtool.disk.disk import Disk

MOST_LOST = 3
BLOCKS = (512, 4096)
CHANGING = (
    "write", "write_parts", "extend", "fill", "truncate", "rename", "link", "delete", "mkdir", "rmdir", "describe"
)  # fmt: skip
OF_SEVERAL_CALLS = ("write", "write_parts", "extend", "fill", "describe")
MOST_CALLS = 4  # of the system, after which a verb is killed
ROOTS = (0, 0)  # stands for the folder that has all roots by their paths


class FileValue(NamedTuple):
    """What a file is."""

    data: bytes
    mode: int
    mtime_ns: int


Listing = dict[str, Inode]


class Change(NamedTuple):
    """What a call did. names: (folder, name, inode, or None where the name is gone). synced: the file or folder that is
    on the device by now."""

    verb: str
    names: tuple[tuple[Inode, str, Inode | None], ...] = ()
    files: Mapping[Inode, FileValue] = {}
    folders: Mapping[Inode, tuple[int, int]] = {}
    synced: Inode | None = None


class World(NamedTuple):
    """All files and folders below the roots, by inode; folders have mode and time."""

    listings: dict[Inode, Listing]
    files: dict[Inode, FileValue]
    folders: dict[Inode, tuple[int, int]]

    def key(self) -> Hashable:
        """Return the same for two states that nobody can tell apart."""
        below = (found for root in self.listings[ROOTS].values() for found in self.walk(root))
        return tuple((path, inode, self.files.get(inode) or self.folders[inode]) for path, inode in below)

    def contents(self, root: pathlib.Path, without: Sequence[str] = ()) -> dict[str, bytes]:
        """Return the bytes of all files below a root, but of those whose paths have one of these in them."""
        return {
            path: self.files[inode].data
            for path, inode in self.walk(self.listings[ROOTS][str(root)])
            if inode in self.files and not any(part in path for part in without)
        }

    def walk(self, folder: Inode, path: str = "") -> Iterator[tuple[str, Inode]]:
        """Yield each path, a folder before what is in it."""
        for name, inode in sorted(self.listings[folder].items()):
            yield f"{path}{name}", inode
            if inode in self.listings:
                yield from self.walk(inode, f"{path}{name}/")


class Stage:
    """Folders whose files and folders keep their inodes, whatever state they are put into: each has a second place, in
    an attic beside its root. What has no place in a state waits there."""

    def __init__(self, *roots: pathlib.Path) -> None:
        self.roots = [str(root) for root in roots]
        self.attics: dict[int, str] = {}  # by device
        self.linked: set[Inode] = set()  # files that have a place there
        for root in self.roots:
            attic = self.attics[os.stat(root).st_dev] = f"{root}.attic"
            shutil.rmtree(attic, ignore_errors=True)
            os.mkdir(attic)
            Attics.folders.add(attic)

    def look(self) -> World:
        """Return what there is now. Each file gets its place in the attic."""
        world = World({ROOTS: {}}, {}, {})
        for root in self.roots:
            world.listings[ROOTS][root] = _inode(os.stat(root))
            self._look(root, world)
        return world

    def _look(self, folder: str, world: World) -> None:
        about = os.stat(folder)
        listing = world.listings[_inode(about)] = {}
        world.folders[_inode(about)] = about.st_mode & 0o7777, about.st_mtime_ns
        for entry in os.scandir(folder):
            found = entry.stat(follow_symlinks=False)
            inode = listing[entry.name] = _inode(found)
            if entry.is_dir(follow_symlinks=False):
                self._look(entry.path, world)
            elif inode not in world.files:
                world.files[inode] = FileValue(_bytes_of(entry.path), found.st_mode & 0o7777, found.st_mtime_ns)
                if inode not in self.linked:
                    self.linked.add(inode)
                    os.link(entry.path, self._kept(inode))

    def take_away(self, folder: str) -> None:
        """Move an empty folder into the attic, in place of its deletion."""
        os.rename(folder, self._kept(_inode(os.stat(folder)), "folder-"))

    def put(self, world: World) -> None:
        """Make it so. What is so already is not touched."""
        for root, inode in world.listings[ROOTS].items():
            self._clear(root, world, world.listings[inode])
        for root, inode in world.listings[ROOTS].items():
            self._put(root, inode, world)

    def _kept(self, inode: Inode, kind: str = "") -> str:
        return f"{self.attics[inode[0]]}/{kind}{inode[1]}"

    def _clear(self, folder: str, world: World, wanted: Listing) -> None:
        """Take away what has another place, or none."""
        for entry in list(os.scandir(folder)):
            inode = _inode(entry.stat(follow_symlinks=False))
            stays = wanted.get(entry.name) == inode
            if entry.is_dir(follow_symlinks=False):
                self._clear(entry.path, world, world.listings[inode] if stays else {})
                if not stays:
                    self.take_away(entry.path)
            elif not stays:
                os.unlink(entry.path)

    def _put(self, folder: str, inode: Inode, world: World) -> None:
        for name, child in world.listings[inode].items():
            path = f"{folder}/{name}"
            is_there = os.path.lexists(path)
            if child in world.listings:
                if not is_there:
                    os.rename(self._kept(child, "folder-"), path)
                self._put(path, child, world)
                continue
            self._describe(self._kept(child), world.files[child])
            if not is_there:
                os.link(self._kept(child), path)
        mode, mtime_ns = world.folders[inode]
        os.chmod(folder, mode)
        os.utime(folder, ns=(mtime_ns, mtime_ns))

    def _describe(self, path: str, value: FileValue) -> None:
        if _bytes_of(path) != value.data:
            pathlib.Path(path).write_bytes(value.data)
        about = os.stat(path)
        if about.st_mode & 0o7777 != value.mode:
            os.chmod(path, value.mode)
        if about.st_mtime_ns != value.mtime_ns:
            os.utime(path, ns=(value.mtime_ns, value.mtime_ns))


def _bytes_of(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _inode(about: os.stat_result) -> Inode:
    return about.st_dev, about.st_ino


class StageDisk(Disk):
    """Works on a stage, and does not wait for the device."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def rmdir(self, path: str) -> None:
        """A folder that is not empty is refused, as by the system."""
        if os.listdir(path):
            os.rmdir(path)
        self.stage.take_away(path)

    def sync(self, path: str) -> None:
        """Do nothing."""

    def sync_dir(self, path: str) -> None:
        """Do nothing."""


class RecordingDisk(StageDisk):
    """Remembers what each call changed. is_killed_inside: also what it has changed where it is killed in the middle
    (`inside`, with the number of calls before)."""

    def __init__(self, stage: Stage, *, is_killed_inside: bool = True) -> None:
        super().__init__(stage)
        self.is_killed_inside = is_killed_inside
        self.before = self._now = stage.look()
        self.changes: list[Change] = []
        self.inside: list[tuple[int, Change]] = []

    def note(self, verb: str, synced: str | None = None) -> None:
        """Compare what there is with what there was."""
        now = self.stage.look()
        change, self._now = self._compared(verb, now, synced), now
        if change != Change(verb):
            self.changes.append(change)

    def kill_inside(self, verb: str, work: Callable[[], None]) -> bool:
        """Do a part of the verb, remember what that changed, and put all back. Return whether it was a part."""
        is_part = False
        try:
            work()
        except Died:
            is_part = True
        change = self._compared(verb, self.stage.look(), None)
        if change != Change(verb):
            self.inside.append((len(self.changes), change))
            self.stage.put(self._now)
        return is_part

    def _compared(self, verb: str, now: World, synced: str | None) -> Change:
        before = self._now
        names = tuple(
            (folder, name, now.listings[folder].get(name))
            for folder in now.listings
            if folder != ROOTS
            for name in sorted({*now.listings[folder], *before.listings.get(folder, {})})
            if now.listings[folder].get(name) != before.listings.get(folder, {}).get(name)
        )
        files = {inode: value for inode, value in now.files.items() if before.files.get(inode) != value}
        folders = {inode: value for inode, value in now.folders.items() if before.folders.get(inode) != value}
        return Change(verb, names, files, folders, None if synced is None else _inode(os.stat(synced)))

    def sync(self, path: str) -> None:
        """What the file has is on the device."""
        self.note("sync", path)

    def sync_dir(self, path: str) -> None:
        """So are the names in the folder."""
        self.note("sync_dir", path)


def _recorded(name: str) -> Any:
    def verb(self: RecordingDisk, *given: Any) -> None:
        given = tuple(list(each) if isinstance(each, Iterator) else each for each in given)
        if self.is_killed_inside and name in OF_SEVERAL_CALLS:
            _kill_inside(self, name, given)
        getattr(StageDisk, name)(self, *given)
        self.note(name)

    return verb


def _kill_inside(disk: RecordingDisk, name: str, given: Sequence[Any]) -> None:
    """Kill it after half of the bytes, and after each of some calls of the system."""
    do = getattr(Disk, name)

    def some_calls(most: int) -> None:
        with system_calls(most):
            do(disk, *given)

    if name in ("write", "extend"):
        at = 1 if name == "write" else 2
        whole = read_content(given[at])
        disk.kill_inside(name, lambda: do(disk, *given[:at], (whole[: len(whole) // 2],)))
    for most in range(MOST_CALLS):
        if not disk.kill_inside(name, partial(some_calls, most)):
            return


for _name in CHANGING:
    setattr(RecordingDisk, _name, _recorded(_name))


class CrashStates:
    """The states of a recorded run. count: how many were made so far, of how many groups `groups`. earlier: the states
    of a run that was killed after so many calls, which the recorded one went on from: some of it is not synced."""

    def __init__(self, recorded: RecordingDisk, earlier: CrashStates | None = None, killed_after: int = 0) -> None:
        self.before: World = recorded.before if earlier is None else earlier.before
        self.changes: list[Change] = ([] if earlier is None else earlier.changes[:killed_after]) + recorded.changes
        self.inside = [(killed_after + n, change) for n, change in recorded.inside]
        self.first = killed_after
        self.count = 0
        self.groups: set[Hashable] = set()

    def walk(self, most: int | None = None, seed: str = "") -> Iterator[tuple[int, World]]:
        """Yield one state of each group, with the number of calls that were made. most: only after so many of these
        numbers, chosen by a seed."""
        numbers = range(self.first, len(self.changes) + 1)
        for n in numbers if most is None else random.Random(seed).sample(numbers, min(most, len(numbers))):
            for world in _states(self.before, self.changes[:n]):
                if self._is_new(world):
                    yield n, world

    def walk_deaths(self, *losses: str) -> Iterator[tuple[int, World]]:
        """Yield one state of each group that a kill leaves after a call or inside of it, and that the power failure
        leaves which follows: of what was not synced `nothing`, `everything` or, `mixed <seed>`, some is lost."""
        for n in range(self.first, len(self.changes) + 1):
            for more in ([], *([change] for at, change in self.inside if at == n)):
                for loses in losses:
                    world = _dead(self.before, [*self.changes[:n], *more], loses)
                    if self._is_new(world):
                        yield n, world

    def dead(self, n: int, loses: str) -> World:
        """Return the state after so many calls, of which this is lost."""
        return _dead(self.before, self.changes[:n], loses)

    def _is_new(self, world: World) -> bool:
        self.count += 1
        known = len(self.groups)
        self.groups.add(world.key())
        return len(self.groups) > known


def _states(before: World, changes: Sequence[Change]) -> Iterator[World]:
    durable, values, synced = _on_the_device(before, changes)
    open_names = _open_names(changes, durable)
    dirty = [inode for inode, value in values.items() if synced.get(inode) != value]
    lost_names = _lost_names(changes, open_names)
    for lost in lost_names:
        for some in range(len(dirty) + 1):
            if some > 0 and some + len(lost) > MOST_LOST and not (some == len(dirty) and lost == lost_names[-1]):
                continue
            for inodes in itertools.combinations(dirty, some):
                for kind in _KINDS if inodes else (_old,):
                    torn = {inode: kind(values[inode], synced.get(inode)) for inode in inodes}
                    yield _world(before, changes, lost, values | torn)


def _dead(before: World, changes: Sequence[Change], loses: str) -> World:
    durable, values, synced = _on_the_device(before, changes)
    open_names = _open_names(changes, durable)
    chance, mixed = random.Random(loses), loses.startswith("mixed")

    def is_lost() -> bool:
        return chance.random() < 0.5 if mixed else loses == "everything"

    # A change of two folders is one change: such folders keep or lose what they have together.
    together: list[set[Inode]] = []
    for k in open_names:
        folders = {name[0] for name in changes[k].names}
        folders.update(*(known for known in together if known & folders))
        together = [known for known in together if not known & folders] + [folders]
    gone: set[Inode] = set().union(*(folders for folders in together if is_lost()))
    lost = frozenset(k for k in open_names if any(name[0] in gone for name in changes[k].names))
    torn = {
        inode: (_zeros if synced.get(inode) is None else _old)(value, synced.get(inode))
        for inode, value in values.items()
        if synced.get(inode) != value and is_lost()
    }
    return _world(before, changes, lost, values | torn)


def _open_names(changes: Sequence[Change], durable: set[int]) -> list[int]:
    return [k for k, change in enumerate(changes) if change.names and k not in durable]


def _on_the_device(
    before: World, changes: Sequence[Change]
) -> tuple[set[int], dict[Inode, FileValue], dict[Inode, FileValue]]:
    """Return the changes whose names are synced, all files as they are, and as they were at their last sync."""
    durable: set[int] = set()
    values, synced = dict(before.files), dict(before.files)
    waiting: list[int] = []
    for k, change in enumerate(changes):
        values |= change.files
        if change.names:
            waiting.append(k)
        if change.synced in values:
            synced[change.synced] = values[change.synced]
        elif change.synced is not None:
            done = {k for k in waiting if any(name[0] == change.synced for name in changes[k].names)}
            durable |= done
            waiting = [k for k in waiting if k not in done]
    return durable, values, synced


def _world(before: World, changes: Sequence[Change], lost: frozenset[int], values: dict[Inode, FileValue]) -> World:
    listings = {folder: dict(listing) for folder, listing in before.listings.items()}
    folders = dict(before.folders)
    touched = {folder for k in lost for folder, _, _ in changes[k].names}
    for k, change in enumerate(changes):
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


def _lost_names(changes: Sequence[Change], open_names: list[int]) -> list[frozenset[int]]:
    """Return what may be lost of the changes of names that are not synced; all of them last."""
    found = {frozenset(open_names[k:]) for k in range(len(open_names) + 1)}
    by_folder: dict[Inode, list[int]] = {}
    for k in open_names:
        for folder in {name[0] for name in changes[k].names}:
            by_folder.setdefault(folder, []).append(k)
    tails = [[ks[k:] for k in range(max(0, len(ks) - MOST_LOST), len(ks) + 1)] for ks in by_folder.values()]
    for chosen in itertools.product(*tails):
        lost = frozenset(itertools.chain(*chosen))
        # A rename from folder to folder is lost in both, and then what came later in either, too.
        is_each_tail = all(lost.isdisjoint(ks[: len(ks) - len(lost & set(ks))]) for ks in by_folder.values())
        if len(lost) <= MOST_LOST and is_each_tail and _keeps_order(changes, open_names, lost):
            found.add(lost)
    stays = {k for k in open_names if {inode for _, _, inode in changes[k].names} & _synced_since(changes[k:])}
    found |= {kept for lost in list(found) if _keeps_order(changes, open_names, kept := frozenset(lost - stays))}
    everything = frozenset(open_names)
    return [*sorted(found - {everything}, key=sorted), everything]


def _synced_since(changes: Sequence[Change]) -> set[Inode | None]:
    """Return the files and folders that were synced, without None."""
    return {change.synced for change in changes} - {None}


def _keeps_order(changes: Sequence[Change], open_names: Iterable[int], lost: frozenset[int]) -> bool:
    """Return whether no change is kept that needs a lost one: of the same name, or in a folder that is not there."""
    gone: set[tuple[Inode, str]] = set()
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
