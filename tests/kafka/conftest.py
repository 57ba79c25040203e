"""Kafka and klogtool, both ready to be asked, once a session."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest

from klogtool import kernels

from .brokers import a_broker, fetched
from .clusters import a_cluster
from .kafka import Kafka, Unavailable, prepare
from .ours import Klogtool

HERE = pathlib.Path(__file__).resolve().parent


@pytest.hookimpl(tryfirst=True)  # before --sample leaves out what is slow
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What starts a broker is slow: `make test` starts none. What asks other releases than 4.3.1 takes as long again,
    so `make nightly` does: replay and the judge's sample ask them for each change."""
    for item in filter(_starts_brokers, items):
        item.add_marker(pytest.mark.slow)
    if os.environ.get("KLOGTOOL_OTHER_RELEASES") == "1":
        return
    others = [item for item in items if _asks_other_release(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in set(others)]


def _starts_brokers(item: pytest.Item) -> bool:
    """Whether its module has imported what starts them."""
    names = vars(item.module) if isinstance(item, pytest.Function) and item.module.__package__ == __package__ else {}
    return any(value in (a_broker, fetched, a_cluster) for value in names.values() if callable(value))


def _asks_other_release(item: pytest.Item) -> bool:
    _, _, case = item.name.partition("[")
    return item.path.parent == HERE and case.startswith(("3.9.2", "4.4.0"))


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
