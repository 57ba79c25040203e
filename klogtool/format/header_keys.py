"""Keys of record headers, where Kafka writes a record anew."""

from __future__ import annotations

from klogtool.format.batch import Header
from klogtool.format.text import java_utf8


def rewritten_headers(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    """As they are in a batch that a leader or the cleaner has made of records (RecordHeader.key).

    The key of a header is text to Kafka: what is no UTF-8 in it becomes U+FFFD.
    """
    if all(header.key.isascii() for header in headers):
        return headers
    return tuple(Header(java_utf8(header.key).encode(), header.value) for header in headers)
