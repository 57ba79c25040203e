"""What is missing before the first segment, by the leader epochs: doctor, recover, verify and salvage have one judge,
and a copy brings back what they name."""

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


def rows(command: str, disks: pathlib.Path, *words: str) -> list[dict[str, Any]]:
    done = run_here([*command.split(), *NOW, *words, "--format", "json"], disks)
    return [row for line in done.out.splitlines() if (row := json.loads(line))["type"] != "klogtool"]


def below(spans: list[dict[str, Any]], first: int) -> list[list[int]]:
    found = ([span["first_offset"], span["last_offset"]] for span in spans)
    return sorted(span for span in found if span[1] < first)


def covers(ranges: list[list[int]], others: list[list[int]]) -> bool:
    """Whether the offsets of the others are all in these ranges."""
    there = {offset for low, high in ranges for offset in range(low, high + 1)}
    return all(offset in there for low, high in others for offset in range(low, high + 1))


@pytest.mark.some(12)
@pytest.mark.parametrize("seed", range(60))
def test_one_judge_of_what_is_missing_before_the_first_segment(seed: int, tmp_path: pathlib.Path) -> None:
    rng, disks = random.Random(seed), tmp_path / "disks"
    log_dir, partition = disks / "logdir", disks / "logdir/t-0"
    shutil.copytree(SOURCE, log_dir)
    first = rng.choice(BASES[1:])
    gone = [base for base in BASES if base < first]
    for path in sorted(partition.glob("0*")):
        base = int(path.name[:20])
        if base in gone and (path.suffix == ".log" or rng.random() < 0.8):
            if path.suffix == ".log" and rng.random() < 0.2:
                path.rename(path.with_name(path.name + ".deleted"))
            else:
                path.unlink()
    begins = rng.choice([0, 0, 0, 3, first])
    (partition / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {begins}\n")
    if (start := rng.choice([0, 0, 5, first])) != 0:
        (log_dir / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    words = rng.choice([(), (), ("--config", "cleanup.policy=delete"), ("--config", "cleanup.policy=compact")])
    (recovery,) = rows("recover logdir/t-0", disks, *words)
    missing = recovery["answer"]["missing"]
    by_recover = below(missing, first)
    by_epochs = below([gap for gap in missing if gap["told_by"] == "leader-epoch-checkpoint"], first)
    by_verify = below(
        [row for row in rows("verify logdir/t-0", disks, *words) if row.get("id") == "segment-gap"], first
    )
    assert covers(by_verify, by_epochs)
    assert covers(by_recover, by_verify)
    claims = (row for row in rows("doctor logdir", disks, *words) if row.get("about") == "partition")
    (gone_already,) = (row["gone_already"] for row in claims if row["path"].endswith("/t-0"))
    assert covers(gone_already["ranges"], by_recover)
    is_told_by_epochs = "leader-epoch" in gone_already["witness"]  # beside an index, too, which recover names alone
    assert bool(by_epochs) <= is_told_by_epochs <= (max(begins, start) < first)
    (salvage,) = rows("salvage logdir/t-0", disks, *words)
    assert covers(below(salvage["answer"]["lost"], first), by_epochs)
    deleted = list(partition.glob("*.log.deleted"))
    if max(begins, start) < first and "cleanup.policy=compact" not in words and not deleted:
        assert by_verify == [[max(begins, start), first - 1]]
    if by_recover:
        (filled,) = rows("salvage logdir/t-0", disks, *words, "--replica", str(SOURCE / "t-0"))
        assert below(filled["answer"]["lost"], first) == []


def test_a_line_for_offset_0_is_one_of_a_tiered_topic(tmp_path: pathlib.Path) -> None:
    """Its first records are in remote storage: nobody says that they are missing. A log that is not tiered has a line
    only above its first segment."""
    log_dir = tmp_path / "logdir"
    shutil.copytree(SOURCE, log_dir)
    for path in (log_dir / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    (log_dir / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    (recovery,) = rows("recover logdir/t-0", tmp_path)
    assert recovery["answer"]["missing"] == []
    assert not [row for row in rows("verify logdir/t-0", tmp_path) if row.get("id") == "segment-gap"]
    (claim,) = (
        row
        for row in rows("doctor logdir", tmp_path)
        if row.get("about") == "partition" and row["path"].endswith("/t-0")
    )
    assert claim["gone_already"]["witness"] == []
