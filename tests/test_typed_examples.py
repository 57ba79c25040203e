"""Every Python example of README and docs passes a strict type checker."""

from __future__ import annotations

import doctest
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
            name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
            (folder / f"{name}_{number}.py").write_text(textwrap.dedent(example), encoding="utf-8")
    return folder


def test_examples_were_collected(examples: pathlib.Path) -> None:
    names = {path.name for path in examples.iterdir()}
    assert {"README_0.py", "docs_python_0.py", "docs_build_0.py", "docs_testing_0.py"} <= names


def test_mypy_is_content(examples: pathlib.Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports"]  # and what pyproject.toml says: strict
    files = map(str, sorted(examples.glob("*.py")))
    done = subprocess.run([*command, *files], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_is_content(examples: pathlib.Path) -> None:
    files = map(str, sorted(examples.glob("*.py")))
    done = subprocess.run(["pyright", *files], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout
