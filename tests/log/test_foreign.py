"""Paths that are not Kafka's are named in one line, by every command, and not read as damage.

The samples are built by the formats' own tools, or from their sources: io.aiven.kafka.tieredstorage.ObjectKeyFactory,
org.apache.bookkeeper.bookie.JournalChannel and DefaultEntryLogger, org.apache.zookeeper.server.persistence.FileTxnLog
and FileSnap, storage.py of Redpanda's offline_log_viewer, kafka.message.Message of 0.7.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pathlib
import shutil
import tarfile
import zipfile
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from running import FIXTURES, run_here

from klogtool.format.foreign import HEAD_BYTES, Foreign, foreign_bytes, foreign_name

LOG = FIXTURES / "transactions/logdir/t-0/00000000000000000000.log"
SEGMENT = LOG.read_bytes()
UUID = "AAAAAAAAAAAAAAAAAAAAAQ"
ZERO_SEVEN = bytes.fromhex("0000000b 01 00 3610a686") + b"hello"
COMMANDS = {
    "dump-log": [],
    "verify": [],
    "doctor": [],
    "lookup": ["--offset", "0"],
    "read": ["--offset", "0", "--max-bytes", "9"],
}


def tar(name: str, mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        archive.add(LOG, name)
    return out.getvalue()


def packed_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.write(LOG, "t-0/" + LOG.name)
    return out.getvalue()


# name, bytes, a word of the message, a word of the advice
FILES: list[tuple[str, bytes, str, str]] = [
    ("a.tar", tar("t-0/" + LOG.name), "tar archive", "tar -xf"),
    ("no-suffix", tar("exactly-13-ch"), "tar archive", "tar -xf"),
    ("a.tgz", tar("t", "w:gz"), "tar archive", "tar -xf"),
    ("a.tar.zst", zstandard.compress(tar("t")), "zstd", "zstdcat"),
    ("a.zip", packed_zip(), "zip archive", "unzip"),
    (LOG.name + ".gz", gzip.compress(SEGMENT), "compressed with gzip", "zcat"),
    ("00000000000000000005.log", gzip.compress(SEGMENT), "compressed with gzip", "zcat"),
    (LOG.name + ".zst", zstandard.compress(SEGMENT), "compressed with zstd", "zstdcat"),
    (LOG.name + ".lz4", lz4.frame.compress(SEGMENT), "compressed with lz4", "lz4cat"),
    (LOG.name + ".xz", lzma.compress(SEGMENT), "compressed with xz", "xzcat"),
    (LOG.name + ".bz2", bz2.compress(SEGMENT), "compressed with bzip2", "bzcat"),
    ("00000000000000000000.kafka", ZERO_SEVEN, "Kafka 0.7", "KafkaMigrationTool"),
    ("0-1-v1.log", SEGMENT, "Redpanda", "offline_log_viewer"),
    ("0-1-v1.base_index", b"\x01", "Redpanda", "offline_log_viewer"),
    ("1a2b.txn", b"BKLG\0\0\0\6" + bytes(504), "BookKeeper", "bookkeeper shell"),
    ("0.log", b"BKLO\0\0\0\1" + bytes(1016), "BookKeeper", "bookkeeper shell"),
    ("log.100000001", b"ZKLG\0\0\0\2" + bytes(8), "ZooKeeper", "zkTxnLogToolkit"),
    ("snapshot.0", b"ZKSN\0\0\0\2" + bytes(8), "ZooKeeper", "zkSnapShotToolkit"),
    (f"00000000000000000023-{UUID}.log", b"\0" * 64, "tiered storage", "dump-log - <"),
    (f"00000000000000000023-{UUID}.indexes", b"\0" * 64, "tiered storage", "klogtool remote "),
    (f"00000000000000000023-{UUID}.rsm-manifest", b'{"version":"1"}', "tiered storage", "klogtool remote "),
]
FOLDERS: dict[str, tuple[str, bytes, str]] = {
    "partition of 0.7": ("t-0/00000000000000000000.kafka", ZERO_SEVEN, "Kafka 0.7"),
    "Redpanda": ("kafka/orders/0_21/0-1-v1.log", b"\0" * 80, "Redpanda"),
    "Pulsar": ("bookkeeper/current/0.log", b"BKLO\0\0\0\1" + bytes(1016), "BookKeeper"),
    "journal": ("journal/current/18f.txn", b"BKLG\0\0\0\6" + bytes(504), "BookKeeper"),
    "ZooKeeper": ("version-2/snapshot.0", b"ZKSN\0\0\0\2" + bytes(8), "ZooKeeper"),
    "tiered": (f"orders-{UUID}/0/00000000000000000023-{UUID}.rsm-manifest", b"{}", "tiered storage"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("name", "data", "what", "instead"), FILES, ids=[row[0] for row in FILES])
def test_a_file_is_named(tmp_path: pathlib.Path, command: str, name: str, data: bytes, what: str, instead: str) -> None:
    (tmp_path / name).write_bytes(data)
    done = run_here([command, name, *COMMANDS[command]], tmp_path)
    first, second = done.told.splitlines()
    assert (done.status, done.out) == (4, b"")
    assert first.startswith(f"klogtool: {name}: ")
    assert what in first
    assert instead in second


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_is_named(tmp_path: pathlib.Path, command: str, kind: str) -> None:
    inside, data, what = FOLDERS[kind]
    (tmp_path / "data" / inside).parent.mkdir(parents=True)
    (tmp_path / "data" / inside).write_bytes(data)
    done = run_here([command, "data", *COMMANDS[command]], tmp_path)
    first, second = done.told.splitlines()
    assert (done.status, done.out) == (4, b"")
    assert first.startswith("klogtool: data: ")
    assert what in first
    assert f"(it contains {inside})" in first
    assert second


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_tiered_segment_that_is_plain_is_read_under_its_name(tmp_path: pathlib.Path, form: str) -> None:
    name = f"00000000000000000000-{UUID}.log"
    (tmp_path / name).write_bytes(SEGMENT)
    done = run_here(["dump-log", name, "--format", form], tmp_path)
    assert b"k111" in done.out
    (tmp_path / name).write_bytes(b"\x9a" * 100)
    done = run_here(["dump-log", name, "--format", form], tmp_path)
    assert (done.status, "tiered storage" in done.err) == (4, True)


def test_log_dirs_below_are_named_first(tmp_path: pathlib.Path) -> None:
    shutil.copytree(FIXTURES / "transactions/logdir", tmp_path / "var/kafka")
    (tmp_path / "var/zookeeper/version-2").mkdir(parents=True)
    (tmp_path / "var/zookeeper/version-2/log.1").write_bytes(b"ZKLG\0\0\0\2")
    done = run_here(["verify", "var"], tmp_path)
    assert "Log dirs below it: var/kafka" in done.err


def test_a_file_of_this_name_in_a_log_dir_is_a_finding(copy_of: Callable[[str], pathlib.Path]) -> None:
    log_dir = copy_of("transactions/logdir")
    (log_dir / "t-0" / "0-1-v1.log").write_bytes(b"\0" * 80)
    (log_dir / "t-0" / "backup.tar").write_bytes(tar("t"))
    done = run_here(["verify", str(log_dir), "--format", "json"], log_dir)
    assert b"backup.tar" in done.out
    assert "tar archive" not in done.err


def test_kafkas_own_way_names_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar("t"))
    done = run_here(["dump-log", "--files", "a.tar"], tmp_path)
    assert (done.out, done.told) == (b"Dumping a.tar\n", "Ignoring unknown file a.tar\n")


def test_a_folder_that_is_too_large_to_look_through(tmp_path: pathlib.Path) -> None:
    for n in range(2100):
        (tmp_path / f"{n:05d}").touch()
    done = run_here(["verify", str(tmp_path)], tmp_path)
    assert "neither a log dir nor a partition dir" in done.err


def test_every_log_of_the_fixtures_is_kafkas() -> None:
    for path in FIXTURES.glob("**/logdir*/**/*"):
        if path.is_file():
            assert foreign_bytes(path.read_bytes()[:HEAD_BYTES]) is None
            assert foreign_name(path.name) is None


@given(head=st.binary(max_size=600))
def test_any_bytes_are_looked_at(head: bytes) -> None:
    foreign_bytes(head)
    assert foreign_bytes(b"\x1f\x8b\x08" + head) in (Foreign.GZIP, Foreign.TAR)
    assert foreign_bytes(bytes(257) + b"ustar" + head) is None  # no checksum


def test_a_tar_archive_needs_its_checksum() -> None:
    data = bytearray(tar("t")[:512])
    assert foreign_bytes(bytes(data)) is Foreign.TAR
    data[3] ^= 1
    assert foreign_bytes(bytes(data)) is None
