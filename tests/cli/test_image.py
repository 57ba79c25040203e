"""klogtool image through its command line. tests/test_image_law.py has the answers about images."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import shutil
import socket
import stat
import tarfile
from typing import Any

import pytest
from mortal_image import DyingDisk, StoppedHere
from raw_batches import build_batch
from running import FIXTURES, Done, run_apart, run_here, tree_of, without_power_over_files

from klogtool.disk.image import ImagePlaces, write_image
from klogtool.format.batch import CODEC_NAMES, Record
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.entries import walk_entries
from klogtool.plans.image import plan_image
from klogtool.plans.image_names import TopicNames

Path = pathlib.Path
LOG_DIR = FIXTURES / "every-codec/logdir"
METADATA = FIXTURES / "metadata/logdir"
LEAST_TELLING = 5  # fewer bytes are found anywhere


def image(source: Path, output: Path, *options: str) -> Done:
    return run_here(["image", str(source), "--output", str(output), *options], output.parent)


def answer(done: Done) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(done.out.splitlines()[-1])
    return row


def all_bytes(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def secrets_of(folder: Path) -> set[bytes]:
    """Keys, values and header values of the records of all topics that are not the metadata."""
    found: set[bytes] = set()
    for log in folder.glob("*/*.log"):
        if "__cluster_metadata" in log.parent.name:
            continue
        for entry in walk_entries(str(log)):
            if entry.is_control if hasattr(entry, "is_control") else False:
                continue
            for record in entry.records():
                found |= {record.key or b"", record.value or b"", *(header.value or b"" for header in record.headers)}
    return {secret for secret in found if len(secret.strip(b"\0")) >= LEAST_TELLING}


@pytest.mark.parametrize("fixture", ["every-codec", "groups", "magic-0", "magic-1", "transactions", "tiered"])
def test_no_key_and_no_value_is_in_the_image(tmp_path: Path, fixture: str) -> None:
    source = FIXTURES / fixture / "logdir"
    assert image(source, tmp_path / "image").status == 0
    told, secrets = all_bytes(tmp_path / "image"), secrets_of(source)
    assert secrets
    assert not [secret for secret in secrets if secret in told]
    assert not [secret for log in (tmp_path / "image").glob("*/*.log") for secret in secrets_of_log(log) & secrets]


def secrets_of_log(log: Path) -> set[bytes]:
    """Values of the records that can be read, inflated."""
    found = set()
    for entry in walk_entries(str(log)):
        if entry.crc_valid and entry.attributes & 7 and entry.magic < 2:
            found |= {record.value or b"" for record in entry.records()}
    return found


def test_no_name_is_in_the_image(tmp_path: Path) -> None:
    source = tmp_path / "logdir"
    shutil.copytree(METADATA, source)
    done = image(source, tmp_path / "image", "--format", "json")
    names = json.loads((tmp_path / "image.names.json").read_text())["names"]
    told = all_bytes(tmp_path / "image") + "\n".join(map(str, (tmp_path / "image").rglob("*"))).encode()
    assert names
    assert not [name for name in names if name.encode() in told]
    assert all(len(name) == len(other) and re.fullmatch("[a-z0-9]+", other) for name, other in names.items())
    assert {name for name in names if name.startswith("__")} == set()
    assert (tmp_path / "image/__cluster_metadata-0").is_dir()
    expected = {"mapped": True, "topics": len(names), "others": 0, "map": str(tmp_path / "image.names.json")}
    assert answer(done)["names"] == expected


def test_sizes_and_times_stay(tmp_path: Path) -> None:
    done = image(LOG_DIR, tmp_path / "image", "--keep-names", "--format", "json")
    facts = [
        {name: about[1:3] for name, about in tree_of(folder, with_bytes=False).items()}
        for folder in (LOG_DIR, tmp_path / "image")
    ]
    assert facts[0] == facts[1]
    files = [path for path in LOG_DIR.rglob("*") if path.is_file()]
    row = answer(done)
    assert (row["files"], row["bytes"]) == (len(files), sum(path.stat().st_size for path in files))
    assert row["names"] == {"mapped": False, "topics": 0, "others": 0, "map": None}
    assert (row["blank"], row["holes"], row["left_out"], row["unread"]) == ([], [], [], [])


def test_the_map_of_names_is_private_and_used_again(tmp_path: Path) -> None:
    names = tmp_path / "names.json"
    for output in ("one", "two"):
        assert image(LOG_DIR, tmp_path / output, "--names", str(names)).status == 0
    assert stat.S_IMODE(names.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path / "one")) == sorted(os.listdir(tmp_path / "two"))
    assert image(LOG_DIR, tmp_path / "three").status == 0
    assert sorted(os.listdir(tmp_path / "one")) != sorted(os.listdir(tmp_path / "three"))


def test_names_are_distinct_and_stable() -> None:
    topics = [chr(ord("a") + n) for n in range(26)] + ["orders", "Orders"]
    names = TopicNames(b"secret")
    others = [names.of(topic) for topic in topics]
    assert len(set(others)) == len(topics)
    assert [TopicNames(b"secret").of(topic) for topic in topics[-2:]] == others[-2:]
    assert names.of("__consumer_offsets") == "__consumer_offsets"
    assert names.of_folder("orders-07.0a-future").startswith(f"{names.of('orders')}-07.")
    assert names.of_folder("lost+found") == "lost+found"


# What is refused.


@pytest.mark.parametrize("place", ["logdir/image", "logdir/t-0", "logdir", "full", "logdir/append-0/image", "."])
def test_places_that_are_refused(tmp_path: Path, place: str) -> None:
    shutil.copytree(LOG_DIR, tmp_path / "logdir")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    before = tree_of(tmp_path)
    done = image(tmp_path / "logdir", tmp_path / place, "--names", str(tmp_path / "names.json"))
    assert (done.status, done.out) == (3, b"")
    assert tree_of(tmp_path) == before


def test_another_log_dir_is_no_place_for_an_image(tmp_path: Path) -> None:
    shutil.copytree(METADATA, tmp_path / "other")
    assert image(LOG_DIR, tmp_path / "other/images-0").status == 3
    assert image(LOG_DIR, tmp_path / "image", "--names", str(tmp_path / "other/names.json")).status == 3
    assert image(LOG_DIR, tmp_path / "image", "--pack", str(tmp_path / "other/image.tar.gz")).status == 3
    assert not (tmp_path / "image").exists()


def test_files_that_are_there_already(tmp_path: Path) -> None:
    (tmp_path / "image.tar.gz").touch()
    (tmp_path / "image.names.json").write_text("[]")
    assert image(LOG_DIR, tmp_path / "image", "--pack", str(tmp_path / "image.tar.gz")).status == 3
    assert image(LOG_DIR, tmp_path / "image").status == 3
    assert image(LOG_DIR, tmp_path / "image", "--keep-names", "--names", "x").status == 2
    assert image(LOG_DIR / "nothing", tmp_path / "image").status == 2
    assert not (tmp_path / "image").exists()


# Hostile folders.


def test_what_is_no_file_of_kafka(tmp_path: Path) -> None:
    source = tmp_path / "logdir"
    shutil.copytree(LOG_DIR, source)
    (source / "append-0/notes.txt").write_text("a secret")
    os.mkfifo(source / "append-0/fifo")
    os.symlink("nowhere", source / "append-0/00000000000000000099.log")
    os.symlink("..", source / "append-0/up")
    (source / ".lock").write_text("a secret")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(source)
        listener.bind("socket")
    done = image(source, tmp_path / "image", "--keep-names", "--format", "json")
    row, append = answer(done), source / "append-0"
    assert done.status == 0
    assert row["blank"] == [str(append / "notes.txt")]
    assert [left["path"] for left in row["left_out"]] == [
        *(str(append / name) for name in ("00000000000000000099.log", "fifo", "up")),
        str(source / "socket"),
    ]
    (copy,) = (tmp_path / "image").glob("*/notes.txt")
    assert copy.read_bytes() == (tmp_path / "image/.lock").read_bytes() == bytes(len("a secret"))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    source = tmp_path / "logdir"
    shutil.copytree(LOG_DIR, source)
    log = next(source.glob("append-0/*.log"))
    log.chmod(0)
    output = tmp_path / "image"
    done = run_apart(
        "image", source, "--output", output, "--keep-names", "--format", "json", before=without_power_over_files
    )
    assert done.status == 4
    assert answer(done)["unread"] == [{"path": str(log), "reason": "permission denied"}]
    assert (output / "append-0" / log.name).stat().st_size == log.stat().st_size


@pytest.mark.slow
def test_random_bytes_in_every_file(tmp_path: Path) -> None:
    chance = random.Random(1)
    for n in range(10):
        source = tmp_path / f"logdir{n}"
        shutil.copytree(METADATA, source)
        for path in source.rglob("*"):
            if path.is_file() and parse_file_name(path.name).kind is not FileKind.LOCK:
                data = bytearray(path.read_bytes())
                for _ in range(5):
                    if data:
                        data[chance.randrange(len(data))] = chance.randrange(256)
                path.write_bytes(data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data)
        done = image(source, tmp_path / f"image{n}")
        assert done.status == 0, done.err


# Nothing half is left.


@pytest.mark.parametrize("calls", range(0, 46, 3))
def test_a_run_that_dies_leaves_nothing(tmp_path: Path, calls: int) -> None:
    source = FIXTURES / "leader-epochs/logdir"
    names = TopicNames(b"secret")
    places = ImagePlaces(*(str(tmp_path / name) for name in ("image", "names.json", "image.tar.gz")))
    with pytest.raises(StoppedHere):
        write_image(plan_image(str(source), names), names, places, disk=DyingDisk(calls))
    assert os.listdir(tmp_path) == []


# Size.


def a_large_log_dir(folder: Path, codec: str, size: int) -> None:
    """A partition of random records, in batches of about 16 KiB."""
    chance, offset = random.Random(codec), 0
    (folder / "orders-0").mkdir(parents=True)
    (folder / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n")
    with open(folder / "orders-0" / f"{0:020d}.log", "wb") as log:
        while log.tell() < size:
            records = [
                Record(offset + n, 1_700_000_000_000 + offset + n, chance.randbytes(16), chance.randbytes(length))
                for n, length in enumerate(chance.randrange(500, 3000) for _ in range(10))
            ]
            offset += len(records)
            log.write(build_batch(records, codec=codec))


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_an_image_has_one_percent_of_the_data(tmp_path: Path, codec: str) -> None:
    size = 100 << 20
    a_large_log_dir(tmp_path / "logdir", codec, size)
    done = image(tmp_path / "logdir", tmp_path / "image", "--pack", str(tmp_path / "image.tar.gz"), "--format", "json")
    row = answer(done)
    assert row["bytes"] >= size
    assert row["pack"]["bytes"] == (tmp_path / "image.tar.gz").stat().st_size <= size // 100


def test_the_archive_has_all_of_the_image(tmp_path: Path) -> None:
    packed = tmp_path / "image.tar.gz"
    assert image(LOG_DIR, tmp_path / "image", "--pack", str(packed)).status == 0
    with tarfile.open(packed) as archive:
        assert {(member.uid, member.uname) for member in archive.getmembers()} == {(0, "")}
        files = {member.name: archive.extractfile(member) for member in archive.getmembers() if member.isfile()}
        told = {name: file.read() for name, file in files.items() if file is not None}
    written = (path for path in (tmp_path / "image").rglob("*") if path.is_file())
    assert told == {str(path.relative_to(tmp_path)): path.read_bytes() for path in written}


def test_blocks_of_zeros_take_no_space(tmp_path: Path) -> None:
    a_large_log_dir(tmp_path / "logdir", "none", 1)
    with open(tmp_path / "logdir/orders-0" / f"{0:020d}.log", "wb") as log:
        log.write(build_batch([Record(0, 1, None, random.Random(1).randbytes(4 << 20))]))
    row = answer(image(tmp_path / "logdir", tmp_path / "image", "--format", "json"))
    assert row["bytes"] > 4 << 20
    assert row["kept_bytes"] < 64 << 10


def test_of_a_batch_too_large_for_memory_the_header_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klogtool.plans.image_log.LARGEST_SOUGHT_BYTES", 1 << 18)
    a_large_log_dir(tmp_path / "logdir", "none", 1)
    log = tmp_path / "logdir/orders-0" / f"{0:020d}.log"
    large, small = (build_batch([Record(n, 1, b"key", b"value" * size)]) for n, size in enumerate((100_000, 1)))
    log.write_bytes(large + small)
    row = answer(image(tmp_path / "logdir", tmp_path / "image", "--keep-names", "--format", "json"))
    assert row["holes"] == [{"path": str(log), "bytes": len(large) - 61}]
    first, second = walk_entries(str(tmp_path / "image/orders-0" / log.name))
    assert (first.crc_valid, first.size, second.crc_valid, second.size) == (True, len(large), True, len(small))
    assert set(bytes(first.data[61:])) == {0, 1}
