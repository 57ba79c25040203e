"""Ids of topics and of log dirs: Kafka's Uuid, 16 bytes here, base64 in text."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from functools import partial

from klogtool.errors import Corrupt

UUID_SIZE = 16
ZERO_UUID = bytes(UUID_SIZE)
METADATA_TOPIC_ID = bytes(UUID_SIZE - 1) + b"\x01"
_UUID_DIGITS, _LONGEST_UUID_TEXT = 22, 24
_BASE64_DIGITS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_RESERVED_DIRECTORY_IDS = 100
_illegal_argument = partial(Corrupt, kafka_class="IllegalArgumentException")


def parse_uuid(text: str) -> bytes:
    """Uuid.fromString: URL-safe base64 of 16 bytes, with its padding or without; left-over bits may be anything.

    Raises Corrupt (IllegalArgumentException) for any other text.
    """
    if len(text) > _LONGEST_UUID_TEXT:
        raise _illegal_argument(
            f"Input string with prefix `{text[:_LONGEST_UUID_TEXT]}` is too long to be decoded as a base64 UUID"
        )
    digits, padding = text[:_UUID_DIGITS], text[_UUID_DIGITS:]
    if len(digits) < _UUID_DIGITS or not _BASE64_DIGITS.issuperset(digits) or padding not in ("", "=="):
        raise _illegal_argument(f"Input string `{text}` is not a base64-encoded UUID of {UUID_SIZE} bytes")
    return a2b_base64(digits.replace("-", "+").replace("_", "/") + "==")


def build_uuid(uuid: bytes) -> str:
    """Uuid.toString: 22 characters of URL-safe base64, no padding."""
    return b2a_base64(uuid, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def is_reserved_directory_id(uuid: bytes) -> bool:
    """DirectoryId.reserved: ids that no log dir may have; the lower half counts as a signed number."""
    high, low = uuid[:8], uuid[8:]
    return high == bytes(8) and int.from_bytes(low, "big", signed=True) < _RESERVED_DIRECTORY_IDS
