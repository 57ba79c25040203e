"""Memory for Arrow's buffers, reused when no array holds it any more.

Touching fresh pages costs several times as much as copying into warm ones, and a reader that streams record batches
would otherwise ask the system for a gigabyte of fresh pages a second. The blocks are mapped and do not come from
pyarrow's allocator: that one uses huge pages, and a column of a few bytes a row fills only a small part of one.
"""

from __future__ import annotations

import mmap
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MOST_KEPT_BYTES = 1 << 25
LEAST_BYTES = 1 << 12


class Blocks:
    """Blocks of memory to fill. Safe for any thread: every step is a single operation on a list or a dict."""

    def __init__(self) -> None:
        import pyarrow

        self._pyarrow = pyarrow
        self._free: dict[int, list[memoryview]] = {}
        self._lent: dict[int, tuple[weakref.ref[memoryview], memoryview]] = {}

    def take(self, size: int) -> memoryview:
        """Return a block of `size` bytes, aligned to 64, with arbitrary content. The caller ends with `give_back` or
        `freeze`."""
        try:
            return self._free[size].pop()
        except (KeyError, IndexError):
            return memoryview(mmap.mmap(-1, size or 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:size]

    @property
    def free_bytes(self) -> int:
        """Bytes of the blocks that wait to be reused."""
        return sum(size * len(blocks) for size, blocks in list(self._free.items()))

    def give_back(self, block: memoryview) -> None:
        """Take back a block that nobody reads any more."""
        _keep(self._free, block)

    def freeze(self, block: memoryview, used: int) -> pa.Buffer:
        """Return the first `used` bytes as a buffer. Few bytes are copied, so that the large block is not held."""
        room = 1 << max(used - 1, LEAST_BYTES - 1).bit_length()
        if room <= len(block) // 4:
            copied = self.take(room)
            copied[:used] = block[:used]
            self.give_back(block)
            block = copied
        return self._lend(block, block[:used])

    def _lend(self, block: memoryview, part: memoryview) -> pa.Buffer:
        free, lent = self._free, self._lent  # not self: without a cycle, Blocks is freed with its last reader

        def taken_back(reference: weakref.ref[memoryview]) -> None:
            _keep(free, lent.pop(id(reference))[1])

        reference = weakref.ref(part, taken_back)
        lent[id(reference)] = reference, block
        return self._pyarrow.py_buffer(part)  # holds `part` until the last array over it is gone


def _keep(free: dict[int, list[memoryview]], block: memoryview) -> None:
    if len(block) <= MOST_KEPT_BYTES:
        free.setdefault(len(block), []).append(block)
