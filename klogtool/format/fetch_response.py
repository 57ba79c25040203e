"""What a broker of Kafka 0.7 put around the messages of a fetch: MessageSetSend, MultiMessageSetSend for several.

Both begin with the number of bytes that follow it, and an error code. Clients of that time were written against it.
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
# ErrorMapping of 0.7, by the exception of today.
UNKNOWN_ERROR = -1
ERROR_CODES = {
    "OffsetOutOfRangeException": 1,
    "CorruptRecordException": 2,
    "InvalidRecordException": 2,
    "IllegalArgumentException": 4,  # InvalidFetchSize
}


def build_head(size: int, error_code: int = NO_ERROR) -> bytes:
    """What stands before `size` bytes of messages. Raises Refused for more than the field can tell."""
    if size + ERROR_CODE_SIZE > MAX_INT:
        raise Refused(f"{size} bytes of messages are more than a response can have")
    return _HEAD.pack(size + ERROR_CODE_SIZE, error_code)


def build_multi_head(sizes: Iterable[int]) -> bytes:
    """What stands before responses to several fetches, each with its own head; sizes: of their messages."""
    return build_head(sum(_HEAD.size + size for size in sizes))
