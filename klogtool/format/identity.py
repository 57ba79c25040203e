"""Who a log dir and a partition belong to: meta.properties, partition.metadata, .kafka_cleanshutdown, quorum-state.

Small text files, each with rules of its own. `layouts` declares their values. Where Kafka throws an IOException,
kafka_class is the exception that a broker turns it into.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from klogtool.errors import Corrupt
from klogtool.format.buffers import Buffer
from klogtool.format.java_numbers import INT_BITS, LONG_BITS, MAX_INT, parse_java_int, parse_java_long, wrap_int
from klogtool.format.java_text import JAVA_BLANKS, build_properties, cited, parse_properties, walk_lines
from klogtool.format.layouts import (
    META_PROPERTIES_V0,
    META_PROPERTIES_V1,
    PARTITION_METADATA,
    QUORUM_STATE_V0,
    QUORUM_STATE_V1,
)
from klogtool.format.text_values import Member, members_of
from klogtool.format.uuids import ZERO_UUID

# meta.properties

_META_PROPERTIES = {0: members_of(META_PROPERTIES_V0), 1: members_of(META_PROPERTIES_V1)}
_VERSION_KEY = "version"
_NOT_FOUND = {"cluster.id": "cluster.id was not found."}  # else: Failed to find ...
_UNCHECKED_IO = "UncheckedIOException"
_runtime = partial(Corrupt, kafka_class="RuntimeException")
_storage = partial(Corrupt, kafka_class="KafkaStorageException")
_unchecked_io = partial(Corrupt, kafka_class=_UNCHECKED_IO)


class MetaProperties(Struct, frozen=True):
    """The identity of a log dir. version 0: from the time of ZooKeeper, all fields are optional; 1: with node id and
    cluster id."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None


def parse_meta_properties(data: Buffer) -> MetaProperties:
    """Parse the file (MetaProperties.Builder). Unknown keys are ignored; a missing version is 0.

    Reserved directory ids are accepted here. Kafka refuses them later, when it compares all its log dirs
    (MetaPropertiesEnsemble).
    Raises Corrupt: RuntimeException, or IllegalArgumentException for a broken escape.
    """
    properties = parse_properties(data)
    version = _meta_properties_version(properties.get(_VERSION_KEY, "0"))
    others = [member for member in _META_PROPERTIES[version] if member.name != _VERSION_KEY]
    node_id, directory_id, cluster_id = (_read_property(properties, member) for member in others)
    return MetaProperties(version, cluster_id, node_id, directory_id)


def build_meta_properties(identity: MetaProperties, *, date: str | None = None) -> bytes:
    """The file as PropertiesUtils.writePropertiesFile writes it, keys in the order in which Java's map gives them.

    date: the second comment line, where a broker writes the time in Java's format; None: no such line. Non-ASCII text
    is escaped, so that it is read back unchanged. Kafka writes it as UTF-8, and reads that as ISO-8859-1.
    """
    values = (identity.node_id, identity.directory_id, identity.version, identity.cluster_id)
    members = zip(_META_PROPERTIES[identity.version], values, strict=True)
    present = {member.name: member.write(value) for member, value in members if value is not None}
    return build_properties(present, ("",) if date is None else ("", date))


def _meta_properties_version(text: str) -> int:
    try:
        version = parse_java_int(_trim(text))
    except Corrupt:
        raise _runtime(f"Invalid meta.properties version string '{text}'") from None
    if version not in _META_PROPERTIES:
        raise _runtime(f"Unknown meta.properties version number {version}")
    return version


def _read_property(properties: dict[str, str], member: Member) -> Any:
    """Return the value of a property by its declaration; None for an optional one that is missing."""
    name = member.name
    if name not in properties:
        if member.is_optional:
            return member.default
        raise _runtime(_NOT_FOUND.get(name, f"Failed to find {name}"))
    try:
        return member.read(properties[name])
    except Corrupt as error:
        is_number = error.kafka_class == "NumberFormatException"
        what = "base-10 number." if is_number else f"Uuid: {error.reason}"
        raise _runtime(f"Unable to read {name} as a {what}") from None


