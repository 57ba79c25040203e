"""`klogtool spark` as users run it: another process, Spark's own session, nothing but the result on the terminal."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pyarrow.parquet as pq
import pytest
from running import ROOT

pytestmark = pytest.mark.timeout(900)  # each starts a Spark of its own: minutes on a busy machine
FIXTURES = ROOT / "fixtures"
HERE = pathlib.Path(__file__).parent
BLOCK = re.compile(r"^```text\n\$ (klogtool spark [^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

SCRIPT = """
import json, sys
from functools import partial
import dying_jobs
from klogtool.spark.exporting import HowToExport, begin_export
from klogtool.spark.starting import open_session
from klogtool.spark.spreading import spread

out, marks, source = sys.argv[1:]
export = begin_export(out, HowToExport({"paths": json.dumps([source]), "minPartitions": "6"}), [])
with open_session("local[2]") as session:
    work = partial(dying_jobs.export_at_second_try, marks, export.dataset.path, export.how)
    export.dataset.commit(spread(session, work, list(enumerate(export.splits))))
print(len(export.splits))
"""


def klogtool(*words: str | pathlib.Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "klogtool", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "110", "NO_COLOR": "1", **env},
        capture_output=True,
        text=True,
        timeout=800,
    )


def rows_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_findings_are_those_of_verify(tmp_path: pathlib.Path) -> None:
    path = FIXTURES / "killed-mid-append/logdir"
    told = klogtool("spark", "verify", path, "--format", "json", "--output", tmp_path / "out")
    alone = klogtool("verify", path, "--format", "json")
    assert (told.returncode, told.stderr) == (alone.returncode, "") == (1, "")
    *found, summary = rows_of(told.stdout)[1:]
    *expected, expected_summary = rows_of(alone.stdout)[1:]
    assert found == expected
    assert summary | {"seconds": 0} == expected_summary | {"seconds": 0}
    assert pq.read_table(tmp_path / "out").column("id").to_pylist() == [row["id"] for row in found]


def test_an_attempt_that_died_leaves_nothing_twice(tmp_path: pathlib.Path) -> None:
    (tmp_path / "marks").mkdir()
    words = [sys.executable, "-c", SCRIPT, tmp_path / "out", tmp_path / "marks", FIXTURES / "transactions/logdir"]
    env = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(list(map(str, words)), env=env, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(os.listdir(tmp_path / "marks")) >= 4
    found = [
        (path.parent.name, *row.values())
        for path in (tmp_path / "out").rglob("*.parquet")
        for row in pq.read_table(path, columns=["partition", "offset"], partitioning=None).to_pylist()
    ]
    assert len(found) == len(set(found)) == 148


def test_a_task_that_always_dies_is_told_with_the_log(tmp_path: pathlib.Path) -> None:
    script = "import os, sys\nfrom klogtool.spark.starting import open_session, SparkFailed\n"
    script += "from klogtool.spark.spreading import spread\n"
    script += "with open_session('local[1,1]') as s:\n    spread(s, os._exit, [1])\n"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=800)
    (line, log) = done.stderr.splitlines()[-2:]
    assert "SparkFailed: The Spark job failed: " in line
    assert "Exception" in pathlib.Path(log.removeprefix("Its log: ")).read_text()


def test_an_export_that_meets_damage_can_be_resumed_elsewhere(tmp_path: pathlib.Path) -> None:
    words = ["spark", "export", FIXTURES / "killed-mid-append/logdir", "--output", tmp_path / "out"]
    told = klogtool(*words)
    assert told.returncode == 1
    assert "--resume" in told.stderr
    assert told.stdout == ""
    assert klogtool(*words).returncode == 3
    assert klogtool("spark", "export", tmp_path, "--output", tmp_path / "no", "--resume").returncode == 3


def test_without_java_one_line_says_what_to_do() -> None:
    env = {"PATH": "/nowhere", "JAVA_HOME": ""}
    told = klogtool("spark", "inventory", FIXTURES / "groups/logdir", **env)
    assert (told.returncode, told.stdout) == (4, "")
    assert told.stderr.splitlines() == [
        "klogtool: Spark needs Java 17 or later, and no Java was found: install one, or pip install klogtool[java]"
    ]


COMMANDS = [("verify",), ("inventory",), ("export", "--output", "out"), ("compact", "--output", "out")]


def check_not_started(told: Any, words: str) -> None:
    """Status 4, a line with the reason, and a line with the log, which is there."""
    assert (told.returncode, told.stdout) == (4, "")
    why, log = told.stderr.splitlines()
    assert why == f"klogtool: Spark did not start: {words}"
    assert pathlib.Path(log.removeprefix("Its log: ")).is_file()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_java_that_is_too_old(words: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    """A Java 8 says of Spark's launcher what this one says."""
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin/java"
    java.write_text("#!/bin/sh\necho java.lang.UnsupportedClassVersionError: x >&2\nexit 1\n")
    java.chmod(0o700)
    given = [str(tmp_path / word) if word == "out" else word for word in words]
    told = klogtool("spark", *given, FIXTURES / "transactions/logdir", JAVA_HOME=str(tmp_path), TMPDIR=str(tmp_path))
    check_not_started(told, "Java is too old, Spark needs 17 or later")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("master", "words"),
    [
        ("spark://NOWHERE", "Invalid master URL: spark://NOWHERE"),
        ("nonsense", "Master must either be yarn or start with spark, k8s, or local"),
        ("local[x]", "Could not parse Master URL: 'local[x]'"),
    ],
)
def test_a_master_that_is_none(master: str, words: str, tmp_path: pathlib.Path) -> None:
    told = klogtool("spark", "inventory", FIXTURES / "groups/logdir", "--master", master, TMPDIR=str(tmp_path))
    check_not_started(told, words)


def test_a_java_home_without_java(tmp_path: pathlib.Path) -> None:
    told = klogtool("spark", "inventory", FIXTURES / "groups/logdir", JAVA_HOME=str(tmp_path))
    assert (told.returncode, told.stdout) == (4, "")
    assert told.stderr.splitlines()[0] == f"klogtool: {tmp_path}: JAVA_HOME has no bin/java"


def examples() -> list[Any]:
    found = BLOCK.findall((ROOT / "docs/spark-commands.md").read_text(encoding="utf-8"))
    return [pytest.param(command, output, id=command[:40]) for command, output in found]


def pattern_of(output: str) -> str:
    return "".join(re.escape(line).replace(re.escape("..."), ".*") + "\n" for line in output.splitlines())


@pytest.mark.parametrize(("command", "output"), examples())
def test_an_example_prints_what_the_page_shows(command: str, output: str, tmp_path: pathlib.Path) -> None:
    words = command.split()[1:]
    for option in ("--output", "--html", "--parquet"):
        if option in words:
            place = words.index(option) + 1
            words[place] = str(tmp_path / words[place])
    told = klogtool(*words)
    assert re.fullmatch(pattern_of(output), told.stdout.replace(f"{tmp_path}/", "")), told.stdout + told.stderr
