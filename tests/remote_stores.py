"""The stores of fixtures/remote, and keys of theirs."""

from __future__ import annotations

import base64
import pathlib
import shutil
import uuid
from collections.abc import Callable

from running import FIXTURES, run_here

from klogtool.format.producer_snapshot import build_producer_snapshot
from klogtool.format.tiered.sealing import RsaKey, parse_private_key
from klogtool.log.entries import walk_records
from klogtool.log.file import LogFile
from klogtool.log.partition import Partition
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


def tiered_log_dir(
    folder: pathlib.Path, *, segments: int = 5, partitions: int = 1
) -> tuple[pathlib.Path, pathlib.Path]:
    """A log dir of topic t whose closed segments are all local and in a store of LocalTieredStorage, with the metadata
    in the log dir; and that store. The leader epoch changes within segments."""
    steps = [f"{{generate: {{records: 20, seed: {n}, leader_epoch: {(n + 1) // 2}}}}}" for n in range(2 * segments)]
    log = ", roll, ".join(", ".join(steps[n : n + 2]) for n in range(0, 2 * segments, 2))
    rows = [f"  - {{topic: t, partition: {n}, log: [{log}]}}" for n in range(partitions)]
    (folder / "spec.yaml").write_text("\n".join(["partitions:", *rows]))
    log_dir, store, rebuilt = folder / "logs", folder / "store", folder / "rebuilt"
    assert run_here(["build", str(folder / "spec.yaml"), "--output", str(log_dir)], folder).status == 0
    for path in sorted(log_dir.glob("t-*")):
        upload(path, store)
    words = ["remote", "metadata", str(store), "--partitions", "1", "--output", str(rebuilt)]
    assert run_here(words, folder).status == 0
    (rebuilt / "__remote_log_metadata-0").rename(log_dir / "__remote_log_metadata-0")
    (log_dir / "log-start-offset-checkpoint").write_text(
        "".join(["0\n", f"{partitions}\n", *(f"t {n} 0\n" for n in range(partitions))])
    )
    return log_dir, store


def cut(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def grow(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(100))


def empty(path: pathlib.Path) -> None:
    path.write_bytes(b"")


WOUNDS: tuple[Callable[[pathlib.Path], None], ...] = (cut, flip, grow, empty, pathlib.Path.unlink)


def upload(path: pathlib.Path, store: pathlib.Path) -> None:
    """Copy the closed segments of a partition dir as a broker does."""
    partition = Partition(str(path))
    folder = store / f"{path.name}-{partition.topic_id}"
    folder.mkdir(parents=True)
    entries = [(entry.epoch, entry.start_offset) for entry in partition.leader_epochs or ()]
    for segment, following in zip(partition.segments, partition.segments[1:], strict=False):
        seed = uuid.uuid5(uuid.NAMESPACE_OID, f"{path.name}/{segment.base_offset}").bytes
        name = f"{segment.base_offset:020d}-{base64.urlsafe_b64encode(seed).decode().rstrip('=')}"
        for suffix in ("log", "index", "timeindex"):
            shutil.copy(path / f"{segment.base_offset:020d}.{suffix}", folder / f"{name}.{suffix}")
        snapshot = path / f"{following.base_offset:020d}.snapshot"
        producers = snapshot.read_bytes() if snapshot.exists() else build_producer_snapshot([])
        (folder / f"{name}.snapshot").write_bytes(producers)
        known = [f"{epoch} {start}\n" for epoch, start in entries if start < following.base_offset]
        (folder / f"{name}.leader_epoch_checkpoint").write_text("".join(["0\n", f"{len(known)}\n", *known]))
