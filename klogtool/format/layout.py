"""Where each field lies, derived from the declarations: the numbers that the kernels are compiled with.

`python -m klogtool.format.layout` prints the text of kernels/_layout.pxi; a test holds the file to it, so there is no
second copy of a layout to get out of step.
"""

from __future__ import annotations

from collections.abc import Iterator

from construct import Construct, Renamed, Struct

from klogtool.format import batch, framing, indexes, message
from klogtool.format.fixed import Fixed

DECLARATIONS: dict[str, Fixed] = {
    "FRAME": framing.FRAME,
    "BATCH": batch.BATCH_HEADER,
    "ENTRY": message.ENTRY_HEAD,
    "MESSAGE0": message.MESSAGE_V0_HEAD,
    "MESSAGE1": message.MESSAGE_V1_HEAD,
    "OFFSET_INDEX": indexes.OFFSET_INDEX_ENTRY,
    "TIME_INDEX": indexes.TIME_INDEX_ENTRY,
}
CONSTANTS = {
    "LOG_OVERHEAD": framing.LOG_OVERHEAD,
    "HEADER_SIZE_UP_TO_MAGIC": framing.HEADER_SIZE_UP_TO_MAGIC,
    "MIN_LENGTH": framing.MIN_LENGTH,
    "BATCH_CRC_COVERS_FROM": batch.CRC_COVERS_FROM,
    "MESSAGE_CRC_COVERS_FROM": message.CRC_COVERS_FROM,
    "CODEC_MASK": batch.CODEC_MASK,
    "TIMESTAMP_TYPE_BIT": batch.TIMESTAMP_TYPE_BIT,
    "TRANSACTIONAL_BIT": batch.TRANSACTIONAL_BIT,
    "CONTROL_BIT": batch.CONTROL_BIT,
    "DELETE_HORIZON_BIT": batch.DELETE_HORIZON_BIT,
    **{f"CODEC_{name.upper()}": number for number, name in enumerate(batch.CODEC_NAMES)},
}


def field_positions(declaration: Fixed | Struct) -> Iterator[tuple[str, int, Construct]]:
    """(field name, byte from the start of the struct, its type), for structs of fixed-size fields."""
    at = 0
    for member in declaration.subcons:
        inner = member.subcon if isinstance(member, Renamed) else member
        yield member.name, at, inner
        at += inner.sizeof()


def pxi_text() -> str:
    """The Cython enum of all positions, sizes and constants."""
    lines = [
        "# Written by `python -m klogtool.format.layout` from the declarations in klogtool/format: do not edit.",
        "",
    ]
    lines.append("cdef enum:")
    for prefix, declaration in DECLARATIONS.items():
        lines += [f"    {prefix}_{name.upper()} = {at}" for name, at, _ in field_positions(declaration)]
        lines.append(f"    {prefix}_SIZE = {declaration.sizeof()}")
    lines += [f"    {name} = {value}" for name, value in CONSTANTS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(pxi_text())
