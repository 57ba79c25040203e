"""The extension, or a skip by name where it was not built."""

from __future__ import annotations

from typing import Any

import pytest

from klogtool import kernels


@pytest.fixture
def native() -> Any:
    if not kernels.is_built():
        pytest.skip("needs the extension, which is not built")
    return kernels.native
