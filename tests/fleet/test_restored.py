"""Sets of restored disks: is each a cluster, and what may its start lose? The forecast is never too rosy."""

from __future__ import annotations

import copy
import json
import pathlib
import random

import pytest
from fleet.test_fleet_model import NODES, TOPIC_ID, Cluster, Replica, facts_of
from fleets import collect_broker, make_fleet
from msgspec.structs import replace
from quorums import NOTHING, TOPIC, Disk, data_batch, directory_id, voter
from running import run_here

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.doctor.answers import Starts
from klogtool.fleet.choosing import electable_of
from klogtool.fleet.collected import (
    BrokerFacts,
    Collected,
    CommitFacts,
    LogDirFacts,
    MetadataFacts,
    PartitionFacts,
    ProducerFacts,
    StartFacts,
    ToldElection,
    TransactionFacts,
)
from klogtool.fleet.coordinating import MOST_IDEMPOTENT, find_producers
from klogtool.fleet.forecast import LossReason
from klogtool.fleet.restored import Fate, Restored, RestoreStep, judge_set, walk_options
from klogtool.fleet.restored_identity import SetProblem
from klogtool.format.batch import BatchOrigin, Record, build_batch
from klogtool.render.fleet_restored import restored_text

SETS = 400
# Sets whose forecast was too rosy: other copies have what the best one only remembers, or had before its damage.
ONCE_ROSY = (845, 1612, 2019, 3144, 4122, 4332, 5102, 6120, 6194, 6615, 7540, 7620, 8259, 8271, 8303)
ONCE_ROSY_DAMAGED = (2793, 3529)
ALL_EQUAL = """
metadata t-0 replicas 1 2 3 isr 1 2 3 leader 1
broker 1
  t-0 epochs 9:0 end 60
broker 2
  t-0 epochs 9:0 end 60
broker 3
  t-0 epochs 9:0 end 60
"""


def set_of(text: str, root: pathlib.Path, voters: tuple[int, ...] = (1, 2, 3)) -> list[Collected]:
    """The files of a fleet, each with the metadata of the text; `voters` are controllers."""
    fleet, log_dirs = make_fleet(text, root)
    return [with_voters(collect_broker(paths, fleet), voters) for paths in log_dirs.values()]


def with_voters(file: Collected, voters: tuple[int, ...]) -> Collected:
    assert file.broker.metadata is not None
    return replace(file, broker=replace(file.broker, metadata=replace(file.broker.metadata, controllers=voters)))


def reasons(restored: Restored) -> list[tuple[LossReason, int | None, int | None]]:
    return [(loss.reason, loss.node_id, loss.records) for one in restored.forecasts for loss in one.losses]


def test_a_set_of_one_moment_starts_and_loses_nothing(tmp_path: pathlib.Path) -> None:
    restored = judge_set(set_of(ALL_EQUAL, tmp_path))
    assert (restored.starts, restored.lost_records, restored.gone_records) == (Starts.YES, 0, 0)
    assert not list(walk_options(restored))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("end 60\nbroker 3", "end 41\nbroker 3"), [(LossReason.OLDER_LEADER, 2, 19)]),
        (("broker 2\n  t-0 epochs 9:0 end 60\n", "broker 2\n"), [(LossReason.EMPTY_LEADER, 2, 60)]),
        (("broker 3\n  t-0 epochs 9:0 end 60\n", ""), [(LossReason.BROKER_MISSING, 3, None)]),
        (("metadata t-0", "metadata u-0"), [(LossReason.STRAY, 1, 60), (LossReason.NO_COPY, None, None)]),
        (("  t-0 epochs 9:0 end 60", "  t-0 epochs 9:0 end 60 id B"), [(LossReason.STRAY, 1, 60)]),
        (("epochs 9:0", "epochs 8:0"), [(LossReason.METADATA_NEWER, 1, None)]),
        (("epochs 9:0", "epochs 9:0 10:50"), [(LossReason.METADATA_OLDER, 1, None)]),
        (("end 60", "end 60 hw 70"), [(LossReason.ONCE_LONGER, 1, 10)]),
        (
            ("broker 1\n  t-0 epochs 9:0 end 60", "broker 1\n  t-0 epochs 9:0 end 60 holes 10-11"),
            [(LossReason.OLDER_LEADER, 1, 50)],
        ),
    ],
)
def test_each_reason(
    change: tuple[str, str], expected: list[tuple[LossReason, int | None, int | None]], tmp_path: pathlib.Path
) -> None:
    restored = judge_set(set_of(ALL_EQUAL.replace(*change), tmp_path))
    assert restored.starts is Starts.LOSES_DATA
    assert [one for one in reasons(restored) if one in expected] == expected, reasons(restored)


