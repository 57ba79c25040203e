"""What is named as a remote store and is none: nothing is said of it, in place of "0 errors"."""

from __future__ import annotations

import pathlib

import pytest
from remote_stores import LOGS, STORE
from running import Done, run_here

SEGMENT = next(STORE.rglob("*.log"))
COMMANDS = (["verify"], ["fetch"], ["metadata"])


def asked(words: list[str], store: pathlib.Path | str, folder: pathlib.Path, *options: str) -> Done:
    partition = ["orders-0"] if words == ["fetch"] else []
    return run_here(["remote", *words, str(store), *partition, *options], folder)


@pytest.mark.parametrize("words", [*COMMANDS, ["ls"]])
def test_what_is_no_store_is_refused(words: list[str], tmp_path: pathlib.Path) -> None:
    for wrong, why in ((LOGS, "a log dir, not a remote store"), (SEGMENT, "an object, not a remote store")):
        done = asked(words, wrong, tmp_path)
        assert (done.status, done.out) == (2, b"")
        assert why in done.told
    done = asked(words, "x.log", SEGMENT.parent)
    assert done.status == 2


@pytest.mark.parametrize("words", COMMANDS)
def test_nothing_is_said_of_a_folder_without_segments(words: list[str], tmp_path: pathlib.Path) -> None:
    for wrong in (tmp_path, LOGS / "orders-0"):
        done = asked(words, wrong, tmp_path)
        assert (done.status, done.out) == (2, b"")
        assert "is it the store?" in done.told


def test_what_the_metadata_names_is_missing_in_an_empty_store(tmp_path: pathlib.Path) -> None:
    done = asked(["verify"], tmp_path, tmp_path, "--metadata", str(LOGS))
    assert done.status == 1
    assert b"remote-object-missing" in done.out
    assert "it has none of the segments that the metadata names: is it the store?" in done.told
    done = asked(["verify"], STORE, tmp_path, "--metadata", str(LOGS))
    assert "is it the store?" not in done.told
    assert asked(["ls"], tmp_path, tmp_path).status == 0


@pytest.mark.parametrize("words", [[], ["--partitions", "3"], ["--metadata", str(LOGS)]])
def test_a_number_of_partitions_that_is_a_guess_is_asked_for(words: list[str], tmp_path: pathlib.Path) -> None:
    """A broker ignores what lies in another partition than it looks into."""
    done = asked(["metadata"], STORE, tmp_path, "--local", str(LOGS), *words)
    assert ("is 50 the number that it has?" in done.told) is (not words)
