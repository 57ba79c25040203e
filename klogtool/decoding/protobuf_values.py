"""Values of Protobuf, by the descriptor sets of a folder. The only module that imports google.protobuf.

A descriptor set is what `protoc --include_imports --descriptor_set_out=17.desc` writes. Its last file is the schema.
"""

from __future__ import annotations

import importlib
from typing import Any

from klogtool.decoding.bounds import MOST_OWN_ITEMS, Budget, check_depth, to_json
from klogtool.decoding.decoded import Reading, bytes_form
from klogtool.decoding.framing import find_framing, find_schema
from klogtool.decoding.schemas import PROTOBUF, Schemas, first_line
from klogtool.errors import Corrupt, Unsupported

MOST_PROTOBUF_BYTES = 4 << 20  # a message of two bytes becomes an object of hundreds
WELL_KNOWN = (
    "any",
    "api",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)
ANY = "google.protobuf.Any"
MOST_INDEXES, LONGEST_VARINT = 100, 5


class ProtobufDecoder:
    """Decodes values by the schemas of a folder. Each schema is loaded when a value needs it."""

    def __init__(self, schemas: Schemas, *, is_key: bool) -> None:
        _require_protobuf()
        self._schemas, self._is_key = schemas.of(PROTOBUF), is_key
        self._loaded: dict[str, _LoadedSchema | Corrupt] = {}

    def __call__(self, data: bytes, topic: str | None) -> Reading:
        """Decode a value. Raises Corrupt."""
        if len(data) > MOST_PROTOBUF_BYTES:
            raise Corrupt(f"more than {MOST_PROTOBUF_BYTES >> 20} MiB of Protobuf")
        file, payload = find_schema(self._schemas, data, topic, is_key=self._is_key)
        framing = find_framing(data) if payload is not data else None
        indexes: tuple[int, ...] = (0,)
        if framing is not None and framing.maker != "AWS Glue":
            indexes, payload = parse_indexes(payload)
        if file not in self._loaded:
            try:
                self._loaded[file] = _LoadedSchema(file, self._schemas.files[file])
            except Corrupt as error:
                self._loaded[file] = error
        loaded = self._loaded[file]
        if isinstance(loaded, Corrupt):
            raise Corrupt(loaded.reason)
        return loaded.read(indexes, payload, file)


def parse_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return which message of the schema a value is, and the bytes behind that (Confluent's MessageIndexes).

    (1, 0) is the first message inside the second one. Raises Corrupt if it is cut.
    """
    count, at = _zigzag(data, 0)
    if not 0 <= count <= MOST_INDEXES:
        raise Corrupt(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        indexes.append(index)
    return tuple(indexes) or (0,), data[at:]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for n in range(LONGEST_VARINT):
        if at >= len(data):
            raise Corrupt("it ends inside the message indexes")
        byte, at = data[at], at + 1
        number |= (byte & 0x7F) << (7 * n)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise Corrupt("a message index has no end")


def _require_protobuf() -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message, message_factory
    except ImportError as error:
        raise Unsupported("Protobuf needs protobuf: pip install 'klogtool[values]'") from error
    return descriptor_pb2, descriptor_pool, json_format, message, message_factory


class _LoadedSchema:
    """A descriptor set: its messages by index."""

    def __init__(self, file: str, data: bytes) -> None:
        pb2, pools, self._json, message, self._factory = _require_protobuf()
        self._refusals = (message.Error, ValueError, TypeError, KeyError, OverflowError, RecursionError)
        self._pool, every = pools.DescriptorPool(), pb2.FileDescriptorSet()
        try:
            every.ParseFromString(data)
            # Files of Protobuf's own that the set refers to and does not have.
            there = {one.name for one in every.file}
            wanted = {name for one in every.file for name in one.dependency} - there
            for known in WELL_KNOWN:
                if f"google/protobuf/{known}.proto" in wanted:
                    module = importlib.import_module(f"google.protobuf.{known}_pb2")
                    self._pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
            for one in every.file:
                self._pool.AddSerializedFile(one.SerializeToString())
        except self._refusals as error:
            raise Corrupt(f"{file} is no descriptor set of Protobuf: {first_line(error)}") from error
        if not every.file or not every.file[-1].message_type:
            raise Corrupt(f"{file} is a descriptor set without messages")
        self._last, self._classes = every.file[-1], dict[tuple[int, ...], Any]()

    def read(self, indexes: tuple[int, ...], data: bytes, file: str) -> Reading:
        """Return the message in JSON, by Protobuf's own rules. Raises Corrupt."""
        if indexes not in self._classes:
            names, within = [self._last.package] if self._last.package else [], self._last.message_type
            for index in indexes:
                if not 0 <= index < len(within):
                    raise Corrupt(f"{file} has no message {'.'.join(map(str, indexes))}")
                names.append(within[index].name)
                within = within[index].nested_type
            descriptor = self._pool.FindMessageTypeByName(".".join(names))
            self._classes[indexes] = self._factory.GetMessageClass(descriptor)
        message = self._classes[indexes]()
        try:
            message.ParseFromString(data)
            size = message.ByteSize()
            message.DiscardUnknownFields()
            _take_fields(message, 0, Budget(len(data), MOST_OWN_ITEMS))
            value = self._json.MessageToDict(message, preserving_proto_field_name=True)
        except self._refusals as error:
            raise Corrupt(f"not the Protobuf of {file}: {first_line(error)}") from error
        return Reading(
            to_json(value, bytes_form, size=len(data)),
            f"{file}:{message.DESCRIPTOR.full_name}",
            size - message.ByteSize(),
        )


def _take_fields(message: Any, depth: int, budget: Budget) -> None:
    """Count what is in a message, before its form in JSON is made: that takes ten times as long."""
    check_depth(depth)
    budget.take()
    if message.DESCRIPTOR.full_name == ANY:
        # What is inside is parsed and copied once more at each level.
        budget.take(len(message.value))
        budget.take_text(len(message.value))
    for field, value in message.ListFields():
        budget.take_text(len(field.name))
        is_one = hasattr(value, "ListFields") or isinstance(value, str | bytes | int | float)
        items = (value,) if is_one else list(value.values()) if hasattr(value, "values") else value
        budget.take(len(items))
        if items and hasattr(items[0], "ListFields"):
            for item in items:
                _take_fields(item, depth + 1, budget)
