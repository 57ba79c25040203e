"""The line of log-start-offset-checkpoint that a tiered topic needs: after every command that writes checkpoints.

Kafka writes a line for each tiered partition, and for others only if the log starts inside a segment
(LogManager.checkpointLogStartOffsetsInDir). A tiered log may start below its first local segment: the line is then the
only place on the disk that says so.
"""

import pathlib
from typing import Any

import pytest
from deciding import decided
from loading import CONFIG, NOW_MS, make, segment
from raw_batches import build_batch

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.broker.unified_log.retention import is_tiered
from klogtool.format.batch import Record
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.internal.records import build_metadata_record
from klogtool.format.names import TopicPartition
from klogtool.plans.plan import Write

LOG_STARTS = "log-start-offset-checkpoint"
FIRST, LINE = 8, 2  # the first local segment, where the log starts in remote storage
DAY_MS = 86_400_000
TIERED = {"remote.storage.enable": "true"}
NOT_TIERED = {"remote.storage.enable": "false"}

# What is asked, and the log start of a tiered topic afterwards.
COMMANDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "delete-records in remote storage": ("delete-records", {"before": 5}, 5),
    "delete-records of a local segment": ("delete-records", {"before": 12}, 12),
    "delete-records inside a segment": ("delete-records", {"before": 10}, 10),
    "roll": ("roll", {"force": True}, LINE),
    "retain": ("retain", {"config": {"retention.ms": "-1"}}, LINE),
    "retain what is old": ("retain", {"config": TIERED, "now_ms": NOW_MS + 100 * DAY_MS}, LINE),
    "truncate": ("truncate", {"to": 14}, LINE),
    "truncate below the first segment": ("truncate", {"to": 4}, 4),
    "truncate below the log start": ("truncate", {"to": 1}, 1),
    "start anew": ("truncate", {"start_at": 40}, 40),
    "start anew with records in remote storage": ("truncate", {"start_at": 40, "log_start_offset_after": 3}, 3),
    "compact": ("compact", {"config": {"cleanup.policy": "compact", **TIERED}, "force": True}, LINE),
}


