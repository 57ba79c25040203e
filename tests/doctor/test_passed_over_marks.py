"""Where a consumer comes no further, somebody seeks. A seek to the next mark finds what a seek by one offset finds."""

from __future__ import annotations

import pathlib
import random
import struct
from itertools import accumulate

import pytest
from loading import NOW_MS
from raw_batches import build_batch

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.doctor import passed_over
from klogtool.doctor.partition_claims import follow
from klogtool.doctor.passed_over import Followed
from klogtool.format.batch import Record

INDEX_BYTES = 64


def shuffled(rng: random.Random, folder: pathlib.Path) -> int:
    """Segments whose batches lie in a wrong order, some in another segment, beside false offset indexes; the end."""
    parts: dict[int, list[tuple[int, bytes]]] = {}
    offset = 0
    for _ in range(rng.randrange(2, 4)):
        made = parts.setdefault(offset, [])
        for _ in range(rng.randrange(2, 5)):
            count = rng.randrange(1, 5)
            records = [Record(offset + n, NOW_MS - 1000 + offset + n, None, b"x", ()) for n in range(count)]
            made.append((offset, build_batch(records, last_offset=offset + count - 1 + rng.choice((0, 0, 2)))))
            offset += count + 2
    lists = list(parts.values())
    for _ in range(rng.randrange(1, 4)):
        source, target = rng.choice(lists), rng.choice(lists)
        if source:
            target.insert(rng.randrange(len(target) + 1), source.pop(rng.randrange(len(source))))
        source.sort(key=lambda batch: batch[0], reverse=rng.random() < 0.3)
    for base, made in parts.items():
        data = b"".join(batch for _, batch in made)
        borders = [0, *accumulate(len(batch) for _, batch in made)]
        (folder / f"{base:020d}.log").write_bytes(data)
        starts = [first for first, _ in made if first >= base]
        entries = [(first - base, rng.choice((borders[-1], *borders))) for first in sorted(starts)[1:]]
        index = b"".join(struct.pack(">ii", *entry) for entry in entries)
        (folder / f"{base:020d}.index").write_bytes(index.ljust(rng.choice((len(index), INDEX_BYTES)), b"\0"))
        (folder / f"{base:020d}.timeindex").write_bytes(b"")
    return offset


@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
@pytest.mark.parametrize("seed", [*range(40), 213, 580, 827, 985])
def test_a_seek_to_the_next_mark_finds_what_each_seek_finds(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, seed: int, release: str
) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    end = shuffled(random.Random(seed), folder)
    log = load(str(folder), Circumstances(now_ms=NOW_MS, kafka=release, last_stop="clean"), jobs=1).log
    by_marks = follow(log)
    monkeypatch.setattr(passed_over._Consumer, "_marks", lambda _: list(range(end + 1)))
    by_each = follow(log)
    assert isinstance(by_marks, Followed)
    assert isinstance(by_each, Followed)
    assert by_marks.got == by_each.got
    assert by_marks.hidden == by_each.hidden
