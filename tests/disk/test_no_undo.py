"""--purge --no-undo: room is free at once, also on a disk that is full; and what earlier runs hold can be given up."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from made import contents, picture
from mortal import Died
from running import FIXTURES, Done, run_here

from klogtool.broker.content import Content
from klogtool.disk import no_undo
from klogtool.disk.disk import Disk
from klogtool.disk.journal import walk_entries

NOW = ["--now", "1700000400000"]
ALL_GO = ["--config", "retention.ms=1", *NOW]
SOURCE = FIXTURES / "transactions" / "logdir"


def fill(log_dir: pathlib.Path) -> pathlib.Path:
    """A log dir of one partition of many segments."""
    log_dir.mkdir()
    shutil.copytree(SOURCE / "t-0", log_dir / "t-0")
    for file in SOURCE.iterdir():
        if file.is_file():
            shutil.copy2(file, log_dir)
    return log_dir


def fill_up(place: pathlib.Path) -> None:
    """No block of its file system stays free."""
    with (place / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(4096))


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    return fill(box / "logs")


@pytest.fixture
def full_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system with a log dir on it, and room for nothing else."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    log_dir = fill(place / "logs")
    fill_up(place)
    yield log_dir
    subprocess.run(["umount", "-l", place], check=True)


def run(*words: object) -> Done:
    return run_here([str(word) for word in words], pathlib.Path("/"))


def rows(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.mark.parametrize("also", [[], ["--apply"], ["--format", "json"]])
def test_no_undo_alone_is_refused(log_dir: pathlib.Path, also: list[str]) -> None:
    before = picture(log_dir.parent)
    done = run("retain", log_dir / "t-0", *ALL_GO, "--no-undo", *also)
    assert done.status == 3
    told = rows(done)[-1]["error"]["message"] if "json" in also else done.told
    assert "giving both, --purge --no-undo" in told
    assert picture(log_dir.parent) == before


def test_purge_alone_keeps_what_goes_and_says_so(log_dir: pathlib.Path) -> None:
    before = picture(log_dir)
    told = run("retain", log_dir / "t-0", *ALL_GO, "--purge").out.decode()
    held = rows(run("retain", log_dir / "t-0", *ALL_GO, "--purge", "--format", "json"))[1]["bytes_held"]
    assert held > 500
    assert f"0 bytes are freed now, {held:,} bytes are held for undo (--apply)" in told
    assert run("retain", log_dir / "t-0", *ALL_GO, "--purge", "--apply").status == 0
    assert run("undo", log_dir).status == 0
    assert picture(log_dir) == before


def test_both_words_keep_nothing(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    words = ["retain", log_dir / "t-0", *ALL_GO, "--purge"]
    for_good = rows(run(*words, "--no-undo", "--format", "json"))[1]
    with_undo = rows(run(*words, "--format", "json"))[1]
    assert (for_good["bytes_held"], for_good["bytes_freed"]) == (0, with_undo["bytes_freed"])
    assert for_good["steps"] == with_undo["steps"]
    text = run(*words, "--no-undo").out.decode()
    assert f"{for_good['bytes_freed']:,} bytes are freed now, nothing is held for undo (--apply)" in text
    assert "cannot be taken back" in text.splitlines()[-1]
    assert run(*words, "--output", box / "out").status == 0
    done = run(*words, "--no-undo", "--apply", "--format", "json")
    assert (done.status, done.told) == (0, "")
    assert rows(done)[-1]["type"] == "applied"
    assert rows(done)[-1]["undo"] is None
    assert sorted(os.listdir(box)) == ["logs", "out"]
    as_written = {p.name: p.read_bytes() for p in (box / "out").iterdir()}
    assert {p.name: p.read_bytes() for p in (log_dir / "t-0").iterdir()} == as_written
    assert run("verify", log_dir).status == 0


class DiesInsideAWrite(Disk):
    """Writes a part of its n-th file, and dies."""

    def __init__(self, n: int) -> None:
        self.left = n

    def write(self, path: str, content: Content, *more: Any) -> None:
        self.left -= 1
        if self.left:
            super().write(path, content, *more)
        else:
            super().write(path, (b"a part",))
            raise Died


def test_the_same_command_finishes_what_a_kill_inside_a_write_left(
    log_dir: pathlib.Path, box: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compacted = ["--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0"]
    words = ["compact", log_dir / "t-0", *compacted, *NOW, "--purge", "--no-undo", "--apply"]
    kept = shutil.copytree(log_dir, box / "kept")
    assert run(*words).status == 0
    own = (log_dir / "cleaner-offset-checkpoint").read_bytes()
    left, deaths = set[str](), 0
    while True:
        shutil.rmtree(log_dir)
        shutil.copytree(kept, log_dir)
        with monkeypatch.context() as patched, suppress(Died):
            patched.setattr(no_undo, "Disk", partial(DiesInsideAWrite, deaths + 1))
            run(*words)
            break
        deaths += 1
        left |= {name for name in contents(log_dir) if name.endswith(".klogtool.deleted")}
        (log_dir / ".lock").unlink(missing_ok=True)
        again = run(*words)
        assert (again.status, again.told) == (0, ""), deaths
        assert (log_dir / "cleaner-offset-checkpoint").read_bytes() == own
        assert not [name for name in contents(log_dir) if "klogtool" in name]
        assert run("verify", log_dir).status == 0
    assert any("/" in name for name in left)
    assert any(name.startswith("cleaner-offset-checkpoint.") for name in left)  # a broker's start leaves that one


@pytest.mark.parametrize(
    "words",
    [
        ["--apply", "--journal", "j"],
        ["--output", "out"],
    ],
)
def test_what_does_not_go_with_it(log_dir: pathlib.Path, words: list[str]) -> None:
    assert run("retain", log_dir / "t-0", *ALL_GO, "--purge", "--no-undo", *words).status == 2


def test_a_saved_plan_keeps_nothing_as_it_says(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    words = ["retain", log_dir / "t-0", *ALL_GO, "--purge", "--no-undo"]
    assert run(*words, "--plan-out", box / "plan").status == 0
    assert run("apply", box / "plan").out.decode().endswith("Nothing is kept for undo.\n")
    assert sorted(os.listdir(box)) == ["logs", "plan"]


@pytest.mark.parametrize("with_lock", [False, True])
@pytest.mark.parametrize("options", [ALL_GO, ["--config", "retention.bytes=1", *NOW]], ids=["all", "some"])
def test_on_a_disk_that_is_full(full_disk: pathlib.Path, options: list[str], with_lock: bool) -> None:
    if not with_lock:
        (full_disk / ".lock").unlink(missing_ok=True)
    size = sum(path.stat().st_blocks for path in (full_disk / "t-0").iterdir())
    refused = run("retain", full_disk / "t-0", *options, "--purge", "--apply")
    assert refused.status in (3, 4), refused
    done = run("retain", full_disk / "t-0", *options, "--purge", "--no-undo", "--apply")
    assert done.status == 0, done.err
    assert sum(path.stat().st_blocks for path in (full_disk / "t-0").iterdir()) < size
    assert sorted(os.listdir(full_disk.parent)) == ["filler", "logs"]
    assert run("verify", full_disk).status == 0


def test_a_refusal_for_want_of_space_says_what_frees_some(full_disk: pathlib.Path) -> None:
    done = run("truncate", full_disk / "t-0", "--to", "1", *NOW, "--apply")
    assert done.status == 3, done
    assert "not enough space" in done.told.splitlines()[0], done.told
    assert "--journal DIR" in done.told.splitlines()[1]
    assert "undo --discard" in done.told.splitlines()[1]


def test_discard_frees_a_full_disk(full_disk: pathlib.Path) -> None:
    (full_disk.parent / "filler").unlink()
    assert run("retain", full_disk / "t-0", *ALL_GO, "--purge", "--apply").status == 0
    fill_up(full_disk.parent)
    assert run("undo", "--discard", "--all", full_disk).status == 0
    assert sorted(os.listdir(full_disk.parent)) == ["filler", "logs"]


# undo --discard


def test_discard_without_an_id_offers_all_that_is_finished(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    for to in (20, 10):
        assert run("truncate", log_dir / "t-0", "--to", to, *NOW, "--apply").status == 0
    entries = list(walk_entries(f"{log_dir}.klogtool"))
    assert len(entries) == 2
    held = sum(entry.held_bytes() for entry in entries)
    offered = run("undo", "--discard", log_dir)
    assert offered.status == 3
    assert all(entry.id in offered.out.decode() for entry in entries)
    assert f"2 finished runs can be discarded; that frees {held:,} bytes" in offered.told
    command = offered.told.splitlines()[1]
    assert command == f"klogtool undo --discard --all {log_dir}"
    assert len(list(walk_entries(f"{log_dir}.klogtool"))) == 2
    done = run(*command.split()[1:], "--format", "json")
    assert done.status == 0
    assert {row["id"] for row in rows(done)[1:]} == {entry.id for entry in entries}
    assert os.listdir(box) == ["logs"]
    assert run("undo", "--discard", log_dir).status == 2
    assert run("undo", "--discard", "--all", log_dir).status == 0


def test_what_was_cut_short_is_not_given_up(log_dir: pathlib.Path) -> None:
    for to in (20, 10):
        assert run("truncate", log_dir / "t-0", "--to", to, *NOW, "--apply").status == 0
    first, _ = walk_entries(f"{log_dir}.klogtool")
    manifest = pathlib.Path(first.path) / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"DONE"', b'"STAGED"'))
    done = run("undo", "--discard", "--all", log_dir)
    assert (done.status, f"{first.id} stays: cut short" in done.told) == (0, True)
    assert [entry.id for entry in walk_entries(f"{log_dir}.klogtool")] == [first.id]


def test_undo_names_the_path_that_was_given(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    (box / "way").symlink_to(log_dir)
    assert run("truncate", box / "way" / "t-0", "--to", 10, *NOW, "--apply").status == 0
    assert f"truncate   {box / 'way' / 't-0'}\n" in run("undo", box / "way").out.decode()


def test_a_plan_that_is_saved_and_carried_out_says_no_more_than_that(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    done = run("truncate", log_dir / "t-0", "--to", 10, *NOW, "--apply", "--plan-out", box / "plan")
    assert (done.status, done.told) == (0, "klogtool: plan saved\n")
