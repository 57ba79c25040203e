"""A plugin of pytest, in the copies: it notes which test executes which line, or runs chosen tests within limits.

KLOGTOOL_MUTANTS is the file of an Order. Coverage starts before klogtool is imported, which is why this is `-p`.
"""

from __future__ import annotations

import os
import pathlib
import resource
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import pytest

from mutants.orders import ORDER, Order, Watched

if TYPE_CHECKING:
    from coverage import Coverage

MEMORY = 6 << 30  # bytes; a mutant that grows without end is a failed test, not a machine that stands still

_order = msgspec.json.decode(pathlib.Path(os.environ[ORDER]).read_bytes(), type=Order)
_seconds: dict[str, float] = {}


def _started() -> Coverage | None:
    if not _order.modules:
        return None
    from coverage import Coverage

    coverage = Coverage(data_file=None, include=list(_order.modules), config_file=False)
    coverage.start()
    return coverage


_coverage = _started()


def pytest_configure() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if _order.cpu_seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (_order.cpu_seconds, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.RLIM_INFINITY))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _order.only_tests is not None:
        rank = {name: n for n, name in enumerate(_order.only_tests)}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in rank])
        items[:] = sorted((item for item in items if item.nodeid in rank), key=lambda item: rank[item.nodeid])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if _coverage is not None:
        _coverage.switch_context(item.nodeid)
    start = time.process_time()
    done = yield
    _seconds[item.nodeid] = time.process_time() - start
    if _coverage is not None:
        _coverage.switch_context("")
    return done


def pytest_sessionfinish() -> None:
    if _coverage is None:
        return
    _coverage.stop()
    data = _coverage.get_data()
    tests = {
        path: {line: [name for name in names if name] for line, names in data.contexts_by_lineno(path).items()}
        for path in _order.modules
    }
    pathlib.Path(_order.into).write_bytes(msgspec.json.encode(Watched(_seconds, tests)))
