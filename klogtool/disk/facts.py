"""Whether files are still as a plan found them; and where a log dir ends and what is beside it begins."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable

from klogtool.errors import Refused, StalePlan
from klogtool.format.names import parse_file_name
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.logdir import KINDS_IN_LOG_DIR
from klogtool.repair.plan import Plan, names_of


def check_facts(plan: Plan, but_for: Collection[str] = ()) -> None:
    """Raises StalePlan if a file that the plan relied on has changed or gone, or a name came or went.

    but_for: real paths that may have changed, since this very run changed them.
    """
    for fact in plan.facts:
        path = os.path.join(plan.path, fact.path).rstrip(os.sep)
        if os.path.realpath(path) in but_for:
            continue
        try:
            found = os.stat(path)
        except OSError as error:
            raise _stale(
                path, "gone" if isinstance(error, FileNotFoundError) else str(error.strerror).lower()
            ) from None
        same_size = stat.S_ISDIR(found.st_mode) or found.st_size == fact.size
        if not same_size:
            raise _stale(path, f"{found.st_size} bytes, {fact.size} then")
        if found.st_mtime_ns != fact.mtime_ns:
            raise _stale(path, "a file came or went" if stat.S_ISDIR(found.st_mode) else "written to since")


def _stale(path: str, how: str) -> StalePlan:
    return StalePlan(f"not as it was when the plan was made: {how}", path=path)


def changed_by(plans: Iterable[Plan]) -> set[str]:
    """Real paths that carrying the plans out changes: files, and the folders that they are in."""
    names = (os.path.join(plan.path, name) for plan in plans for step in plan.steps for name in names_of(step))
    found = {os.path.realpath(path) for path in names}
    return found | {os.path.dirname(path) for path in found}


def looks_like_log_dir(path: str) -> bool:
    """Whether there are files in it that only a log dir has, such as meta.properties or a checkpoint."""
    try:
        return any(parse_file_name(name).kind in KINDS_IN_LOG_DIR for name in os.listdir(path))
    except OSError:
        return False


def is_partition_dir(path: str) -> bool:
    """A folder in a log dir that has a partition's name."""
    named_so = find_partition_dir_name(own_name(path)) is not None
    return named_so and looks_like_log_dir(os.path.dirname(os.path.abspath(path)))


def check_saving_place(path: str) -> None:
    """Raises Refused for a file of ours in a partition dir, or where there is one of that name already."""
    folder = os.path.dirname(os.path.realpath(path))
    if is_partition_dir(folder):
        raise Refused("a partition dir is no place for it", path=path)
    if os.path.lexists(path):
        raise Refused("there is a file of that name already", path=path)
