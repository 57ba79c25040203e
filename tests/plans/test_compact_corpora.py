"""What real brokers' cleaners made of their logs, from `before/` to `result/`, and what klogtool makes of them.

4.3.1 to the byte, in both rounds: files, side files, the checkpoint. Older brokers went by older rules: of theirs, the
values that the log has for its keys are held together.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any

import deciding
import pytest
from running import ROOT

from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft
from klogtool.format.batch import RecordBatch, parse_batch
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.framing import walk_frames
from klogtool.format.names import TopicPartition
from klogtool.log.entries import walk_records
from klogtool.plans.plan import files_after

pytestmark = pytest.mark.shared

CORPORA = ROOT.parent / "shared" / "corpus"
SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "1800",
    "segment.index.bytes": "4096",
    "index.interval.bytes": "256",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
RETENTION_MS = {"keep": 86_400_000, "gone": 300}
ROUNDS = [("keep", ""), ("gone", ""), ("keep", "-2"), ("gone", "-2")]


def brought(tmp_path: pathlib.Path, corpus: str, before: str) -> pathlib.Path:
    """A log dir of a corpus, with its times."""
    if not (CORPORA / corpus).is_dir():
        pytest.skip(f"no ../shared/corpus/{corpus} beside the project")
    log_dir = tmp_path / before
    shutil.copytree(CORPORA / corpus / before, log_dir)
    for name, ms in json.loads((CORPORA / corpus / "golden" / "mtimes.json").read_text()).items():
        if name.startswith(before + "/") and (tmp_path / name).exists():
            os.utime(tmp_path / name, ns=(ms * 10**6,) * 2)
    return log_dir


def decided(log_dir: pathlib.Path, topic: str, now_ms: int, **more: Any) -> tuple[dict[str, bytes], list[Any]]:
    """The files of the partition afterwards, and all plans."""
    config = SETTINGS | {"delete.retention.ms": str(RETENTION_MS[topic])}
    path = str(log_dir / f"{topic}-0")
    plans = list(deciding.decided("compact", path, {"now_ms": now_ms, "jobs": 1, "config": config, **more}))
    (plan,) = [plan for plan in plans if plan.path == path]
    after = files_after(Draft.of(path), plan.steps)
    return {name: read_content(file.content) for name, file in after.items()}, plans


def batches_of(folder: pathlib.Path) -> list[RecordBatch]:
    logs = [path.read_bytes() for path in sorted(folder.glob("*.log"))]
    return [parse_batch(data, frame.position) for data in logs for frame in walk_frames(data, 0, len(data))]


def cleaners_clock(before: pathlib.Path, result: pathlib.Path, topic: str) -> int:
    """A delete horizon that is new, less delete.retention.ms."""
    old = {batch.delete_horizon_ms for batch in batches_of(before / f"{topic}-0")}
    new = {batch.delete_horizon_ms for batch in batches_of(result / f"{topic}-0")} - old - {None}
    (horizon,) = new
    assert horizon is not None
    return horizon - RETENTION_MS[topic]


@pytest.mark.parametrize(("topic", "suffix"), ROUNDS)
def test_a_4_3_1_brokers_files_to_the_byte(tmp_path: pathlib.Path, topic: str, suffix: str) -> None:
    before = brought(tmp_path, "4.3.1-compaction", "before" + suffix)
    result = CORPORA / "4.3.1-compaction" / ("result" + suffix)
    now_ms = cleaners_clock(before, result, topic)
    more = {"purge": True} if topic == "gone" else {}
    files, plans = decided(before, topic, now_ms, **more)
    wanted = {path.name: path.read_bytes() for path in (result / f"{topic}-0").iterdir()}
    for name in sorted({*files, *wanted}):
        if name.partition(".")[2].startswith(("log", "index", "timeindex", "txnindex", "snapshot")):
            assert files.get(name) == wanted.get(name), name
    key = TopicPartition(topic, 0)
    lines = parse_offset_checkpoint((result / "cleaner-offset-checkpoint").read_bytes())
    assert plans[0].answer["cleaner_checkpoint"] == lines[key]
    (step,) = [s for s in plans[-1].steps if s.path == "cleaner-offset-checkpoint"]
    assert parse_offset_checkpoint(read_content(step.content))[key] == lines[key]


@pytest.mark.parametrize("topic", RETENTION_MS)
@pytest.mark.parametrize(("corpus", "more"), [("2.8.2-compaction", {}), ("0.9.0.1-compaction", {"keep_magic": True})])
def test_older_brokers_logs_have_the_same_values(
    tmp_path: pathlib.Path, corpus: str, more: dict[str, Any], topic: str
) -> None:
    before = brought(tmp_path, corpus, "before")
    files, _ = decided(before, topic, 1_900_000_000_000, last_stop="clean", loaded_at_ms=0, **more)
    after = tmp_path / "after"
    after.mkdir()
    for name, data in files.items():
        (after / name).write_bytes(data)

    def values(folder: pathlib.Path) -> dict[bytes | None, bytes | None]:
        logs = sorted(folder.glob("*.log"))
        found = {record.key: record.value for path in logs for record in walk_records(str(path))}
        return {key: value for key, value in found.items() if value is not None}

    assert values(after) == values(CORPORA / corpus / "result" / f"{topic}-0")
