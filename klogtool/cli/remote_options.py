"""Options that the commands of `klogtool remote` share, and what they open."""

from __future__ import annotations

from typing import Annotated

import click
from msgspec import Struct

from klogtool.errors import Corrupt
from klogtool.format.tiered.sealing import RsaKey
from klogtool.parameters import Unit, parameter
from klogtool.remote.local import LocalLogs, read_local
from klogtool.remote.metadata import RemoteMetadata, read_metadata
from klogtool.remote.store import MetadataDirs, RemoteStore, StoreKeys, check_segments, open_store, read_key


class StoreQuestion(Struct, frozen=True, kw_only=True):
    """What is known beside the store."""

    metadata: MetadataDirs = ()
    local: Annotated[
        tuple[str, ...],
        parameter("A log dir that has the local part of the partitions. Repeatable.", Unit.LOG_DIR),
    ] = ()
    key: StoreKeys = ()

    def open_store(self, uri: str) -> RemoteStore:
        """List the store. Raises KlogError, UsageError."""
        return open_store(uri, dict(map(key_of, self.key)))

    def open_segments(self, uri: str) -> RemoteStore:
        """List a store that has a segment, or whose metadata say that it has to have one. Raises KlogError."""
        store = self.open_store(uri)
        if not self.metadata:
            check_segments(store)
        return store

    def read_metadata(self) -> RemoteMetadata | None:
        """Read the metadata, if log dirs are given. Raises KlogError."""
        return read_metadata(self.metadata) if self.metadata else None

    def read_local(self) -> LocalLogs | None:
        """Read the local parts, if log dirs are given. Raises KlogError."""
        return read_local(self.local) if self.local else None


def key_of(text: str) -> tuple[str, RsaKey]:
    """Read a private key, ID=FILE. Raises UsageError, Unreadable."""
    try:
        return read_key(text)
    except Corrupt as error:
        raise click.BadParameter(f"{error}.", param_hint="--key") from None
