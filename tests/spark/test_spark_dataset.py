"""A folder that tasks write: what counts appears, once, whatever was tried, killed or resumed."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from msgspec.structs import replace

from klogtool.disk.dataset import Attempt, Dataset, TaskFile, TaskMessage, check_new
from klogtool.errors import KlogError, Refused


def written(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def attempt(dataset: Dataset, number: int, names: list[str], data: bytes) -> TaskMessage:
    made = Attempt(dataset.path, number)
    for name in names:
        with made.file(name) as sink:
            sink.write(data)
    return made.finish({"t": len(data)})


def begun(tmp_path: pathlib.Path) -> Dataset:
    return Dataset.begin(str(tmp_path / "out"), [], {"what": 1})


def test_of_several_attempts_only_the_one_that_the_message_names_counts(tmp_path: pathlib.Path) -> None:
    dataset = begun(tmp_path)
    attempt(dataset, 0, ["a/x"], b"first")
    message = attempt(dataset, 0, ["a/x"], b"second")
    died = Attempt(dataset.path, 1)
    with died.file("a/y") as sink:
        sink.write(b"half")
    died.give_up()
    with Attempt(dataset.path, 1).file("a/y") as sink:  # killed: it cannot even give up
        sink.write(b"half")
    dataset.commit([message, attempt(dataset, 1, ["a/y", "b/z"], b"more")])
    assert written(tmp_path / "out") == {"a/x": b"second", "a/y": b"more", "b/z": b"more", "_SUCCESS": b"{}"}


def test_nothing_appears_before_the_commit(tmp_path: pathlib.Path) -> None:
    dataset = begun(tmp_path)
    attempt(dataset, 0, ["a/x"], b"data")
    assert os.listdir(dataset.path) == ["_klogtool"]


def test_one_that_was_cut_short_is_gone_on_with_and_knows_what_is_done(tmp_path: pathlib.Path) -> None:
    first = begun(tmp_path)
    attempt(first, 3, ["a/x"], b"data")
    with pytest.raises(Refused, match="--resume"):
        check_new(first.path, [])
    again, plan = Dataset.resume(first.path, dict[str, int])
    assert plan == {"what": 1}
    assert [(n, message.rows) for n, message in again.done().items()] == [(3, {"t": 4})]


@pytest.mark.parametrize("renamed", [0, 1, 2, 3])
def test_a_commit_that_was_cut_short_is_done_again(tmp_path: pathlib.Path, renamed: int) -> None:
    dataset = begun(tmp_path)
    messages = [attempt(dataset, n, [f"a/{n}"], b"data") for n in range(3)]
    for n, message in enumerate(messages[:renamed]):
        (tmp_path / "out/a").mkdir(exist_ok=True)
        os.rename(f"{dataset.path}/_klogtool/{message.place}/a/{n}", f"{dataset.path}/a/{n}")
    Dataset.resume(dataset.path, dict[str, int])[0].commit(messages)
    assert sorted(written(tmp_path / "out")) == ["_SUCCESS", "a/0", "a/1", "a/2"]


def test_a_file_that_a_message_names_and_is_not_there_is_an_error(tmp_path: pathlib.Path) -> None:
    dataset = begun(tmp_path)
    message = attempt(dataset, 0, ["a/x"], b"data")
    other = replace(message, files=(*message.files, TaskFile("a/other", 1)))
    with pytest.raises(KlogError):
        dataset.commit([other])
    assert not (tmp_path / "out/_SUCCESS").exists()


def test_a_place_that_is_taken_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("")
    (tmp_path / "source").mkdir()
    with pytest.raises(Refused, match="the output folder is not empty"):
        Dataset.begin(str(tmp_path / "out"), [str(tmp_path / "source")], {})
    with pytest.raises(Refused):
        Dataset.resume(str(tmp_path / "out"), dict[str, int])
    with pytest.raises(Refused, match="inside its source"):
        Dataset.begin(str(tmp_path / "source/out"), [str(tmp_path / "source")], {})


def test_what_is_no_state_of_ours_is_told(tmp_path: pathlib.Path) -> None:
    dataset = begun(tmp_path)
    (tmp_path / "out/_klogtool/plan.json").write_text(json.dumps([1]))
    with pytest.raises(KlogError, match="this file was damaged or changed since klogtool wrote it"):
        Dataset.resume(dataset.path, dict[str, int])
