"""A model of a partition with three replicas: leaders are elected, brokers crash and lose what was not synced, and
disks are damaged. Then klogtool chooses. No record that all in-sync replicas had is lost while one copy has it.
The model knows each record by the leader that wrote it. klogtool sees only what `fleet collect` would collect.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from klogtool.fleet.choosing import Choice, PlacedCopy, choose
from klogtool.fleet.collected import CopyFacts, Epoch, LostOffsets, PartitionFacts

NODES = (1, 2, 3)
TOPIC_ID = "A" * 22
HISTORIES = 400  # of each kind
STEPS = 60


@dataclass
class Replica:
    """log: the leader epoch that wrote each offset. cache: leader-epoch-checkpoint. synced: what is surely on disk.
    hurt: offsets whose batches are damaged."""

    log: list[int] = field(default_factory=list)
    cache: list[tuple[int, int]] = field(default_factory=list)
    synced: int = 0
    hurt: set[int] = field(default_factory=set)
    is_up: bool = True

    def append(self, epoch: int) -> None:
        if not self.cache or self.cache[-1][0] < epoch:
            self.cache.append((epoch, len(self.log)))
        self.log.append(epoch)

    def cut(self, end: int) -> None:
        self.lose(end)
        self.start()

    def lose(self, end: int) -> None:
        """The disk loses an end; the checkpoint of epochs was synced."""
        del self.log[end:]
        self.synced = min(self.synced, end)

    def start(self) -> None:
        """What begins at the log's end or behind it is no epoch of the log (LeaderEpochFileCache.truncateFromEnd)."""
        self.cache = [entry for entry in self.cache if entry[1] < len(self.log)]

    def sound(self) -> set[tuple[int, int]]:
        """Offsets with their epochs."""
        return {(offset, epoch) for offset, epoch in enumerate(self.log) if offset not in self.hurt}


class Cluster:
    """The partition. Elections are clean, unless `unclean`: then any live replica may be elected."""

    def __init__(self, chance: random.Random, *, unclean: bool) -> None:
        self.chance, self.unclean = chance, unclean
        self.replicas = {node: Replica() for node in NODES}
        self.isr, self.leader, self.epoch = set(NODES), 1, 0
        self.acknowledged: set[tuple[int, int]] = set()

    def step(self) -> None:
        acts = [self.produce, self.produce, self.fetch, self.fetch, self.fetch, self.sync, self.shrink, self.expand]
        self.chance.choice([*acts, self.crash, self.restart, self.restart, self.move_leader])()
        self.elect()
        self.acknowledge()

    def produce(self) -> None:
        if self.leader in NODES:
            for _ in range(self.chance.randint(1, 4)):
                self.replicas[self.leader].append(self.epoch)

    def fetch(self) -> None:
        """A follower cuts where its log parts from the leader's, and takes some records."""
        follower = self.chance.choice(NODES)
        if self.leader not in NODES or follower == self.leader or not self.replicas[follower].is_up:
            return
        one, leader = self.replicas[follower], self.replicas[self.leader]
        parting = next((n for n, (a, b) in enumerate(zip(one.log, leader.log, strict=False)) if a != b), None)
        one.cut(min(len(one.log), len(leader.log)) if parting is None else parting)
        for epoch in leader.log[len(one.log) : len(one.log) + self.chance.randint(1, 6)]:
            one.append(epoch)

    def sync(self) -> None:
        one = self.replicas[self.chance.choice(NODES)]
        one.synced = self.chance.randint(one.synced, len(one.log))

    def shrink(self) -> None:
        slow = [n for n in self.isr if n != self.leader and len(self.replicas[n].log) < self.end()]
        if slow and self.leader in NODES:
            self.isr.discard(self.chance.choice(slow))

    def expand(self) -> None:
        if self.leader in NODES:
            ours = self.replicas[self.leader].log
            self.isr |= {n for n in NODES if self.replicas[n].is_up and self.replicas[n].log == ours}

    def end(self) -> int:
        return len(self.replicas[self.leader].log) if self.leader in NODES else 0

    def crash(self) -> None:
        """A broker goes down and loses a part of what was not synced. The controller takes it out of the ISR (KIP-966),
        unless it is the last one."""
        node = self.chance.choice(NODES)
        one = self.replicas[node]
        if not one.is_up:
            return
        one.is_up = False
        one.lose(self.chance.randint(one.synced, len(one.log)))
        if self.isr != {node}:
            self.isr.discard(node)
        if self.leader == node:
            self.leader = 0

    def restart(self) -> None:
        """A broker that is out of sync comes back. The last one in sync does not: it may have lost what it had."""
        node = self.chance.choice(NODES)
        if node not in self.isr or self.unclean:
            self.replicas[node].start()
            self.replicas[node].is_up = True

    def move_leader(self) -> None:
        if self.leader in NODES:
            self.lead(self.chance.choice(sorted(n for n in self.isr if self.replicas[n].is_up)))

    def elect(self) -> None:
        if self.leader in NODES:
            return
        clean = sorted(n for n in self.isr if self.replicas[n].is_up)
        anyone = sorted(n for n in NODES if self.replicas[n].is_up)
        if clean:
            self.lead(self.chance.choice(clean))
        elif self.unclean and anyone:
            self.lead(self.chance.choice(anyone))
            self.isr = {self.leader}

    def lead(self, node: int) -> None:
        self.leader, self.epoch = node, self.epoch + 1
        one = self.replicas[node]
        one.start()
        one.cache.append((self.epoch, len(one.log)))

    def acknowledge(self) -> None:
        """What all in-sync replicas have is acknowledged (acks=all)."""
        if self.leader in NODES and all(self.replicas[n].is_up for n in self.isr):
            ours = self.replicas[self.leader].log
            logs = [self.replicas[n].log for n in self.isr]
            for offset, epoch in enumerate(ours):
                if all(len(log) > offset and log[: offset + 1] == ours[: offset + 1] for log in logs):
                    self.acknowledged.add((offset, epoch))

    def disaster(self) -> None:
        """All lose power; some disks are hurt, and one may be gone."""
        for one in self.replicas.values():
            one.lose(self.chance.randint(one.synced, len(one.log)))
            if one.log and self.chance.random() < 0.4:
                first = self.chance.randrange(len(one.log))
                one.hurt |= set(range(first, min(len(one.log), first + self.chance.randint(1, 6))))
            if self.chance.random() < 0.15:
                one.lose(self.chance.randint(0, len(one.log)))
        if self.chance.random() < 0.2:
            del self.replicas[self.chance.choice(NODES)]


