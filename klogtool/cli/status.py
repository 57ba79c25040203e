"""Exit statuses, and which of them an error is."""

from __future__ import annotations

import errno

from klogtool.errors import Corrupt, KlogError, Refused

DONE, FOUND, USAGE, REFUSED, COULD_NOT, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 4, 130, 141


def status_of(error: KlogError) -> int:
    """Damage is 1; no such path, or a word that is no argument, 2; what could not be read, or is too much for us, 4."""
    if isinstance(error, Refused):
        return REFUSED
    if isinstance(error, Corrupt):
        return FOUND
    if getattr(error, "errno", None) in (errno.ENOENT, errno.ENOTDIR):
        return USAGE
    if type(error) is KlogError:
        return USAGE
    return FOUND if error.kafka_class is not None and not hasattr(error, "errno") else COULD_NOT
