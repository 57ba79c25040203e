"""The digest of a partition: the same for the same records, another one for any other, none for damaged ones."""

from __future__ import annotations

import hashlib
import pathlib
import random
import shutil
import struct

import pytest
from copying import Copy, random_records, write_copy
from damage import flip_bit, overwrite, tear_at
from msgspec.structs import replace
from raw_batches import build_batch
from running import FIXTURES

from klogtool.copies.record_hash import find_common_ranges, hash_partition, hash_partitions
from klogtool.format.batch import Header, Record
from klogtool.format.xxh64 import xxh64

Path = pathlib.Path
RECORDS = [
    Record(5, 1000, None, b"", (Header(b"h", None), Header(b"", b"v"))),
    Record(7, -1, b"k", None),
    Record(8, 1001, b"", b"value" * 50),
]


def by_hand(record: Record, control: int = 0) -> bytes:
    """What docs/hash.md says."""

    def sized(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    body = struct.pack(">qB", record.timestamp, control) + sized(record.key) + sized(record.value)
    body += struct.pack(">i", len(record.headers)) + b"".join(sized(h.key) + sized(h.value) for h in record.headers)
    return struct.pack(">qQ", record.offset, xxh64(body))


def digest_of(partition: Path, **given: int) -> str | None:
    return hash_partition(str(partition), **given).digest


def test_vectors_of_xxhash64() -> None:
    assert xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh64(b"a") == 0xD24EC4F1A98C6E5B
    assert xxh64(b"abc") == 0x44BC2CF5AD770999
    assert xxh64(b"Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1


def test_the_digest_is_what_the_page_says(tmp_path: Path) -> None:
    copy = write_copy(tmp_path / "t-0", [build_batch(RECORDS[:1]), build_batch(RECORDS[1:], codec="zstd")])
    found = hash_partition(str(copy))
    expected = hashlib.sha256(b"".join(map(by_hand, RECORDS))).hexdigest()[:32]
    assert (found.digest, found.records, found.first_offset, found.last_offset) == (expected, 3, 5, 8)


def test_a_control_record_is_in_it_as_one(tmp_path: Path) -> None:
    record = Record(0, 1, b"\0\0\0\1", b"\0\0\0\0\0\1")
    marker = {"is_control": True, "is_transactional": True, "producer_id": 1, "producer_epoch": 0}
    copy = write_copy(tmp_path / "t-0", [build_batch([record], **marker)])
    assert digest_of(copy) == hashlib.sha256(by_hand(record, 1)).hexdigest()[:32]


@pytest.mark.parametrize("seed", range(8))
def test_batches_codecs_segments_and_epochs_do_not_matter(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    records = random_records(rng, 200)
    digests = {digest_of(Copy(records, rng).write(tmp_path / f"{n}/t-0")) for n in range(4)}
    assert len(digests) == 1
    assert None not in digests


@pytest.mark.parametrize(
    "changed",
    [
        {"offset": 6},
        {"timestamp": 2},
        {"key": b""},
        {"value": None},
        {"headers": (Header(b"h", b""), Header(b"", b"v"))},
    ],
)
def test_any_field_of_a_record_matters(tmp_path: Path, changed: dict[str, object]) -> None:
    first = write_copy(tmp_path / "a/t-0", [build_batch(RECORDS)])
    second = write_copy(tmp_path / "b/t-0", [build_batch([replace(RECORDS[0], **changed), *RECORDS[1:]])])
    assert digest_of(first) != digest_of(second)


def test_a_range_is_of_its_records_alone(tmp_path: Path) -> None:
    rng = random.Random(1)
    records = random_records(rng, 100)
    copy = Copy(records, rng).write(tmp_path / "t-0")
    wanted = [record for record in records if 20 <= record.offset < 50]
    alone = Copy(wanted, rng).write(tmp_path / "alone/t-0")
    assert digest_of(copy, start=20, end=50) == digest_of(alone)
    assert digest_of(copy, start=20, end=51) != digest_of(alone)


def test_records_below_the_log_start_offset_are_not_in_it(tmp_path: Path) -> None:
    rng = random.Random(2)
    records = random_records(rng, 60)
    copy = Copy(records, rng).write(tmp_path / "t-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    whole = Copy(records, rng).write(tmp_path / "elsewhere/t-0")
    assert hash_partition(str(copy)).start == 30
    assert digest_of(copy) == digest_of(whole, start=30)
    assert digest_of(copy, log_start=0) == digest_of(whole)


@pytest.mark.parametrize("seed", range(20))
def test_there_is_no_digest_of_a_damaged_log(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    copy = Copy(random_records(rng, 50), rng).write(tmp_path / "t-0")
    log = rng.choice([path for path in copy.glob("*.log") if path.stat().st_size])
    whole = digest_of(copy)
    if seed % 2:
        tear_at(log, rng.randrange(1, log.stat().st_size))
    else:
        flip_bit(log, rng.randrange(log.stat().st_size), rng.randrange(8))
    found = hash_partition(str(copy))
    assert found.digest is None or found.digest != whole or not seed % 2  # a flipped leader epoch is not in it
    if found.digest is None:
        assert found.error is not None
        assert found.error.path == str(log)


def test_what_comes_before_the_damage_has_a_digest() -> None:
    damaged = str(FIXTURES / "killed-mid-append/logdir/flip-bit-0")
    found = hash_partition(damaged)
    assert (found.digest, found.records) == (None, 47)
    assert hash_partition(damaged, end=47).digest is not None


def test_batches_out_of_order_are_damage(tmp_path: Path) -> None:
    copy = write_copy(tmp_path / "t-0", [build_batch(RECORDS), build_batch(RECORDS[1:])])
    assert "does not lie behind" in str(hash_partition(str(copy)).error)


def test_several_threads_give_the_same_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klogtool.copies.record_hash.SPAN_BYTES", 1000)
    rng = random.Random(3)
    copy = Copy(random_records(rng, 400), rng).write(tmp_path / "t-0")
    assert digest_of(copy, jobs=3) == digest_of(copy, jobs=1)


def test_the_common_range_of_copies_with_different_ends(tmp_path: Path) -> None:
    rng = random.Random(4)
    records = random_records(rng, 50)
    long = Copy(records, rng).write(tmp_path / "a/t-0")
    short = Copy(records[10:40], rng).write(tmp_path / "b/t-0")
    (common,) = find_common_ranges(hash_partitions([str(long), str(short)]))
    assert (common.start, common.end) == (records[10].offset, records[39].offset + 1)
    given = {"start": common.start, "end": common.end}
    assert digest_of(long, **given) == digest_of(short, **given)


def test_names_that_are_no_partitions(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "every-codec/logdir/append-4", tmp_path / "a copy")
    found = hash_partition(str(tmp_path / "a copy"))
    assert found.topic_partition is None
    assert found.digest == digest_of(FIXTURES / "every-codec/logdir/append-4")


def test_an_offset_too_far_from_the_base_is_damage(tmp_path: Path) -> None:
    """That of the last batch of all: no later one contradicts it."""
    copy = write_copy(tmp_path / "t-0", [build_batch(RECORDS)])
    (log,) = copy.glob("*.log")
    overwrite(log, 0, (1 << 33).to_bytes(8, "big"))
    found = hash_partition(str(copy))
    assert (found.digest, "too far from its segment's base offset" in str(found.error)) == (None, True)
