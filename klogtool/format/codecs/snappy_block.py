"""Compresses a raw snappy block with the same matches as libsnappy in snappy-java 1.1.10, which Kafka 4.3.1 has.

A block is sound whatever matches it has. With the same matches its bytes are those of a broker, so files can be
compared. Other versions of libsnappy sometimes find other matches: they have another hash, or a table of another size.

This is the reference of kernels/_snappy.pxi: a rule that changes here changes there, too.
"""

from __future__ import annotations

from klogtool.format.varint import build_unsigned

_FRAGMENT_BYTES = 1 << 16  # matches do not reach further
_MARGIN_BYTES = 15  # at the end of a fragment, where no match begins
_MAX_TABLE_BITS, _MIN_TABLE_BITS = 14, 8
_HASH_FACTOR = 0x1E35A7BD
_WORD_MASK = 0xFFFFFFFF
_HASH_SHIFT = 32 - _MAX_TABLE_BITS
_FIRST_SKIP = 32  # after so many places without a match every other one is looked at, and so on
_SHORT_COPY, _NEAR = 12, 1 << 11  # copies shorter and nearer than these take two bytes
_LONGEST_COPY = 64
_SHORT_LITERAL = 60
_LITERAL, _COPY_1, _COPY_2 = 0, 1, 2  # kinds of elements


def compress_block(data: bytes) -> bytes:
    """The block: its inflated size as a varint, then literals and copies (snappy::RawCompress)."""
    out = bytearray(build_unsigned(len(data)))
    for at in range(0, len(data), _FRAGMENT_BYTES):
        _compress_fragment(data[at : at + _FRAGMENT_BYTES], out)
    return bytes(out)


class _MatchTable:
    """The last position of each word of four bytes. Words of the same hash share a place."""

    def __init__(self, data: bytes) -> None:
        bits = min(max((len(data) - 1).bit_length(), _MIN_TABLE_BITS), _MAX_TABLE_BITS)
        self._data, self._mask = data, (1 << bits) - 1
        self._places = [0] * (1 << bits)

    def swap(self, place: int) -> int:
        """Remember a position. Return the one that was remembered for its hash before, or 0."""
        word = int.from_bytes(self._data[place : place + 4], "little")
        n = ((word * _HASH_FACTOR & _WORD_MASK) >> _HASH_SHIFT) & self._mask
        before, self._places[n] = self._places[n], place
        return before


def _compress_fragment(data: bytes, out: bytearray) -> None:
    """CompressFragment."""
    at, limit, table = 0, len(data) - _MARGIN_BYTES, _MatchTable(data)
    while at < limit:
        match = _find_match(data, at + 1, limit, table)
        if match is None:
            break
        place, before = match
        _put_literal(data[at:place], out)
        at = place
        while data[before : before + 4] == data[at : at + 4]:
            size = 4
            while at + size < len(data) and data[before + size] == data[at + size]:
                size += 1
            _put_copy(at - before, size, out)
            at += size
            if at >= limit:
                break
            table.swap(at - 1)
            before = table.swap(at)
    if at < len(data):
        _put_literal(data[at:], out)


def _find_match(data: bytes, at: int, limit: int, table: _MatchTable) -> tuple[int, int] | None:
    """Return the next position whose four bytes were seen before, and where they were."""
    skip = _FIRST_SKIP
    while True:
        step = skip >> 5
        skip += step
        if at + step > limit:
            return None
        before = table.swap(at)
        if data[before : before + 4] == data[at : at + 4]:
            return at, before
        at += step


def _put_literal(data: bytes, out: bytearray) -> None:
    size = len(data) - 1
    if size < _SHORT_LITERAL:
        out.append(size << 2 | _LITERAL)
    else:
        width = (size.bit_length() + 7) // 8
        out.append((_SHORT_LITERAL - 1 + width) << 2 | _LITERAL)
        out += size.to_bytes(width, "little")
    out += data


def _put_copy(distance: int, size: int, out: bytearray) -> None:
    """Write a copy in parts of at most 64 bytes, none of them shorter than four."""
    while size > _LONGEST_COPY:
        part = _LONGEST_COPY if size >= _LONGEST_COPY + 4 else _LONGEST_COPY - 4
        _put_copy_element(distance, part, out)
        size -= part
    _put_copy_element(distance, size, out)


def _put_copy_element(distance: int, size: int, out: bytearray) -> None:
    if size < _SHORT_COPY and distance < _NEAR:
        out.append((distance >> 8) << 5 | (size - 4) << 2 | _COPY_1)
        out.append(distance & 0xFF)
    else:
        out.append((size - 1) << 2 | _COPY_2)
        out += distance.to_bytes(2, "little")
