"""A partition that many tasks compact is, to the byte, what `klogtool compact` makes of it."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from compacting_in_shares import random_partition
from deciding import compact_question
from here import HERE
from running import ROOT, Done, run_here
from test_spark_commands import files_of, log_dirs

from klogtool import causes, kernels
from klogtool.broker.cleaning.shares import GroupShare, KeyShare
from klogtool.disk.assembling import TASKS, Assembly
from klogtool.errors import KlogError
from klogtool.spark import sharing
from klogtool.spark.compacting import compact_with_spark, find_folders
from klogtool.spark.sharing import TaskCrew
from klogtool.spark.spreading import exchange

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="the extension is not built")

CORPORA = ROOT.parent / "shared" / "corpus"
WITH_BEFORE = ["0.9.0.1-compaction", "2.8.2-compaction", "4.3.1-compaction"]
WITH_LOG_DIR = ["0.11.0.3-transactions", "4.3.1-transactions", "4.3.1-groups-share", "2.8.2-groups", "3.9.2-upgrade"]
NOW_MS = 1_790_000_000_000
SETTINGS = {"config": {"cleanup.policy": "compact"}, "now_ms": NOW_MS, "force": True, "jobs": 1}
ONE_TASK = "compacted by a single task"


@pytest.fixture(autouse=True)
def as_many_tasks_as_there_are_shares(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "klogtool.spark")
    monkeypatch.setattr(sharing, "TASK_BYTES", 1)
    monkeypatch.setattr(sharing, "TASKS_A_SLOT", 1000)
    monkeypatch.setattr(sharing, "LARGEST_SENT_BYTES", 50)


def shared(path: str, output: pathlib.Path, settings: dict[str, Any]) -> Any:
    assembly = Assembly.begin(str(output), [path])
    try:
        question = compact_question(settings)
        return compact_with_spark(HERE, assembly, question, find_folders(path, question), share_bytes=0)
    finally:
        assembly.abandon()


def times_of(folder: pathlib.Path, before_ns: int) -> dict[str, int]:
    """Of files that are not new."""
    times = {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    return {name: mtime_ns for name, mtime_ns in times.items() if mtime_ns < before_ns}


def check_alike(path: str, work: pathlib.Path, *words: str, settings: dict[str, Any] = SETTINGS) -> bool:
    """Both ways, refused partitions included; whether a broker's cleaner breaks off at none."""
    begun_ns = time.time_ns()
    given = ["--force", "--now", str(NOW_MS), "--config", "cleanup.policy=compact", *words, "--output", "alone"]
    told = run_here(["compact", path, "--format", "json", *given], work)
    if told.status == 3:  # nothing is written
        with pytest.raises(KlogError):
            shared(path, work / "spread", settings)
        assert os.listdir(work) == []
        return False
    done = shared(path, work / "spread", settings)
    answers = answers_of(told, but=path)
    assert {plan.path: json.loads(json.dumps(plan.released_answer(causes.words))) for _, plan in done} == answers
    assert files_of(work / "spread") == files_of(work / "alone")
    assert times_of(work / "spread", begun_ns) == times_of(work / "alone", begun_ns)
    assert sorted(os.listdir(work)) == ["alone", "spread"]
    return not any("error" in answer for answer in answers.values())


def answers_of(told: Done, *, but: str) -> dict[str, Any]:
    """Of each partition dir that a run told of. but: the log dir."""
    rows = (row for row in map(json.loads, told.out.splitlines()) if row["type"] == "plan")
    return {row["path"]: row["answer"] for row in rows if row["path"] != but}


@pytest.mark.some(5)
@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in log_dirs() if "metadata" not in p and "killed" not in p])
def test_a_log_dir_is_that_of_one_machine(path: str, tmp_path: pathlib.Path, caplog: Any) -> None:
    is_done = check_alike(path, tmp_path)
    assert is_done == (ONE_TASK not in caplog.text)


@pytest.mark.some(4)
@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    "path", [*(f"{c}/before" for c in WITH_BEFORE), "4.3.1-compaction/before-2", *(f"{c}/logdir" for c in WITH_LOG_DIR)]
)
def test_a_corpus_is_that_of_one_machine(path: str, tmp_path: pathlib.Path, caplog: Any) -> None:
    if not (CORPORA / path).is_dir():
        pytest.skip(f"no ../shared/corpus/{path} beside the project")
    assert check_alike(str(CORPORA / path), tmp_path)
    assert ONE_TASK not in caplog.text


