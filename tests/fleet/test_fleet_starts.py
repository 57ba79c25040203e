"""The starts of a fleet's plan, on a model of the controller. After all brokers have died, it takes brokers out of the
ISR one after another. The last one stays, whichever it is, and leads as soon as it runs. With the feature of eligible
leader replicas it is the last leader, and leads although it was killed. Brokers start wave by wave, and after each wave
the elections run. Whoever leads, the best copy is not cut.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from test_fleet_model import NODES, TOPIC_ID, Cluster, facts_of

from klogtool.fleet import histories
from klogtool.fleet.choosing import Choice
from klogtool.fleet.collected import (
    BrokerFacts,
    Collected,
    CopyFacts,
    Epoch,
    LogDirFacts,
    MetadataFacts,
    PartitionFacts,
    TopicFacts,
)
from klogtool.fleet.histories import _is_of_same_leaders, brokers_cut
from klogtool.fleet.planning import ELR, UNCLEAN_ELECTIONS, FleetPlan, make_fleet_plan, needs_election
from klogtool.render.words import words

FLEETS = 300
PARTITIONS = 3


def partition_after_disaster(chance: random.Random, partition: int) -> tuple[Cluster, PartitionFacts]:
    """A partition of the model, with its replicas in any order and any of them in sync."""
    cluster = Cluster(random.Random(chance.random()), unclean=chance.random() < 0.3)
    for _ in range(chance.randint(5, 60)):
        cluster.step()
    cluster.disaster()
    replicas = tuple(chance.sample(NODES, len(NODES)))
    isr = tuple(sorted(cluster.isr if chance.random() < 0.5 else chance.sample(NODES, chance.randint(1, 3))))
    return cluster, PartitionFacts("t", TOPIC_ID, partition, replicas, isr, (), cluster.leader or -1, cluster.epoch)


def a_fleet(seed: int) -> tuple[FleetPlan, dict[int, tuple[int, ...]]]:
    """The plan for three brokers with three partitions, and who may lead each partition: the ISR, or any broker."""
    chance = random.Random(seed)
    made = [partition_after_disaster(chance, partition) for partition in range(PARTITIONS)]
    known = tuple(facts for _, facts in made)
    features, is_open = {ELR: chance.randint(0, 1)}, chance.random() < 0.2
    files = []
    for node in NODES:
        copies = [
            replace(facts_of(cluster.replicas[node]), partition=facts.partition, folder=f"t-{facts.partition}")
            for cluster, facts in made
            if node in cluster.replicas
        ]
        log_dirs = (LogDirFacts("/d", node, "c", is_clean=chance.random() < 0.5),)
        broker = BrokerFacts(1, node, "c", log_dirs, MetadataFacts("/d", 100, features))
        topics = (TopicFacts("t", TOPIC_ID, {UNCLEAN_ELECTIONS: "true" if is_open else "false"}),)
        files.append(Collected(broker, topics, known, tuple(copies)))
    return make_fleet_plan(files), {facts.partition: NODES if is_open else facts.isr for facts in known}


def copy_of(choice: Choice, node: int) -> CopyFacts | None:
    """What a broker has when it starts: the best copy where it was brought by hand, and others cut by `fleet apply` and
    at their damage."""
    assert choice.best is not None
    for share in choice.shares:
        copy = share.placed.copy
        if share.placed.node_id == node and share.action in ("lead", "replace"):
            return choice.best.copy
        if share.placed.node_id == node:
            cut = share.to if share.action == "truncate" else None
            end = min(offset for offset in (copy.log_end_offset, copy.sound_end_offset, cut) if offset is not None)
            return replace(copy, log_end_offset=end)
    return None


def leader_after(choice: Choice, waves: Sequence[Sequence[int]], last: int) -> tuple[int | None, int]:
    """Who is elected first, and in which wave. last: the broker that stays in the ISR."""
    running: set[int] = set()
    for n, wave in enumerate(waves):
        running |= set(wave)
        if last in running:
            return last, n
        if needs_election(choice):
            elected = next((node for node in choice.replicas if node in running), None)
            if elected is not None:
                return elected, n
    return None, len(waves)


def is_by_hand(choice: Choice, node: int) -> bool:
    """Whether the plan says that the copy of this broker must be brought first, or that it has none."""
    has_share = any(share.placed.node_id == node for share in choice.shares)
    return not has_share and any(words(problem).startswith(f"broker {node} has no copy") for problem in choice.problems)


def hurts_the_best(choice: Choice, leader: int) -> bool:
    """Whether the best copy is cut if this broker leads."""
    assert choice.best is not None
    copy = copy_of(choice, leader)
    best = choice.best.copy
    return copy is None or brokers_cut(best, copy, is_clean=False) < best.log_end_offset


def test_no_start_of_a_plan_cuts_the_best_copy() -> None:
    elected = 0
    for seed in range(FLEETS):
        plan, may_lead = a_fleet(seed)
        for choice in plan.choices:
            if choice.best is None:
                continue
            for last in may_lead[choice.partition]:
                leader, _ = leader_after(choice, plan.fleet.waves, last)
                assert leader is not None
                told = f"seed {seed}, t-{choice.partition}, {last} stays in the ISR: {leader} leads"
                assert is_by_hand(choice, leader) or not hurts_the_best(choice, leader), told
                elected += leader != last
    assert elected, "the model makes no fleets that need an election"


def test_the_best_broker_has_a_leader_as_soon_as_it_runs() -> None:
    """So that what `kafka-topics --describe` must show comes true, and no later wave is waited for."""
    for seed in range(FLEETS):
        plan, may_lead = a_fleet(seed)
        starts = {node: n for n, wave in enumerate(plan.fleet.waves) for node in wave}
        for choice in plan.choices:
            if choice.leader is None or not needs_election(choice):
                continue
            for last in may_lead[choice.partition]:
                assert leader_after(choice, plan.fleet.waves, last)[1] <= starts[choice.leader], f"seed {seed}"


@pytest.mark.parametrize("last", [1, 2])
def test_the_order_of_starts_alone_would_not_do(last: int) -> None:
    """Both are in sync, and 2 lost its end: if 2 is the last in the ISR, 1 leads by an unclean election only."""
    copies = {
        node: replace(facts_of(Cluster(random.Random(0), unclean=False).replicas[1]), log_end_offset=end)
        for node, end in ((1, 20), (2, 8))
    }
    known = PartitionFacts("t", TOPIC_ID, 0, (1, 2), (1, 2), (), 1, 1)
    files = [
        Collected(
            BrokerFacts(1, node, "c", (LogDirFacts("/d", node, "c"),), MetadataFacts("/d", 100)), (), (known,), (copy,)
        )
        for node, copy in copies.items()
    ]
    plan = make_fleet_plan(files)
    assert plan.fleet.waves == ((1,), (2,))
    assert plan.elections() == {"partitions": [{"topic": "t", "partition": 0}]}
    assert leader_after(plan.choices[0], plan.fleet.waves, last) == (1, 0)


def test_logs_of_the_same_leaders_are_cut_where_the_shorter_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way has the answer of the long one (AbstractFetcherThread)."""
    chance = random.Random(1)

    def drawn(epochs: tuple[Epoch, ...]) -> CopyFacts:
        end = chance.randrange(40)
        told = chance.choice((None, epochs, epochs, epochs, epochs[:1]))
        mark = chance.choice((None, 0, end))
        return CopyFacts(
            "t", 0, "/d", "t-0", "current", "0" * 32, None, 0, end, end, end, epochs, told, high_watermark=mark
        )

    asked = []
    for _ in range(2000):
        starts = sorted(chance.sample(range(30), chance.randint(0, 4)))
        epochs = tuple(Epoch(number, start) for number, start in enumerate(starts))
        asked.append((drawn(epochs), drawn(epochs), chance.random() < 0.5))
    short = [brokers_cut(one, other, is_clean=is_clean) for one, other, is_clean in asked]
    taken = [_is_of_same_leaders(one, other) for one, other, _ in asked]
    assert 100 < sum(taken) < 1900
    monkeypatch.setattr(histories, "_is_of_same_leaders", lambda *_: False)
    assert short == [brokers_cut(one, other, is_clean=is_clean) for one, other, is_clean in asked]
