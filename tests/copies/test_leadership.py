"""What a follower truncates, beside a model: logs as lists of the leader epochs in which their records were written."""

from __future__ import annotations

import random
from itertools import groupby

from looped import for_each

from klogtool.copies.leadership import CopyEpochs, LeaderChange, better_leader, truncation_by
from klogtool.format.checkpoints import EpochEntry


def history_of_log(log: list[int]) -> CopyEpochs:
    """The leader epochs of a log, given the epoch of each record."""
    starts, at = [], 0
    for epoch, records in groupby(log):
        starts.append(EpochEntry(epoch, at))
        at += len(list(records))
    return CopyEpochs(tuple(starts), len(log))


def common_prefix(one: list[int], other: list[int]) -> int:
    """Only one leader writes in an epoch: so records at one offset are the same if their epochs are."""
    return next(
        (n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )


def random_logs(rng: random.Random) -> list[list[int]]:
    """The logs of three brokers after elections, clean and unclean, writes and fetches that may stop early."""
    logs: list[list[int]] = [[], [], []]
    for epoch in range(rng.randrange(1, 9)):
        leader = rng.randrange(3)
        logs[leader] += [epoch] * rng.randrange(6)
        for follower in {0, 1, 2} - {leader}:
            if rng.random() < 0.6:
                kept = common_prefix(logs[leader], logs[follower])
                fetched = rng.randint(kept, len(logs[leader]))
                logs[follower] = logs[leader][:fetched]
    return logs


@for_each(range(300), "seed {}".format)
def test_a_follower_keeps_what_both_have_in_common(seed: int) -> None:
    leader, follower, _ = random_logs(random.Random(seed))
    found = truncation_by(history_of_log(leader), history_of_log(follower))
    if not follower:
        assert found is None
        return
    kept = common_prefix(leader, follower)
    assert found == LeaderChange(kept, len(follower) - kept)


def test_it_takes_several_rounds() -> None:
    """KIP-279: the leader does not know the follower's epochs, nor the follower the leader's."""
    leader = CopyEpochs((EpochEntry(1, 0), EpochEntry(3, 10), EpochEntry(5, 20)), 30)
    follower = CopyEpochs((EpochEntry(1, 0), EpochEntry(2, 8), EpochEntry(4, 15)), 40)
    assert truncation_by(leader, follower) == LeaderChange(8, 32)


def test_without_leader_epochs_nobody_knows() -> None:
    assert truncation_by(CopyEpochs((EpochEntry(0, 0),), 10), CopyEpochs((), 10)) is None


def test_the_later_epoch_counts_before_the_higher_end() -> None:
    long, late = CopyEpochs((EpochEntry(3, 0),), 100), CopyEpochs((EpochEntry(3, 0), EpochEntry(4, 10)), 11)
    assert (better_leader(long, late), better_leader(late, long), better_leader(late, late)) == ("b", "a", None)
    assert better_leader(long, CopyEpochs((EpochEntry(3, 0),), 99)) == "a"
