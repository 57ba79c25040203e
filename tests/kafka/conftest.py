"""Kafka and klogtool, both ready to be asked, once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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


@pytest.fixture(scope="session")
def ours() -> Iterator[Klogtool]:
    """klogtool in a child process, which starts at the first question."""
    with Klogtool() as asked:
        yield asked