def log_dir_of(path: pathlib.Path, line: int = LINE, first: int = FIRST) -> pathlib.Path:
    make(path / "t-0", {base: segment(base) for base in (first, 12)})
    (path / "t-0" / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {line}\n")
    (path / ".kafka_cleanshutdown").touch()
    (path / LOG_STARTS).write_text(f"0\n2\nother 0 3\nt 0 {line}\n")
    return path


def with_metadata(log_dir: pathlib.Path, settings: dict[str, str]) -> None:
    """Write metadata that has the topic and its settings."""
    records = [build_metadata_record("TopicRecord", 0, {"name": "t", "topicId": "AAECAwQFBgcICQoLDA0ODw"})]
    records += [
        build_metadata_record("ConfigRecord", 0, {"resourceType": 2, "resourceName": "t", "name": name, "value": value})
        for name, value in settings.items()
    ]
    (log_dir / "__cluster_metadata-0").mkdir()
    (log_dir / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(
        b"".join(build_batch([Record(n, 0, None, value)], partition_leader_epoch=1) for n, value in enumerate(records))
    )


def line_after(log_dir: pathlib.Path, command: str, arguments: dict[str, Any]) -> int | None:
    """Return the partition's line as the plans of a command leave it."""
    config = {**CONFIG, **arguments.get("config", {})}
    now_ms = arguments.get("now_ms", NOW_MS)
    asked = {**Circumstances(now_ms=now_ms, config=config).as_arguments(), "jobs": 1}
    asked |= {name: value for name, value in arguments.items() if name not in ("config", "now_ms")}
    data = (log_dir / LOG_STARTS).read_bytes()
    for plan in decided(command, str(log_dir / "t-0"), asked):
        for step in plan.steps:
            if isinstance(step, Write) and step.path == LOG_STARTS:
                data = b"".join(part for part in step.content if isinstance(part, bytes))
    lines = parse_offset_checkpoint(data)
    assert lines[TopicPartition("other", 0)] == 3
    return lines.get(TopicPartition("t", 0))


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("source", ["given", "metadata", "beside"])
def test_a_tiered_topic_keeps_its_line(tmp_path: pathlib.Path, name: str, source: str) -> None:
    """beside: nobody says so, but the log dir has the files of a broker with tiered storage."""
    log_dir = log_dir_of(tmp_path)
    command, arguments, start = COMMANDS[name]
    config = dict(arguments.get("config", {}))
    if source == "given":
        config |= TIERED
    elif source == "metadata":
        with_metadata(log_dir, TIERED)
    else:
        (log_dir / "remote-log-index-cache").mkdir()
    assert line_after(log_dir, command, {**arguments, "config": config}) == start


@pytest.mark.parametrize("name", ["roll", "retain", "truncate", "delete-records of a local segment"])
def test_where_nobody_knows_a_line_stays(tmp_path: pathlib.Path, name: str) -> None:
    """A topic that is not tiered does not mind: its log starts at the first segment in any case."""
    command, arguments, start = COMMANDS[name]
    assert line_after(log_dir_of(tmp_path), command, arguments) == start


OFF = "remote.log.storage.system.enable"
OLD = {"config": TIERED, "now_ms": NOW_MS + 100 * DAY_MS}


@pytest.mark.parametrize("name", [*[*COMMANDS][:3], "roll", "retain", "truncate", "start anew"])
@pytest.mark.parametrize("settings", [TIERED, {}])
def test_a_line_stays_if_the_broker_has_no_remote_storage(
    tmp_path: pathlib.Path, name: str, settings: dict[str, str]
) -> None:
    """Such a broker removes it at its stop, and reads it at no start; one that has remote storage needs it."""
    command, arguments, start = COMMANDS[name]
    config = {**arguments.get("config", {}), **settings, OFF: "false"}
    assert line_after(log_dir_of(tmp_path), command, {**arguments, "config": config}) == start


def test_where_segments_go_without_remote_storage_the_line_is_the_new_start(tmp_path: pathlib.Path) -> None:
    """A broker 4.3.1 without remote storage deleted by retention.ms; with it again, the log started there, too."""
    config = {**TIERED, "retention.ms": str(DAY_MS), OFF: "false"}
    assert line_after(log_dir_of(tmp_path), "retain", {**OLD, "config": config}) == 16


@pytest.mark.parametrize("name", ["roll", "retain", "truncate", "delete-records of a local segment"])
@pytest.mark.parametrize("source", ["given", "metadata"])
def test_a_topic_that_is_not_tiered_loses_a_line_that_says_nothing(
    tmp_path: pathlib.Path, name: str, source: str
) -> None:
    log_dir = log_dir_of(tmp_path)
    command, arguments, _ = COMMANDS[name]
    config = dict(arguments.get("config", {}))
    if source == "given":
        config |= NOT_TIERED
    else:
        with_metadata(log_dir, {})
    assert line_after(log_dir, command, {**arguments, "config": config}) is None


@pytest.mark.parametrize(("line", "first"), [(0, 0), (FIRST, FIRST), (0, FIRST)])
def test_a_line_that_equals_the_first_segment_stays_too(tmp_path: pathlib.Path, line: int, first: int) -> None:
    """Without it, a tiered log starts at offset 0."""
    log_dir = log_dir_of(tmp_path, line, first)
    assert line_after(log_dir, "roll", {"force": True, "config": TIERED}) == line
    assert line_after(log_dir, "roll", {"force": True}) == line


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__remote_log_metadata"])
def test_topics_that_have_no_remote_storage(tmp_path: pathlib.Path, topic: str) -> None:
    log_dir = log_dir_of(tmp_path)
    (log_dir / "t-0").rename(log_dir / f"{topic}-0")
    (log_dir / LOG_STARTS).write_text(f"0\n1\n{topic} 0 {LINE}\n")
    loaded = load(str(log_dir / f"{topic}-0"), Circumstances(now_ms=NOW_MS, config={**CONFIG, **TIERED}))
    assert (loaded.log_start_offset, loaded.log.log_start_checkpoint) == (FIRST, None)
    assert not is_tiered(loaded.log)


@pytest.mark.parametrize(("config", "start"), [(TIERED, LINE), (NOT_TIERED, FIRST), ({}, FIRST)])
def test_where_a_log_starts(tmp_path: pathlib.Path, config: dict[str, str], start: int) -> None:
    log_dir = log_dir_of(tmp_path)
    path, circumstances = str(log_dir / "t-0"), Circumstances(now_ms=NOW_MS, config={**CONFIG, **config})
    assert load(path, circumstances).log_start_offset == start
    (log_dir / "__remote_log_metadata-3").mkdir()
    with_it = LINE if not config else start
    assert load(path, circumstances).log_start_offset == with_it


@pytest.mark.parametrize("first", [1, 2, FIRST])
def test_without_epochs_a_line_below_the_first_segment_counts(tmp_path: pathlib.Path, first: int) -> None:
    """Epochs would say that offsets below it went for good. Nobody says it here, so they may be in remote storage."""
    log_dir = log_dir_of(tmp_path, 0, first)
    circumstances = Circumstances(now_ms=NOW_MS, config=CONFIG)
    for epochs, start in (("0\n0\n", 0), (f"0\n1\n0 {first}\n", first)):
        (log_dir / "t-0" / "leader-epoch-checkpoint").write_text(epochs)
        assert load(str(log_dir / "t-0"), circumstances).log_start_offset == start
