"""zstd for the kernels: they inflate it by libzstd, which is looked for when the first batch needs it."""

from __future__ import annotations

from klogtool import kernels


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
