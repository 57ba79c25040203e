"""Files that the broker's user may not open: each was put to a broker 4.3.1 that ran as another user than root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from asking_doctor import ahead, asked, starts, wounded
from startup import Scenario, T, side

from klogtool.doctor import permissions
from klogtool.log.folder import is_unchangeable

BROKERS, ROOT = 65534, 0
NEWEST = f"{T}/{43:020d}.snapshot"
# What a broker did where root owns the file and nobody may write it, or nobody may read it.
TAKES_OFFLINE = (
    (side(11, "log"), 0o444),
    (side(32, "log"), 0o444),
    (side(32, "index"), 0o444),
    (side(32, "timeindex"), 0o444),
    (side(11, "txnindex"), 0o444),
    (T, 0o555),
    (NEWEST, 0o000),
    (f"{T}/leader-epoch-checkpoint", 0o000),
    (f"{T}/leader-epoch-checkpoint.tmp", 0o444),
    (f"{T}/partition.metadata", 0o000),
    ("d1/.lock", 0o444),
    ("d1", 0o555),
    ("d1/replication-offset-checkpoint", 0o000),
    ("d1/replication-offset-checkpoint.tmp", 0o444),
    ("d1/recovery-point-offset-checkpoint.tmp", 0o444),
)
IS_FINE = (
    (NEWEST, 0o444),
    (f"{T}/leader-epoch-checkpoint", 0o444),
    (f"{T}/partition.metadata", 0o444),
    ("d1/meta.properties", 0o444),
    ("d1/recovery-point-offset-checkpoint", 0o444),
    ("d1/replication-offset-checkpoint", 0o444),
    ("d1/cleaner-offset-checkpoint", 0o444),
    ("d1/.kafka_cleanshutdown", 0o444),
    (side(11, "log"), 0o664),  # the broker may be in the group
)
METADATA = f"d0/__cluster_metadata-0/{0:020d}.log"


def denied(name: str, mode: int) -> Scenario:
    def wound(disks: Path) -> None:
        (disks / name).exists() or (disks / name).touch()
        for path in (*disks.rglob("*"), disks):
            os.chown(path, BROKERS, BROKERS)
        os.chown(disks / name, ROOT, ROOT)
        (disks / name).chmod(mode)

    return Scenario(wound, "any")


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="to give files away is not permitted here")


@pytest.mark.parametrize(("name", "mode"), TAKES_OFFLINE, ids=lambda value: str(value)[-30:])
def test_the_log_dir_goes_offline(tmp_path: Path, name: str, mode: int) -> None:
    scenario = denied(name, mode)
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    told = f"{T}/leader-epoch-checkpoint.tmp" if name == T else name
    assert ahead(rows, disks) == {(told, "offline")}
    (option,) = [row["command"] for row in rows if row["type"] == "option"]
    assert "chmod u+rw" in option
    assert [row["online"] for row in rows if row["type"] == "claim" and row["about"] == "log-dir"] == [True, False]


@pytest.mark.parametrize(("name", "mode"), IS_FINE, ids=lambda value: str(value)[-30:])
def test_what_is_replaced_by_a_new_file_need_not_be_writable(tmp_path: Path, name: str, mode: int) -> None:
    scenario = denied(name, mode)
    disks = wounded(scenario, tmp_path / "disks")
    assert ahead(asked(disks, scenario), disks) == set()


def test_the_process_ends_with_the_metadata_log(tmp_path: Path) -> None:
    scenario = denied(METADATA, 0o444)
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    assert (starts(rows), ahead(rows, disks)) == ("refuses", {(METADATA, "refuses")})


@pytest.mark.parametrize(
    ("name", "what", "online"),
    [
        (side(11, "log"), "offline", False),
        (side(32, "index"), "offline", False),
        (side(11, "index"), "fails-at-read", None),  # of a closed segment
        (T, "offline", False),
        (f"{T}/leader-epoch-checkpoint", "offline", False),
        ("d1/.kafka_cleanshutdown", "offline", False),
        ("d1/recovery-point-offset-checkpoint", "offline", False),
    ],
)
def test_what_is_immutable_takes_the_log_dir_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str, online: bool | None
) -> None:
    """A broker 4.3.1 was asked, as root, with chattr +i: "Operation not permitted"."""
    scenario = Scenario(lambda _: None, "any")
    disks = wounded(scenario, tmp_path / "disks")
    monkeypatch.setattr(permissions, "is_unchangeable", lambda path: path == str(disks / name))
    rows = asked(disks, scenario)
    told = f"{T}/leader-epoch-checkpoint.tmp" if name == T else name
    assert ahead(rows, disks) == {(told, what)}
    assert [row["online"] for row in rows if row["type"] == "claim" and row["about"] == "log-dir"] == [True, online]
    commands = [row["command"] for row in rows if row["type"] == "option"]
    assert what != "offline" or commands == [f"chattr -i -a {disks / name}"]


@pytest.mark.parametrize("name", [METADATA, "d0/__cluster_metadata-0/quorum-state"])
def test_the_process_ends_at_metadata_that_is_immutable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scenario = Scenario(lambda _: None, "any")
    disks = wounded(scenario, tmp_path / "disks")
    monkeypatch.setattr(permissions, "is_unchangeable", lambda path: path == str(disks / name))
    rows = asked(disks, scenario)
    assert (starts(rows), ahead(rows, disks)) == ("refuses", {(name, "refuses")})


def test_a_file_is_changeable_unless_it_has_the_attribute(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert not is_unchangeable(str(file))
    assert not is_unchangeable(str(tmp_path / "none"))
    if subprocess.run(["chattr", "+i", str(file)], stderr=subprocess.DEVNULL).returncode == 0:
        assert is_unchangeable(str(file))
        subprocess.run(["chattr", "-i", str(file)], check=True)
