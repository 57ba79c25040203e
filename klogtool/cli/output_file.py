"""Files named by --output, --plan-out, --html and --write-baseline."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from klogtool.disk.facts import check_saving_folder, check_saving_place, not_written
from klogtool.errors import Refused


@contextmanager
def output_file(path: str, *, replaces: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that appears only when it is complete; after an error nothing stays.

    replaces: take the place of an older file; the caller has looked at it. Raises Refused if the file exists otherwise,
    or would be in a log dir or partition dir; Unreadable if it cannot be created or written.
    """
    if replaces:
        check_replaceable(path)
    else:
        check_saving_place(path)
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "xb") as sink:
            yield sink
        if replaces:
            os.replace(part, path)
        else:
            # Publish by a hard link if possible: unlike a rename, it does not replace a file that
            # appeared meanwhile.
            try:
                os.link(part, path)
            except FileExistsError:
                raise
            except OSError:
                os.rename(part, path)
    except FileExistsError:
        raise Refused("a file with that name exists already", path=path) from None
    except OSError as error:
        raise not_written(path, error) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)


def check_replaceable(path: str) -> None:
    """Raises Refused if a file of ours would be in a partition dir or log dir, or in the place of something else than a
    file."""
    check_saving_folder(path)
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        raise Refused("it exists, and is not a plain file", path=path)


@contextmanager
def output_sink(path: str) -> Iterator[BinaryIO]:
    """Open a new file as `output_file` does, or an existing FIFO or device directly."""
    if not _is_sink(path):
        with output_file(path) as sink:
            yield sink
        return
    try:
        with open(path, "wb", buffering=0) as sink:
            yield sink
    except BrokenPipeError:
        raise
    except OSError as error:
        raise not_written(path, error) from error


def _is_sink(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)
