"""Settings by Kafka's names: which of several wins, what is refused, what is not."""

import msgspec
import pytest

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.config import LogConfig, check_names, log_config
from klogtool.errors import KlogError
from klogtool.format.java_numbers import MAX_LONG


def test_defaults_are_kafkas_but_for_one() -> None:
    config = log_config({})
    assert config == LogConfig()
    assert (config.segment_bytes, config.segment_index_bytes, config.index_interval_bytes) == (1 << 30, 10485760, 4096)
    assert (config.retention_ms, config.retention_bytes, config.max_message_bytes) == (604800000, -1, 1048588)
    assert (config.max_compaction_lag_ms, config.producer_id_expiration_ms) == (MAX_LONG, 86400000)
    assert config.transaction_partition_verification_enable is False


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7200000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "4", "retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_a_topics_name_wins_and_ms_over_minutes_over_hours(settings: dict[str, str], retention_ms: int) -> None:
    assert log_config(settings).retention_ms == retention_ms


def test_what_a_broker_would_refuse_is_taken_as_given() -> None:
    config = log_config(
        {"segment.bytes": "1500", "log.cleaner.dedupe.buffer.size": "24000", "segment.index.bytes": "3"}
    )
    assert (config.segment_bytes, config.log_cleaner_dedupe_buffer_size, config.segment_index_bytes) == (1500, 24000, 3)


def test_the_brokers_message_max_bytes_is_the_topics_unless_that_is_given() -> None:
    assert log_config({"message.max.bytes": "200"}).max_message_bytes == 200
    both = log_config({"message.max.bytes": "200", "max.message.bytes": "300"})
    assert (both.max_message_bytes, both.message_max_bytes) == (300, 200)


def test_policies() -> None:
    assert log_config({"cleanup.policy": "compact, Delete"}).cleanup_policy == ("compact", "delete")
    nothing = log_config({"cleanup.policy": ""})
    assert (nothing.compact, nothing.delete) == (False, False)
    config = log_config({"cleanup.policy": "compact", "max.compaction.lag.ms": "10", "segment.ms": "20"})
    assert config.max_segment_ms == 10


@pytest.mark.parametrize(
    "settings", [{"segment.bytes": "1k"}, {"preallocate": "yes"}, {"min.cleanable.dirty.ratio": "half"}]
)
def test_a_value_of_another_type_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(KlogError, match=next(iter(settings))):
        log_config(settings)


def test_a_name_that_no_log_goes_by_is_refused_with_a_guess() -> None:
    with pytest.raises(KlogError, match=r"did you mean retention\.ms\?"):
        check_names({"retention.msec": "1"})
    check_names({"min.insync.replicas": "1", "log.retention.ms": "1"})


def test_sections_of_a_file_from_the_general_to_the_particular() -> None:
    given = Circumstances(
        now_ms=0,
        config={"flush.messages": "1"},
        config_sections=(
            ("orders", {"retention.ms": "3"}),
            ("or*", {"retention.ms": "2", "segment.ms": "2"}),
            (None, {"retention.ms": "1", "segment.ms": "1", "flush.messages": "5"}),
        ),
    )
    orders, origins, other = (given.config_for(topic) for topic in ("orders", "origins", "other"))
    assert (orders.retention_ms, orders.segment_ms, orders.flush_messages) == (3, 2, 1)
    assert (origins.retention_ms, other.retention_ms, other.segment_ms) == (2, 1, 1)
    assert msgspec.convert(given.as_arguments(), Circumstances) == given
