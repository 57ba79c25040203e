"""free: what klogtool itself keeps beside a log dir: runs in its journal, and bytes that salvage rejected.

Both are outside the log dir, so they go as whole folders, for good. Only those on the log dir's file system count, and
only folders that contain nothing of somebody else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

from klogtool.broker.file_facts import Fact, folder_fact, listing_of
from klogtool.errors import KlogError
from klogtool.log.file import read_whole, unreadable
from klogtool.log.folder import names_in
from klogtool.plans.free_choice import Candidate, Name, find_name
from klogtool.plans.free_kinds import JOURNAL, REJECTED
from klogtool.plans.plan import REJECTED as REJECTED_END
from klogtool.plans.plan import is_journal_entry
from klogtool.plans.rejected_files import MANIFEST

MOST_MANIFEST_BYTES = 64 << 20


def find_runs(log_dir: str, runs: Sequence[str]) -> list[Candidate]:
    """Return the runs in the journal of this log dir. runs: of all log dirs. Raises KlogError."""
    own = (run for run in runs if is_journal_entry(os.path.relpath(run, log_dir), log_dir))
    return [Candidate(JOURNAL, run, log_dir, *_files_below(run)) for run in own if _is_here(run, log_dir)]


def find_rejected(log_dir: str) -> list[Candidate]:
    """Return the folders beside a log dir in which salvage has kept bytes of its partitions. Raises KlogError."""
    above = os.path.dirname(log_dir)
    found = [os.path.join(above, name) for name in names_in(above) if name.endswith(REJECTED_END)]
    ours = [path for path in found if os.path.isdir(path) and _is_here(path, log_dir) and _is_of(path, log_dir)]
    return [Candidate(REJECTED, path, log_dir, *_files_below(path)) for path in ours]


def _is_here(path: str, log_dir: str) -> bool:
    return os.path.realpath(path) == path and os.stat(path).st_dev == os.stat(log_dir).st_dev


def _is_of(path: str, log_dir: str) -> bool:
    """Return whether the manifest says that salvage has written this folder, about a partition of this log dir."""
    names = set(names_in(path))
    try:
        manifest = json.loads(read_whole(os.path.join(path, MANIFEST), limit=MOST_MANIFEST_BYTES))
        written = {MANIFEST, *(row["bytes"] for row in manifest["ranges"])}
        return names <= written and os.path.dirname(manifest["partition"]) == log_dir
    except (KlogError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _files_below(path: str) -> tuple[tuple[Name, ...], tuple[Fact, ...]]:
    """Return the regular files in a folder and its folders, and facts of these folders."""
    names, facts = list[Name](), list[Fact]()
    for folder in _folders(path):
        listed = listing_of(folder)
        facts.append(folder_fact(folder, listed))
        for name in sorted(listed[1]):
            try:
                found = find_name(os.path.join(folder, name))
            except OSError as error:
                raise unreadable(os.path.join(folder, name), error) from error
            names += [] if found is None else [found]
    return tuple(names), tuple(facts)


def _folders(path: str) -> Iterator[str]:
    yield path
    for name in names_in(path):
        below = os.path.join(path, name)
        if os.path.isdir(below) and not os.path.islink(below):
            yield below
