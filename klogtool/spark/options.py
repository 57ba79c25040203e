"""The options of a query: those of Spark's kafka source, with its rules and messages, and a few of klogtool's own.

Names are case-insensitive. Options that only a consumer or a cluster needs are accepted and ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import astuple

from klogtool.decoding.formats import WITH_SCHEMAS
from klogtool.decoding.record_values import Formats
from klogtool.decoding.schemas import Schemas, read_schemas
from klogtool.errors import Refused
from klogtool.format.internal.decoders import MODULES_OF_TOPICS
from klogtool.format.names import COORDINATED_TOPICS
from klogtool.format.text import did_you_mean
from klogtool.log.file import check_path
from klogtool.log.storage import Place, check_place, expand
from klogtool.spark.causes import OptionCause, SparkCure

if TYPE_CHECKING:
    from klogtool.spark.copies import Copy

LATEST, EARLIEST = -1, -2
MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
TABLES = ("records", "batches", "findings", "left_out", "segments")
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
STRATEGIES = ("subscribe", "subscribepattern", "assign")
DEFAULT_SPLIT_BYTES = 128 << 20
DEFAULT_TRIGGER_DELAY_SECONDS = 900
UNIT_BITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
REFUSED = (
    *("kafka.auto.offset.reset", "kafka.key.deserializer", "kafka.value.deserializer"),
    *("kafka.enable.auto.commit", "kafka.interceptor.classes"),
)
"""Options that Spark's kafka source refuses too."""
OF_TABLES = "owner"  # an option that Spark adds to tables in its catalog
STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
IGNORED = (
    *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs"),
    *("groupIdPrefix", "includeTimestamp"),
)
OWN = (
    *("path", "paths", "table", "columns", "includeHeaders", "includeMetadata", "mode", "failOnDataLoss"),
    *("minPartitions", "maxRecordsPerPartition", "splitBytes", "storageOptions", "kafka.isolation.level"),
    *("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"),
    *("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestampStrategy", "deep", "failOnLeftOut", "copies"),
    *("decode", "keyFormat", "valueFormat", "schemas", "subscribe", "subscribePattern", "assign"),
)
SPELLED = {name.lower(): name for name in (*OWN, *STREAM_ONLY, *IGNORED)}
"""Names in their usual spelling."""


class Bound(Struct, frozen=True):
    """Where to begin or to end: an offset (or EARLIEST, LATEST) or a time in ms, for each partition or for all.

    each: by (topic, partition), if they were named.
    """

    every: int = LATEST
    each: tuple[tuple[tuple[str, int], int], ...] | None = None
    is_time: bool = False

    def of(self, topic: str | None, partition: int | None) -> int | None:
        """Return the bound of a partition; None if partitions were named, but not this one."""
        if self.each is None:
            return self.every
        return dict(self.each).get((topic or "", -1 if partition is None else partition))


class Shape(Struct, frozen=True):
    """Which rows and columns are wanted; columns: None for all that the flags select. formats: of keys and values that
    are decoded, too. internal: the internal topic whose messages are the columns, in the place of keys and values."""

    table: str = "records"
    columns: tuple[str, ...] | None = None
    include_headers: bool = False
    include_metadata: bool = False
    formats: Formats = Formats()
    internal: str | None = None


