"""How many threads may be of use."""

from __future__ import annotations

import os

from klogtool.log.gentle import pace


def usable_cores() -> int:
    """Cores that this process may run on; all of the machine where the system does not say, as on macOS. One is enough
    for gentle reading."""
    if pace() is not None:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
