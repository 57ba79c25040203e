"""`klogtool quorum` with a new set of voters: planned, saved, carried out, taken back; what is wrong usage."""

from __future__ import annotations

import json
import pathlib
import shlex
import shutil

import pytest
from running import ROOT, Done, run_here

LOST = ["--standalone", "--destroyed", "2", "--destroyed", "3", "--accept-loss"]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A controller that is left of three, with its settings."""
    shutil.copytree(ROOT / "docs/examples/quorum/n1", tmp_path / "n1")
    lines = (
        "process.roles=controller",
        "node.id=1",
        "controller.listener.names=CONTROLLER",
        "listeners=CONTROLLER://controller-1:9093",
        "controller.quorum.bootstrap.servers=controller-1:9093",
        "ssl.keystore.password=secret",
    )
    (tmp_path / "server.properties").write_text("\n".join(lines) + "\n")
    return tmp_path


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(folder: pathlib.Path, *words: str) -> Done:
    return run_here([*words], folder)


def test_a_plan_is_saved_carried_out_and_taken_back(folder: pathlib.Path) -> None:
    before = files_of(folder / "n1")
    planned = run(folder, "quorum", "n1", "--config-file", "server.properties", *LOST, "--plan-out", "plan")
    assert planned.status == 0, planned.err
    assert "CONTROLLER://controller-1:9093" in planned.out.decode()
    assert b"secret" not in (folder / "plan").read_bytes()
    assert files_of(folder / "n1") == before
    done = run(folder, "apply", "plan", "--json")
    assert done.status == 0, done.err
    assert files_of(folder / "n1") != before
    assert run(folder, "quorum", "n1", "--config-file", "server.properties").status == 0
    assert run(folder, "verify", "n1").status == 0
    assert run(folder, "verify", "n1", "--deep").status == 0
    again = run(folder, "apply", "plan")
    assert (again.status, "stale" in again.told or "changed" in again.told) == (3, True)
    undo = json.loads(done.out.splitlines()[-1])["undo"]
    assert run(folder, *shlex.split(undo)[1:]).status == 0
    assert files_of(folder / "n1") == before


def test_a_plan_is_stale_if_another_copy_has_changed(folder: pathlib.Path) -> None:
    shutil.copytree(folder / "n1", folder / "n4")
    meta = folder / "n4/meta.properties"
    meta.write_text(
        meta.read_text().replace("node.id=1", "node.id=4").replace("XcCOFT_2QDO29v9qZIRHPA", "A" * 21 + "w")
    )
    assert run(folder, "quorum", "n1", "n4", *LOST, "--plan-out", "plan", "-q").status == 0
    log = folder / "n4/__cluster_metadata-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    before = files_of(folder / "n1")
    assert run(folder, "apply", "plan").status == 3
    assert files_of(folder / "n1") == before


def test_a_refusal_writes_nothing_and_says_what_to_do(folder: pathlib.Path) -> None:
    before = files_of(folder)
    done = run(folder, "quorum", "n1", *LOST[:-1], "--apply", "--json")
    assert done.status == 3
    error = json.loads(done.out.splitlines()[-1])["error"]
    assert "would be lost" in error["message"]
    assert files_of(folder) == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--apply"], "--apply needs --voters or --standalone."),
        (["--destroyed", "2"], "--destroyed needs --voters or --standalone."),
        (["--standalone", "--voters", "1@h:1"], "Give --voters or --standalone, not both."),
        (["--voters", "1@h"], "'1@h' is not ID@HOST:PORT[:DIRECTORY-ID]."),
        (["--voters", "1@h:1,1@i:2"], "a controller is named twice."),
        (["--voters", "1@h:70000"], "'1@h:70000' is not ID@HOST:PORT[:DIRECTORY-ID]."),
        (["--standalone", "--journal", "j"], "--journal needs --apply."),
    ],
)
def test_wrong_usage(folder: pathlib.Path, words: list[str], why: str) -> None:
    done = run(folder, "quorum", "n1", *words)
    assert (done.status, why in done.told) == (2, True), done.told
