"""One layout: the kernels' numbers come from the declarations, and the declarations are Kafka's."""

from __future__ import annotations

import pytest
from construct import Int8ub, Int32sb, Int64sb, Struct
from kafka import layout as apart
from running import ROOT

from klogtool.format import batch, fields, framing, kernel_layout, layouts, message
from klogtool.format.internal.schema import schema_of
from klogtool.format.text_values import members_of


def positions(declaration: Struct) -> dict[str, tuple[int, int]]:
    return {name: (at, kind.sizeof()) for name, at, kind in fields.field_positions(declaration)}


def test_the_kernels_are_compiled_with_these_very_numbers() -> None:
    """`python -m klogtool.format.kernel_layout > klogtool/kernels/_layout.pxi` mends a difference."""
    assert (ROOT / "klogtool/kernels/_layout.pxi").read_text() == kernel_layout.pxi_text()


def test_fields_follow_each_other() -> None:
    declaration = Struct("a" / Int8ub, "b" / Int64sb, "c" / Int32sb)
    assert positions(declaration) == {"a": (0, 1), "b": (1, 8), "c": (9, 4)}


def test_the_header_of_a_batch_lies_as_kafka_lays_it() -> None:
    assert positions(layouts.BATCH_HEADER) == apart.BATCH
    assert batch.RECORD_BATCH_OVERHEAD == 61


@pytest.mark.parametrize(
    ("declaration", "theirs"),
    [(layouts.MESSAGE_V0_HEAD, apart.MESSAGE_0), (layouts.MESSAGE_V1_HEAD, apart.MESSAGE_1)],
    ids=["magic 0", "magic 1"],
)
def test_the_head_of_a_message_lies_as_kafka_lays_it(declaration: Struct, theirs: dict[str, tuple[int, int]]) -> None:
    of_entry = {name: (at - framing.LOG_OVERHEAD, size) for name, (at, size) in theirs.items()}
    assert positions(declaration) == {name: of_entry[name] for name in positions(declaration)}
    assert declaration.sizeof() == of_entry["key_length"][0]
    assert positions(layouts.ENTRY_HEAD) == {"offset": theirs["offset"], "message_size": theirs["size"]}


def test_the_frame_is_what_all_magics_have_in_common() -> None:
    frame = positions(layouts.FRAME)
    assert frame["offset"] == apart.BATCH["base_offset"] == apart.MESSAGE_0["offset"]
    assert frame["length"] == apart.BATCH["length"] == apart.MESSAGE_0["size"]
    assert frame["magic"] == apart.BATCH["magic"] == apart.MESSAGE_0["magic"] == apart.MESSAGE_1["magic"]
    assert framing.HEADER_SIZE_UP_TO_MAGIC == sum(frame["magic"]) == 17


def test_where_checksums_begin() -> None:
    assert positions(layouts.BATCH_HEADER)["attributes"][0] == batch.CRC_COVERS_FROM
    assert positions(layouts.MESSAGE_V0_HEAD)["magic"][0] == message.CRC_COVERS_FROM
    assert positions(layouts.MESSAGE_V1_HEAD)["magic"][0] == message.CRC_COVERS_FROM


def test_every_field_and_constant_is_in_the_text() -> None:
    text = kernel_layout.pxi_text()
    assert "    BATCH_RECORDS_COUNT = 57\n    BATCH_SIZE = 61\n" in text
    assert "    MESSAGE1_TIMESTAMP = 6\n    MESSAGE1_SIZE = 14\n" in text
    assert "    CODEC_ZSTD = 4\n" in text
    declared = sum(len(d.subcons) + 1 for d in kernel_layout.DECLARATIONS.values())
    assert text.count(" = ") == declared + len(kernel_layout.CONSTANTS)


SIZES = {"int16": 2, "int32": 4, "uint32": 4, "int64": 8}


@pytest.mark.parametrize(
    ("declaration", "schema", "leading", "inside"),
    [
        (layouts.PRODUCER_ENTRY, "ProducerSnapshot", [], "producerEntries"),
        (layouts.CONTROL_RECORD_KEY, "ControlRecordTypeSchema", ["version"], None),
        (layouts.END_TXN_MARKER, "EndTxnMarker", ["version"], None),
    ],
)
def test_numbers_are_those_of_kafkas_schema(
    declaration: Struct, schema: str, leading: list[str], inside: str | None
) -> None:
    theirs = schema_of(schema).struct.fields
    if inside:
        array = next(field.struct for field in theirs if field.name == inside)
        assert array is not None
        theirs = array.fields
    ours = positions(declaration)
    assert list(ours)[: len(leading)] == leading
    sizes = [size for _, size in ours.values()][len(leading) :]
    assert sizes == [SIZES[field.type] for field in theirs]


@pytest.mark.parametrize(("version", "declaration"), [(0, layouts.QUORUM_STATE_V0), (1, layouts.QUORUM_STATE_V1)])
def test_the_quorum_state_is_that_of_kafkas_schema(version: int, declaration: Struct) -> None:
    """In the order of its fields, which decides the error of a file that lacks two; the version says which may lack."""
    fields = schema_of("QuorumStateData").struct.fields
    members = members_of(declaration)
    assert [member.name for member in members] == [field.name for field in fields]
    belongs = [field.versions.low <= version <= field.versions.high for field in fields]
    assert [not member.is_optional for member in members] == belongs
