"""free --remote: a local segment goes only if all before it may go, and every offset of it is sound in the store."""

from __future__ import annotations

import itertools
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remote_stores import LOGS, STORE, WOUNDS, cut, tiered_log_dir
from running import Done, run_here

from klogtool.log.partition import Partition

Path = pathlib.Path
TIERED = ["--config", "remote.storage.enable=true", "--now", "2026-11-26"]


def free(log_dir: Path, store: Path, *words: str, known: bool = True) -> dict[str, Any]:
    done = run(log_dir, "--remote", str(store), *(TIERED if known else TIERED[2:]), *words, "--json")
    assert done.status in (0, 1), done.err
    answers = [row["answer"] for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan"]
    assert len(answers) == 1
    return answers[0]  # type: ignore[no-any-return]


def run(log_dir: Path, *words: str) -> Done:
    return run_here(["free", str(log_dir), *words], log_dir.parent)


def bases(answer: dict[str, Any]) -> list[int]:
    assert {item["kind"] for item in answer["items"]} <= {"remote"}
    assert not any(item["loses"] for item in answer["items"])
    return [int(Path(item["path"]).stem) for item in answer["items"]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tiered_log_dir(tmp_path_factory.mktemp("tiered"))


def test_of_a_brokers_log_dir_what_is_remote_can_go() -> None:
    answer = free(LOGS, STORE)
    assert [item["path"].rpartition("logs/")[2] for item in answer["items"]] == [
        "orders-0/00000000000000000090.log",
        "orders-1/00000000000000000030.log",
    ]
    assert answer["left_out"] == []


def test_what_is_not_known_to_be_tiered_stays() -> None:
    answer = free(LOGS, STORE, known=False)
    assert answer["items"] == []
    assert [Path(one["path"]).name for one in answer["left_out"]] == ["orders-0", "orders-1", "pay-0"]
    assert all(one["cure"] for one in answer["left_out"])


def test_all_closed_segments_go_if_all_are_remote(built: tuple[Path, Path]) -> None:
    assert bases(free(*built)) == [0, 40, 80, 120]


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 3), st.sampled_from(WOUNDS))
def test_it_ends_at_the_first_segment_that_is_not_sound_there(
    built: tuple[Path, Path], tmp_path: Path, at: int, wound: Callable[[Path], None]
) -> None:
    log_dir, store = built
    wounded = tmp_path / "wounded"
    shutil.rmtree(wounded, ignore_errors=True)
    shutil.copytree(store, wounded)
    wound(sorted(wounded.rglob("*.log"))[at])
    answer = free(log_dir, wounded)
    assert bases(answer) == [0, 40, 80, 120][:at]
    (left,) = answer["left_out"]
    assert f"offsets {40 * at} to {40 * at + 39}" in left["why"]


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(1, 9)), st.none() | st.integers(0, 3))
def test_a_follower_has_segments_of_other_bounds(
    built: tuple[Path, Path], tmp_path: Path, rolls: set[int], wounded: int | None
) -> None:
    """The leader has uploaded offsets 0 to 159, in segments of 40; the follower has the same batches, of 20 records."""
    steps = [f"{{generate: {{records: 20, seed: {n}, leader_epoch: {(n + 1) // 2}}}}}" for n in range(10)]
    log = ", ".join(f"roll, {step}" if n in rolls else step for n, step in enumerate(steps))
    folder = tmp_path / "follower"
    shutil.rmtree(folder, ignore_errors=True)
    (tmp_path / "follower.yaml").write_text(f"partitions:\n  - {{topic: t, partition: 0, log: [{log}]}}\n")
    assert run_here(["build", str(tmp_path / "follower.yaml"), "--output", str(folder)], tmp_path).status == 0
    for name in ("t-0/partition.metadata", "log-start-offset-checkpoint"):
        shutil.copy(built[0] / name, folder / name)
    store = Path(shutil.copytree(built[1], tmp_path / "store", dirs_exist_ok=True))
    if wounded is not None:
        cut(sorted(store.rglob("*.log"))[wounded])
    safe = 160 if wounded is None else 40 * wounded
    starts = [0, *(20 * n for n in sorted(rolls))]
    want = [start for start, after in itertools.pairwise(starts) if after <= safe]
    assert bases(free(folder, store, "--metadata", str(built[0]))) == want


def test_segments_of_another_lineage_do_not_count(built: tuple[Path, Path], tmp_path: Path) -> None:
    """The epochs of the local log are others from offset 60 on: an unclean election."""
    log_dir = shutil.copytree(built[0], tmp_path / "logs")
    entries = [(e.epoch, e.start_offset) for e in Partition(str(log_dir / "t-0")).leader_epochs or ()]
    others = [(epoch if start < 80 else epoch + 7, start) for epoch, start in entries]
    text = "".join(["0\n", f"{len(others)}\n", *(f"{epoch} {start}\n" for epoch, start in others)])
    (log_dir / "t-0" / "leader-epoch-checkpoint").write_text(text)
    assert bases(free(log_dir, built[1])) == [0, 40]


def test_no_hole_is_made_where_retention_is_left_out(built: tuple[Path, Path], tmp_path: Path) -> None:
    log_dir = shutil.copytree(built[0], tmp_path / "logs")
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 90\n")
    whole = free(log_dir, built[1])
    assert [(item["kind"], int(Path(item["path"]).stem)) for item in whole["items"]] == [
        *(("retention", base) for base in (0, 40)),
        *(("remote", base) for base in (80, 120)),
    ]
    assert bases(free(log_dir, built[1], "--only", "remote")) == [0, 40, 80, 120]


def test_what_is_done_can_be_taken_back(built: tuple[Path, Path], tmp_path: Path) -> None:
    log_dir = shutil.copytree(built[0], tmp_path / "logs")
    words = ["--remote", str(built[1]), *TIERED, "--bytes", "1", "--apply", "--no-undo"]
    assert run(log_dir, *words).status == 0
    assert [one.base_offset for one in Partition(str(log_dir / "t-0")).segments] == [40, 80, 120, 160]
    assert run_here(["verify", str(log_dir)], tmp_path).status == 0
    lines = json.loads(run_here(["recover", str(log_dir / "t-0"), *TIERED, "--json"], tmp_path).out.splitlines()[-1])
    assert lines["answer"]["log_start_offset"] == 0


@pytest.mark.parametrize("words", [["--only", "remote"], ["--metadata", "x"], ["--key", "a=b"]])
def test_what_is_about_a_store_needs_one(words: list[str]) -> None:
    assert run(LOGS, *words).status == 2


@pytest.mark.parametrize("key", ["nothing", "a=/nowhere"])
def test_a_key_that_is_none_is_said(key: str) -> None:
    done = run(LOGS, "--remote", str(STORE), "--key", key, *TIERED)
    assert (done.status, "Traceback" in done.told) == (2, False)
