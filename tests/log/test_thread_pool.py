"""The same work on many pieces, on a few threads: in their order, so many at a time, and no thread stays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from klogtool.errors import Corrupt
from klogtool.log.cores import usable_cores
from klogtool.log.thread_pool import AHEAD, in_order

JOIN_LIMIT_S = 10
JOBS = (1, 2, 3, 8)


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(JOIN_LIMIT_S)
        assert not thread.is_alive(), f"{thread.name} still waits for work"


class Counted:
    """Pieces 0, 1, 2...: how many were taken."""

    def __init__(self, count: int) -> None:
        self.taken, self._count = 0, count

    def __iter__(self) -> Iterator[int]:
        for piece in range(self._count):
            self.taken += 1
            yield piece


def doubling() -> Callable[[int], int]:
    return lambda piece: 2 * piece


@pytest.mark.parametrize("jobs", JOBS)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 100])
def test_every_piece_and_its_result_in_order(count: int, jobs: int) -> None:
    assert list(in_order(doubling, iter(range(count)), jobs)) == [(n, 2 * n) for n in range(count)]


@pytest.mark.parametrize("jobs", [2, 4])
def test_in_order_whoever_is_ready_first(jobs: int) -> None:
    """The first piece is done only when the second is: the threads run at once, the results wait."""
    second_done = threading.Event()

    def work(piece: int) -> int:
        if piece == 0:
            assert second_done.wait(JOIN_LIMIT_S), "the second piece was not begun before the first was done"
        if piece == 1:
            second_done.set()
        return piece

    assert [piece for piece, _ in in_order(lambda: work, iter(range(10)), jobs)] == list(range(10))


def test_each_thread_has_work_of_its_own() -> None:
    users: list[set[int]] = []

    def make_work() -> Callable[[int], int]:
        mine: set[int] = set()
        users.append(mine)

        def work(piece: int) -> int:
            mine.add(threading.get_ident())
            return piece

        return work

    assert len(list(in_order(make_work, iter(range(200)), 3))) == 200
    assert len(users) == 3
    assert all(len(mine) <= 1 for mine in users)
    assert threading.get_ident() not in set().union(*users)


@pytest.mark.parametrize(("count", "jobs"), [(1, 8), (5, 1)])
def test_one_piece_or_one_job_needs_no_thread(count: int, jobs: int) -> None:
    workers = set()
    for _ in in_order(lambda: lambda piece: workers.add(threading.get_ident()), iter(range(count)), jobs):
        pass
    assert workers == {threading.get_ident()}


@pytest.mark.parametrize("jobs", JOBS)
def test_a_few_pieces_are_under_way_however_many_there_are(jobs: int) -> None:
    pieces = Counted(1000)
    for yielded, _ in enumerate(in_order(doubling, iter(pieces), jobs), 1):
        assert pieces.taken - yielded < max(jobs * AHEAD, 2)
    assert pieces.taken == 1000


@pytest.mark.parametrize("jobs", JOBS)
def test_nothing_is_taken_before_it_is_asked_for(jobs: int) -> None:
    pieces = Counted(10)
    results = in_order(doubling, iter(pieces), jobs)
    assert pieces.taken == 0
    next(results)
    assert pieces.taken <= max(jobs * AHEAD, 2)
    results.close()  # type: ignore[attr-defined]


def until_error(results: Iterator[tuple[int, int]]) -> tuple[list[int], BaseException | None]:
    found = []
    try:
        for piece, _ in results:
            found.append(piece)
    except (Corrupt, KeyboardInterrupt, MemoryError) as error:
        return found, error
    return found, None


@pytest.mark.parametrize("jobs", JOBS)
@pytest.mark.parametrize("bad", [0, 1, 5, 19])
def test_an_error_of_the_work_comes_in_its_place(bad: int, jobs: int) -> None:
    wrong = Corrupt("damage")

    def work(piece: int) -> int:
        if piece >= bad:
            raise wrong
        return piece

    assert until_error(in_order(lambda: work, iter(range(20)), jobs)) == (list(range(bad)), wrong)


@pytest.mark.parametrize("jobs", JOBS)
@pytest.mark.parametrize("wrong", [KeyboardInterrupt(), MemoryError()], ids=repr)
def test_any_error_crosses_to_the_one_who_waits(wrong: BaseException, jobs: int) -> None:
    def work(_: int) -> int:
        raise wrong

    assert until_error(in_order(lambda: work, iter(range(20)), jobs)) == ([], wrong)


@pytest.mark.parametrize("jobs", JOBS)
def test_who_stops_early_leaves_no_thread_behind(jobs: int) -> None:
    """See `no_thread_stays`."""
    results = in_order(doubling, iter(range(1000)), jobs)
    for _ in range(3):
        next(results)
    del results


def test_usable_cores() -> None:
    assert usable_cores() >= 1
