"""Wounds of any file: bits flipped, bytes replaced, the end torn off, something written behind the end.

`file` names a file, or a partition dir: then its last segment's `.log`, or that of `segment`. `batch` and `at` choose a
byte: see `wound_places.find_byte`.
"""

from __future__ import annotations

import random

from klogtool.broker.draft import Draft
from klogtool.building.wound_places import bytes_at, find_byte, find_file, put, splice, wrong
from klogtool.errors import KlogError

MOST_NEW_BYTES = 64 << 20  # that one wound writes


def flip_bit(
    draft: Draft,
    file: str,
    *,
    segment: int | None = None,
    batch: int | None = None,
    at: int | None = None,
    bit: int = 0,
) -> None:
    """Flip one bit (0 to 7, 0 is the lowest) of a byte. Without `batch` and `at`: in the middle of the last batch."""
    if not 0 <= bit <= 7:
        raise KlogError(f"a byte has no bit {bit}: it has 0 to 7")
    name, place = _place(draft, file, segment, batch, at)
    splice(draft, name, place, place + 1, (bytes([bytes_at(draft, name, place, 1)[0] ^ 1 << bit]),))


def overwrite(
    draft: Draft,
    file: str,
    *,
    hex: str,
    segment: int | None = None,
    batch: int | None = None,
    at: int | None = None,
) -> None:
    """Write these bytes over others; the file becomes longer if they reach over its end."""
    new = _bytes_of(hex)
    name, place = _place(draft, file, segment, batch, at)
    splice(draft, name, place, place + len(new), (new,))


def insert(
    draft: Draft,
    file: str,
    *,
    hex: str,
    segment: int | None = None,
    batch: int | None = None,
    at: int | None = None,
) -> None:
    """Write these bytes in front of others, which move back."""
    new = _bytes_of(hex)
    name, place = _place(draft, file, segment, batch, at)
    splice(draft, name, place, place, (new,))


def zero_range(
    draft: Draft,
    file: str,
    *,
    size: int,
    segment: int | None = None,
    batch: int | None = None,
    at: int | None = None,
) -> None:
    """Write zeros over `size` bytes, fewer at the end of the file: a block that never reached the disk."""
    name, place = _place(draft, file, segment, batch, at)
    size = _checked(min(size, draft.size(name) - place))
    splice(draft, name, place, place + size, (bytes(size),))


def zero_from(
    draft: Draft, file: str, *, segment: int | None = None, batch: int | None = None, at: int | None = None
) -> None:
    """Write zeros from a byte to the end: the size of the file reached the disk, its data did not."""
    zero_range(draft, file, size=MOST_NEW_BYTES, segment=segment, batch=batch, at=at)


def zero_tail(draft: Draft, file: str, *, size: int = 4096, segment: int | None = None) -> None:
    """Write `size` zeros behind the end, as a preallocated file has them."""
    name = find_file(draft, file, segment)
    splice(draft, name, draft.size(name), draft.size(name), (bytes(_checked(size)),))


def garbage_tail(draft: Draft, file: str, *, size: int = 100, seed: int = 0, segment: int | None = None) -> None:
    """Write `size` random bytes behind the end; the same seed gives the same bytes."""
    name = find_file(draft, file, segment)
    splice(draft, name, draft.size(name), draft.size(name), (random.Random(seed).randbytes(_checked(size)),))


def tear_at(
    draft: Draft, file: str, *, segment: int | None = None, batch: int | None = None, at: int | None = None
) -> None:
    """End the file in front of a byte: a write that was not finished. Without `batch` and `at`: in the middle of the
    last batch."""
    name, place = _place(draft, file, segment, batch, at)
    splice(draft, name, place, draft.size(name), ())


def empty_file(draft: Draft, file: str, *, segment: int | None = None) -> None:
    """Cut a file to 0 bytes."""
    put(draft, find_file(draft, file, segment), b"")


def replace_text(draft: Draft, file: str, *, old: str, new: str) -> None:
    """Replace a text in a text file (`meta.properties`, a checkpoint), wherever it occurs. Raises KlogError if the
    file does not have it."""
    name = find_file(draft, file)
    data = draft.read(name)
    if not old or old.encode() not in data:
        raise wrong(draft, name, f"the file does not contain '{old}'")
    put(draft, name, data.replace(old.encode(), new.encode()))


def _place(draft: Draft, file: str, segment: int | None, batch: int | None, at: int | None) -> tuple[str, int]:
    name = find_file(draft, file, segment)
    return name, find_byte(draft, name, batch, at)


def _bytes_of(hex: str) -> bytes:
    """Return the bytes of a text of hexadecimal digits. Raises KlogError for another text."""
    try:
        return bytes.fromhex(hex)
    except ValueError:
        raise KlogError(f"'{hex[:40]}' is not hexadecimal digits, two for a byte") from None


def _checked(size: int) -> int:
    if not 0 <= size <= MOST_NEW_BYTES:
        raise KlogError(f"a wound writes 0 to {MOST_NEW_BYTES:,} bytes, not {size:,}")
    return size
