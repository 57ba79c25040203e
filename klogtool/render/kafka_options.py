"""kafka-dump-log's own options, parsed exactly as its parser (jopt-simple) does.

Kafka converts an argument only when it needs it, so a wrong number ends its tool after the first lines. So arguments
stay text here until they are used, and a refusal then is a KlogError like damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from klogtool.broker.releases import REFERENCE, Release, rules_of
from klogtool.errors import Corrupt, KlogError
from klogtool.format.java_numbers import parse_java_int
from klogtool.parameters import Unit, parameter, parameters_of
from klogtool.render.decoder_classes import Decoder, decoder_of_classes, internal_topic_decoder
from klogtool.render.selection import RecordOptions

MAX_BYTES, MAX_MESSAGE_SIZE = 2**31 - 1, 5 * 1024 * 1024
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"

# In Kafka's order of preference.
DECODERS = {
    "offsets_decoder": "decode_consumer_offsets",
    "transaction_log_decoder": "decode_transaction_state",
    "cluster_metadata_decoder": "decode_cluster_metadata",
    "remote_log_metadata_decoder": "decode_remote_log_metadata",
    "share_group_state_decoder": "decode_share_group_state",
}
Texts = tuple[str, ...]


def _class_of(what: str) -> Meta:
    return parameter(what, Unit.TEXT, metavar="[CLASS]", bare=STRING_DECODER)


class KafkaArguments(Struct, frozen=True, kw_only=True):
    """kafka-dump-log's own options, as they were typed: each may have been given several times."""

    files: Annotated[
        Texts,
        parameter("Comma-separated files, exactly as kafka-dump-log takes them.", Unit.TEXT, metavar="F,F,..."),
    ] = ()
    max_message_size: Annotated[
        Texts,
        parameter(
            "Read at most N bytes to find the batch that an index entry points to.  [default: 5242880]",
            Unit.TEXT,
            metavar="N",
        ),
    ] = ()
    max_bytes: Annotated[
        Texts, parameter("Read at most N bytes of a log.  [default: 2147483647]", Unit.TEXT, metavar="N")
    ] = ()
    value_decoder_class: Annotated[
        Texts,
        _class_of(
            "Decoder for values: StringDecoder (default), DefaultDecoder, IntegerDecoder or LongDecoder "
            "of org.apache.kafka.tools.api."
        ),
    ] = ()
    key_decoder_class: Annotated[Texts, _class_of("Decoder for keys: the same classes.")] = ()
    print_data_log: Annotated[bool, parameter("Also print keys and values (implies --deep-iteration).")] = False
    deep_iteration: Annotated[bool, parameter("Print each record, not only each batch.")] = False
    skip_record_metadata: Annotated[
        bool, parameter("Print only key and value of each record. Control records become empty lines.")
    ] = False
    verify_index_only: Annotated[bool, parameter("Check an index without printing its entries.")] = False
    index_sanity_check: Annotated[bool, parameter("Only do the check of an index that a broker does at startup.")] = (
        False
    )
    offsets_decoder: Annotated[bool, parameter("Decode values of __consumer_offsets.")] = False
    transaction_log_decoder: Annotated[bool, parameter("Decode values of __transaction_state.")] = False
    cluster_metadata_decoder: Annotated[bool, parameter("Decode values of __cluster_metadata.")] = False
    remote_log_metadata_decoder: Annotated[bool, parameter("Decode values of __remote_log_metadata.")] = False
    share_group_state_decoder: Annotated[bool, parameter("Decode values of __share_group_state.")] = False


KAFKAS = {one.option.removeprefix("--"): one for one in parameters_of(KafkaArguments)}  # by name


