"""Kafka's field tables of internal topics and control records, as read from its message schemas (schemas.json).

added_in_4_4.json has the messages that 4.4.0 added or changed. They count only for readers that ask for them, because
the text of 4.3.1 does not know them.

A message is a struct of fields; each field exists in a range of versions, and in others (flexible, tagged, nullable)
it is written differently. What is here is what Kafka's MessageDataGenerator knows; `message` makes readers of it.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

HIGHEST_VERSION = 2**15 - 1
ZERO_UUID = "A" * 22

Values: TypeAlias = Mapping[str, Any]  # of fields, by their names in Kafka's JSON; their types are the schema's


class Versions(msgspec.Struct, frozen=True):
    """A range of versions, both ends included; empty if low is above high."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def nearest(self, version: int) -> int:
        """The version in the range by which Kafka's readers read this one."""
        return min(max(version, self.low), self.high)


NO_VERSIONS = Versions(0, -1)


class Field(msgspec.Struct, frozen=True):
    """A field of a struct.

    name: as in Kafka's JSON. type: the name of a primitive, or `struct`; for an array, that of its elements. tag: its
    tag, in the versions where it is tagged.
    """

    name: str
    type: str
    is_array: bool
    struct: StructSchema | None
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    ignorable: bool
    zero_copy: bool
    null_default: bool
    plain_default: Any

    def default(self, version: int) -> Any:
        """The value where none was written (FieldSpec.fieldDefault); lists and structs are new each time."""
        if self.null_default:
            return None
        if self.is_array:
            return []
        return self.struct.default(version) if self.struct else self.plain_default

    def is_default(self, value: Any, version: int) -> bool:
        """Whether Kafka would leave a tagged field with this value out."""
        if value is None or self.null_default or self.is_array or self.struct is None:
            return bool(value == self.default(version))
        return self.struct.is_default(value, version)


class StructSchema(msgspec.Struct, frozen=True):
    """Fields in the order of the schema, and the highest version that Kafka's reader of this struct accepts."""

    name: str
    fields: tuple[Field, ...]
    highest: int

    def default(self, version: int) -> Values:
        """Every field of the version with its default."""
        return {field.name: field.default(version) for field in self.fields if version in field.versions}

    def is_default(self, values: Values, version: int) -> bool:
        """Whether every field, of whatever version, has its default."""
        return not values.get(UNKNOWN_TAGS) and all(
            field.is_default(values[field.name], version) for field in self.fields if field.name in values
        )


class MessageSchema(msgspec.Struct, frozen=True):
    """A message: its struct, its versions, those of them that are flexible (compact lengths, tagged fields)."""

    name: str
    module: str
    kind: str
    api_key: int | None
    versions: Versions
    flexible: Versions
    struct: StructSchema


class _RawStruct(msgspec.Struct, rename="camel"):
    """A struct that several fields share, as the schema has it."""

    name: str
    versions: str
    fields: list[_RawField]


class _RawField(msgspec.Struct, rename="camel"):
    """A field as the schema has it. fields: of a struct of its own."""

    name: str
    type: str
    versions: str | None = None
    tagged_versions: str | None = None
    nullable_versions: str | None = None
    default: str | int | float | bool | None = None
    tag: int = -1
    ignorable: bool = False
    zero_copy: bool = False
    fields: list[_RawField] | None = None


class _RawMessage(msgspec.Struct, rename="camel"):
    """A message as the schema has it."""

    name: str
    module: str
    type: str
    valid_versions: str
    flexible_versions: str
    fields: list[_RawField]
    common_structs: list[_RawStruct] = []
    api_key: int | None = None


class _RawFile(msgspec.Struct):
    messages: list[_RawMessage]


# Made here, by one thread: two that ask msgspec for the fields of a type at the same time crash it.
_RAW_FILES = msgspec.json.Decoder(_RawFile)

# where parsed values keep tagged fields that the schema does not know: (tag, bytes) pairs
UNKNOWN_TAGS = "_unknownTaggedFields"


_Common: TypeAlias = Mapping[str, _RawStruct]


@functools.cache
def schema_of(name: str, *, of_4_4: bool = False) -> MessageSchema:
    """The message of that name, of Kafka 4.3.1 or of 4.4.0. Raises KeyError if that has none."""
    return _parse_message(_raw_schemas(of_4_4=of_4_4)[name])


