"""The work of every command grows with the number of segments, leader epochs and partitions, and not with its square.

Work is counted, not timed, at n, 2n and 4n. Where a thing costs the same however many there are, the step from 2n to 4n
is twice the step from n to 2n. `make bench BENCH_ARGS="--only growth"` measures time.
"""

from __future__ import annotations

import gc
import os
import pathlib
import shutil
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias
from unittest.mock import patch

import pytest
from growing_runs import COMMANDS, MAIN, OF_A_CONTROLLER, OF_A_LOG_DIR, SHAPES, words_of
from running import run_here
from work_done import Work

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.metadata.image import ClusterMetadata, Replicas
from klogtool.doctor.file_options import future_away_options
from klogtool.doctor.log_dirs import walk_log_dir_points
from klogtool.doctor.patient import Cluster, Patient
from klogtool.format.names import parse_file_name
from klogtool.format.uuids import build_uuid

Excess: TypeAlias = dict[str, tuple[int, int, int]]
MOST_EXCESS = 0.1  # of the work at 4n; what n * n things cost is 0.37 of it, n log n at most 0.06
FEW_STEPS = 50
METADATA = "transactions of metadata"
PLACE: list[pathlib.Path] = []
LOGS: dict[tuple[str, int], tuple[pathlib.Path, pathlib.Path]] = {}  # log dirs, and the log in each

CASES = [("segments", command) for command in COMMANDS]
CASES += [(shape, command) for shape in SHAPES if shape not in ("segments", "partitions", METADATA) for command in MAIN]
CASES += [("segments without side files", "lookup --offset"), ("segments without side files", "compact")]


@pytest.fixture(autouse=True, scope="module")
def _logs_are_made_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    LOGS.clear()
    PLACE.append(tmp_path_factory.mktemp("logs"))


def log_of(shape: str, n: int, log_dir: pathlib.Path) -> pathlib.Path:
    """A log of that shape in a log dir, as SHAPES has it; made once, and copied."""
    if (shape, n) not in LOGS:
        made = PLACE[-1] / f"{shape} {n}"
        LOGS[shape, n] = made, SHAPES[shape][0](made, n).relative_to(made)
    made, log = LOGS[shape, n]
    shutil.copytree(made, log_dir)
    return log_dir / log


def work_of(shape: str, command: str, n: int, folder: pathlib.Path) -> Counter[str]:
    log_dir = folder / f"log-dir-{n}"
    words = words_of(command, log_of(shape, n, log_dir), log_dir, n, folder)
    work = Work()
    with patch.object(os, "fsync", lambda _: None), patch.object(os, "fdatasync", lambda _: None), work.counted():
        done = run_here(words, folder)
    assert done.status in (0, 1, 3), done.err
    for made in folder.iterdir():
        shutil.rmtree(made, ignore_errors=True)
    return work.steps


def lasting_excess(shape: str, command: str, folder: pathlib.Path) -> Excess:
    """Excess that is there at four times the size, too: what begins with the 20th finding is excess only once."""
    n = SHAPES[shape][1]
    work_of(shape, command, n, folder)  # imports what the command needs
    found = excess(shape, command, n, folder)
    return {name: row for name, row in excess(shape, command, 4 * n, folder).items() if name in found} if found else {}


def excess(shape: str, command: str, n: int, folder: pathlib.Path) -> Excess:
    """Functions whose work grows by too much, and all of them together: counts at n, 2n and 4n."""
    one, two, four = (work_of(shape, command, times * n, folder) for times in (1, 2, 4))
    for steps in (one, two, four):
        steps["all"] = steps.total()
    return excess_of(one, two, four)


def excess_of(one: Counter[str], two: Counter[str], four: Counter[str]) -> Excess:
    counts = {name: (one[name], two[name], four[name]) for name in four if four[name] > FEW_STEPS}
    return {name: row for name, row in counts.items() if row[2] - 3 * row[1] + 2 * row[0] > MOST_EXCESS * row[2]}


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "command"), CASES)
def test_twice_as_much_of_a_partition_is_twice_the_work(shape: str, command: str, tmp_path: pathlib.Path) -> None:
    assert lasting_excess(shape, COMMANDS[command], tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("command", OF_A_LOG_DIR)
def test_twice_as_many_partitions_are_twice_the_work(command: str, tmp_path: pathlib.Path) -> None:
    assert lasting_excess("partitions", OF_A_LOG_DIR[command], tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("command", OF_A_CONTROLLER)
def test_twice_as_many_transactions_of_metadata_are_twice_the_work(command: str, tmp_path: pathlib.Path) -> None:
    assert lasting_excess(METADATA, OF_A_CONTROLLER[command], tmp_path) == {}


def work_over_futures(n: int, folder: pathlib.Path) -> Counter[str]:
    """What a -future folder in the log dir that the cluster assigns replaces, for n partitions; and what to do."""
    old, new = str(folder / f"{n}" / "old"), str(folder / f"{n}" / "new")
    metadata = ClusterMetadata()
    for number in range(n):
        key = bytes([7] * 15 + [number])
        metadata.replicas[build_uuid(key)] = {0: Replicas((1,), (build_uuid(bytes(15) + b"2"),))}
        for path in (f"{old}/t{number}-0", f"{new}/t{number}-0.{number:032x}-future"):
            os.makedirs(path)
            pathlib.Path(path, "partition.metadata").write_text(f"version: 0\ntopic_id: {build_uuid(key)}")
    cluster = Cluster(metadata, None, 1, {new: build_uuid(bytes(15) + b"2")})
    patient, work = Patient((old, new), cluster, Circumstances(now_ms=0)), Work()
    with work.counted():
        points = list(walk_log_dir_points(patient))
        options = [list(future_away_options(point, patient)) for point in points]
    assert [len(row) for row in options] == [1] * n
    return work.steps


def test_twice_as_many_future_folders_are_twice_the_work(tmp_path: pathlib.Path) -> None:
    work_over_futures(3, tmp_path)
    counts = [work_over_futures(n, tmp_path) for n in (12, 24, 48)]
    assert excess_of(*counts) == {}


def looks_at_each_other(things: list[int]) -> int:
    return sum(1 for one in things for other in things if one == other)


def sorts_for_each(things: list[int]) -> int:
    return len([sorted(things) for _ in things])


def lists_for_each(things: list[int]) -> int:
    return len([os.listdir("things") for _ in things])


def looks_once(things: list[int]) -> int:
    return len({thing: str(thing) for thing in sorted(things) if any((thing,))})


SQUARES = {looks_at_each_other: True, sorts_for_each: True, lists_for_each: True, looks_once: False}


@pytest.mark.parametrize("function", SQUARES)
def test_work_that_grows_with_the_square_is_seen(
    function: Callable[[list[int]], int], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "things").mkdir()
    counts = []
    for n in (8, 16, 32):
        for thing in range(n):
            (tmp_path / "things" / str(thing)).touch()
        work = Work()
        with work.counted():
            function(list(range(n)))
        counts.append(work.steps)
    assert bool(excess_of(*counts)) is SQUARES[function]


def test_what_an_earlier_run_knows_does_not_change_the_count() -> None:
    def names_parsed() -> Counter[str]:
        work = Work()
        with work.counted():
            parse_file_name("00000000000000000007.log")
        return work.steps

    first = names_parsed()
    assert first
    gc.freeze()
    assert names_parsed() == first
