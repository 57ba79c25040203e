"""What somebody gave up is told until the run is taken back, or discarded."""

from __future__ import annotations

import json
import pathlib
import random
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence

import pytest
from asking_doctor import asked, wounded
from damage import frames_of
from loading import segment
from msgspec.structs import replace
from running import FIXTURES, run_here
from startup import SCENARIOS, Scenario

from klogtool.disk.disk import Disk
from klogtool.disk.journal import save_manifest, walk_entries
from klogtool.disk.manifest import Progress


def notes(disks: pathlib.Path, scenario: Scenario) -> list[str]:
    (verdict,) = (row for row in asked(disks, scenario) if row["type"] == "verdict")
    return [note for note in verdict["notes"] if "lowered the lines" in note]


@pytest.mark.parametrize("way", ["taken back", "discarded"])
def test_what_was_given_up_is_told(tmp_path: pathlib.Path, way: str) -> None:
    scenario = SCENARIOS["5 high watermark beyond the end"]
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    (number,) = (row["number"] for row in rows if row.get("about") == "option" and row["erases_witness"])
    (missing,) = (row for row in rows if row.get("what") == "missing")
    words = ["doctor", *scenario.log_dirs, "--now", "1800000000000", "--fix", "--option", str(number)]
    assert run_here([*words, "--plan-out", "../plan.json"], disks).status == 0
    assert notes(disks, scenario) == []
    assert run_here(["apply", "../plan.json"], disks).status == 0
    (note,) = notes(disks, scenario)
    assert note.startswith(
        f"t-0 has lost the records that were at offsets {missing['first_offset']} to {missing['last_offset']}: run "
    )
    forgets = note.partition("(klogtool ")[2].partition(" forgets it")[0]
    assert run_here(shlex.split(forgets) if way == "discarded" else ["undo", "d1"], disks).status == 0
    assert notes(disks, scenario) == []


@pytest.mark.parametrize(
    ("progress", "goes_on"), [(Progress.STAGED, ["apply --resume", "undo"]), (Progress.UNDOING, ["undo"])]
)
def test_a_run_that_was_cut_short_is_told_before_a_broker_starts(
    tmp_path: pathlib.Path, progress: Progress, goes_on: list[str]
) -> None:
    scenario = SCENARIOS["3 directory.id missing"]
    disks = wounded(scenario, tmp_path / "disks")
    assert run_here(["roll", "d1/t-0", "--force", "--apply", "--now", "1800000000000"], disks).status == 0
    (entry,) = walk_entries(str(disks / "d1.klogtool"))
    manifest = entry.manifest()
    assert manifest is not None
    words = ["doctor", *scenario.log_dirs, "--now", "1800000000000", "--fail-on", "loss"]
    assert run_here(words, disks).status == 0
    save_manifest(Disk(), entry, replace(manifest, progress=progress))
    done = run_here([*words, "--format", "json"], disks)
    (verdict,) = (row for line in done.out.splitlines() if (row := json.loads(line))["type"] == "verdict")
    (note,) = (note for note in verdict["notes"] if "cut short" in note)
    assert done.status == 1
    assert entry.id in note
    assert re.findall(r"klogtool ([a-z -]+) [0-9a-f]{12}-\d --journal", note) == goes_on
    (back,) = re.findall(r"klogtool (undo \S+ --journal \S+)", note)
    assert run_here(shlex.split(back), disks).status == 0
    assert run_here(words, disks).status == 0


def lacking(disks: pathlib.Path) -> list[str]:
    answer = run_here(["doctor", "logdir", "--format", "json", "--now", "1800000000000"], disks).out
    (verdict,) = (row for line in answer.splitlines() if (row := json.loads(line))["type"] == "verdict")
    return [note for note in verdict["notes"] if " lacked " in note]


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("doctor logdir --fix --plan-out ../plan.json", "offset 47"),  # salvage; 47 is damaged
        ("recover logdir/flip-bit-0 --plan-out ../plan.json", "offsets 47 to 70"),
    ],
)
def test_what_a_run_left_out_is_told(way: str, told: str, tmp_path: pathlib.Path) -> None:
    """What is left then looks as a log cleaner leaves it, and the checkpoints fit."""
    disks = tmp_path / "disks"
    shutil.copytree(FIXTURES / "killed-mid-append/logdir", disks / "logdir")
    assert run_here([*way.split(), "--now", "1800000000000"], disks).status in (0, 1)
    assert lacking(disks) == []
    assert run_here(["apply", "../plan.json"], disks).status in (0, 1)  # 1: it tells what is lost
    (note,) = lacking(disks)
    assert note.startswith(f"flip-bit-0 lacked {told} after run ")
    forgets = note.partition("(klogtool ")[2].partition(" forgets it")[0]
    assert run_here(shlex.split(forgets), disks).status == 0
    assert lacking(disks) == []


