"""The clock. Decisions never ask it: what time it is is told to them by who was called without a time."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
