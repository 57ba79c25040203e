"""zstd for the kernels: they inflate it by libzstd, which is looked for when the first batch needs it."""

from __future__ import annotations

from klogtool import kernels
from klogtool.format.batch import RecordBatch, inflate


class LateZstd:
    """Of one native.Workspace."""

    def __init__(self, work: kernels.native.Workspace) -> None:
        self._work, self._was_tried = work, False

    def learn(self) -> bool:
        """Whether the kernel can inflate more than it could, from now on; once at most."""
        if self._was_tried:
            return False
        self._was_tried = True
        return kernels.learn_zstd(self._work)

    def inflate(self, batch: RecordBatch) -> bytes | None:
        """Return the inflated records of a batch that the kernel could not inflate; None if it can now, because zstd
        was found. Raises Corrupt or Unsupported."""
        return None if batch.codec == "zstd" and self.learn() else inflate(batch)