def test_a_set_that_is_no_cluster_refuses(tmp_path: pathlib.Path) -> None:
    files = set_of(ALL_EQUAL, tmp_path)
    other = replace(files[1], broker=replace(files[1].broker, cluster_id="other"))
    nameless = replace(files[1], broker=replace(files[1].broker, log_dirs=(LogDirFacts("/d"),)))
    none = [replace(file, broker=replace(file.broker, metadata=None)) for file in files]
    for case, problem in (
        ([files[0], other, files[2]], SetProblem.OTHER_CLUSTER),
        ([*files, replace(files[0], broker=replace(files[0].broker, node_id=4))], SetProblem.SAME_DIRECTORY),
        ([files[0], nameless, files[2]], SetProblem.NO_IDENTITY),
        (none, SetProblem.NO_METADATA),
        (files[:1], SetProblem.NO_LEADER),
    ):
        restored = judge_set(case)
        assert restored.starts is Starts.REFUSES
        assert problem in {trouble.problem for trouble in restored.troubles}
        assert [option.step for option in walk_options(restored)] == [RestoreStep.MEND_IDS]


def test_metadata_disks_that_were_wiped_vote_with_their_old_ids(tmp_path: pathlib.Path) -> None:
    """Measured: the whole one leads, and who is told that it led before ends once. The log dir of the metadata is
    apart, and only its directory id shows that a node votes with it."""
    files = []
    for file in set_of(ALL_EQUAL, tmp_path):
        node = file.broker.node_id or 0
        assert file.broker.metadata is not None
        ids = tuple(f"{n:022d}" for n in (1, 2, 3))
        known = replace(file.broker.metadata, voters=(1, 2, 3), voter_directories=ids)
        apart = LogDirFacts("/metadata", node, None, ids[node - 1])
        known = replace(known, log_dir=apart.path, end_offset=100, epoch=1) if node == 1 else None
        broker = replace(file.broker, log_dirs=(*file.broker.log_dirs, apart), metadata=known)
        files.append(replace(file, broker=broker, partitions=file.partitions if known else ()))
    restored = judge_set(files)
    assert (restored.metadata_from, restored.troubles) == ((1,), ())
    assert restored.starts is Starts.YES
    bare = [replace(file, broker=replace(file.broker, log_dirs=file.broker.log_dirs[:-1])) for file in files[1:]]
    troubles = judge_set([files[0], *bare]).troubles
    assert SetProblem.NO_LEADER in {trouble.problem for trouble in troubles}


def test_what_only_the_metadata_of_its_own_disk_says_is_no_loss(tmp_path: pathlib.Path) -> None:
    """Node 1 has older metadata, which does not know the topic: the others elect the leader, and it keeps its copy."""
    disks = []
    for node in (1, 2, 3):
        disk = Disk(tmp_path, node).voters(*(voter(n) for n in (1, 2, 3)))
        if node > 1:
            placed = {"partitionId": 0, "topicId": TOPIC[2]["topicId"], "replicas": [1, 2, 3], "isr": [1, 2, 3]}
            placed |= {"leader": 1, "leaderEpoch": 0}
            directories = [directory_id(n) for n in (1, 2, 3)]
            disk.records(1, 1, TOPIC)
            disk.records(1, 1, ("PartitionRecord", 1, {**placed, "directories": directories}))
        folder = disk.path / "orders-0"
        folder.mkdir()
        (folder / "00000000000000000000.log").write_bytes(data_batch(0, 0, NOTHING))
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC[2]['topicId']}")
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        disks.append(disk)
    done = run_here(["fleet", "check", "--restored", *(str(disk.path) for disk in disks)], tmp_path)
    assert (done.status, done.out.splitlines()[0]) == (0, b"This set starts, and loses nothing.")
    (disks[0].path / "replication-offset-checkpoint").write_text("0\n1\norders 0 9\n")
    done = run_here(["fleet", "check", "--restored", *(str(disk.path) for disk in disks)], tmp_path)
    assert done.status == 1
    assert done.out.startswith(b"This set starts, and loses no record that one of its disks has; but it is not whole:")