# partition.metadata

CURRENT_PARTITION_METADATA_VERSION = 0
_PARTITION_METADATA = members_of(PARTITION_METADATA)


class PartitionMetadata(Struct, frozen=True):
    """The id of the topic that a partition dir belongs to; later versions are read in the same way."""

    version: int
    topic_id: bytes


def parse_partition_metadata(data: Buffer) -> PartitionMetadata:
    """Parse two lines of `name: value` (PartitionMetadataReadBuffer.read). The names and all further lines are
    ignored.

    Raises Corrupt: KafkaStorageException (the log dir goes offline), NullPointerException for a missing line and
    IllegalArgumentException for a malformed id (both of which end a broker).
    """
    version_member, topic_id_member = _PARTITION_METADATA
    lines = walk_lines(data, kafka_class="KafkaStorageException")
    version_line = next(lines, None)
    version_text = _value_of(version_line)
    try:
        version = version_member.read(version_text)
    except Corrupt:
        raise _malformed_partition_metadata(str(version_line)) from None
    if version < CURRENT_PARTITION_METADATA_VERSION:
        raise _storage(f"Unrecognized version of partition metadata file: {version}")
    topic_id = topic_id_member.read(_value_of(next(lines, None)))
    if topic_id == ZERO_UUID:
        raise _storage("Invalid topic ID in partition metadata file")
    return PartitionMetadata(version, topic_id)


def build_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """PartitionMetadata.encode: two lines, the second without a line end."""
    members = zip(_PARTITION_METADATA, (metadata.version, metadata.topic_id), strict=True)
    return "\n".join(f"{member.name}: {member.write(value)}" for member, value in members).encode()


def _value_of(line: str | None) -> str:
    if line is None:
        raise Corrupt("partition metadata file lacks a line", kafka_class="NullPointerException")
    fields = _split_at_colons(line)
    if len(fields) != 2:
        raise _malformed_partition_metadata(line)
    return fields[1]


def _split_at_colons(line: str) -> list[str]:
    r"""Split as line.split(":\\s+") in Java: at colons followed by blanks, without empty fields at the end."""
    first, *others = line.split(":")
    fields = [first]
    for part in others:
        value = part.lstrip(JAVA_BLANKS)
        if value != part:
            fields.append(value)
        else:
            fields[-1] += ":" + part
    while fields and not fields[-1]:
        fields.pop()
    return fields


def _malformed_partition_metadata(line: str) -> Corrupt:
    # Kafka has the path before the line, and 3.9 calls it a checkpoint file.
    return _storage(f"Malformed line in partition metadata file: {cited(line)}", kafka_message="Malformed line in")


# .kafka_cleanshutdown


class CleanShutdown(Struct, frozen=True):
    """The content of a clean shutdown file. Both are None in an empty one (before 3.7), which is as clean."""

    version: int | None
    broker_epoch: int | None


def parse_clean_shutdown(data: Buffer) -> CleanShutdown:
    """Parse the file (CleanShutdownFileHandler.read). Never raises: only its existence makes a shutdown clean."""
    try:
        content = _parse_json(bytes(data).decode("utf-8", "replace"))
        if not isinstance(content, dict):
            return CleanShutdown(None, None)
        version = _coerce_to_integer(content.get("version"), INT_BITS)
        broker_epoch = _coerce_to_integer(content.get("brokerEpoch"), LONG_BITS)
    except Corrupt:
        return CleanShutdown(None, None)
    return CleanShutdown(None, None) if broker_epoch is None else CleanShutdown(version or 0, broker_epoch)


def build_clean_shutdown(shutdown: CleanShutdown) -> bytes:
    """Return the line of JSON that 3.7 and later write, without a line end; no bytes if both values are None."""
    if shutdown.broker_epoch is None:
        return b""
    return _build_json({"version": shutdown.version or 0, "brokerEpoch": shutdown.broker_epoch})


def _coerce_to_integer(value: Any, bits: int) -> int | None:
    """Return the integer that Jackson's databind reads: fractions are cut, text is trimmed and read, blank is null."""
    if value is None:
        return None
    if isinstance(value, str):
        text = _trim(value)
        if text in ("", "null"):
            return None
        return parse_java_int(text) if bits == INT_BITS else parse_java_long(text)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Corrupt("not an integer")
    highest = (1 << (bits - 1)) - 1
    if not -highest - 1 <= value <= (float(highest) if isinstance(value, float) else highest):
        raise Corrupt("number out of range")
    return min(int(value), highest)  # as a double, the highest long is one more than that


# quorum-state

_QUORUM_STATE = {0: members_of(QUORUM_STATE_V0), 1: members_of(QUORUM_STATE_V1)}


class QuorumState(Struct, frozen=True):
    """What a KRaft node remembers of elections. An id of -1 is none.

    cluster_id, applied_offset and current_voters belong to data_version 0, voted_directory_id to 1. In the other
    version they have their default.
    """

    data_version: int
    leader_id: int = -1
    leader_epoch: int = -1
    voted_id: int = -1
    voted_directory_id: bytes = ZERO_UUID
    cluster_id: str = ""
    applied_offset: int = 0
    current_voters: tuple[int, ...] = ()


def parse_quorum_state(data: Buffer) -> QuorumState:
    """Parse the JSON in the first line (FileQuorumStateStore.readElectionState). Text after the object is ignored.

    Raises Corrupt: UncheckedIOException (not UTF-8, no JSON, no object, no data_version), IllegalStateException
    (an unknown data_version), RuntimeException (a missing field), NumberFormatException, IllegalArgumentException,
    NullPointerException or UnsupportedVersionException.
    """
    line = next(walk_lines(data, kafka_class=_UNCHECKED_IO), None)
    if line is None:
        raise _unchecked_io("File ended prematurely.")
    node = _parse_json(line)
    if not isinstance(node, dict):
        raise _unchecked_io("quorum state is not a JSON object")
    if "data_version" not in node:
        raise _unchecked_io("quorum state does not have data_version field")
    data_version = _short_value(node["data_version"])
    if data_version not in _QUORUM_STATE:
        low, high = _QUORUM_STATE
        raise Corrupt(
            f"data_version ({data_version}) is not within the min ({low}) and max ({high}) supported version",
            kafka_class="IllegalStateException",
        )
    # Read the fields in the order of QuorumStateDataJsonConverter.read: the first wrong one decides the error.
    members = _QUORUM_STATE[data_version]
    values: dict[str, Any] = {}
    for member in members:
        if member.name not in node and not member.is_optional:
            raise _runtime(f"QuorumStateData: unable to locate field '{member.name}', which is mandatory")
        values[_attribute(member)] = member.read(node[member.name]) if member.name in node else member.default
    return QuorumState(data_version, **values)


def build_quorum_state(state: QuorumState) -> bytes:
    """The line of JSON that FileQuorumStateStore writes, without a line end."""
    written = (member for member in _QUORUM_STATE[state.data_version] if not member.is_optional)
    fields = {member.name: member.write(getattr(state, _attribute(member))) for member in written}
    return _build_json(fields | {"data_version": state.data_version})


def _attribute(member: Member) -> str:
    """Return its name in QuorumState: leader_id for leaderId."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in member.name)


def _short_value(value: Any) -> int:
    """Return Jackson's JsonNode.shortValue: the lowest 16 bits of a number, 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    if isinstance(value, float):
        # Java turns a fraction into an int first, which stops at the ends of its range.
        value = int(max(-MAX_INT - 1, min(MAX_INT, value)))
    return (wrap_int(value) + 0x8000) % 0x10000 - 0x8000


# JSON as Jackson takes it.


def _parse_json(text: str) -> Any:
    """The first JSON value of a text (Jackson's ObjectMapper does not look at what follows)."""
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    try:
        return decoder.raw_decode(text.lstrip(" \t\n\r"))[0]
    except (ValueError, RecursionError) as error:
        raise _unchecked_io(f"not JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def _build_json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _trim(text: str) -> str:
    """java.lang.String.trim: removes the blank and all characters below it, at both ends."""
    return text.strip("".join(map(chr, range(ord(" ") + 1))))
