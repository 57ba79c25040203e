"""Writes a log dir that was built from a spec into a new folder.

The folder is built beside its place under a temporary name, every file synced and read back; one rename makes it
appear. After an error there is nothing.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from klogtool.building.spec import Spec
from klogtool.disk.attributes import PLAIN_FILE_MODE, attributes_of
from klogtool.disk.output import check_place, write_folder
from klogtool.plans.build import BuildPlan, BuildResult, decide


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


def write_log_dir(plan: BuildPlan, output: str) -> None:
    """Write the files of a plan to a new or empty folder. Raises as `build` does; then there is no output."""
    parent = os.path.dirname(os.path.realpath(output))
    like = replace(attributes_of(parent), mode=PLAIN_FILE_MODE, mtime_ns=None, extended=()).permitted()
    write_folder(output, plan.files, None, folders=plan.folders, like=like)
