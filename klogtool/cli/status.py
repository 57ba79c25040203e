"""Exit statuses, and the status of each error."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from klogtool.errors import Corrupt, KlogError, Refused

DONE, FOUND, USAGE, REFUSED, COULD_NOT, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 4, 130, 141


_arguments: list[str] = []


def remember_arguments(arguments: Sequence[str]) -> None:
    """Remember what the user typed: only a path that the user named can be a wrong one."""
    _arguments[:] = arguments


def was_listed(path: str | None) -> bool:
    """Return whether a path is inside a folder that the user named, and not named itself: if such a file is not there,
    it is gone since the folder was listed."""
    if path is None:
        return False
    wanted = os.path.abspath(path)
    named = {os.path.abspath(part) for word in _arguments for part in word.split(",") if part}
    return wanted not in named and any(wanted.startswith(os.path.join(one, "")) for one in named)


def status_of(error: KlogError) -> int:
    """Return 1 for damage; 2 for a path that does not exist or a wrong argument; 4 for what cannot be read, is too
    large, or went away meanwhile."""
    if isinstance(error, Refused):
        return REFUSED
    if isinstance(error, Corrupt):
        return FOUND
    if getattr(error, "errno", None) in (errno.ENOENT, errno.ENOTDIR):
        return COULD_NOT if was_listed(error.path) else USAGE
    if type(error) is KlogError:
        return USAGE
    return FOUND if error.kafka_class is not None and not hasattr(error, "errno") else COULD_NOT
