"""zstd in the kernels, by the library that the package carries: the same bytes as format.codecs, or None."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from kafka import layout
from raw_batches import build_batch
from readers import PRINT, READERS, Reader

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.format import codecs
from klogtool.format.batch import Record
from klogtool.format.codecs import zstd

RANDOM = random.Random(9)
WORDS = b" ".join(RANDOM.choice((b"lorem", b"ipsum", b"dolor", b"\x00\xff")) for _ in range(300))
TEXTS = (b"x", b"a" * 5000, WORDS, RANDOM.randbytes(3000), bytes(200_000), WORDS * 200 + RANDOM.randbytes(150_000))


@pytest.fixture
def work(native: Any) -> Any:
    found = native.Workspace()
    assert kernels.learn_zstd(found)
    return found


def by_reference(data: bytes) -> bytes | None:
    try:
        return codecs.decompress("zstd", data, magic=2)
    except KlogError:
        return None


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
@pytest.mark.parametrize("level", [-5, 1, 3, 19, 22])
def test_what_kafka_writes_is_inflated_here(native: Any, work: Any, text: bytes, level: int) -> None:
    packed = codecs.compress("zstd", text, magic=2, level=level)
    found = native.inflate("zstd", packed, 2, work)
    # Windows that are very large, or smaller than what is inside, are the package's.
    assert found == text if level < 22 and len(text) < 250_000 else found in (None, text)


def test_not_before_it_is_known_where_libzstd_is(native: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = codecs.compress("zstd", WORDS, magic=2)
    fresh = native.Workspace()
    assert native.inflate("zstd", packed, 2) is None
    assert native.inflate("zstd", packed, 2, fresh) is None
    monkeypatch.setattr(zstd, "find_functions", lambda: None)
    assert not kernels.learn_zstd(fresh)
    assert native.inflate("zstd", packed, 2, fresh) is None


def test_other_framings_are_left_alone(native: Any, work: Any) -> None:
    packed = codecs.compress("zstd", WORDS, magic=2)
    raw = bytes.fromhex("28b52ffd 00 58 190000") + b"abc"
    assert native.inflate("zstd", raw, 2, work) == b"abc"
    large_run = bytes.fromhex("28b52ffd 00 58") + (200_000 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"a"
    small_window = bytes.fromhex("28b52ffd 00 00") + (2000 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"a"
    large_window = bytes.fromhex("28b52ffd 00 88") + (2000 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"a"
    for odd in (packed * 2, packed + b"x", packed[:-1], codecs.compress("zstd", b"", magic=2), b"\0" * 20,
                bytes.fromhex("502a4d18 00000000") + packed, large_run, small_window, large_window):  # fmt: skip
        assert native.inflate("zstd", odd, 2, work) is None


def test_cut_at_every_length(native: Any, work: Any) -> None:
    packed = codecs.compress("zstd", WORDS, magic=2)
    assert all(native.inflate("zstd", packed[:size], 2, work) is None for size in range(len(packed)))
    assert native.inflate("zstd", packed, 2, work) == WORDS


@pytest.mark.parametrize("level", [-5, 3, 19])
def test_every_byte_changed(native: Any, work: Any, level: int) -> None:
    """Of damaged frames the kernel takes none that the reference would refuse, nor reads it in another way."""
    rng, taken = random.Random(level), 0
    packed = codecs.compress("zstd", WORDS + RANDOM.randbytes(40) + b"z" * 300, magic=2, level=level)
    for position in range(len(packed)):
        for value in {packed[position] ^ 1, packed[position] ^ 0x80, 0, 255, rng.randrange(256)}:
            wounded = layout.put(packed, position, bytes([value]))
            found = native.inflate("zstd", wounded, 2, work)
            taken += found is not None
            assert found is None or found == by_reference(wounded), (position, value)
    assert taken


def test_a_workspace_is_one_threads(native: Any, work: Any) -> None:
    """Threads with one each do not mind each other."""
    packed, wrong = [codecs.compress("zstd", text, magic=2) for text in TEXTS], []

    def inflate_all() -> None:
        own = native.Workspace()
        kernels.learn_zstd(own)
        for _ in range(20):
            for text, frame in zip(TEXTS, packed, strict=True):
                if native.inflate("zstd", frame, 2, own) != text:
                    wrong.append(text)

    threads = [threading.Thread(target=inflate_all) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("shown", [True, False], ids=["libzstd shown", "hidden"])
def test_a_dump(native: Any, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shown:
        monkeypatch.setattr(zstd, "find_functions", lambda: None)
    batches = [
        build_batch([Record(offset=4 * n + k, timestamp=n, key=None, value=WORDS * 3) for k in range(4)], codec=codec)
        for n, codec in enumerate(("zstd", "gzip", "zstd", "lz4", "zstd"))
    ]
    broken = bytearray(batches[0])
    broken[100] ^= 1
    for data in (b"".join(batches), b"".join(batches) + bytes(broken)):
        by_reference_, by_kernel = (Reader(name).show(data, PRINT) for name in READERS)
        assert by_kernel == by_reference_
