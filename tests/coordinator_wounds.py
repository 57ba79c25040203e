"""Records that a coordinator does not know, put into the middle of its log: what becomes of its load."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from raw_batches import build_batch

from klogtool.format.batch import Record
from klogtool.log.entries import walk_entries

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
_COMMIT_KEY, _TXN_KEY = b"\0\1\0\1z\0\1t\0\0\0\0", b"\0\0\0\1z"


class Poison(NamedTuple):
    """A record. ends: whether the load ends at it, as brokers 4.3.1 and 3.9.2 showed."""

    topic: str
    key: bytes | None
    value: bytes | None
    ends: bool


_OF_BOTH: dict[str, tuple[bytes | None, bytes | None, bool]] = {
    "a text": (b"k1", b"v1", False),
    "no key": (None, b"v1", True),
    "no key, no value": (None, None, True),
    "an empty key": (b"", b"v1", True),
    "a key of a byte": (b"\x01", b"v1", True),
    "a key that ends early": (b"\0\0\xff", b"v", True),
}
POISON = {
    **{f"{topic}: {name}": Poison(topic, *one) for topic in (OFFSETS, TRANSACTIONS) for name, one in _OF_BOTH.items()},
    "of a transaction coordinator": Poison(OFFSETS, _TXN_KEY, b"\0\0abc", True),
    "of a group coordinator": Poison(TRANSACTIONS, _COMMIT_KEY, b"\0\0abc", False),
    "a value of no version": Poison(OFFSETS, _COMMIT_KEY, b"", True),
    "a value of a later version": Poison(OFFSETS, _COMMIT_KEY, b"\0\x63abc", True),
    "a state of no version": Poison(TRANSACTIONS, _TXN_KEY, b"", True),
    "no key, and larger than the buffer of a load": Poison(TRANSACTIONS, None, bytes(6 << 20), True),
    "a large text": Poison(TRANSACTIONS, b"k1", bytes(6 << 20), False),
    "a tombstone": Poison(OFFSETS, _COMMIT_KEY, None, False),
}


def put_in_the_middle(log: pathlib.Path, key: bytes | None, value: bytes | None) -> int:
    """Put a record behind the log's batches, and these once more behind it. Returns its offset.

    Indexes and snapshots go: a start makes them anew.
    """
    entries = [(bytes(entry.data), entry.last_offset) for entry in walk_entries(str(log))]
    data, at = b"".join(data for data, _ in entries), entries[-1][1] + 1
    poison = build_batch([Record(offset=at, timestamp=1_700_000_000_000, key=key, value=value)])
    again = [(at + 1 + int.from_bytes(batch[:8], "big")).to_bytes(8, "big") + batch[8:] for batch, _ in entries]
    log.write_bytes(data + poison + b"".join(again))
    for path in log.parent.iterdir():
        if path.suffix in (".index", ".timeindex", ".snapshot"):
            path.unlink()
    return at
