"""Decoders of internal topics against what Kafka printed, byte for byte; and the same for machines."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from coordinator_records import build_coordinator_key, build_version_prefixed
from hypothesis import given
from hypothesis import strategies as st
from looped import for_each
from mutate import mutations

from klogtool.errors import KlogError, Unsupported
from klogtool.format.control_values import control_text
from klogtool.format.internal.decoders import (
    TextPair,
    decode_cluster_metadata,
    decode_consumer_offsets,
    decode_json,
    decode_remote_log_metadata,
    decode_share_group_state,
    decode_transaction_state,
)
from klogtool.format.internal.records import build_metadata_record

Decoder = Callable[[int, bytes | None, bytes | None], TextPair]
DECODERS: dict[str, tuple[Decoder, str]] = {
    "offsets": (decode_consumer_offsets, "__consumer_offsets"),
    "transaction": (decode_transaction_state, "__transaction_state"),
    "share": (decode_share_group_state, "__share_group_state"),
    "cluster": (decode_cluster_metadata, "__cluster_metadata"),
    "remote": (decode_remote_log_metadata, "__remote_log_metadata"),
}
GOLDEN: list[dict[str, Any]] = json.loads(
    (pathlib.Path(__file__).parent / "data" / "internal_topics.json").read_text(encoding="utf-8")
)["cases"]


def from_hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def case_name(case: dict[str, Any]) -> str:
    return f"{case['decoder']}-{case['offset']}-{(case['key'] or 'null')[:12]}-{(case['value'] or 'null')[:16]}"


def ours(case: dict[str, Any]) -> dict[str, Any]:
    """The case with klogtool's answer in place of Kafka's."""
    key, value = from_hex(case["key"]), from_hex(case["value"])
    asked = {name: case[name] for name in ("decoder", "offset", "key", "value")}
    try:
        if case["decoder"] == "control":
            return {**asked, "text": control_text(key, value)}
        decoded = DECODERS[case["decoder"]][0](case["offset"], key, value)
        return {**asked, "printed": [decoded.key, decoded.value]}
    except KlogError as error:
        silent = error.kafka_class == "BufferUnderflowException"
        return {**asked, "thrown": [error.kafka_class, None if silent else error.reason]}


every_answer = for_each(GOLDEN, case_name)


@every_answer
def test_text_is_that_of_kafka(case: dict[str, Any]) -> None:
    assert ours(case) == case


@every_answer
def test_damage_only_changes_the_text(case: dict[str, Any]) -> None:
    key, value = from_hex(case["key"]), from_hex(case["value"])
    for damaged in mutations(case_name(case), value or b"", 30):
        answer = ours({**case, "value": damaged.hex()})
        assert case["decoder"] == "control" or "thrown" not in answer or key is None


@given(key=st.none() | st.binary(max_size=30), value=st.none() | st.binary(max_size=60))
def test_any_bytes_have_a_json_form(key: bytes | None, value: bytes | None) -> None:
    for _, topic in DECODERS.values():
        json.dumps(decode_json(topic, key, value), allow_nan=False)


@pytest.mark.parametrize("decoder", ["offsets", "transaction", "share"])
def test_a_record_without_key_ends_the_tool(decoder: str) -> None:
    with pytest.raises(Unsupported, match="at offset 7 using the specified decoder"):
        DECODERS[decoder][0](7, None, b"")


def test_an_offset_commit_for_people_and_machines() -> None:
    key = build_coordinator_key("OffsetCommitKey", {"group": "g", "topic": "t", "partition": 3})
    value = build_version_prefixed("OffsetCommitValue", 3, {"offset": 42, "leaderEpoch": 5, "metadata": "m"})
    data = {"offset": 42, "leaderEpoch": 5, "metadata": "m", "commitTimestamp": 0}
    assert decode_consumer_offsets(0, key, value) == TextPair(
        '{"type":"1","data":{"group":"g","topic":"t","partition":3}}',
        '{"version":"3","data":{"offset":42,"leaderEpoch":5,"metadata":"m","commitTimestamp":0}}',
    )
    assert decode_json("__consumer_offsets", key, value) == {
        "key": {"type": "OffsetCommitKey", "version": 0, "data": {"group": "g", "topic": "t", "partition": 3}},
        "value": {"type": "OffsetCommitValue", "version": 3, "data": data},
    }


def test_a_tombstone() -> None:
    key = build_coordinator_key("GroupMetadataKey", {"group": "g"})
    assert decode_consumer_offsets(0, key, None).value == "<DELETE>"
    assert decode_json("__consumer_offsets", key, None) == {
        "key": {"type": "GroupMetadataKey", "version": 0, "data": {"group": "g"}},
        "value": None,
    }


def group_metadata(protocol_type: str, subscription: bytes) -> str:
    member = {"memberId": "m1", "subscription": subscription, "assignment": b""}
    values = {"protocolType": protocol_type, "members": [member]}
    key = build_coordinator_key("GroupMetadataKey", {"group": "g"})
    decoded = decode_consumer_offsets(0, key, build_version_prefixed("GroupMetadataValue", 0, values))
    assert decoded.value is not None
    return decoded.value.partition('"subscription":')[2]


def test_what_consumers_put_into_group_metadata_is_decoded() -> None:
    subscription = build_version_prefixed("ConsumerProtocolSubscription", 0, {"topics": ["t1"], "userData": b"u"})
    assert group_metadata("consumer", subscription) == '{"topics":["t1"],"userData":"dQ=="},"assignment":""}]}}'
    assert group_metadata("connect", subscription) == '"AAAAAAABAAJ0MQAAAAF1","assignment":""}]}}'
    assert group_metadata("consumer", subscription[:-1]) == '"AAAAAAABAAJ0MQAAAAE=","assignment":""}]}}'


def test_metadata_records_have_no_key() -> None:
    record = build_metadata_record("TopicRecord", 0, {"name": "foo", "topicId": "AAAAAAAAAAEAAAAAAAAAAg"})
    assert decode_cluster_metadata(9, b"ignored", record) == TextPair(
        None, '{"type":"TOPIC_RECORD","version":0,"data":{"name":"foo","topicId":"AAAAAAAAAAEAAAAAAAAAAg"}}'
    )
    assert decode_json("__cluster_metadata", None, record) == {
        "key": None,
        "value": {
            "type": "TopicRecord",
            "version": 0,
            "data": {"name": "foo", "topicId": "AAAAAAAAAAEAAAAAAAAAAg"},
        },
    }
    assert decode_json("__cluster_metadata", None, None) == {"key": None, "value": None}


def test_other_topics_are_not_decoded() -> None:
    assert decode_json("orders", b"", b"") is None


@pytest.mark.parametrize(
    ("topic", "key", "value", "reason"),
    [
        ("__consumer_offsets", None, b"", "the record has no key"),
        ("__consumer_offsets", b"\x00\x09", b"", "Found an unknown record type 9"),
        ("__cluster_metadata", None, b"", "Error while reading frame version"),
    ],
)
def test_errors_for_machines(topic: str, key: bytes | None, value: bytes, reason: str) -> None:
    assert decode_json(topic, key, value) == {"error": reason}
