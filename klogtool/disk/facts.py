"""Whether files are still as a plan found them; and where a log dir ends and what is beside it begins."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from klogtool.errors import Refused, StalePlan
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.logdir import KINDS_IN_LOG_DIR
from klogtool.repair.plan import Fact
from klogtool.repair.saved_plan import SavedPlan

_TELLING_KINDS = KINDS_IN_LOG_DIR - {FileKind.LOCK}


def check_facts(plans: Iterable[SavedPlan]) -> None:
    """Raises StalePlan if a file that a plan relied on has changed or gone, or a name came or went."""
    for plan in plans:
        for fact in plan.facts:
            _check_fact(fact)


def _check_fact(fact: Fact) -> None:
    try:
        found = os.stat(fact.path)
    except OSError as error:
        gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        raise _stale(fact.path, "gone" if gone else (error.strerror or str(error)).lower()) from None
    if not stat.S_ISDIR(found.st_mode) and found.st_size != fact.size:
        raise _stale(fact.path, f"{found.st_size:,} bytes, {fact.size:,} then")
    if found.st_mtime_ns != fact.mtime_ns:
        raise _stale(fact.path, "a file came or went" if stat.S_ISDIR(found.st_mode) else "written to since")


def _stale(path: str, how: str) -> StalePlan:
    return StalePlan(f"not as it was when the plan was made: {how}", path=path)


def looks_like_log_dir(path: str) -> bool:
    """Whether there are files in it that only a log dir has, such as meta.properties or a checkpoint; many other
    programs have a `.lock`, too."""
    try:
        return any(parse_file_name(name).kind in _TELLING_KINDS for name in os.listdir(path))
    except OSError:
        return False


def is_partition_dir(path: str) -> bool:
    """A folder in a log dir that has a partition's name."""
    named_so = find_partition_dir_name(own_name(path)) is not None
    return named_so and looks_like_log_dir(os.path.dirname(os.path.abspath(path)))


def check_saving_place(path: str) -> None:
    """Raises Refused for a file of ours in a partition dir or log dir, or where there is one of that name already."""
    folder = os.path.dirname(os.path.realpath(path))
    if is_partition_dir(folder):
        raise Refused("a partition dir is no place for it", path=path)
    if looks_like_log_dir(folder):
        raise Refused("a log dir is no place for it", path=path)
    if os.path.lexists(path):
        raise Refused("there is a file of that name already", path=path)
