"""A disk that dies: after n verbs the process is gone, and what was not synced may be gone with it.

What a power failure leaves is modelled at its worst: the names in a folder are those of its last sync, the bytes of a
file those of its last sync, too, and zeros where it never was. `mixed` lets each folder and file keep or lose what was
not synced, by chance; but a rename from one folder to another is one change, as it is in every journaling file system.
Renames of folders are lost in the reverse of their order, and a sync of either parent keeps one and all before it.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, ClassVar
from unittest.mock import patch

from msgspec.structs import replace

from klogtool.broker.content import Content, read_content
from klogtool.disk.attributes import FileAttributes
from klogtool.disk.disk import Disk
from klogtool.disk.journal import OurLinks
from klogtool.plans import free_candidates, free_choice
from klogtool.plans.image_log import BlankedChunk
from klogtool.plans.plan import Plan
from klogtool.plans.saved_plan import SavedPlan

Inode = tuple[int, int]
CALLS_OF_A_VERB = ("pwrite", "copy_file_range", "ftruncate", "chown", "chmod", "setxattr", "utime")
MOST_CALLS_OF_A_VERB = 4


class Attics:
    """Where the disks of these tests keep a second name of every file. `are_ours`: these do not count as somebody
    else's; if they do, it is as if a backup by hard links had been made before all."""

    are_ours = True
    folders: ClassVar[set[str]] = set()

    @classmethod
    def links_of(cls, found: os.stat_result) -> int:
        kept = (os.path.join(folder, str(found.st_ino)) for folder in cls.folders)
        return sum(1 for path in kept if os.path.lexists(path) and os.path.samestat(os.lstat(path), found))


_links_of = OurLinks.of
OurLinks.of = lambda self, found: _links_of(self, found) + Attics.are_ours * Attics.links_of(found)  # type: ignore


def find_name(path: str) -> free_choice.Name | None:
    """A file's name for `free`, which counts what a deletion frees: nothing, while there is a second name."""
    found = free_choice.find_name(path)
    return None if found is None else replace(found, links=found.links - Attics.links_of(os.lstat(path)))


free_candidates.find_name = find_name  # type: ignore


def reusable(plan: Plan) -> SavedPlan:
    """For log dirs that are made anew, or whose files a MortalDisk has a name for: by sizes and times alone."""
    saved = SavedPlan.of(plan)
    facts = tuple(replace(fact, ino=None, ctime_ns=None) for fact in saved.facts)
    return replace(saved, row=replace(saved.row, facts=facts))


class StoppedInside:
    """How often a disk died inside of a verb: by its name, and by how many system calls were done before."""

    count: ClassVar[Counter[tuple[str, int]]] = Counter()


@contextmanager
def system_calls(most: int) -> Iterator[list[int]]:
    """So many calls that change a file work, and the next one is the death of the process. Gives how many worked."""
    done = [0]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def work(*given: Any, **more: Any) -> Any:
            if done[0] == most:
                raise Died
            done[0] += 1
            return call(*given, **more)

        return work

    with ExitStack() as stack:
        for name in CALLS_OF_A_VERB:
            if hasattr(os, name):
                stack.enter_context(patch.object(os, name, counted(getattr(os, name))))
        yield done


class Died(BaseException):
    """The process was killed: nothing catches this, and after it the disk does nothing any more."""


class HastyDisk(Disk):
    """Does not wait for the device: for what a test does besides."""

    def sync(self, path: str) -> None:
        pass

    def sync_dir(self, path: str) -> None:
        pass


