"""The workflows call targets that exist, may do no more than they must, and take nothing that somebody else may set."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from running import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
# What a job may do beside reading the project, and why it must.
MAY = {
    ("release.yml", "build"): {"id-token", "attestations"},
    ("release.yml", "pypi"): {"id-token"},
    ("release.yml", "github"): {"contents"},
    ("release.yml", "site"): {"pages", "id-token"},
}


def jobs() -> list[Any]:
    return [
        pytest.param(path.name, name, job, id=f"{path.stem}-{name}")
        for path in WORKFLOWS
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items()
    ]


def test_there_are_two() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]
    for path in WORKFLOWS:
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}


@pytest.mark.parametrize(("workflow", "name", "job"), jobs())
def test_a_job_calls_targets_that_exist_and_may_do_only_what_it_must(workflow: str, name: str, job: Any) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for step in job["steps"]:
        if (run := step.get("run", "")).startswith("make "):
            assert set(run.split()[1:]) <= targets, run
        assert "${{" not in run, "a name of a branch or tag is not put into a shell line: use env"
        assert "uses" not in step or re.fullmatch(r"[\w./-]+@(v\d+|release/v1)", step["uses"])
    writes = {key for key, value in job.get("permissions", {}).items() if value == "write"}
    assert writes == MAY.get((workflow, name), set())


def test_a_release_makes_and_checks_all() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert "make dist onefile site\n" in text
    assert "make release-check\n" in text
    assert "attest-build-provenance" in text
