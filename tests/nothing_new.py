"""The law of all that writes: afterwards `verify --fail-on warning` finds nothing that was not there before.

conftest.py puts it around every run of klogtool's own disk, so that each test that writes ends in `verify`. `apply
--resume` has to leave as little; after `undo`, `verify` finds what it found before the run, no more and no less.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest.mock import patch

from verifying import found

from klogtool.disk import output, writer
from klogtool.disk.disk import Disk
from klogtool.disk.journal import Entry
from klogtool.errors import KlogError
from klogtool.format.names import FileKind
from klogtool.log.log_dirs import log_dir_of
from klogtool.plans.decisions import DECISIONS
from klogtool.plans.plan import RenameFolder
from klogtool.plans.saved_plan import SavedPlan

# What a command has to leave. Offsets that were lost stay missing, as both commands say. A snapshot without a producer
# that the log has is what was asked for.
EXCUSED = {
    "salvage": {"segment-gap"},
    "rebuild-index": {"segment-gap"},
    "drop-producer": {"snapshot-content"},
    "transplant": {"snapshot-content"},  # with --forget-open-transactions: the snapshot does not have them
}
# Of a partition by itself: its epochs begin at the log start, whose line is in a log dir that it does not lie in.
EXCUSED_ELSEWHERE = {"epochs-content"}
# (id, file below the folder that was looked at), and how many of them.
Found: TypeAlias = Counter[tuple[str, str]]
TESTS_OWN = "test"


@dataclass(frozen=True)
class Before:
    """What verify found in a log dir before a run, under the names that its folders had then and have afterwards,
    findings that the run may add, and the bytes that the run left."""

    folder: str
    found: Found
    renamed: Found
    excused: set[str]
    left: str | None


@contextlib.contextmanager
def nothing_new() -> Iterator[list[str]]:
    """Meanwhile each run that writes is held to the law. Yields the folders that were looked at afterwards."""
    checked: list[str] = []
    runs: dict[str, Before] = {}  # by the path of the journal's entry
    carry_out, carry_out_to = writer.InPlace.carry_out, output.carry_out_to
    finish, undo_steps = writer.finish, writer.undo_steps

    def in_place(run: writer.InPlace) -> None:
        plans = run._plans if type(run._disk) is writer.Disk else []  # a disk that is to die has tests of its own
        folders = _folders_of(run._plans)
        before = {folder: _found_once(folder) for folder in folders}
        try:
            with _lawful(_folders_of(plans), lambda folder: folder, plans, _excused(plans), checked):
                carry_out(run)
        finally:
            for entry in run.entries:
                if (folder := _log_dir_of(entry)) in before:
                    found = before[folder], _renamed(before[folder], run._plans)
                    runs[entry.path] = Before(folder, *found, _excused(run._plans), _digest(folder))

    def elsewhere(plans: Sequence[SavedPlan], source: str, place: str, **how: Any) -> None:
        folders = [source] if how.get("disk") is None and _folders_of(plans) else []
        with _lawful(folders, lambda _: place, plans, _excused(plans) | EXCUSED_ELSEWHERE, checked):
            carry_out_to(plans, source, place, **how)

    def finishing(disk: Disk, entry: Entry, *rest: Any) -> None:
        finish(disk, entry, *rest)
        if (before := runs.get(entry.path)) is not None:  # else it is the run itself
            new = {
                key: count
                for key, count in (_found_once(before.folder) - before.renamed).items()
                if key[0] not in before.excused
            }
            checked.append(before.folder)
            assert not new, ascii(f"after apply --resume verify finds in {before.folder} what was not there: {new}")

    def taking_back(disk: Disk, entry: Entry, *rest: Any) -> None:
        before = runs.get(entry.path)
        # Of what others have changed since the run the law says nothing.
        is_alone = before is not None and before.left is not None and before.left == _digest(before.folder)
        undo_steps(disk, entry, *rest)
        if before is not None and is_alone:
            now = _found_once(before.folder)
            checked.append(before.folder)
            assert now == before.found, ascii(f"after undo: {now - before.found}, gone: {before.found - now}")

    with (
        patch.object(writer.InPlace, "carry_out", in_place),
        patch.object(output, "carry_out_to", elsewhere),
        patch.object(writer, "finish", finishing),
        patch.object(writer, "undo_steps", taking_back),
    ):
        yield checked


@contextlib.contextmanager
def _lawful(
    folders: Sequence[str],
    becomes: Callable[[str], str],
    plans: Sequence[SavedPlan],
    excused: set[str],
    checked: list[str],
) -> Iterator[None]:
    """becomes: where what was in a folder is afterwards. excused: findings that may be new."""
    before = {folder: findings_in(folder) for folder in folders}
    yield
    for folder, known in before.items():
        place = becomes(folder)
        more = findings_in(place) - _renamed(known, plans)
        new = {key: count for key, count in more.items() if key[0] not in excused}
        checked.append(place)
        assert not new, ascii(f"verify finds in {place} what was not there before: {new}")


def _excused(plans: Sequence[SavedPlan]) -> set[str]:
    # Of a -future folder that goes away, the lines in the checkpoints stay until the broker writes these anew.
    moves = [step for plan in plans for step in plan.steps if isinstance(step, RenameFolder)]
    lines = {"checkpoint-entry"} if any(step.path.endswith("-future") and "/" in step.to for step in moves) else set()
    return lines.union(*(EXCUSED.get(plan.command, set()) for plan in plans))


def _renamed(found: Found, plans: Sequence[SavedPlan]) -> Found:
    """The findings under the names that folders have after the plans."""
    for step in (step for plan in plans for step in plan.steps if isinstance(step, RenameFolder)):
        found = Counter({(key, _place_now(place, step.path, step.to)): n for (key, place), n in found.items()})
    return found


def _place_now(place: str, folder: str, to: str) -> str:
    return to + place[len(folder) :] if f"{place}/".startswith(f"{folder}/") else place


def _folders_of(plans: Sequence[SavedPlan]) -> list[str]:
    """The log dirs of klogtool's own plans, or the partition dirs that lie in none."""
    folders = {log_dir_of(plan.path) for plan in plans if plan.command in DECISIONS and plan.command != TESTS_OWN}
    return sorted(folders)


