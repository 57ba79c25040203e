"""action.yml: what its steps do, run as GitHub's runner runs them; and its form."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable

import jsonschema
import loaded
import pytest
from composite import EXPRESSION, Ran, load, run_action
from running import FIXTURES, ROOT

from klogtool.testing import wounds

Path = pathlib.Path
ACTION = ROOT / "action.yml"
SCHEMA = ROOT / "tests/cli/data/schemas/github-action.json"
Verify = Callable[..., Ran]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A checkout with a sound log dir and a damaged one."""
    folder = tmp_path / "work space"
    shutil.copytree(FIXTURES / "leader-epochs/logdir", folder / "sound")
    shutil.copytree(FIXTURES / "leader-epochs/logdir", folder / "damaged")
    wounds.flip_bit(folder / "damaged/t-0", segment=0, batch=2)
    wounds.stale_index(folder / "damaged/t-0", kind="timeindex", segment=0)
    return folder


@pytest.fixture
def verify(tmp_path: Path, workspace: Path) -> Verify:
    """Run the action but for the step that installs: klogtool is that of this test."""
    runner_temp = tmp_path / "runner"
    (runner_temp / "klogtool/bin").mkdir(parents=True)
    program = runner_temp / "klogtool/bin/klogtool"
    program.symlink_to(os.path.join(loaded.folder_for_shells(), "klogtool"))

    def run(**inputs: str) -> Ran:
        named = {name.replace("_", "-"): value for name, value in inputs.items()}
        ran = run_action(ACTION, workspace, named, runner_temp, frozenset({"install"}))
        (runner_temp / "summary").unlink()
        return ran

    return run


def test_it_has_the_form_that_github_publishes() -> None:
    jsonschema.validate(load(ACTION), json.loads(SCHEMA.read_text()))


def test_no_script_has_an_expression() -> None:
    """An expression in a script is text that the shell runs: inputs go by the environment."""
    for step in load(ACTION)["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
        assert all(EXPRESSION.fullmatch(value) for value in step["env"].values())
    named = {found for step in load(ACTION)["runs"]["steps"] for value in step["env"].values()
             for found in EXPRESSION.findall(value)}  # fmt: skip
    assert {f"inputs.{name}" for name in load(ACTION)["inputs"]} <= named


def test_damage_fails_the_job_and_is_annotated(verify: Verify) -> None:
    ran = verify(path="damaged")
    assert ran.status == 1
    assert ran.outputs == {"status": "1"}
    first = f"::error file=damaged/t-0/{0:020d}.log,title=klogtool batch-crc::"
    assert any(line.startswith(first) for line in ran.out.splitlines()), ran.out + ran.err
    assert ran.summary.startswith("### klogtool verify\n~~~~~~~~text\n")
    assert "batch-crc   bytes " in ran.summary
    assert ran.summary.endswith("Exit status 1.\n~~~~~~~~\n")


def test_a_sound_log_dir_passes(verify: Verify) -> None:
    ran = verify(path="sound\n\n")
    assert (ran.status, ran.outputs) == (0, {"status": "0"}), ran.out + ran.err
    assert "::" not in ran.out
    assert "0 errors, 0 warnings" in ran.summary


def test_several_paths_and_formats(verify: Verify) -> None:
    ran = verify(path="sound\ndamaged", format="json", summary="false")
    assert ran.status == 1
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert {row["id"] for row in rows if row["type"] == "finding"} >= {"batch-crc", "timeindex-max"}
    assert ran.summary == ""


def test_all_log_dirs_below_a_folder(verify: Verify) -> None:
    ran = verify(path=".")
    assert ran.status == 1
    assert "file=damaged/t-0/" in ran.out
    assert "file=sound" not in ran.out
    assert verify(path=".", recursive="false").status == 4


def test_a_sarif_file_is_written(verify: Verify, workspace: Path) -> None:
    ran = verify(path="damaged", sarif_file="out file.sarif")
    assert ran.status == 1
    report = json.loads((workspace / "out file.sarif").read_text())
    assert report["version"] == "2.1.0"
    assert {result["ruleId"] for result in report["runs"][0]["results"]} == {"batch-crc", "timeindex-max"}


def test_settings_and_baseline_and_severity(verify: Verify, workspace: Path) -> None:
    wounds.drop_epochs(workspace / "sound/t-0")
    assert verify(path="sound").status == 0
    assert verify(path="sound", fail_on="warning").status == 1
    (workspace / "my.toml").write_text('paths = ["sound"]\nfail-on = "warning"\n')
    assert verify(config="my.toml").status == 1
    known = verify(path="damaged", format="json", summary="false").out
    (workspace / "known.json").write_text(known)
    assert verify(path="damaged", baseline="known.json").status == 0
    assert verify(path="damaged", kafka="3.9.2").status == 1


def test_wrong_inputs_are_told(verify: Verify, workspace: Path) -> None:
    for inputs, why in (
        ({"path": "nothing"}, "nothing"),
        ({"path": "sound", "kafka": "1"}, "1"),
        ({"path": "sound", "format": "pdf"}, "pdf"),
        ({"path": "sound", "fail_on": "never"}, "never"),
        ({"path": "--apply"}, "--apply"),
    ):
        ran = verify(**inputs)
        assert ran.status in (2, 4)
        assert why in ran.err
        assert "Traceback" not in ran.err


@pytest.mark.slow
def test_inputs_are_no_commands(verify: Verify, workspace: Path) -> None:
    names = ("path", "recursive", "format", "config", "fail_on", "baseline", "kafka", "sarif_file", "summary")
    before = sorted(os.listdir(workspace))
    for name in names:
        for text in ("$(touch pwned)", "`touch pwned`", "; touch pwned;", "' ; touch pwned; '", "\" ; touch pwned; \"",
                     "sound\n--plan-out=pwned\n--recover"):  # fmt: skip
            verify(**({"path": "sound"} | {name: text}))
    found = sorted(os.listdir(workspace))
    assert "pwned" not in found
    assert len(found) - len(before) <= 6  # the SARIF files, under their odd names


@pytest.mark.parametrize(
    "version", ["-r evil.txt", "1; touch pwned", "1 --index-url=x", "@ file:///x", "$(touch pwned)"]
)
def test_a_version_that_is_none_installs_nothing(version: str, workspace: Path, tmp_path: Path) -> None:
    ran = run_action(ACTION, workspace, {"version": version}, tmp_path)
    assert ran.status == 2
    assert ran.out.startswith("::error title=klogtool::the input version is not a version")
    assert not (tmp_path / "klogtool").exists()
    assert not (workspace / "pwned").exists()
