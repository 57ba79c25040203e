"""Which log dirs some files belong to: for tools that know only which files changed."""

from __future__ import annotations

import os
from collections.abc import Iterable

from klogtool.log.folder import names_in
from klogtool.log.logdir import has_root_files
from klogtool.log.partition import has_partition_files


def log_dirs_around(paths: Iterable[str]) -> list[str]:
    """Return the log dirs that contain these files, each once; for a file of a partition dir that is in no log dir, the
    partition dir.

    Other files are left out, and so are files whose folder is gone. Raises Unreadable for a folder that cannot be
    listed.
    """
    folders = dict.fromkeys(path if os.path.isdir(path) else os.path.dirname(path) or os.curdir for path in paths)
    return list(dict.fromkeys(found for folder in folders if (found := _around(folder)) is not None))


def _around(folder: str) -> str | None:
    if not os.path.isdir(folder):
        return None
    names = names_in(folder)
    if has_root_files(names):
        return folder
    if not has_partition_files(names):
        return None
    above = os.path.normpath(os.path.join(folder, os.pardir))
    return above if has_root_files(names_in(above)) else folder