@pytest.mark.parametrize(
    ("base", "suffix", "told"),
    [(0, ".log.swap", "offsets 8 to 15"), (16, ".log.cleaned", "offsets 16 to 23")],
    ids=["a .swap without the end of its segment", "the only copy of the log's end"],
)
def test_what_a_left_over_cost_is_told(base: int, suffix: str, told: str, tmp_path: pathlib.Path) -> None:
    disks, partition = tmp_path / "disks", tmp_path / "disks/logdir/t-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020d}.log").write_bytes(segment(0, 16))
    (partition / f"{base:020d}{suffix}").write_bytes(segment(base, 8))
    assert run_here(["recover", "logdir/t-0", "--apply", "--now", "1800000000000"], disks).status == 1
    (note,) = lacking(disks)
    assert note.startswith(f"t-0 lacked {told} after run ")
    assert run_here(["undo", "logdir"], disks).status == 0
    assert lacking(disks) == []


@pytest.mark.parametrize(
    "command",
    [
        "delete-records logdir/t-0 --before 10",
        "retain logdir/t-0 --config retention.ms=-1",
        "compact logdir/t-0 --config cleanup.policy=compact",
        "truncate logdir/t-0 --to 30",
        "roll logdir/t-0",
    ],
)
def test_a_change_of_a_log_forgets_no_witness(command: str, tmp_path: pathlib.Path) -> None:
    """The log's last segment is gone. The stop after the change lowers the checkpoints that show it."""
    disks = tmp_path / "disks"
    shutil.copytree(FIXTURES / "transactions/logdir", disks / "logdir")
    for path in (disks / "logdir/t-0").glob(f"{38:020d}.*"):
        path.unlink()
    assert missing_of(disks) == [[38, 61]]
    assert run_here([*command.split(), "--now", "1800000000000", "--apply"], disks).status == 1
    assert missing_of(disks) == []
    (note,) = lacking(disks)
    assert note.startswith("t-0 lacked offsets 38 to 61 after run ")
    assert run_here(["undo", "logdir"], disks).status == 0
    assert (missing_of(disks), lacking(disks)) == ([[38, 61]], [])


CHECKPOINTS = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint")


def missing_of(disks: pathlib.Path) -> list[list[int]]:
    """What the claim about t-0 says to be gone already."""
    answer = run_here(["doctor", "logdir", "--format", "json", "--now", "1800000000000"], disks).out
    rows = map(json.loads, answer.splitlines())
    (claim,) = (row for row in rows if row.get("about") == "partition" and row["path"].endswith("/t-0"))
    return list(claim["gone_already"]["ranges"] or ())


@pytest.mark.some(6)
@pytest.mark.parametrize("seed", range(24))
def test_a_rebuilding_forgets_no_witness(tmp_path: pathlib.Path, seed: int) -> None:
    """Segments or the log's end are gone, and some of what showed it: the plan says what it removes, the doctor tells
    it until the run is taken back."""
    rng, disks = random.Random(seed), tmp_path / "disks"
    partition = disks / "logdir/t-0"
    shutil.copytree(FIXTURES / "transactions/logdir", disks / "logdir")
    for name in CHECKPOINTS:
        (disks / "logdir" / name).unlink(missing_ok=True)
    logs = sorted(partition.glob("*.log"))
    cut = logs[rng.randrange(1, len(logs)) :]
    for path in cut[rng.randrange(2) :]:
        path.unlink()
        if rng.random() < 0.5:
            path.with_suffix(".index").unlink()
            path.with_suffix(".timeindex").unlink()
    if cut[0].exists():
        data = cut[0].read_bytes()
        frames = list(frames_of(data))
        cut[0].write_bytes(data[: rng.choice(frames).position])
        cut[0].with_suffix(".index").unlink(missing_ok=True)
    before = missing_of(disks)
    words = ["rebuild-index", "logdir/t-0", "--now", "1800000000000"]
    shown = run_here(words, disks).out.decode()
    assert run_here([*words, "--apply"], disks).status == 0
    after, told = missing_of(disks), lacking(disks)
    assert ("shows that offsets" in shown) is bool(told)
    if after != before:
        (note,) = told
        first, last = before[0][0], before[-1][1]
        assert f"offsets {max(first, after[-1][1] + 1 if after else 0)} to {last}" in note


DOUBTFUL = [
    "compact logdir/t-0 --force --config cleanup.policy=delete",
    "compact logdir/t-0 --config cleanup.policy=compact",
    "transplant logdir/t-0 --forget-open-transactions",
    "retain logdir/t-0 --config retention.ms=-1 --config cleanup.policy=delete",
    "roll logdir/t-0 --force",
    "recover logdir/t-0",
    "rebuild-index logdir/t-0",
]


@pytest.mark.parametrize("command", DOUBTFUL, ids=lambda command: command.split()[0])
def test_no_plan_erases_a_doubt_in_silence(tmp_path: pathlib.Path, command: str) -> None:
    """The first segment is gone, with its indexes: by retention or a person, and the leader epochs alone tell of it."""
    disks = tmp_path / "disks"
    shutil.copytree(FIXTURES / "transactions/logdir", disks / "logdir")
    for path in (disks / "logdir/t-0").glob(f"{0:020d}.*"):
        path.unlink()
    assert perhaps_missing(disks) == [[0, 6]]
    done = run_here([*command.split(), "--now", "1800000000000", "--apply"], disks)
    assert done.status == 0
    is_told = "offsets 0 to 6, before the first segment" in " ".join(done.out.decode().split())
    assert is_told or perhaps_missing(disks) == [[0, 6]]


