"""A dynamic quorum's voters beside meta.properties: what the doctor says where no leader is ever elected."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from msgspec.structs import replace
from quorums import NOTHING, TOPIC, Disk, control_batch, data_batch, properties, static, voter
from raw_batches import build_batch
from running import FIXTURES, run_here
from wounded import CASES, another_voter

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.releases import REFERENCE, Release
from klogtool.doctor.answers import Diagnosis, Starts, What
from klogtool.doctor.claim_list import walk_claims
from klogtool.doctor.claims import BrokerClaim
from klogtool.doctor.rehearsal import Examination, examine
from klogtool.format.batch import Record
from klogtool.format.identity import QuorumState, build_quorum_state
from klogtool.format.internal.records import build_metadata_record
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.render.doctor import headline
from klogtool.render.words import words
from klogtool.verify.identity_cures import meta_properties_lines
from klogtool.verify.verify_log_dirs import verify_log_dirs
from klogtool.verify.verify_voters import lost_directory_id

Path = pathlib.Path
OLD_ID = "Y7LnmvEGQ1-8Sy8cxKBpmg"
SAMPLES = pathlib.Path(__file__).parents[3] / "shared/quorum-samples"
# What a single disk shows: a node that does not vote any more. The others need a look at the other disks.
NEVER = {"s1-dirid-deleted", "c440-dirid-deleted"}
# These disks are from before the edit that the sample is about: the disk is new, and the log has the old id.
BEFORE_EDIT = {"r1-append-same-epoch", "r1-id-back", "r1-rewrite-both", "r1-rewrite-checkpoint-only", "rs-snap-append"}
NEVER |= BEFORE_EDIT
VOTERS_NEVER_SEEN = {"k1-voters-three", "k3-two-wiped-whole-first"}  # what other nodes do decides
NOT_VOTER = {"d3-dirid-deleted-one", "d3-node-id-changed"}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    assert CASES["quorum-voter"].fixture == "metadata/logdir"
    copied = tmp_path / "d"
    shutil.copytree(FIXTURES / "metadata/logdir", copied)
    return copied


def diagnosed(log_dir: Path, kafka: Release = REFERENCE, **settings: str) -> Diagnosis:
    how = Examination(Circumstances(now_ms=0, kafka=kafka, config_sections=((None, settings),)))
    return examine([str(log_dir)], how)


def process(log_dir: Path, kafka: Release = REFERENCE, **settings: str) -> BrokerClaim:
    found = next(walk_claims(diagnosed(log_dir, kafka, **settings)))
    assert isinstance(found, BrokerClaim)
    return found


def whats(log_dir: Path) -> list[What]:
    return [point.what for point in diagnosed(log_dir).points]


def test_a_log_dir_that_was_formatted_does_not_start_without_meta_properties(log_dir: Path) -> None:
    """Also if nothing but bootstrap.checkpoint, or the metadata, is left: a controller of 4.4 has no other file."""
    bootstrap = (log_dir / "bootstrap.checkpoint").read_bytes()
    for path in log_dir.iterdir():
        if path.is_file():
            path.unlink()
    assert diagnosed(log_dir).starts is Starts.REFUSES
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    assert diagnosed(log_dir).starts is not Starts.REFUSES  # a folder with copies of partitions
    (log_dir / "bootstrap.checkpoint").write_bytes(bootstrap)
    assert diagnosed(log_dir).starts is Starts.REFUSES


@pytest.mark.slow
def test_a_lone_controller_with_another_directory_id_does_not_start(log_dir: Path) -> None:
    assert What.NOT_VOTER not in whats(log_dir)
    another_voter(log_dir)
    found = diagnosed(log_dir)
    assert (found.starts, found.points[0].what) == (Starts.REFUSES, What.NOT_VOTER)
    assert OLD_ID in words(found.points[0].detail)
    assert "NEVER HAS A CONTROLLER" in run_here(["doctor", str(log_dir)], log_dir).out.decode()


@pytest.mark.slow
@pytest.mark.parametrize(("roles", "is_told"), [("controller", False), ("broker,controller", True), ("", True)])
def test_a_controller_alone_has_no_replicas_to_be_taken_out(tmp_path: Path, roles: str, is_told: bool) -> None:
    """It never writes the marker of a clean stop. Without settings nobody knows whether it is a broker, too."""
    level = "FeatureLevelRecord", 0, {"name": "eligible.leader.replicas.version", "featureLevel": 1}
    disk = Disk(tmp_path, 1).voters(voter(1)).records(1, message=level)
    file = properties(1, roles=roles) if roles else {}
    notes = [words(note) for note in diagnosed(disk.path, **file).notes]
    assert any("out of ISR" in note for note in notes) is is_told


def test_a_broker_without_a_leader_ends_after_its_timeout_and_a_controller_alone_never(log_dir: Path) -> None:
    """BrokerLifecycleManager's RegistrationTimeoutEvent; a controller has none."""
    another_voter(log_dir)
    message = "Unable to register the broker because the RPC got timed out before it could be sent."
    leaderless = BrokerClaim(False, leader_elected=False, message=message)
    assert process(log_dir) == replace(leaderless, ends=True, ends_after_ms=60_000)  # the metadata has it as a broker
    servers = "controller.quorum.bootstrap.servers=h:9093"
    both = properties(1, servers, roles="broker,controller")
    waits_longer = {"initial.broker.registration.timeout.ms": "120000"}
    assert process(log_dir, **both, **waits_longer) == replace(leaderless, ends=True, ends_after_ms=120_000)
    alone, waits = properties(1, servers), "Completed transition to Unattached"
    assert process(log_dir, **alone) == replace(leaderless, ends=False, message=waits)
    assert process(log_dir, **both | {"controller.quorum.bootstrap.servers": ""}).error == "ConfigException"


