"""The last offset of each key in the dirty part of a log (SkimpyOffsetMap), in as many bytes as Kafka's map.

Kafka treats two keys with the same MD5 sum as one key, and such pairs can be constructed. Here a key is hashed with a
secret of the run, so that nobody can construct such a pair; otherwise the result does not depend on the hash. Only the
point where Kafka's map is full matters for the result.

This is the reference of kernels/_clean.pxi: change a rule in both places.
"""

from __future__ import annotations

import mmap
import secrets
from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeAlias

from klogtool import kernels
from klogtool.errors import Refused
from klogtool.format.java_numbers import MAX_INT, wrap_int

BYTES_PER_ENTRY = 24
NOT_FOUND = -1
SECRET_SIZE = 16
_HASH_SIZE = 16
_OFFSET_SIZE = 8  # of a slot: a hash, then the offset plus one, 0 in an empty slot


class OffsetMap:
    """Key to offset. slots: of BYTES_PER_ENTRY bytes each; usable: how many may be filled before the map is full.

    latest_offset: of the last record that was put, or batch that was read; -1 before. entries: keys in it.
    """

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        """Raises Refused (IllegalArgumentException) for memory that is less than none."""
        if memory_bytes < 0:
            raise Refused(f"capacity < 0: ({memory_bytes} < 0)", kafka_class="IllegalArgumentException")
        self.slots, self.usable = slots_of(memory_bytes, load_factor)
        self.entries = 0
        self.latest_offset = -1
        self._secret = new_secret()
        # Pages without a key use no memory.
        self._table = mmap.mmap(-1, max(self.slots, 1) * BYTES_PER_ENTRY)

    @property
    def is_full(self) -> bool:
        """No further record is to be put, whatever its key."""
        return self.entries >= self.usable

    def put(self, key: bytes, offset: int) -> None:
        """The offset of a record with this key. Raises Refused (IllegalArgumentException) if there is no slot left."""
        if self.entries >= self.slots:
            raise Refused(
                f"Attempted to add a new entry to a full offset map, entries: {self.entries}, slots: {self.slots}",
                kafka_class="IllegalArgumentException",
            )
        at, hashed, offset_after = self._find(key)
        self.entries += not offset_after
        self._table[at : at + BYTES_PER_ENTRY] = hashed + (offset + 1).to_bytes(_OFFSET_SIZE, "big", signed=True)
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """The last offset with this key, or NOT_FOUND. Raises Refused (ArithmeticException) of a map without slots."""
        if not self.slots:
            raise Refused("/ by zero", kafka_class="ArithmeticException")
        offset_after = self._find(key)[2]
        return offset_after - 1 if offset_after else NOT_FOUND

    def _find(self, key: bytes) -> tuple[int, bytes, int]:
        """Where the key's slot is, its hash, and what is in the slot: the offset plus one, or 0 for an empty one."""
        hashed = blake2b(key, digest_size=_HASH_SIZE, key=self._secret).digest()
        slot = int.from_bytes(hashed[:8], "big", signed=True) % self.slots
        for _ in range(self.slots):
            at = slot * BYTES_PER_ENTRY
            there = self._table[at : at + BYTES_PER_ENTRY]
            offset_after = int.from_bytes(there[_HASH_SIZE:], "big", signed=True)
            if not offset_after or there.startswith(hashed):
                return at, hashed, offset_after
            slot = slot + 1 if slot + 1 < self.slots else 0
        return 0, hashed, 0  # every slot has another key, so this key is not in the map


KeyMap: TypeAlias = OffsetMap | kernels.native.OffsetMap


def slots_of(memory_bytes: int, load_factor: float) -> tuple[int, int]:
    """How many slots there are, and how many of them are filled at most: an int of Java's."""
    slots = memory_bytes // BYTES_PER_ENTRY
    return slots, int(max(min(slots * load_factor, MAX_INT), wrap_int(MAX_INT + 1)))


def new_secret() -> bytes:
    """Return a random secret for the hash of keys."""
    return secrets.token_bytes(SECRET_SIZE)


def new_key_map(memory_bytes: int, load_factor: float, secret: bytes) -> KeyMap:
    """Return the kernel's map, or OffsetMap without the extension or for unusual sizes. Raises Refused like
    OffsetMap."""
    slots, usable = slots_of(memory_bytes, load_factor)
    if not kernels.native.OffsetMap.fits(slots, usable):
        return OffsetMap(memory_bytes, load_factor)
    return kernels.native.OffsetMap(slots, usable, secret)


def joined_map(parts: Iterable[bytes], secret: bytes) -> kernels.native.OffsetMap:
    """Join the contents of kernel maps with the same secret, or parts of them, to one: each key's last offset."""
    entries = list(parts)
    slots = max(1, sum(map(len, entries)) // BYTES_PER_ENTRY * 4 // 3)
    joined = kernels.native.OffsetMap(slots, slots, secret)
    for part in entries:
        joined.merge(part)
    return joined
