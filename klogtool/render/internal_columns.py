"""Records of Kafka's internal topics as typed columns, from Kafka's field tables: `SELECT group, topic, partition,
offset` over `__consumer_offsets`.

Each record is a row. The fields of the topic's main message are columns, and each other message is a struct, null in
rows of other messages. Names of fields are Kafka's; what klogtool says of a record begins with an underscore. A field
that the message's version does not have is null, and so is everything of a record that cannot be decoded: `_error` says
why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from klogtool.errors import KlogError
from klogtool.escape import escaped
from klogtool.format.internal.decoders import message_names_of, read_internal_record
from klogtool.format.internal.schema import Field, StructSchema, schema_of
from klogtool.format.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    import pyarrow as pa

MAIN = {OFFSETS_TOPIC: "OffsetCommit", TRANSACTIONS_TOPIC: "TransactionLog"}
PLACE = ("topic", "partition", "offset", "timestamp")  # of the record itself
LEGACY = "Legacy"  # the first form of a message: its fields are among those of the second
_ARROW = {
    "bool": "bool_",
    "int8": "int8",
    "int16": "int16",
    "uint16": "int32",
    "int32": "int32",
    "uint32": "int64",
    "int64": "int64",
    "float64": "float64",
    "bytes": "binary",
}
"""Types of Kafka's messages. Neither SQL nor Spark has unsigned numbers. The others are text."""


class InternalColumns:
    """How the columns of an internal topic are made of its records. records: the types of the columns of records."""

    def __init__(self, topic: str, records: pa.Schema) -> None:
        import pyarrow as pa

        self._topic, self._main = topic, MAIN.get(topic)
        structs = {
            name: [field for part in parts for field in _struct_fields(schema_of(part, of_4_4=True).struct)]
            for name, parts in message_names_of(topic).items()  # parts: the schemas of a key and of its value
        }
        main = [] if self._main is None else structs.pop(self._main)
        structs.pop(f"{LEGACY}{self._main}", None)
        self.schema = pa.schema(
            [
                *((f"_{name}", records.field(name).type) for name in PLACE),
                ("_message", pa.string()),
                ("_version", pa.int16()),
                ("_is_tombstone", pa.bool_()),
                ("_error", pa.string()),
                *main,
                *((name, pa.struct(fields)) for name, fields in structs.items()),
            ]
        )

    def needs(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of records from which the columns of these names are made."""
        places = [name[1:] for name in names if name[1:] in PLACE]
        return (*places, "key", "value") if len(places) < len(list(names)) else tuple(places)

    def arrays(self, records: pa.RecordBatch, _: str | None, names: Sequence[str]) -> dict[str, pa.Array]:
        """Return the columns of these names by name. records: with keys and values as bytes."""
        import pyarrow as pa

        arrays = {name: records.column(name[1:]) for name in names if name[1:] in PLACE}
        if len(arrays) == len(names):
            return arrays
        pairs = zip(records.column("key").to_pylist(), records.column("value").to_pylist(), strict=True)
        rows = [self._row(key, value) for key, value in pairs]
        for name in names:
            if name not in arrays:
                arrays[name] = pa.array([row.get(name) for row in rows], self.schema.field(name).type)
        return arrays

    def _row(self, key: bytes | None, value: bytes | None) -> dict[str, object]:
        row: dict[str, object] = {"_is_tombstone": value is None}
        try:
            named, content = read_internal_record(self._topic, key, value)
        except KlogError as error:
            return row | {"_error": escaped(error.reason)}
        if named is not None:  # a key and its value share a name; messages of metadata have no key
            name = named.name.removesuffix("Key")
        elif content is not None:
            name = content.name
        else:
            return row
        fields = {**(named.values if named else {}), **(content.values if content else {})}
        row |= {"_message": name, "_version": content.version if content else None}
        return row | (fields if name.removeprefix(LEGACY) == self._main else {name: fields})


def _struct_fields(struct: StructSchema) -> list[pa.Field]:
    import pyarrow as pa

    return [pa.field(field.name, _type_of(field)) for field in struct.fields]


def _type_of(field: Field) -> pa.DataType:
    import pyarrow as pa

    if field.struct is not None:
        kind = pa.struct(_struct_fields(field.struct))
    else:
        kind = getattr(pa, _ARROW.get(field.type, "string"))()
    return pa.list_(kind) if field.is_array else kind