@pytest.mark.slow
def test_the_option_writes_the_old_id_back(log_dir: Path) -> None:
    another_voter(log_dir)
    plan = log_dir.parent / "plan.json"
    fixed = run_here(["doctor", str(log_dir), "--fix", "--option", "1", "--plan-out", str(plan)], log_dir)
    assert (fixed.status, run_here(["apply", str(plan)], log_dir).status) == (0, 0), fixed.err
    assert f"directory.id={OLD_ID}" in (log_dir / "meta.properties").read_text()
    assert What.NOT_VOTER not in whats(log_dir)


def test_a_lost_meta_properties_is_written_with_the_voters_id(log_dir: Path) -> None:
    another_voter(log_dir)
    meta = log_dir / "meta.properties"
    meta.write_text(
        "".join(line for line in meta.read_text().splitlines(True) if "node.id" in line or "cluster" in line)
    )
    found = run_here(["verify", str(log_dir), "--format", "json"], log_dir)
    cures = [json.loads(line).get("cure") or "" for line in found.out.splitlines()]
    assert any(OLD_ID in cure for cure in cures)


def test_a_controller_that_lost_meta_properties_is_told_the_ids_of_the_voters(log_dir: Path) -> None:
    """Nothing else is in its log dir. Without the old directory.id it would vote no more."""
    another_voter(log_dir)
    for path in log_dir.iterdir():
        shutil.rmtree(
            path
        ) if path.is_dir() and path.name != "__cluster_metadata-0" else path.is_file() and path.unlink()
    assert process(log_dir).starts is False
    rows = [json.loads(line) for line in run_here(["doctor", ".", "--format", "json"], log_dir).out.splitlines()]
    (command,) = [row["command"] for row in rows if row["type"] == "option"]
    assert f"node.id=1 directory.id={OLD_ID}" in command


