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


CHECKERS = {"mypy": ("mypy", "--ignore-missing-imports")}  # and what pyproject.toml says: strict
if shutil.which("pyright"):  # it brings a Node with it, so nobody has to have it
    CHECKERS["pyright"] = ("pyright",)


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_type_checker_is_content(examples: pathlib.Path, checker: str) -> None:
    if checker == "mypy":
        pytest.importorskip("mypy")
    (examples / "pyrightconfig.json").write_text('{"reportMissingImports": false, "reportUnusedExpression": false}')
    files = map(str, sorted(examples.glob("*.py")))
    command, *options = CHECKERS[checker]
    words = [sys.executable, "-m", command] if checker == "mypy" else [command]
    if checker == "pyright":
        options, files = ["--project", str(examples), "--pythonpath", sys.executable], iter(())
    done = subprocess.run([*words, *options, *files], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
