"""Writes a log dir that was built from a spec into a new folder.

The folder is built beside its place under a temporary name, every file synced and read back; one rename makes it
appear. After an error there is nothing.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress

from msgspec.structs import replace

from klogtool.building.spec import Spec
from klogtool.disk.attributes import PLAIN_FILE_MODE, attributes_of
from klogtool.disk.disk import Disk
from klogtool.disk.output import check_place, remove_folder
from klogtool.disk.putting import put
from klogtool.disk.space import BLOCK_BYTES, check_space
from klogtool.plans.build import BuildPlan, BuildResult, decide

FOLDER_MODE = 0o755


def build(spec: Spec, folder: str | os.PathLike[str]) -> BuildResult:
    """Make the log dir of a spec in a new or empty folder, and return the answer of `klogtool build`.

    Raises KlogError for a spec that cannot be, Refused for a folder that is not empty or lies in a log dir; OSError if
    the system refuses. Then nothing was written.
    """
    output = os.fspath(folder)
    check_place(output, None)
    plan = decide(os.path.abspath(output), spec)
    write_log_dir(plan, output)
    return plan.result


def write_log_dir(plan: BuildPlan, output: str, *, disk: Disk | None = None) -> None:
    """Write the files of a plan to a new or empty folder. Raises as `build` does; then there is no output."""
    disk = disk or Disk()
    check_place(output, None)
    place = os.path.realpath(output)
    parent = os.path.dirname(place)
    check_space({parent: plan.size + BLOCK_BYTES * (len(plan.files) + len(plan.folders) + 1)})
    part = f"{place}.{uuid.uuid4().hex}.part"
    try:
        _write(disk, plan, part, parent)
        disk.rename(part, place)
        disk.sync_dir(parent)
    finally:
        with suppress(OSError):  # the first error is the one to report
            remove_folder(disk, part)


def _write(disk: Disk, plan: BuildPlan, part: str, parent: str) -> None:
    like_folder = replace(attributes_of(parent), mode=FOLDER_MODE, mtime_ns=None, extended=()).permitted()
    like = replace(like_folder, mode=PLAIN_FILE_MODE)
    disk.mkdir(part)
    for name in plan.folders:
        disk.mkdir(os.path.join(part, name))
    for name, content in plan.files.items():
        put(disk, os.path.join(part, name), content, like)
    for name in reversed(["", *plan.folders]):
        disk.describe(os.path.join(part, name), like_folder)
        disk.sync_dir(os.path.join(part, name))