@pytest.mark.some(8)
@pytest.mark.parametrize("seed", range(20))
def test_random_logs_with_transactions(seed: int, tmp_path: pathlib.Path) -> None:
    asked = random_partition(tmp_path / "logdir" / "t-0", random.Random(seed))
    (tmp_path / "logdir" / "meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=c\n")
    words = [word for name, value in asked["config"].items() for word in ("--config", f"{name}={value}")]
    work = tmp_path / "work"
    work.mkdir()
    settings = {
        name: asked[name] for name in ("config", "loaded_at_ms", "last_stop", "recovery_point", "force", "jobs")
    }
    words += ["--last-stop", "unclean", "--recovery-point", "0", "--loaded-at", str(asked["loaded_at_ms"])]
    check_alike(str(tmp_path / "logdir"), work, *words, settings=settings | {"now_ms": NOW_MS})


# Tasks that are tried more than once.


class TwiceCrew(TaskCrew):
    """Every task is done twice, as if Spark had speculated; what the first attempt wrote is nobody's."""

    def find_keys(self, sent: Any, shares: Any) -> Any:
        super().find_keys(sent, shares)
        return super().find_keys(sent, shares)

    def clean_groups(self, sent: Any, shares: Any, latest_offset: int) -> Any:
        super().clean_groups(sent, shares, latest_offset)
        return super().clean_groups(sent, shares, latest_offset)

    def write_files(self, folder: Any) -> Any:
        super().write_files(folder)
        return super().write_files(folder)


@pytest.mark.slow
def test_attempts_that_do_not_count_leave_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klogtool.spark.compacting.TaskCrew", TwiceCrew)
    assert check_alike(str(ROOT / "fixtures/retention/logdir"), tmp_path)
    assert not list(tmp_path.rglob(TASKS))


def _refuse(*_: object) -> Any:
    raise KlogError("no share is done today")


@pytest.mark.slow
def test_what_a_share_refuses_one_task_is_to_say(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    for name in ("_find_keys", "_clean_groups"):
        work = tmp_path / name
        work.mkdir()
        monkeypatch.setattr(sharing, name, _refuse)
        assert check_alike(str(ROOT / "fixtures/transactions/logdir"), work)
        assert "no share is done today" in caplog.text


# What is sent.


def _lengths(item: int) -> tuple[int, list[bytes]]:
    if item < 0:
        raise KlogError(f"{item} is none")
    return item, [b"%d" % item * n for n in range(3)]


def test_an_exchange_brings_the_bytes_of_each_part_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klogtool.spark.spreading.PIECE_BYTES", 1)
    found, joined = exchange(HERE, _lengths, sorted, [7, 8, 9], 3, sizes=[1, 3, 2])
    assert found == [7, 8, 9]
    assert joined == [[], [b"7", b"8", b"9"], [b"7", b"7", b"8", b"8", b"9", b"9"]]
    with pytest.raises(KlogError, match="-2 is none"):
        exchange(HERE, _lengths, sorted, [7, -2, -1], 3, sizes=[1, 1, 1])


@pytest.mark.slow
def test_no_value_goes_anywhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tasks are sent, and what they send, has none of the values of the records."""
    monkeypatch.setattr(sharing, "LARGEST_SENT_BYTES", 0)
    sent: list[bytes] = []
    note: Callable[[Any], Any] = partial(_noted, sent)
    monkeypatch.setattr("here.pickle.loads", note)
    path = ROOT / "fixtures/retention/logdir"
    shared(str(path), tmp_path / "spread", SETTINGS)
    values = {record.value for record in _records(path) if len(record.value or b"") >= 8}
    assert len(values) > 50
    assert len(sent) > 50
    assert not [value for value in values if any(value in data for data in sent)]


def _noted(sent: list[bytes], data: bytes) -> Any:
    import io
    import pickle

    sent.append(data)
    return pickle.Unpickler(io.BytesIO(data)).load()


def _records(path: pathlib.Path) -> list[Any]:
    from klogtool import open as open_log

    return [record for log in path.rglob("*.log") for record in open_log(str(log)).records()]


def test_a_task_has_neighbours_up_to_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "TASK_BYTES", 10)
    crew = TaskCrew(HERE, "")
    for kind in (KeyShare, GroupShare):
        shares = [kind(n, size, None) for n, size in enumerate((4, 4, 4, 12, 1))]  # type: ignore[arg-type]
        tasks, sizes = crew._tasks(shares)
        assert [[share.size for share in some] for some in tasks] == [[4, 4], [4], [12], [1]]
        assert sizes == [8, 4, 12, 1]
