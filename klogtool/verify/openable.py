"""Whether a broker's user may open, write or make a file, as its owner, its mode and its kind tell.

Who runs klogtool may be somebody else, such as root. A broker writes its checkpoints anew each minute: the user that
owns most of them counts as its user, or the owner of the log dir.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterable

from klogtool.format.names import FileKind
from klogtool.log.file import Unreadable
from klogtool.log.folder import is_device, is_full_device, is_socket, names_in, why_leads_nowhere
from klogtool.verify.stops import Stop, offline

_READ = (stat.S_IRUSR, stat.S_IRGRP | stat.S_IROTH)
_WRITE = (stat.S_IWUSR, stat.S_IWGRP | stat.S_IWOTH)
_WRITTEN_ANEW = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
    FileKind.CLEAN_SHUTDOWN,
)


def may_read(path: str, log_dir: str) -> bool:
    """Return whether the broker's user may read a file or a folder, as far as owner and mode tell."""
    return _may(path, log_dir, *_READ)


def may_write(path: str, log_dir: str) -> bool:
    """Return whether the broker's user may write a file or into a folder, as far as owner and mode tell."""
    return _may(path, log_dir, *_WRITE)


def find_unreadable(folder: str, log_dir: str) -> str | None:
    """Return the path of the first file of a partition dir that the broker's user may not read, whatever its name is: a
    start looks at all of them (LogLoader). None if there is none, or if nobody can list the folder."""
    try:
        files = [os.path.join(folder, name) for name in sorted(names_in(folder))]
    except Unreadable:
        return None
    return next((file for file in files if os.path.isfile(file) and not may_read(file, log_dir)), None)


def find_unwritten(files: Iterable[str], log_dir: str) -> str | None:
    """Return the first of these files and folders that the broker's user may not write; None if it may write all."""
    return next((file for file in files if not may_write(file, log_dir)), None)


def why_not_made(file: str) -> Stop | None:
    """Return what a broker logs where it makes a new file over something that is none; None if it can, or waits for
    ever, as at a FIFO."""
    if os.path.isdir(file) or is_socket(file) or why_leads_nowhere(file) is not None:
        return offline("FileNotFoundException", f"{file} ({why_not_opened(file)})")
    if not is_device(file):
        return None
    if is_full_device(file):
        return offline("IOException", os.strerror(errno.ENOSPC))
    return offline("SyncFailedException", "sync failed")


def why_not_opened(file: str) -> str:
    """Return what the system says where a folder, a socket, or a link that leads nowhere is opened as a file."""
    if os.path.isdir(file):
        return os.strerror(errno.EISDIR)
    return os.strerror(errno.ENXIO) if is_socket(file) else why_leads_nowhere(file) or os.strerror(errno.ENOENT)


def _may(path: str, log_dir: str, owners: int, others: int) -> bool:
    try:
        status, user = os.stat(path), _user_of(log_dir)
    except OSError:  # it went away
        return True
    # Which groups the user is in is not known: what the group may do, it may.
    return user == 0 or bool(status.st_mode & (others | (owners if status.st_uid == user else 0)))


def _user_of(log_dir: str) -> int:
    """Return the user that the broker runs as: it writes these files anew again and again, so it owns most of them.
    Somebody may have edited one of them as root."""
    paths = [os.path.join(log_dir, kind.value) for kind in _WRITTEN_ANEW]
    owners = Counter(os.stat(path).st_uid for path in paths if os.path.exists(path))
    return owners.most_common(1)[0][0] if owners else os.stat(log_dir).st_uid
