"""Makes a folder as its draft is, without a journal: nothing can be undone. For log dirs that are test data.

Changed files are written beside their place and renamed, so that a hard link elsewhere keeps its bytes.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress

from klogtool.broker.draft import Draft
from klogtool.disk.attributes import FileAttributes, attributes_of, attributes_of_new_file
from klogtool.disk.causes import OutputRefusal
from klogtool.disk.disk import Disk
from klogtool.disk.lock import locked
from klogtool.errors import Refused
from klogtool.format.names import FileKind
from klogtool.log.file import unreadable
from klogtool.log.log_dirs import has_lock, log_dirs_naming

_PART = ".klogtool-part"


def write_without_journal(draft: Draft) -> None:
    """Write, replace and delete what the draft has changed. Raises LogDirInUse if a broker has the log dir, KlogError
    if the system refuses."""
    if FileKind.LOCK.value in draft.changed():
        raise Refused(OutputRefusal.LOCK(), path=os.path.join(draft.path, FileKind.LOCK.value))
    disk = Disk()
    with ExitStack() as held:
        try:
            own = os.path.realpath(draft.path)
            for folder in sorted({*log_dirs_naming(draft.path), *([own] if has_lock(own) else [])}):
                held.enter_context(locked(disk, folder))
            _settle(disk, draft)
        except OSError as error:
            raise unreadable(error.filename or draft.path, error) from error


def _settle(disk: Disk, draft: Draft) -> None:
    """Write all new files beside their places first, because their bytes may come from files that go."""
    written, gone = [], []
    try:
        for name in sorted(draft.changed()):
            path, file = os.path.join(draft.path, name), draft.files.get(name)
            if file is None:
                gone.append(path)
                continue
            _make_folders(disk, os.path.dirname(path))
            disk.write(path + _PART, file.content, _like(path, file.mtime_ns))
            written.append(path)
        while written:
            disk.rename(written[-1] + _PART, written[-1])
            written.pop()
    finally:
        for path in written:
            with suppress(OSError):
                disk.delete(path + _PART)
    for path in gone:
        disk.delete(path)


def _like(path: str, mtime_ns: int | None) -> FileAttributes:
    """Return mode, owner and time for a file: those of the file that it replaces, if there is one."""
    if mtime_ns is not None and os.path.exists(path):
        return attributes_of(path).permitted()
    return attributes_of_new_file(os.path.dirname(path)).permitted()


def _make_folders(disk: Disk, folder: str) -> None:
    if os.path.isdir(folder):
        return
    _make_folders(disk, os.path.dirname(folder))
    disk.mkdir(folder)
    disk.describe(folder, attributes_of(os.path.dirname(folder)).written_now().permitted())
