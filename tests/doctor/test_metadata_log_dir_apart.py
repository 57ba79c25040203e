"""metadata.log.dir apart from log.dirs: a broker of 4.3.1 ended when the only other log dir went offline."""

from __future__ import annotations

import pathlib
import re

import pytest
from asking_doctor import asked, starts, wounded
from startup import EPOCHS, Scenario, nothing

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
