"""The kernels of cleaning: the hash, the map of keys, and batches that they leave to the reference."""

from __future__ import annotations

import _ctypes
import random
import types
from typing import Any

import lz4.frame
import pytest
from raw_batches import build_batch

from klogtool import kernels
from klogtool.broker.cleaning.offset_map import OffsetMap, joined_map, slots_of
from klogtool.format.batch import Record
from klogtool.format.codecs import lz4 as lz4_codec

native: Any = kernels.native
pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="the extension is not built")
SECRET = bytes(range(16))


def test_siphash_is_the_one_that_is_published() -> None:
    """SipHash-2-4-128 of nothing, with the key 00 to 0f."""
    high, low = native.siphash_128(b"", SECRET, 2, 4)
    assert (high.to_bytes(8, "little") + low.to_bytes(8, "little")).hex() == "a3817f04ba25a8e66df67214c7550293"


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 15, 16, 17, 63, 1000])
def test_every_byte_of_a_key_counts(size: int) -> None:
    key = bytes(size)
    others = [key[:n] + b"\1" + key[n + 1 :] for n in range(size)] + [key + b"\0"]
    assert len({native.siphash_128(found, SECRET) for found in [key, *others]}) == len(others) + 1


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 64, 1000])
def test_both_maps_are_a_dict_until_they_are_full(slots: int) -> None:
    rng, known = random.Random(slots), dict[bytes, int]()
    maps: list[Any] = [native.OffsetMap(slots, slots, SECRET), OffsetMap(24 * slots, 1.0)]
    for offset in range(4 * slots):
        key = b"%d" % rng.randrange(2 * slots)
        if len(known) == slots:
            break
        known[key] = offset
        for found in maps:
            found.put(key, offset)
    for found in maps:
        assert found.entries == len(known)
        assert found.is_full == (len(known) == slots)
        assert {key: found.get(key) for key in known} == known
        assert found.get(b"nobody's") == -1
        assert found.latest_offset == max(known.values())


def test_a_map_that_grows_keeps_all_keys() -> None:
    found = native.OffsetMap(1 << 17, 100_000, SECRET)
    for n in range(100_000):
        found.put(b"%d" % n, n)
    assert (found.entries, found.is_full) == (100_000, True)
    assert all(found.get(b"%d" % n) == n for n in range(100_000))
    assert found.get(b"x") == -1


def test_slots_are_javas() -> None:
    assert slots_of(128 << 20, 0.9) == (5_592_405, 5_033_164)
    assert slots_of(24, 0.9) == (1, 0)
    assert slots_of(23, 0.9) == (0, 0)
    assert slots_of(48, 1e300) == (2, (1 << 31) - 1)  # a double becomes the nearest int
    assert slots_of(48, -1e300) == (2, -(1 << 31))


def cleaner(keys: object) -> Any:
    found = native.BatchCleaner(keys, native.Workspace(), 1000, 10, -1)
    found.indexes.max_timestamp = found.indexes.last_timestamp = -1
    found.indexes.most_offset_entries = found.indexes.most_time_entries = 100
    found.indexes.interval_bytes = 4096
    found.capacity = 1 << 20
    return found


@pytest.mark.parametrize("seed", range(20))
def test_bytes_that_are_no_batch_are_left_alone(seed: int) -> None:
    """With a bit flipped anywhere, the kernel takes it, or says why not; and what it makes is as long as it says."""
    rng = random.Random(seed)
    data = bytearray(build_batch([Record(n, 5, b"key %d" % (n % 3), b"v" * n) for n in range(9)]))
    for _ in range(200):
        harmed = bytearray(data)
        for _ in range(rng.choice((1, 1, 3))):
            harmed[rng.randrange(len(harmed))] ^= 1 << rng.randrange(8)
        keys = native.OffsetMap(100, 90, SECRET)
        filler = native.MapFiller(keys, native.Workspace(), 0)
        filler.capacity = 1 << 20
        at, why = filler.take(bytes(harmed), 0, len(harmed))
        assert (at == len(harmed)) == (why == native.DONE) or why == native.CUT_OFF
        found = cleaner(keys)
        at, why = found.take(bytes(harmed), 0, len(harmed), 0)
        parts, made = found.take_parts()
        assert sum(size for start, size in parts if start < 0) == len(made)
        assert at in (0, len(harmed)) or why != native.DONE


