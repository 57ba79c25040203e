"""free: what is taken of what can be given up, and how many bytes of a disk that frees.

A file frees its blocks when its last name is deleted. So a file with a hard link elsewhere frees nothing, and two names
of one file free its blocks once.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from klogtool.broker.file_facts import Fact
from klogtool.causes import Text
from klogtool.plans.free_kinds import FreeKind

BLOCK_BYTES = 512  # the unit of st_blocks


class Name(Struct, frozen=True):
    """A name of a regular file. fact: with its absolute path. links: how many names the file has. on_disk: its
    allocated bytes."""

    fact: Fact
    inode: tuple[int, int]
    links: int
    on_disk: int


class Candidate(Struct, frozen=True):
    """What can be given up as a whole. path: absolute, of the file or folder; log_dir: to which it belongs.

    facts: what the decision relied on, beside the files. chain: candidates of one chain can only go in their order, the
    first ones first. why: in place of the kind's words. settings: by which retention decides, and where they came from.
    """

    kind: FreeKind
    path: str
    log_dir: str
    names: tuple[Name, ...]
    facts: tuple[Fact, ...] = ()
    chain: str | None = None
    why: Text | None = None
    settings: tuple[Text, ...] = ()


class Taken(Struct, frozen=True):
    """A candidate that is taken, and the bytes that the disk gets back by it, after those before it."""

    candidate: Candidate
    on_disk: int


class Seen(Struct, frozen=True):
    """The candidates of a kind that were looked at, and the bytes of those with no other name elsewhere."""

    kind: FreeKind
    candidates: tuple[Candidate, ...]


class FreeChoice(Struct, frozen=True):
    """What is taken, in the order of the kinds. seen: the kinds that were looked at. on_disk: the bytes of all."""

    taken: tuple[Taken, ...]
    seen: tuple[Seen, ...]
    on_disk: int


def find_name(path: str) -> Name | None:
    """Return a regular file's name; None for anything else, and if it is gone. Raises OSError."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    fact = Fact(path, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)
    return Name(fact, (status.st_dev, status.st_ino), status.st_nlink, status.st_blocks * BLOCK_BYTES)


class FreedBytes:
    """The bytes that become free when these candidates go."""

    def __init__(self, candidates: Iterable[Candidate] = ()) -> None:
        self.on_disk = 0
        self._gone: Counter[tuple[int, int]] = Counter()
        for candidate in candidates:
            self.add(candidate)

    def add(self, candidate: Candidate) -> int:
        """Add a candidate; return by how many bytes the sum grew."""
        before = self.on_disk
        for name in candidate.names:
            self._gone[name.inode] += 1
            if self._gone[name.inode] == name.links:
                self.on_disk += name.on_disk
        return self.on_disk - before

    def remove(self, candidate: Candidate) -> None:
        """Take back `add`."""
        for name in candidate.names:
            if self._gone[name.inode] == name.links:
                self.on_disk -= name.on_disk
            self._gone[name.inode] -= 1


def choose(kinds: Iterable[tuple[FreeKind, Sequence[Candidate]]], asked_bytes: int | None) -> FreeChoice:
    """Take candidates in order until the bytes are reached. asked_bytes: None: take all.

    Kinds after the last one that is needed are not asked for. Every kind before it is taken whole, except what frees
    nothing; of the last one nothing is taken that can be spared.
    """
    tally, taken, seen = FreedBytes(), list[Candidate](), list[Seen]()
    for kind, candidates in kinds:
        seen.append(Seen(kind, tuple(candidates)))
        of_kind = list[Candidate]()
        for candidate in candidates:
            if asked_bytes is not None and tally.on_disk >= asked_bytes:
                break
            tally.add(candidate)
            of_kind.append(candidate)
        taken += of_kind if asked_bytes is None else _spared(tally, of_kind, asked_bytes)
        if asked_bytes is not None and tally.on_disk >= asked_bytes:
            break
    taken = _spared(tally, taken, tally.on_disk)
    again = FreedBytes()
    return FreeChoice(tuple(Taken(candidate, again.add(candidate)) for candidate in taken), tuple(seen), again.on_disk)


def _spared(tally: FreedBytes, taken: Sequence[Candidate], least: int) -> list[Candidate]:
    """Leave out candidates, the last ones first, as long as this many bytes become free."""
    kept: list[Candidate] = []
    chains: set[str | None] = set()
    for candidate in reversed(taken):
        if candidate.chain is None or candidate.chain not in chains:
            tally.remove(candidate)
            if tally.on_disk >= least:
                continue
            tally.add(candidate)
            chains.add(candidate.chain)
        kept.append(candidate)
    return kept[::-1]