class MortalDisk(Disk):
    """dies_after: verbs that are done before that. roots: folders that are watched, each with room beside it."""

    def __init__(self, roots: list[pathlib.Path], dies_after: int = 1 << 30) -> None:
        self.dies_after, self.done = dies_after, 0
        self.roots = [str(root) for root in roots]
        self.folders: dict[str, dict[str, Inode]] = {}  # as of the last sync
        self.times: dict[str, int] = {}  # theirs
        self.bytes: dict[Inode, tuple[bytes, int] | None] = {}  # as of the last sync; None: never
        self.tied: set[str] = set()  # folders with a rename between them that is not synced
        self.moved: list[tuple[str, str]] = []  # folders that were renamed, which is not synced
        for root in self.roots:
            shutil.rmtree(self._attic(root), ignore_errors=True)
            os.mkdir(self._attic(root))
            Attics.folders.add(self._attic(root))
            self._know(root)

    # The verbs.

    def _verb(self, dying: Callable[[], object] = lambda: None) -> None:
        if self.done >= self.dies_after:
            if self.done == self.dies_after:
                dying()
            self.done += 1 << 20
            raise Died
        self.done += 1

    def write(
        self, path: str, content: Content, like: FileAttributes | None = None, *reached: Callable[[int], None]
    ) -> None:
        half = read_content(content)
        half = half[: len(half) // 2]
        self._verb(lambda: Disk.write(self, path, (half,)))
        super().write(path, content, like, *reached)
        self._meet(path)

    def write_parts(self, path: str, pieces: Iterable[BlankedChunk], like: FileAttributes) -> None:
        self._verb(self._in_the_middle_of("write_parts", path, pieces, like))
        super().write_parts(path, pieces, like)
        self._meet(path)

    def fill(self, path: str, content: Content, like: FileAttributes) -> None:
        self._verb(self._in_the_middle_of("fill", path, content, like))
        super().fill(path, content, like)

    def describe(self, path: str, wanted: FileAttributes) -> None:
        self._verb(self._in_the_middle_of("describe", path, wanted))
        super().describe(path, wanted)

    def _in_the_middle_of(self, name: str, *given: Any) -> Callable[[], None]:
        """Do a verb up to one of its system calls. Which one depends on where the disk dies, so all have their turn."""

        def work() -> None:
            with suppress(Died), system_calls(self.dies_after % MOST_CALLS_OF_A_VERB) as made:
                getattr(Disk, name)(self, *given)
            StoppedInside.count[name, made[0]] += 1

        return work

    def extend(self, path: str, position: int, content: Content) -> None:
        half = read_content(content)
        half = half[: len(half) // 2]
        self._verb(lambda: Disk.extend(self, path, position, (half,)))
        super().extend(path, position, content)

    def rename(self, path: str, to: str) -> None:
        self._verb()
        super().rename(path, to)
        if os.path.isdir(to):
            self._move(path, to)
            self.moved.append((path, to))
        elif os.path.dirname(path) != os.path.dirname(to):
            self.tied |= {os.path.dirname(path), os.path.dirname(to)}

    def mkdir(self, path: str) -> None:
        self._verb()
        super().mkdir(path)
        self._settle_folder(path)

    def sync(self, path: str) -> None:
        self._verb()  # and nothing else: the disk under the tests need not be waited for
        self._settle(path)

    def sync_dir(self, path: str) -> None:
        self._verb()
        self._settle_folder(path)
        self.tied.discard(path)
        self.moved = self.moved[
            1 + max((n for n, move in enumerate(self.moved) if path in _parents(move)), default=-1) :
        ]

    # What is left.

    def crash(self, loses: str) -> None:
        """The power fails: of what was not synced `nothing`, `everything` or, `mixed <seed>`, some is lost."""
        chance = random.Random(loses)
        keep_tied = chance.random() < 0.5
        mixed = loses.startswith("mixed")

        def lost(tied: bool = False) -> bool:
            return not (keep_tied if tied else chance.random() < 0.5) if mixed else loses == "everything"

        left = chance.randrange(len(self.moved) + 1) if mixed and self.moved else 0
        for path, to in reversed(self.moved[len(self.moved) if loses == "nothing" else left :]):
            os.rename(to, path)
            self._move(to, path)
        names = {p: listing for p, listing in self.folders.items() if lost(p in self.tied) or not os.path.isdir(p)}
        for inode in [inode for inode in self.bytes if lost()]:
            self._lose_bytes(inode)
        for root in self.roots:
            self._lose_names(root, names)

    def _lose_bytes(self, inode: Inode) -> None:
        path, synced = self._kept(inode), self.bytes[inode]
        size = os.stat(path).st_size
        data, mtime_ns = synced if synced is not None else (bytes(size), os.stat(path).st_mtime_ns)
        if pathlib.Path(path).read_bytes() != data:
            pathlib.Path(path).write_bytes(data)
            os.utime(path, ns=(mtime_ns, mtime_ns))

    def _lose_names(self, folder: str, names: dict[str, dict[str, Inode]]) -> None:
        wanted = names.get(folder)
        if wanted is not None and wanted != self._listing(folder):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if self._inode(path) != wanted.get(name):
                    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            for name, inode in wanted.items():
                path = os.path.join(folder, name)
                if not os.path.lexists(path):
                    os.link(self._kept(inode), path) if inode in self.bytes else os.mkdir(path)
        for entry in list(os.scandir(folder)):
            if entry.is_dir():
                self._lose_names(entry.path, names)
        if wanted is not None:
            os.utime(folder, ns=(self.times[folder], self.times[folder]))

    # What is known of it.

    def _know(self, folder: str) -> None:
        self._settle_folder(folder)
        for entry in os.scandir(folder):
            if entry.is_dir():
                self._know(entry.path)
            else:
                self._meet(entry.path)
                self._settle(entry.path)

    def _meet(self, path: str) -> None:
        if self._inode(path) not in self.bytes:
            self.bytes[self._inode(path)] = None
            os.link(path, self._kept(self._inode(path)))

    def _move(self, path: str, to: str) -> None:
        """What is known of a folder and of all below it is known under its new name."""
        for known in (self.folders, self.times):
            for folder in [folder for folder in known if folder == path or folder.startswith(path + os.sep)]:
                known[to + folder[len(path) :]] = known.pop(folder)  # type: ignore
        inode = self.folders[os.path.dirname(path)].pop(os.path.basename(path), None)
        if inode is not None:
            self.folders[os.path.dirname(to)][os.path.basename(to)] = inode

    def _settle(self, path: str) -> None:
        self.bytes[self._inode(path)] = pathlib.Path(path).read_bytes(), os.stat(path).st_mtime_ns

    def _settle_folder(self, folder: str) -> None:
        self.folders[folder] = self._listing(folder)
        self.times[folder] = os.stat(folder).st_mtime_ns

    def _listing(self, folder: str) -> dict[str, Inode]:
        return {entry.name: self._inode(entry.path) for entry in os.scandir(folder)}

    def _inode(self, path: str) -> Inode:
        found = os.lstat(path)
        return found.st_dev, found.st_ino

    def _kept(self, inode: Inode) -> str:
        root = next(root for root in self.roots if os.stat(root).st_dev == inode[0])
        return os.path.join(self._attic(root), str(inode[1]))

    def _attic(self, root: str) -> str:
        return root + ".attic"


def _parents(move: tuple[str, str]) -> set[str]:
    return {os.path.dirname(path) for path in move}


def _counted(name: str) -> Any:
    def verb(self: MortalDisk, *given: Any) -> None:
        self._verb()
        getattr(Disk, name)(self, *given)

    return verb


for _name in ("truncate", "link", "delete", "rmdir"):
    setattr(MortalDisk, _name, _counted(_name))
