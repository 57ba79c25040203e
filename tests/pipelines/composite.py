"""Runs a composite action of GitHub as a runner does: inputs with their defaults, expressions put in, a shell for each
step.

`python composite.py ACTION.yml WORKSPACE NAME=VALUE...` runs one and prints its outputs.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")
SHELLS = {"bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"]}  # as the runner calls them


@dataclass
class Ran:
    """What a run left."""

    status: int
    out: str
    err: str
    summary: str
    outputs: dict[str, str] = field(default_factory=dict)


def load(path: pathlib.Path) -> dict[str, Any]:
    action = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(action, dict)
    return action


def run_action(
    path: pathlib.Path,
    workspace: pathlib.Path,
    inputs: Mapping[str, str],
    runner_temp: pathlib.Path,
    leave_out: frozenset[str] = frozenset(),
    **environment: str,
) -> Ran:
    """Run the steps in order; the first that fails ends it. leave_out: ids of steps that are not run."""
    action = load(path)
    unknown = set(inputs) - set(action["inputs"])
    assert not unknown, f"no such input: {unknown}"
    given = {name: inputs.get(name, about.get("default", "")) for name, about in action["inputs"].items()}
    known = {f"inputs.{name}": value for name, value in given.items()} | {"github.action_path": str(path.parent)}
    summary = runner_temp / "summary"
    ran = Ran(0, "", "", "")
    for number, step in enumerate(action["runs"]["steps"]):
        if step.get("id") in leave_out:
            continue
        outputs, script = runner_temp / f"output-{number}", runner_temp / f"step-{number}.sh"
        outputs.touch()
        summary.touch()
        script.write_text(step["run"], encoding="utf-8")
        done = subprocess.run(
            [*SHELLS[step["shell"]], str(script)],
            cwd=workspace,
            env={
                **os.environ,
                **environment,
                **{name: put_in(str(value), known) for name, value in step.get("env", {}).items()},
                "RUNNER_TEMP": str(runner_temp),
                "GITHUB_ACTIONS": "true",
                "GITHUB_WORKSPACE": str(workspace),
                "GITHUB_OUTPUT": str(outputs),
                "GITHUB_STEP_SUMMARY": str(summary),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        ran.status, ran.out, ran.err = done.returncode, ran.out + done.stdout, ran.err + done.stderr
        for line in outputs.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            known[f"steps.{step['id']}.outputs.{name}"] = value
        if ran.status:
            break
    ran.summary = summary.read_text(encoding="utf-8") if summary.exists() else ""
    ran.outputs = {name: put_in(about["value"], known) for name, about in action.get("outputs", {}).items()}
    return ran


def put_in(text: str, known: Mapping[str, str]) -> str:
    """Put values in the place of expressions; what is not known is empty."""
    return EXPRESSION.sub(lambda found: known.get(found[1], ""), text)


def main() -> int:
    action, workspace, *given = sys.argv[1:]
    inputs = dict(pair.split("=", 1) for pair in given)
    with tempfile.TemporaryDirectory() as runner_temp:
        ran = run_action(pathlib.Path(action), pathlib.Path(workspace), inputs, pathlib.Path(runner_temp))
    sys.stdout.write(ran.out + ran.summary)
    sys.stderr.write(ran.err)
    print(ran.outputs)
    return ran.status


if __name__ == "__main__":
    sys.exit(main())
