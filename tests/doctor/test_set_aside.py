"""Segments that somebody renamed or compressed: their records are on the disk, and a broker does not serve them."""

from __future__ import annotations

import gzip
import json
import pathlib
import shlex
import shutil
import subprocess
from typing import Any

import pytest
from claim_reasons import without_reason
from running import run_here
from startup import HERE

Path = pathlib.Path
LOGS = sorted(path.name for path in (HERE / "broker/d1/t-0").glob("*.log"))


def doctor(disks: Path, *more: str) -> list[dict[str, Any]]:
    done = run_here(["doctor", "d0", "d1", "--json", "--now", "1800000000000", *more], disks)
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert not without_reason(rows)
    return rows


def claim_of(rows: list[dict[str, Any]], partition: Path) -> dict[str, Any]:
    claims = [row for row in rows if row["type"] == "claim" and row["about"] == "partition"]
    return next(claim for claim in claims if claim["path"] == str(partition))


def options_for(rows: list[dict[str, Any]], partition: Path) -> list[dict[str, Any]]:
    return [row for row in rows if row["type"] == "option" and row["for"] == str(partition)]


def without_breaks(text: bytes) -> str:
    return " ".join(text.decode().split())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))


@pytest.mark.parametrize("name", LOGS)
def test_a_copy_that_rsync_did_not_finish_gets_its_name(disks: Path, name: str) -> None:
    """Until a file is whole, rsync gives it a dot, its name and six letters."""
    partition = disks / "d1/t-0"
    whole = contents(partition)
    (partition / name).rename(partition / f".{name}.Xy12Ab")
    option = options_for(doctor(disks), partition)[0]
    assert (option["lost_records"], option["strategy"]) == (0, "nothing-lost")
    doctor(disks, "--fix", "--option", str(option["number"]), "--plan-out", "plan.json")
    assert run_here(["apply", "plan.json"], disks).status == 0
    assert contents(partition) == whole


@pytest.mark.parametrize("is_whole", [True, False], ids=["all", "one"])
@pytest.mark.parametrize("name", LOGS)
def test_segments_that_were_copied_into_a_folder_of_their_partition(disks: Path, name: str, is_whole: bool) -> None:
    """`cp -r t-0 LOGDIR/t-0` makes t-0/t-0 if t-0 is there. The command of the option brings all back."""
    partition = disks / "d1/t-0"
    whole, before = contents(partition), doctor(disks)
    (partition / "t-0").mkdir()
    for file in whole if is_whole else [name]:
        (partition / file).rename(partition / "t-0" / file)
    done = run_here(["doctor", "d0", "d1", "--now", "1800000000000"], disks)
    assert f"no file has a sound copy, unless t-0/{LOGS[0] if is_whole else name} has one" in without_breaks(done.out)
    rows = [json.loads(line) for line in run_here(["verify", "d1", "--json"], disks).out.splitlines()]
    advised = [row["path"] for row in rows if row.get("cure") == "mv -n d1/t-0/t-0/* d1/t-0/"]
    # Retention deletes first segments, too: a copy of one is no reason to bring it back. The doctor has witnesses.
    assert advised == (["d1/t-0/t-0"] if is_whole or name != LOGS[0] else [])
    option = next(one for one in options_for(doctor(disks), partition) if "t-0/t-0/*" in one["command"])
    assert option["lost_records"] is None
    subprocess.run(["sh", "-c", option["command"]], check=True)
    (partition / "t-0").rmdir()
    assert contents(partition) == whole
    assert doctor(disks) == before


@pytest.mark.parametrize("inside", ["application-20261129.log", f"{0:019d}.log", f"{0:020d}.log.1"])
def test_a_folder_of_other_logs_does_not_move_up(disks: Path, inside: str) -> None:
    """A broker refuses to start beside a `.log` whose name is no number."""
    (disks / "d1/t-0/mine").mkdir()
    (disks / "d1/t-0/mine" / inside).write_bytes(b"x")
    (row,) = (
        row
        for row in map(json.loads, run_here(["verify", "d1", "--json"], disks).out.splitlines())
        if "mine" in row.get("path", "")
    )
    assert (row["id"], row.get("cure")) == ("foreign-file", None)


@pytest.mark.parametrize("suffix", [".1", ".1.gz"])
@pytest.mark.parametrize("name", LOGS)
def test_a_segment_that_logrotate_emptied_may_be_in_the_file_beside_it(disks: Path, name: str, suffix: str) -> None:
    """copytruncate copies a file, and empties it. Nobody says that no file has the records."""
    partition = disks / "d1/t-0"
    log = (partition / name).read_bytes()
    (partition / f"{name}{suffix}").write_bytes(gzip.compress(log) if suffix.endswith(".gz") else log)
    (partition / name).write_bytes(b"")
    done = run_here(["doctor", "d0", "d1", "--now", "1800000000000"], disks)
    assert f"no file has a sound copy, unless {name}{suffix} has one" in without_breaks(done.out)