class Query(Struct, frozen=True):
    """What is wanted. strategy, selected: the option that selects topics, and its value; None for all. schemas: for the
    formats of the shape."""

    places: tuple[Place, ...]
    shape: Shape = Shape()
    strategy: str | None = None
    selected: str = ""
    starting: Bound = Bound(EARLIEST)
    ending: Bound = Bound(LATEST)
    fails_without_later_time: bool = True
    is_committed_only: bool = False
    mode: str = "FAILFAST"
    most_left_out: int | None = None
    fails_on_data_loss: bool = True
    least_splits: int = 0
    most_records: int = 0
    split_bytes: int = DEFAULT_SPLIT_BYTES
    deep: bool = False
    all_copies: bool = False
    schemas: Schemas | None = None
    most_offsets: int = 0
    least_offsets: int = 0
    most_seconds: int = DEFAULT_TRIGGER_DELAY_SECONDS

    def select(self, copies: Iterable[Copy], notes: list[str], *, may_be_gone: bool = False) -> list[Copy]:
        """Return the copies of the wanted topics and partitions. notes: gets a line for partitions that do not exist.
        Raises Refused for a topic that does not exist, unless it may be gone."""
        wanted = list(copies)
        if self.strategy == "subscribe":
            topics = [topic.strip() for topic in self.selected.split(",") if topic.strip()]
            return _named(wanted, topics, may_be_gone=may_be_gone)
        if self.strategy == "subscribepattern":
            pattern = re.compile(self.selected)  # matches anywhere in a name, as in ConsumerStrategy
            return [c for c in wanted if c.topic and c.topic not in COORDINATED_TOPICS and pattern.search(c.topic)]
        if self.strategy == "assign":
            partitions = partitions_of_json(self.selected)
            return _assigned(wanted, partitions, notes, may_be_gone=may_be_gone)
        return wanted


def _named(copies: list[Copy], topics: list[str], *, may_be_gone: bool) -> list[Copy]:
    there = {copy.topic for copy in copies}
    missing = [topic for topic in topics if topic not in there]
    if missing and not may_be_gone:
        raise Refused(OptionCause.NO_SUCH_TOPIC(topics=tuple(missing)))
    return [copy for copy in copies if copy.topic in topics]


def _assigned(copies: list[Copy], wanted: list[tuple[str, int]], notes: list[str], *, may_be_gone: bool) -> list[Copy]:
    """Like Spark, which asks a broker for the topics and keeps the named partitions."""
    there = {(copy.topic, copy.partition) for copy in copies}
    if missing := [f"{topic}-{partition}" for topic, partition in wanted if (topic, partition) not in there]:
        notes.append(str(OptionCause.NO_SUCH_PARTITION(partitions=tuple(missing))))
    of_topics = _named(copies, list(dict.fromkeys(topic for topic, _ in wanted)), may_be_gone=may_be_gone)
    return [copy for copy in of_topics if (copy.topic, copy.partition) in wanted]


def parse_shape(arguments: Mapping[str, str]) -> Shape:
    """Return which columns the options select. Raises Refused for wrong values."""
    options = {name.lower(): value for name, value in arguments.items()}
    columns = options.get("columns")
    return Shape(
        table=_one_of(options, "table", TABLES),
        columns=tuple(name.strip() for name in columns.split(",")) if columns else None,
        include_headers=_flag(options, "includeheaders"),
        include_metadata=_flag(options, "includemetadata"),
        formats=_formats(options),
        internal=_internal_topic(options),
    )


def parse_query(arguments: Mapping[str, str], notes: list[str], *, stream: bool = False) -> Query:
    """Parse the options. notes: gets a line for each that has no effect. Raises Refused for wrong values."""
    options = {name.lower(): value for name, value in arguments.items()}
    paths = _paths(options)
    if OF_TABLES in options:
        raise Refused(OptionCause.TABLE_OF_CATALOG(), cure=SparkCure.AS_VIEW())
    _note_ignored(options, notes, stream=stream)
    strategies = [name for name in STRATEGIES if name in options]
    if len(strategies) > 1:
        raise Refused(OptionCause.ONE_STRATEGY())
    strategy = strategies[0] if strategies else None
    starting, ending = _starting(options, stream=stream), _ending(options, stream=stream)
    _check_bounds(starting, ending)
    rates = _rates(options)  # they have to fit each other even if they have no effect
    is_all = _one_of(options, "copies", ("one", "all")) == "all"
    if is_all and stream:
        raise Refused(OptionCause.COPIES_OF_STREAM())
    return Query(
        places=tuple(places_of(paths, options.get("storageoptions", ""))),
        shape=parse_shape(options),
        strategy=strategy,
        selected=_checked_strategy(strategy, options[strategy].strip()) if strategy else "",
        starting=starting,
        ending=ending,
        fails_without_later_time=_one_of(options, "startingoffsetsbytimestampstrategy", ("error", "latest")) == "error",
        is_committed_only=_one_of(options, "kafka.isolation.level", ISOLATION_LEVELS) == "read_committed",
        mode=_mode(options),
        most_left_out=_most_left_out(options),
        fails_on_data_loss=_flag(options, "failondataloss", default=True),
        least_splits=_positive(options, "minpartitions"),
        most_records=_positive(options, "maxrecordsperpartition"),
        split_bytes=_bytes(options, "splitbytes") or DEFAULT_SPLIT_BYTES,
        deep=_flag(options, "deep"),
        all_copies=is_all,
        schemas=read_schemas(options["schemas"]) if "schemas" in options else None,
        **(rates if stream else {}),
    )