def test_a_controller_with_older_metadata_may_lead(tmp_path: pathlib.Path) -> None:
    """Two of three voters have older metadata: their majority does not know the topic that the newest one knows."""
    files = set_of(ALL_EQUAL, tmp_path)
    assert files[2].broker.metadata is not None
    newest = replace(files[2].broker.metadata, end_offset=200)
    files[2] = replace(files[2], broker=replace(files[2].broker, metadata=newest))
    files[:2] = [replace(file, partitions=()) for file in files[:2]]
    restored = judge_set(files)
    assert restored.metadata_from == (3, 1, 2)
    assert reasons(restored) == [(LossReason.STRAY, 1, 60)]
    told = [(option.step, option.node_id, option.others) for option in walk_options(restored)]
    assert (RestoreStep.NEWEST_METADATA, 3, 1) in told


def test_ends_and_leaders_are_those_of_all_metadata_that_may_lead(tmp_path: pathlib.Path) -> None:
    """Real brokers of 4.3.1: while a partition moves, older metadata still lets the old replica lead, and nothing of it
    becomes -stray."""
    old = set_of(ALL_EQUAL.replace("end 60\nbroker 2", "end 70\nbroker 2"), tmp_path / "old")
    moved = set_of(ALL_EQUAL.replace("1 2 3 isr 1 2 3 leader 1", "2 3 isr 2 3 leader 2"), tmp_path / "moved")
    newer = moved[2].broker.metadata
    assert newer is not None
    newest = replace(old[2], partitions=moved[2].partitions)
    newest = replace(
        newest, broker=replace(newest.broker, metadata=replace(newer, end_offset=1000, controllers=(1, 2, 3)))
    )
    together = judge_set([*old[:2], newest])
    assert together.metadata_from == (3, 1, 2)
    (one,) = together.forecasts
    assert (one.end_least, one.end_most, set(one.may_lead), one.strays) == (60, 70, {1, 2, 3}, (1,))


@pytest.mark.parametrize(("end", "lost"), [(75, 15), (60, None), (30, None)])
def test_what_only_a_folder_marked_for_deletion_has_is_lost(end: int, lost: int | None, tmp_path: pathlib.Path) -> None:
    """Real brokers of 4.3.1: a partition had moved away, and the disks of its new replicas were older."""
    text = ALL_EQUAL.replace("replicas 1 2 3 isr 1 2 3", "replicas 1 2 isr 1 2")
    files = set_of(text.replace("broker 3\n  t-0 epochs 9:0 end 60", f"broker 3\n  t-0 epochs 9:0 end {end}"), tmp_path)
    (copy,) = files[2].copies
    marked = replace(copy, folder=f"t-0.{'a' * 32}-delete", state="delete")
    restored = judge_set([*files[:2], replace(files[2], copies=(marked,))])
    assert reasons(restored) == ([] if lost is None else [(LossReason.DELETED, 3, lost)])


def remembering(file: Collected, leader: int, epoch: int, voted: int = -1) -> Collected:
    """A controller whose quorum-state says who led, and for whom it voted."""
    metadata = file.broker.metadata
    assert metadata is not None
    told = ToldElection(0, leader, epoch, voted, "A" * 22)
    return replace(file, broker=replace(file.broker, metadata=replace(metadata, epoch=epoch, remembered=told)))


def without_metadata(file: Collected) -> Collected:
    return replace(file, broker=replace(file.broker, metadata=None))


def test_a_controller_that_lost_its_metadata_votes_and_may_end(tmp_path: pathlib.Path) -> None:
    """Real brokers of 4.3.1: a new metadata disk of the last leader ends its start (KafkaRaftClient.maybeTransition),
    and the vote of a new disk lets older metadata lead."""
    files = set_of(ALL_EQUAL, tmp_path)
    for leader in (1, 2):
        first, second, third = (remembering(file, leader, 5) for file in files)
        older = replace(third.broker.metadata, end_offset=second.broker.metadata.end_offset - 1)  # type: ignore[union-attr, type-var]
        third = replace(third, broker=replace(third.broker, metadata=older))
        restored = judge_set([without_metadata(first), second, third])
        ending = [trouble.node_id for trouble in restored.troubles if trouble.problem is SetProblem.BROKER_MAY_END]
        assert ending == [1] * (leader == 1)
        assert restored.metadata_from == (2, 3)


def test_a_controller_without_metadata_that_may_lead_refuses(tmp_path: pathlib.Path) -> None:
    """A majority of new disks elects one of its own: no topic is known then."""
    files = set_of(ALL_EQUAL, tmp_path)
    restored = judge_set([without_metadata(files[0]), without_metadata(files[1]), files[2]])
    assert SetProblem.EMPTY_LEADER in {trouble.problem for trouble in restored.troubles}
    assert restored.starts is Starts.REFUSES


