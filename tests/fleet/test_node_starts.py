"""What the doctor says of each disk counts in the verdict for a set: the forecast is never rosier than its claims."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable

import pytest
from fleet.test_restored import ALL_EQUAL, with_voters
from fleets import FIRST_MS, collect_broker, make_fleet
from msgspec.structs import replace
from running import run_here

from klogtool.broker.circumstances import Circumstances
from klogtool.cli.show import header
from klogtool.doctor.answers import Starts
from klogtool.doctor.claim_list import walk_claims
from klogtool.doctor.claims import PartitionClaim
from klogtool.doctor.rehearsal import Examination, examine
from klogtool.fleet.collected import Collected, CopyFacts
from klogtool.fleet.forecast import LossReason
from klogtool.fleet.framed import CollectedFiles, walk_lines
from klogtool.fleet.node_starts import with_claims
from klogtool.fleet.planning import make_fleet_plan
from klogtool.fleet.restored import Restored, RestoreStep, judge_set, walk_options
from klogtool.fleet.restored_identity import SetProblem
from klogtool.format.checkpoints import build_offset_checkpoint
from klogtool.format.identity import CleanShutdown, build_clean_shutdown
from klogtool.format.names import TopicPartition
from klogtool.render.fleet_restored import restored_rows, restored_text
from klogtool.render.words import in_words, words

SETS = 60
LOG = "t-0/00000000000000000000.log"


def tear(disk: pathlib.Path, chance: random.Random) -> None:
    """The end of the log is cut short."""
    data = (disk / LOG).read_bytes()
    (disk / LOG).write_bytes(data[: -chance.randint(1, len(data) // 2)])


def zero(disk: pathlib.Path, chance: random.Random) -> None:
    """The end of the log is zeros."""
    data = (disk / LOG).read_bytes()
    torn = chance.randint(1, len(data) // 2)
    (disk / LOG).write_bytes(data[:-torn] + bytes(torn))


def flip(disk: pathlib.Path, chance: random.Random) -> None:
    """A bit in the middle is wrong, below the recovery point or not."""
    data = bytearray((disk / LOG).read_bytes())
    data[chance.randrange(len(data))] ^= 1
    (disk / LOG).write_bytes(data)
    if chance.random() < 0.5:
        line = {TopicPartition("t", 0): chance.choice((0, 60))}
        (disk / "recovery-point-offset-checkpoint").write_bytes(build_offset_checkpoint(line))


def close_falsely(disk: pathlib.Path, chance: random.Random) -> None:
    """The clean marker is of an earlier stop, so that no start checks what is damaged since then."""
    (disk / ".kafka_cleanshutdown").write_bytes(build_clean_shutdown(CleanShutdown(0, 5)))
    chance.choice((tear, zero, flip))(disk, chance)


def start_beyond(disk: pathlib.Path, chance: random.Random) -> None:
    """The log start is in the log, or beyond its end."""
    line = {TopicPartition("t", 0): chance.choice((20, 59, 61, 1000))}
    (disk / "log-start-offset-checkpoint").write_bytes(build_offset_checkpoint(line))


def lose_checkpoint(disk: pathlib.Path, chance: random.Random) -> None:
    """A checkpoint of the log dir or of the partition cannot be read."""
    names = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "t-0/leader-epoch-checkpoint")
    (disk / chance.choice(names)).write_bytes(chance.choice((b"no checkpoint\n", b"0\n1\nt 0", b"\xff\xfe")))


def folder_for_file(disk: pathlib.Path, chance: random.Random) -> None:
    """A folder stands where a file is to be."""
    path = disk / chance.choice(("recovery-point-offset-checkpoint", "t-0/00000000000000000000.index"))
    path.unlink()
    path.mkdir()


def set_aside(disk: pathlib.Path, chance: random.Random) -> None:
    """The log has a name that no broker reads."""
    (disk / LOG).rename(disk / f"{LOG}.bak")


WOUNDS: list[Callable[[pathlib.Path, random.Random], None]] = [
    tear,
    zero,
    flip,
    close_falsely,
    start_beyond,
    lose_checkpoint,
    folder_for_file,
    set_aside,
]


def examined(
    root: pathlib.Path, wound: Callable[[dict[int, pathlib.Path]], None], text: str = ALL_EQUAL
) -> tuple[list[Collected], dict[str, PartitionClaim]]:
    """The files of a set whose disks are wounded, with what the doctor says of each, and its claims by path."""
    fleet, log_dirs = make_fleet(text, root)
    wound({node: paths[0] for node, paths in log_dirs.items()})
    how, files, claims = Examination(Circumstances(now_ms=FIRST_MS), jobs=1), [], {}
    for paths in log_dirs.values():
        diagnosis = examine(list(map(str, paths)), how)
        file = with_claims(with_voters(collect_broker(paths, fleet), (1, 2, 3)), diagnosis)
        files.append(
            CollectedFiles().parse([line.encode() for line in walk_lines(header("fleet collect"), file.rows())], "x")
        )
        claims |= {claim.path: claim for claim in walk_claims(diagnosis) if isinstance(claim, PartitionClaim)}
    return files, claims


def sound(copy: CopyFacts) -> set[int]:
    """The offsets of the records that a copy has, by its facts."""
    lost = {n for hole in copy.holes for n in range(hole.first, (hole.last or hole.first) + 1)}
    return set(range(copy.log_start_offset, copy.log_end_offset)) - lost


def served(claim: PartitionClaim) -> set[int]:
    """The offsets that clients get after the start, as the doctor claims."""
    first, end = claim.log_start_offset, claim.log_end_offset
    if first is None or end is None:
        return set()
    hidden = {offset for low, high in claim.hidden.ranges for offset in range(low, high + 1)}
    return set(range(first, end)) - hidden


def test_the_forecast_is_never_rosier_than_the_claims(tmp_path: pathlib.Path) -> None:
    """Whoever may lead: what the best copy has and this one does not serve, by the doctor, is within the bound."""
    judged = 0
    for seed in range(SETS):
        chance = random.Random(seed)

        def wound(disks: dict[int, pathlib.Path], chance: random.Random = chance) -> None:
            for node in chance.sample(sorted(disks), chance.choice((1, 2, 3))):
                chance.choice(WOUNDS)(disks[node], chance)

        files, claims = examined(tmp_path / str(seed), wound)
        restored = judge_set(files)
        worst = max((node.starts for node in restored.nodes), key=list(Starts).index)
        assert list(Starts).index(restored.starts) >= list(Starts).index(worst), seed
        if restored.starts is Starts.REFUSES:
            continue
        (forecast,) = restored.forecasts
        if forecast.lost_records is None:
            continue
        has = set().union(*(sound(copy) for file in files for copy in file.copies))
        for node in forecast.may_lead:
            claim = claims[f"{files[node - 1].broker.log_dirs[0].path}/t-0"]
            deleted = claim.log_start_offset or 0  # on purpose, if the log reaches so far
            lost = {n for n in has - served(claim) if deleted > 60 or n >= deleted}
            assert len(lost) <= forecast.lost_records, (seed, node, lost, forecast, claim)
            judged += 1
    assert judged > SETS, judged


def alone(root: pathlib.Path, wound: Callable[[pathlib.Path], None], text: str = ALL_EQUAL) -> Restored:
    """The verdict if the first disk has this wound."""
    return judge_set(examined(root, lambda disks: wound(disks[1]), text)[0])


@pytest.mark.parametrize(
    ("wound", "reason", "records"),
    [
        (lambda disk: start_beyond(disk, Fixed(1000)), LossReason.START_LOSES, 60),
        (lambda disk: start_beyond(disk, Fixed(20)), None, 0),
        (lambda disk: tear(disk, Fixed(1)), LossReason.OLDER_LEADER, 1),
        (lambda disk: (disk / LOG).rename(disk / f"{LOG}.bak"), LossReason.OLDER_LEADER, 60),
    ],
)
def test_what_one_start_loses_counts(
    wound: Callable[[pathlib.Path], None], reason: LossReason | None, records: int, tmp_path: pathlib.Path
) -> None:
    restored = alone(tmp_path, wound)
    told = [(loss.reason, loss.node_id, loss.records) for one in restored.forecasts for loss in one.losses]
    assert ((reason, 1, records) in told) == (reason is not None), (told, restored.nodes)
    if reason is LossReason.START_LOSES:
        assert next(walk_options(restored)).step is RestoreStep.DOCTOR


def test_without_the_doctor_a_log_start_beyond_all_records_is_unknown(tmp_path: pathlib.Path) -> None:
    """A file of `fleet collect` shows it, and not what it costs. After delete-records the high watermark is there."""
    for offset, lost in ((1000, None), (60, 0), (20, 0)):
        text = ALL_EQUAL.replace("end 60", "end 60 hw 60")

        def wound(disks: dict[int, pathlib.Path], offset: int = offset) -> None:
            start_beyond(disks[1], Fixed(offset))

        files, _ = examined(tmp_path / str(offset), wound, text)
        (forecast,) = judge_set([without_claims(file) for file in files]).forecasts
        assert forecast.lost_records == lost, (offset, forecast)


def without_claims(file: Collected) -> Collected:
    """As files were before they had claims."""
    copies = tuple(replace(copy, started=None) for copy in file.copies)
    return replace(file, broker=replace(file.broker, start=None), copies=copies)


def test_files_of_the_same_path_are_not_mixed_up(tmp_path: pathlib.Path) -> None:
    """Log dirs have the same path on every broker. What the doctor said of one counts for that one."""
    here = [
        replace(file, copies=tuple(replace(copy, log_dir="/d") for copy in file.copies))
        for file in examined(tmp_path, lambda disks: start_beyond(disks[1], Fixed(1000)))[0]
    ]
    (forecast,) = judge_set([here[0], without_claims(here[1]), here[2]]).forecasts
    assert [(loss.reason, loss.node_id) for loss in forecast.losses] == [(LossReason.START_LOSES, 1)]


def test_the_nodes_are_marked(tmp_path: pathlib.Path) -> None:
    """The text names the nodes whose start loses something, and what to run."""
    restored = alone(tmp_path, lambda disk: start_beyond(disk, Fixed(1000)))
    lines = list(restored_text(restored, "klogtool fleet check --restored"))
    (marked,) = [line for line in lines if line.startswith("DOCTOR ")]
    assert marked.startswith(
        "DOCTOR   node 1: by its own disks it starts and loses; lost: 60 records: klogtool doctor /"
    )
    assert "  node 1     may lead, and its own start loses or hides records; offsets 0 to 59" in lines
    assert "1. What is marked DOCTOR: klogtool doctor has options for each of these nodes. Then check again." in lines
    rows = {row["type"]: row for row in restored_rows(restored)}
    assert (rows["node"]["node_id"], rows["forecast"]["best"]) == (3, 2)


class Fixed(random.Random):
    """It draws always the same."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.value = value

    def choice(self, _: object) -> int:  # type: ignore[override]
        return self.value

    def randint(self, _: int, __: int) -> int:
        return self.value


