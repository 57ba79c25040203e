"""The position of each field, from the declarations in `layouts`: the numbers that the kernels are compiled with.

`python -m klogtool.format.kernel_layout` prints the text of kernels/_layout.pxi. A test compares the file with it, so
the two cannot differ.
"""

from __future__ import annotations

from construct import Struct

from klogtool.format import batch, framing, layouts, message
from klogtool.format.fields import field_positions

DECLARATIONS: dict[str, Struct] = {
    "FRAME": layouts.FRAME,
    "BATCH": layouts.BATCH_HEADER,
    "ENTRY": layouts.ENTRY_HEAD,
    "MESSAGE0": layouts.MESSAGE_V0_HEAD,
    "MESSAGE1": layouts.MESSAGE_V1_HEAD,
    "OFFSET_INDEX": layouts.OFFSET_INDEX_ENTRY,
    "TIME_INDEX": layouts.TIME_INDEX_ENTRY,
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


def pxi_text() -> str:
    """Return the Cython enum of all positions, sizes and constants."""
    lines = [
        "# Written by `python -m klogtool.format.kernel_layout` from format/layouts.py: do not edit.",
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
