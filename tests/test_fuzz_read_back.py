"""The fuzzer of files that are read back works: finds what it should, puts back what it did; some inputs are fine."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest
from running import ROOT, Done

sys.path.append(str(ROOT / "tools/fuzz"))

import read_back
from read_back_files import KINDS, Asked, Kind
from read_back_values import Form, build, mutated, read

Path = pathlib.Path
INPUTS = 300


def lay_nothing(box: Path) -> Asked:
    (box / "inside/logs").mkdir()
    (box / "given/x").write_text("{}\n")
    return Asked([box / "given/x"], Form.JSON, [["version"]])


@pytest.fixture
def box(tmp_path: Path) -> Iterator[read_back.Box]:
    return read_back.Box(Kind("nothing", lay_nothing), tmp_path / "box")


@pytest.mark.slow
def test_inputs_of_chance() -> None:
    command = [sys.executable, read_back.__file__, "--inputs", str(INPUTS), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, "nothing found" in done.stdout) == (0, True), done
    assert f"{INPUTS} hostile files" in done.stdout


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_whole_file_is_taken(kind: Kind, tmp_path: Path) -> None:
    """Else nothing of a hostile one would be read but its first wound."""
    box = read_back.Box(kind, tmp_path / "box")
    for form, path in [(box.asked.form_of(path), path) for path in box.asked.files if box.asked.form]:
        path.write_bytes(build(read(box.whole[path], form), form, box.whole[path]))
    done = read_back.ask(box.asked.commands[0], box.folder)
    assert done.status in (0, 1), done
    assert read_back.judge(box, box.asked.commands[0], done) is None


@pytest.mark.parametrize(
    ("done", "told"),
    [
        (Done(1, b"", "Traceback (most recent call last)\n"), "a traceback"),
        (Done(70, b"", "x"), "status 70"),
        (Done(3, b"", ""), "without a word"),
        (Done(0, b"\x1b[31m", ""), "a terminal would obey"),
    ],
)
def test_what_is_wrong_is_found(box: read_back.Box, done: Done, told: str) -> None:
    assert told in str(read_back.judge(box, ["version"], done))


@pytest.mark.parametrize("name", ["outside/x", "outside/new", "inside/logs/new", "new"])
def test_what_is_written_is_found(box: read_back.Box, name: str) -> None:
    (box.folder / name).write_text("changed")
    assert "changed" in str(read_back.judge(box, ["version"], Done(0, b"", "")))
    box.put_back()
    assert read_back.judge(box, ["version"], Done(0, b"", "")) is None


def test_the_same_seed_makes_the_same_file() -> None:
    whole = b'{"a":[1,{"b":"x"}],"c":null}\n{"a":[]}\n'
    files = [[mutated(random.Random(n), whole, Form.LINES, "/box")[0] for n in range(200)] for _ in range(2)]
    assert files[0] == files[1]
    assert len(set(files[0])) > 100
