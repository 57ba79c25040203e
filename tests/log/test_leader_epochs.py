"""LeaderEpochFileCache: what is taken up, what pushes out what, and where an epoch ended."""

from __future__ import annotations

import pytest

from klogtool.errors import Corrupt
from klogtool.format.checkpoints import EpochEntry
from klogtool.log.leader_epochs import LeaderEpochFileCache


def cache(*entries: tuple[int, int]) -> LeaderEpochFileCache:
    return LeaderEpochFileCache([EpochEntry(*entry) for entry in entries])


def entries(of: LeaderEpochFileCache) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in of.entries]


def test_lines_that_contradict_later_ones_are_gone_after_reading() -> None:
    read = cache((1, 0), (3, 10), (2, 20), (2, 25))
    assert entries(read) == [(1, 0), (2, 20)]
    assert not read.due


@pytest.mark.parametrize(
    ("epoch", "start", "after"),
    [
        (5, 30, [(1, 0), (3, 10), (5, 30)]),
        (3, 12, [(1, 0), (3, 10)]),  # covered
        (3, 8, [(1, 0), (3, 8)]),
        (2, 20, [(1, 0), (2, 20)]),
        (4, 10, [(1, 0), (4, 10)]),
        (9, 0, [(9, 0)]),
    ],
)
def test_assigning(epoch: int, start: int, after: list[tuple[int, int]]) -> None:
    known = cache((1, 0), (3, 10))
    known.assign(epoch, start)
    assert entries(known) == after
    assert known.due == (after != [(1, 0), (3, 10)])


def test_recovery_takes_up_higher_epochs_only() -> None:
    known = cache((3, 10))
    for epoch in (-1, 2, 3):
        known.assign_if_later(epoch, 50)
    assert (entries(known), known.due) == ([(3, 10)], False)
    known.assign_if_later(4, 50)
    assert entries(known) == [(3, 10), (4, 50)]


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (1, -1)])
def test_negative_numbers_are_refused(epoch: int, start: int) -> None:
    with pytest.raises(Corrupt) as refused:
        cache().assign(epoch, start)
    assert refused.value.kafka_class == "IllegalArgumentException"


@pytest.mark.parametrize(
    ("end", "after"), [(21, [(1, 0), (2, 10), (3, 20)]), (20, [(1, 0), (2, 10)]), (5, [(1, 0)]), (0, []), (-1, None)]
)
def test_truncating_from_the_end(end: int, after: list[tuple[int, int]] | None) -> None:
    known = cache((1, 0), (2, 10), (3, 20))
    known.truncate_from_end(end)
    whole = [(1, 0), (2, 10), (3, 20)]
    assert entries(known) == (whole if after is None else after)
    assert known.due == (entries(known) != whole)


@pytest.mark.parametrize(
    ("start", "after"), [(0, [(1, 0), (2, 10)]), (9, [(1, 9), (2, 10)]), (10, [(2, 10)]), (99, [(2, 99)])]
)
def test_truncating_from_the_start_writes_the_file_even_if_it_says_the_same(
    start: int, after: list[tuple[int, int]]
) -> None:
    known = cache((1, 0), (2, 10))
    known.truncate_from_start(start)
    assert (entries(known), known.due) == (after, True)


def test_where_an_epoch_ended() -> None:
    known = cache((1, 5), (3, 10), (5, 20))
    asked = {epoch: known.end_offset_for(epoch, 30) for epoch in (-1, 0, 1, 2, 3, 4, 5, 6)}
    assert asked == {
        -1: (-1, -1),
        0: (0, 5),
        1: (1, 10),
        2: (1, 10),
        3: (3, 20),
        4: (3, 20),
        5: (5, 30),
        6: (-1, -1),
    }
    assert [known.epoch_for_offset(offset) for offset in (4, 5, 9, 10, 25)] == [None, 1, 1, 3, 5]


def test_the_file() -> None:
    known = cache((1, 0), (3, 10))
    assert known.checkpoint() == b"0\n2\n1 0\n3 10\n"
    known.clear()
    assert (known.checkpoint(), known.due, known.latest_epoch) == (b"0\n0\n", True, None)
