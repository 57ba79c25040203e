"""Output that grows piece by piece, up to a limit."""

from __future__ import annotations

import io

from klogtool.errors import AboveLimit


class Inflated:
    """Collects the output of a stream. room: how many more bytes it may have."""

    def __init__(self, limit: int) -> None:
        self.room = limit
        self._limit = limit
        # BytesIO hands out its own buffer at the end, where joining the pieces would hold everything twice.
        self._out = io.BytesIO()

    def add(self, chunk: bytes | memoryview) -> None:
        """Append a piece. Raises AboveLimit if there is no room for it."""
        if len(chunk) > self.room:
            raise self.too_much()
        self.room -= len(chunk)
        self._out.write(chunk)

    def too_much(self) -> AboveLimit:
        """The error for a stream that does not end within the limit."""
        return AboveLimit(f"inflates to more than {self._limit} bytes")

    def size(self) -> int:
        """Bytes collected so far."""
        return self._limit - self.room

    def to_bytes(self) -> bytes:
        """All pieces, one after the other."""
        return self._out.getvalue()