@pytest.mark.parametrize("suffix", [".bak", ".1", "_old", "~", ".gz"])
@pytest.mark.parametrize("name", LOGS)
def test_a_renamed_segment_is_hidden_and_gets_its_name_back(disks: Path, name: str, suffix: str) -> None:
    partition = disks / "d1/t-0"
    whole = contents(partition)
    served = claim_of(doctor(disks), partition)
    (partition / name).rename(partition / f"{name}{suffix}")
    rows = doctor(disks)
    claim = claim_of(rows, partition)
    bases = [*(int(log.split(".")[0]) for log in LOGS), served["log_end_offset"]]
    first, after = bases[LOGS.index(name) : LOGS.index(name) + 2]
    assert (claim["hidden"]["ranges"], claim["hidden"]["why"]) == ([[first, after - 1]], ["name"])
    assert claim["gone_already"]["ranges"] == served["gone_already"]["ranges"]
    option = options_for(rows, partition)[0]
    assert (option["lost_records"], option["strategy"]) == (0, "nothing-lost")
    doctor(disks, "--fix", "--option", str(option["number"]), "--plan-out", "plan.json")
    assert run_here(["apply", "plan.json"], disks).status == 0
    assert contents(partition) == whole
    assert claim_of(doctor(disks), partition) == served


def test_all_segments_renamed(disks: Path) -> None:
    partition = disks / "d1/t-0"
    end = claim_of(doctor(disks), partition)["log_end_offset"]
    for name in LOGS:
        (partition / name).rename(partition / f"{name}.bak")
    rows = doctor(disks)
    assert claim_of(rows, partition)["hidden"]["ranges"] == [[0, end - 1]]
    assert run_here(["doctor", "d0", "d1", "--now", "1800000000000"], disks).status == 1
    for line in options_for(rows, partition)[0]["command"].split("; "):
        subprocess.run(shlex.split(line), check=True)
    assert claim_of(doctor(disks), partition)["log_end_offset"] == end


@pytest.mark.parametrize("name", LOGS)
def test_a_copy_beside_its_segment_is_nothing(disks: Path, name: str) -> None:
    partition = disks / "d1/t-0"
    before = doctor(disks)
    shutil.copy(partition / name, partition / f"{name}.bak")
    (partition / "00000000000000000999.log.txt").write_text("notes\n" * 100)  # no batches
    assert claim_of(doctor(disks), partition) == claim_of(before, partition)


@pytest.mark.parametrize("level", ["stored", "-9"])
@pytest.mark.parametrize("name", LOGS)
def test_a_compressed_segment_is_unpacked_first(disks: Path, name: str, level: str) -> None:
    """What cannot be compressed further stands in a .gz as it was: that is not looked into, either."""
    partition = disks / "d1/t-0"
    served = claim_of(doctor(disks), partition)
    data = (partition / name).read_bytes()
    (partition / f"{name}.gz").write_bytes(gzip.compress(data, 0 if level == "stored" else 9))
    (partition / name).unlink()
    rows = doctor(disks)
    assert claim_of(rows, partition)["hidden"]["ranges"] == []
    assert f"unless {name}.gz has one" in next(row["detail"] for row in rows if row["type"] == "ahead")
    command = options_for(rows, partition)[0]["command"]
    subprocess.run(shlex.split(command, comments=True), check=True)
    assert claim_of(doctor(disks), partition) == served


def test_verify_names_the_file_that_may_be_the_segment(disks: Path) -> None:
    partition = disks / "d1/t-0"
    (partition / LOGS[1]).rename(partition / f"{LOGS[1]}.bak")
    done = run_here(["verify", str(partition), "--json"], disks)
    orphans = [row for row in map(json.loads, done.out.splitlines()) if row.get("id") == "orphan-file"]
    assert orphans
    assert all(f"{LOGS[1]}.bak" in row["cure"] for row in orphans)
    subprocess.run(shlex.split(orphans[0]["cure"]), check=True)
    assert run_here(["verify", str(partition)], disks).status == 0


def test_a_copy_of_what_retention_deleted_is_nothing(disks: Path) -> None:
    """Its index went with it, and other segments are above it."""
    partition = disks / "d1/t-0"
    for kind in ("log", "index", "timeindex", "txnindex"):
        (partition / f"{0:020d}.{kind}").unlink(missing_ok=True)
    deleted = claim_of(doctor(disks), partition)
    shutil.copy(HERE / "broker/d1/t-0" / LOGS[0], partition / f"{LOGS[0]}.bak")
    rows = doctor(disks)
    assert claim_of(rows, partition) == deleted
    assert not [row for row in rows if row["type"] == "ahead" and row["what"] == "ignored"]
