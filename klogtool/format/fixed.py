"""Declarations of plain numbers only, read by the struct module: for millions of them.

construct keeps the letter of each number; so there is no second copy of a layout.
"""

from __future__ import annotations

import struct

from construct import Struct


def fixed_struct(declaration: Struct) -> struct.Struct:
    """The struct module's reader and writer of a declaration made of fixed-size numbers, big-endian, in its order."""
    return struct.Struct(">" + "".join(field.subcon.fmtstr[1:] for field in declaration.subcons))


def field_names(declaration: Struct) -> tuple[str, ...]:
    """The names of its fields, in order."""
    return tuple(field.name for field in declaration.subcons)
