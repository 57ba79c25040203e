"""Numbers of things, for people."""

from __future__ import annotations


def count_text(number: int, noun: str, many: str | None = None) -> str:
    """Return `1 segment` or `2,000 segments`. many: the plural, if it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def offsets_text(first: int, last: int) -> str:
    """Return `offset 7` or `offsets 7 to 1,000`."""
    return f"offset {first:,}" if first == last else f"offsets {first:,} to {last:,}"
