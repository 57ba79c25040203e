"""The header that a broker of Kafka 0.7 put before the messages of a fetch: MessageSetSend, MultiMessageSetSend for
several.

Both begin with the number of bytes that follow it, and an error code. Clients of that time expect it.
"""

from __future__ import annotations

from collections.abc import Iterable

from klogtool.errors import Refused
from klogtool.format.fields import numbers
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.layouts import RESPONSE_HEAD

_HEAD = numbers(RESPONSE_HEAD)
ERROR_CODE_SIZE = RESPONSE_HEAD.error_code.sizeof()
NO_ERROR = 0
# ErrorMapping of 0.7, by today's exception.
UNKNOWN_ERROR = -1
ERROR_CODES = {
    "OffsetOutOfRangeException": 1,
    "CorruptRecordException": 2,
    "InvalidRecordException": 2,
    "IllegalArgumentException": 4,  # InvalidFetchSize
}


def build_head(size: int, error_code: int = NO_ERROR) -> bytes:
    """Build the header of `size` bytes of messages. Raises Refused if the size field is too small for that."""
    if size + ERROR_CODE_SIZE > MAX_INT:
        raise Refused(f"{size} bytes of messages are more than a response can have")
    return _HEAD.pack(size + ERROR_CODE_SIZE, error_code)


def build_multi_head(sizes: Iterable[int]) -> bytes:
    """Build the header of the responses to several fetches, each with its own header; sizes: of their messages."""
    return build_head(sum(_HEAD.size + size for size in sizes))
