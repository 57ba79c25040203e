"""metadata.log.dir apart from log.dirs: a broker of 4.3.1 ended when the only other log dir went offline."""

from __future__ import annotations

import pathlib
import re

import pytest
from asking_doctor import asked, starts, wounded
from running import run_here
from startup import EPOCHS, Scenario, gone, nothing

CHECKPOINTS = "*-offset-checkpoint"
SCENARIO = Scenario(nothing, "yes", (), None, ("d0", "d1", "meta"))


def apart(disks: pathlib.Path) -> pathlib.Path:
    """The metadata of d0 in a log dir of its own."""
    meta = disks / "meta"
    meta.mkdir()
    (disks / "d0/__cluster_metadata-0").rename(meta / "__cluster_metadata-0")
    properties = (disks / "d0/meta.properties").read_text()
    (meta / "meta.properties").write_text(
        re.sub(r"directory\.id=.*", "directory.id=AAAAAAAAAAAAAAAAAAAAZQ", properties)
    )
    return meta


@pytest.mark.parametrize(
    ("offline", "has_checkpoints", "settings", "verdict"),
    [
        ((), False, "", "yes"),
        (("d1",), False, "", "loses-data"),
        (("d0", "d1"), False, "", "refuses"),
        (("d0", "d1"), True, "", "loses-data"),
        (("d0", "d1"), True, "log.dirs={0}/d0,{0}/d1\nmetadata.log.dir={0}/meta\n", "refuses"),
    ],
)
def test_a_broker_ends_if_all_of_log_dirs_are_offline(
    tmp_path: pathlib.Path, offline: tuple[str, ...], has_checkpoints: bool, settings: str, verdict: str
) -> None:
    disks = wounded(SCENARIO, tmp_path / "disks")
    meta = apart(disks)
    if has_checkpoints:
        for checkpoint in (disks / "d0").glob(CHECKPOINTS):
            (meta / checkpoint.name).write_text("0\n0\n")
    for name in offline:
        next((disks / name).glob(f"[tu]-*/{EPOCHS}")).write_text("x\n")
    (tmp_path / "properties").write_text(settings.format(disks))
    words = ("--config-file", str(tmp_path / "properties")) if settings else ()
    assert starts(asked(disks, SCENARIO, *words)) == verdict


@pytest.mark.parametrize(
    ("order", "settings", "is_known"),
    [
        (("d0", "d1"), "", True),
        (("d1", "d0"), "", False),
        (("d1", "d0"), "log.dirs={0}/d0,{0}/d1\n", True),
        (("d1", "d0"), "log.dirs={0}/d1,{0}/d0\nmetadata.log.dir={0}/d0\n", True),
    ],
)
def test_whether_a_broker_looks_for_its_metadata_in_a_later_log_dir_is_unknown(
    tmp_path: pathlib.Path, order: tuple[str, ...], settings: str, is_known: bool
) -> None:
    """By default it is in the first of log.dirs (KafkaRaftServer.initializeLogDirs). Disks do not tell the order."""
    scenario = Scenario(nothing, "yes", (), None, order)
    disks = wounded(scenario, tmp_path / "disks")
    (tmp_path / "properties").write_text(settings.format(disks))
    words = ("--config-file", str(tmp_path / "properties")) if settings else ()
    rows = asked(disks, scenario, *words)
    assert starts(rows) == "yes"
    claim = next(row for row in rows if row["type"] == "claim" and row["about"] == "broker")
    assert claim["starts"] is (True if is_known else None)
    run = run_here(["doctor", *order, *words], disks)
    assert ("if log.dirs begins with" in " ".join(run.out.decode().split())) is not is_known
    assert run.status == (0 if is_known else 1)
    assert run_here(["doctor", *order, *words, "--fail-on", "loss"], disks).status == run.status


@pytest.mark.parametrize(("order", "error"), [(("d0", "d1"), "RuntimeException"), (("d1", "d0"), None)])
def test_it_refuses_either_way_and_nobody_knows_with_which_words(
    tmp_path: pathlib.Path, order: tuple[str, ...], error: str | None
) -> None:
    """A judge's broker ended at the metadata (KafkaException), before it came to what else was wrong."""
    scenario = Scenario(gone("d1/meta.properties"), "refuses", (), None, order)
    rows = asked(wounded(scenario, tmp_path / "disks"), scenario)
    claim = next(row for row in rows if row["type"] == "claim" and row["about"] == "broker")
    assert (claim["starts"], claim["error"], claim["message"] is None) == (False, error, error is None)
