"""What 4.4.0 added to internal topics, and tagged fields that no known release has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from coordinator_records import build_coordinator_key
from running import ROOT

from klogtool.format.internal.decoders import decode_cluster_metadata, decode_consumer_offsets, decode_json
from klogtool.format.internal.message import build_message
from klogtool.format.internal.records import METADATA, metadata_record_name
from klogtool.format.internal.schema import api_keys, message_names, schema_of
from klogtool.format.metadata_versions import metadata_version_name

UNREGISTER_CONTROLLER = bytes.fromhex("01 1d 00 00000007 00")  # frame 1, type 29, version 0, id, no tags
GROUP_KEY = build_coordinator_key("StreamsGroupMetadataKey", {"groupId": "g"})
EPOCH_AND_HASH = bytes.fromhex("0000 00000005 000000000000002a")  # version 0, epoch, metadata hash
TAG_0 = "00 04 00000003"
TAGS_2_AND_3 = "02 04 00000009 03 04 fffffffe"


def group(tags: str, count: int) -> bytes:
    return EPOCH_AND_HASH + bytes([count]) + bytes.fromhex(tags)


def decoded(value: bytes) -> dict[str, Any]:
    found = decode_json("__consumer_offsets", GROUP_KEY, value)
    assert found is not None
    data: dict[str, Any] = found["value"]["data"]
    return data


def test_a_controller_that_is_unregistered() -> None:
    assert decode_json("__cluster_metadata", None, UNREGISTER_CONTROLLER) == {
        "key": None,
        "value": {"type": "UnregisterControllerRecord", "version": 0, "data": {"controllerId": 7}},
    }


@pytest.mark.parametrize(
    ("of_4_4", "text"),
    [
        (True, '{"type":"UNREGISTER_CONTROLLER_RECORD","version":0,"data":{"controllerId":7}}'),
        (
            False,
            "Error at 5, skipping. org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id 29",
        ),
    ],
)
def test_the_text_of_4_3_1_does_not_know_it(of_4_4: bool, text: str) -> None:
    assert decode_cluster_metadata(5, None, UNREGISTER_CONTROLLER, of_4_4=of_4_4).value == text


def test_tags_2_and_3_of_a_streams_group() -> None:
    known = decoded(group(TAG_0 + TAGS_2_AND_3, 3))
    assert known == {
        "epoch": 5,
        "metadataHash": 42,
        "validatedTopologyEpoch": 3,
        "storedDescriptionTopologyEpoch": 9,
        "failedDescriptionTopologyEpoch": -2,
    }


@pytest.mark.parametrize(("of_4_4", "is_there"), [(True, True), (False, False)])
def test_the_text_of_4_3_1_leaves_them_out(of_4_4: bool, is_there: bool) -> None:
    text = decode_consumer_offsets(0, GROUP_KEY, group(TAGS_2_AND_3, 2), of_4_4=of_4_4).value or ""
    assert ("storedDescriptionTopologyEpoch" in text) is is_there
    assert "_unknownTaggedFields" not in text


def test_an_unknown_tagged_field_is_kept_in_json_only() -> None:
    value = group("64 03 010203 65 00", 2)
    assert decoded(value)["_unknownTaggedFields"] == [{"tag": 100, "data": "AQID"}, {"tag": 101, "data": ""}]
    assert decode_consumer_offsets(0, GROUP_KEY, value, of_4_4=True).value == (
        '{"version":"0","data":{"epoch":5,"metadataHash":42}}'
    )


def test_an_unknown_tagged_field_inside_another_struct() -> None:
    config = "02 61 02 62 01 64 01 ff"  # key a, value b, one tag
    (last,) = decoded(group("01 09 02" + config, 1))["lastAssignmentConfigs"]
    assert last == {"key": "a", "value": "b", "_unknownTaggedFields": [{"tag": 100, "data": "/w=="}]}


def test_what_is_newer_is_not_what_4_3_1_has() -> None:
    folder = ROOT / "klogtool/format/internal"
    known, newer = (
        json.loads((folder / name).read_text())["messages"] for name in ("schemas.json", "added_in_4_4.json")
    )
    assert newer
    assert [message for message in newer if message in known] == []
    assert set(message_names()) < set(message_names(of_4_4=True))


def test_only_who_asks_for_them_gets_them() -> None:
    assert 29 not in api_keys(METADATA, "metadata")
    assert api_keys(METADATA, "metadata", of_4_4=True)[29] == "UnregisterControllerRecord"
    assert metadata_record_name(UNREGISTER_CONTROLLER) is None
    with pytest.raises(KeyError):
        schema_of("UnregisterControllerRecord")
    with pytest.raises(KeyError):
        build_message("UnregisterControllerRecord", 0, {})


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (1, "3.0-IV1"),
        (7, "3.3-IV3"),
        (20, "3.8-IV0"),
        (25, "4.0-IV3"),
        (31, "4.4-IV0"),
        (32, "4.4-IV1"),
        (33, "4.4-IV2"),
        (34, "4.5-IV0"),
        (35, "35"),
        (0, "0"),
        (-1, "-1"),
    ],
)
def test_levels_of_metadata_version(level: int, name: str) -> None:
    assert metadata_version_name(level) == name
