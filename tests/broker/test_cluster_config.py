"""Settings out of `__cluster_metadata`: what its records say, which value wins over which, what damage costs."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from raw_batches import build_batch

from klogtool.broker.causes import ImageProblem
from klogtool.broker.circumstances import Circumstances, terms_of
from klogtool.broker.cluster_config import ClusterConfig
from klogtool.broker.metadata.image import ClusterMetadata, read_cluster_metadata
from klogtool.causes import words
from klogtool.format.batch import Record
from klogtool.format.internal.records import build_metadata_record

TOPIC, BROKER = 2, 4
ORDERS_ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
META_PROPERTIES = "version=1\ncluster.id=c\nnode.id=7\n"


def config(resource_type: int, resource: str, name: str, value: str | None) -> bytes:
    values = {"resourceType": resource_type, "resourceName": resource, "name": name, "value": value}
    return build_metadata_record("ConfigRecord", 0, values)


def topic(name: str, topic_id: str) -> bytes:
    return build_metadata_record("TopicRecord", 0, {"name": name, "topicId": topic_id})


def remove_topic(topic_id: str) -> bytes:
    return build_metadata_record("RemoveTopicRecord", 0, {"topicId": topic_id})


def other(name: str) -> bytes:
    return build_metadata_record(name, 0, {})


def batches(values: Iterable[bytes], base_offset: int = 0) -> bytes:
    return b"".join(
        build_batch([Record(offset, 1000, None, value)], partition_leader_epoch=1)
        for offset, value in enumerate(values, base_offset)
    )


def write_log(folder: Path, values: Iterable[bytes], base_offset: int = 0) -> Path:
    path = folder / "__cluster_metadata-0"
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{base_offset:020d}.log").write_bytes(batches(values, base_offset))
    return path


def write_snapshot(path: Path, end_offset: int, values: Iterable[bytes]) -> Path:
    file = path / f"{end_offset:020d}-0000000001.checkpoint"
    file.write_bytes(batches(values))
    return file


def read(path: Path) -> ClusterMetadata:
    return read_cluster_metadata(str(path))


def test_settings_are_set_changed_and_taken_back(tmp_path: Path) -> None:
    log = write_log(
        tmp_path,
        [
            topic("orders", ORDERS_ID),
            config(TOPIC, "orders", "retention.ms", "1"),
            config(TOPIC, "orders", "retention.ms", "2"),
            config(TOPIC, "orders", "segment.ms", "3"),
            config(TOPIC, "orders", "segment.ms", None),
            config(BROKER, "", "log.retention.ms", "4"),
            config(BROKER, "7", "log.retention.ms", "5"),
            config(16, "a client", "rate", "6"),
        ],
    )
    found = read(log)
    assert found == ClusterMetadata(
        {"orders": ORDERS_ID},
        {"orders": {"retention.ms": "2"}},
        {"": {"log.retention.ms": "4"}, "7": {"log.retention.ms": "5"}},
        known=found.known,
        names_had=found.names_had,
    )


def test_a_topics_settings_go_with_it(tmp_path: Path) -> None:
    begun = [topic("orders", ORDERS_ID), config(TOPIC, "orders", "retention.ms", "1"), remove_topic(ORDERS_ID)]
    assert read(write_log(tmp_path, begun)) == ClusterMetadata()
    again = read(write_log(tmp_path, [*begun, topic("orders", OTHER_ID)]))
    assert (again.topic_ids, again.topics) == ({"orders": OTHER_ID}, {})


def test_what_a_transaction_of_the_controller_holds_counts_when_it_ends(tmp_path: Path) -> None:
    begin, end, abort = (other(f"{word}TransactionRecord") for word in ("Begin", "End", "Abort"))
    setting = [config(TOPIC, "orders", "retention.ms", str(n)) for n in range(4)]
    ended = write_log(tmp_path, [begin, setting[1], end, begin, setting[2], abort, begin, setting[3]])
    assert read(ended).topics == {"orders": {"retention.ms": "1"}}


def test_what_was_known_before_a_transaction_is_known_after_its_abort(tmp_path: Path) -> None:
    begin, abort = other("BeginTransactionRecord"), other("AbortTransactionRecord")
    partition = build_metadata_record("PartitionRecord", 0, {"topicId": ORDERS_ID, "replicas": [1], "isr": [1]})
    before, inside = [topic("orders", ORDERS_ID)], [partition, topic("other", OTHER_ID), remove_topic(ORDERS_ID)]
    plain, aborted = (
        read(write_log(tmp_path / name, records))
        for name, records in (("plain", before), ("aborted", [*before, begin, *inside, abort]))
    )
    assert aborted == plain
    assert aborted.known.partitions == {ORDERS_ID: {}}


def test_the_newest_snapshot_counts_and_the_log_behind_it(tmp_path: Path) -> None:
    settings = [config(TOPIC, "orders", "retention.ms", str(n)) for n in range(4)]
    log = write_log(tmp_path, settings)
    write_snapshot(log, 2, [config(TOPIC, "orders", "segment.ms", "9")])
    newest = write_snapshot(log, 4, [config(TOPIC, "orders", "segment.ms", "10")])
    assert read(log).topics == {"orders": {"segment.ms": "10"}}
    newest.write_bytes(newest.read_bytes()[:-1] + b"\xff")
    found = read(log)
    assert found.topics == {"orders": {"segment.ms": "9", "retention.ms": "3"}}
    assert found.problem is not None
    assert newest.name in found.problem


def test_damage_ends_the_reading_and_is_told(tmp_path: Path) -> None:
    log = write_log(tmp_path, [config(TOPIC, "orders", "retention.ms", str(n)) for n in (1, 2)])
    file = next(log.glob("*.log"))
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    found = read(log)
    assert found.topics == {"orders": {"retention.ms": "1"}}
    assert found.problem == f"{file.name}: a batch is damaged"
    file.unlink()
    write_log(tmp_path, [], base_offset=5)
    assert read(log).problem == ImageProblem.BEGINS_LATER(offset=5, end=0)


CLUSTER = ClusterConfig(
    ClusterMetadata(
        {"orders": ORDERS_ID},
        {"orders": {"segment.ms": "3", "internal.segment.bytes": "4096", "min.insync.replicas": "1"}},
        {"": {"log.retention.hours": "1", "log.roll.ms": "8"}, "7": {"log.retention.minutes": "1"}},
    ),
    "7",
)


@pytest.mark.parametrize(
    ("given", "by_file", "name", "value", "source"),
    [
        ({}, {}, "segment.bytes", 4096, "by __cluster_metadata (internal.segment.bytes)"),
        ({}, {}, "segment.ms", 3, "by __cluster_metadata"),
        ({}, {"segment.ms": "2"}, "segment.ms", 2, "by --config-file"),
        ({}, {"log.roll.ms": "2"}, "segment.ms", 3, "by __cluster_metadata"),
        ({"log.roll.ms": "1"}, {}, "segment.ms", 1, "as given (log.roll.ms)"),
        ({"segment.ms": "1"}, {"segment.ms": "2"}, "segment.ms", 1, "as given"),
        ({}, {"log.retention.ms": "5"}, "retention.ms", 5, "by --config-file (log.retention.ms)"),
        ({}, {}, "retention.ms", 60000, "by __cluster_metadata, for broker 7 (log.retention.minutes)"),
        (
            {},
            {"log.retention.minutes": "5"},
            "retention.ms",
            60000,
            "by __cluster_metadata, for broker 7 (log.retention.minutes)",
        ),
        ({"retention.ms": "-1"}, {}, "retention.ms", -1, "as given"),
        ({}, {}, "retention.bytes", -1, None),
    ],
)
def test_which_value_wins(
    given: dict[str, str], by_file: dict[str, str], name: str, value: int, source: str | None
) -> None:
    told = Circumstances(now_ms=0, config=given, config_sections=((None, by_file),))
    settled, sources = told.settled_for("orders", CLUSTER)
    assert getattr(settled, name.replace(".", "_")) == value
    assert sources.get(name) == source


def test_topics_that_a_broker_makes_for_itself_are_not_deleted_by_time() -> None:
    for name, policy, retention_ms in (
        ("__consumer_offsets", ("compact",), 604800000),
        ("__share_group_state", ("delete",), -1),
    ):
        settled, _ = Circumstances(now_ms=0).settled_for(name, ClusterConfig(None, None))
        assert (settled.cleanup_policy, settled.retention_ms) == (policy, retention_ms)


def log_dir(folder: Path, values: Iterable[bytes]) -> str:
    (folder / "meta.properties").write_text(META_PROPERTIES)
    (folder / "orders-0").mkdir()
    write_log(folder, values)
    return str(folder / "orders-0")


def test_the_terms_of_a_partition_say_where_values_are_from(tmp_path: Path) -> None:
    path = log_dir(
        tmp_path,
        [
            topic("orders", ORDERS_ID),
            config(TOPIC, "orders", "retention.ms", "1000"),
            config(BROKER, "7", "log.retention.bytes", "2000"),
        ],
    )
    terms = terms_of(path, Circumstances(now_ms=0))
    assert (terms.config.retention_ms, terms.config.retention_bytes) == (1000, 2000)
    assert list(map(words, terms.setting_notes(("retention.bytes", "retention.ms", "cleanup.policy")))) == [
        "retention.bytes: 2000, by __cluster_metadata, for broker 7 (log.retention.bytes)",
        "retention.ms: 1000, by __cluster_metadata",
        "all other settings: Kafka's defaults",
    ]


def test_values_that_are_none_are_left_out_and_told(tmp_path: Path) -> None:
    path = log_dir(tmp_path, [config(TOPIC, "orders", "retention.ms", "soon")])
    terms = terms_of(path, Circumstances(now_ms=0))
    assert terms.config.retention_ms == 604800000
    assert tuple(map(words, terms.notes[-2:])) == (
        "__cluster_metadata knows no topic orders",
        "retention.ms: the value in __cluster_metadata has the wrong type and is ignored: 'soon'",
    )
