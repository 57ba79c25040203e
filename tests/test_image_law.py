"""`verify`, `recover`, `txns`, `retain` and `doctor` answer the same about an image as about the original."""

from __future__ import annotations

import json
import pathlib
import random
import shutil

import pytest
from imaging import (
    QUESTIONS,
    answers,
    distinct_names,
    log_dirs_in,
    put_in_place,
    with_former_names,
    without_details,
    without_options,
    without_starts,
)
from kafka import layout
from kafka.damage import KINDS, harm
from kafka.test_brokers_read_the_wounds import BAD, SOUND, instead, write
from raw_batches import raw_batch
from running import FIXTURES, ROOT
from wounded import CASES

from klogtool.format.batch import CODEC_NAMES, RECORD_BATCH_OVERHEAD
from klogtool.format.codecs import MAX_INFLATED_BYTES, compress
from klogtool.format.message import build_message
from klogtool.format.names import INTERNAL_TOPICS
from klogtool.format.varint import build_zigzag
from klogtool.log.folder import find_partition_dir_name

Path = pathlib.Path
CORPORA = ROOT.parent / "shared" / "corpus"
OF_FIXTURES = [str(path.relative_to(FIXTURES)) for path in log_dirs_in(FIXTURES)]
NAMES = [
    *("0.8.2.2-codecs", "0.9.0.1-compaction", "0.9.0.1-groups", "0.10.2.2-codecs", "0.11.0.3-transactions"),
    *("1.1.1-formats", "2.8.2-compaction", "2.8.2-crash", "2.8.2-groups", "3.9.2-epochs", "3.9.2-metadata"),
    *("3.9.2-retention", "3.9.2-upgrade", "4.3.1-codecs", "4.3.1-compaction", "4.3.1-crash", "4.3.1-groups-share"),
    *("4.3.1-jbod", "4.3.1-metadata", "4.3.1-tiered", "4.3.1-transactions"),
]


def copied(source: Path, tmp_path: Path) -> Path:
    log_dir = tmp_path / "d"
    shutil.copytree(source, log_dir)
    return log_dir


def assert_lawful(log_dir: Path) -> None:
    before = without_options(answers(log_dir), log_dir)
    holes = put_in_place(log_dir, "--keep-names")
    after = without_options(answers(log_dir), log_dir)
    assert holes or after == before
    assert without_details(after, holes) == without_details(before, holes)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_FIXTURES)
def test_fixtures(tmp_path: Path, name: str) -> None:
    assert_lawful(copied(FIXTURES / name, tmp_path))


@pytest.mark.some(8)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_corpora(tmp_path: Path, name: str) -> None:
    if not (CORPORA / name).is_dir():
        pytest.skip(f"no ../shared/corpus/{name} beside the project")
    for n, log_dir in enumerate(log_dirs_in(CORPORA / name)):
        assert_lawful(copied(log_dir, tmp_path / str(n)))


def inside(record: int, at: int, new: bytes, codec: str) -> bytes:
    """A log of ten batches of three records. One record of the third batch has other bytes; its CRC is right."""
    whole = SOUND[BAD]
    place = RECORD_BATCH_OVERHEAD + record * (len(whole) - RECORD_BATCH_OVERHEAD) // 3 + at
    changed = whole[:place] + new + whole[place + 1 :]
    head, body = bytearray(changed[:RECORD_BATCH_OVERHEAD]), changed[RECORD_BATCH_OVERHEAD:]
    head[22] = CODEC_NAMES.index(codec)
    return instead(layout.sealed(bytes(head) + compress(codec, body, magic=2)))


def cut_stream(codec: str) -> bytes:
    """The same, with a compressed stream that ends too early."""
    head = bytearray(SOUND[BAD][:RECORD_BATCH_OVERHEAD])
    head[22] = CODEC_NAMES.index(codec)
    return instead(layout.sealed(bytes(head) + compress(codec, SOUND[BAD][RECORD_BATCH_OVERHEAD:], magic=2)[:-6]))


INSIDE = {
    "a record's length": (1, 0, b"\2"),
    "a length that does not end": (1, 0, b"\xff" * 6),
    "an offset twice": (1, 3, b"\0"),
    "an offset of a later batch": (1, 3, b"\x0a"),
}
WOUNDED_INSIDE = {
    **{f"{name}, {codec}": inside(*how, codec) for name, how in INSIDE.items() for codec in ("none", "zstd")},
    **{f"a stream, {codec}": cut_stream(codec) for codec in ("gzip", "snappy", "lz4", "zstd")},
}