def check_options(arguments: Mapping[str, str]) -> None:
    """Check options and paths before a query is planned. Raises KlogError for what can be neither a batch nor a
    stream."""
    try:
        query = parse_query(arguments, [])
    except Refused as error:
        try:
            query = parse_query(arguments, [], stream=True)
        except Refused:
            raise error from None
    for place in query.places:
        check_place(place)


def _mode(options: Mapping[str, str]) -> str:
    """Return the mode. Records are strict by default, as Kafka's consumer is; the other tables are for looking at
    damage."""
    table = options.get("table", "records")
    default = "FAILFAST" if table == "records" else "PERMISSIVE"
    mode = _one_of({"mode": options.get("mode", default).upper()}, "mode", MODES)
    if table == "left_out" and mode == "FAILFAST":
        raise Refused(OptionCause.FAILFAST())
    return mode


def _formats(options: Mapping[str, str]) -> Formats:
    formats = Formats(options.get("keyformat"), options.get("valueformat"))
    names = [name for name in ("keyformat", "valueformat", "schemas") if name in options]
    if names and options.get("table", "records") != "records":
        raise Refused(OptionCause.OF_RECORDS(name=SPELLED[names[0]]))
    if names == ["schemas"]:
        raise Refused(OptionCause.NO_FORMAT())
    if "schemas" not in options and (form := next((f for f in WITH_SCHEMAS if f in astuple(formats)), None)):
        raise Refused(OptionCause.NO_SCHEMAS(form=form))
    return formats


def _internal_topic(options: Mapping[str, str]) -> str | None:
    """Return the one internal topic of decode=internal: its fields are the columns, so it has to be named."""
    if _one_of(options, "decode", ("none", "internal")) == "none":
        return None
    if options.get("table", "records") != "records" or "keyformat" in options or "valueformat" in options:
        raise Refused(OptionCause.DECODES_RECORDS())
    topics = {topic.strip() for topic in options.get("subscribe", "").split(",") if topic.strip()}
    if "assign" in options:
        topics = {topic for topic, _ in partitions_of_json(options["assign"])}
    if len(topics) != 1 or not topics <= MODULES_OF_TOPICS.keys():
        raise Refused(OptionCause.DECODES_ONE_TOPIC(topics=tuple(MODULES_OF_TOPICS)))
    return topics.pop()


def _most_left_out(options: Mapping[str, str]) -> int | None:
    if "failonleftout" not in options:
        return None
    if options.get("table", "records") != "records" or _mode(options) == "FAILFAST":
        raise Refused(OptionCause.LEFT_OUT_OF_RECORDS())
    return _number("failOnLeftOut", options["failonleftout"])


def _rates(options: Mapping[str, str]) -> dict[str, int]:
    most, least = _positive(options, "maxoffsetspertrigger"), _positive(options, "minoffsetspertrigger")
    if most and least > most:
        raise Refused(OptionCause.LEAST_ABOVE_MOST(least=least, most=most))
    return {"most_offsets": most, "least_offsets": least, "most_seconds": _seconds(options)}


