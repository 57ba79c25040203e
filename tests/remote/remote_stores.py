"""The stores of fixtures/remote, and keys of theirs."""

from __future__ import annotations

import base64
import pathlib

from running import FIXTURES

from klogtool.format.tiered.sealing import RsaKey, parse_private_key
from klogtool.log.entries import walk_records
from klogtool.log.file import LogFile
from klogtool.log.windows import walk_windows
from klogtool.remote.segment_file import open_log
from klogtool.remote.store import RemoteStore, StoredSegment

REMOTE = FIXTURES / "remote"
STORE, LOGS = REMOTE / "store", REMOTE / "logs"
ZSTD, SEALED = REMOTE / "zstd/store", REMOTE / "sealed/store"
SHARED = FIXTURES.parent.parent / "shared/tiered-samples"


def pem(der: pathlib.Path = REMOTE / "sealed/key1.private.der.b64") -> bytes:
    lines = base64.b64encode(base64.b64decode(der.read_text()))
    return b"-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n" % lines


def key(der: pathlib.Path = REMOTE / "sealed/key1.private.der.b64") -> RsaKey:
    return parse_private_key(pem(der))


def log_bytes(store: RemoteStore, segment: StoredSegment, ahead_bytes: int = 1 << 20) -> bytes:
    with open_log(store, segment, ahead_bytes=ahead_bytes) as file:
        return read_all(file)


def read_all(file: LogFile) -> bytes:
    """As klogtool walks a log: window by window."""
    return b"".join(bytes(window.data[: window.cut]) for window in walk_windows(file))


def offsets_in(data: bytes, folder: pathlib.Path) -> list[int]:
    path = folder / "joined.log"
    path.write_bytes(data)
    return [record.offset for record in walk_records(str(path))]
