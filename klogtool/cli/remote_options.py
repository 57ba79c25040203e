"""Options that the commands of `klogtool remote` share, and what they open."""

from __future__ import annotations

from typing import Annotated

import click
from msgspec import Struct

from klogtool.errors import Corrupt
from klogtool.format.tiered.sealing import RsaKey, parse_private_key
from klogtool.log.file import read_whole
from klogtool.parameters import Unit, parameter
from klogtool.remote.local import LocalLogs, read_local
from klogtool.remote.metadata import RemoteMetadata, read_metadata
from klogtool.remote.store import RemoteStore, open_store

MOST_KEY_BYTES = 1 << 20


class StoreQuestion(Struct, frozen=True, kw_only=True):
    """What is known beside the store."""

    metadata: Annotated[
        tuple[str, ...],
        parameter("A log dir that has partitions of __remote_log_metadata. Repeatable.", Unit.LOG_DIR),
    ] = ()
    local: Annotated[
        tuple[str, ...],
        parameter("A log dir that has the local part of the partitions. Repeatable.", Unit.LOG_DIR),
    ] = ()
    key: Annotated[
        tuple[str, ...],
        parameter(
            "The private key (PEM) of a key pair of Aiven's plugin, by its id. Repeatable.",
            Unit.TEXT,
            metavar="ID=FILE",
        ),
    ] = ()

    def open_store(self, uri: str) -> RemoteStore:
        """List the store. Raises KlogError, UsageError."""
        return open_store(uri, dict(map(_key, self.key)))

    def read_metadata(self) -> RemoteMetadata | None:
        """Read the metadata, if log dirs are given. Raises KlogError."""
        return read_metadata(self.metadata) if self.metadata else None

    def read_local(self) -> LocalLogs | None:
        """Read the local parts, if log dirs are given. Raises KlogError."""
        return read_local(self.local) if self.local else None


def _key(text: str) -> tuple[str, RsaKey]:
    key_id, equals, path = text.partition("=")
    if not equals:
        raise click.BadParameter(f"'{text}' is not ID=FILE.", param_hint="--key")
    try:
        return key_id, parse_private_key(read_whole(path, limit=MOST_KEY_BYTES))
    except Corrupt as error:
        raise click.BadParameter(f"{path}: {error.reason}", param_hint="--key") from None
