"""klogtool free on file systems without a free byte: what it says becomes free does, and undo brings all of it back."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from made import contents, picture
from running import FIXTURES, Done, run_here

SOURCE = FIXTURES / "retention" / "logdir"
NOW = ["--now", "2026-11-22", "--config", "retention.ms=604800000"]  # nothing goes by a default
STRAY = "time-0.0123456789abcdef0123456789abcdef-stray"


def run(*words: object) -> Done:
    return run_here([str(word) for word in words], pathlib.Path("/"))


def answer(done: Done) -> dict[str, Any]:
    rows = [json.loads(line) for line in done.out.splitlines()]
    found: dict[str, Any] = next(row["answer"] for row in rows if row["type"] == "plan")
    return found


def free_bytes(place: pathlib.Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def fill_up(place: pathlib.Path) -> None:
    """No block of the file system stays free, and no file can be made any larger."""
    with (place / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(1 << 16))
    with (place / "filler").open("ab", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(512))


def mount(place: pathlib.Path, kind: str) -> None:
    place.mkdir()
    if kind == "tmpfs":
        words = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    else:
        image = place.with_name("image")
        with image.open("wb") as file:
            file.truncate(16 << 20)
        if (
            shutil.which("mkfs.ext4") is None
            or subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], capture_output=True).returncode
        ):
            pytest.skip("there is no mkfs.ext4 here")
        words = ["mount", "-o", "loop", str(image), str(place)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip(f"mounting {kind} is not permitted here")


@pytest.fixture(params=["tmpfs", "ext4"])
def log_dir(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A log dir with everything in it that can be given up, on a file system of its own that is full."""
    place = tmp_path / "small"
    mount(place, request.param)
    log_dir = pathlib.Path(shutil.copytree(SOURCE, place / "logs"))
    shutil.copytree(log_dir / "time-0", log_dir / STRAY)
    fill_up(place)
    os.sync()
    yield log_dir
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def elsewhere(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "another-disk"


def test_no_byte_is_free(log_dir: pathlib.Path) -> None:
    assert free_bytes(log_dir) == 0
    with pytest.raises(OSError, match="No space left"):
        (log_dir / "one").write_bytes(b"1")


@pytest.mark.parametrize("kinds", [[], ["--only", "retention"], ["--only", "stray"], ["--except", "deleted"]])
@pytest.mark.parametrize("lock", [True, False])
def test_moved_elsewhere_and_back(log_dir: pathlib.Path, elsewhere: pathlib.Path, kinds: list[str], lock: bool) -> None:
    if not lock:
        (log_dir / ".lock").unlink(missing_ok=True)
    before, names = picture(log_dir), sorted(os.listdir(log_dir.parent))
    most = answer(run("free", log_dir, *NOW, *kinds, "--format", "json"))["freed_bytes"]
    done = run("free", log_dir, *NOW, *kinds, "--bytes", most, "--apply", "--to", elsewhere, "--format", "json")
    assert done.status == 0, done.err
    told = answer(done)
    assert told["reached"]
    assert free_bytes(log_dir) == told["freed_bytes"] == most > 0
    assert sorted(os.listdir(log_dir.parent)) == names
    assert not [item["path"] for item in told["items"] if any(pathlib.Path(item["path"]).glob("*"))]
    assert run("verify", log_dir).status == 0
    undone = run("undo", "--journal", elsewhere)
    assert undone.status == 0, undone.err
    assert picture(log_dir) == before


@pytest.mark.parametrize("asked", [1, 5000, 80_000, 1 << 40])
def test_for_good(log_dir: pathlib.Path, asked: int) -> None:
    before = contents(log_dir)
    done = run("free", log_dir, *NOW, "--bytes", asked, "--apply", "--no-undo", "--format", "json")
    told = answer(done)
    assert done.status == (0 if told["reached"] else 1)
    assert free_bytes(log_dir) == told["freed_bytes"]
    assert told["reached"] == (free_bytes(log_dir) >= asked) == (asked < 1 << 40)
    after = contents(log_dir)
    changed = {name for name in after if after[name] != before[name]}
    assert {pathlib.Path(name).name for name in changed} <= {"leader-epoch-checkpoint"}
    gone = {pathlib.Path(name).parent for name in before.keys() - after.keys() if name.endswith(".log")}
    assert {pathlib.Path(name).parent for name in changed} <= gone
    assert sorted(os.listdir(log_dir.parent)) == sorted({"filler", "logs", *os.listdir(log_dir.parent)})
    assert run("verify", log_dir).status == 0


def test_a_plan_that_was_saved_elsewhere(log_dir: pathlib.Path, elsewhere: pathlib.Path) -> None:
    before, plan = picture(log_dir), elsewhere.with_name("plan")
    assert run("free", log_dir, *NOW, "--bytes", "60KiB", "--plan-out", plan).status == 0
    same_disk = run("apply", plan)
    assert (same_disk.status, picture(log_dir)) == (3, before)
    done = run("apply", plan, "--journal", elsewhere)
    assert done.status == 0, done.err
    assert free_bytes(log_dir) >= 60 << 10
    assert run("undo", "--journal", elsewhere).status == 0
    assert picture(log_dir) == before


@pytest.mark.parametrize("words", [[], ["--to", "beside"]])
def test_a_journal_on_the_same_disk_is_refused(log_dir: pathlib.Path, words: list[str]) -> None:
    to = [word.replace("beside", str(log_dir.parent / "kept")) for word in words]
    before = picture(log_dir.parent)
    done = run("free", log_dir, *NOW, "--bytes", "4KiB", "--apply", *to)
    assert done.status == 3
    assert "would stay on the same disk, which frees nothing" in done.told
    assert "--to DIR" in done.told
    assert picture(log_dir.parent) == before


def test_another_disk_that_is_too_small(log_dir: pathlib.Path, elsewhere: pathlib.Path) -> None:
    mount(elsewhere, "tmpfs")
    try:
        fill_up(elsewhere)
        before = picture(log_dir)
        done = run("free", log_dir, *NOW, "--bytes", "60KiB", "--apply", "--to", elsewhere / "kept")
        assert done.status == 3, done
        assert "not enough space" in done.told
        assert (picture(log_dir), free_bytes(log_dir)) == (before, 0)
    finally:
        subprocess.run(["umount", "-l", elsewhere], check=True)
