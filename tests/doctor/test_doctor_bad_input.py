"""klogtool doctor over damaged log dirs: an answer or a line in klogtool's name, little memory, nothing written."""

from __future__ import annotations

import json
import pathlib
import random
import shutil

import pytest
from bad_input import MEMORY_BYTES, garbage_for
from running import FIXTURES, Done, run_apart, run_here, tree_of, with_memory

NOW = ("--now", "1700000300000")
FORMS = ([], ["--quick"], ["--matrix"], ["--host"])
Path = pathlib.Path


def copied(name: str, to: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / name / "logdir", to / "logdir"))


def check_told(done: Done) -> None:
    assert "Traceback" not in done.err
    assert done.status in (0, 1) or "klogtool: " in done.err


def files_of(log_dir: Path) -> dict[Path, tuple[int, int, bytes]]:
    """Mode, time and bytes of each file."""
    files = (path for path in log_dir.rglob("*") if path.is_file())
    return {path: (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0] if form else "plain")
@pytest.mark.parametrize("name", ["killed-mid-append", "metadata", "compacted"])
def test_nothing_is_written(name: str, form: list[str], tmp_path: Path) -> None:
    source = FIXTURES / name
    log_dir = Path(shutil.copytree(source / "logdir" if (source / "logdir").is_dir() else source, tmp_path / "logdir"))
    before = tree_of(log_dir)
    check_told(run_here(["doctor", "logdir", *form, *NOW], tmp_path))
    assert tree_of(log_dir) == before
    assert [path.name for path in tmp_path.iterdir()] == ["logdir"]


def files_in(name: str) -> list[str]:
    """Of partitions that have a file of the same name, that of one."""
    log_dir = FIXTURES / name / "logdir"
    files = {path.name: path for path in sorted(log_dir.rglob("*")) if path.is_file()}
    return [str(path.relative_to(log_dir)) for path in files.values()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file"), [(name, file) for name in ("metadata", "killed-mid-append") for file in files_in(name)]
)
def test_garbage_in_a_file(name: str, file: str, tmp_path: Path) -> None:
    path = copied(name, tmp_path) / file
    for data in list(garbage_for(path))[:3]:
        path.write_bytes(data)
        check_told(run_here(["doctor", "logdir", *NOW], tmp_path))


@pytest.mark.parametrize("seed", range(6))
def test_random_damage_has_an_answer_and_a_plan_that_is_whole_or_refused(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed)
    log_dir = copied(chosen.choice(["metadata", "killed-mid-append", "transactions"]), tmp_path)
    files = sorted(path for path in log_dir.rglob("*") if path.is_file())
    for file in chosen.sample(files, 5):
        data = bytearray(file.read_bytes())
        for _ in range(chosen.randrange(1, 4)):
            if data:
                data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
        file.write_bytes(data[: chosen.choice([len(data), len(data) // 2])])
    before = tree_of(log_dir)
    check_told(run_here(["doctor", "logdir", *NOW], tmp_path))
    check_told(run_here(["doctor", "logdir", "--fix", "--plan-out", "plan.json", *NOW], tmp_path))
    assert tree_of(log_dir) == before
    contents = files_of(log_dir)
    if (tmp_path / "plan.json").exists():
        check_told(run_here(["apply", "plan.json"], tmp_path))
        check_told(run_here(["undo", "logdir"], tmp_path))
        assert files_of(log_dir) == contents


def test_memory_is_bounded(tmp_path: Path) -> None:
    copied("killed-mid-append", tmp_path)
    done = run_apart("doctor", str(tmp_path / "logdir"), "--format", "json", *NOW, before=with_memory(MEMORY_BYTES))
    assert done.status == 1
    assert any(json.loads(line)["type"] == "verdict" for line in done.out.splitlines())