def test_a_controller_that_remembers_an_epoch_may_end_beside_a_majority_of_new_disks(tmp_path: pathlib.Path) -> None:
    """They may elect another leader in the epoch of which it knows one (KafkaRaftClient.maybeTransition)."""
    files = set_of(ALL_EQUAL, tmp_path)
    first, second, last = (remembering(file, 1, 5) for file in files)
    for others, may_end in (((first, second), True), ((first,), False)):
        new = [without_metadata(file) for file in others]
        troubles = judge_set([*new, *(second,) * (len(others) < 2), last]).troubles
        ending = {one.node_id for one in troubles if one.problem is SetProblem.BROKER_MAY_END}
        assert (3 in ending) is may_end


def test_groups_are_reset_where_their_log_ends_before(tmp_path: pathlib.Path) -> None:
    files = set_of(ALL_EQUAL.replace("end 60\nbroker 3", "end 41\nbroker 3"), tmp_path)
    commits = [("at-its-end", 41), ("reset-by-one", 50), ("reset-anyway", 70)]
    files[0] = replace(files[0], commits=tuple(CommitFacts(0, group, "t", 0, offset) for group, offset in commits))
    told = [(one.group, one.log_end_offset, one.is_certain) for one in judge_set(files).resets]
    assert told == [("reset-anyway", 41, True), ("reset-by-one", 41, False)]


@pytest.mark.parametrize("in_log", [True, False])
@pytest.mark.parametrize(("following", "is_told"), [(None, False), (7000, False), (6999, True), (0, True)])
def test_producer_ids_that_older_metadata_would_give_again(
    tmp_path: pathlib.Path, following: int | None, is_told: bool, in_log: bool
) -> None:
    """Producer 6999 is in a log, or in the state of transactions of one broker."""
    files = set_of(ALL_EQUAL, tmp_path)
    for number, file in enumerate(files):
        assert file.broker.metadata is not None
        metadata = replace(file.broker.metadata, next_producer_id=following)
        files[number] = replace(file, broker=replace(file.broker, metadata=metadata))
    producer = ProducerFacts(6999, 0, last_sequence=3, last_offset=59)
    if in_log:
        files[2] = replace(files[2], copies=tuple(replace(one, producers=(producer,)) for one in files[2].copies))
    else:
        row = TransactionFacts(0, "x", 6999, 0, "CompleteCommit")
        files[2] = replace(files[2], transactions=(row,))
    restored = judge_set(files)
    problems = {(one.problem, one.value) for one in restored.troubles}
    assert problems == ({(SetProblem.PRODUCER_IDS, f"{following}..6999")} if is_told else set())
    assert restored.starts is (Starts.LOSES_DATA if is_told else Starts.YES)


ENDED = ProducerFacts(7, 5, None, 5, 1000, False)
OPEN = ProducerFacts(7, 4, 50)


@pytest.mark.parametrize(
    ("producer", "row", "fate"),
    [
        (OPEN, None, Fate.HANGS),
        (OPEN, ("CompleteCommit", 5, ()), Fate.HANGS),
        (OPEN, ("Ongoing", 4, (("t", 1),)), Fate.HANGS),
        (OPEN, ("Ongoing", 2, (("t", 0),)), Fate.HANGS),
        (OPEN, ("Ongoing", 4, (("t", 0),)), Fate.ABORTED),
        (OPEN, ("PrepareCommit", 5, (("t", 0),)), Fate.COMMITTED),
        (OPEN, ("Ongoing", 6, (("t", 0),)), Fate.TORN),
        (ENDED, ("Ongoing", 4, (("t", 0),)), Fate.TORN),
        (ENDED, ("PrepareCommit", 5, (("t", 0),)), None),
        (ENDED, ("Ongoing", 9, (("t", 0),)), None),
        (ENDED, None, None),
    ],
)
def test_the_fate_of_a_transaction(
    producer: ProducerFacts,
    row: tuple[str, int, tuple[tuple[str, int], ...]] | None,
    fate: Fate | None,
    tmp_path: pathlib.Path,
) -> None:
    files = set_of(ALL_EQUAL, tmp_path)
    copies = tuple(replace(each, producers=(producer,)) for each in files[0].copies)
    known = () if row is None else (TransactionFacts(0, "x", 7, row[1], row[0], row[2], 900),)
    files = [replace(files[0], copies=copies, transactions=known), *(replace(f, transactions=known) for f in files[1:])]
    restored = judge_set(files)
    assert [one.fate for one in restored.transactions] == ([] if fate is None else [fate])
    assert (restored.starts is Starts.YES) == (fate not in (Fate.HANGS, Fate.TORN))


