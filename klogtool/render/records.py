"""Which parts of records to show; shared by text and JSON, by the kernel and by the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding
    from klogtool.format.batch import Record, RecordBatch
    from klogtool.format.message import Message
    from klogtool.render.csv_lines import CsvPlace
    from klogtool.render.decoder_classes import Decoder
    from klogtool.render.selection import Selection


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
