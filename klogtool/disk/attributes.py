"""What a file has besides its bytes: mode, owner, modification time, extended attributes (ACLs, SELinux labels)."""

from __future__ import annotations

import errno
import os
import stat

from msgspec import Struct
from msgspec.structs import replace

PLAIN_FILE_MODE = 0o644
_NONE_HERE = (errno.ENOTSUP, errno.ENODATA, errno.EPERM, errno.EACCES)  # not supported here, or not permitted for us


class FileAttributes(Struct, frozen=True):
    """Mode and owner are numbers. mtime_ns: None for a file that is written now. owner_matters: it is an error if the
    file cannot be given to its owner."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int | None = None
    extended: tuple[tuple[str, bytes], ...] = ()
    owner_matters: bool = True

    def written_now(self) -> FileAttributes:
        """Return the same values without the time."""
        return replace(self, mtime_ns=None)

    def permitted(self) -> FileAttributes:
        """Return the same values, but with our own user and group if this process may not give a file to its owner."""
        return replace(self, owner_matters=False)


def attributes_of(path: str) -> FileAttributes:
    """Describe an existing file or folder; a symbolic link is followed. Raises OSError."""
    status = os.stat(path)
    return FileAttributes(
        stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns, _attributes(path)
    )


def attributes_of_new_file(folder: str) -> FileAttributes:
    """Describe a new file in `folder`: like the files beside it, else owned by the owner of the folder. A broker has to
    be able to open it.

    Raises OSError if the folder cannot be listed.
    """
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return attributes_of(path).written_now()
    return replace(attributes_of(folder), mode=PLAIN_FILE_MODE, mtime_ns=None, extended=())


def set_attributes(file: int | str, wanted: FileAttributes) -> None:
    """Set mode, owner, attributes and time of an open file or a path. Raises OSError if that is not permitted."""
    status = os.stat(file)
    if (status.st_uid, status.st_gid) != (wanted.uid, wanted.gid):
        try:
            os.chown(file, wanted.uid, wanted.gid)
        except OSError as error:
            if wanted.owner_matters or error.errno not in (errno.EPERM, errno.EINVAL):
                raise
    if stat.S_IMODE(status.st_mode) != wanted.mode or status.st_uid != wanted.uid:
        os.chmod(file, wanted.mode)
    for name, value in set(wanted.extended) - set(_attributes(file)):
        # Set the attribute if the system permits it. A label that only root may set is no reason to fail the
        # write.
        try:
            os.setxattr(file, name, value)
        except OSError as error:
            if error.errno not in _NONE_HERE:
                raise
    if wanted.mtime_ns is not None:
        os.utime(file, ns=(status.st_atime_ns, wanted.mtime_ns))


def _attributes(path: int | str) -> tuple[tuple[str, bytes], ...]:
    if not hasattr(os, "listxattr"):  # macOS: Python does not reach them there
        return ()
    try:
        return tuple((name, os.getxattr(path, name)) for name in os.listxattr(path))
    except OSError as error:
        if error.errno in _NONE_HERE:
            return ()
        raise
