"""A partition that many tasks compact, by Spark itself; with tasks that die at their first attempt."""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
from typing import Any

import pytest
from compacting_in_shares import random_partition
from running import run_here
from test_spark_commands import files_of

HERE = pathlib.Path(__file__).parent
SCRIPT = """
import json, sys
import dying_jobs
from klogtool.disk.assembling import Assembly
from klogtool.plans.compact import CompactQuestion
from klogtool.plans.question import read_question
from klogtool.spark import compacting, sharing
from klogtool.spark.starting import open_session

marks, log_dir, output, settings = sys.argv[1:]
settings = read_question(CompactQuestion, json.loads(settings))
sharing.TASK_BYTES, sharing.TASKS_A_SLOT, sharing.LARGEST_SENT_BYTES = 1, 1000, 50
if marks:
    compacting.TaskCrew = dying_jobs.crew_with(marks)
assembly = Assembly.begin(output, [log_dir])
with open_session("local[2]") as session:
    folders = compacting.find_folders(log_dir, settings)
    compacting.compact_with_spark(session, assembly, settings, folders, share_bytes=0)
"""
SETTINGS = ("config", "now_ms", "loaded_at_ms", "last_stop", "recovery_point", "force", "jobs")


@pytest.mark.parametrize("dies", [False, True])
def test_many_tasks_leave_what_one_machine_leaves(dies: bool, tmp_path: pathlib.Path) -> None:
    log_dir, marks = tmp_path / "logdir", tmp_path / "marks"
    asked: dict[str, Any] = random_partition(log_dir / "t-0", random.Random(14))
    asked["config"]["log.cleaner.dedupe.buffer.size"] = str(1 << 20)
    (log_dir / "meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=c\n")
    marks.mkdir()
    settings = {name: asked[name] for name in SETTINGS}
    words = [word for name, value in asked["config"].items() for word in ("--config", f"{name}={value}")]
    words += ["--now", str(asked["now_ms"]), "--loaded-at", str(asked["loaded_at_ms"]), "--force"]
    words += ["--last-stop", "unclean", "--recovery-point", "0", "--output", str(tmp_path / "alone")]
    assert run_here(["compact", str(log_dir), *words], tmp_path).status == 0
    given = [str(marks) if dies else "", str(log_dir), str(tmp_path / "spread"), json.dumps(settings)]
    path = {"PYTHONPATH": f"{HERE}:{HERE.parents[2]}"}
    told = subprocess.run([sys.executable, "-c", SCRIPT, *given], env=_with(path), capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert files_of(tmp_path / "spread") == files_of(tmp_path / "alone")
    assert len(list(marks.iterdir())) == (3 if dies else 0)


def _with(more: dict[str, str]) -> dict[str, str]:
    import os

    return {**os.environ, **more}