def test_a_broker_that_ends_refuses_the_set(tmp_path: pathlib.Path) -> None:
    """Its meta.properties are of a version that nobody reads: it ends, whatever the other nodes do."""

    def wound(disk: pathlib.Path) -> None:
        (disk / "meta.properties").write_bytes(b"version=7\n")

    restored = alone(tmp_path, wound)
    assert restored.starts is Starts.REFUSES
    assert SetProblem.BROKER_ENDS in {trouble.problem for trouble in restored.troubles}


def test_what_only_an_offline_log_dir_has_is_lost(tmp_path: pathlib.Path) -> None:
    """A log dir of two fails: its copy leads nowhere, and the broker goes on with the other one."""
    first, _, others = ALL_EQUAL.partition("broker 2")
    text = first.replace("broker 1", "broker 1\n  disk d2") + "broker 2" + others.replace("end 60", "end 50")
    for name in ("leader-epoch-checkpoint", "partition.metadata"):

        def wound(disk: pathlib.Path, name: str = name) -> None:
            (disk / "t-0" / name).unlink()
            (disk / "t-0" / name).mkdir()

        restored = alone(tmp_path / name, wound, text)
        (forecast,) = restored.forecasts
        told = [(loss.reason, loss.node_id, loss.records) for loss in forecast.losses]
        # Without its topic id nobody knows that the others have the same records.
        records = 10 if name == "leader-epoch-checkpoint" else 60
        assert (told, forecast.may_lead) == ([(LossReason.LOG_DIR_OFFLINE, 1, records)], (2, 3)), name
        assert [trouble.problem for trouble in restored.troubles] == [SetProblem.LOG_DIR_OFFLINE]


def test_a_copy_that_its_start_deletes_never_leads(tmp_path: pathlib.Path) -> None:
    """Of the highest end it has nothing. It is set aside, so that its broker fetches all anew, and does not lead."""
    text = ALL_EQUAL.replace("end 60", "end 60 hw 60")
    files, _ = examined(tmp_path, lambda disks: start_beyond(disks[1], Fixed(1000)), text)
    plan = make_fleet_plan(files)
    (choice,) = plan.choices
    assert choice.leader in (2, 3)
    assert {share.placed.node_id: share.action for share in choice.shares}[1] == "set-aside"
    assert 1 in choice.rivals
    assert any("its start deletes them" in words(problem) for problem in choice.problems)
    saved, disk = tmp_path / "plan.klog", tmp_path / "b1" / "d1"
    saved.write_bytes(
        b"".join(line.encode() + b"\n" for line in walk_lines(header("fleet plan"), map(in_words, plan.rows())))
    )
    done = run_here(["fleet", "apply", str(saved), str(disk), "--apply"], tmp_path)
    assert done.status == 0, done.err
    assert [path.name for path in disk.iterdir() if path.is_dir()] == []
