"""Tests that open a page in Chromium. They are left out, by name, where Chromium or axe-core is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .chromium import Chromium, missing

MISSING = missing()
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_report_header() -> str:
    """Which tests there will not be."""
    return f"tests/browser is left out: no {' and no '.join(MISSING)} (make test-page)" if MISSING else ""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """One browser for all tests."""
    browser = Chromium()
    yield browser
    browser.close()
