"""What is asked to be shown of records; shared by text and JSON, by the kernel and by the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Texts = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class Decoder:
    """Makes texts of key and value, as printed behind ` key: ` and ` payload: `; None for one that is not printed.

    decode: (offset, key, value) -> texts. failed: (offset, message of Kafka's exception) -> texts, where the decoder
    prints that a record cannot be read; None where Kafka's tool dies of it. wants_key: dies of a record without one.
    """

    decode: Callable[[int, bytes | None, bytes | None], Texts]
    failed: Callable[[int, str], Texts] | None = None
    wants_key: bool = False


SMALLEST, LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """deep: records, not only batches. print_data: keys and values too, through the decoder (None: as strings)."""

    deep: bool = False
    print_data: bool = False
    skip_metadata: bool = False
    decoder: Decoder | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are wanted; bounds are inclusive, offsets and ms. key: the whole key; grep: in key or value."""

    offsets: tuple[int, int] = (SMALLEST, LARGEST)
    timestamps: tuple[int, int] = (SMALLEST, LARGEST)
    producer_id: int | None = None
    key: bytes | None = None
    grep: bytes | None = None

    @property
    def needs_records(self) -> bool:
        """Whether headers of batches are not enough to tell."""
        return self.key is not None or self.grep is not None

    def may_hold(self, batch: Any) -> bool:
        """Whether a batch of any magic may hold wanted records, by its header."""
        first = batch.base_offset
        return (
            batch.last_offset >= self.offsets[0]
            and (first is None or first <= self.offsets[1])
            and batch.max_timestamp >= self.timestamps[0]
            and self.producer_id in (None, batch.producer_id)
        )

    def wants(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> bool:
        """Whether a record of a batch that may hold wanted ones is one."""
        return (
            self.offsets[0] <= offset <= self.offsets[1]
            and self.timestamps[0] <= timestamp <= self.timestamps[1]
            and self.key in (None, key)
            and (self.grep is None or self.grep in (value or b"") or self.grep in (key or b""))
        )


@dataclass(frozen=True, slots=True)
class Form:
    """How the entries of one log file are shown.

    json_file: the name that JSON lines give the file; None for kafka-dump-log's text. topic: decodes records of
    internal topics in JSON. go_on: behind damage, where Kafka's tool dies.
    """

    options: RecordOptions = field(default_factory=RecordOptions)
    selection: Selection | None = None
    json_file: str | None = None
    topic: str | None = None
    go_on: bool = False
