"""What lies before the first segment, by the leader epochs: doctor, recover, verify and salvage have one judge, and a
copy brings back what they name."""

from __future__ import annotations

import json
import pathlib
import random
import shutil
from typing import Any

import pytest
from running import FIXTURES, run_here

SOURCE = FIXTURES / "transactions" / "logdir"
BASES = (0, 7, 36, 38)
NOW = ("--now", "1800000000000")
POLICIES = ((), (), ("--config", "cleanup.policy=delete"), ("--config", "cleanup.policy=compact"))


def rows(command: str, disks: pathlib.Path, *words: str) -> list[dict[str, Any]]:
    done = run_here([*command.split(), *NOW, *words, "--format", "json"], disks)
    assert done.status in (0, 1), done.err
    return [row for line in done.out.splitlines() if (row := json.loads(line))["type"] != "klogtool"]


def offsets(spans: list[Any]) -> set[int]:
    pairs = [span if isinstance(span, list) else (span["first_offset"], span["last_offset"]) for span in spans]
    return {offset for low, high in pairs for offset in range(low, high + 1)}


def begins(partition: pathlib.Path) -> int:
    return min(int(path.stem) for path in partition.glob("*.log"))


@pytest.mark.some(12)
@pytest.mark.parametrize("seed", range(90))
def test_one_judge_of_what_lies_before_the_first_segment(seed: int, tmp_path: pathlib.Path) -> None:
    rng, disks = random.Random(seed), tmp_path / "disks"
    log_dir, partition = disks / "logdir", disks / "logdir/t-0"
    shutil.copytree(SOURCE, log_dir)
    first = rng.choice(BASES[1:])
    for path in sorted(partition.glob("0*")):
        if int(path.name[:20]) < first and (path.suffix == ".log" or rng.random() < 0.8):
            path.rename(f"{path}.deleted") if path.suffix == ".log" and rng.random() < 0.2 else path.unlink()
    (partition / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {rng.choice([0, 0, 0, 3, first])}\n")
    if rng.random() < 0.5:
        (log_dir / ".kafka_cleanshutdown").unlink()
    start = rng.choice([0, 0, 5, first])
    if start:
        (log_dir / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    words = rng.choice(POLICIES)
    answer = rows("recover logdir/t-0", disks, *words)[0]["answer"]
    perhaps = offsets(answer.get("perhaps_missing", []))
    assert not perhaps & offsets(answer["missing"])
    claims = (row for row in rows("doctor logdir", disks, *words) if row.get("about") == "partition")
    (gone,) = (row["gone_already"] for row in claims if row["path"].endswith("/t-0"))
    assert offsets(gone["perhaps"]) == perhaps
    found = [row for row in rows("verify logdir/t-0", disks, *words) if row.get("id") == "segment-gap"]
    notes = [row for row in found if row["last_offset"] < first]
    assert (offsets(notes), {row["severity"] for row in notes}) == (perhaps, {"info"} if perhaps else set())
    kept = rows("salvage logdir/t-0", disks, *words)[0]["answer"]
    assert offsets(kept.get("perhaps_missing", [])) == perhaps
    assert not perhaps & offsets(kept["lost"])
    indexes = {int(path.stem) for path in partition.glob("*.*index")} - set(BASES[BASES.index(first) :])
    is_told = indexes or list(partition.glob("*.deleted")) or "cleanup.policy=compact" in words or start
    if not is_told:
        lowest = int((partition / "leader-epoch-checkpoint").read_text().split()[-1])
        assert perhaps == set(range(lowest, first))
    copied = rows("salvage logdir/t-0", disks, *words, "--replica", str(SOURCE / "t-0"))[0]["answer"]
    assert "perhaps_missing" not in copied
    assert perhaps <= offsets(copied["filled"])
    assert not perhaps & offsets(copied["lost"])


def test_a_log_that_is_sound_as_far_as_the_disk_tells(tmp_path: pathlib.Path) -> None:
    """It says what is unknown, and that is no failure."""
    partition = shutil.copytree(SOURCE / "t-0", tmp_path / "t-0")
    for path in partition.glob(f"{0:020d}.*"):
        path.unlink()
    plain = {words: run_here([*words, "t-0", *NOW], tmp_path) for words in (("recover",), ("verify", "--notes"))}
    assert {done.status for done in plain.values()} == {0}
    for done in plain.values():
        assert "the disk does not tell" in done.out.decode() or "somebody removed segments" in done.out.decode()


@pytest.mark.parametrize("ending", ["", ".deleted", ".cleaned", ".swap"])
def test_a_folder_without_a_segment(ending: str, tmp_path: pathlib.Path) -> None:
    """Nothing begins there, and no command ends with a traceback."""
    partition = shutil.copytree(SOURCE / "t-0", tmp_path / "t-0")
    for path in partition.glob("*.log"):
        path.rename(f"{path}{ending}") if ending else path.unlink()
    changes = ("retain", "compact --force", "roll --force", "truncate --to 40", "delete-records --before 9", "free")
    for command in ("recover", "verify", "salvage", "rebuild-index", *changes):
        name, *words = command.split()
        done = run_here([name, "t-0", *words, *NOW], tmp_path)
        assert done.status in (0, 1, 2, 3, 4), (command, done.err)
        assert "Traceback" not in done.err, (command, done.err)
