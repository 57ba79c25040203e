"""A broker starts on a disk that cannot read one of its files, and does what `klogtool doctor` said.

Both run with `bad_sectors.c`: reads of the file fail with an I/O error, and so does what maps it.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from .brokers import a_broker
from .test_brokers_as_the_doctor_said import (
    Rows,
    a_place,
    expected_ends,
    log_dir_in,
    log_dirs_of,
    of_kind,
    started,
    verdict,
)

from sampling import chance  # isort: skip
from startup import EPOCHS, MARKER, MARKS, META, PM, POINTS, SCENARIOS, T, log, side  # isort: skip

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow]
CM = "d0/__cluster_metadata-0"
FILES = (
    *(log(32), log(11), side(32, "index"), side(11, "index"), side(32, "timeindex"), side(11, "timeindex")),
    *(side(11, "txnindex"), f"{T}/{EPOCHS}", f"{T}/{PM}", f"d1/{POINTS}", f"d1/{MARKS}", f"d1/{META}", f"d1/{MARKER}"),
    *(f"{CM}/{0:020d}.log", f"{CM}/{0:020d}.index", f"{CM}/{EPOCHS}", f"{CM}/quorum-state", f"{CM}/{PM}"),
    *(f"{CM}/{62:020d}.snapshot", f"{CM}/{49:020d}-{1:010d}.checkpoint"),
)
# A start reads these two after a clean stop only; after another one it makes them anew, on other sectors.
CASES = [
    *((name, "clean") for name in (*FILES, side(43, "snapshot"), side(32, "snapshot"))),
    *((name, "unclean") for name in FILES if name != f"d1/{MARKER}"),
]
SOME = chance("bad sectors").sample(CASES, 2)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    built = tmp_path_factory.mktemp("bad") / "bad_sectors.so"
    source = pathlib.Path(__file__).with_name("bad_sectors.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", built, source, "-ldl"], check=True)
    return built


def asked(disks: pathlib.Path, library: pathlib.Path) -> Rows:
    words = [sys.executable, "-m", "klogtool", "doctor", str(disks / "d0"), str(disks / "d1"), "--json"]
    done = subprocess.run(words, env={**os.environ, "LD_PRELOAD": str(library)}, stdout=subprocess.PIPE, check=False)
    assert done.returncode in (0, 1)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _error_claimed(rows: Rows) -> Any:
    (claim,) = (row for row in rows if row["type"] == "claim" and row["about"] == "broker")
    return claim["error"]


@pytest.mark.parametrize(
    ("name", "stop"), [case if case in SOME else pytest.param(*case, marks=pytest.mark.nightly) for case in CASES]
)
def test_a_broker_does_what_the_doctor_said(
    name: str, stop: str, library: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    java.write_text(f'#!/bin/sh\nLD_PRELOAD={library} exec java "$@"\n')
    java.chmod(0o755)
    with a_place() as place:
        disks = log_dirs_of("4.3.1", place)
        if stop == "unclean":
            for log_dir in ("d0", "d1"):
                (disks / log_dir / MARKER).unlink()
                (disks / log_dir / POINTS).write_text("0\n0\n")
        monkeypatch.setenv("BAD_SECTORS", f"disks/{name}")
        config = {"log.dirs": f"{disks / 'd0'},{disks / 'd1'}"}
        options = {"log_dir": disks / "d0", "metadata_in_log_dir": True, "config": config}
        with a_broker("4.3.1", place / "work", **options) as broker:
            monkeypatch.setattr(sys.modules[type(broker).__module__], "_java", lambda: str(java))
            rows = asked(disks, library)
            offline = {log_dir_in(row["path"]) for row in of_kind(rows, "offline")}
            seen = started(broker, disks, SCENARIOS["2 clean"], lambda said: not offline or "Stopping serving" in said)
    assert seen.is_up is (verdict(rows) != "refuses"), seen.said[-3000:]
    if not seen.is_up:
        assert _error_claimed(rows) is None or _error_claimed(rows) in seen.said
        return
    assert seen.given_up == offline
    ends = expected_ends(rows, offline)
    assert {partition: seen.ends.get(partition) for partition in ends} == ends
    every = [row for row in rows if row["type"] == "ahead"]
    is_read = not name.endswith((MARKER, f"{11:020d}.timeindex", f"{32:020d}.snapshot"))
    assert bool(every) is is_read, every
