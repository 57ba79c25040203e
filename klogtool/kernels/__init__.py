"""The hot loops, compiled; each equals its counterpart in format/.

`native` is the extension, or None where it was not built: then the reference reader does all of it, and whoever talks
to the user says so.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from klogtool.format.buffers import Buffer


def _extension() -> Any:
    try:
        from klogtool.kernels import _native  # type: ignore[attr-defined]
    except ImportError:
        return None
    return _native


native: Any = _extension()


def whole_frames() -> Callable[[memoryview, int], tuple[int, int]]:
    """format.framing.whole_frames, the fastest there is."""
    if native is not None:
        found: Callable[[memoryview, int], tuple[int, int]] = native.whole_frames
        return found
    from klogtool.format import framing

    return framing.whole_frames


def crc32c(data: Buffer, so_far: int = 0) -> int:
    """format.checksums.crc32c, the fastest there is."""
    if native is not None:
        found: int = native.crc32c(data, so_far)
        return found
    from klogtool.format import checksums

    return checksums.crc32c(data, so_far)


def learn_zstd(work: Any) -> bool:
    """Tell a native.Workspace where libzstd is; False if that cannot be found out."""
    from klogtool.format.codecs import zstd

    functions = zstd.find_functions()
    if functions is not None:
        work.use_zstd(*functions)
    return functions is not None


def learn_lz4(cleaner: Any) -> None:
    """Tell a native.BatchCleaner where liblz4 is, if that can be found out."""
    from klogtool.format.codecs import lz4

    functions = lz4.find_functions()
    if functions is not None:
        cleaner.use_lz4(*functions, lz4.build_header())


def compress(codec: str, data: bytes, *, magic: int) -> bytes:
    """format.codecs.compress at its default level, the fastest there is: no package makes the snappy of Kafka's."""
    if codec == "snappy" and native is not None:
        compressed: bytes = native.compress_snappy(data)
        return compressed
    from klogtool.format import codecs

    return codecs.compress(codec, data, magic=magic)
