"""Every Python example of README and docs passes a strict type checker."""

from __future__ import annotations

import doctest
import json
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from running import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SESSION = {
    "docs/spark.md": "from klogtool.spark import session\nspark = session()\n"
}  # defined before the first example
# DuckDB's sql() may return None, for a statement without rows.
LENIENT = {"docs/duckdb.md": "# pyright: reportOptionalMemberAccess=false\n"}


def examples_of(page: pathlib.Path) -> list[str]:
    """Return its examples: each block of `python`, and all of its `pycon` together, as they are one session."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    session = "".join(example.source for kind, text in blocks if kind == "pycon" for example in sources_of(text))
    before = SESSION.get(str(page.relative_to(ROOT)), "")
    return [text for kind, text in blocks if kind == "python"] + ([before + session] if session else [])


def sources_of(text: str) -> list[doctest.Example]:
    """Return the statements of a session, without what they print."""
    return doctest.DocTestParser().get_examples(text)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Write the examples into a folder of modules, named by page and number."""
    folder = tmp_path_factory.mktemp("examples")
    for page in PAGES:
        for number, example in enumerate(examples_of(page)):
            path = page.relative_to(ROOT)
            name = re.sub(r"\W", "_", str(path.with_suffix("")))
            text = LENIENT.get(str(path), "") + textwrap.dedent(example)
            (folder / f"{name}_{number}.py").write_text(text, encoding="utf-8")
    return folder


def test_examples_were_collected(examples: pathlib.Path) -> None:
    names = {path.name for path in examples.iterdir()}
    assert {"README_0.py", "docs_python_0.py", "docs_build_0.py", "docs_testing_0.py"} <= names


CHECKERS = {
    "mypy": [sys.executable, "-m", "mypy", "--ignore-missing-imports"],  # and what pyproject.toml says: strict
    "pyright": ["pyright", "--pythonpath", sys.executable],  # of npm; .ci/nightly has it
}
# pyright does not follow an editable install, so it gets the folder. What README and the page of the assertions show is
# strict; elsewhere, pyarrow and Spark have no types.
PYRIGHT = {"extraPaths": [str(ROOT)], "strict": ["README_*.py", "docs_testing_0.py"], "reportMissingImports": False}
PYRIGHT |= {"reportUnusedExpression": False, "reportUnusedVariable": False}

WRONG = [
    "partition.plan_retain(retention_ms=5)",
    "partition.plan_retain(now_ms=1.5)",
    "partition.plan_delete_records()",
    "partition.plan_recover(last_stop='dirty')",
    "partition.plan_truncate(20)",
    "partition.lookup_offset('5')",
    "log_dir.plan_compact(passes_at_ms=5)",
]
RIGHT = [
    "partition.plan_retain(now_ms='2026-11-20', config={'retention.ms': '5'}, purge=True)",
    "partition.plan_compact(now_ms=datetime.now(), passes_at_ms=[datetime.now(), 5])",
    "partition.plan_append(records=Path('lines'), batches=[Path('b')])",
    "partition.lookup_offset(5, explain=True, kafka='3.9.2').record",
    "log_dir.plan_recover(jobs=1, mark_clean=True)",
]
OPENED = """from datetime import datetime
from pathlib import Path
import klogtool
log_dir = klogtool.open_log_dir('logs')
partition = log_dir['orders-0']
"""


@pytest.fixture(params=["mypy", pytest.param("pyright", marks=pytest.mark.nightly)])
def checker(request: pytest.FixtureRequest) -> list[str]:
    """Return the command of a type checker. Where it is missing, the test is skipped and says which it is."""
    name: str = request.param
    if name == "mypy":
        pytest.importorskip("mypy")
    elif shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return CHECKERS[name]


def check(command: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Run a type checker on the modules of a folder."""
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    what = ["--project", str(folder)] if "pyright" in command else list(map(str, sorted(folder.glob("*.py"))))
    return subprocess.run([*command, *what], capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.slow
def test_a_type_checker_is_content(examples: pathlib.Path, checker: list[str]) -> None:
    done = check(checker, examples)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_type_checker_sees_wrong_arguments(tmp_path: pathlib.Path, checker: list[str]) -> None:
    """It takes the arguments of a method from the question's fields, in the forms that Python may give them."""
    (tmp_path / "calls.py").write_text("\n".join([*OPENED.splitlines(), *RIGHT, *WRONG]) + "\n")
    first = len(OPENED.splitlines()) + len(RIGHT) + 1
    lines = {int(line) for line in re.findall(r"calls\.py:(\d+)[^\n]* error: ", check(checker, tmp_path).stdout)}
    assert lines == set(range(first, first + len(WRONG)))