# Producers.


def with_producer(file: Collected, epoch: int, last_sequence: int, last_offset: int = 9) -> Collected:
    producer = ProducerFacts(7, epoch, last_sequence=last_sequence, last_offset=last_offset)
    return replace(file, copies=tuple(replace(each, producers=(producer,)) for each in file.copies))


@pytest.mark.parametrize(
    ("older", "newest", "is_refused"),
    [
        ((0, 9), (0, 40), True),
        ((0, 9), (0, 9), False),
        ((0, -1), (0, 9), True),  # its marker was the last that the older copy has of it
        ((0, 9), (1, 5), True),
        ((0, 9), (1, -1), False),  # transactions of version 2: a new epoch begins at sequence 0
        ((0, 2**31 - 1), (0, 3), True),
    ],
)
def test_a_producer_that_went_on(
    older: tuple[int, int], newest: tuple[int, int], is_refused: bool, tmp_path: pathlib.Path
) -> None:
    files = set_of(ALL_EQUAL.replace("end 60\nbroker 3", "end 41\nbroker 3"), tmp_path)
    with_both = [with_producer(files[0], *newest, 55), with_producer(files[1], *older, 9), files[2]]
    restored = judge_set(with_both)
    told = [(one.node_id, one.newest_node, one.last_sequence) for one in restored.behind]
    assert told == ([(2, 1, older[1])] if is_refused else [])
    brief, whole = ("\n".join(restored_text(restored, "c", is_verbose=verbose)) for verbose in (False, True))
    assert ("what 1 producer would send next to 1 partition (--verbose names them)" in brief) is is_refused
    assert ("  producer 7  t-0 of node 2: " in whole) is is_refused
    # A leader that does not know the producer, and one that does not lead.
    assert judge_set([with_both[0], *files[1:]]).behind == ()
    alone = "metadata t-0 replicas 1 2 3 isr 1 leader 1"
    files = set_of(ALL_EQUAL.replace("metadata t-0 replicas 1 2 3 isr 1 2 3 leader 1", alone), tmp_path / "alone")
    assert judge_set([with_producer(files[0], *newest, 55), with_producer(files[1], *older, 9), files[2]]).behind == ()


def test_a_copy_lists_the_producers_that_wrote_last(tmp_path: pathlib.Path) -> None:
    batches = [
        build_batch([Record(n, 0, None, b"v")], BatchOrigin(producer_id=n, producer_epoch=0, base_sequence=5))
        for n in range(MOST_IDEMPOTENT + 20)
    ]
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020}.log").write_bytes(b"".join(batches))
    found = find_producers(str(partition), Circumstances(now_ms=0), Checkpoints(str(tmp_path)), 1)
    assert found is not None
    assert [(one.producer_id, one.last_sequence) for one in found] == [(n, 5) for n in range(20, MOST_IDEMPOTENT + 20)]


# A model: disks of a cluster that runs, each copied at another step.


def copied_set(seed: int) -> tuple[dict[int, Replica], PartitionFacts]:
    """The copies, and what the metadata of one of the moments says."""
    chance = random.Random(seed)
    cluster = Cluster(chance, unclean=chance.random() < 0.2)
    for _ in range(chance.randint(5, 60)):
        cluster.step()
    copies: dict[int, Replica] = {}
    moments = []
    for node in chance.sample(NODES, 3 if chance.random() < 0.8 else 2):
        for _ in range(chance.choice((0, 0, 3, 10))):
            cluster.step()
        one = copy.deepcopy(cluster.replicas[node])
        one.lose(chance.randint(one.synced, len(one.log)))
        copies[node] = one
        isr, leader = tuple(sorted(cluster.isr)), cluster.leader or -1
        moments.append(PartitionFacts("t", TOPIC_ID, 0, NODES, isr, (), leader, cluster.epoch))
    return copies, chance.choice(moments[-2:])


def file_of(node: int, one: Replica, known: PartitionFacts) -> Collected:
    metadata = MetadataFacts("/d", 100, controllers=NODES)
    broker = BrokerFacts(1, node, "c", (LogDirFacts("/d", node, "c"),), metadata)
    return Collected(broker, (), (known,), (facts_of(one),))


