"""What `klogtool --version` says."""

from __future__ import annotations

from klogtool import kernels

VERSION = "0.1.0"  # for pyproject.toml, too: to ask the installed package takes longer than a small dump
KAFKA_VERSION = "4.3.1"


def version_text() -> str:
    """Version, the Kafka that answers are held against, and which reader runs."""
    return f"klogtool {VERSION} (as Kafka {KAFKA_VERSION}; {reader_text()})"


def reader_text() -> str:
    """Which reader runs: the kernels, and how they compute CRC-32C, or the reference."""
    if not kernels.is_built():
        return "reference reader: kernels not built"
    return f"kernels; CRC-32C by {kernels.native.crc32c_ways()[-1]}"