def as_kafka_reads(args: Sequence[str]) -> list[str]:
    """Return the words as jopt-simple reads them: one dash is two, and a flag may have an argument, which is
    ignored."""
    read: list[str] = []
    taken = False  # it belongs to the option before it, whatever it looks like
    for n, word in enumerate(args):
        if word == "--" and not taken:
            return [*read, *args[n:]]
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if taken or not word.startswith("-") or name not in KAFKAS:
            read.append(word)
        elif KAFKAS[name].is_flag:
            read.append(f"--{name}")
        else:
            read.append(f"--{name}={value}" if equals else f"--{name}")
        has_value = name in KAFKAS and not KAFKAS[name].is_flag and KAFKAS[name].bare is None
        taken = not taken and has_value and not equals and word.startswith("-")
    return read


class KafkaOptions:
    """What kafka-dump-log's options come to. kafka: the release whose tool is meant.

    Some are methods because Kafka reads an argument only when it needs it, and may fail on it only then.
    """

    def __init__(self, arguments: KafkaArguments, kafka: Release = REFERENCE) -> None:
        self._arguments, self._rules = arguments, rules_of(kafka)

    @property
    def sanity_only(self) -> bool:
        """--index-sanity-check."""
        return self._arguments.index_sanity_check

    @property
    def verify_only(self) -> bool:
        """--verify-index-only."""
        return self._arguments.verify_index_only

    @property
    def as_scala(self) -> bool:
        """Whether the release had the tool in Scala."""
        return not self._rules.prints_as_java_tool

    def max_bytes(self) -> int:
        """Return --max-bytes. Raises KlogError if it is not a number, or given twice."""
        return _number("max-bytes", self._arguments.max_bytes, MAX_BYTES)

    def max_message_size(self) -> int:
        """Return --max-message-size, likewise."""
        return _number("max-message-size", self._arguments.max_message_size, MAX_MESSAGE_SIZE)

    def files(self) -> list[str]:
        """Return --files, split as Java splits: empty pieces at the end are dropped."""
        text = _only("files", self._arguments.files, "")
        parts = text.split(",")
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        return [] if parts == [""] and "," in text else [java_path(part) for part in parts]

    def records(self) -> RecordOptions:
        """Return what to show of records. Raises KlogError for an unknown decoder class."""
        arguments = self._arguments
        print_data = arguments.print_data_log or bool(arguments.value_decoder_class or arguments.key_decoder_class)
        print_data = print_data or self._internal() is not None
        return RecordOptions(
            deep=print_data or arguments.deep_iteration,
            print_data=print_data,
            skip_metadata=arguments.skip_record_metadata,
            decoder=self._decoder(),
            as_scala=self.as_scala,
        )

    def _internal(self) -> str | None:
        """Return what decodes the internal topic that was named."""
        return next((function for option, function in DECODERS.items() if getattr(self._arguments, option)), None)

    def _decoder(self) -> Decoder | None:
        if (function := self._internal()) is not None:
            return internal_topic_decoder(function, of_4_4=self._rules.knows_messages_of_4_4)
        value_class = _only("value-decoder-class", self._arguments.value_decoder_class, STRING_DECODER)
        key_class = _only("key-decoder-class", self._arguments.key_decoder_class, STRING_DECODER)
        is_default = value_class == key_class == STRING_DECODER
        return None if is_default else decoder_of_classes(key_class, value_class)


def java_path(path: str) -> str:
    """Return a path as java.io.File keeps it: without repeated and trailing slashes."""
    while "//" in path:
        path = path.replace("//", "/")
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def _only(option: str, values: Texts, default: str) -> str:
    if len(values) > 1:
        raise KlogError(
            f"found multiple arguments for option {option}, but you asked for only one",
            kafka_class="MultipleArgumentsForOptionException",
        )
    return values[0] if values else default


def _number(option: str, values: Texts, default: int) -> int:
    text = _only(option, values, str(default))
    try:
        return parse_java_int(text)
    except Corrupt:
        raise KlogError(
            f"cannot parse argument '{text}' of option {option}", kafka_class="OptionArgumentConversionException"
        ) from None
