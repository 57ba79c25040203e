"""The text of `klogtool --version`."""

from __future__ import annotations

VERSION = "1.0.0"  # pyproject.toml, the man pages and the name of each release take it from here
KAFKA_VERSION = "4.3.1"


def version_text() -> str:
    """Return the version, the Kafka release that klogtool is compared with, and the reader in use."""
    return f"klogtool {VERSION} (as Kafka {KAFKA_VERSION}; {reader_text()})"


def reader_text() -> str:
    """Return the reader in use: the kernels, and how they compute CRC-32C, or the reference reader."""
    ways = crc_ways()
    return f"kernels; CRC-32C by {ways[-1]}" if ways else "reference reader: kernels not built"


def crc_ways() -> tuple[str, ...]:
    """Return the ways in which the kernels can compute CRC-32C here, the fastest last; none if they are not built."""
    from klogtool import kernels  # with every layout and codec: what only shows help needs none of it

    return tuple(kernels.native.crc32c_ways()) if kernels.is_built() else ()
