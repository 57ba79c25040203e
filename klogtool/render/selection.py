"""Which records are wanted; shared by text, JSON and Arrow, by the kernel and by the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from klogtool import kernels

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding
    from klogtool.format.batch import Record, RecordBatch
    from klogtool.format.message import Message
    from klogtool.render.csv_lines import CsvPlace
    from klogtool.render.decoder_classes import Decoder

SMALLEST, LARGEST = -(2**63), 2**63 - 1


class Selection(Struct, frozen=True):
    """Which records are wanted. Bounds are inclusive, timestamps ms.

    key: the whole key. grep: bytes that are in the key or the value.
    """

    offsets: tuple[int, int] = (SMALLEST, LARGEST)
    timestamps: tuple[int, int] = (SMALLEST, LARGEST)
    producer_id: int | None = None
    key: bytes | None = None
    grep: bytes | None = None

    def in_kernel(self) -> kernels.native.Selection:
        """Return the same selection, as kernels take it."""
        return kernels.native.Selection(self.offsets, self.timestamps, self.producer_id, self.key, self.grep or None)

    @property
    def needs_records(self) -> bool:
        """Whether the headers of batches are not enough to decide."""
        return self.key is not None or self.grep is not None

    def may_hold(self, batch: Any) -> bool:
        """Whether a batch of any magic may contain wanted records, by its header."""
        first = batch.base_offset
        return (
            batch.last_offset >= self.offsets[0]
            and (first is None or first <= self.offsets[1])
            and batch.max_timestamp >= self.timestamps[0]
            and self.producer_id in (None, batch.producer_id)
        )

    def wants(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> bool:
        """Whether a record is wanted, given that its batch passed `may_hold`."""
        return (
            self.offsets[0] <= offset <= self.offsets[1]
            and self.timestamps[0] <= timestamp <= self.timestamps[1]
            and self.key in (None, key)
            and (self.grep is None or self.grep in (value or b"") or self.grep in (key or b""))
        )


class RecordOptions(Struct):
    """Which parts of records to show.

    deep: records, not only batches. print_data: keys and values too, through the decoder (None: as strings).
    skip_metadata: only keys and values of records. as_scala: in the words of the tool that was written in Scala.
    """

    deep: bool = False
    print_data: bool = False
    skip_metadata: bool = False
    decoder: Decoder | None = None
    as_scala: bool = False


class DumpForm(Struct):
    """How the entries of one log file are shown: as kafka-dump-log's text, if neither json_file nor csv is given.

    json_file: the file's name in JSON lines. topic: the internal topic whose records are decoded in JSON. csv: the
    columns of a file in CSV. go_on: continue after damage, where Kafka's tool dies. values: how keys and values of
    records of `values_topic` are decoded in JSON; in text, `options.decoder` decodes them.
    """

    options: RecordOptions = field(default_factory=RecordOptions)
    selection: Selection | None = None
    json_file: str | None = None
    topic: str | None = None
    go_on: bool = False
    csv: CsvPlace | None = None
    values: Decoding | None = None
    values_topic: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the lines are kafka-dump-log's."""
        return self.json_file is None and self.csv is None

    def decoded(self, batch: RecordBatch | Message, record: Record) -> dict[str, object] | None:
        """Return the fields of JSON with the decoded key and value; None if there are none."""
        if self.values is None or batch.is_control:
            return None
        return self.values.fields(record.key, record.value, self.values_topic)
