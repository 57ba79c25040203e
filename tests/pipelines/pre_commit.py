"""Runs the hook of .pre-commit-hooks.yaml as pre-commit does: on the names of the files that are staged."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
from typing import Any

import yaml


def hook_of(manifest: pathlib.Path) -> dict[str, Any]:
    (hook,) = yaml.safe_load(manifest.read_text(encoding="utf-8"))
    assert isinstance(hook, dict)
    return hook


def git(repo: pathlib.Path, *arguments: str) -> str:
    told = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *arguments]
    return subprocess.run(told, cwd=repo, check=True, capture_output=True, text=True, timeout=60).stdout


def staged(repo: pathlib.Path, hook: dict[str, Any]) -> list[str]:
    """The names that pre-commit passes: of files that are staged and not deleted, and match."""
    names = git(repo, "diff", "--staged", "--name-only", "--no-ext-diff", "-z", "--diff-filter=ACMRTUXB").split("\0")
    return [name for name in names if name and re.search(hook["files"], name)]


def run_hook(repo: pathlib.Path, hook: dict[str, Any], *arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    """path: where programs are."""
    return subprocess.run(
        [*shlex.split(hook["entry"]), *arguments, *staged(repo, hook)],
        cwd=repo,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
