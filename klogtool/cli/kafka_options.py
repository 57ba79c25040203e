"""kafka-dump-log's own options, parsed exactly as its parser (jopt-simple) does.

Kafka converts an argument only when it needs it, so a wrong number ends its tool after the first lines. So arguments
stay text here until they are used, and a refusal then is a KlogError like damage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from klogtool.broker.releases import REFERENCE, Rules, rules_of
from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_numbers import parse_java_int
from klogtool.render.decoder_classes import decoder_of_classes, internal_topic_decoder
from klogtool.render.kafka_dump import java_path
from klogtool.render.records import RecordOptions

if TYPE_CHECKING:
    from klogtool.render.decoder_classes import Decoder


MAX_BYTES, MAX_MESSAGE_SIZE = 2**31 - 1, 5 * 1024 * 1024
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"

FLAGS = {
    "print-data-log": "Also print keys and values (implies --deep-iteration).",
    "deep-iteration": "Print each record, not only each batch.",
    "skip-record-metadata": "Print only key and value of each record. Control records become empty lines.",
    "verify-index-only": "Check an index without printing its entries.",
    "index-sanity-check": "Only do the check of an index that a broker does at startup.",
}
ARGUMENTS = {
    "files": "Comma-separated files, exactly as kafka-dump-log takes them.",
    "max-message-size": "Read at most N bytes to find the batch that an index entry points to.  [default: 5242880]",
    "max-bytes": "Read at most N bytes of a log.  [default: 2147483647]",
}
CLASSES = {
    "value-decoder-class": "Decoder for values: StringDecoder (default), DefaultDecoder, IntegerDecoder or LongDecoder "
    "of org.apache.kafka.tools.api.",
    "key-decoder-class": "Decoder for keys: the same classes.",
}
# In Kafka's order of preference.
DECODERS = {
    "offsets-decoder": ("decode_consumer_offsets", "Decode values of __consumer_offsets."),
    "transaction-log-decoder": ("decode_transaction_state", "Decode values of __transaction_state."),
    "cluster-metadata-decoder": ("decode_cluster_metadata", "Decode values of __cluster_metadata."),
    "remote-log-metadata-decoder": ("decode_remote_log_metadata", "Decode values of __remote_log_metadata."),
    "share-group-state-decoder": ("decode_share_group_state", "Decode values of __share_group_state."),
}
KAFKA_NAMES = {*FLAGS, *ARGUMENTS, *CLASSES, *DECODERS}


def kafka_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add all of them to a click command; they arrive as lists under their names with underscores."""
    for name, about in reversed([*FLAGS.items(), *((n, about) for n, (_, about) in DECODERS.items())]):
        command = click.option(f"--{name}", is_flag=True, help=about)(command)
    for name, about in reversed(CLASSES.items()):
        command = click.option(
            f"--{name}", is_flag=False, flag_value=STRING_DECODER, multiple=True, metavar="[CLASS]", help=about
        )(command)
    for name, about in reversed(ARGUMENTS.items()):
        command = click.option(f"--{name}", multiple=True, metavar="F,F,..." if name == "files" else "N", help=about)(
            command
        )
    return command


def as_kafka_reads(args: Sequence[str]) -> list[str]:
    """Return the words as jopt-simple reads them: one dash is two, and a flag may have an argument, which is
    ignored."""
    read: list[str] = []
    taken = False  # it belongs to the option before it, whatever it looks like
    for n, word in enumerate(args):
        if word == "--" and not taken:
            return [*read, *args[n:]]
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if taken or not word.startswith("-") or name not in KAFKA_NAMES:
            read.append(word)
        elif name in FLAGS or name in DECODERS:
            read.append(f"--{name}")
        else:
            read.append(f"--{name}={value}" if equals else f"--{name}")
        taken = not taken and name in ARGUMENTS and not equals and word.startswith("-")
    return read


class KafkaOptions:
    """The options of one run (render.kafka_dump.DumpOptions)."""

    def __init__(self, given: dict[str, object] | None = None) -> None:
        self.given = given or {}

    @property
    def sanity_only(self) -> bool:
        """--index-sanity-check."""
        return bool(self.given.get("index_sanity_check"))

    @property
    def verify_only(self) -> bool:
        """--verify-index-only."""
        return bool(self.given.get("verify_index_only"))

    @property
    def as_scala(self) -> bool:
        """Whether the release of --kafka had the tool in Scala."""
        return not self._rules.prints_as_java_tool

    @property
    def _rules(self) -> Rules:
        release: Any = self.given.get("kafka", REFERENCE)
        return rules_of(release)

    def max_bytes(self) -> int:
        """Return --max-bytes. Raises KlogError if it is not a number, or given twice."""
        return self._number("max-bytes", MAX_BYTES)

    def max_message_size(self) -> int:
        """Return --max-message-size, likewise."""
        return self._number("max-message-size", MAX_MESSAGE_SIZE)

    def files(self) -> list[str]:
        """Return --files, split as Java splits: empty pieces at the end are dropped."""
        pieces = str(self._only("files", "")).split(",")
        while len(pieces) > 1 and not pieces[-1]:
            pieces.pop()
        return [] if pieces == [""] and "," in str(self._only("files", "")) else [java_path(p) for p in pieces]

    def records(self) -> RecordOptions:
        """Return what to show of records. Raises KlogError for an unknown decoder class."""
        print_data = any(self.given.get(n.replace("-", "_")) for n in ["print-data-log", *DECODERS, *CLASSES])
        return RecordOptions(
            deep=print_data or bool(self.given.get("deep_iteration")),
            print_data=print_data,
            skip_metadata=bool(self.given.get("skip_record_metadata")),
            decoder=self._decoder(),
            as_scala=self.as_scala,
        )

    def _decoder(self) -> Decoder | None:
        for option, (function, _) in DECODERS.items():
            if self.given.get(option.replace("-", "_")):
                return internal_topic_decoder(function, newest=self._rules.knows_newest_messages)
        names = [self._only(option, STRING_DECODER) for option in CLASSES]
        if names == [STRING_DECODER, STRING_DECODER]:
            return None
        value_class, key_class = names
        return decoder_of_classes(key_class, value_class)

    def _only(self, option: str, default: str) -> str:
        values: Sequence[str] = self.given.get(option.replace("-", "_")) or ()  # type: ignore[assignment]
        if len(values) > 1:
            raise KlogError(
                f"found multiple arguments for option {option}, but you asked for only one",
                kafka_class="MultipleArgumentsForOptionException",
            )
        return values[0] if values else default

    def _number(self, option: str, default: int) -> int:
        text = self._only(option, str(default))
        try:
            return parse_java_int(text)
        except Corrupt:
            raise KlogError(
                f"cannot parse argument '{text}' of option {option}", kafka_class="OptionArgumentConversionException"
            ) from None
