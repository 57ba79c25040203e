"""Runs of equal entries, read fast."""

from __future__ import annotations

import struct
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from klogtool.format.buffers import Buffer


def unpack_entries(unpacker: struct.Struct, data: Buffer) -> Iterator[tuple[Any, ...]]:
    """The fields of each whole entry, in order; bytes after the last whole entry are left out.

    The buffer stays in use until the iterator is exhausted or gone.
    """
    whole = len(data) // unpacker.size * unpacker.size
    return unpacker.iter_unpack(memoryview(data)[:whole])
