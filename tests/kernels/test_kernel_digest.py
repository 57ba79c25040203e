"""The kernel's fingerprints and items equal those of format/record_digests, over sound, damaged and random bytes."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest
from copying import Copy, random_records
from hypothesis import given
from hypothesis import strategies as st
from vectors import BATCHES, MESSAGES

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.format import record_digests
from klogtool.format.batch import inflate, parse_batch
from klogtool.format.framing import walk_frames
from klogtool.format.message import build_message_set, inflate_or_none, parse_entry
from klogtool.format.xxh64 import xxh64

EVERY_OFFSET = (-(2**63), 2**63 - 1)
ENTRIES = [vector.data for vector in (*MESSAGES, *BATCHES)]


@given(st.binary(max_size=300))
@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
def test_xxhash64_of_any_bytes(data: bytes) -> None:
    assert kernels.native.xxh64(data) == xxh64(data)


def by_kernel(entry: bytes, form: int) -> bytes | None:
    """What the kernel makes of one entry; None if it leaves it to the reference."""
    digests = kernels.native.Digests(*EVERY_OFFSET, form)
    at, why = digests.take(entry, 0, len(entry), 1000)
    body = None
    if why == kernels.native.BODY:
        body = inflate_or_none(parse_entry(entry, next(walk_frames(entry, 0, len(entry)))))
        if body is not None:
            at, why = digests.take(entry, 0, len(entry), 1000, body)
    assert (at == len(entry)) == (why == kernels.native.DONE)
    return digests.fetch() if why == kernels.native.DONE else None


def by_reference(entry: bytes, form: int) -> bytes | None:
    """The same by the reference; None if the entry does not prove itself."""
    frame = next(walk_frames(entry, 0, len(entry)), None)
    if frame is None or frame.size < len(entry):
        return None
    try:
        if form == kernels.native.HEAD_ITEMS:
            record_digests.sound_entry(entry, frame, base=1000, deep=False)
            item = record_digests.head_item(entry, frame, 2**63 - 2, base=1000)
            return item.tobytes()
        found = record_digests.sound_entry(entry, frame, base=1000, deep=True)
        if form == kernels.native.RECORD_ITEMS:
            return record_digests.record_items(found).tobytes()
        return b"".join(record_digests.digest_row(r, is_control=found.is_control) for r in found.records())
    except KlogError:
        return None


FORMS = ("DIGEST_ROWS", "RECORD_ITEMS", "HEAD_ITEMS")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_of_each_vector(native: Any, entry: bytes, form: str) -> None:
    expected, found = by_reference(entry, getattr(native, form)), by_kernel(entry, getattr(native, form))
    assert found in (expected, None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(6))
def test_of_random_batches(native: Any, seed: int, form: str) -> None:
    rng = random.Random(seed)
    fields = rng.choice(
        [{}, {"producer_id": 7, "producer_epoch": 1, "base_sequence": 2**31 - 3, "is_transactional": True}]
    )
    for batch in Copy(random_records(rng, 60), rng, fields=fields).batches():
        found = by_kernel(batch, getattr(native, form))
        assert found is not None
        assert found == by_reference(batch, getattr(native, form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_of_messages(native: Any, magic: int, codec: str, form: str) -> None:
    rng = random.Random(magic)
    records = random_records(rng, 20)
    time = {"timestamp_type": "LogAppendTime", "log_append_time": 77} if magic and codec == "lz4" else {}
    data = build_message_set(records, magic=magic, codec=codec, **time)
    for frame in walk_frames(data, 0, len(data)):
        entry = data[frame.position : frame.position + frame.size]
        found = by_kernel(entry, getattr(native, form))
        assert found is not None
        assert found == by_reference(entry, getattr(native, form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_of_damaged_entries(native: Any, seed: int, form: str) -> None:
    """What the kernel takes, the reference takes, too, and makes the same of it."""
    rng = random.Random(seed)
    for entry in (*Copy(random_records(rng, 30), rng).batches(), *ENTRIES):
        damaged = bytearray(entry)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        found = by_kernel(bytes(damaged), getattr(native, form))
        assert found is None or found == by_reference(bytes(damaged), getattr(native, form))


def test_only_wanted_offsets_and_none_behind_the_end(native: Any) -> None:
    rng = random.Random(0)
    batches = list(Copy(random_records(rng, 100), rng).batches())
    data = b"".join(batches)
    digests = native.Digests(10, 50, native.RECORD_ITEMS)
    at, why = digests.take(data, 0, len(data), 0)
    while why == native.BODY:
        at, why = digests.take(data, at, at + 1, 0, inflate(parse_batch(data, at)))
        if why == native.DONE:
            at, why = digests.take(data, at, len(data), 0)
    items = array("q", digests.fetch())
    assert items[::5].tolist() == list(range(10, 50))
    assert (digests.records, digests.first_offset, digests.last_offset, digests.is_past) == (40, 10, 49, True)


def test_an_entry_that_does_not_lie_behind_the_one_before_is_the_references(native: Any) -> None:
    rng = random.Random(0)
    first, *_ = Copy(random_records(rng, 3, 10), rng, codec="none").batches()
    digests = native.Digests(*EVERY_OFFSET, native.DIGEST_ROWS)
    assert digests.take(first + first, 0, 2 * len(first), 0) == (len(first), native.REFERENCE)