def findings_in(folder: str) -> Found:
    """All but notes. Of what is no log dir, none. Those of a segment count for its partition: what compacts or salvages
    puts batches of several segments into one."""
    try:
        findings = found(folder)
    except KlogError:
        return Counter()
    return Counter((finding.id, _place(os.path.relpath(finding.path, folder))) for finding in findings)


_FOUND: dict[str, Found] = {}


def _found_once(folder: str) -> Found:
    """The same, looked for once in log dirs of the same bytes: a run is cut short at each of its calls."""
    key = _digest(folder)
    if key is None:
        return findings_in(folder)
    if key not in _FOUND:
        _FOUND[key] = findings_in(folder)
    return _FOUND[key]


def _digest(folder: str) -> str | None:
    """Of all names and bytes below a folder; None where they cannot be read. The lock is klogtool's while it works."""
    told = hashlib.sha256()
    try:
        for place, folders, files in os.walk(folder):
            folders.sort()
            told.update(os.path.relpath(place, folder).encode(errors="surrogateescape"))
            for name in sorted(files):
                path = os.path.join(place, name)
                if name != FileKind.LOCK.value and os.path.isfile(path):
                    with open(path, "rb") as file:
                        told.update(
                            name.encode(errors="surrogateescape") + hashlib.file_digest(file, "sha256").digest()
                        )
    except OSError:
        return None
    return told.hexdigest()


def _log_dir_of(entry: Entry) -> str:
    try:
        return entry.log_dir()
    except KlogError:
        return ""


def _place(path: str) -> str:
    return os.path.dirname(path) if path.endswith(".log") else path
