"""The settings of a topic decide what is in rebuilt indexes; the cluster's metadata may be in another log dir."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from running import ROOT, run_here

T, META = "d1/t-0", "meta.properties"  # the metadata is in d0: index.interval.bytes is 0 there
UNKNOWN = "not known  index.interval.bytes"


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    copied = Path(shutil.copytree(ROOT / "tests/doctor/broker", tmp_path / "disks"))
    (copied / "d1/.kafka_cleanshutdown").unlink()
    (copied / "server.properties").write_text("log.dirs=d1,d0\n[other]\nindex.interval.bytes=7\n")
    return copied


def planned(disks: Path, *words: str) -> tuple[dict[str, Any], str]:
    asked = ["recover", T, "--recovery-point", "0", *words]
    rows = [json.loads(line) for line in run_here([*asked, "--json"], disks).out.splitlines()]
    return next(row for row in rows if row["type"] == "plan"), run_here(asked, disks).out.decode()


def test_without_the_metadata_it_says_that_it_does_not_know(disks: Path) -> None:
    plan, text = planned(disks)
    assert plan["answer"]["guessed"] == "index.interval.bytes"
    assert UNKNOWN in text


@pytest.mark.parametrize(
    "words", [("--config-file", "server.properties"), ("--config", "index.interval.bytes=0")], ids=["file", "setting"]
)
def test_with_it_the_indexes_are_those_of_the_broker(disks: Path, words: tuple[str, ...]) -> None:
    plan, text = planned(disks, *words)
    assert "guessed" not in plan["answer"]
    assert UNKNOWN not in text
    closed = {f"{base:020d}.{kind}" for base in (0, 11, 22) for kind in ("index", "timeindex")}
    assert not closed & {step["path"] for step in plan["steps"]}  # they are as the broker wrote them


@pytest.mark.parametrize("paths", [["d0", "d1"], ["d1", "d0"], ["d1/t-0", "d0"], ["d0", "d1/t-0", "d1"]])
def test_a_log_dir_that_is_named_has_the_settings_of_the_others(disks: Path, paths: list[str]) -> None:
    words = ["recover", *paths, "--last-stop", "unclean", "--recovery-point", "0"]
    text = run_here(words, disks).out.decode()
    assert UNKNOWN not in text
    rows = [json.loads(line) for line in run_here([*words, "--json"], disks).out.splitlines()]
    plan = next(row for row in rows if row["type"] == "plan" and row["path"].endswith(T))
    assert "guessed" not in plan["answer"]
    assert plan["steps"] == planned(disks, "--config-file", "server.properties")[0]["steps"]


def test_a_log_dir_of_another_broker_has_no_settings_for_it(disks: Path) -> None:
    meta = disks / "d0" / META
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    done = run_here(["recover", T, "d0", "--recovery-point", "0"], disks)
    assert UNKNOWN in done.out.decode(), done


@pytest.mark.parametrize(
    ("name", "old", "new"), [("d0/meta.properties", "node.id=1", "node.id=2"), ("server.properties", "d1,d0", "d0")]
)
def test_the_metadata_of_another_broker_does_not_count(disks: Path, name: str, old: str, new: str) -> None:
    """A log dir that the file does not have may be a copy."""
    text = (disks / name).read_text()
    assert old in text
    (disks / name).write_text(text.replace(old, new))
    assert UNKNOWN in planned(disks, "--config-file", "server.properties")[1]