def test_the_id_of_a_lost_log_dir_is_the_one_that_no_other_has(tmp_path: Path) -> None:
    """A broker registers the ids of all its log dirs; one of them has no meta.properties any more."""
    ids = ["yr1z5cKLQdCJNpI1BYChFA", OLD_ID]
    registered = build_metadata_record(
        "RegisterBrokerRecord",
        3,
        {"brokerId": 1, "brokerEpoch": 5, "incarnationId": OLD_ID, "endPoints": [], "logDirs": ids},
    )
    kept, lost = tmp_path / "kept", tmp_path / "lost"
    for folder in (kept / "__cluster_metadata-0", lost):
        folder.mkdir(parents=True)
    (kept / f"__cluster_metadata-0/{0:020d}.log").write_bytes(build_batch([Record(0, 0, None, registered)]))
    (kept / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={ids[0]}\n")
    log_dirs = [LogDir(str(kept)), LogDir(str(lost))]
    lines = meta_properties_lines(str(lost / "meta.properties"), log_dirs)
    assert lines == ["version=1", "cluster.id=c", "node.id=1", f"directory.id={OLD_ID}"]
    (kept / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    assert lost_directory_id(str(lost), log_dirs, 1) is None  # it may be that of either


def test_of_two_log_dirs_with_one_id_the_one_with_the_metadata_keeps_it(log_dir: Path, tmp_path: Path) -> None:
    copied = tmp_path / "a-copy"
    copied.mkdir()
    shutil.copy(log_dir / "meta.properties", copied)
    for paths in ([log_dir, copied], [copied, log_dir]):
        found = list(verify_log_dirs([LogDir(str(path)) for path in paths]))
        assert [one.path for one in found if one.id == "meta-properties-conflict"] == [f"{copied}/meta.properties"]


WRITTEN_BY: dict[str, Release] = {"c392": "3.9.2", "c440": "4.4.0"}  # an older release ends at newer metadata


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs ../shared: it has the disks of real quorums")
@pytest.mark.parametrize("name", [] if not SAMPLES.is_dir() else sorted(path.name for path in SAMPLES.iterdir()))
def test_disks_of_real_quorums(name: str, tmp_path: Path) -> None:
    """No disk of a node that its quorum still knows alarms, and those that it does not know any more do."""
    seen: set[What] = set()
    for disk in SAMPLES.glob(f"{name}/n*"):
        if (disk / "__cluster_metadata-0").is_dir():
            found = diagnosed(disk, WRITTEN_BY.get(name.partition("-")[0], REFERENCE))
            seen |= {point.what for point in found.points} & {What.NOT_VOTER}
            assert (found.lead.elected is False) == (name in NEVER | {"s1-qs-garbage"}), disk
            assert (found.lead.elected is True) <= ("lose nothing" in headline(found) or found.points != ()), disk
    assert seen == ({What.NOT_VOTER} if name in NEVER | NOT_VOTER else set())


@pytest.mark.parametrize(("voters", "elected"), [((1,), False), ((1, 2), None), ((2,), None), ((), None)])
def test_without_its_static_voters_a_controller_has_no_leader_only_if_it_was_the_one_voter(
    voters: tuple[int, ...], elected: bool | None, tmp_path: Path
) -> None:
    disk = Disk(tmp_path, 1).records(1)
    state = QuorumState(0, 1, 1, -1, current_voters=voters)
    (disk.metadata / "quorum-state").write_bytes(build_quorum_state(state))
    (point,) = (one for one in diagnosed(disk.path, **properties(1)).points if one.what is What.NOT_VOTER)
    assert ("controller.quorum.voters=" in words(point.cure or "")) == bool(voters)  # never one voter by a guess
    assert process(disk.path, **properties(1)).leader_elected is elected


def test_a_lone_controller_with_a_damaged_log_loses_metadata_and_one_of_three_need_not(tmp_path: Path) -> None:
    """Measured: "Corruption found in segment 0, truncating to offset 3", and the cluster went on without the rest."""
    for ids, what, word in ((1,), What.TRUNCATED, "LOSE DATA"), ((1, 2, 3), What.METADATA_BEHIND, "if 2 of the"):
        disk = Disk(tmp_path / str(len(ids)), 1).voters(*map(voter, ids)).records(9, message=NOTHING)
        log = disk.metadata / f"{0:020}.log"
        data = bytearray(log.read_bytes())
        data[-100] ^= 1
        log.write_bytes(data)
        found = diagnosed(disk.path)
        assert what in [point.what for point in found.points]
        assert word in headline(found)


@pytest.mark.parametrize(("damaged", "is_offered"), [(1, False), (2, True), (4, True)])
def test_salvage_of_a_metadata_log_is_offered_if_a_start_replays_what_is_kept(
    damaged: int, is_offered: bool, tmp_path: Path
) -> None:
    """A record of a partition whose topic is not there any more ends a start: then everything is lost by a salvage."""
    about = {"partitionId": 0, "topicId": "kAhN5UfKTXmouKliDVLmuw", "replicas": [1], "isr": [1], "leader": 1}
    disk = (
        Disk(tmp_path, 1).voters(voter(1)).records(1, message=TOPIC).records(1, message=("PartitionRecord", 0, about))
    )
    disk.records(5, message=NOTHING)
    (segment,) = Partition(str(disk.metadata)).segments
    batch = list(segment.batches())[damaged]
    log = Path(segment.path)
    data = bytearray(log.read_bytes())
    data[batch.position + batch.size - 1] ^= 1
    log.write_bytes(data)
    (trouble,) = (one for one in diagnosed(disk.path).troubles if one.path == str(disk.metadata))
    commands = [words(option.command) for option in trouble.options]
    assert any(command.startswith("klogtool salvage") for command in commands) == is_offered
    assert any(command.startswith("klogtool recover") for command in commands)


def test_a_controller_that_looks_for_another_listener_ends(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1).voters(voter(1), voter(2), voter(3)).records(1)
    renamed = {name: text.replace("CONTROLLER", "CTRL") for name, text in properties(1).items()}
    assert What.ENDPOINT_STALE in [point.what for point in diagnosed(disk.path, **renamed).points]
    claim = process(disk.path, **renamed)
    assert (claim.ends, claim.message) == (True, "Encountered fatal fault: Unexpected error in raft IO thread")


def _settings_of(disk: Path) -> dict[str, str]:
    """The configuration that the node had, without its log dirs."""
    lines = (disk / "s.properties").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    return {name: value for name, value in found.items() if name != "log.dirs"}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs ../shared: it has the disks of real quorums")
def test_disks_and_settings_of_lone_controllers_beside_what_their_process_did() -> None:
    """Of one process alone its disk and its settings decide. Where a node has other voters, nothing is claimed."""
    wrong, seen = [], set()
    for outcome in sorted(SAMPLES.glob("*/expected.json")):
        disk, told = outcome.parent / "n1", json.loads(outcome.read_text())
        real = told.get("real") or told.get("cluster") or {}
        nodes = real.get("nodes")
        if outcome.parent.name in BEFORE_EDIT or not isinstance(nodes, dict) or list(nodes) != ["1"]:
            continue
        claim, exit_ = process(disk, told["kafka"], **_settings_of(disk)), nodes["1"].get("exit")
        seen.add((claim.starts, claim.ends, claim.ends_after_ms))
        if claim.ends_after_ms is not None:
            if exit_ is None:
                is_true = 1000 * real["watched_s"] < claim.ends_after_ms  # nobody saw its end
            else:
                is_true = claim.ends_after_ms <= 1000 * exit_["after_s"] <= claim.ends_after_ms + 20_000
        elif claim.ends:
            is_true = exit_ is not None and exit_["after_s"] < 30
        else:
            is_true = exit_ is None or bool(VOTERS_NEVER_SEEN & {outcome.parent.name})
        wrong += [] if is_true else [(outcome.parent.name, claim, exit_)]
    assert not wrong
    assert seen >= {(True, None, None), (False, True, 60_000), (False, True, None)}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("k1-voters-three", "the voters were 1: a leader needs 2 of those"),
        ("k3-voters-differ", "but the voters were 1, 2, 3"),
        ("d3-control process.roles=broker listeners=PLAINTEXT://:9092", "node 1 is a voter by the metadata log"),
        ("d3-control controller.quorum.bootstrap.servers=h:9", "this node finds no leader"),
        ("d3-control controller.quorum.voters=1@h:9", "those of the log count"),
    ],
)
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs ../shared: it has the disks of real quorums")
def test_settings_that_contradict_the_metadata_log_are_said(name: str, word: str) -> None:
    name, *changed = name.split(" ")
    asked = [
        (disk, _settings_of(disk) | dict(line.split("=", 1) for line in changed)) for disk in SAMPLES.glob(f"{name}/n*")
    ]
    assert any(word in words(note) for disk, settings in asked for note in diagnosed(disk, **settings).notes)


