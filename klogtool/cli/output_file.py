"""Files named by --output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from klogtool.errors import KlogError, Refused


@contextmanager
def output_file(path: str) -> Iterator[BinaryIO]:
    """A new file, there only when all of it is: what was written of it goes if anything goes wrong.

    Raises Refused if there is a file of that name, KlogError where none can be made.
    """
    if os.path.lexists(path):
        raise Refused("there is a file of that name already", path=path)
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "xb") as sink:
            yield sink
        _publish(part, path)
    except FileExistsError:
        raise Refused("there is a file of that name already", path=path) from None
    except OSError as error:
        raise KlogError(f"cannot be written: {(error.strerror or str(error)).lower()}", path=path) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)


def _publish(part: str, path: str) -> None:
    """By a hard link where there are such: unlike a rename, it does not replace what has appeared there meanwhile."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:
        os.rename(part, path)
