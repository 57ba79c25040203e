"""retain over a log dir, delete-records in one: which partitions, whose settings, what the checkpoints say then."""

import pathlib
from typing import Any

import pytest
from deciding import decided
from loading import CONFIG, NOW_MS, make, segment
from raw_batches import build_batch
from retaining import gone

from klogtool.broker.circumstances import Circumstances
from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.format.internal.records import build_metadata_record
from klogtool.plans.plan import Plan, Write
from klogtool.plans.results import LeftAlone
from klogtool.render.words import words

DAY_MS = 86_400_000
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
NOT_TIERED = {"remote.storage.enable": "false"}  # else a line of a log start stays: a tiered topic needs it


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    """Partitions a-0 and b-0 of segments 0 and 4; b begins at offset 2."""
    for name in ("a-0", "b-0"):
        make(tmp_path / name, {base: segment(base) for base in (0, 4)})
    (tmp_path / ".kafka_cleanshutdown").touch()
    (tmp_path / LOG_STARTS).write_text("0\n1\nb 0 2\n")
    (tmp_path / HIGH_WATERMARKS).write_text("0\n2\na 0 8\nb 0 8\n")
    return tmp_path


def asked(config: dict[str, str], now_ms: int = NOW_MS, **given: Any) -> dict[str, Any]:
    return {**Circumstances(now_ms=now_ms, config={**CONFIG, **config}, **given).as_arguments(), "jobs": 1}


def retained(log_dir: pathlib.Path, config: dict[str, str], now_ms: int = NOW_MS, **given: Any) -> list[Plan]:
    return list(decided("retain", str(log_dir), asked(config, now_ms, **given)))


def written(plan: Plan) -> dict[str, bytes]:
    contents = {step.path: step.content for step in plan.steps if isinstance(step, Write)}
    return {name: b"".join(part for part in content if isinstance(part, bytes)) for name, content in contents.items()}


def test_a_plan_for_each_partition_and_one_for_the_checkpoints(log_dir: pathlib.Path) -> None:
    a, b, own = retained(log_dir, {"retention.ms": "1", **NOT_TIERED}, NOW_MS + DAY_MS)
    assert [plan.path for plan in (a, b, own)] == [str(log_dir / "a-0"), str(log_dir / "b-0"), str(log_dir)]
    assert gone(a) == gone(b) == [(0, "time"), (4, "time")]
    assert written(own) == {LOG_STARTS: b"0\n0\n"}
    assert all("only with --apply" not in note for note in map(words, own.notes))


def test_without_deletions_there_is_nothing_to_write_about_them(log_dir: pathlib.Path) -> None:
    a, b = retained(log_dir, {})
    assert gone(a) == gone(b) == []
    assert b.answer["state"]["log_start_checkpoint"] == 2


def test_what_is_no_partition_of_the_broker_is_left_alone(log_dir: pathlib.Path) -> None:
    names = (
        "a-1.0123456789abcdef0123456789abcdef-delete",
        "a-2.0123456789abcdef0123456789abcdef-stray",
        "__cluster_metadata-0",
    )
    for name in names:
        make(log_dir / name, {0: segment(0)})
    plans = {pathlib.Path(plan.path).name: plan for plan in retained(log_dir, {"retention.ms": "1"}, NOW_MS + DAY_MS)}
    for name in names:
        assert plans[name].steps == ()
        assert plans[name].result == LeftAlone(plans[name].notes[0])
    assert gone(plans["a-0"])


def test_of_a_partition_that_is_refused_the_error_comes_behind_the_others(log_dir: pathlib.Path) -> None:
    (log_dir / "a-0" / "leader-epoch-checkpoint").write_text("nonsense")
    plans = decided("retain", str(log_dir), asked({"retention.ms": "1"}, NOW_MS + DAY_MS))
    assert next(iter(plans)).path == str(log_dir / "b-0")
    with pytest.raises(KlogError, match="a-0"):
        list(decided("retain", str(log_dir), asked({})))


def test_settings_by_topic_from_a_file_and_from_the_cluster(log_dir: pathlib.Path) -> None:
    """The file's are for a, the cluster's for both: what was given counts more."""
    values = {"resourceType": 2, "name": "retention.ms", "value": "1"}
    records = [build_metadata_record("ConfigRecord", 0, {**values, "resourceName": topic}) for topic in ("a", "b")]
    metadata = log_dir / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / f"{0:020d}.log").write_bytes(
        b"".join(build_batch([Record(n, 0, None, value)], partition_leader_epoch=1) for n, value in enumerate(records))
    )
    plans = retained(log_dir, {}, NOW_MS + DAY_MS, config_sections=(("a", {"retention.ms": "-1"}),))
    _, a, b = plans
    assert (gone(a), gone(b)) == ([], [(0, "time"), (4, "time")])
    assert a.answer_in(words)["settings"] == [
        "retention.ms: -1, by --config-file",
        "all other settings: Kafka's defaults",
    ]
    assert b.answer_in(words)["settings"][0] == "retention.ms: 1, by __cluster_metadata"


def test_without_any_settings_kafkas_defaults_are_named(log_dir: pathlib.Path) -> None:
    (plan, *_) = list(decided("retain", str(log_dir), Circumstances(now_ms=NOW_MS).as_arguments()))
    assert plan.answer_in(words)["settings"] == ["settings: Kafka's defaults, because nothing else is known"]


@pytest.mark.parametrize(("name", "before", "lines"), [("a", 3, b"0\n2\nb 0 2\na 0 3\n"), ("b", 4, b"0\n0\n")])
def test_the_line_of_a_log_start_follows_the_log(log_dir: pathlib.Path, name: str, before: int, lines: bytes) -> None:
    path = log_dir / f"{name}-0"
    partition, own = decided("delete-records", str(path), {**asked(NOT_TIERED), "before": before})
    assert (partition.path, own.path) == (str(path), str(log_dir))
    assert written(own)[LOG_STARTS].splitlines()[1:2] == lines.splitlines()[1:2]
    assert sorted(written(own)[LOG_STARTS].splitlines()) == sorted(lines.splitlines())
