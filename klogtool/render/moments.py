"""Times for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def time_text(ms: int) -> str:
    """Return epoch milliseconds as ISO 8601 in UTC; the number itself if it is outside the calendar."""
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return moment.replace(tzinfo=None).isoformat("T", "milliseconds").removesuffix(".000") + "Z"
