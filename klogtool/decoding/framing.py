"""What serializers of schema registries put before a value: the id of its schema.

Confluent: a zero byte and four bytes of the id. Apicurio: a zero byte and eight bytes, unless it is told to do as
Confluent. AWS Glue: 3, a byte for the compression, 16 bytes of a UUID. Avro's single-object encoding: C3 01 and the
fingerprint of the schema.
"""

from __future__ import annotations

import uuid

from msgspec import Struct

from klogtool.causes import Cause, Reason, some
from klogtool.decoding.schemas import Schemas
from klogtool.errors import Corrupt

MAGIC, CONFLUENT_SIZE, APICURIO_SIZE = 0, 5, 9
GLUE_VERSION, GLUE_PLAIN, GLUE_ZLIB, GLUE_SIZE = 3, 0, 5, 18
SINGLE_OBJECT, SINGLE_OBJECT_SIZE = b"\xc3\x01", 10


class Framing(Struct, frozen=True):
    """ids: names that the schema may have in the folder. payload: what follows. is_compressed: by AWS Glue."""

    maker: str
    ids: tuple[str, ...]
    payload: bytes
    is_compressed: bool = False


def find_framing(data: bytes) -> Framing | None:
    """Return the framing of a value by its first bytes; None if it begins otherwise."""
    if len(data) >= CONFLUENT_SIZE and data[0] == MAGIC:
        # Confluent's ids begin at 1, so four zeros are the first half of an id of Apicurio.
        short = int.from_bytes(data[1:CONFLUENT_SIZE], "big")
        if short == 0 and len(data) >= APICURIO_SIZE:
            return Framing("Apicurio", (str(int.from_bytes(data[1:APICURIO_SIZE], "big")),), data[APICURIO_SIZE:])
        return Framing("Confluent", (str(short),), data[CONFLUENT_SIZE:])
    if len(data) >= GLUE_SIZE and data[0] == GLUE_VERSION and data[1] in (GLUE_PLAIN, GLUE_ZLIB):
        ids = (str(uuid.UUID(bytes=data[2:GLUE_SIZE])),)
        return Framing("AWS Glue", ids, data[GLUE_SIZE:], data[1] == GLUE_ZLIB)
    return None


def find_schema(schemas: Schemas, data: bytes, topic: str | None, *, is_key: bool) -> tuple[str, bytes]:
    """Return the file of a value's schema, and the bytes that follow the framing. Raises Corrupt if there is none.

    A value has a framing if its first bytes are one and the folder has schemas by such ids. Else the whole value
    follows TOPIC-value (for keys TOPIC-key), if the folder has that.
    """
    framing = find_framing(data)
    if framing is not None and (file := next(filter(None, map(schemas.find, framing.ids)), None)):
        if framing.is_compressed:
            raise Corrupt("compressed by AWS Glue's serializer")
        return file, framing.payload
    subject = f"{topic}-{'key' if is_key else 'value'}"
    may_be_subject = framing is None or not (schemas.has_ids if framing.maker != "AWS Glue" else schemas.has_uuids)
    if topic is not None and may_be_subject and (file := schemas.find(subject)):
        return file, data
    raise Corrupt(_why_none(schemas, framing, subject, topic))


class NoSchemaCause(Cause):
    """Why a key or value has no schema."""

    NO_ID, NOT_THERE, NOT_THERE_OF, NO_ID_NO_TOPIC = some(4)


def _why_none(schemas: Schemas, framing: Framing | None, subject: str, topic: str | None) -> Reason:
    if framing is not None:
        if framing.maker == "Confluent":
            return NoSchemaCause.NOT_THERE(id=framing.ids[0], folder=schemas.path)
        return NoSchemaCause.NOT_THERE_OF(id=framing.ids[0], folder=schemas.path, maker=framing.maker)
    if topic is None:
        return NoSchemaCause.NO_ID_NO_TOPIC()
    return NoSchemaCause.NO_ID(subject=subject, suffix=schemas.suffixes[0], folder=schemas.path)
