"""Who a log dir and a partition belong to: meta.properties, partition.metadata, .kafka_cleanshutdown, quorum-state.

Small text files, each read by rules of its own. An id (Kafka's Uuid) is its 16 bytes here, base64 in the files.
What Kafka throws as IOException is named by what a broker makes of it.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable

from klogtool.errors import Corrupt
from klogtool.format.java_numbers import (
    INT_BITS,
    LONG_BITS,
    MAX_INT,
    MAX_LONG,
    parse_java_int,
    parse_java_long,
    wrap_int,
)
from klogtool.format.java_text import JAVA_BLANKS, build_properties, parse_properties, walk_lines
from klogtool.lazy_dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from klogtool.format.buffers import Buffer

# Ids.

UUID_SIZE = 16
ZERO_UUID = bytes(UUID_SIZE)
METADATA_TOPIC_ID = bytes(UUID_SIZE - 1) + b"\x01"
_UUID_DIGITS, _LONGEST_UUID_TEXT = 22, 24
_BASE64_DIGITS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_RESERVED_DIRECTORY_IDS = 100


def parse_uuid(text: str) -> bytes:
    """Uuid.fromString: URL-safe base64 of 16 bytes, with its padding or without; left-over bits may be anything.

    Raises Corrupt (IllegalArgumentException) for any other text.
    """
    if len(text) > _LONGEST_UUID_TEXT:
        raise _illegal_argument(
            f"Input string with prefix `{text[:_LONGEST_UUID_TEXT]}` is too long to be decoded as a base64 UUID"
        )
    digits, padding = text[:_UUID_DIGITS], text[_UUID_DIGITS:]
    if len(digits) < _UUID_DIGITS or not _BASE64_DIGITS.issuperset(digits) or padding not in ("", "=="):
        raise _illegal_argument(f"Input string `{text}` is not a base64-encoded UUID of {UUID_SIZE} bytes")
    return a2b_base64(digits.replace("-", "+").replace("_", "/") + "==")


def build_uuid(uuid: bytes) -> str:
    """Uuid.toString: 22 characters of URL-safe base64, no padding."""
    return b2a_base64(uuid, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def is_reserved_directory_id(uuid: bytes) -> bool:
    """DirectoryId.reserved: ids that no log dir may have; the lower half counts as a signed number."""
    high, low = uuid[:8], uuid[8:]
    return high == bytes(8) and int.from_bytes(low, "big", signed=True) < _RESERVED_DIRECTORY_IDS


# meta.properties

_VERSION_KEY = "version"
_CLUSTER_ID_KEY = "cluster.id"
_DIRECTORY_ID_KEY = "directory.id"
_NODE_ID_KEYS = {0: "broker.id", 1: "node.id"}


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The identity of a log dir. version 0: ZooKeeper era, every field optional; 1: node and cluster id are there."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None


def parse_meta_properties(data: Buffer) -> MetaProperties:
    """MetaProperties.Builder(properties).build(): unknown keys are ignored, a missing version is 0.

    Reserved directory ids pass here: Kafka refuses them when it compares all its log dirs (MetaPropertiesEnsemble).
    Raises Corrupt: RuntimeException, or IllegalArgumentException for a broken escape.
    """
    properties = parse_properties(data)
    version = _meta_properties_version(properties.get(_VERSION_KEY, "0"))
    node_id_key = _NODE_ID_KEYS[version]
    node_id = _required_int(properties, node_id_key) if version > 0 or node_id_key in properties else None
    directory_id = properties.get(_DIRECTORY_ID_KEY)
    try:
        directory_uuid = None if directory_id is None else parse_uuid(directory_id)
    except Corrupt as error:
        raise _runtime(f"Unable to read {_DIRECTORY_ID_KEY} as a Uuid: {error.reason}") from None
    cluster_id = properties.get(_CLUSTER_ID_KEY)
    if version > 0 and cluster_id is None:
        raise _runtime("cluster.id was not found.")
    return MetaProperties(version, cluster_id, node_id, directory_uuid)


def build_meta_properties(identity: MetaProperties, *, date: str | None = None) -> bytes:
    """The file as PropertiesUtils.writePropertiesFile writes it, keys in the order in which Java's map gives them.

    date: the second comment line, which a broker fills with the time in Java's format; left out if None.
    Non-ASCII text is escaped, so that it can be read back; Kafka writes it as UTF-8 and reads that as ISO-8859-1.
    """
    node_id = None if identity.node_id is None else str(identity.node_id)
    fields = {
        _NODE_ID_KEYS[identity.version]: node_id,
        _DIRECTORY_ID_KEY: None if identity.directory_id is None else build_uuid(identity.directory_id),
        _VERSION_KEY: str(identity.version),
        _CLUSTER_ID_KEY: identity.cluster_id,
    }
    present = {key: value for key, value in fields.items() if value is not None}
    return build_properties(present, ("",) if date is None else ("", date))


def _meta_properties_version(text: str) -> int:
    try:
        version = parse_java_int(_trim(text))
    except Corrupt:
        raise _runtime(f"Invalid meta.properties version string '{text}'") from None
    if version not in _NODE_ID_KEYS:
        raise _runtime(f"Unknown meta.properties version number {version}")
    return version


def _required_int(properties: dict[str, str], key: str) -> int:
    if key not in properties:
        raise _runtime(f"Failed to find {key}")
    try:
        return parse_java_int(properties[key])
    except Corrupt:
        raise _runtime(f"Unable to read {key} as a base-10 number.") from None


# partition.metadata

CURRENT_PARTITION_METADATA_VERSION = 0


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The id of the topic that a partition dir belongs to; versions above the current are read the same way."""

    version: int
    topic_id: bytes


