"""Other releases load a partition as the reference does: this is why `doctor --matrix` loads each log once.

The classes of a release are asked the recorded questions of recovery; their answers are those of the reference, and
replay holds klogtool to these. `KLOGTOOL_RELEASES` names other releases than the one that is asked each time.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from running import ROOT

from klogtool.broker.releases import RELEASES

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow]
SHARED = ROOT.parent / "shared"
ASKED = os.environ.get("KLOGTOOL_RELEASES", "3.9.2").split(",")
CASES = 12 if ASKED == ["3.9.2"] else 1000


@pytest.mark.parametrize("release", ASKED)
def test_a_release_recovers_as_the_reference_does(release: str, tmp_path: pathlib.Path) -> None:
    if not SHARED.is_dir() or shutil.which("javac") is None:
        pytest.skip("needs the material beside the project, and Java")
    assert release in RELEASES
    cases = tmp_path / "cases" / "recover"
    cases.mkdir(parents=True)
    for case in sorted((SHARED / "oracle-cases" / "recover").glob("*.zip"))[:CASES]:
        shutil.copy(case, cases)
    compare, out = SHARED / "oracle-versions" / "compare.py", tmp_path / "differing.jsonl"
    asked = [sys.executable, str(compare), release, str(out), str(cases.parent)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    asked_and_alike = next(line.split()[1:3] for line in done.stdout.splitlines() if line.startswith("recover"))
    assert asked_and_alike == [str(len(list(cases.iterdir())))] * 2
