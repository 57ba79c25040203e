"""Doubles as Java 17 prints them (Double.toString), which is not always the shortest text that reads back.

Client quotas are the one place where a double appears in a log. Nearly all have the digits that Python gives. Large
ones may have more digits, or other digits: jdk.internal.math.FloatingDecimal uses a rough test for the last one, and
this module repeats it step by step.
"""

from __future__ import annotations

import math
import struct

from klogtool.format.java_numbers import to_signed

EXPONENT_BIAS, FRACTION_BITS = 1023, 52
LARGEST_SMALL_EXPONENT = 62  # integers up to here fit in a long, which has a way of its own
# decimal digits of an integer that lie below the precision of a double, by bits in excess (insignificantDigitsNumber)
INSIGNIFICANT_DIGITS = (0, 0, 0, 0, 1, 1, 1, 2, 2)
POWERS_OF_5_COUNTED = 27  # beyond, the bits of a power of 5 are estimated
INT_BITS, LONG_BITS = 32, 64


def java_double(value: float) -> str:
    """The text of a double: `1.0`, `1.0E10`, `NaN`, `-Infinity`."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return sign + "Infinity"
    digits, exponent = ("0", 1) if value == 0 else _digits(abs(value))
    return sign + _place_point(digits, exponent)


def _place_point(digits: str, exponent: int) -> str:
    """Return the text of 0.`digits` times 10 to the exponent (BinaryToASCIIBuffer.getChars)."""
    if 0 < exponent < 8:
        return f"{digits[:exponent].ljust(exponent, '0')}.{digits[exponent:] or '0'}"
    if -3 < exponent <= 0:
        return f"0.{'0' * -exponent}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _digits(value: float) -> tuple[str, int]:
    """Return the decimal digits, and where the point is, counted from the first one (BinaryToASCIIBuffer.dtoa)."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    exponent, fraction = bits >> FRACTION_BITS, bits & ((1 << FRACTION_BITS) - 1)
    if exponent == 0:  # subnormal: fewer significant bits
        precision = fraction.bit_length()
        exponent = 1 - (FRACTION_BITS + 1 - precision)
        fraction <<= FRACTION_BITS + 1 - precision
    else:
        precision = FRACTION_BITS + 1
        fraction |= 1 << FRACTION_BITS
    exponent -= EXPONENT_BIAS
    if value.is_integer() and exponent <= LARGEST_SMALL_EXPONENT:
        return _digits_of_long(int(value), exponent)
    return _digits_by_division(fraction, exponent, precision)


def _digits_of_long(value: int, exponent: int) -> tuple[str, int]:
    excess = exponent - (FRACTION_BITS + 1) - 1
    dropped = INSIGNIFICANT_DIGITS[excess] if excess > 0 else 0
    if dropped:
        value, rest = divmod(value, 10**dropped)
        value += rest >= 10**dropped // 2
    text = str(value)
    return text.rstrip("0"), len(text) + dropped


def _digits_by_division(fraction: int, exponent: int, precision: int) -> tuple[str, int]:
    """Divide b by s digit by digit, until the remainder is within m (half a unit in the last place)."""
    tail = (fraction & -fraction).bit_length() - 1
    width = FRACTION_BITS + 1 - tail  # bits of the fraction that are not trailing zeros
    tiny = max(0, width - exponent - 1)
    # The floor of the decimal logarithm, or one more (estimateDecExp).
    scaled = fraction / (1 << FRACTION_BITS)
    power = math.floor((scaled - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)
    b5, s5 = max(0, -power), max(0, power)
    b2, s2 = b5 + tiny + exponent, s5 + tiny
    m2 = b2 - precision
    b2 -= width - 1
    common = min(b2, s2)
    b2, s2, m2 = b2 - common, s2 - common, m2 - common
    if width == 1:  # below a power of two, neighbours are half as far away
        m2 -= 1
    if m2 < 0:
        b2, s2, m2 = b2 - m2, s2 - m2, 0
    needed = max(width + b2 + _bits_of_power(b5), s2 + 1 + _bits_of_power(s5 + 1))
    b, s, m = (fraction >> tail) * 5**b5 << b2, 5**s5 << s2, 5**b5 << m2
    return _divide(b, s, m, power, next((bits for bits in (INT_BITS, LONG_BITS) if needed < bits), None))


def _divide(b: int, s: int, m: int, power: int, bits: int | None) -> tuple[str, int]:
    """bits: the width of the integers that Java uses, whose sums may overflow; None: Java uses integers of any size."""
    ten_s = 10 * s
    digits: list[int] = []
    low = high = False
    first = True
    while first or not (low or high):
        digit, rest = divmod(b, s)
        b, m = 10 * rest, 10 * m
        if bits is None:
            low, high = b < m, b + m >= ten_s
        elif m >= 1 << (bits - 1):
            low = high = True
        else:
            low, high = b < m, to_signed(b + m, bits) > ten_s
        if first and digit == 0 and not high:
            power -= 1  # the estimate was one too high
        else:
            digits.append(digit)
        if first and not -3 <= power < 8:
            low = high = False  # with an exponent at least two digits are printed
        first = False
    half = 2 * b - ten_s
    up = high and (not low or half > 0 or (half == 0 and digits[-1] % 2 == 1))
    text = str(int("".join(map(str, digits))) + up).zfill(len(digits))
    # 99 became 100: Java keeps the count of digits.
    return text[: len(digits)], power + 1 + (len(text) > len(digits))


def _bits_of_power(n: int) -> int:
    """Bits of 5 to the n, exactly or as Java estimates them."""
    return (5**n).bit_length() if 0 < n < POWERS_OF_5_COUNTED else 3 * n
