"""The hot loops, compiled; each equals its counterpart in format/.

`native` is the extension, or None where it was not built: then the reference reader does all of it, and whoever talks
to the user says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def _extension() -> Any:
    try:
        return importlib.import_module("klogtool.kernels._native")
    except ImportError:
        return None


native: Any = _extension()


def whole_frames() -> Callable[[memoryview, int], tuple[int, int]]:
    """format.framing.whole_frames, the fastest there is."""
    if native is not None:
        found: Callable[[memoryview, int], tuple[int, int]] = native.whole_frames
        return found
    from klogtool.format import framing

    return framing.whole_frames