@pytest.mark.parametrize("value_bytes", [0, 10, 1000, 40_000])
def test_what_is_kept_is_compressed_as_the_package_does_it(value_bytes: int) -> None:
    """In the kernel as outside of it, in one block of 64 KiB or several."""
    rng = random.Random(value_bytes)
    data = b"".join(batch_of(rng, base, value_bytes) for base in range(0, 60, 6))
    made = []
    for knows_lz4 in (False, True):
        keys = native.OffsetMap(1000, 1000, SECRET)
        fill = native.MapFiller(keys, native.Workspace(), 0)
        fill.capacity = len(data)
        assert fill.take(data, 0, len(data)) == (len(data), native.DONE)
        clean = cleaner(keys)
        clean.capacity = len(data)
        if knows_lz4:
            kernels.learn_lz4(clean)
        at = outside = 0
        while at < len(data):
            at, why = clean.take(data, at, len(data), 0)
            if why == native.DEFLATE:
                size = size_at(data, at)
                body = kernels.compress("lz4", clean.body(), magic=2)
                assert clean.deflated(data[at : at + size], body) == native.DONE
                at, outside = at + size, outside + 1
            else:
                assert why == native.DONE
        made.append(clean.take_parts())
        assert (outside > 0) != knows_lz4
    assert made[0] == made[1]


@pytest.mark.parametrize("module", [None, types.SimpleNamespace(), __file__, "/nowhere.so", _ctypes.__file__])
def test_liblz4_that_is_not_found_is_not_called(module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's extension is private: another version may lack it, be no library, or export nothing of liblz4."""
    found = types.SimpleNamespace(__file__=module) if isinstance(module, str) else module
    monkeypatch.setattr(lz4.frame, "_frame", found)
    assert lz4_codec.find_functions() is None
    kernels.learn_lz4(cleaner(native.OffsetMap(1000, 1000, SECRET)))  # which then leaves compressing to its caller


def size_at(data: bytes, at: int) -> int:
    return 12 + int.from_bytes(data[at + 8 : at + 12], "big")


def batch_of(rng: random.Random, base: int, value_bytes: int) -> bytes:
    """Six records, of keys that come again in others."""
    values = (rng.choice((rng.randbytes(value_bytes), bytes(value_bytes))) for _ in range(6))
    records = [
        Record(base + n, 1000 + base + n, b"%d" % rng.randrange(40), value, ()) for n, value in enumerate(values)
    ]
    return build_batch(records, codec="lz4")


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_maps_in_parts_are_one_map_again(parts: int) -> None:
    rng, known, slices = random.Random(parts), dict[bytes, int](), [list[bytes]() for _ in range(parts)]
    for n in range(5):
        found = native.OffsetMap(70_000, 70_000, SECRET)
        for m in range(20_000):
            key = b"%d" % rng.randrange(30_000)
            found.put(key, 100_000 * n + m)
            known[key] = 100_000 * n + m
        for some, data in zip(slices, found.entries_by_hash(parts), strict=True):
            some.append(data)
    assert sum(len(data) for some in slices for data in some) % 24 == 0
    rng.shuffle(slices[0])
    whole = joined_map([joined_map(some, SECRET).entries_by_hash(1)[0] for some in slices], SECRET)
    assert whole.entries == len(known)
    assert all(whole.get(key) == offset for key, offset in known.items())
    assert joined_map([], SECRET).get(b"x") == -1
    with pytest.raises(ValueError, match="slots"):
        native.OffsetMap(2, 2, SECRET).merge(bytes(72))
