"""Reading again where files go away meanwhile: a running broker rolls, cleans and deletes all the time.

What was read of a partition before is of a log that is no more, so all of it is read anew.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from klogtool.errors import Changed, KlogError
from klogtool.log.file import Unreadable

Result = TypeVar("Result")
TRIES = 3


def has_changed(error: KlogError) -> bool:
    """Return whether a file went away between the listing and the opening, or became shorter while it was read."""
    return isinstance(error, Changed) or (isinstance(error, Unreadable) and error.errno == errno.ENOENT)


def read_again(read: Callable[[], Result]) -> Result:
    """Return what `read` returns; call it anew if a file has changed. Raises its error if that happens each time."""
    for _ in range(TRIES - 1):
        try:
            return read()
        except KlogError as error:
            if not has_changed(error):
                raise
    return read()
