"""A folder of partition dirs without any file of a log dir is a copy, or the log dir of a broker that lost them: the
doctor says that it does not know. What shows that a broker uses it decides, and then no broker starts on it."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from running import run_here
from startup import HERE

Path = pathlib.Path
META = "meta.properties"
NO_READABLE = "No readable meta.properties files found."
ALL_BARE = "A broker 4.3.1 would start on a log dir with these partitions and lose nothing."


def emptied(disks: Path, *names: str) -> None:
    """Delete what is beside the partition dirs in these log dirs, and the metadata."""
    for name in names:
        shutil.rmtree(disks / name / "__cluster_metadata-0", ignore_errors=True)
        for path in (disks / name).iterdir():
            if path.is_file():
                path.unlink()


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))


def rows_of(disks: Path, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_here(["doctor", *words, "--json"], disks).out.splitlines()]


def broker_claim(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return next(row for row in rows if row["type"] == "claim" and row["about"] == "broker")


@pytest.mark.parametrize("fail_on", ["anything", "loss"])
def test_what_may_be_a_copy_is_no_alarm_and_no_promise(disks: Path, fail_on: str) -> None:
    """Status 0 says that the broker starts: nobody knows that, and on a copy it does not."""
    emptied(disks, "d1")
    done = run_here(["doctor", "d1", "--fail-on", fail_on], disks)
    assert done.status == 1
    first, second = done.out.decode().splitlines()[:2]
    assert first == ALL_BARE
    assert second.startswith("  unknown     is this folder a copy")
    rows = rows_of(disks, "d1")
    claim = broker_claim(rows)
    assert (claim["starts"], claim["reason"]) == (None, "elsewhere")
    assert {row["served"] for row in rows if row["type"] == "claim" and row["about"] == "partition"} == {None}
    assert {row["online"] for row in rows if row["type"] == "claim" and row["about"] == "log-dir"} == {None}


def lock(disks: Path) -> list[str]:
    (disks / "d1" / ".lock").touch()
    return ["d1"]


def bootstrap(disks: Path) -> list[str]:
    shutil.copy(disks / "d0" / "bootstrap.checkpoint", disks / "d1")
    return ["d1"]


def empty_metadata_folder(disks: Path) -> list[str]:
    (disks / "d1" / "__cluster_metadata-0").mkdir()
    return ["d1"]


def named_by_file(disks: Path) -> list[str]:
    (disks / "server.properties").write_text("process.roles=broker\nnode.id=1\nlog.dirs=d1\n")
    return ["--config-file", "server.properties"]


def named_as_metadata_log_dir(disks: Path) -> list[str]:
    (disks / "server.properties").write_text("process.roles=broker\nnode.id=1\nlog.dirs=d9\nmetadata.log.dir=d1\n")
    return ["d1", "--config-file", "server.properties"]


@pytest.mark.parametrize("sign", [lock, bootstrap, empty_metadata_folder, named_by_file, named_as_metadata_log_dir])
def test_what_a_broker_uses_does_not_start_without_meta_properties(
    disks: Path, sign: Callable[[Path], list[str]]
) -> None:
    emptied(disks, "d1")
    claim = broker_claim(rows_of(disks, *sign(disks)))
    assert claim["starts"] is False
    assert claim["message"] in (NO_READABLE, None)  # None: other reasons as well


def verified(disks: Path, *words: str) -> tuple[int, list[str]]:
    done = run_here(["verify", *words, "--json"], disks)
    rows = [json.loads(line) for line in done.out.splitlines()]
    return done.status, [row["severity"] for row in rows if row.get("id") == "meta-properties-missing"]


def test_verify_of_what_may_be_a_copy_finds_nothing_wrong(disks: Path) -> None:
    emptied(disks, "d1")
    assert verified(disks, "d1") == (0, ["info"])


def checkpoint(disks: Path) -> list[str]:
    (disks / "d1" / "recovery-point-offset-checkpoint").write_text("0\n2\nt 0 43\nu 0 6\n")
    return ["d1"]


def marker(disks: Path) -> list[str]:
    checkpoint(disks)
    (disks / "d1" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    return ["d1"]


def another_log_dir(_: Path) -> list[str]:
    return ["d0", "d1"]


SIGNS = [lock, bootstrap, empty_metadata_folder, checkpoint, marker, another_log_dir]


@pytest.mark.parametrize("sign", SIGNS)
def test_no_broker_starts_on_a_log_dir_without_meta_properties(disks: Path, sign: Callable[[Path], list[str]]) -> None:
    """To verify it is an info: it may be formatted later."""
    emptied(disks, "d1")
    words = sign(disks)
    assert verified(disks, *words) == (0, ["info"])
    assert broker_claim(rows_of(disks, *words))["starts"] is False


@pytest.mark.parametrize("other", ["d0 without", "d0 unreadable", "d0 absent", "d0 whole"])
def test_a_broker_says_that_no_meta_properties_is_readable_before_which_is_missing(disks: Path, other: str) -> None:
    emptied(disks, "d1")
    file = disks / "d0" / META
    if other == "d0 without":
        file.unlink()
    elif other == "d0 unreadable":
        file.write_text("version=7\n")
    elif other == "d0 absent":
        shutil.rmtree(disks / "d0")
    rows = rows_of(disks, "d0", "d1")
    path = f"{disks}/d1/{META}"
    said = {row["exception"]["message"] for row in rows if row["type"] == "ahead" and row["path"] == path}
    missing = f"No `{META}` found in {disks / 'd1'} (have you run `kafka-storage.sh` to format the directory?)"
    assert said == {missing if other == "d0 whole" else NO_READABLE}
    assert broker_claim(rows)["starts"] is False


def test_partitions_that_the_metadata_may_not_have_are_no_promise(disks: Path) -> None:
    """The metadata log dir is another one, or it is lost: then all partitions are set aside."""
    done = run_here(["doctor", "d1"], disks)
    assert done.status == 0
    text = " ".join(done.out.decode().split())
    assert "and lose nothing, if its cluster has these partitions." in text
    assert {row["served"] for row in rows_of(disks, "d1") if row.get("about") == "partition"} == {None}
    assert "lose nothing." in run_here(["doctor", "d0", "d1"], disks).out.decode().splitlines()[0]