def parse_partition_metadata(data: Buffer) -> PartitionMetadata:
    """PartitionMetadataReadBuffer.read: two lines of `name: value`, the names and all further lines not looked at.

    Raises Corrupt: KafkaStorageException (the log dir goes offline), NullPointerException for a missing line and
    IllegalArgumentException for a malformed id (both of which end a broker).
    """
    lines = walk_lines(data, kafka_class="KafkaStorageException")
    version_line = next(lines, None)
    version_text = _value_of(version_line)
    try:
        version = parse_java_int(version_text)
    except Corrupt:
        raise _malformed_partition_metadata(str(version_line)) from None
    if version < CURRENT_PARTITION_METADATA_VERSION:
        raise _storage(f"Unrecognized version of partition metadata file: {version}")
    topic_id = parse_uuid(_value_of(next(lines, None)))
    if topic_id == ZERO_UUID:
        raise _storage("Invalid topic ID in partition metadata file")
    return PartitionMetadata(version, topic_id)


def build_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """PartitionMetadata.encode: two lines, the second without a line end."""
    return f"version: {metadata.version}\ntopic_id: {build_uuid(metadata.topic_id)}".encode()


def _value_of(line: str | None) -> str:
    if line is None:
        raise Corrupt("partition metadata file lacks a line", kafka_class="NullPointerException")
    fields = _split_at_colons(line)
    if len(fields) != 2:
        raise _malformed_partition_metadata(line)
    return fields[1]


def _split_at_colons(line: str) -> list[str]:
    r"""line.split(":\\s+") in Java: what stands between colons that blanks follow; empty fields at the end go."""
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
    return _storage(f"Malformed line in partition metadata file: {line}")


# .kafka_cleanshutdown


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """What a clean shutdown file says; both None if it says nothing (before 3.7 it was empty), which is as clean."""

    version: int | None
    broker_epoch: int | None


def parse_clean_shutdown(data: Buffer) -> CleanShutdown:
    """CleanShutdownFileHandler.read. Never raises: the file's existence is what counts, whatever is in it."""
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
    """The one line of JSON that 3.7 and later write, without a line end; nothing if there is nothing to say."""
    if shutdown.broker_epoch is None:
        return b""
    return _build_json({"version": shutdown.version or 0, "brokerEpoch": shutdown.broker_epoch})


def _coerce_to_integer(value: Any, bits: int) -> int | None:
    """What Jackson's databind takes for an integer: fractions are cut, text is trimmed and read, blank is null."""
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

_QUORUM_STATE_VERSIONS = (0, 1)
_UNCHECKED_IO = "UncheckedIOException"


@dataclass(frozen=True, slots=True)
class QuorumState:
    """What a KRaft node remembers of elections; ids are -1 for none.

    cluster_id, applied_offset and current_voters belong to data_version 0, voted_directory_id to 1; where a version
    does not have them they hold the default.
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
    """FileQuorumStateStore.readElectionState: JSON in the first line, whatever follows the object is not looked at.

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
    if data_version not in _QUORUM_STATE_VERSIONS:
        low, high = _QUORUM_STATE_VERSIONS
        raise Corrupt(
            f"data_version ({data_version}) is not within the min ({low}) and max ({high}) supported version",
            kafka_class="IllegalStateException",
        )
    return _read_quorum_fields(node, data_version)


def build_quorum_state(state: QuorumState) -> bytes:
    """The line of JSON that FileQuorumStateStore writes, without a line end."""
    fields: dict[str, Any] = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
    }
    if state.data_version == 0:
        voters = [{"voterId": voter} for voter in state.current_voters]
        fields = {"clusterId": state.cluster_id, **fields}
        fields |= {"appliedOffset": state.applied_offset, "currentVoters": voters}
    else:
        fields["votedDirectoryId"] = build_uuid(state.voted_directory_id)
    return _build_json(fields | {"data_version": state.data_version})


