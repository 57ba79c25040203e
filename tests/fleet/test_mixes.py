"""Several generations of disks: the mix that is named first loses least, and no mix loses more than it says."""

from __future__ import annotations

import copy
import json
import pathlib
import random

import pytest
from fleet.test_fleet_model import NODES, TOPIC_ID, Cluster, Replica
from fleet.test_restored import file_of
from fleets import collect_broker, make_fleet
from msgspec.structs import replace
from running import run_here

from klogtool.doctor.answers import Starts
from klogtool.errors import Refused
from klogtool.fleet.choosing import electable_of
from klogtool.fleet.collected import PartitionFacts, TopicFacts
from klogtool.fleet.mixes import MOST_MIXES, NodeDisks, find_mixes, judge_disks

SETS = 150


def generations(seed: int) -> tuple[list[tuple[NodeDisks, Replica]], PartitionFacts, set[tuple[int, int]]]:
    """Disks of three nodes, some copied twice; what the metadata said last; the records that were acknowledged."""
    chance = random.Random(seed)
    cluster = Cluster(chance, unclean=False)
    for _ in range(chance.randint(5, 40)):
        cluster.step()
    disks: list[tuple[int, Replica]] = []
    for node in [*chance.sample(NODES, 3), *chance.sample(NODES, chance.choice((1, 2)))]:
        for _ in range(chance.choice((0, 3, 10))):
            cluster.step()
        one = copy.deepcopy(cluster.replicas[node])
        one.lose(chance.randint(one.synced, len(one.log)))
        disks.append((node, one))
    known = PartitionFacts("t", TOPIC_ID, 0, NODES, tuple(sorted(cluster.isr)), (), cluster.leader or -1, cluster.epoch)
    made = [
        (NodeDisks((f"{node}-{number}",), file_of(node, one, known)), one) for number, (node, one) in enumerate(disks)
    ]
    return made, known, cluster.acknowledged


def test_no_mix_loses_more_than_it_says() -> None:
    """Of the acknowledged records that any disk has, those are lost that the leader of a mix lacks."""
    known_loss = exact = 0
    for seed in range(SETS):
        disks, known, acknowledged = generations(seed)
        mixes, chosen = find_mixes([each for each, _ in disks])
        assert [mix.order for mix in mixes] == sorted(mix.order for mix in mixes)
        assert [each.paths for each in chosen] == [each.paths for each in mixes[0].disks]
        of_path = {each.paths: one for each, one in disks}
        everything = set().union(*(one.sound() for _, one in disks)) & acknowledged
        for mix in mixes:
            if mix.lost_records is None:
                continue
            own = {each.node_id: of_path[each.paths] for each in mix.disks}
            leaders = [node for node in electable_of(known, ()) if node in own]
            worst = max((len(everything - own[node].sound()) for node in leaders), default=0)
            assert worst <= mix.lost_records + mix.left_records, (seed, mix, worst)
            known_loss, exact = known_loss + 1, exact + (worst == mix.lost_records + mix.left_records)
    assert exact > known_loss // 3, (exact, known_loss)


FLEET = """
metadata t-0 replicas 1 2 3 isr 1 2 3 leader 1
broker 1
  t-0 epochs 9:0 end {0}
broker 2
  t-0 epochs 9:0 end {1}
broker 3
  t-0 epochs 9:0 end {2}
"""


def disks_of(root: pathlib.Path, *ends: int) -> list[NodeDisks]:
    fleet, log_dirs = make_fleet(FLEET.format(*ends), root)
    disks = []
    for node, paths in log_dirs.items():
        file = collect_broker(paths, fleet)
        assert file.broker.metadata is not None
        metadata = replace(file.broker.metadata, controllers=(1, 2, 3), end_offset=ends[node - 1])
        disks.append(NodeDisks(tuple(map(str, paths)), replace(file, broker=replace(file.broker, metadata=metadata))))
    return disks


def test_the_newest_disks_lose_least(tmp_path: pathlib.Path) -> None:
    older, newer = disks_of(tmp_path / "older", 40, 41, 42), disks_of(tmp_path / "newer", 60, 61, 62)
    mixes, chosen = find_mixes([*older, *newer])
    assert (len(mixes), chosen) == (8, tuple(newer))
    told = {tuple("newer" in each.paths[0] for each in mix.disks): mix for mix in mixes}
    assert (told[True, True, True].lost_records, told[True, True, True].left_records) == (2, 0)
    assert (told[False, False, False].lost_records, told[False, False, False].left_records) == (2, 20)
    assert (told[False, True, True].lost_records, told[False, True, True].left_records) == (22, 0)


def test_one_generation_is_no_mix(tmp_path: pathlib.Path) -> None:
    disks = disks_of(tmp_path, 60, 60, 60)
    assert find_mixes(disks) == ((), tuple(disks))
    assert judge_disks(disks).starts is Starts.YES


def test_a_topic_that_was_deleted_meanwhile_is_no_loss(tmp_path: pathlib.Path) -> None:
    """Only an older disk has it, and the newest metadata does not know it any more."""
    older, newer = disks_of(tmp_path / "older", 60, 60, 60), disks_of(tmp_path / "newer", 61, 61, 61)
    gone = TopicFacts("gone", "G" * 22)
    known = replace(older[0].file.partitions[0], topic="gone", topic_id=gone.topic_id)
    copied = replace(older[0].file.copies[0], topic="gone", topic_id=gone.topic_id)
    file = older[0].file
    file = replace(file, partitions=(*file.partitions, known), copies=(*file.copies, copied))
    mixes, chosen = find_mixes([replace(older[0], file=file), *newer])
    assert (chosen, mixes[0].left_records) == (tuple(newer), 0)


def test_too_many_mixes_are_refused(tmp_path: pathlib.Path) -> None:
    (one,) = disks_of(tmp_path, 60, 60, 60)[:1]
    with pytest.raises(Refused, match="1,025 mixes"):
        find_mixes([one] * (MOST_MIXES + 1))


def test_the_command_names_the_mixes(tmp_path: pathlib.Path) -> None:
    """A directory id that comes again begins the next generation of a node."""
    paths = []
    for name, end in (("older", 40), ("newer", 60)):
        text = FLEET.format(end, end, end).partition("broker 1")[2]
        paths += [str(p) for own in make_fleet(f"broker 1{text}", tmp_path / name)[1].values() for p in own]
    done = run_here(["fleet", "check", "--restored", "--json", *paths], tmp_path)
    rows = [json.loads(line) for line in done.out.splitlines()]
    mixes = [row for row in rows if row["type"] == "mix"]
    assert [len(mix["disks"]) for mix in mixes] == [3] * 8
    assert {mix["starts"] for mix in mixes} == {"refuses"}
    text = run_here(["fleet", "check", "--restored", *paths], tmp_path).out.decode()
    assert text.startswith("8 mixes of these disks, the one that loses least first:\n  1. node 1: ")
    assert "\nOf mix 1:\nThis set does not start as one cluster.\n" in text
