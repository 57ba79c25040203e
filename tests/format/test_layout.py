"""One layout: the kernels' numbers come from the declarations, and the declarations are Kafka's."""

from __future__ import annotations

import pytest
from construct import Int8ub, Int32sb, Int64sb, Struct
from kafka import layout as apart
from running import ROOT

from klogtool.format import batch, framing, layout, message


def positions(declaration: Struct) -> dict[str, tuple[int, int]]:
    return {name: (at, kind.sizeof()) for name, at, kind in layout.field_positions(declaration)}


def test_the_kernels_are_compiled_with_these_very_numbers() -> None:
    """`python -m klogtool.format.layout > klogtool/kernels/_layout.pxi` mends a difference."""
    assert (ROOT / "klogtool/kernels/_layout.pxi").read_text() == layout.pxi_text()


def test_fields_follow_each_other() -> None:
    declaration = Struct("a" / Int8ub, "b" / Int64sb, "c" / Int32sb)
    assert positions(declaration) == {"a": (0, 1), "b": (1, 8), "c": (9, 4)}


def test_the_header_of_a_batch_lies_as_kafka_lays_it() -> None:
    assert positions(batch.BATCH_HEADER) == apart.BATCH
    assert batch.RECORD_BATCH_OVERHEAD == 61


@pytest.mark.parametrize(
    ("declaration", "theirs"),
    [(message.MESSAGE_V0_HEAD, apart.MESSAGE_0), (message.MESSAGE_V1_HEAD, apart.MESSAGE_1)],
    ids=["magic 0", "magic 1"],
)
def test_the_head_of_a_message_lies_as_kafka_lays_it(declaration: Struct, theirs: dict[str, tuple[int, int]]) -> None:
    of_entry = {name: (at - framing.LOG_OVERHEAD, size) for name, (at, size) in theirs.items()}
    assert positions(declaration) == {name: of_entry[name] for name in positions(declaration)}
    assert declaration.sizeof() == of_entry["key_length"][0]
    assert positions(message.ENTRY_HEAD) == {"offset": theirs["offset"], "message_size": theirs["size"]}


def test_the_frame_is_what_all_magics_have_in_common() -> None:
    frame = positions(framing.FRAME)
    assert frame["offset"] == apart.BATCH["base_offset"] == apart.MESSAGE_0["offset"]
    assert frame["length"] == apart.BATCH["length"] == apart.MESSAGE_0["size"]
    assert frame["magic"] == apart.BATCH["magic"] == apart.MESSAGE_0["magic"] == apart.MESSAGE_1["magic"]
    assert framing.HEADER_SIZE_UP_TO_MAGIC == sum(frame["magic"]) == 17


def test_where_checksums_begin() -> None:
    assert positions(batch.BATCH_HEADER)["attributes"][0] == batch.CRC_COVERS_FROM
    assert positions(message.MESSAGE_V0_HEAD)["magic"][0] == message.CRC_COVERS_FROM
    assert positions(message.MESSAGE_V1_HEAD)["magic"][0] == message.CRC_COVERS_FROM


def test_every_field_and_constant_is_in_the_text() -> None:
    text = layout.pxi_text()
    assert "    BATCH_RECORDS_COUNT = 57\n    BATCH_SIZE = 61\n" in text
    assert "    MESSAGE1_TIMESTAMP = 6\n    MESSAGE1_SIZE = 14\n" in text
    assert "    CODEC_ZSTD = 4\n" in text
    assert text.count(" = ") == sum(len(d.subcons) + 1 for d in layout.DECLARATIONS.values()) + len(layout.CONSTANTS)
