"""The quick reader of messages beside the one of construct: equal values, and errors of the reference."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutate import mutations
from test_internal_messages import EVERY_VERSION, values_of

from klogtool.errors import KlogError
from klogtool.format.internal import records
from klogtool.format.internal.message import build_message, parse_front
from klogtool.format.internal.quick import UNSURE, Reader, quick_reader
from klogtool.format.internal.records import METADATA, build_metadata_record, parse_metadata_record
from klogtool.format.internal.schema import schema_of

READERS = {
    (name, version): reader for name, version in EVERY_VERSION if (reader := quick_reader(name, version)) is not None
}


def test_the_records_that_a_metadata_log_has_most_of_are_read_quickly() -> None:
    names = {name for name, _ in READERS}
    assert {"PartitionChangeRecord", "PartitionRecord", "TopicRecord", "ConfigRecord", "NoOpRecord"} <= names
    assert {("PartitionChangeRecord", version) for version in (0, 1, 2)} <= READERS.keys()


@pytest.mark.parametrize(("name", "version"), READERS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_it_reads_what_construct_reads(name: str, version: int, data: st.DataObject) -> None:
    built = build_message(name, version, data.draw(values_of(schema_of(name).struct, version)))
    check(READERS[name, version], name, version, built + b"rest")
    for damaged in mutations(built, data.draw(st.integers(0, 999)), 8):
        check(READERS[name, version], name, version, damaged)


def check(reader: Reader, name: str, version: int, data: bytes) -> None:
    """What it is sure of is so: a field that it reads and construct refuses would be a lie."""
    with suppress(*UNSURE):
        values, end = reader(data, 0)
        assert (values, len(data) - end) == parse_front(name, version, data)
        assert list(values) == list(parse_front(name, version, data)[0])


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_records_and_refusals_are_those_of_construct(data: st.DataObject) -> None:
    name, version = data.draw(st.sampled_from([key for key in READERS if schema_of(key[0]).module == METADATA]))
    built = build_metadata_record(name, version, data.draw(values_of(schema_of(name).struct, version)))
    for value in (built, built + b"\x00", *mutations(built, data.draw(st.integers(0, 999)), 8)):
        assert outcome(value) == reference(value)


def outcome(value: bytes) -> object:
    try:
        message = parse_metadata_record(METADATA, value)
    except KlogError as error:
        return str(error)
    return message, list(message.values)


def reference(value: bytes) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_quick_record", lambda *_, **__: None)
        return outcome(value)
