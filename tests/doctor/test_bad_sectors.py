"""Files that the disk cannot read: tests/kafka/test_bad_sectors.py puts each to a broker."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking_doctor import ahead, asked, starts, wounded
from running import run_here
from startup import EPOCHS, FROM_ZERO, META, PM, POINTS, Scenario, T, Wound, log, side

from klogtool.log import file as log_file

Rows = list[dict[str, Any]]
CM = "d0/__cluster_metadata-0"
ENDS_AT = {
    log(32): "KafkaException",
    side(32, "index"): "InternalError",
    side(32, "timeindex"): "InternalError",
    side(11, "txnindex"): "KafkaException",
    f"{CM}/{0:020d}.log": "KafkaException",
    f"{CM}/{0:020d}.index": "InternalError",
    f"{CM}/{62:020d}.snapshot": "IOException",
    f"{CM}/{49:020d}-{1:010d}.checkpoint": "UncheckedIOException",
}
OFFLINE_AT = (f"{T}/{EPOCHS}", f"{T}/{PM}", side(43, "snapshot"), f"d1/{POINTS}", f"d1/{META}")


def clean(_: Path) -> None: ...


def fail(monkeypatch: pytest.MonkeyPatch, bad: Path) -> None:
    """Each read of this file ends with an I/O error."""
    for name in ("read", "read_into", "map"):
        real = getattr(log_file.LogFile, name)

        def tried(self: log_file.LogFile, *given: object, real: Callable[..., object] = real) -> object:
            if os.path.abspath(self.path) == str(bad) and self.size:
                raise log_file.unreadable(self.path, OSError(errno.EIO, os.strerror(errno.EIO)), 0)
            return real(self, *given)

        monkeypatch.setattr(log_file.LogFile, name, tried)


def rows_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, wound: Wound = clean) -> tuple[Path, Rows]:
    scenario = Scenario(wound, "any")
    disks = wounded(scenario, tmp_path / "disks")
    fail(monkeypatch, disks / name)
    return disks, asked(disks, scenario)


@pytest.mark.parametrize("name", ENDS_AT)
def test_a_broker_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    disks, rows = rows_of(tmp_path, monkeypatch, name)
    assert (starts(rows), ahead(rows, disks)) == ("refuses", {(name, "refuses")})
    (claim,) = (row for row in rows if row["type"] == "claim" and row["about"] == "broker")
    assert claim["error"] == ENDS_AT[name]


@pytest.mark.parametrize("name", OFFLINE_AT)
def test_the_log_dir_goes_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    disks, rows = rows_of(tmp_path, monkeypatch, name)
    assert (starts(rows), ahead(rows, disks)) == ("loses-data", {(name, "offline")})


@pytest.mark.parametrize("name", [log(11), side(11, "index")])
def test_a_closed_segment_is_read_after_an_unclean_stop_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    disks, rows = rows_of(tmp_path, monkeypatch, name)
    assert (starts(rows), ahead(rows, disks)) == ("yes", {(name, "damaged")})
    again, rows = rows_of(tmp_path / "again", monkeypatch, name, FROM_ZERO)
    assert (starts(rows), ahead(rows, again)) == ("refuses", {(name, "refuses")})


@pytest.mark.parametrize("name", [log(11), log(32), side(32, "index"), f"{T}/{PM}"])
def test_what_can_be_read_is_salvaged_before_anything_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A plan in place keeps what it replaces, which cannot be read: so a person salvages, to another disk."""
    disks, rows = rows_of(tmp_path, monkeypatch, name)
    options = [row for row in rows if row["type"] == "option"]
    assert any(f"klogtool salvage {disks / T} --output DIR" in row["command"] for row in options)
    assert not any(row["fix"] or "moved-out" in row["command"] for row in options)
    done = run_here(["salvage", str(disks / T), "--output", "saved"], tmp_path)
    kept = 43 if name.endswith(("index", PM)) else 32
    assert f"{kept} records" in done.out.decode()


def test_an_error_of_the_disk_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks = wounded(Scenario(clean, "any"), tmp_path / "disks")
    fail(monkeypatch, disks / log(11))
    done = run_here(["hash", str(disks / T)], tmp_path)
    assert (done.status, "klogtool salvage" in done.err, "dmesg" in done.err) == (4, True, True)


@pytest.mark.parametrize("end", ["log", "index"])
def test_a_quorum_has_no_leader_whose_metadata_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    disks = wounded(Scenario(clean, "any"), tmp_path / "disks")
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://localhost:9093,PLAINTEXT://localhost:9092",
    }
    (tmp_path / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    words = ["quorum", str(disks / "d0"), "--config-file", "server.properties"]
    assert run_here(words, tmp_path).status == 0
    fail(monkeypatch, disks / f"{CM}/{0:020d}.{end}")
    done = run_here(words, tmp_path)
    assert (done.status, f"klogtool doctor {disks / 'd0'}" in done.out.decode()) == (1, True)
    assert "A leader is elected" not in done.out.decode()
    assert "begins anew" not in " ".join(done.out.decode().split())
