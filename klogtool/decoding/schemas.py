"""A folder of schemas: 17.avsc by id, orders-value.avsc by topic, com.acme.Address.avsc by name.

The folder is read once, when a dump begins. So what is decoded does not change under way, and Spark can send the
schemas to its executors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from msgspec import Struct

from klogtool.errors import AboveLimit, KlogError
from klogtool.log.file import LogFile, ReadErrors

AVRO, PROTOBUF = (".avsc",), (".desc", ".pb", ".binpb", ".protoset")
MOST_SCHEMA_BYTES, MOST_FOLDER_BYTES, MOST_FILES = 4 << 20, 64 << 20, 20_000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Schemas(Struct, frozen=True):
    """The schemas of one kind. path: of the folder. files: bytes by name of file."""

    path: str
    files: Mapping[str, bytes]
    suffixes: tuple[str, ...] = AVRO

    def of(self, suffixes: tuple[str, ...]) -> Schemas:
        """Return the schemas with one of these suffixes."""
        return Schemas(
            self.path, {name: data for name, data in self.files.items() if name.endswith(suffixes)}, suffixes
        )

    def find(self, stem: str) -> str | None:
        """Return the file of a schema by its id, topic or name."""
        return next((stem + suffix for suffix in self.suffixes if stem + suffix in self.files), None)

    @property
    def has_ids(self) -> bool:
        """Whether there is a schema by number."""
        return any(os.path.splitext(name)[0].isdecimal() for name in self.files)

    @property
    def has_uuids(self) -> bool:
        """Whether there is a schema by UUID."""
        return any(_UUID.fullmatch(os.path.splitext(name)[0]) for name in self.files)


def read_schemas(path: str) -> Schemas:
    """Read all schemas of a folder. Raises KlogError if it cannot be read, or is larger than klogtool takes."""
    with ReadErrors(path):
        names = sorted(entry.name for entry in os.scandir(path) if entry.name.endswith(AVRO + PROTOBUF))
    if len(names) > MOST_FILES:
        raise AboveLimit(f"more than {MOST_FILES:,} schemas", path=path)
    files: dict[str, bytes] = {}
    for name in names:
        with LogFile(os.path.join(path, name)) as file:
            if file.size > MOST_SCHEMA_BYTES:
                raise AboveLimit(f"more than {MOST_SCHEMA_BYTES >> 20} MiB, too large for a schema", path=file.path)
            files[name] = file.read(0, file.size)
        if sum(map(len, files.values())) > MOST_FOLDER_BYTES:
            raise AboveLimit(f"more than {MOST_FOLDER_BYTES >> 20} MiB of schemas", path=path)
    if not files:
        raise KlogError(f"no schemas in it: no file ends in {', '.join(AVRO + PROTOBUF)}", path=path)
    return Schemas(path, files, AVRO + PROTOBUF)


def first_line(error: Exception) -> str:
    """Return the first line of what a parser says of a schema or a value."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
