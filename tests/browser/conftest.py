"""Tests that open a page in Chromium. Where it or axe-core is missing, they are left out; tests/conftest.py says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .chromium import Chromium, missing

collect_ignore_glob = ["test_*.py"] if missing() else []


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """One browser for all tests."""
    browser = Chromium()
    yield browser
    browser.close()
