"""Text as Java makes it from bytes and numbers: what kafka-dump-log prints follows these rules, not Python's.

Also suggests a known name for an unknown one.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from difflib import get_close_matches

REPLACEMENT = "\ufffd"


def java_bool(value: bool) -> str:
    """Return a boolean as Java prints it."""
    return "true" if value else "false"


def java_utf8(data: bytes) -> str:
    """The bytes as `new String(bytes, UTF_8)` of Java has them; malformed ones become U+FFFD.

    Java's replacement is not that of Python's `errors="replace"`: an encoded surrogate is one U+FFFD there, three here.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", errors=_JAVA_ERRORS)


def did_you_mean(name: str, known: Iterable[str], *, at_least: float = 0.6) -> str:
    """Return the end of a sentence about an unknown name: the name that was probably meant, or nothing.

    at_least: how similar it must be, from 0 to 1, as difflib measures it.
    """
    meant = near_names(name, known, most=1, at_least=at_least)
    return f" (did you mean {meant[0]}?)" if meant else ""


def near_names(name: str, known: Iterable[str], *, most: int = 3, at_least: float = 0.6) -> list[str]:
    """Return the known names that are similar to a name, whatever their case, the most similar first.

    at_least: see did_you_mean.
    """
    by_lower_case = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_lower_case, n=most, cutoff=at_least)
    return [by_lower_case[one] for one in near]


def _malformed_size(data: bytes, at: int) -> int:
    """How many bytes from `at` on one U+FFFD stands for (java.lang.String.decodeUTF8, malformed3, malformed4)."""
    lead, second = data[at], data[at + 1] if at + 1 < len(data) else 0
    if lead == 0xE0 and second < 0xA0:
        return 1
    if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F):
        return 1
    size = 2 if 0xC2 <= lead <= 0xDF else 3 if 0xE0 <= lead <= 0xEF else 4 if 0xF0 <= lead <= 0xF4 else 1
    for i in range(1, size):
        if at + i >= len(data) or data[at + i] & 0xC0 != 0x80:
            return i
    return size  # complete and still malformed: an encoded surrogate


def _as_java(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return REPLACEMENT, error.start + _malformed_size(error.object, error.start)


_JAVA_ERRORS = "klogtool.java"
codecs.register_error(_JAVA_ERRORS, _as_java)
