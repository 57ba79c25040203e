"""The Spark that has a kafka source, in an environment of its own, and how questions are put to it or to this one."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = HERE.parents[1] / ".work" / "venv-interop"
PYTHON, JARS = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "jars"
IS_THERE = JARS.is_dir() and find_spec("pyspark") is not None
# What a consumer waits for is there already, or never will be.
PATIENCE = ["kafkaConsumer.pollTimeoutMs=2000", "fetchOffset.numRetries=1"]


def ask_kafka(work: pathlib.Path, bootstrap: str) -> dict[str, Any]:
    """What Spark's kafka source answers to the questions in work/questions.json."""
    jars = ",".join(map(str, sorted(JARS.glob("*.jar"))))
    return _ask(str(PYTHON), "kafka", work, f"kafka.bootstrap.servers={bootstrap}", f"jars={jars}")


def ask_klog(work: pathlib.Path, log_dir: pathlib.Path) -> dict[str, Any]:
    """What klog answers, by the PySpark that runs this."""
    return _ask(sys.executable, "klog", work, f"path={log_dir}")


def _ask(python: str, form: str, work: pathlib.Path, *words: str) -> dict[str, Any]:
    answer = work / f"{form}.pickle"
    command = [python, str(HERE / "rows.py"), form, str(work / "questions.json"), str(answer), *words, *PATIENCE]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:]
    found: dict[str, Any] = pickle.loads(answer.read_bytes())
    return found