def _seconds(options: Mapping[str, str]) -> int:
    """Parse maxTriggerDelay, such as 15m (JavaUtils.timeStringAsSec); without a unit, in seconds."""
    text = options.get("maxtriggerdelay", f"{DEFAULT_TRIGGER_DELAY_SECONDS}s").strip().lower()
    match = re.fullmatch(r"(\d{1,18})(s|m|min|h|d)?", text)
    if match is None:
        raise Refused(OptionCause.NO_DURATION(text=text))
    return int(match[1]) * SECONDS[match[2] or "s"]


def _note_ignored(options: Mapping[str, str], notes: list[str], *, stream: bool) -> None:
    for name in options:
        spelled = SPELLED.get(name)
        if spelled in OWN or (stream and spelled in STREAM_ONLY):
            continue
        if name in REFUSED:
            raise Refused(OptionCause.OF_KAFKA(name=name.removeprefix("kafka.")))
        if spelled in STREAM_ONLY:
            notes.append(str(OptionCause.STREAMS_ONLY(name=name)))
        elif name.startswith("kafka.") or spelled in IGNORED:
            notes.append(str(OptionCause.NO_BROKER(name=name)))
        else:
            raise Refused(OptionCause.UNKNOWN(name=name, guess=did_you_mean(name, SPELLED.values())))


def _paths(options: Mapping[str, str]) -> list[str]:
    if "paths" in options:
        return [str(path) for path in _json("paths", options["paths"], list)]
    return [options["path"]] if options.get("path") else []


def _checked_strategy(strategy: str, value: str) -> str:
    if strategy == "assign":
        partitions_of_json(value)
    elif not value.strip(" ,"):
        raise Refused(OptionCause.NO_TOPICS(strategy=strategy, value=value))
    elif strategy == "subscribepattern":
        try:
            re.compile(value)
        except (re.error, OverflowError, RecursionError) as error:
            raise Refused(OptionCause.NO_PATTERN(error=str(error))) from error
    return value


# Where to begin and to end.


def _starting(options: Mapping[str, str], *, stream: bool) -> Bound:
    if (by_time := _by_time(options, "starting")) is not None:
        return by_time
    text = options.get("startingoffsets", "latest" if stream else "earliest").strip()
    if text.lower() == "earliest":
        return Bound(EARLIEST)
    if text.lower() == "latest":
        if not stream:
            raise Refused(OptionCause.BEGINS_LATEST())
        return Bound(LATEST)
    each = _offsets_of_json("startingOffsets", text)
    for (topic, partition), offset in each:
        if offset == LATEST and not stream:
            raise Refused(OptionCause.PARTITION_BEGINS_LATEST(partition=f"{topic}-{partition}"))
    return Bound(EARLIEST, each)


def _ending(options: Mapping[str, str], *, stream: bool) -> Bound:
    if stream and ("endingoffsets" in options or "endingoffsetsbytimestamp" in options):
        raise Refused(OptionCause.END_OF_STREAM())
    if stream:  # endingTimestamp has no effect on a stream, as in Spark's source
        return Bound(LATEST)
    if (by_time := _by_time(options, "ending")) is not None:
        return by_time
    text = options.get("endingoffsets", "latest").strip()
    if text.lower() == "latest":
        return Bound(LATEST)
    if text.lower() == "earliest":
        raise Refused(OptionCause.ENDS_EARLIEST())
    each = _offsets_of_json("endingOffsets", text)
    for (topic, partition), offset in each:
        if offset == EARLIEST:
            raise Refused(OptionCause.PARTITION_ENDS_EARLIEST(partition=f"{topic}-{partition}"))
    return Bound(LATEST, each)


