"""Kafka and klogtool, both ready to be asked, once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klogtool import kernels

from .kafka import Kafka, Unavailable, prepare
from .ours import Klogtool


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """Kafka's own answers. Where there is no Java or no jar the test is skipped, and says so."""
    try:
        home = prepare()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with Kafka(home) as asked:
        yield asked


@pytest.fixture(scope="session", params=["kernel", "reference"])
def ours(request: pytest.FixtureRequest) -> Iterator[Klogtool]:
    """klogtool in a child process, which starts at the first question; once with each reader."""
    if request.param == "kernel" and not kernels.is_built():
        pytest.skip("needs the extension, which is not built")
    with Klogtool(request.param) as asked:
        yield asked
