"""The rows of klog are the rows of Spark's kafka source: a broker serves a log dir, both read it, option by option."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from kafka.brokers import a_broker
from questions import questions
from served import planted
from spark40 import ask_kafka, ask_klog

QUESTIONS = questions()
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.shared, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the kafka source says, and what klog says of the very files that the broker has open."""
    work = tmp_path_factory.mktemp("interop")
    (work / "questions.json").write_text(json.dumps(QUESTIONS))
    with a_broker("4.3.1", work / "broker") as broker:
        serve(broker, work)
        by_kafka = ask_kafka(work, broker.bootstrap)
        by_klog = ask_klog(work, broker.log_dirs[0])
        broker.stop()
    return by_kafka, by_klog


def serve(broker: Any, work: pathlib.Path) -> None:
    """Starts the broker over copies of all partitions."""
    all_of_them = planted(work)
    broker.start()
    for topic in dict.fromkeys(one.topic for one in all_of_them):
        count = sum(one.topic == topic for one in all_of_them)
        broker.create_topic(topic, count, retention_ms=-1, retention_bytes=-1, segment_ms=1 << 60)
    broker.stop()
    for one in all_of_them:
        broker.plant(one.folder, one.topic, one.partition, log_start=one.log_start)
    broker.start()


@pytest.mark.parametrize("name", QUESTIONS)
def test_klog_answers_as_kafka_does(answers: tuple[dict[str, Any], dict[str, Any]], name: str) -> None:
    by_kafka, by_klog = (each[name] for each in answers)
    assert ("error" in by_klog) == ("error" in by_kafka), (QUESTIONS[name], by_kafka.get("error"), by_klog.get("error"))
    assert by_klog.get("schema") == by_kafka.get("schema")
    assert by_klog.get("ends") == by_kafka.get("ends")
    assert by_klog.get("rows") == by_kafka.get("rows")


def test_there_was_something_to_answer(answers: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Both could agree on nothing."""
    by_kafka, _ = answers
    rows = sum(len(found.get("rows", ())) for found in by_kafka.values())
    errors = sum("error" in found for found in by_kafka.values())
    print(f"{len(by_kafka)} questions: {rows} rows, {errors} errors")
    assert rows > 50_000
    assert 0 < errors < len(by_kafka) / 2