def facts_of(one: Replica) -> CopyFacts:
    """What `fleet collect` tells of a replica."""
    sound = sorted(one.sound())
    end = sound[-1][0] + 1 if sound else 0
    epochs: list[Epoch] = []
    for offset, epoch in sound:
        if not epochs or epochs[-1].epoch < epoch:
            epochs.append(Epoch(epoch, offset))
    holes, at = [], 0
    for offset, _ in [*sound, (end, 0)]:
        if at < offset:
            holes.append(LostOffsets(at, offset - 1))
        at = offset + 1
    if end < len(one.log):
        holes.append(LostOffsets(end))
    return CopyFacts(
        "t",
        0,
        "/d",
        "t-0",
        "current",
        "0" * 32,
        TOPIC_ID,
        log_end_offset=end,
        sound_end_offset=min([end, *(hole.first for hole in holes)]),
        epochs=tuple(epochs),
        checkpoint_epochs=tuple(Epoch(*entry) for entry in one.cache),
        holes=tuple(holes),
    )


def run(seed: int, *, unclean: bool) -> tuple[Cluster, Choice]:
    """A cluster after its disaster, and what klogtool chooses."""
    cluster = Cluster(random.Random(seed), unclean=unclean)
    for _ in range(cluster.chance.randint(5, STEPS)):
        cluster.step()
    cluster.disaster()
    known = PartitionFacts("t", TOPIC_ID, 0, NODES, tuple(sorted(cluster.isr)), (), cluster.leader or -1, cluster.epoch)
    placed = [PlacedCopy(node, facts_of(one), is_clean=False) for node, one in cluster.replicas.items()]
    return cluster, choose(placed, known, tuple(cluster.replicas), ("t", 0))


def kept(cluster: Cluster, choice: Choice) -> set[tuple[int, int]]:
    """What the best copy has, once it is salvaged."""
    assert choice.best is not None
    found = cluster.replicas[choice.best.node_id].sound()
    for fill in choice.fills:
        theirs = cluster.replicas[fill.node_id].sound()
        found |= {(offset, epoch) for offset, epoch in theirs if fill.first <= offset <= fill.last}
    return found


@pytest.mark.parametrize("unclean", [False, True], ids=["clean elections", "unclean elections"])
def test_what_was_acknowledged_is_kept(unclean: bool) -> None:
    """With clean elections always, if the last leader's disk or one in sync with it is there. After an unclean election
    other records may have taken the place: then the plan tells what is lost."""
    told = 0
    for seed in range(HISTORIES):
        cluster, choice = run(seed, unclean=unclean)
        survivor = kept(cluster, choice)
        for node, one in cluster.replicas.items():
            for offset, epoch in (one.sound() & cluster.acknowledged) - survivor:
                is_known = bool(cluster.isr & cluster.replicas.keys())  # else nobody knows who led last
                assert unclean or not is_known, f"seed {seed}: broker {node} has offset {offset} of epoch {epoch}"
                losses = [loss for loss in choice.only_elsewhere if loss.node_id == node]
                assert any(loss.first <= offset <= loss.last for loss in losses), f"seed {seed}: {offset} is not told"
                told += 1
    assert told or not unclean, "the model makes no such histories"


@pytest.mark.parametrize("unclean", [False, True], ids=["clean elections", "unclean elections"])
def test_followers_keep_nothing_of_another_history(unclean: bool) -> None:
    """Where a follower's log is cut, by its broker or by `fleet apply`, all before is what the best copy has."""
    cuts = 0
    for seed in range(HISTORIES):
        cluster, choice = run(seed, unclean=unclean)
        survivor = kept(cluster, choice)
        lost = {offset for hole in choice.lost for offset in range(hole.first, (hole.last or hole.first) + 1)}
        for share in choice.shares:
            if share.action not in ("follow", "truncate") or share.to is None:
                continue
            theirs = cluster.replicas[share.placed.node_id].sound()
            stays = {(offset, epoch) for offset, epoch in theirs if offset < share.to and offset not in lost}
            assert stays <= survivor, f"seed {seed}: broker {share.placed.node_id}"
            cuts += share.to < share.placed.copy.log_end_offset
    assert cuts


def test_what_no_copy_has_is_told() -> None:
    """Between the first and the last kept offset, each offset is kept, or told as lost."""
    for seed in range(HISTORIES):
        cluster, choice = run(seed, unclean=True)
        offsets = {offset for offset, _ in kept(cluster, choice)}
        lost = {offset for hole in choice.lost for offset in range(hole.first, (hole.last or hole.first) + 1)}
        assert not offsets & lost
        assert offsets | lost == set(range(max(offsets | lost, default=-1) + 1))
