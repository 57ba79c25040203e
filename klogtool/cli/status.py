"""Exit statuses, and the status of each error."""

from __future__ import annotations

import errno

from klogtool.errors import Corrupt, KlogError, Refused

DONE, FOUND, USAGE, REFUSED, COULD_NOT, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 4, 130, 141


def status_of(error: KlogError) -> int:
    """Return 1 for damage; 2 for a path that does not exist or a wrong argument; 4 for what cannot be read or is too
    large."""
    if isinstance(error, Refused):
        return REFUSED
    if isinstance(error, Corrupt):
        return FOUND
    if getattr(error, "errno", None) in (errno.ENOENT, errno.ENOTDIR):
        return USAGE
    if type(error) is KlogError:
        return USAGE
    return FOUND if error.kafka_class is not None and not hasattr(error, "errno") else COULD_NOT
