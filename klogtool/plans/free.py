"""free: which files to give up so that a disk has room again, the safest first.

Log dirs on one file system are decided together, so that nothing that loses something goes while another one has what
loses nothing. There is a plan for each log dir. A deletion comes first, so carrying it out needs no room.

What fills a disk may be none of the kinds that free knows: what is large, and stays, is told (free_untouched).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from klogtool.broker.cluster_config import ClusterConfig
from klogtool.causes import Reason, Text
from klogtool.errors import FileCause, KlogError, Refused
from klogtool.format.java_numbers import MAX_LONG
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.storage import Place
from klogtool.parameters import Unit, parameter
from klogtool.plans.causes import PlanRefusal
from klogtool.plans.free_candidates import (
    LeftOut,
    PartitionDir,
    find_by_names,
    find_rejected,
    find_runs,
    partition_dirs,
)
from klogtool.plans.free_choice import Candidate, FreeChoice, FreedBytes, Taken, choose
from klogtool.plans.free_kinds import (
    CLEANED,
    COMPACTION,
    DELETED,
    JOURNAL,
    KINDS,
    REJECTED,
    REMOTE,
    RETENTION,
    FreeKind,
)
from klogtool.plans.free_segments import (
    EPOCHS,
    Compactable,
    PlannedRetention,
    find_compactable,
    find_only_copies,
    find_past_retention,
    find_raised_epochs,
    find_remote,
    plan_retention,
)
from klogtool.plans.free_untouched import Untouched, find_untouched
from klogtool.plans.plan import Delete, Discard, Plan, Step, Write
from klogtool.plans.question import PathText, Question
from klogtool.plans.results import Result
from klogtool.remote.metadata import RemoteMetadata, read_metadata
from klogtool.remote.store import MetadataDirs, RemoteStore, StoreKeys, open_store, read_key

COMMAND = "free"


class FreeQuestion(Question, frozen=True, kw_only=True):
    """What can be given up? asked_bytes: on each file system; None: all that can be found.

    log_dirs: absolute paths of all log dirs that were named, also of other file systems. kinds: names of the kinds that
    may be taken. runs: absolute paths of finished runs in the journals beside the log dirs. metadata: if empty, the log
    dirs have it. no_undo: delete for good.
    """

    asked_bytes: Annotated[int, Meta(ge=1, le=MAX_LONG)] | None = None
    log_dirs: tuple[PathText, ...] = ()
    kinds: tuple[str, ...] = ()
    runs: tuple[PathText, ...] = ()
    remote: Annotated[
        PathText | None,
        parameter("The remote store of tiered topics, for the kind remote.", Unit.TEXT, metavar="STORE"),
    ] = None
    metadata: MetadataDirs = ()
    key: StoreKeys = ()
    no_undo: bool = False


QUESTION = FreeQuestion


def decide(path: str, question: FreeQuestion) -> Iterator[Plan]:
    """Yield a plan for each log dir on the file system of `path`, if it is the first of these in the question.

    Raises KlogError for what is not a log dir, or cannot be read.
    """
    group = _on_one_disk(path, question.log_dirs or (path,))
    if group[0] != path:
        return
    search = _FreeSearch(group, question)
    choice = choose(search.kinds(), question.asked_bytes)
    if question.asked_bytes is None or choice.on_disk < question.asked_bytes:
        search.look_at_the_rest(choice)
    for log_dir in group:
        yield _plan(log_dir, question, choice, search)


def _on_one_disk(path: str, log_dirs: Sequence[str]) -> list[str]:
    """Return the log dirs on the same file system as this one, each once."""
    by_inode: dict[tuple[int, int], str] = {}
    for log_dir in log_dirs:
        if not isinstance(open_path(log_dir), LogDir):
            raise KlogError(FileCause.NO_LOG_DIR(), path=log_dir)
        status = os.stat(log_dir)
        by_inode.setdefault((status.st_dev, status.st_ino), log_dir)
    device = os.stat(path).st_dev
    return [log_dir for (at, _), log_dir in by_inode.items() if at == device]


class _FreeSearch(Struct):
    """Finds candidates in log dirs, when a kind is asked for. left_out: partition dirs that nobody can judge.
    compactable: logs that could be made smaller. untouched: large files that are none of the kinds. only_copies: paths
    of left-overs that have records which no segment has."""

    log_dirs: Sequence[str]
    question: FreeQuestion
    left_out: list[LeftOut] = field(default_factory=list)
    compactable: list[Compactable] = field(default_factory=list)
    untouched: list[Untouched] = field(default_factory=list)
    only_copies: set[str] = field(default_factory=set)
    folders: dict[str, Sequence[PartitionDir]] = field(default_factory=dict)
    planned: dict[str, Sequence[PlannedRetention]] = field(default_factory=dict)
    tier: tuple[RemoteStore, RemoteMetadata] | None = None

    def kinds(self) -> Iterator[tuple[FreeKind, Sequence[Candidate]]]:
        """Yield each kind that may be taken, with its candidates."""
        self.folders = folders = {log_dir: self._partition_dirs(log_dir) for log_dir in self.log_dirs}
        for kind in KINDS:
            if kind.name in self.question.kinds:
                yield (
                    kind,
                    [
                        candidate
                        for log_dir in self.log_dirs
                        for candidate in self._find(kind, log_dir, folders[log_dir])
                    ],
                )

    def look_at_the_rest(self, choice: FreeChoice) -> None:
        """Find the large files that nothing was done about. All kinds have been looked at."""
        known = {name.fact.path for seen in choice.seen for candidate in seen.candidates for name in candidate.names}
        for log_dir, folders in self.folders.items():
            self.untouched += find_untouched(log_dir, folders, known, self.only_copies)

    def _partition_dirs(self, log_dir: str) -> Sequence[PartitionDir]:
        dirs, left_out = partition_dirs(log_dir)
        self.left_out += left_out
        if not {DELETED.name, CLEANED.name}.isdisjoint(self.question.kinds):
            copies, unclear = find_only_copies(dirs, log_dir, self.question.circumstances, self.question.jobs)
            self.left_out += unclear
            self.only_copies |= copies
        return dirs

    def _find(self, kind: FreeKind, log_dir: str, folders: Sequence[PartitionDir]) -> Sequence[Candidate]:
        if kind is JOURNAL:
            return find_runs(log_dir, self.question.runs)
        if kind is REJECTED:
            return find_rejected(log_dir)
        if kind is COMPACTION:
            circumstances, jobs = self.question.circumstances, self.question.jobs
            compactable, left_out = find_compactable(folders, log_dir, circumstances, jobs)
            self.compactable += compactable
            self.left_out += left_out
            return ()
        if kind is RETENTION:
            return list(find_past_retention(self._planned(log_dir, folders)))
        if kind is REMOTE:
            return self._find_remote(log_dir, folders)
        return [one for one in find_by_names(kind, folders) if one.path not in self.only_copies]

    def _planned(self, log_dir: str, folders: Sequence[PartitionDir]) -> Sequence[PlannedRetention]:
        """Return what retention does in a log dir; planned once."""
        if log_dir not in self.planned:
            clusters = map(ClusterConfig.of, self.question.log_dirs or self.log_dirs)
            cluster = next((known for known in clusters if known.metadata is not None), None)
            arguments = folders, log_dir, self.question.circumstances, self.question.jobs
            self.planned[log_dir], left_out = plan_retention(*arguments, cluster)
            self.left_out += left_out
        return self.planned[log_dir]

    def _find_remote(self, log_dir: str, folders: Sequence[PartitionDir]) -> Sequence[Candidate]:
        question = self.question
        if question.remote is None:
            return ()
        if Place(question.remote).shown != question.remote:
            raise Refused(PlanRefusal.PASSWORD(), path=Place(question.remote).shown, cure=PlanRefusal.IN_ENVIRONMENT())
        if self.tier is None:
            keys = dict(map(read_key, question.key))
            metadata = read_metadata(question.metadata or question.log_dirs or tuple(self.log_dirs))
            self.tier = open_store(question.remote, keys), metadata
        is_first = RETENTION.name not in question.kinds
        candidates, left_out = find_remote(self._planned(log_dir, folders), *self.tier, with_past_retention=is_first)
        self.left_out += left_out
        return candidates


def _plan(log_dir: str, question: FreeQuestion, choice: FreeChoice, search: _FreeSearch) -> Plan:
    taken = [item for item in choice.taken if item.candidate.log_dir == log_dir]
    names = [name for item in taken for name in item.candidate.names]
    relied = (fact for item in taken for fact in item.candidate.facts)
    by_path = {fact.path: fact for fact in (*relied, *(name.fact for name in names))}
    facts = tuple(replace(fact, path=os.path.relpath(fact.path, log_dir)) for fact in by_path.values())
    epochs = find_raised_epochs(search.planned.get(log_dir, ()), {item.candidate.path for item in taken})
    steps = tuple(
        step
        for item in sorted(taken, key=lambda item: not item.candidate.kind.undo)
        for step in _steps(item.candidate, epochs)
    )
    result = _result(log_dir, question, choice, taken, search)
    discarded = sum(item.on_disk for item in taken if not item.candidate.kind.undo)
    on_disk = result.freed_bytes
    return Plan(COMMAND, log_dir, question, facts, steps, (), result, on_disk=on_disk, on_disk_discarded=discarded)


def _steps(candidate: Candidate, epochs: dict[str, bytes]) -> Iterator[Step]:
    """Yield a deletion for each name. What is beside the log dir goes as a whole. epochs: leader-epoch-checkpoint of
    each partition whose first segments go and that is still to be written."""
    if not candidate.kind.undo:
        yield Discard(os.path.relpath(candidate.path, candidate.log_dir))
        return
    steps: list[Step] = [Delete(os.path.relpath(name.fact.path, candidate.log_dir)) for name in candidate.names]
    if (data := epochs.pop(candidate.chain or "", None)) is not None:
        path = os.path.join(os.path.relpath(candidate.chain or "", candidate.log_dir), EPOCHS)
        # Before the log, which is the last name: epochs below the first segment look as if somebody had removed the
        # segments. After an index, if there is one: the disk may be full before.
        steps.insert(max(1, len(steps) - 1), Write(path, (data,)))
    yield from steps


class FreedItem(Struct, frozen=True):
    """What is given up. broker: what a broker would do about it. settings: those that decide, for retention."""

    kind: str
    path: str
    bytes: int
    files: int
    why: Text
    broker: Reason
    costs: Reason
    loses: bool
    undo: bool
    settings: Sequence[Text] | UnsetType = UNSET


class KindTotals(Struct, frozen=True):
    """How much there is of a kind, and how much of it is taken. loses: records go with it."""

    kind: str
    found: int
    found_bytes: int
    taken: int
    taken_bytes: int
    loses: bool


class FreeResult(Result, frozen=True):
    """The answer of docs/contract.md for a log dir. disk_freed_bytes: of all log dirs on its disk."""

    asked_bytes: int | None
    freed_bytes: int
    disk_freed_bytes: int
    reached: bool
    items: list[FreedItem]
    kinds: list[KindTotals]
    compaction: list[Compactable]
    left_out: list[LeftOut]
    untouched: list[Untouched]


def _result(
    log_dir: str, question: FreeQuestion, choice: FreeChoice, taken: Sequence[Taken], search: _FreeSearch
) -> FreeResult:
    wanted = question.asked_bytes
    return FreeResult(
        wanted,
        sum(item.on_disk for item in taken),
        choice.on_disk,
        wanted is None or choice.on_disk >= wanted,
        [_item(item) for item in taken],
        [_kind_totals(seen.kind, seen.candidates, choice, log_dir, search) for seen in choice.seen],
        [one for one in search.compactable if _is_in(one.path, log_dir)],
        _each_once(one for one in search.left_out if _is_in(one.path, log_dir)),
        [one for one in search.untouched if os.path.join(one.path, "").startswith(os.path.join(log_dir, ""))],
    )


def _each_once(left_out: Iterable[LeftOut]) -> list[LeftOut]:
    """Return those that differ: a log that cannot be loaded is found for each kind that loads it."""
    distinct = list[LeftOut]()
    paths = set[str]()
    for one in left_out:
        if one.path not in paths or one not in distinct:
            distinct.append(one)
            paths.add(one.path)
    return distinct


def _item(item: Taken) -> FreedItem:
    candidate, kind = item.candidate, item.candidate.kind
    return FreedItem(
        kind.name,
        candidate.path,
        item.on_disk,
        len(candidate.names),
        candidate.why or kind.why,
        kind.broker,
        kind.costs,
        kind.loses,
        kind.undo,
        list(candidate.settings) if candidate.settings else UNSET,
    )


def _kind_totals(
    kind: FreeKind, candidates: Sequence[Candidate], choice: FreeChoice, log_dir: str, search: _FreeSearch
) -> KindTotals:
    here = [candidate for candidate in candidates if candidate.log_dir == log_dir]
    taken = [item for item in choice.taken if item.candidate.kind is kind and item.candidate.log_dir == log_dir]
    sizes = [one.freed_bytes for one in search.compactable if kind is COMPACTION and _is_in(one.path, log_dir)]
    return KindTotals(
        kind.name,
        len(here) + len(sizes),
        FreedBytes(here).on_disk + sum(sizes),
        len(taken),
        sum(item.on_disk for item in taken),
        kind.loses,
    )


def _is_in(path: str, log_dir: str) -> bool:
    return os.path.dirname(path) == log_dir
