"""What differs between releases: each has its rules, each rule is told, a release is found by its name."""

from __future__ import annotations

import json
import pathlib
import re
import shutil

import pytest
from msgspec.structs import fields
from running import FIXTURES, ROOT, run_here, tool

import klogtool
from klogtool.broker.circumstances import Circumstances
from klogtool.broker.cluster_config import ClusterConfig
from klogtool.broker.releases import (
    REFERENCE,
    RELEASES,
    EmptiedBatch,
    Rules,
    find_release,
    rules_of,
)
from klogtool.errors import KlogError
from klogtool.format.java_numbers import MAX_LONG
from klogtool.plans.compact import CompactQuestion
from klogtool.plans.fields import WrongField
from klogtool.plans.question import read_question

RULES = {field.name for field in fields(Rules)} - {"release"}
PARTITION = "fixtures/every-codec/logdir/append-4"


def test_every_release_has_its_own_rules() -> None:
    assert [rules_of(release).release for release in RELEASES] == list(RELEASES)


def test_the_reference_has_the_defaults() -> None:
    assert rules_of(REFERENCE) == Rules(release=REFERENCE)


def test_every_rule_is_told_in_words() -> None:
    make_docs = tool("make_docs")
    assert {about.rule for about in make_docs.RULES} == RULES
    for about in make_docs.RULES:
        assert all(make_docs.value_words(rules_of(release), about) for release in RELEASES), about.rule


def test_every_rule_differs_between_two_releases() -> None:
    for name in RULES:
        assert len({getattr(rules_of(release), name) for release in RELEASES}) > 1, name


@pytest.mark.parametrize(
    ("text", "release"), [("3.9.0", "3.9.0"), ("3.9", "3.9.2"), ("4.3", "4.3.1"), ("4.4", "4.4.0"), ("3.6", "3.6.2")]
)
def test_a_short_form_is_the_newest_patch(text: str, release: str) -> None:
    assert find_release(text) == release


@pytest.mark.parametrize("text", ["3", "3.4", "3.9.", "3.9.3", "v4.3.1", "", "4.3.1.0", "4.5"])
def test_an_unknown_release_is_refused_with_the_list(text: str) -> None:
    with pytest.raises(KlogError, match=r"it knows 3\.6\.2, .*, 4\.4\.0"):
        find_release(text)


def test_three_releases_in_a_row_clean_differently() -> None:
    kept = [rules_of(release).keeps_emptied_batch for release in ("3.9.1", "3.9.2", "4.3.1", "4.4.0")]
    assert kept == [
        EmptiedBatch.GOES,
        EmptiedBatch.STAYS,
        EmptiedBatch.STAYS,
        EmptiedBatch.STAYS_AT_HIGH_WATERMARK,
    ]


@pytest.mark.parametrize(("release", "after_max_ms"), [("3.9.2", MAX_LONG), ("4.0.1", 3_600_000)])
def test_a_default_of_a_setting_is_the_releases(release: str, after_max_ms: int) -> None:
    asked = {"now_ms": 0, "kafka": release}
    question = read_question(CompactQuestion, asked)
    config, sources = question.circumstances.settled_for("t", ClusterConfig(None, None))
    assert (config.message_timestamp_after_max_ms, sources) == (after_max_ms, {})
    given = Circumstances(now_ms=0, kafka=question.circumstances.kafka, config={"message.timestamp.after.max.ms": "5"})
    assert given.config_for("t").message_timestamp_after_max_ms == 5


def test_a_saved_plan_keeps_the_release() -> None:
    question = read_question(CompactQuestion, {"now_ms": 0, "kafka": "3.9.2"})
    assert question.as_arguments()["kafka"] == "3.9.2"
    assert read_question(CompactQuestion, {"now_ms": 0}).circumstances.kafka == REFERENCE
    with pytest.raises(WrongField, match=r"arguments\.kafka: invalid enum value '9\.9\.9'"):
        read_question(CompactQuestion, {"now_ms": 0, "kafka": "9.9.9"})


def test_the_command_line_says_which_release_was_taken() -> None:
    told = run_here(["compact", PARTITION, "--kafka", "3.9", "--format", "json"], ROOT)
    assert "klogtool: --kafka 3.9 means 3.9.2, the newest release of 3.9 that klogtool knows" in told.err
    plan = json.loads(told.out.splitlines()[-1])
    assert (plan["answer"]["kafka"], plan["arguments"]["kafka"]) == ("3.9.2", "3.9.2")
    assert "release: 3.9.2, as given" in plan["notes"]


def test_without_the_option_it_is_the_reference() -> None:
    told = run_here(["roll", PARTITION, "--format", "json"], ROOT)
    plan = json.loads(told.out.splitlines()[-1])
    assert (plan["answer"]["kafka"], plan["notes"][0]) == ("4.3.1", "release: 4.3.1, the default")


@pytest.mark.parametrize("command", ["lookup", "read", "txns"])
def test_an_answer_of_a_command_that_reads_says_it(command: str, tmp_path: pathlib.Path) -> None:
    more = [] if command == "txns" else ["--offset", "0"]
    told = run_here([command, PARTITION, *more, "--kafka", "4.4.0", "--format", "json"], ROOT)
    assert json.loads(told.out.splitlines()[-1])["kafka"] == "4.4.0"


def test_an_unknown_release_is_wrong_usage() -> None:
    told = run_here(["compact", PARTITION, "--kafka", "3.5"], ROOT)
    assert told.status == 2
    assert "klogtool: --kafka: '3.5' is not a release that klogtool knows; it knows 3.6.2, " in told.err


def test_python_takes_a_release() -> None:
    partition = klogtool.open(ROOT / PARTITION)
    assert isinstance(partition, klogtool.Partition)
    (answer,) = partition.plan_roll(kafka="3.9.2", now_ms="2026-11-21").answers
    assert answer["rolled_to"] is None
    with pytest.raises(KlogError, match="kafka"):
        partition.plan_roll(kafka="2.8.2")


def test_no_other_module_compares_releases() -> None:
    """What differs has a name in releases.py, and is asked for by that name."""
    modules = [path for path in (ROOT / "klogtool").rglob("*.py") if path.name != "releases.py"]
    assert modules
    compared = re.compile(r"([<>]|[=!]=) *\(?[\"'][0-9]+\.[0-9]|\.(kafka|release) *([<>]|[=!]=)")
    assert [str(path) for path in modules if compared.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(("release", "what"), [("3.9.2", "damaged"), ("4.0.1", "refuses"), ("4.3.1", "refuses")])
def test_a_lookup_opens_wrappers_since_4_0(tmp_path: pathlib.Path, release: str, what: str) -> None:
    """A batch whose magic became 1 looks like a wrapper. A broker 3.9.2 started on such a log, which has to be read
    from its last snapshot on."""
    folder = pathlib.Path(shutil.copytree(FIXTURES / "transactions" / "logdir", tmp_path / "logs")) / "t-0"
    (log, *_) = sorted(folder.glob("*.log"), reverse=True)
    data = log.read_bytes()
    log.write_bytes(data[:16] + b"\1\2" + data[18:])
    (folder / f"{62:020}.snapshot").unlink()
    done = run_here(["doctor", "logs", "--kafka", release, "--format", "json"], tmp_path)
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["what"] for row in rows if row["type"] == "ahead" and row["path"].endswith("/t-0")] == [what]
