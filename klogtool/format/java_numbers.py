"""Numbers as Java parses them, and as Java's arithmetic computes them.

Kafka parses file names, checkpoint files and properties with Long.parseLong or Integer.parseInt. They accept other
texts than Python's int(): digits of any script, but no blanks and no underscores.
"""

from __future__ import annotations

import unicodedata

from klogtool.errors import Corrupt

INT_BITS = 32
LONG_BITS = 64
MAX_SHORT = (1 << 15) - 1
MAX_INT = (1 << (INT_BITS - 1)) - 1
MAX_LONG = (1 << (LONG_BITS - 1)) - 1
_LAST_OF_BASIC_PLANE = "\uffff"
_PLAIN_DIGITS = 20  # those of an offset in a file's name


def parse_java_long(text: str) -> int:
    """java.lang.Long.parseLong: an optional sign, then decimal digits only.

    Raises Corrupt with the class and the words of Java 17's NumberFormatException.
    """
    return _parse(text, LONG_BITS)


def parse_java_int(text: str) -> int:
    """java.lang.Integer.parseInt, as `parse_java_long`."""
    return _parse(text, INT_BITS)


def to_signed(number: int, bits: int) -> int:
    """The number as a Java int (32 bits) or long (64 bits): wrapped around, two's complement."""
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


def wrap_int(number: int) -> int:
    """Return the result of Java's 32-bit arithmetic, which may overflow."""
    return to_signed(number, INT_BITS)


def wrap_long(number: int) -> int:
    """Return the result of Java's 64-bit arithmetic, which may overflow."""
    return to_signed(number, LONG_BITS)


def _parse(text: str, bits: int) -> int:
    if len(text) <= _PLAIN_DIGITS and text.isascii() and text.isdigit() and (plain := int(text)) < 1 << (bits - 1):
        return plain  # the usual case; all others digit by digit, because Java and Python accept different ones
    # Java looks at UTF-16 units: digits beyond the basic plane are two units, and neither is a digit.
    digits = [unicodedata.decimal(one, None) if one <= _LAST_OF_BASIC_PLANE else None for one in text.lstrip("+-")]
    number, is_signed = 0, text[:1] in ("+", "-")
    if not digits or None in digits or len(text) - len(digits) > is_signed:
        raise _number_format(text)
    for digit in digits:
        number = min(number * 10 + (digit or 0), 1 << bits)  # a number above all others stays one
    number = -number if text.startswith("-") else number
    if number != to_signed(number, bits):
        raise _number_format(text)
    return number


def _number_format(text: str) -> Corrupt:
    return Corrupt(f'For input string: "{text}"', kafka_class="NumberFormatException")
