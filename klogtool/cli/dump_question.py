"""klogtool dump-log: what is asked: by Kafka's options, and by others: which records, how they are decoded, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.releases import REFERENCE, Release
from klogtool.cli import options
from klogtool.cli.output import Output
from klogtool.cli.show import ReadingOptions
from klogtool.cli.value_options import ValueOptions
from klogtool.parameters import Unit, parameter
from klogtool.remote.store import StoreKeys
from klogtool.render.kafka_dump import KafkaDump
from klogtool.render.kafka_options import KafkaArguments, KafkaOptions
from klogtool.render.selection import LARGEST, SMALLEST, Selection

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding

_EVERYTHING = (SMALLEST, LARGEST)


class SelectionOptions(Struct, frozen=True, kw_only=True):
    """Which records are wanted, each field None: all."""

    offsets: Annotated[
        tuple[int, int] | None,
        parameter("Only records with these offsets.", Unit.TEXT, metavar="A..B", parse=options.span),
    ] = None
    timestamps: Annotated[
        tuple[int, int] | None,
        parameter(
            "Only records with these timestamps (epoch ms or ISO 8601).",
            Unit.TEXT,
            metavar="A..B",
            parse=options.time_span,
        ),
    ] = None
    grep: Annotated[
        bytes | None,
        parameter(
            "Only records whose key or value contains these bytes (\\xHH for any byte).",
            Unit.TEXT,
            metavar="BYTES",
            parse=options.typed_bytes,
        ),
    ] = None
    key: Annotated[
        bytes | None, parameter("Only records with this key.", Unit.TEXT, metavar="BYTES", parse=options.typed_bytes)
    ] = None
    producer_id: Annotated[int | None, parameter("Only records of this producer.")] = None

    def selection(self) -> Selection | None:
        """Return what is wanted; None: everything."""
        grep = self.grep or None  # the empty text is in every record
        of = Selection(self.offsets or _EVERYTHING, self.timestamps or _EVERYTHING, self.producer_id, self.key, grep)
        return None if of == Selection() else of


class DumpQuestion(Struct, frozen=True, kw_only=True):
    """What a dump is asked beside Kafka's own options."""

    output: Annotated[str | None, parameter("The file to write, for arrow and parquet.", Unit.FILE)] = None
    follow: Annotated[
        bool,
        parameter("Go on with what is appended, until Ctrl-C. For one partition dir, or a segment to begin with."),
    ] = False
    resync: Annotated[
        bool,
        parameter("Continue after damage. Without it, the dump of a file ends there, as with kafka-dump-log."),
    ] = False
    values: ValueOptions = ValueOptions()
    kafka: Annotated[Release, parameter("Do as this release of Kafka does.", Unit.RELEASE)] = REFERENCE
    select: SelectionOptions = SelectionOptions()
    store_key: StoreKeys = ()


class Dumping(Struct, frozen=True):
    """One run of dump-log. paths: `-` is standard input; they do not count if Kafka's --files is used."""

    paths: Sequence[str]
    arguments: KafkaArguments
    question: DumpQuestion
    reading: ReadingOptions

    @property
    def form(self) -> str:
        """The form of the output."""
        return self.reading.form

    @property
    def selection(self) -> Selection | None:
        """Which records are wanted; None: all."""
        return self.question.select.selection()

    @property
    def own_paths(self) -> Sequence[str]:
        """The paths that count: none with --files."""
        return () if self.arguments.files else self.paths

    def options(self) -> KafkaOptions:
        """Return what Kafka's options come to."""
        return KafkaOptions(self.arguments, self.question.kafka)

    def into(self, output: Output, values: Decoding | None) -> KafkaDump:
        """Return what dumps files so. values: how keys and values are decoded; they are printed then."""
        prints = self if values is None else replace(self, arguments=replace(self.arguments, print_data_log=True))
        return KafkaDump(
            prints.options(),
            {"json": output.write_json, "csv": output.write_csv}.get(self.form, output.write),
            (lambda _: None) if self.reading.quiet else output.note,
            selection=self.selection,
            go_on=self.question.resync,
            jobs=self.reading.threads if values is None else 1,
            values=values,
        )
