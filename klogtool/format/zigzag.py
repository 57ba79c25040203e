"""Numbers of Java's sizes, and zig-zag in base 128: what needs no construct to read it (see `format.varint`)."""

from __future__ import annotations


def to_signed(value: int, bits: int) -> int:
    """The value as a Java int (32 bits) or long (64 bits): wrapped around, two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def zigzag_size(value: int) -> int:
    """Bytes that a signed value takes as varint or varlong (ByteUtils.sizeOfVarint, sizeOfVarlong)."""
    return max(1, -(-((value << 1) ^ (value >> 63)).bit_length() // 7))


def build_zigzag(value: int) -> bytes:
    """A signed value as varint or varlong (both have the same bytes)."""
    return build_unsigned((value << 1) ^ (value >> 63))


def build_unsigned(value: int) -> bytes:
    """An unsigned value in base 128."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
