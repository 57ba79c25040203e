"""Schemas of Avro, and the named types that they refer to. The only module that imports fastavro.

fastavro parses schemas. Values are read by `avro_values`: fastavro believes the counts in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from klogtool.decoding.bounds import MOST_DEPTH
from klogtool.decoding.schemas import Schemas, first_line
from klogtool.errors import Corrupt, Unsupported

MOST_REFERENCES = 1000
PER_SECOND = {"millis": 1000, "micros": 1_000_000, "nanos": 1_000_000_000}  # of the logical types of times
Named: TypeAlias = dict[str, Any]  # schemas by full name, as fastavro has them


class AvroSchema(Struct, frozen=True):
    """A schema as fastavro parses it, and its named types by full name."""

    schema: Any
    named: Named


def require_fastavro() -> Any:
    """Return fastavro's module for schemas. Raises Unsupported if it is not installed."""
    try:
        import fastavro.schema
    except ImportError as error:
        raise Unsupported("Avro needs fastavro: pip install 'klogtool[values]'") from error
    return fastavro.schema


def parse_avro_schema(schemas: Schemas, file: str) -> AvroSchema:
    """Parse a schema. A named type that it does not define is that of NAME.avsc in the same folder.

    Raises Corrupt if it is no schema.
    """
    named: Named = {}
    return AvroSchema(_parse(schemas, file, named, ()), named)


def fingerprint_of(schemas: Schemas, file: str) -> bytes:
    """Return the fingerprint that single-object encoding has: CRC-64-AVRO of the canonical form, little-endian."""
    tool = require_fastavro()
    parsed = parse_avro_schema(schemas, file)
    digits: str = tool.fingerprint(tool.to_parsing_canonical_form(parsed.schema), "CRC-64-AVRO")
    return bytes.fromhex(digits)


def _parse(schemas: Schemas, file: str, named: Named, above: tuple[str, ...]) -> Any:
    """Parse a schema into `named`. above: the files that refer to it."""
    if file in above:
        raise Corrupt(f"{above[0]} refers to itself through {file}")
    tool, raw = require_fastavro(), _load(schemas, file)
    for _ in range(MOST_REFERENCES):
        trial = dict(named)
        try:
            parsed = tool.parse_schema(raw, named_schemas=trial, _write_hint=False)
            _check_shape(parsed, file)
        except tool.UnknownType as missing:
            if not isinstance(missing.name, str):
                raise Corrupt(f"{file} is no schema of Avro: {json.dumps(missing.name)[:100]}") from None
            file_named = schemas.find(missing.name)
            if file_named is None:
                name = missing.name[:100]
                raise Corrupt(f"{file} refers to {name}, and {schemas.path} has no {name}.avsc") from None
            _parse(schemas, file_named, named, (*above, file))
            continue
        except (tool.SchemaParseException, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Corrupt(f"{file} is no schema of Avro: {first_line(error)}") from error
        named.update(trial)
        return parsed
    raise Corrupt(f"{file} refers to more than {MOST_REFERENCES:,} types")


def _check_shape(parsed: Any, file: str) -> None:
    """Raise Corrupt for what fastavro takes for a schema, and reading cannot rely on."""
    waiting = [parsed]
    while waiting:
        schema = waiting.pop()
        if isinstance(schema, list):
            waiting += schema
        elif isinstance(schema, dict):
            below = _below(schema)
            if below is None:
                raise Corrupt(f"{file} is no schema of Avro: {json.dumps(schema)[:100]}")
            waiting += below
        elif not isinstance(schema, str):
            raise Corrupt(f"{file} is no schema of Avro: {json.dumps(schema)[:100]}")


def _below(schema: Mapping[str, object]) -> list[Any] | None:
    """Return the schemas inside one; None if something is missing, or of a wrong type."""
    kind = schema.get("type")
    if kind in ("record", "error"):
        fields = schema.get("fields")
        if not isinstance(fields, list):
            return None
        is_sound = all(
            isinstance(field, dict) and isinstance(field.get("name"), str) and "type" in field for field in fields
        )
        return [field["type"] for field in fields] if is_sound else None
    if kind == "enum":
        symbols = schema.get("symbols")
        return [] if isinstance(symbols, list) and all(isinstance(symbol, str) for symbol in symbols) else None
    if kind == "fixed":
        size = schema.get("size")
        return [] if isinstance(size, int) and size >= 0 else None
    inner = {"array": "items", "map": "values"}.get(kind, "type") if isinstance(kind, str) else "type"
    return [schema[inner]] if inner in schema else None


def _load(schemas: Schemas, file: str) -> Any:
    try:
        raw = json.loads(schemas.files[file].decode())
    except UnicodeDecodeError as error:
        raise Corrupt(f"{file} is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Corrupt(f"{file} is not JSON at line {error.lineno}") from None
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{file} is not JSON: {first_line(error)}") from None
    if _is_deeper(raw, 2 * MOST_DEPTH):
        raise Corrupt(f"{file} is nested too deeply for a schema")
    return raw


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [item for one in level for item in _items(one)]
        if not level:
            return False
    return True


def _items(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
