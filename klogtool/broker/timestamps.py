"""The unit of timestamps, guessed by their size, and times and durations as text. Retention keeps segments whose
timestamps are not in milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

LARGEST_MS, LARGEST_US = 10**14, 10**17  # the year 5138, in ms and in us

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


def unit_of(timestamp: int) -> str:
    """Return milliseconds, or microseconds or nanoseconds if the timestamp would otherwise be too far in the future."""
    if timestamp <= LARGEST_MS:
        return "milliseconds"
    return "microseconds" if timestamp <= LARGEST_US else "nanoseconds"


def is_in_seconds(timestamp: int, now_ms: int) -> bool:
    """Return whether a timestamp is a time in seconds, as its size shows: from 2001 to now. In milliseconds it is of
    January 1970, so retention finds it too old at once."""
    return 10**12 <= timestamp * 1000 <= now_ms


def in_milliseconds(timestamp: int) -> int:
    """Return the timestamp in milliseconds, from the unit that its size suggests."""
    return timestamp // {"milliseconds": 1, "microseconds": 1000, "nanoseconds": 1_000_000}[unit_of(timestamp)]


def time_text(ms: int) -> str:
    """Return epoch milliseconds as ISO 8601 in UTC; the number itself if it is outside the calendar."""
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return moment.replace(tzinfo=None).isoformat("T", "milliseconds").removesuffix(".000") + "Z"


def duration_text(ms: int) -> str:
    """Return a duration in its two largest units: `3 d 8 h`, `250 ms`."""
    parts: list[tuple[int, str]] = []
    for unit, size in _UNITS:
        count, ms = divmod(ms, size)
        if count or parts:
            parts.append((count, unit))
        if len(parts) == 2:
            break
    return " ".join(f"{count:,} {unit}" for count, unit in parts if count) or "0 ms"
