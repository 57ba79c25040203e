"""Sets one header field of an entry in place, by Kafka's name, whatever the magic. For entries that are to be wrong.

Nothing else changes: a checksum that covers the field no longer matches (`blanking.set_right_checksum` mends that).
"""

from __future__ import annotations

import struct

from construct import Struct

from klogtool.errors import KlogError
from klogtool.format.fields import field_names, field_positions, number
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD
from klogtool.format.layouts import BATCH_HEADER, ENTRY_HEAD, MESSAGE_V0_HEAD, MESSAGE_V1_HEAD


def put_field(entry: memoryview, name: str, value: int) -> None:
    """Set a header field. entry: all bytes of an entry of magic 0, 1 or 2, writable.

    Raises KlogError for a name that this magic does not have, and for a number that does not fit into the field.
    """
    heads = _heads(entry[HEADER_SIZE_UP_TO_MAGIC - 1])
    for start, head in heads:
        for field, at, kind in field_positions(head):
            if field == name:
                try:
                    number(kind).pack_into(entry, start + at, value)
                except struct.error as error:
                    raise KlogError(f"{value} does not fit into the field '{name}' ({kind.sizeof()} bytes)") from error
                return
    known = ", ".join(field for _, head in heads for field in field_names(head))
    raise KlogError(f"a batch has no field '{name}': it has {known}")


def _heads(magic: int) -> tuple[tuple[int, Struct], ...]:
    """Return where each part of the header begins, and its declaration."""
    if magic >= 2:
        return ((0, BATCH_HEADER),)
    return (0, ENTRY_HEAD), (LOG_OVERHEAD, MESSAGE_V1_HEAD if magic else MESSAGE_V0_HEAD)