def with_damage(copies: dict[int, Replica], seed: int) -> dict[int, Replica]:
    """The same copies, and some of them have damaged records."""
    chance = random.Random(-seed)
    for one in copies.values():
        if one.log and chance.random() < 0.4:
            first = chance.randrange(len(one.log))
            one.hurt |= set(range(first, min(len(one.log), first + chance.randint(1, 6))))
    return copies


def served(one: Replica) -> set[tuple[int, int]]:
    """What a leader's log has after its start: it ends at the first damage."""
    return {record for record in one.sound() if record[0] < min(one.hurt, default=len(one.log))}


@pytest.mark.parametrize("is_damaged", [False, True])
def test_no_forecast_is_too_rosy(is_damaged: bool) -> None:
    """Whoever leads of those that may, what a copy has and the leader lacks is within the bound; and the log ends
    where the forecast says. How often the bound is reached is counted: else it would say nothing."""
    unknown = exact = dark = 0
    for seed in (*range(SETS), *(ONCE_ROSY_DAMAGED if is_damaged else ONCE_ROSY)):
        copies, known = copied_set(seed)
        if is_damaged:
            copies = with_damage(copies, seed)
        restored = judge_set([file_of(node, one, known) for node, one in copies.items()])
        assert restored.starts is not Starts.REFUSES, seed
        (forecast,) = restored.forecasts
        may_lead = [node for node in electable_of(known, ()) if node in copies]
        assert set(may_lead) <= set(forecast.may_lead), seed
        if forecast.lost_records is None:
            unknown += 1
            continue
        everything = set().union(*(one.sound() for one in copies.values()))
        worst = max((len(everything - served(copies[node])) for node in may_lead), default=0)
        assert worst <= forecast.lost_records, f"seed {seed}: {worst} lost, {forecast.lost_records} told: {forecast}"
        exact, dark = exact + (worst == forecast.lost_records), dark + (worst < forecast.lost_records)
        for node in may_lead:
            end = min([len(copies[node].log), *copies[node].hurt])
            assert (forecast.end_least or 0) <= end <= (forecast.end_most or 0), seed
    assert exact > SETS // 2, (exact, dark, unknown)


def test_what_a_leader_has_a_hole_for_is_lost_although_the_doctor_keeps_its_end(tmp_path: pathlib.Path) -> None:
    """Nobody is served offsets 10 to 19 while node 1 leads, and its start cuts nothing; nodes 2 and 3 have them."""
    files = set_of(ALL_EQUAL.replace("end 60\nbroker 2", "end 60 holes 10-19\nbroker 2"), tmp_path)
    for end in (60, 70):
        files[0] = replace(files[0], copies=tuple(replace(one, log_end_offset=end) for one in files[0].copies))
        start = StartFacts(Starts.YES, 0, (), (), ())
        known = [replace(file, broker=replace(file.broker, start=start)) for file in files]
        restored = judge_set(known)
        assert (LossReason.OLDER_LEADER, 1, 10) in reasons(restored), end
        assert restored.lost_records == 10, end


# The command.


def test_the_command_takes_files_and_log_dirs(tmp_path: pathlib.Path) -> None:
    text = ALL_EQUAL.partition("broker 1")[2]
    _, log_dirs = make_fleet(f"broker 1{text}", tmp_path)
    paths = [str(path) for own in log_dirs.values() for path in own]
    files = []
    for number, path in enumerate(paths):
        files.append(str(tmp_path / f"{number}.klog"))
        pathlib.Path(files[-1]).write_bytes(run_here(["fleet", "collect", "-q", path], tmp_path).out)
    told = [run_here(["fleet", "check", "--restored", "--json", *each], tmp_path) for each in (files, paths)]
    rows = [[json.loads(line) for line in done.out.splitlines()] for done in told]
    assert [done.status for done in told] == [1, 1]
    assert [row["starts"] for row in rows[1] if row["type"] == "node"] == ["yes"] * 3
    assert rows[0] == rows[1]
    assert rows[0][1]["starts"] == "refuses"
    assert [row["problem"] for row in rows[0] if row["type"] == "problem"] == ["no-metadata"]
    told_text = run_here(["fleet", "check", "--restored", *paths], tmp_path)
    assert told_text.out.startswith(b"This set does not start as one cluster.\n3 nodes: 1, 2, 3.\nPROBLEM ")


def test_options_that_do_not_fit(tmp_path: pathlib.Path) -> None:
    assert run_here(["fleet", "check", "--plan-out", "p", "a", "b"], tmp_path).status == 2
    assert run_here(["fleet", "check", "a"], tmp_path).status == 2
