"""Control records: what their keys say they are, and the markers of transactions.

Key and marker have the same fields in every version. So they are read here without Kafka's schemas, which is faster: a
log of transactions has very many markers. What KRaft writes between its metadata records is in `control_values`.
Sources: org.apache.kafka.common.record.internal ControlRecordType, ControlRecordUtils, EndTransactionMarker.
"""

from __future__ import annotations

import enum
from functools import partial

from msgspec import Struct

from klogtool.errors import Corrupt
from klogtool.format.fields import number, numbers, underflow
from klogtool.format.layouts import CONTROL_RECORD_KEY, END_TXN_MARKER

_KEY, _MARKER, _VERSION = numbers(CONTROL_RECORD_KEY), numbers(END_TXN_MARKER), number(END_TXN_MARKER.version)
KEY_BYTES = _KEY.size
# The version at which Kafka 4.3.1 reads and writes every value, whatever the value itself says.
CURRENT_VERSION = 0
_invalid = partial(Corrupt, kafka_class="InvalidRecordException")


class ControlRecordType(enum.IntEnum):
    """What a control record is, by the type in its key; UNKNOWN is every other id."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @classmethod
    def of(cls, type_id: int) -> ControlRecordType:
        """The type with that id (ControlRecordType.fromTypeId)."""
        return cls(type_id) if type_id in _KNOWN_IDS else cls.UNKNOWN


_KNOWN_IDS = frozenset(int(t) for t in ControlRecordType if t != ControlRecordType.UNKNOWN)
TRANSACTION_MARKERS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)


class EndTransactionMarker(Struct, frozen=True):
    """The end of a transaction: ABORT or COMMIT, and the epoch of the coordinator that wrote it."""

    type: ControlRecordType
    coordinator_epoch: int

    @property
    def is_abort(self) -> bool:
        """Whether the transaction was aborted."""
        return self.type is ControlRecordType.ABORT


def parse_control_type_id(key: bytes | None) -> int:
    """The type id in a control record's key (ControlRecordType.parseTypeId).

    A version above 0 is accepted, bytes behind the id are left alone. Raises Corrupt: no key, one of less than 4
    bytes, or a negative version.
    """
    if key is None:
        raise null_pointer('Cannot invoke "java.nio.ByteBuffer.duplicate()" because "key" is null')
    if len(key) < KEY_BYTES:
        raise _invalid(
            "Invalid value size found for control record key. "
            f"Must have at least {KEY_BYTES} bytes, but found only {len(key)}"
        )
    version = parse_version(key)
    if version < 0:
        raise _invalid(f"Invalid version found for control record: {version}. May indicate data corruption")
    return int(_KEY.unpack_from(key)[1])


def build_control_key(control_type: ControlRecordType) -> bytes:
    """The key of a control record. Raises ValueError for UNKNOWN."""
    if control_type == ControlRecordType.UNKNOWN:
        raise ValueError("Cannot serialize UNKNOWN control record type")
    return _KEY.pack(CURRENT_VERSION, control_type)


def parse_end_transaction_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """The marker of a transaction's end (EndTransactionMarker.deserialize).

    A version above 0 is read like 0, a longer value is accepted. Raises Corrupt: a key of another type, a value that
    is null or shorter than 6 bytes, or a negative version.
    """
    control_type = ControlRecordType.of(parse_control_type_id(key))
    if control_type not in TRANSACTION_MARKERS:
        reason = f"Invalid control record type for end transaction marker {control_type.name}"
        raise Corrupt(reason, kafka_class="IllegalArgumentException")
    if value is None:
        raise null_pointer('Cannot invoke "java.nio.ByteBuffer.getShort()" because "value" is null')
    version = parse_version(value)
    if version < 0:
        raise _invalid(f"Invalid version found for end transaction marker: {version}. May indicate data corruption")
    if len(value) < _MARKER.size:
        raise underflow()
    return EndTransactionMarker(control_type, _MARKER.unpack_from(value)[1])


def build_end_transaction_marker(marker: EndTransactionMarker) -> bytes:
    """The value of a marker; its key is `build_control_key(marker.type)`."""
    return _MARKER.pack(CURRENT_VERSION, marker.coordinator_epoch)


def parse_version(data: bytes) -> int:
    """The version that leads a key or value. Raises Corrupt where there is not all of it."""
    if len(data) < _VERSION.size:
        raise underflow()
    return int(_VERSION.unpack_from(data)[0])


def null_pointer(reason: str) -> Corrupt:
    """The error of a key or value that is not there, in the words of the JVM."""
    return Corrupt(reason, kafka_class="NullPointerException")