def test_who_may_end_beside_a_second_leader_does_not_start_for_sure(tmp_path: pathlib.Path) -> None:
    """Measured: node 1 led by its own voters, another one by the old ones, in one epoch; nodes that fetched from both
    ended ("Unexpected offset in append")."""
    known = {n: [voter(id) for id in ([1] if n == 1 else [1, 2, 3])] for n in (1, 2, 3)}
    disks = [Disk(tmp_path, n).voters(*voters).records(3) for n, voters in known.items()]
    for disk in disks:
        others = tuple((str(other.path), properties(other.node_id)) for other in disks if other is not disk)
        how = Examination(
            Circumstances(now_ms=0, config_sections=((None, properties(disk.node_id)),)), controllers=others
        )
        claim = next(walk_claims(examine([str(disk.path)], how)))
        assert isinstance(claim, BrokerClaim)
        assert (claim.leader_elected, claim.starts) == (True, None)


@pytest.mark.parametrize(("named", "is_sure"), [((1,), True), ((1, 2, 3), False)])
def test_who_has_a_record_of_voters_in_a_static_quorum_may_end(
    named: tuple[int, ...], is_sure: bool, tmp_path: Path
) -> None:
    """Measured, 3.9.2: node 1 led by its record; the others elected node 3 by their settings, and node 1 ended (The
    leader requested truncation to offset 20, which is below the current high watermark)."""
    disk = Disk(tmp_path, 1).log(control_batch(0, 1, [voter(1)], 0), *(data_batch(n, 1) for n in (2, 3)))
    claim = process(disk.path, **properties(1, static(*named)))
    assert (claim.leader_elected, claim.starts) == (True, True if is_sure else None)
