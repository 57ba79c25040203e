"""Work in processes: the results of all things, in order, and nothing left behind."""

from __future__ import annotations

import os
import signal

import pytest

from klogtool.errors import Corrupt, KlogError
from klogtool.log.process_pool import in_processes


def squared(n: int) -> tuple[int, int]:
    return n * n, os.getpid()


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_come_in_order(jobs: int) -> None:
    found = list(in_processes(squared, range(100), jobs, weight=lambda n: n % 7))
    assert [result[0] for result in found if not isinstance(result, KlogError)] == [n * n for n in range(100)]
    assert len({result[1] for result in found if not isinstance(result, KlogError)}) == jobs


def refusing(n: int) -> int:
    if n % 2:
        raise Corrupt("odd", path="p", position=n, kafka_class="X")
    return n


def test_errors_about_the_log_are_results() -> None:
    found = list(in_processes(refusing, range(4), 2))
    assert found[::2] == [0, 2]
    error = found[3]
    assert isinstance(error, Corrupt)
    assert (error.reason, error.path, error.position, error.kafka_class) == ("odd", "p", 3, "X")


def failing(n: int) -> int:
    return 1 // n


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that are made from now on; others, such as a JVM, may be this process's children, too."""
    made: list[int] = []
    fork = os.fork

    def told() -> int:
        child = fork()
        made.append(child)
        return child

    monkeypatch.setattr(os, "fork", told)
    return made


def check_all_waited_for(children: list[int]) -> None:
    assert children
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_any_other_error_is_raised_in_its_place(children: list[int]) -> None:
    results = in_processes(failing, (1, 0, 1), 2)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        list(results)
    check_all_waited_for(children)


def large(_: int) -> bytes:
    return bytes(1 << 20)


def test_who_asks_no_further_is_not_waited_for(children: list[int]) -> None:
    results = in_processes(large, range(1000), 3)
    assert next(results) == large(0)
    results.close()  # type: ignore[attr-defined]
    check_all_waited_for(children)


def dying(n: int) -> int:
    if n == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def test_a_process_that_dies_is_told_of() -> None:
    results = in_processes(dying, range(4), 2)
    with pytest.raises(ChildProcessError, match="ended too early"):
        list(results)
