"""Segments that somebody renamed or compressed: their records are on the disk, and a broker does not serve them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pathlib
import shlex
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import lz4.frame
import pytest
import zstandard
from claim_reasons import without_reason
from damage import frames_of
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
@pytest.mark.parametrize("hidden", [".nfs00000000012ab00000001", ".fuse_hidden0000001200000001"])
def test_a_log_that_was_deleted_while_it_was_open_gets_its_name(disks: Path, name: str, hidden: str) -> None:
    """A client of NFS or FUSE keeps it under a name of its own; after a crash it stays. Others are no logs."""
    partition = disks / "d1/t-0"
    whole = contents(partition)
    (partition / name).rename(partition / hidden)
    for n, other in enumerate((b"", bytes(100), (partition / f"{name[:-4]}.timeindex").read_bytes(), b"x" * 100)):
        (partition / f".nfs{n}").write_bytes(other)
    option = options_for(doctor(disks), partition)[0]
    assert (option["lost_records"], option["strategy"]) == (0, "nothing-lost")
    rows = [json.loads(line) for line in run_here(["verify", "d1/t-0", "--json"], disks).out.splitlines()]
    named = [row for row in rows if row.get("id") == "foreign-file" and row["severity"] == "error"]
    assert [(Path(row["path"]).name, row["cure"].split("/")[-1]) for row in named] == [(hidden, name)]
    doctor(disks, "--fix", "--option", str(option["number"]), "--plan-out", "plan.json")
    assert run_here(["apply", "plan.json"], disks).status == 0
    for n in range(4):
        (partition / f".nfs{n}").unlink()
    assert contents(partition) == whole


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
def test_segments_in_capitals_get_their_names(disks: Path, name: str, is_whole: bool) -> None:
    """A file system without case (FAT) gave them back so."""
    partition = disks / "d1/t-0"
    whole = contents(partition)
    for path in list(partition.iterdir()):
        if path.name.startswith("0") and (is_whole or path.name.startswith(name[:20])):
            path.rename(path.with_name(path.name.upper()))
    rows = doctor(disks)
    claim, option = claim_of(rows, partition), options_for(rows, partition)[0]
    assert (claim["hidden"]["why"], claim["gone_already"]["ranges"]) == (["name"], [])
    assert (option["lost_records"], option["strategy"]) == (0, "nothing-lost")
    doctor(disks, "--fix", "--option", str(option["number"]), "--plan-out", "plan.json")
    assert run_here(["apply", "plan.json"], disks).status == 0
    logs = (name for name in LOGS if is_whole or name == option["command"].rpartition("/")[2])
    assert all((partition / log).read_bytes() == whole[log] for log in logs)


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
    unless = f"unless one of these has one: t-0/{LOGS[0]}, t-0/{LOGS[1]}" if is_whole else f"unless t-0/{name} has one"
    assert f"no file has a sound copy, {unless}" in without_breaks(done.out)
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
def test_a_segment_that_logrotate_emptied_is_in_the_file_beside_it(disks: Path, name: str, suffix: str) -> None:
    """copytruncate copies a file, and empties it. Nobody says that no file has the records. What is compressed is not
    looked into."""
    partition, whole = disks / "d1/t-0", contents(HERE / "broker/d1/t-0")
    before = claim_of(doctor(disks), partition)
    copy = partition / f"{name}{suffix}"
    copy.write_bytes(gzip.compress(whole[name]) if suffix.endswith(".gz") else whole[name])
    (partition / name).write_bytes(b"")
    rows = doctor(disks)
    text, claim = without_breaks(run_here(["doctor", "d0", "d1"], disks).out), claim_of(rows, partition)
    if suffix == ".1":
        assert f"are in {copy.name} alone: a broker does not read that" in text
        assert (claim["gone_already"]["ranges"], claim["hidden"]["why"]) == ([], ["name"])
    else:
        assert f"no file has a sound copy, unless {copy.name} has one" in text
    (option,) = (row for row in options_for(rows, partition) if copy.name in row["command"])
    assert option["lost_records"] == (0 if suffix == ".1" else None)
    subprocess.run(["sh", "-c", option["command"]], check=True)
    copy.unlink(missing_ok=True)
    assert contents(partition) == whole
    assert claim_of(doctor(disks), partition) == before


@pytest.mark.parametrize("suffixes", [[".1"], [".1.gz"], [".2", ".1"], [".10", ".9"]], ids=str)
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("name", LOGS)
def test_a_broker_writes_on_behind_zeros_where_logrotate_emptied_its_segment(
    disks: Path, name: str, is_clean: bool, suffixes: list[str]
) -> None:
    """At the byte where it was. Each rotation copies the zeros of those before it. suffixes: the oldest first."""
    partition, log_dir = disks / "d1/t-0", disks / "d1"
    whole = contents(partition)
    if not is_clean:
        (log_dir / ".kafka_cleanshutdown").unlink()
        (log_dir / "recovery-point-offset-checkpoint").unlink()
    before = claim_of(doctor(disks), partition)
    data, at = whole[name], 0
    ends = [frame.position for frame in frames_of(data)][2 : 2 + len(suffixes)]
    for suffix, end in zip(suffixes, ends, strict=True):
        copied = bytes(at) + data[at:end]
        (partition / f"{name}{suffix}").write_bytes(gzip.compress(copied) if suffix.endswith(".gz") else copied)
        at = end
    (partition / name).write_bytes(bytes(at) + data[at:])
    options = options_for(doctor(disks), partition)
    (option,) = (row for row in options if f"{name}{suffixes[0]}" in row["command"])
    if suffixes != [".1.gz"]:  # nobody unpacks it to see what that costs
        assert option == options[0]
        assert (option["lost_records"], option["strategy"]) == (0, "nothing-lost")
    subprocess.run(["sh", "-c", option["command"]], check=True)
    for suffix in suffixes:
        (partition / f"{name}{suffix}").unlink()
    assert contents(partition) == whole
    assert claim_of(doctor(disks), partition) == before


@pytest.mark.parametrize("begin", [b"x", bytes(300) + b"x"])
def test_what_is_there_is_not_written_over(disks: Path, begin: bytes) -> None:
    """A copy that is longer than the zeros is none of them."""
    log = disks / "d1/t-0" / LOGS[1]
    data = log.read_bytes()
    log.with_name(f"{log.name}.1").write_bytes(data[:400])
    log.write_bytes(begin + data[len(begin) :])
    assert not [row for row in options_for(doctor(disks), disks / "d1/t-0") if "dd " in row["command"]]


@pytest.mark.parametrize("name", LOGS)
def test_a_renamed_segment_of_a_compacted_log_may_have_what_is_missing(disks: Path, name: str) -> None:
    """A cleaning may have replaced it: nobody says that it has the records, and nobody that no file has them."""
    partition, compacted = disks / "d1/t-0", ["--config", "cleanup.policy=compact"]
    before = claim_of(doctor(disks, *compacted), partition)
    (partition / name).rename(partition / f"{name}.bak")
    rows = doctor(disks, *compacted)
    told = [row["detail"] for row in rows if row.get("what") == "missing" and row["path"] == str(partition)]
    assert not any("no file has a sound copy (" in detail for detail in told)
    options = [row for row in options_for(rows, partition) if f"{name}.bak" in row["command"]]
    assert len(options) == len([detail for detail in told if f"unless {name}.bak has one" in detail])
    for option in options:
        doctor(disks, *compacted, "--fix", "--option", str(option["number"]), "--plan-out", "plan.json")
        assert run_here(["apply", "plan.json"], disks).status == 0
        assert claim_of(doctor(disks, *compacted), partition) == before
    assert options or name != LOGS[-1]


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


MISPLACED = [(at, at + count) for at in range(len(LOGS)) for count in range(1, len(LOGS) - at + 1)]


@pytest.mark.parametrize(("first", "end"), MISPLACED)
def test_segments_in_the_log_dir_itself_come_back(disks: Path, first: int, end: int) -> None:
    """All commands of verify and of the doctor for it are the same, and bring all back."""
    partition = disks / "d1/t-0"
    whole, before = contents(partition), doctor(disks)
    for name in LOGS[first:end]:
        for path in partition.glob(name.replace(".log", ".*")):
            path.rename(disks / "d1" / path.name)
    rows = [json.loads(line) for line in run_here(["verify", "d1", "--json"], disks).out.splitlines()]
    cures = {row["path"]: row["cure"] for row in rows if row.get("severity") == "error"}
    rows = doctor(disks)
    points = [row for row in rows if row["type"] == "ahead" and row["what"] == "ignored"]
    (option,) = options_for(rows, disks / "d1" / LOGS[first])
    if (first, end) == (0, len(LOGS)) or first:  # what is below the first segment may be what retention deleted
        assert {cures[f"d1/{name}"] for name in LOGS[first:end]} == {cures[f"d1/{LOGS[first]}"]}
        assert cures.get("d1/t-0", cures[f"d1/{LOGS[first]}"]) == cures[f"d1/{LOGS[first]}"]
        assert [row["severity"] for row in points] == ["error"]
        assert option["command"].replace(f"{disks}/", "").split("  #")[0] == cures[f"d1/{LOGS[first]}"]
    else:
        assert [row["severity"] for row in points] == ["warning"]
    subprocess.run(["sh", "-c", option["command"]], check=True)
    assert contents(partition) == whole
    assert doctor(disks) == before


def test_a_whole_folder_in_the_log_dir_itself_comes_back(disks: Path) -> None:
    """`mv t-0/* .; rmdir t-0`. A running broker may have deleted some of it meanwhile."""
    partition = disks / "d1/t-0"
    whole, before = contents(partition), doctor(disks)
    for path in list(partition.iterdir()):
        path.rename(disks / "d1" / path.name)
    partition.rmdir()
    rows = [json.loads(line) for line in run_here(["verify", "d1", "--json"], disks).out.splitlines()]
    assert {row["id"] for row in rows if row.get("severity") == "error"} == {"foreign-file"}
    option = options_for(doctor(disks), partition)[0]
    subprocess.run(["sh", "-c", option["command"]], check=True)
    left = disks / "d1" / f"{43:020d}.snapshot"  # of no segment: it is at the log's end
    assert contents(partition) | {left.name: left.read_bytes()} == whole
    assert claim_of(doctor(disks), partition) == claim_of(before, partition)


def test_a_segment_that_several_partitions_lack_is_for_a_person(disks: Path) -> None:
    log_dir = disks / "d1"
    (log_dir / "u-0" / LOGS[0]).rename(log_dir / LOGS[0])
    for path in (log_dir / "t-0").glob("*.log"):
        path.unlink()
    rows = doctor(disks)
    (point,) = (row for row in rows if row["type"] == "ahead" and row["what"] == "ignored")
    (option,) = options_for(rows, log_dir / LOGS[0])
    assert "t-0" not in option["command"].replace(str(log_dir), "")
    assert option["command"].startswith(f"klogtool dump-log {log_dir / LOGS[0]} --print-data-log  #")
    assert (point["severity"], "t-0 or u-0 lacks them" in point["detail"]) == ("error", True)


@pytest.mark.parametrize("of", ["t-0", "u-0", "../d0/t-1"])
def test_copies_in_the_log_dir_itself_are_no_alarm(disks: Path, of: str) -> None:
    """What a partition here has as well is nothing; of a segment of another log dir nobody knows whose it is."""
    log_dir = disks / "d1"
    for path in list((log_dir / of).iterdir()):
        shutil.copy(path, log_dir / path.name)
    points = [row for row in doctor(disks) if row["type"] == "ahead"]
    assert [(row["what"], row["severity"]) for row in points] == ([("ignored", "warning")] if "d0" in of else [])
    assert run_here(["verify", "d1"], disks).status == 0


@pytest.mark.parametrize("data", [b"", b"x" * 100, bytes(4096)])
def test_a_file_without_batches_in_the_log_dir_itself_is_nothing(disks: Path, data: bytes) -> None:
    (disks / "d1" / LOGS[1]).write_bytes(data)
    assert not [row for row in doctor(disks) if row["type"] == "ahead"]
    assert run_here(["verify", "d1"], disks).status == 0


PACKERS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    ".gz": (gzip.compress, "gzip"),
    ".zst": (zstandard.compress, "zstd"),
    ".lz4": (lz4.frame.compress, "lz4"),
    ".xz": (lzma.compress, "xz"),
    ".bz2": (bz2.compress, "bzip2"),
    ".bak": (bytes, ""),
}
ASIDE = {"first": [0], "inside": [1], "last": [3], "two": [1, 2], "all": [0, 1, 2, 3]}


@pytest.mark.parametrize("start", [0, 4, 14])
@pytest.mark.parametrize("is_there", [True, False], ids=["emptied", "gone"])
@pytest.mark.parametrize("which", ASIDE)
@pytest.mark.parametrize("suffix", PACKERS)
def test_who_says_that_offsets_are_missing_names_the_files_that_may_have_them(
    disks: Path, suffix: str, which: str, is_there: bool, start: int
) -> None:
    """Somebody compressed segments by hand. All commands name the files, also where the log starts inside of such a
    segment, and what doctor and verify say to type brings the records back."""
    partition, (pack, program) = disks / "d1/t-0", PACKERS[suffix]
    if start:
        (disks / "d1/log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    whole, before = contents(partition), claim_of(doctor(disks), partition)
    served = [n for n in ASIDE[which] if int([*LOGS, "99.log"][n + 1][:-4]) > start]
    for n in ASIDE[which]:
        (partition / f"{LOGS[n]}{suffix}").write_bytes(pack(whole[LOGS[n]]))
        (partition / LOGS[n]).unlink()
        if is_there:
            (partition / LOGS[n]).touch()
    copies = [f"{LOGS[n]}{suffix}" for n in served]
    rows, recovery = doctor(disks), run_here(["recover", str(partition)], disks).out.decode()
    details = " ".join(row["detail"] for row in rows if row["type"] == "ahead")
    kept = run_here(["salvage", str(partition)], disks)
    verified = run_here(["verify", "d0", "d1", "--json"], disks)
    rows_of = [row for row in map(json.loads, verified.out.splitlines()) if row.get("cure")]
    cures = [row for row in rows_of if row["id"] == "foreign-file"]
    gaps = " ".join(row["cure"] for row in rows_of if row["id"] in ("segment-gap", "orphan-file"))
    assert "nothing is lost" not in recovery + kept.out.decode() or not served
    for copy in copies:
        assert copy in recovery
        assert copy in without_breaks(kept.out) + kept.err
        assert copy in gaps or which in ("last", "all")  # no gap: the end is missing
        assert copy in details or not program  # a plain one is looked into: its records are hidden, not missing
        assert any(row["path"].endswith(copy) and copy in row["cure"] for row in cures)
        assert program in next(row["cure"] for row in cures if row["path"].endswith(copy))
    assert {copy for copy in copies if any(copy in row["command"] for row in options_for(rows, partition))} == {*copies}
    if suffix in (".gz", ".bak"):
        for row in cures:
            subprocess.run(["sh", "-c", row["cure"]], check=True, cwd=disks)
        for left in partition.glob(f"*{suffix}"):
            left.unlink()
        assert {name: data for name, data in contents(partition).items() if name in whole} == whole
        assert claim_of(doctor(disks), partition) == before
