"""The text of `klogtool --version`."""

from __future__ import annotations

from klogtool import kernels

VERSION = "0.1.0"  # also for pyproject.toml
KAFKA_VERSION = "4.3.1"


def version_text() -> str:
    """Return the version, the Kafka release that klogtool is compared with, and the reader in use."""
    return f"klogtool {VERSION} (as Kafka {KAFKA_VERSION}; {reader_text()})"


def reader_text() -> str:
    """Return the reader in use: the kernels, and how they compute CRC-32C, or the reference reader."""
    if not kernels.is_built():
        return "reference reader: kernels not built"
    return f"kernels; CRC-32C by {kernels.native.crc32c_ways()[-1]}"
