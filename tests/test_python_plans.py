"""Plans from Python: looked at, carried out in place or elsewhere, taken back."""

from __future__ import annotations

import inspect
import pathlib
import re
import shutil
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from running import ROOT

import klogtool
from klogtool.causes import from_text
from klogtool.disk.journal import Entry
from klogtool.disk.writer import undo
from klogtool.parameters import parameters_of
from klogtool.plans.decisions import question_type
from klogtool.verify.findings import Kind

NOW_MS = 1700000000000
LOG_DIR = ROOT / "fixtures/killed-mid-append/logdir"


def contents(folder: pathlib.Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    copy = tmp_path / "logs"
    shutil.copytree(LOG_DIR, copy)
    return copy


def partition_of(log_dir: pathlib.Path) -> klogtool.Partition:
    found = klogtool.open(log_dir / "flip-bit-0")
    assert isinstance(found, klogtool.Partition)
    return found


def test_a_recovery_in_place_and_back(log_dir: pathlib.Path) -> None:
    before = contents(log_dir)
    planned = partition_of(log_dir).plan_recover(now_ms=NOW_MS)
    assert [answer["log_end_offset"] for answer in planned.answers] == [47]
    assert contents(log_dir) == before
    (run,) = planned.apply(now_ms=NOW_MS)
    assert (log_dir / "flip-bit-0/00000000000000000045.log").stat().st_size == 182
    with pytest.raises(klogtool.Refused):
        planned.apply(now_ms=NOW_MS)
    undo(Entry(f"{log_dir}.klogtool/{run}"))
    assert contents(log_dir) == before


def test_a_result_elsewhere(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before = contents(log_dir)
    partition_of(log_dir).plan_recover(now_ms=NOW_MS).write_to(tmp_path / "flip-bit-1")
    assert (tmp_path / "flip-bit-1/00000000000000000045.log").stat().st_size == 182
    assert contents(log_dir) == before


def test_what_kafka_refuses_raises_with_its_class(log_dir: pathlib.Path) -> None:
    (log_dir / "flip-bit-0/foo.log").touch()
    with pytest.raises(klogtool.KlogError) as refused:
        partition_of(log_dir).plan_recover(now_ms=NOW_MS)
    assert refused.value.kafka_class == "NumberFormatException"


# Times, names, findings.


def test_the_clock_is_asked_where_no_time_is_given(log_dir: pathlib.Path) -> None:
    partition = partition_of(log_dir)
    before = time.time_ns() // 1_000_000
    asked = partition.plan_recover().plans[0].arguments["now_ms"]
    assert before <= asked <= time.time_ns() // 1_000_000


@pytest.mark.parametrize("moment", [NOW_MS, str(NOW_MS), datetime.fromtimestamp(NOW_MS / 1000, UTC)], ids=repr)
def test_times_in_any_form(log_dir: pathlib.Path, moment: int | str | datetime) -> None:
    partition = partition_of(log_dir)
    plan = partition.plan_recover(now_ms=moment, loaded_at_ms=moment).plans[0]
    assert plan.arguments["now_ms"] == plan.arguments["loaded_at_ms"] == NOW_MS
    assert partition.lookup_timestamp(moment, now_ms=moment) == partition.lookup_timestamp(NOW_MS, now_ms=NOW_MS)
    assert partition.verify(now_ms=moment) == partition.verify(now_ms=NOW_MS)


def test_a_partition_by_its_name(log_dir: pathlib.Path) -> None:
    opened = klogtool.open(log_dir)
    assert isinstance(opened, klogtool.LogDir)
    assert all(opened[pathlib.Path(partition.path).name].path == partition.path for partition in opened.partitions)
    with pytest.raises(KeyError, match="no-such-0"):
        opened["no-such-0"]


def test_a_finding_shows_how_grave_it_is(log_dir: pathlib.Path) -> None:
    found = partition_of(log_dir).verify(now_ms=NOW_MS)
    assert found
    for finding in found:
        assert f"severity={finding.severity.value!r}" in repr(finding)
        assert finding.start is None or f"start={finding.start}" in repr(finding)
    assert repr(klogtool.Finding(Kind.BATCH_CRC, "p", from_text("d"), start=0)).endswith(
        "id='batch-crc', path='p', detail='d', start=0)"
    )


def test_a_method_has_the_parameters_of_its_question_with_their_texts() -> None:
    """The signature that a type checker reads is that of the constructor; what runs says the same to help()."""
    plans = {name: method for name, method in vars(klogtool.Partition).items() if name.startswith("plan_")}
    assert len(plans) == 8
    for name, method in plans.items():
        kind = question_type(name.removeprefix("plan_").replace("_", "-"))
        _, *arguments = inspect.signature(method).parameters.values()
        assert {argument.name for argument in arguments} == set(kind.__struct_fields__)
        assert {argument.kind for argument in arguments} == {inspect.Parameter.KEYWORD_ONLY}
        for parameter in parameters_of(kind):
            assert f"\n    {parameter.name}: " in (inspect.getdoc(method) or "")


MISSPELT = "not a log config: retention.mss (did you mean retention.ms?)"


def test_a_wrong_argument_is_named_in_words(log_dir: pathlib.Path) -> None:
    partition: Any = partition_of(log_dir)
    for call, words in (
        (lambda: partition.plan_retain(retention_ms=5), "plan_retain.retention_ms is unknown"),
        (lambda: partition.plan_retain(jobs="two"), "plan_retain.jobs: expected `int | null`, got `str`"),
        (lambda: partition.plan_delete_records(), "plan_delete_records.before is missing"),
        (lambda: partition.lookup_offset(5, epoch=5), "lookup_offset.epoch is unknown"),
        (lambda: partition.plan_retain(now_ms="yesterday"), "'yesterday' is neither epoch milliseconds nor ISO 8601"),
        (lambda: partition.plan_retain(config={"retention.mss": "1"}), MISSPELT),
        (lambda: partition.load(config={"retention.mss": "1"}), MISSPELT),
        (lambda: partition.plan_retain(config_sections=[["t", {"retention.mss": "1"}]]), MISSPELT),
        (lambda: partition.plan_retain(config_sections=[[None, {"retention.mss": "1"}]]), MISSPELT),
    ):
        with pytest.raises(klogtool.KlogError, match=f"^{re.escape(words)}$"):
            call()
    with pytest.raises(TypeError, match=r"^plan_truncate takes named arguments only, and not 20$"):
        partition.plan_truncate(20)


def test_paths_and_many_times(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    partition = partition_of(log_dir)
    lines = tmp_path / "lines"
    lines.write_text('{"key": "k", "value": "v"}\n')
    planned = partition.plan_append(now_ms=NOW_MS, records=lines)
    assert planned.plans[0].arguments["records"] == str(lines)
    day = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    settings = {"cleanup.policy": "compact"}
    compacted = partition.plan_compact(now_ms=day, config=settings, passes_at_ms=[day, str(NOW_MS + 1)], force=True)
    assert compacted.plans[0].arguments["passes_at_ms"] == [NOW_MS, NOW_MS + 1]
