"""The fuzzer of directories works: finds what it should, undoes what it did; a few hundred inputs are fine."""

from __future__ import annotations

import os
import pathlib
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from running import ROOT, tree_of

sys.path.append(str(ROOT / "tools/fuzz"))

import dir_questions
import directories
from choices import Choices
from dir_questions import Place, Say, must
from trees import Odd, Workplace, scenarios, wound

Path = pathlib.Path
Question = Callable[[Choices, Place, Say], None]
INPUTS, INPUT_BYTES = 300, 64


@pytest.fixture
def fuzzing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[directories.Fuzzing]:
    monkeypatch.setattr(directories, "LIMIT_BYTES", 1 << 60)  # the peak of this process is that of all tests before
    with directories.watching():
        yield directories.Fuzzing(tmp_path, inputs=INPUTS, seconds=float("inf"))


def wrong_with(fuzzing: directories.Fuzzing, monkeypatch: pytest.MonkeyPatch, question: Question) -> str:
    """What is said of an input whose question is this one."""
    monkeypatch.setattr(dir_questions, "QUESTIONS", (question,))
    wrong = fuzzing.wrong_with(b"")
    assert wrong is not None
    return directories.kind_of_wrong(wrong)


@pytest.mark.slow
def test_inputs_of_chance(fuzzing: directories.Fuzzing) -> None:
    rng = random.Random(1)
    for _ in range(INPUTS):
        told: list[str] = []
        wrong = fuzzing.wrong_with(rng.randbytes(INPUT_BYTES), told)
        assert wrong is None, "\n".join(told)


@pytest.mark.slow
def test_rounds_make_up_what_was_asked_for(tmp_path: Path) -> None:
    command = [sys.executable, directories.__file__, "--inputs", "25", "--round", "10", "--seed", "3"]
    command += ["--corpus", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    tallies = re.findall(r"^([\d,]+) inputs .*: (.*) found$", done.stdout, re.MULTILINE)
    assert (tallies, done.returncode) == ([("10", "nothing"), ("10", "nothing"), ("5", "nothing")], 0), done


def test_an_exception_is_found(fuzzing: directories.Fuzzing, monkeypatch: pytest.MonkeyPatch) -> None:
    def question(rng: Choices, place: Place, say: Say) -> None:
        raise ValueError("a length is none")

    assert wrong_with(fuzzing, monkeypatch, question) == "ValueError: a length is none"


def test_a_broken_law_is_found(fuzzing: directories.Fuzzing, monkeypatch: pytest.MonkeyPatch) -> None:
    def question(rng: Choices, place: Place, say: Say) -> None:
        must(False, "offsets ascend", 7)

    assert wrong_with(fuzzing, monkeypatch, question) == "asking.Broken: offsets ascend"


@pytest.mark.parametrize("name", ["here/new", "here/meta.properties"])
def test_what_is_written_is_found(fuzzing: directories.Fuzzing, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def question(rng: Choices, place: Place, say: Say) -> None:
        (place.root / name).write_bytes(b"")

    assert "not as before" in wrong_with(fuzzing, monkeypatch, question)
    monkeypatch.setattr(dir_questions, "QUESTIONS", (lambda rng, place, say: None,))
    assert fuzzing.wrong_with(b"") is None  # all is as it was


def test_an_endless_loop_is_found(fuzzing: directories.Fuzzing, monkeypatch: pytest.MonkeyPatch) -> None:
    def question(rng: Choices, place: Place, say: Say) -> None:
        while True:
            pass

    monkeypatch.setattr(directories, "LIMIT_S", 0.2)
    assert "Late" in wrong_with(fuzzing, monkeypatch, question)


@pytest.mark.slow
def test_waiting_without_end_is_found(fuzzing: directories.Fuzzing, monkeypatch: pytest.MonkeyPatch) -> None:
    def question(rng: Choices, place: Place, say: Say) -> None:
        fifo = place.root / "here" / "fifo"
        os.mkfifo(fifo)
        fifo.open("rb")

    monkeypatch.setattr(directories, "STUCK_S", 1)
    assert "Late" in wrong_with(fuzzing, monkeypatch, question)


def test_a_wounded_tree_is_laid_and_put_back(tmp_path: Path) -> None:
    place = Workplace(tmp_path / "0", scenarios()[0].tree)
    before = {path: data for path, (*_, data) in tree_of(place.root).items()}
    rng = random.Random(2)
    for _ in range(INPUTS):
        tree = dict(place.tree)
        list(wound(Choices(rng.randbytes(INPUT_BYTES)), tree))
        with place.laid(tree) as root:
            for path, node in tree.items():
                assert isinstance(node, Odd) or (root / path).read_bytes() == node
    assert {path: data for path, (*_, data) in tree_of(place.root).items()} == before


def test_choices_are_those_of_the_bytes() -> None:
    def chosen(data: bytes) -> list[int]:
        rng = Choices(data)
        return [rng.randrange(10), rng.randrange(1000), rng.getrandbits(12), int(rng.chance(2)), rng.randrange(7)]

    assert chosen(bytes([13, 3, 232, 0xFF, 0xFF, 1])) == [3, 0, 0xFFF, 1, 0]
    assert chosen(b"") == [0, 0, 0, 0, 0]
