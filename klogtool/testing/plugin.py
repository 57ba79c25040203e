"""The plugin of pytest. It imports nothing of klogtool until a test asks for the fixture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pathlib

    from klogtool.testing.builder import LogDirBuilder


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> LogDirBuilder:
    """A log dir to be made, in a folder of its own: docs/testing.md of klogtool shows how."""
    from klogtool.testing.builder import LogDirBuilder

    return LogDirBuilder(tmp_path / "log-dir")