def _read_quorum_fields(node: dict[str, Any], data_version: int) -> QuorumState:
    """QuorumStateDataJsonConverter.read, fields in its order: which one is missed first decides the error."""
    cluster_id = _field(node, "clusterId", _json_text, default=None if data_version == 0 else "")
    leader_id = _field(node, "leaderId", _json_int)
    leader_epoch = _field(node, "leaderEpoch", _json_int)
    voted_id = _field(node, "votedId", _json_int)
    voted_directory_id = _field(node, "votedDirectoryId", _json_uuid, default=ZERO_UUID if data_version == 0 else None)
    applied_offset = _field(node, "appliedOffset", _json_long, default=None if data_version == 0 else 0)

    def voters_of(value: Any) -> tuple[int, ...]:
        return _json_voters(value, data_version)

    current_voters = _field(node, "currentVoters", voters_of, default=None if data_version == 0 else ())
    return QuorumState(
        data_version=data_version,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        voted_id=voted_id,
        voted_directory_id=voted_directory_id,
        cluster_id=cluster_id,
        applied_offset=applied_offset,
        current_voters=current_voters,
    )


def _field(node: dict[str, Any], name: str, convert: Callable[[Any], Any], *, default: Any = None) -> Any:
    if name in node:
        return convert(node[name])
    if default is None:
        raise _runtime(f"QuorumStateData: unable to locate field '{name}', which is mandatory")
    return default


def _json_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _runtime("QuorumStateData expected a string type")
    return value


def _json_uuid(value: Any) -> bytes:
    return parse_uuid(_json_text(value))


def _json_int(value: Any) -> int:
    return _json_integer(value, MAX_INT)


def _json_long(value: Any) -> int:
    return _json_integer(value, MAX_LONG)


def _json_integer(value: Any, highest: int) -> int:
    """MessageUtil.jsonNodeToInt and jsonNodeToLong: integers only, text and fractions are refused."""
    if isinstance(value, bool) or not isinstance(value, int) or not -highest - 1 <= value <= highest:
        raise Corrupt("QuorumStateData: failed to parse number", kafka_class="NumberFormatException")
    return value


def _json_voters(value: Any, data_version: int) -> tuple[int, ...]:
    if value is None:
        # The converter takes null, ElectionState.fromQuorumStateData then trips over it.
        raise Corrupt("QuorumStateData: currentVoters is null", kafka_class="NullPointerException")
    if not isinstance(value, list):
        raise _runtime("QuorumStateData expected a JSON array")
    if value and data_version > 0:
        raise Corrupt(f"Can't read version {data_version} of Voter", kafka_class="UnsupportedVersionException")
    voters = []
    for voter in value:
        if not isinstance(voter, dict) or "voterId" not in voter:
            raise _runtime("Voter: unable to locate field 'voterId', which is mandatory")
        voters.append(_json_int(voter["voterId"]))
    return tuple(voters)


def _short_value(value: Any) -> int:
    """Jackson's JsonNode.shortValue: numbers lose what does not fit, everything else is 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    if isinstance(value, float):
        # Java turns a fraction into an int first, which stops at the ends of its range.
        value = int(max(-MAX_INT - 1, min(MAX_INT, value)))
    return (wrap_int(value) + 0x8000) % 0x10000 - 0x8000


# JSON as Jackson takes it.


def _parse_json(text: str) -> Any:
    """The first JSON value of a text (Jackson's ObjectMapper does not look at what follows)."""
    import json  # few files are of this kind

    decoder = json.JSONDecoder(parse_constant=_no_constant)
    try:
        return decoder.raw_decode(text.lstrip(" \t\n\r"))[0]
    except (ValueError, RecursionError) as error:
        raise _unchecked_io(f"not JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def _build_json(fields: dict[str, Any]) -> bytes:
    import json

    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _trim(text: str) -> str:
    """java.lang.String.trim: everything up to the blank goes."""
    return text.strip("".join(map(chr, range(ord(" ") + 1))))


def _illegal_argument(reason: str) -> Corrupt:
    return Corrupt(reason, kafka_class="IllegalArgumentException")


def _runtime(reason: str) -> Corrupt:
    return Corrupt(reason, kafka_class="RuntimeException")


def _storage(reason: str) -> Corrupt:
    return Corrupt(reason, kafka_class="KafkaStorageException")


def _unchecked_io(reason: str) -> Corrupt:
    return Corrupt(reason, kafka_class=_UNCHECKED_IO)
