"""Deletes for good what klogtool keeps beside a log dir: finished runs in its journal, bytes that salvage rejected.

This comes after all other steps of a run, because it cannot be taken back. A kill in the middle leaves a folder that
the same command deletes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from klogtool.disk.disk import Disk
from klogtool.disk.journal import Entry
from klogtool.disk.writer import discard
from klogtool.errors import KlogError, Refused
from klogtool.plans.plan import Discard, is_journal_entry
from klogtool.plans.saved_plan import SavedPlan


def discard_all(plans: Iterable[SavedPlan], *, disk: Disk | None = None) -> list[str]:
    """Delete what the plans discard; return the paths. The caller has checked the facts and holds no lock.

    Raises Refused for a run that was cut short, LogDirInUse, KlogError or OSError.
    """
    disk = disk or Disk()
    done = []
    for plan in plans:
        for step in plan.steps:
            if isinstance(step, Discard):
                done.append(os.path.normpath(os.path.join(plan.path, step.path)))
                _discard(disk, done[-1], is_entry=is_journal_entry(step.path, plan.path))
    return done


def _discard(disk: Disk, path: str, *, is_entry: bool) -> None:
    if os.path.realpath(path) != path:
        raise Refused("a symbolic link on the way: delete it by hand", path=path)
    if is_entry:
        discard(Entry(path), disk=disk)
        return
    if not os.path.isdir(path):
        raise KlogError("there is no such folder", path=path)
    for name in sorted(os.listdir(path)):
        disk.delete(os.path.join(path, name))
    disk.rmdir(path)
    disk.sync_dir(os.path.dirname(path))