@functools.cache
def message_names(*, of_4_4: bool = False) -> tuple[str, ...]:
    """Names of all messages, module by module, in order of api key; those that only 4.4.0 has come last."""
    return tuple(_raw_schemas(of_4_4=of_4_4))


@functools.cache
def api_keys(module: str, kind: str, *, of_4_4: bool = False) -> dict[int, str]:
    """Api key -> name of the messages of one kind (`metadata`, `coordinator-key`, `coordinator-value`) of a module."""
    raws = _raw_schemas(of_4_4=of_4_4).values()
    return {
        raw.api_key: raw.name for raw in raws if raw.module == module and raw.type == kind and raw.api_key is not None
    }


@functools.cache
def _raw_schemas(*, of_4_4: bool) -> dict[str, _RawMessage]:
    schemas = _raw_file("schemas.json")
    return schemas | _raw_file("added_in_4_4.json") if of_4_4 else schemas


def _raw_file(name: str) -> dict[str, _RawMessage]:
    text = pkgutil.get_data(__package__, name)
    assert text is not None
    return {raw.name: raw for raw in _RAW_FILES.decode(text).messages}


def _parse_versions(text: str | None) -> Versions:
    if not text or text == "none":
        return NO_VERSIONS
    low, dash, high = text.rstrip("+").partition("-")
    return Versions(int(low), HIGHEST_VERSION if text.endswith("+") else int(high if dash else low))


def _parse_message(raw: _RawMessage) -> MessageSchema:
    versions = _parse_versions(raw.valid_versions)
    common = {struct.name: struct for struct in raw.common_structs}
    return MessageSchema(
        name=raw.name,
        module=raw.module,
        kind=raw.type,
        api_key=raw.api_key,
        versions=versions,
        flexible=_parse_versions(raw.flexible_versions),
        struct=StructSchema(raw.name, _parse_fields(raw.fields, common, versions.high), HIGHEST_VERSION),
    )


def _parse_fields(raws: list[_RawField], common: _Common, highest: int) -> tuple[Field, ...]:
    return tuple(_parse_field(raw, common, highest) for raw in raws)


def _parse_field(raw: _RawField, common: _Common, highest: int) -> Field:
    element = raw.type.removeprefix("[]")
    tagged = _parse_versions(raw.tagged_versions)
    versions = tagged if raw.versions is None else _parse_versions(raw.versions)
    is_struct = element[0].isupper()
    # A JSON null is no default at all; "null" is the default null (FieldSpec's constructor).
    default = "" if raw.default is None else str(raw.default)
    return Field(
        name=raw.name[0].lower() + raw.name[1:],
        type="struct" if is_struct else element,
        is_array=element != raw.type,
        struct=_parse_struct(element, raw, common, versions.high, highest) if is_struct else None,
        versions=versions,
        nullable=_parse_versions(raw.nullable_versions),
        tagged=tagged,
        tag=raw.tag,
        ignorable=raw.ignorable,
        zero_copy=raw.zero_copy,
        null_default=default == "null",
        plain_default=_plain_default(element, default),
    )


def _parse_struct(name: str, raw: _RawField, common: _Common, high: int, outer: int) -> StructSchema:
    """high: highest version of the field that the struct belongs to; outer: of the struct around it.

    In the code that Kafka generates, a struct checks the version only if its field could have higher versions than the
    struct around it. A struct that several fields share never checks it.
    """
    if raw.fields is not None:
        fields = _parse_fields(raw.fields, common, min(high, outer))
        return StructSchema(name, fields, outer if high > outer else HIGHEST_VERSION)
    fields = _parse_fields(common[name].fields, common, _parse_versions(common[name].versions).high)
    return StructSchema(name, fields, HIGHEST_VERSION)


def _plain_default(type_name: str, text: str) -> Any:
    if type_name == "bool":
        return text == "true"
    if type_name == "float64":
        return float(text or 0)
    if type_name == "string":
        return text
    if type_name == "bytes":
        return b""
    if type_name == "uuid":
        return text or ZERO_UUID
    return int(text or "0", 0) if "int" in type_name and text != "null" else None
