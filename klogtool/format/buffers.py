"""The kinds of bytes that parsers accept: anything that a memoryview can be taken of without a copy."""

from __future__ import annotations

import mmap
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
