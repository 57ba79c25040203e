"""`--config-file server.properties`: the log dirs come from it, and what contradicts the disks is said."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from running import run_here
from startup import HERE

FILE = "process.roles=broker,controller\nnode.id={node}\ncontroller.quorum.voters={voters}\n{dirs}\n"


def asked(
    disks: pathlib.Path, *named: str, node: str = "1", voters: str = "1@h:9093", dirs: str
) -> list[dict[str, str]]:
    shutil.copytree(HERE / "broker", disks)
    (disks / "server.properties").write_text(FILE.format(node=node, voters=voters, dirs=dirs))
    words = ["doctor", *named, "--config-file", "server.properties", "--format", "json"]
    return [json.loads(line) for line in run_here(words, disks).out.splitlines()]


def refusals(rows: list[dict[str, str]]) -> list[str]:
    return [pathlib.Path(row["path"]).name for row in rows if row.get("what") == "refuses"]


@pytest.mark.parametrize(
    "dirs", ["log.dirs=d0, d1", "log.dir=d0,d1", "log.dirs=d0,d1\nlog.dir=/nowhere", "log.dirs=d1\nmetadata.log.dir=d0"]
)
def test_the_log_dirs_come_from_the_file(tmp_path: pathlib.Path, dirs: str) -> None:
    disks = tmp_path / "disks"
    verdict = asked(disks, dirs=dirs)[1]
    assert (sorted(verdict["log_dirs"]), verdict["starts"], verdict["notes"]) == (
        [str(disks / "d0"), str(disks / "d1")],
        "yes",
        [],
    )


def test_named_log_dirs_win(tmp_path: pathlib.Path) -> None:
    verdict = asked(tmp_path / "disks", "d0", "d1", dirs="log.dirs=d0,/other")[1]
    assert [pathlib.Path(path).name for path in verdict["log_dirs"]] == ["d0", "d1"]
    told = " ".join(verdict["notes"])
    assert "not named here: /other" in told
    assert "d1; a broker with this file does not use them" in told


def test_another_node_id(tmp_path: pathlib.Path) -> None:
    assert refusals(asked(tmp_path / "disks", node="7", voters="7@h:9093", dirs="log.dirs=d0,d1")) == [
        "meta.properties",
        "meta.properties",
    ]


def test_a_controller_that_is_no_voter(tmp_path: pathlib.Path) -> None:
    assert refusals(asked(tmp_path / "disks", voters="2@h:9093,3@i:9093", dirs="log.dirs=d0,d1")) == ["d0"]


def test_a_metadata_log_elsewhere(tmp_path: pathlib.Path) -> None:
    assert refusals(asked(tmp_path / "disks", dirs="log.dirs=d1,d0")) == ["__cluster_metadata-0"]
