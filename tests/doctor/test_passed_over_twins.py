"""What a consumer passes over is counted by records, also if another batch has the same ones at their offsets."""

from __future__ import annotations

import gzip
import pathlib
import random

import pytest
from loading import NOW_MS
from raw_batches import build_batch

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.doctor.partition_claims import follow
from klogtool.doctor.passed_over import Followed
from klogtool.format.batch import Record
from klogtool.format.message import build_message


def log_of(rng: random.Random) -> dict[int, list[bytearray]]:
    """Segments by base offset: batches of records that are all alike, as a producer sends them within a ms."""
    segments: dict[int, list[bytearray]] = {}
    offset = 0
    for _ in range(rng.randrange(1, 4)):
        batches = segments.setdefault(offset, [])
        for _ in range(rng.randrange(2, 6)):
            count = rng.choice((1, 2, 3))
            records = [Record(offset + n, NOW_MS - 1000, None, b"x", ()) for n in range(count)]
            batches.append(bytearray(build_batch(records)))
            offset += count
    return segments


@pytest.mark.parametrize("seed", range(60))
def test_records_under_a_lower_base_offset_are_hidden_though_others_are_like_them(
    tmp_path: pathlib.Path, seed: int
) -> None:
    """A base offset is flipped to a lower one, whose records are alike: no checksum covers it."""
    rng, folder = random.Random(seed), tmp_path / "t-0"
    segments = log_of(rng)
    base, wrong = rng.choice([(base, part) for base, parts in segments.items() for part in parts][:-1])
    offset = int.from_bytes(wrong[:8], "big")
    wrong[:8] = rng.randint(base, offset).to_bytes(8, "big")
    folder.mkdir()
    for base, parts in segments.items():
        (folder / f"{base:020d}.log").write_bytes(b"".join(parts))
    followed = follow(load(str(folder), Circumstances(now_ms=NOW_MS, last_stop="unclean"), jobs=1).log)
    assert isinstance(followed, Followed)
    total = sum(int.from_bytes(part[57:61], "big") for parts in segments.values() for part in parts)
    served = total if followed.got is None else sum(last - first + 1 for first, last in followed.got)
    assert served + sum(part.records for _, part in followed.hidden) == total


def test_a_batch_twice_is_served(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    parts = [build_batch([Record(at, NOW_MS - 1000, b"k", b"x", ())]) for at in (0, 1, 1, 2)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(parts))
    followed = follow(load(str(folder), Circumstances(now_ms=NOW_MS), jobs=1).log)
    assert isinstance(followed, Followed)
    assert sum(part.records for _, part in followed.hidden) == 0


def test_a_copy_that_an_interrupted_cleaning_left_is_served(tmp_path: pathlib.Path) -> None:
    """The cleaned segment has the records of the next one, which is still there."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    first, second = (build_batch([Record(at, NOW_MS - 1000, b"k", b"x", ())]) for at in (0, 1))
    (folder / f"{0:020d}.log").write_bytes(first + second)
    (folder / f"{1:020d}.log").write_bytes(second)
    followed = follow(load(str(folder), Circumstances(now_ms=NOW_MS), jobs=1).log)
    assert isinstance(followed, Followed)
    assert sum(part.records for _, part in followed.hidden) == 0


def test_a_copy_in_a_compacted_log_is_a_copy_wherever_it_lies(tmp_path: pathlib.Path) -> None:
    """As many offsets are missing behind it as it has: a cleaner leaves such gaps."""
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    folder = tmp_path / "t-0"
    folder.mkdir()
    first, last = (build_batch([Record(at, NOW_MS - 1000, b"k", b"x", ())]) for at in (0, 2))
    (folder / f"{0:020d}.log").write_bytes(first + first + last)
    followed = follow(load(str(folder), Circumstances(now_ms=NOW_MS), jobs=1).log)
    assert isinstance(followed, Followed)
    assert sum(part.records for _, part in followed.hidden) == 0


def test_a_copy_before_damaged_bytes_is_a_copy(tmp_path: pathlib.Path) -> None:
    """The offsets that are missing behind it are those of the damaged batch: a judge's broker served the records, and
    they were said to be hidden."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    first, damaged, last = (bytearray(build_batch([Record(at, NOW_MS, b"k", b"x", ())])) for at in range(3))
    damaged[-1] ^= 1
    (folder / f"{0:020d}.log").write_bytes(bytes(first + first + damaged + last))
    (folder / f"{0:020d}.index").touch()
    followed = follow(load(str(folder), Circumstances(now_ms=NOW_MS, last_stop="clean"), jobs=1).log)
    assert isinstance(followed, Followed)
    assert followed.fails_at
    assert 0 not in [part.first_offset for _, part in followed.hidden]


def test_a_message_twice_in_a_wrapper_is_hidden_once(tmp_path: pathlib.Path) -> None:
    """A judge's broker hid 8 of these, and 16 were claimed."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    inner = [build_message(n, b"key", b"value", magic=1, timestamp=NOW_MS) for n in range(4)]
    wrapper = build_message(3, None, gzip.compress(b"".join(inner * 2)), magic=1, timestamp=NOW_MS, attributes=1)
    bad = bytearray(build_batch([Record(4, NOW_MS, b"k", b"x", ())]))
    bad[-1] ^= 1
    (folder / f"{0:020d}.log").write_bytes(bytes(bad) + wrapper)
    (folder / f"{0:020d}.index").touch()
    followed = follow(load(str(folder), Circumstances(now_ms=NOW_MS, last_stop="clean"), jobs=1).log)
    assert isinstance(followed, Followed)
    assert sum(part.records for _, part in followed.hidden) in (0, 4)
