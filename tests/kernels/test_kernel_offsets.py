"""The kernel that replays commits equals format.commit_replay, on sound, damaged and random bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from committing import random_log
from damage import heal_checksums
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_batches import raw_batch
from vectors import BATCHES, MESSAGES

from klogtool.errors import KlogError
from klogtool.format.commit_replay import CommitReplay, KeptCommit, replay_entry
from klogtool.format.framing import Frame, find_frame
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.message import inflate_or_none, parse_entry

EVERY_KIND = b"".join(vector.data for vector in (*MESSAGES, *BATCHES))
NUMBERS = (
    "next_offset",
    "gap_end",
    "gap_timestamp",
    "latest_timestamp",
    "clean_timestamp",
    "batches",
    "records",
    "foreign",
)
Terms = tuple[int, int, int]  # at_ms, log_start_offset, clean_end
EVERYTHING = (MAX_LONG, 0, 0)


def answers(replay: Any) -> dict[str, Any]:
    numbers = {name: getattr(replay, name) for name in NUMBERS}
    return numbers | {
        "odd": replay.take_odd(),
        "committed": sorted(replay.committed()),
        "pending": sorted(replay.pending()),
    }


def take_one(replay: Any, data: bytes, at: int) -> int:
    """By the reference. Returns where the next entry begins; the same position at damage."""
    frame = find_frame(data, at, len(data))
    if not isinstance(frame, Frame):
        return at
    try:
        replay_entry(replay, parse_entry(data, frame))
    except KlogError:
        return at
    return at + frame.size


def by_reference(data: bytes, terms: Terms) -> tuple[int, dict[str, Any]]:
    replay, at, before = CommitReplay(*terms), 0, -1
    while at > before:
        before, at = at, take_one(replay, data, at)
    return at, answers(replay)


def by_kernel(native: Any, data: bytes, terms: Terms) -> tuple[int, dict[str, Any]]:
    replay = native.CommitReplay(*terms, bytes(range(16)), KeptCommit)
    work, at, body = native.Workspace(), 0, None
    while at < len(data):
        before = at
        at, why = replay.take(data, at, len(data), work, body)
        if at > before:
            body = None
        if why == native.BODY and body is None:
            body = inflate_or_none(parse_entry(data, found)) if (found := frame_at(data, at)) else None
            if body is not None:
                continue
        if at < len(data):
            start, at, body = at, take_one(replay, data, at), None
            if at == start:
                break
    return at, answers(replay)


def frame_at(data: bytes, at: int) -> Frame | None:
    found = find_frame(data, at, len(data))
    return found if isinstance(found, Frame) else None


def assert_alike(native: Any, data: bytes, terms: Terms = EVERYTHING) -> None:
    assert by_kernel(native, data, terms) == by_reference(data, terms)


def test_every_kind_of_entry(native: Any) -> None:
    assert_alike(native, EVERY_KIND)


@pytest.mark.parametrize("seed", range(40))
def test_random_logs(native: Any, seed: int) -> None:
    data = random_log(seed)
    for terms in (EVERYTHING, (30, 0, 0), (MAX_LONG, 50, 90), (45, 20, 1000)):
        assert_alike(native, data, terms)


@pytest.mark.slow
def test_there_is_something_to_compare() -> None:
    found = [by_reference(random_log(seed), EVERYTHING)[1] for seed in range(40)]
    assert sum(len(one["pending"]) for one in found) > 40
    assert any(row.value is None for one in found for row in one["committed"])
    assert all(len(one["committed"]) >= 8 for one in found)
    assert sum(one["foreign"] for one in found) > 10


def test_the_kernel_does_it_alone(native: Any) -> None:
    data = random_log(1)
    replay, work = native.CommitReplay(*EVERYTHING, bytes(16), KeptCommit), native.Workspace()
    at, why = replay.take(data, 0, len(data), work)
    assert why in (native.DONE, native.BODY)
    assert at > 0


@pytest.mark.parametrize("seed", range(30))
def test_damage(native: Any, seed: int) -> None:
    rng, data = random.Random(seed), bytearray(random_log(seed, 8))
    for _ in range(40):
        wounded = bytearray(data)
        wounded[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        assert_alike(native, bytes(wounded))
        heal_checksums(wounded)
        assert_alike(native, bytes(wounded))


ANY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@ANY
@given(st.binary(max_size=80), st.integers(-2, 40), st.sampled_from(["none", "gzip", "zstd"]))
def test_any_body(native: Any, body: bytes, count: int, codec: str) -> None:
    assert_alike(native, raw_batch(body, codec=codec, records_count=count))


@ANY
@given(st.binary(max_size=200))
def test_any_bytes(native: Any, data: bytes) -> None:
    assert_alike(native, data)
