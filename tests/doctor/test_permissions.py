"""Files that the broker's user may not open: each was put to a broker 4.3.1 that ran as another user than root."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from asking_doctor import ahead, asked, starts, wounded
from running import run_here
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
    (side(11, "index"), 0o000),  # of a closed segment: nobody opens it, but a start asks whether it may
    (f"{T}/notes", 0o000),
    ("d1/.lock", 0o444),
    ("d1", 0o555),
    ("d1/replication-offset-checkpoint", 0o000),
    ("d1/recovery-point-offset-checkpoint", 0o000),
    ("d1/cleaner-offset-checkpoint", 0o000),
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
ENDS = (
    *(
        (f"d0/__cluster_metadata-0/{0:020d}.{end}", mode)
        for end in ("log", "index", "timeindex")
        for mode in (0o444, 0)
    ),
    *((f"d0/__cluster_metadata-0/{name}", 0) for name in ("leader-epoch-checkpoint", "partition.metadata")),
    *((f"d0/__cluster_metadata-0/{name}", 0) for name in ("quorum-state", f"{62:020d}.snapshot", "notes")),
    (f"d0/__cluster_metadata-0/{49:020d}-{1:010d}.checkpoint", 0),
    ("d0/__cluster_metadata-0/leader-epoch-checkpoint.tmp", 0o444),
    ("d0/__cluster_metadata-0", 0o555),
)


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
    assert "chmod u+rwX" in option
    assert [row["online"] for row in rows if row["type"] == "claim" and row["about"] == "log-dir"] == [True, False]


@pytest.mark.parametrize(("name", "mode"), IS_FINE, ids=lambda value: str(value)[-30:])
def test_what_is_replaced_by_a_new_file_need_not_be_writable(tmp_path: Path, name: str, mode: int) -> None:
    scenario = denied(name, mode)
    disks = wounded(scenario, tmp_path / "disks")
    assert ahead(asked(disks, scenario), disks) == set()


@pytest.mark.parametrize(("name", "mode"), ENDS, ids=lambda value: str(value)[-30:])
def test_the_process_ends_at_a_file_of_the_metadata(tmp_path: Path, name: str, mode: int) -> None:
    scenario = denied(name, mode)
    disks = wounded(scenario, tmp_path / "disks")
    rows = asked(disks, scenario)
    told = f"{name}/leader-epoch-checkpoint.tmp" if (disks / name).is_dir() else name
    assert (starts(rows), ahead(rows, disks)) == ("refuses", {(told, "refuses")})
    (option,) = [row["command"] for row in rows if row["type"] == "option"]
    assert "chmod u+rwX" in option


UNREAD = (side(11, "index"), side(32, "log"), f"{T}/partition.metadata", "d1/recovery-point-offset-checkpoint")


def forbid(monkeypatch: pytest.MonkeyPatch, denied: Path) -> None:
    """As for a user of klogtool who may not read this file."""
    real = os.open

    def opened(path: str, flags: int, *rest: int, **named: int) -> int:
        if os.path.abspath(os.fsdecode(path)) == str(denied):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", opened)


@pytest.mark.parametrize("name", UNREAD)
def test_a_file_that_klogtool_may_not_read_is_no_reason_to_move_a_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scenario = denied(name, 0o000)
    disks = wounded(scenario, tmp_path / "disks")
    forbid(monkeypatch, disks / name)
    rows = asked(disks, scenario)
    assert ahead(rows, disks) == {(name, "offline")}
    (option,) = [row for row in rows if row["type"] == "option"]
    assert (option["fix"], option["lost_records"], "chmod u+rwX" in option["command"]) == (False, 0, True)


@pytest.mark.parametrize("name", UNREAD)
def test_nothing_is_said_of_a_file_that_only_klogtool_may_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scenario = denied(name, 0o600)
    disks = wounded(scenario, tmp_path / "disks")
    os.chown(disks / name, BROKERS, BROKERS)
    forbid(monkeypatch, disks / name)
    done = run_here(["doctor", *scenario.log_dirs], disks)
    assert (done.status, done.out) == (4, b"")
    assert (f"{name}: permission denied" in done.err, "as root" in done.err) == (True, True)


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
