"""The clock. Decisions never read it: their callers pass the time."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