def perhaps_missing(disks: pathlib.Path) -> list[list[int]]:
    answer = run_here(["doctor", "logdir", "--format", "json", "--now", "1800000000000"], disks).out
    rows = map(json.loads, answer.splitlines())
    (claim,) = (row for row in rows if row.get("about") == "partition" and row["path"].endswith("/t-0"))
    return list(claim["gone_already"].get("perhaps") or ())


CHANGES = {
    "delete-records logdir/t-0 --before 10 --config cleanup.policy=delete": (10, 1 << 62),
    "retain logdir/t-0 --config retention.ms=-1 --config cleanup.policy=delete": (0, 1 << 62),
    "compact logdir/t-0 --config cleanup.policy=compact": (0, 1 << 62),
    "compact logdir/t-0 --force --config cleanup.policy=delete": (0, 1 << 62),
    "compact logdir --config cleanup.policy=compact": (0, 1 << 62),
    "truncate logdir/t-0 --to 58": (0, 57),
    "roll logdir/t-0 --force": (0, 1 << 62),
    "recover logdir/t-0": (0, 1 << 62),
    "rebuild-index logdir/t-0": (0, 1 << 62),
    "salvage logdir/t-0": (0, 1 << 62),
    "transplant logdir/t-0 --forget-open-transactions": (0, 1 << 62),
}
REFUSED = "leftover|not transplanted"  # rebuild-index wants a recovery first, transplant a salvage
IN_PLAN = "t-0: MISSING|shows that offsets|are missing: no segment has them"


def offsets_of(ranges: Iterable[Sequence[int]]) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


def not_told(disks: pathlib.Path) -> set[int]:
    """Offsets of t-0 that the doctor says to be gone, or to be lost by a start."""
    answer = run_here(["doctor", "logdir", "--format", "json", "--now", "1800000000000"], disks).out
    rows = map(json.loads, answer.splitlines())
    (claim,) = (row for row in rows if row.get("about") == "partition" and row["path"].endswith("/t-0"))
    return offsets_of(claim["gone_already"]["ranges"] or ()) | offsets_of(claim["lost"]["ranges"])


@pytest.mark.some(18)
@pytest.mark.parametrize("seed", range(144))
def test_no_plan_erases_a_witness_in_silence(tmp_path: pathlib.Path, seed: int) -> None:
    """A segment is gone, or has the name of a left-over. What the doctor told before a command, and not after it, is in
    the plan, and the doctor tells it from the journal until the run is taken back."""
    rng, disks = random.Random(seed), tmp_path / "disks"
    log_dir, partition = disks / "logdir", disks / "logdir/t-0"
    shutil.copytree(FIXTURES / "transactions/logdir", log_dir)
    gone = rng.choice(sorted(partition.glob("*.log"))[:3])
    if rng.random() < 0.3:
        gone.rename(f"{gone}{rng.choice(('.deleted', '.cleaned'))}")
    else:
        gone.unlink()
    for side in (".index", ".timeindex", ".txnindex"):
        if rng.random() < 0.5:
            gone.with_suffix(side).unlink(missing_ok=True)
    if rng.random() < 0.3:
        (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 36\n")
    if rng.random() < 0.5:
        (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 7\n")
    if rng.random() < 0.3:
        (log_dir / ".kafka_cleanshutdown").unlink()
    command = rng.choice(list(CHANGES))
    lowest, highest = CHANGES[command]
    before = not_told(disks)
    is_applied_later = command.startswith("salvage")
    how = ["--plan-out", "plan.json"] if is_applied_later else ["--apply"]
    done = run_here([*command.split(), "--now", "1800000000000", *how], disks)
    if done.status == 3:
        assert re.search(REFUSED, done.err)
        return
    assert done.status in (0, 1)
    if is_applied_later:
        assert run_here(["apply", "plan.json"], disks).status == done.status
    erased = {each for each in before - not_told(disks) if lowest <= each <= highest}
    noted = [note.partition(" lacked ")[2].partition(" after ")[0] for note in lacking(disks)]
    told = offsets_of([ends for note in noted for ends in ranges_in(note)])
    assert erased <= told
    assert bool(erased) <= bool(re.search(IN_PLAN, " ".join(done.out.decode().split())))
    assert run_here(["undo", "logdir"], disks).status == 0
    assert (not_told(disks), lacking(disks)) == (before, [])


def ranges_in(note: str) -> Iterator[tuple[int, int]]:
    """The ranges that words such as "offset 4, offsets 7 to 9" name."""
    for part in re.findall(r"\d+(?: to \d+)?", note):
        first, _, last = part.partition(" to ")
        yield int(first), int(last or first)
