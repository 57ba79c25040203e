"""Messages of internal topics and control records: bytes to values and back, for every version Kafka has written.

A schema and a version make one construct declaration. Values are dicts with the names of Kafka's JSON (`topicId`),
uuids are its 22 characters of base64url. Framing (record type, version) is not here but in `decoders` and `control`.
"""

from __future__ import annotations

import functools
from typing import Any

from construct import Adapter, Construct, ConstructError, Int16sb, Int32sb, StreamError
from construct import Struct as ConstructStruct

from klogtool.errors import Unsupported
from klogtool.format.fields import underflow
from klogtool.format.internal.primitives import (
    COMPACT_LENGTH,
    FIXED_TYPES,
    ByteArray,
    Collection,
    NotAbove,
    Nullable,
    String,
    TaggedFields,
    ValueStream,
)
from klogtool.format.internal.schema import HIGHEST_VERSION, UNKNOWN_TAGS, Field, StructSchema, Values, schema_of

TAGS = "_tags"  # what the declaration calls the tagged section; no field can be called so


def parse_message(name: str, version: int, data: bytes, *, of_4_4: bool = False) -> Values:
    """Return the fields of a message, in the order of its schema; tagged ones that are absent have their default.

    As in Kafka's reader, bytes after the message are ignored, and a version out of range is read as the nearest one; a
    caller that wants an error checks the version first. Raises Corrupt with Kafka's message; Unsupported for a struct
    that the version does not have; KeyError for an unknown name. of_4_4: by the schema of 4.4.0.
    """
    values, _ = parse_front(name, version, data, of_4_4=of_4_4)
    return values


def parse_front(name: str, version: int, data: bytes, *, of_4_4: bool = False) -> tuple[Values, int]:
    """Return the message at the front of the bytes, and the number of bytes after the message."""
    stream = ValueStream(data)
    nearest = schema_of(name, of_4_4=of_4_4).versions.nearest(version)
    try:
        values = declaration(name, nearest, of_4_4=of_4_4).parse_stream(stream, version=version)
    except StreamError:
        raise underflow() from None
    return values, stream.remaining()


def build_message(name: str, version: int, values: Values, *, of_4_4: bool = False) -> bytes:
    """Return the bytes of a message; fields that are not given have their default. of_4_4: by the schemas of 4.4.0.

    Raises Unsupported for a version that Kafka does not write, or that has no field for one of the values; ValueError
    for a value that does not fit its field.
    """
    if version not in schema_of(name, of_4_4=of_4_4).versions:
        raise Unsupported(f"{name} has no version {version}", kafka_class="UnsupportedVersionException")
    try:
        built: bytes = declaration(name, version, of_4_4=of_4_4).build(values, version=version)
    except ConstructError as error:
        raise ValueError(f"{name} cannot hold these values: {error}") from error
    return built


@functools.cache
def declaration(name: str, version: int, *, of_4_4: bool = False) -> Construct:
    """The construct declaration of a message in one of its versions."""
    schema = schema_of(name, of_4_4=of_4_4)
    return _declare_struct(schema.struct, version, flexible=version in schema.flexible)


def check_absent(struct: StructSchema, version: int, values: Values) -> None:
    """Check that the version can hold all values.

    Raises Unsupported for a field that it does not have, unless the field is ignorable or has its default.
    """
    for field in struct.fields:
        absent = version not in field.versions and field.name in values
        if absent and not field.ignorable and not field.is_default(values[field.name], version):
            reason = f"Attempted to write a non-default {field.name} at version {version}"
            raise Unsupported(reason, kafka_class="UnsupportedVersionException")


class _Fields(Adapter):  # type: ignore[misc]
    """A struct's fields as one flat dict, with tagged ones at their place in the schema."""

    def __init__(self, subcon: Construct, struct: StructSchema, version: int) -> None:
        super().__init__(subcon)
        self.struct, self.version = struct, version
        self.plain = [f for f in struct.fields if version in f.versions and version not in f.tagged]
        self.tagged = [f for f in struct.fields if version in f.tagged]
        self.fields = [(f, version in f.tagged) for f in struct.fields if version in f.versions]
        self.names = {f.name for f in struct.fields} | {UNKNOWN_TAGS}

    def _decode(self, obj: Any, context: Any, path: str) -> Values:
        values = {f.name: f.default(self.version) if tagged else obj[f.name] for f, tagged in self.fields}
        values.update(obj.get(TAGS, ()))
        return values

    def _encode(self, obj: Values, context: Any, path: str) -> Values:
        strangers = obj.keys() - self.names
        if strangers:
            raise ValueError(f"{self.struct.name} has no field {', '.join(sorted(strangers))}")
        check_absent(self.struct, self.version, obj)
        values = {f.name: obj[f.name] if f.name in obj else f.default(self.version) for f in self.plain}
        present = ((f, obj[f.name]) for f in self.tagged if f.name in obj)
        values[TAGS] = {f.name: value for f, value in present if not f.is_default(value, self.version)}
        values[TAGS][UNKNOWN_TAGS] = obj.get(UNKNOWN_TAGS, ())
        return values


def _declare_struct(struct: StructSchema, version: int, *, flexible: bool) -> Construct:
    plain = [f for f in struct.fields if version in f.versions and version not in f.tagged]
    members = [f.name / _declare_field(f, version, flexible=flexible) for f in plain]
    if flexible:
        fields = [f for f in struct.fields if f.tag >= 0]
        known = {f.tag: (f.name, _declare_field(f, version, flexible=True)) for f in fields if version in f.tagged}
        members.append(TAGS / TaggedFields(known, frozenset(f.tag for f in fields) - known.keys()))
    declared = _Fields(ConstructStruct(*members), struct, version)
    return declared if struct.highest == HIGHEST_VERSION else NotAbove(declared, struct.name, struct.highest)


def _declare_field(field: Field, version: int, *, flexible: bool) -> Construct:
    nullable = version in field.nullable
    if not field.is_array:
        return _declare_value(field, field.name, version, flexible=flexible, nullable=nullable)
    element = _declare_value(field, f"{field.name} element", version, flexible=flexible, nullable=False)
    return Collection(field.name, COMPACT_LENGTH if flexible else Int32sb, element, nullable=nullable)


def _declare_value(field: Field, label: str, version: int, *, flexible: bool, nullable: bool) -> Construct:
    if field.type in FIXED_TYPES:
        return FIXED_TYPES[field.type]
    if field.struct is not None:
        struct = _declare_struct(field.struct, version, flexible=flexible)
        return Nullable(struct, tagged=version in field.tagged) if nullable else struct
    if field.type == "string":
        return String(label, COMPACT_LENGTH if flexible else Int16sb, nullable=nullable)
    length = COMPACT_LENGTH if flexible else Int32sb
    return ByteArray(label, length, nullable=nullable, zero_copy=field.zero_copy)
