"""Keys and values of coordinators' records, built: klogtool only reads them."""

from __future__ import annotations

from construct import Int16sb

from klogtool.format.internal.message import build_message
from klogtool.format.internal.schema import Values, schema_of


def build_coordinator_key(name: str, values: Values) -> bytes:
    """The key of a coordinator's record, for the name of its key message (`OffsetCommitKey`)."""
    record_type: bytes = Int16sb.build(schema_of(name).api_key)
    return record_type + build_message(name, 0, values)


def build_version_prefixed(name: str, version: int, values: Values) -> bytes:
    """Version (int16) and message: values of coordinators' records (MessageUtil.toVersionPrefixedBytes)."""
    prefix: bytes = Int16sb.build(version)
    return prefix + build_message(name, version, values)
