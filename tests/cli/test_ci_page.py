"""docs/ci.md: its settings files and its sessions, one after another, in a repository of its own."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from running import FIXTURES, ROOT, path_of_shells

PAGE = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
STEP = re.compile(r"^`([\w.-]+)`:\n\n```toml\n(.*?)^```$|^```session\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_OF_THE_PAGE = {"CI_PROJECT_DIR", "GITHUB_WORKSPACE"}


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / ".git").mkdir()
    shutil.copytree(FIXTURES / "killed-mid-append/logdir", tmp_path / "logs/killed")
    shutil.copytree(FIXTURES / "leader-epochs/logdir", tmp_path / "logs/sound")
    return tmp_path


def run(command: str, folder: pathlib.Path) -> list[str]:
    """The lines that a shell command prints, without blanks at their ends."""
    kept = {name: value for name, value in os.environ.items() if name not in NOT_OF_THE_PAGE}
    environment = {**kept, "PATH": path_of_shells(), "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    return [" ".join(line.split()) for line in done.stdout.decode().splitlines()]


def pattern_of(shown: str) -> str:
    """`...` in a line stands for anything in it, a line of `...` for any lines."""
    lines = (" ".join(line.split()) for line in shown.splitlines())
    return "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + "\n" for line in lines
    )


def test_the_page_shows_what_klogtool_prints(repository: pathlib.Path) -> None:
    commands = 0
    for name, text, session in STEP.findall(PAGE):
        if name:
            (repository / name).write_text(text)
        for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            printed = "".join(f"{line}\n" for line in run(command, repository))
            assert re.fullmatch(pattern_of(shown), printed), f"$ {command}\n{printed}"
            commands += 1
    assert commands > 12


def test_the_page_shows_every_setting() -> None:
    from klogtool.verify.settings import setting_names

    assert all(f"`{name}`" in PAGE for name in setting_names())
