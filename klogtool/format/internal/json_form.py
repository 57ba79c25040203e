"""Messages as JSON: the fields that Kafka's generated *JsonConverter classes write, and Jackson's text of them."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

from klogtool.format.internal.java_double import java_double
from klogtool.format.internal.message import check_absent
from klogtool.format.internal.schema import UNKNOWN_TAGS, Field, StructSchema, Values, schema_of

Json = Any  # dict, list, str, int, float, bool, None

_ENCODER = json.JSONEncoder(ensure_ascii=False)
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")


def to_json(name: str, version: int, values: Values, *, of_4_4: bool = False, keeps_unknown: bool = False) -> Json:
    """Return what `<name>JsonConverter.write` makes of a message: a dict in the order of the schema.

    Tagged fields that have their default are left out, and so are all unknown ones, unless they are to be kept: then
    they are a list of `{"tag", "data"}`. Bytes are base64; NaN and infinities are text. A version out of range is
    written as the nearest one. of_4_4: by the schema of 4.4.0. Raises Unsupported if the version would
    lose a value.
    """
    schema = schema_of(name, of_4_4=of_4_4)
    return _struct_json(schema.struct, schema.versions.nearest(version), values, keeps_unknown)


def write_json(node: Json) -> str:
    """The node as Jackson prints it: compact, non-ASCII as it is, control characters as \\u00XX in upper case."""
    if isinstance(node, str):
        return _quote(node)
    if isinstance(node, dict):
        return "{" + ",".join(f"{_quote(key)}:{write_json(value)}" for key, value in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(write_json, node)) + "]"
    if node is None:
        return "null"
    if isinstance(node, bool):
        return "true" if node else "false"
    return java_double(node) if isinstance(node, float) else str(node)


def _quote(text: str) -> str:
    quoted = _ENCODER.encode(text)
    return _ESCAPE.sub(_upper_escape, quoted) if "\\u" in quoted else quoted


def _upper_escape(match: re.Match[str]) -> str:
    code = match[1]
    return f"\\u{code[1:].upper()}" if len(code) > 1 else match[0]


def _struct_json(struct: StructSchema, version: int, values: Values, keeps_unknown: bool) -> dict[str, Json]:
    check_absent(struct, version, values)
    node: dict[str, Json] = {}
    for field in struct.fields:
        if version in field.versions:
            value = values[field.name] if field.name in values else field.default(version)
            if version not in field.tagged or not field.is_default(value, version):
                node[field.name] = _value_json(field, version, value, keeps_unknown)
    if keeps_unknown and values.get(UNKNOWN_TAGS):
        unknown = values[UNKNOWN_TAGS]
        node[UNKNOWN_TAGS] = [{"tag": tag, "data": base64.b64encode(bytes(data)).decode()} for tag, data in unknown]
    return node


def _value_json(field: Field, version: int, value: Any, keeps_unknown: bool, *, is_item: bool = False) -> Json:
    if value is None:
        return None
    if field.is_array and not is_item:
        return [_value_json(field, version, item, keeps_unknown, is_item=True) for item in value]
    if field.struct is not None:
        return _struct_json(field.struct, version, value, keeps_unknown)
    if field.type == "bytes":
        return base64.b64encode(value).decode()
    return java_double(value) if field.type == "float64" and not math.isfinite(value) else value
