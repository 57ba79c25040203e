"""Numbers and times as users type them, on a command line or in Python."""

from __future__ import annotations

import operator
import re
from datetime import UTC, datetime
from typing import TypeAlias

from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_numbers import parse_java_long

Moment: TypeAlias = int | str | datetime  # epoch ms, ISO 8601, or Python's own


_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}{end}": 1 << 10 * n for n, letter in enumerate("KMGTP", 1) for end in ("", "iB")}
_UNITS |= {f"{letter}B": 1000**n for n, letter in enumerate("KMGTP", 1)} | {"kB": 1000}
_DIGITS = frozenset("0123456789")


def parse_number(text: str) -> int:
    """Parse a number of 64 bits; digits may be grouped by three, as klogtool prints them: 1,783. Raises Corrupt for
    anything else."""
    return parse_java_long(ungrouped(text))


def ungrouped(text: str) -> str:
    """Return the text without the commas that group digits by three; any other text unchanged."""
    sign = text[:1] if text[:1] in ("-", "+") else ""
    first, *groups = text[len(sign) :].split(",")
    is_grouped = 1 <= len(first) <= 3 and all(len(group) == 3 for group in groups)
    if groups and is_grouped and _DIGITS.issuperset(first + "".join(groups)):
        return sign + first + "".join(groups)
    return text


def parse_size(text: str) -> int:
    """Return the bytes of a size with an optional unit: 50GiB, 1.5T, 10GB, 1,024. Raises ValueError for anything
    else."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]{1,9})?) ?([A-Za-z]*)", ungrouped(text.strip()))
    if not match or match[2] not in _UNITS or len(match[1]) > 24:
        raise ValueError(f"'{text}' is not a size: give a number and a unit, such as 50GiB (2**30) or 50GB (10**9).")
    whole, _, part = match[1].partition(".")
    size: int = int(whole + part) * _UNITS[match[2]] // 10 ** len(part)
    return size


def whole_number(name: str, value: object) -> int:
    """Return an argument as an int. Raises TypeError that names the argument."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} has to be a whole number, not {value!r}") from None


def parse_moment(moment: Moment) -> int:
    """Return epoch milliseconds for a number, an ISO 8601 text, or a datetime; UTC is the default zone.

    Raises KlogError for any other text.
    """
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        try:
            return parse_number(moment)
        except Corrupt:
            pass
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise KlogError(f"'{moment}' is neither epoch milliseconds nor ISO 8601") from None
    if not isinstance(moment, datetime):
        raise TypeError(f"a time has to be epoch milliseconds, ISO 8601 or a datetime, not {moment!r}")
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.fromtimestamp(0, UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
