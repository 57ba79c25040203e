"""Copies made by chance: the verdict equals what was done to them."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from copying import Copy, random_records, write_copy
from damage import flip_bit, tear_at
from raw_batches import build_batch
from running import FIXTURES

from klogtool import kernels
from klogtool.copies.differing import find_pairs
from klogtool.copies.verdict import DiffVerdict, Word, judge
from klogtool.errors import KlogError
from klogtool.format.batch import CRC_COVERS_FROM, Record, parse_batch
from klogtool.format.item_merge import StretchKind
from klogtool.kernels import absent

Path = pathlib.Path
EPOCHS = ((2, 0), (3, 40))


@pytest.fixture(params=["kernel", "reference"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "reference":
        monkeypatch.setattr(kernels, "native", absent)
    elif not kernels.is_built():
        pytest.skip("needs the extension, which is not built")


@pytest.fixture(params=range(6))
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def split(batches: list[bytes], partition: Path, rng: random.Random) -> Path:
    """Write batches into segments whose sizes chance decides."""
    while batches:
        count = rng.randint(1, 9)
        write_copy(partition, batches[:count])
        batches = batches[count:]
    lines = "".join(f"{epoch} {start}\n" for epoch, start in EPOCHS)
    (partition / "leader-epoch-checkpoint").write_text(f"0\n{len(EPOCHS)}\n{lines}")
    return partition


def both(a: Path, b: Path) -> tuple[DiffVerdict, DiffVerdict]:
    """Shallow and deep."""
    return judge(str(a), str(b)), judge(str(a), str(b), deep=True)


def batches_of(rng: random.Random, count: int = 100) -> tuple[list[Record], list[bytes]]:
    records = random_records(rng, count)
    return records, list(Copy(records, rng, EPOCHS).batches())


def first_offset(batch: bytes) -> int:
    return parse_batch(batch).base_offset


@pytest.mark.usefixtures("reader")
def test_the_same_batches_in_other_segments(tmp_path: Path, rng: random.Random) -> None:
    _, batches = batches_of(rng)
    for found in both(split(batches, tmp_path / "a/t-0", rng), split(batches, tmp_path / "b/t-0", rng)):
        assert (found.word, found.is_alike, found.end) == (Word.EQUAL, True, 100)
        assert found.compared.equal_bytes == sum(map(len, batches))
        assert found.leader is None


@pytest.mark.usefixtures("reader")
def test_truncated(tmp_path: Path, rng: random.Random) -> None:
    _, batches = batches_of(rng)
    cut = rng.randrange(1, len(batches))
    end = first_offset(batches[cut])
    whole, short = split(batches, tmp_path / "a/t-0", rng), split(batches[:cut], tmp_path / "b/t-0", rng)
    for found in both(whole, short):
        assert (found.word, found.offset, found.leader) == (Word.B_IS_PREFIX, end, "a")
        assert found.a_follows_b is not None
        assert (found.a_follows_b.truncates_to, found.a_follows_b.loses) == (end, 100 - end)
        assert found.b_follows_a is not None
        assert found.b_follows_a.loses == 0
    for found in both(short, whole):
        assert (found.word, found.offset, found.leader) == (Word.A_IS_PREFIX, end, "b")


@pytest.mark.usefixtures("reader")
def test_one_was_deleted_further(tmp_path: Path, rng: random.Random) -> None:
    _, batches = batches_of(rng)
    gone = rng.randrange(1, len(batches))
    a, b = split(batches, tmp_path / "a/t-0", rng), split(batches[gone:], tmp_path / "b/t-0", rng)
    for found in both(a, b):
        assert (found.word, found.compared.start) == (Word.EQUAL, first_offset(batches[gone]))
        assert found.compared.equal_bytes == sum(map(len, batches[gone:]))


@pytest.mark.usefixtures("reader")
def test_torn(tmp_path: Path, rng: random.Random) -> None:
    _, batches = batches_of(rng)
    a, b = split(batches, tmp_path / "a/t-0", rng), split(batches, tmp_path / "b/t-0", rng)
    last = max(b.glob("*.log"))
    tear_at(last, last.stat().st_size - rng.randrange(1, len(batches[-1])))
    for found in both(a, b):
        assert found.word is Word.DAMAGED
        (damage,) = found.compared.b.damages
        assert (damage.path, damage.first_offset, damage.last_offset) == (str(last), first_offset(batches[-1]), None)
        assert not found.compared.a.damages


@pytest.mark.usefixtures("reader")
def test_damaged(tmp_path: Path, rng: random.Random) -> None:
    _, batches = batches_of(rng)
    a, b = split(batches, tmp_path / "a/t-0", rng), tmp_path / "b/t-0"
    hit = rng.randrange(len(batches))
    wrong = bytearray(batches[hit])
    wrong[rng.randrange(CRC_COVERS_FROM, len(wrong))] ^= 1 << rng.randrange(8)
    split([*batches[:hit], bytes(wrong), *batches[hit + 1 :]], b, rng)
    first, last = first_offset(batches[hit]), parse_batch(batches[hit]).last_offset
    for found in both(a, b):
        assert found.word is Word.DAMAGED
        assert {damage.first_offset for damage in found.compared.b.damages} == {first}
        uncompared = found.compared.totals[StretchKind.UNCOMPARED]
        assert (uncompared.first_offset, uncompared.last_offset) == (first, last)
        assert set(found.compared.totals) <= {StretchKind.SAME, StretchKind.UNCOMPARED}


@pytest.mark.usefixtures("reader")
def test_continued_under_another_epoch(tmp_path: Path, rng: random.Random) -> None:
    records, _ = batches_of(rng)
    parting = rng.randrange(41, 100)
    others = records[:parting] + random_records(rng, rng.randrange(1, 60), parting)
    seed = rng.random()
    a = Copy(records, random.Random(seed), EPOCHS).write(tmp_path / "a/t-0")
    b = Copy(others, random.Random(seed), (*EPOCHS, (5, parting))).write(tmp_path / "b/t-0")
    for found in both(a, b):
        assert (found.word, found.offset, found.epochs, found.leader) == (Word.DIVERGE, parting, (3, 5), "b")
        assert found.a_follows_b is not None
        assert (found.a_follows_b.truncates_to, found.a_follows_b.loses) == (parting, 100 - parting)


@pytest.mark.usefixtures("reader")
def test_rebatched(tmp_path: Path, rng: random.Random) -> None:
    records, _ = batches_of(rng)
    a = Copy(records, rng, EPOCHS, codec="none").write(tmp_path / "a/t-0")
    b = Copy(records, rng, EPOCHS, codec="lz4", most_in_a_batch=30).write(tmp_path / "b/t-0")
    shallow, deep = both(a, b)
    assert (shallow.word, shallow.is_alike, shallow.offset) == (Word.OTHER_BATCHES, False, 0)
    assert (deep.word, deep.is_alike) == (Word.SAME_RECORDS, True)


@pytest.mark.usefixtures("reader")
def test_compacted(tmp_path: Path, rng: random.Random) -> None:
    """Records are gone; the last batch keeps its last offset, as the cleaner leaves it."""
    _, batches = batches_of(rng)
    gone = set(rng.sample(range(100), rng.randrange(1, 40)))
    cleaned = []
    for batch in map(parse_batch, batches):
        kept = [record for record in batch.records() if record.offset not in gone]
        if kept or batch.last_offset == 99:
            ends = {"base_offset": batch.base_offset, "last_offset": batch.last_offset}
            epoch = batch.partition_leader_epoch
            cleaned.append(build_batch(kept, codec=batch.codec, partition_leader_epoch=epoch, **ends))
    a, b = split(batches, tmp_path / "a/t-0", rng), split(cleaned, tmp_path / "b/t-0", rng)
    if first_offset(cleaned[0]):  # a cleaner keeps the first segment's name
        write_copy(b, []).joinpath(f"{0:020d}.log").touch()
    shallow, deep = both(a, b)
    assert not shallow.is_alike
    assert (deep.word, deep.offset) == (Word.GAPS, min(gone))
    only = [s for s in deep.compared.stretches if s.kind == StretchKind.ONLY_A]
    assert {n for s in only for n in range(s.first_offset, s.last_offset + 1)} >= gone
    assert sum(s.items_a for s in only) == len(gone)


@pytest.mark.usefixtures("reader")
def test_another_record_at_the_same_offset_and_in_the_same_epoch(tmp_path: Path, rng: random.Random) -> None:
    records, _ = batches_of(rng)
    changed = rng.randrange(100)
    others = [*records[:changed], *random_records(rng, 1, changed), *records[changed + 1 :]]
    copy = Copy(records, random.Random(1), EPOCHS)
    a, b = copy.write(tmp_path / "a/t-0"), replace(copy, records=others, rng=random.Random(1)).write(tmp_path / "b/t-0")
    shallow, deep = both(a, b)
    assert shallow.word is Word.OTHER_BATCHES
    assert shallow.offset is not None
    assert shallow.offset <= changed
    assert (deep.word, deep.offset) == (Word.DIVERGE, changed)


def producer(**changed: int) -> dict[str, int]:
    return {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} | changed


@pytest.mark.parametrize("changed", [{"producer_id": 8}, {"producer_epoch": 1}, {"base_sequence": 1}])
def test_fields_of_the_producer_count(tmp_path: Path, changed: dict[str, int]) -> None:
    records = random_records(random.Random(1), 3)
    a = write_copy(tmp_path / "a/t-0", [build_batch(records, **producer())])
    b = write_copy(tmp_path / "b/t-0", [build_batch(records, **producer(**changed))])
    assert judge(str(a), str(b), deep=True).word is Word.DIVERGE


def test_large_copies_go_by_bytes_again_after_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klogtool.copies.comparison.FIRST_ITEMS_BYTES", 500)
    rng = random.Random(5)
    _, batches = batches_of(rng, 3000)
    a, b = split(batches, tmp_path / "a/t-0", rng), split(batches, tmp_path / "b/t-0", rng)
    log = sorted(b.glob("*.log"))[1]
    flip_bit(log, 40)
    for found in both(a, b):
        assert found.word is Word.DAMAGED
        assert found.compared.equal_batches > len(batches) - 20


def test_batches_that_are_larger_than_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klogtool.copies.comparison.WINDOW_BYTES", 70)
    rng = random.Random(6)
    _, batches = batches_of(rng)
    a, b = split(batches, tmp_path / "a/t-0", rng), split(batches, tmp_path / "b/t-0", rng)
    assert judge(str(a), str(b)).word is Word.EQUAL


@pytest.mark.parametrize("make", [lambda p: None, lambda p: (p / f"{5:020d}.log").touch()])
def test_copies_without_records(tmp_path: Path, make: Callable[[Path], None]) -> None:
    empty = tmp_path / "a/t-0"
    empty.mkdir(parents=True)
    make(empty)
    full = Copy(random_records(random.Random(1), 9, 5), random.Random(1)).write(tmp_path / "b/t-0")
    assert judge(str(empty), str(empty)).word is Word.EQUAL
    assert not judge(str(empty), str(full)).is_alike
    assert not judge(str(full), str(empty)).is_alike


def test_no_offset_in_common(tmp_path: Path) -> None:
    rng = random.Random(1)
    a = Copy(random_records(rng, 9), rng).write(tmp_path / "a/t-0")
    b = Copy(random_records(rng, 9, 50), rng).write(tmp_path / "b/t-0")
    assert judge(str(a), str(b)).word is Word.NOTHING_IN_COMMON


def test_every_fixture_equals_itself() -> None:
    log_dirs = sorted(path for path in FIXTURES.glob("*/logdir") if path.parent.name != "two-disks")
    for pair in (pair for path in log_dirs for pair in find_pairs(str(path), str(path))):
        assert pair.a is not None
        for deep in (False, True):
            found = judge(pair.a, pair.a, deep=deep)
            assert found.word in (Word.EQUAL, Word.DAMAGED), pair.a
            assert found.is_alike == (not found.compared.a.damages)


def test_partitions_of_log_dirs_are_matched_by_name(tmp_path: Path) -> None:
    rng = random.Random(1)
    for name in ("a/t-0", "a/t-1", "b/t-1", "b/u-0", "b/u-1.0123456789abcdef0123456789abcdef-delete"):
        Copy(random_records(rng, 3), rng).write(tmp_path / name)
    found = {
        str(pair.topic_partition): (pair.a, pair.b) for pair in find_pairs(str(tmp_path / "a"), str(tmp_path / "b"))
    }
    assert [(a is None, b is None) for a, b in found.values()] == [(False, True), (False, False), (True, False)]
    with pytest.raises(KlogError, match="both need to be the same"):
        list(find_pairs(str(tmp_path / "a"), str(tmp_path / "b/t-1")))


def test_a_longer_copy_whose_active_segment_is_empty(tmp_path: Path) -> None:
    batches = list(Copy(random_records(random.Random(1), 40), random.Random(1)).batches())
    short = write_copy(tmp_path / "a/t-0", batches[:1])
    for batch in batches:
        long = write_copy(tmp_path / "b/t-0", [batch])
    (long / f"{40:020d}.log").touch()
    found = judge(str(short), str(long))
    assert (found.word, found.compared.b.log_end_offset) == (Word.A_IS_PREFIX, 40)