def _by_time(options: Mapping[str, str], which: str) -> Bound | None:
    if (text := options.get(f"{which}timestamp")) is not None:
        return Bound(_number(f"{which}Timestamp", text), is_time=True)
    if (text := options.get(f"{which}offsetsbytimestamp")) is not None:
        return Bound(each=_offsets_of_json(f"{which}OffsetsByTimestamp", text, least=0), is_time=True)
    return None


def _check_bounds(starting: Bound, ending: Bound) -> None:
    """Check that both JSONs name the same partitions, and none ends before it begins (KafkaSourceProvider)."""
    if starting.each is None or ending.each is None or starting.is_time != ending.is_time:
        return
    first, last = dict(starting.each), dict(ending.each)
    if first.keys() != last.keys():
        raise Refused(OptionCause.OTHER_PARTITIONS())
    for (topic, partition), offset in first.items():
        end = last[topic, partition]
        if end >= 0 and offset > end:
            raise Refused(OptionCause.BEGINS_BEHIND_END(partition=f"{topic}-{partition}", offset=offset, end=end))


# Values.


def _json(name: str, text: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(OptionCause.NO_JSON(name=name, text=text)) from error
    if not isinstance(value, kind):
        kind_name = "list" if kind is list else "object"
        raise Refused(OptionCause.OTHER_JSON(name=name, kind=kind_name, text=text))
    return value


def partitions_of_json(text: str) -> list[tuple[str, int]]:
    """Parse (topic, partition) pairs from JSON such as {"t": [0, 1]}. Raises Refused for anything else."""
    topics = _json("assign", text, dict)
    if not all(isinstance(ids, list) and all(type(n) is int for n in ids) for ids in topics.values()):
        raise Refused(OptionCause.NO_PARTITIONS(text=text))
    return [(topic, partition) for topic, ids in topics.items() for partition in ids]


def _offsets_of_json(name: str, text: str, least: int = EARLIEST) -> tuple[tuple[tuple[str, int], int], ...]:
    wrong = OptionCause.NO_OFFSETS(name=name, text=text)
    each = {}
    for topic, offsets in _json(name, text, dict).items():
        if not isinstance(offsets, dict):
            raise Refused(wrong)
        for partition, offset in offsets.items():
            if not re.fullmatch(r"\d{1,10}", partition) or type(offset) is not int or offset < least:
                raise Refused(wrong)
            each[topic, int(partition)] = offset
    return tuple(each.items())


def _number(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise Refused(OptionCause.NO_NUMBER(name=name, text=text)) from error
    if number < 0:
        raise Refused(OptionCause.BELOW_ZERO(name=name, text=text))
    return number


def _positive(options: Mapping[str, str], name: str) -> int:
    """Return the number; 0 if it is not given."""
    if name not in options:
        return 0
    number = _number(name, options[name])
    if number == 0:
        raise Refused(OptionCause.ZERO(name=name))
    return number


def _bytes(options: Mapping[str, str], name: str) -> int:
    """Parse a size such as 128m (JavaUtils.byteStringAs); without a unit, in bytes. 0 if it is not given."""
    text = options.get(name, "").strip().lower()
    match = re.fullmatch(r"(\d{1,18})([kmgt]?)b?", text)
    if match is None:
        if text:
            raise Refused(OptionCause.NO_SIZE(name=name, text=text))
        return 0
    return _positive({name: str(int(match[1]) << UNIT_BITS[match[2]])}, name)


def _flag(options: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    return _one_of({name: options.get(name, str(default)).lower()}, name, ("false", "true")) == "true"


def _one_of(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    """Return the given value, or the first of `values` as the default."""
    value = options.get(name, values[0])
    if value not in values:
        raise Refused(OptionCause.ONE_OF(name=name, values=values, value=value))
    return value


def places_of(paths: list[str], options: str) -> Iterator[Place]:
    """Yield the places that a query names. Raises Refused for none, Unreadable if one does not exist."""
    if not paths:
        raise Refused(OptionCause.NO_PATH(), cure=SparkCure.AS_VIEW())
    for path in paths:
        check_path(path)
        yield from expand(Place(path, options))
