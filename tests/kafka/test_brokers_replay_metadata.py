"""Sound records at the end of a metadata log: a real broker ends at them, or starts, as the doctor says."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest
from raw_batches import build_batch
from running import FIXTURES

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.releases import Release
from klogtool.doctor.answers import Starts
from klogtool.doctor.rehearsal import Examination, examine
from klogtool.format.batch import Record
from klogtool.format.internal.records import build_metadata_record
from klogtool.log.segment import Segment

from .beside import module_beside
from .brokers import a_broker

pytestmark = pytest.mark.kafka
T = "AQEBAQEBAQEBAQEBAQEBAQ"
# The record, and what the log of the broker says; None: it starts.
CASES: list[tuple[str, dict[str, Any], str | None]] = [
    ("NoOpRecord", {}, None),
    ("FenceBrokerRecord", {"id": 77, "epoch": 1}, "Tried to fence broker 77, but that broker was not registered."),
    ("UnregisterBrokerRecord", {"brokerId": 77, "brokerEpoch": 1}, "no broker registration found for that id"),
    (
        "PartitionRecord",
        {"partitionId": 0, "topicId": T, "replicas": [1], "isr": [1], "leader": 1},
        '"this.image" is null',
    ),
    ("RemoveTopicRecord", {"topicId": T}, "no such topic found"),
    (
        "ProducerIdsRecord",
        {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": 0},
        "is not greater than current next",
    ),
]


@pytest.mark.parametrize(("name", "values", "said"), CASES, ids=lambda part: part if isinstance(part, str) else "")
def test_a_broker_ends_as_the_doctor_says(
    name: str, values: dict[str, Any], said: str | None, tmp_path: pathlib.Path
) -> None:
    release: Release = "4.3.1"
    log_dir = tmp_path / "work/logs"
    shutil.copytree(FIXTURES / "metadata/logdir", log_dir)
    log = log_dir / f"__cluster_metadata-0/{0:020d}.log"
    last = list(Segment(str(log)).batches())[-1]
    record = Record(last.last_offset + 1, 1795592271549, None, build_metadata_record(name, 0, values))
    with log.open("ab") as file:
        file.write(build_batch([record], partition_leader_epoch=last.partition_leader_epoch))
    found = examine([str(log_dir)], Examination(Circumstances(kafka=release, now_ms=0)))
    stops = [point.stop.message for point in found.points if point.stop is not None]
    failed = module_beside("brokers/broker.py").BrokerError
    with a_broker(release, tmp_path / "work", log_dir=log_dir, metadata_in_log_dir=True) as broker:
        try:
            broker.start()
            ended = None
        except failed as error:
            ended = str(error) + broker.log_text()
    assert (ended is None) == (said is None)
    assert (found.starts is Starts.REFUSES) == (said is not None)
    if ended is not None and said is not None:
        assert said in ended
        assert any(stop in ended for stop in stops)