@pytest.mark.parametrize("name", WOUNDED_INSIDE)
def test_damage_inside_a_batch(tmp_path: Path, name: str) -> None:
    """No start looks into records whose CRC is right, but the doctor says what consumers get of them."""
    log_dir = tmp_path / "d"
    write(log_dir / "t-0", WOUNDED_INSIDE[name])
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\n")
    (log_dir / ".kafka_cleanshutdown").write_text("")
    assert_lawful(log_dir)


def above_the_limit(kind: str) -> bytes:
    """The same ten batches; the records of one inflate to more than klogtool takes."""
    size = MAX_INFLATED_BYTES
    if kind == "wrapper":
        return instead(build_message(8, None, compress("gzip", bytes(size + 1), magic=1), magic=1, attributes=1))
    record = build_zigzag(size) + bytes(3) + b"\1" + build_zigzag(size - 100) + bytes(size)
    fields = {"base_offset": 6, "last_offset_delta": {"one record": 0, "gaps": 2}[kind]}
    return instead(raw_batch(compress("zstd", record, magic=2), codec="zstd", **fields))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one record", "gaps", "wrapper"])
def test_what_nobody_opens_is_a_hole(tmp_path: Path, kind: str) -> None:
    log_dir = tmp_path / "d"
    write(log_dir / "t-0", above_the_limit(kind))
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\n")
    (log_dir / ".kafka_cleanshutdown").write_text("")
    before = without_options(answers(log_dir), log_dir)
    holes = put_in_place(log_dir, "--keep-names")
    assert holes == {f"{0:020d}.log"}
    after = without_options(answers(log_dir), log_dir)
    if kind == "wrapper":  # every verify opens it, and finds zeros
        assert {row["id"] for row in after[2] if row["type"] == "finding"} == {"records-invalid"}
    else:
        assert without_details(after, holes) == without_details(before, holes)


LEFT_OUT = {"unreadable"}  # a FIFO is not in an image


@pytest.mark.parametrize("finding", [id for id, case in CASES.items() if case.paths == ("",) and id not in LEFT_OUT])
def test_every_kind_of_damage(tmp_path: Path, finding: str) -> None:
    log_dir = copied(FIXTURES / CASES[finding].fixture, tmp_path)
    CASES[finding].wound(log_dir)
    assert_lawful(log_dir)


@pytest.mark.some(60)
@pytest.mark.parametrize("fixture", ["three-magics", "transactions", "every-codec", "leader-epochs"])
@pytest.mark.parametrize("kind", KINDS)
def test_random_damage(tmp_path: Path, fixture: str, kind: str) -> None:
    """Of verify alone, and not of a start: a broker that follows a wrong length, or an index, into keys, values or
    checksums finds other bytes there."""
    log_dir, chance = copied(FIXTURES / fixture / "logdir", tmp_path), random.Random(f"{fixture} {kind}")
    for partition in sorted(path for path in log_dir.iterdir() if path.is_dir()):
        files = {path.name: path.read_bytes() for path in partition.iterdir()}
        harm(files, chance, kind)
        shutil.rmtree(partition)
        for name in ("", *files):
            path = partition / name
            path.mkdir() if not name or name.endswith("/") else path.write_bytes(files[name])
    before = without_starts(answers(log_dir, QUESTIONS[:1]))
    holes = put_in_place(log_dir, "--keep-names")
    after = without_starts(answers(log_dir, QUESTIONS[:1]))
    assert holes or after == before
    assert without_details(after, holes) == without_details(before, holes)


@pytest.mark.parametrize("name", OF_FIXTURES)
def test_with_other_names(tmp_path: Path, name: str) -> None:
    log_dir = copied(FIXTURES / name, tmp_path)
    folders = (find_partition_dir_name(path.name) for path in log_dir.iterdir() if path.is_dir())
    topics = {found.topic for found in folders if found is not None} - INTERNAL_TOPICS
    names, before = distinct_names(sorted(topics)), without_options(answers(log_dir), log_dir)
    (tmp_path / "names.json").write_text(json.dumps({"secret": "00", "names": names}))
    put_in_place(log_dir, "--names", str(tmp_path / "names.json"))
    after = without_options(answers(log_dir), log_dir)
    assert with_former_names(after, names) == with_former_names(before, {})
