"""Single bits of a partition flipped that `verify` does not see: Kafka's answers are the same as before.

KLOGTOOL_FLIPS_ASKED: how many flips are tried (default 400; Kafka is asked about those that nobody sees); `all`: all.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any

import pytest
from flipping import HARMLESS, LOG_DIRS, Flip, Flipped, all_flips, class_of, small_log_dir
from sampling import chance

from .beside import an_oracle

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

ASKED = os.environ.get("KLOGTOOL_FLIPS_ASKED", "400")
Path = pathlib.Path
NEVER_HARMLESS = (".log", ".snapshot")
ALL_BYTES = 2**31 - 1


def questions(end: int) -> dict[str, list[dict[str, Any]]]:
    """All that can be asked about a log that ends there, by op."""
    isolations = ("log_end", "read_committed")
    reads = [
        {"offset": n, "max_bytes": ALL_BYTES, "isolation": isolation} for n in range(end) for isolation in isolations
    ]
    t0 = 1_700_000_000_000
    words = ["earliest", "latest", "max", "earliest-local", "latest-tiered"]
    return {
        "recover": [{"clean": False}, {"clean": True}],
        "read": [{"reads": reads}],
        "lookup-offset": [{"offsets": list(range(-1, end + 2))}],
        "lookup-timestamp": [{"timestamps": [*words, *range(t0, t0 + 120_000, 1000)]}],
        "epochs": [{"epochs": list(range(-1, 9)), "offsets": list(range(end + 1))}],
        "txns": [{}],
    }


def answers(oracle: Any, partition: Path, work: Path, end: int) -> list[object]:
    """Kafka's, each on a copy of its own; without the way that it took through an index, and an entry's own words."""
    found = []
    for op, asked in questions(end).items():
        for fields in asked:
            copy = work / partition.name
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(partition, copy)
            answer = oracle.ask(op, dir=str(copy), **{"clean": True, **fields})
            answer.pop("log", None)
            for row in answer.get("lookups", []) if op == "lookup-offset" else []:
                row.pop("index_entry", None)
            if "aborted" in answer.get("txns", {}):
                answer["txns"]["aborted"] = [row[:3] for row in answer["txns"]["aborted"]]
            found.append((op, answer))
    return found


def some_of(scene: str, log_dir: Path) -> list[Flip]:
    """Flips in side files of the partition: none in a log or a snapshot is of a harmless class."""
    flips = [flip for flip in all_flips(scene, log_dir) if "/" in flip.name and not flip.name.endswith(NEVER_HARMLESS)]
    return flips if ASKED == "all" else chance(scene).sample(flips, min(int(ASKED), len(flips)))


@pytest.mark.slow
@pytest.mark.parametrize("scene", LOG_DIRS)
def test_what_nobody_sees_changes_no_answer(scene: str, tmp_path: Path) -> None:
    log_dir, work = small_log_dir(scene, tmp_path / "disk"), tmp_path / "asked"
    flipped, partition = Flipped(log_dir), log_dir / LOG_DIRS[scene]
    work.mkdir()
    asked = 0
    with an_oracle() as oracle:
        end = oracle.ask(
            "lookup-offset", dir=str(shutil.copytree(partition, tmp_path / "once" / partition.name)), offsets=[]
        )
        end = end["state"]["log_end_offset"]
        sound = answers(oracle, partition, work, end)
        for flip in some_of(scene, log_dir):
            if flipped.is_seen(flip) or class_of(log_dir, flip, flipped.data(flip)) not in HARMLESS:
                continue
            flipped.put(flip)
            told = answers(oracle, partition, work, end)
            flipped.put_back(flip)
            assert told == sound, str(flip)
            asked += 1
    assert asked
