"""A replay of producers: as ProducerStateManager would have it, the same by both readers, whatever the log is."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_batches import raw_batch
from recovery_logs import BASE_OFFSET, PRODUCERS, recovery_log, wounded
from replayed import replayed
from running import FIXTURES
from verifying import data, marker

from klogtool import kernels
from klogtool.format import producer_replay
from klogtool.format.batch import CONTROL_BIT, TRANSACTIONAL_BIT, RecordBatch
from klogtool.format.indexes import AbortedTxn
from klogtool.format.producer_replay import Aborted, ProducerReplay, ReplayStop
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.log import producer_replay as log_replay
from klogtool.log.file import LogFile
from klogtool.log.partition import Partition
from klogtool.log.producer_replay import Halt, KeptHeaders, make_replay, replay_segment
from klogtool.log.producer_state import ProducerStateManager
from klogtool.log.proving import RowPool, walk_proved

Path = pathlib.Path
KERNEL, REFERENCE = "kernel", "reference"


def replay_of(reader: str, log_start_offset: int = 0) -> ProducerReplay:
    if reader == REFERENCE:
        return ProducerReplay(log_start_offset)
    if not kernels.is_built():
        pytest.skip("needs the extension, which is not built")
    fast = make_replay(log_start_offset)
    assert type(fast) is kernels.native.ProducerReplay
    return fast


@pytest.fixture(params=[REFERENCE, KERNEL])
def replay(request: pytest.FixtureRequest) -> ProducerReplay:
    return replay_of(request.param)


def take_all(replay: ProducerReplay, path: Path, *marks: int) -> list[Halt]:
    return list(replay_segment(replay, str(path), [(0, path.stat().st_size)], marks))


def as_entry(txn: Aborted) -> AbortedTxn:
    return AbortedTxn(0, txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)


def known(replay: ProducerReplay, producer_ids: Iterator[int] | list[int]) -> list[ProducerStateEntry]:
    return [found[0] for producer_id in producer_ids if (found := replay.find(producer_id)) is not None]


PARTITIONS = [
    "transactions/logdir/t-0",
    "transactions/logdir/t-1",
    "transactions/logdir/__transaction_state-0",
    "compacted/result-2/keep-0",
    "compacted/result-2/gone-0",
    "three-magics/logdir/packed-0",
    "metadata/logdir/__cluster_metadata-0",
    "every-codec/logdir/create-1",
]


@pytest.mark.parametrize("name", PARTITIONS)
def test_it_knows_what_recovery_would_know(replay: ProducerReplay, name: str) -> None:
    manager, aborted = ProducerStateManager(), []
    for segment in Partition(str(FIXTURES / name)).segments:
        for batch in segment.batches():
            if isinstance(batch, RecordBatch) and (entry := manager.apply(batch)) is not None:
                aborted.append(entry)
        assert take_all(replay, Path(segment.path)) == []
    assert known(replay, list(manager.producers)) == [
        manager.producers[p].as_snapshot_entry() for p in manager.producers
    ]
    assert [as_entry(txn) for txn in replay.fetch_aborted()] == aborted
    assert replay.open_txns() == [(txn.first_offset, txn.producer_id) for txn in manager.ongoing_txns]


# ---------------------------------------------------------------- what is told beside


def feed(replay: ProducerReplay, *batches: bytes) -> tuple[int, int]:
    joined = memoryview(b"".join(batches))
    return replay.take(joined, 0, len(joined), None)


def the_aborted(replay: ProducerReplay) -> Aborted:
    (txn,) = replay.fetch_aborted()
    return txn


def test_what_a_reader_sees_of_a_transaction(replay: ProducerReplay) -> None:
    feed(replay, emptied(0, 1, 7), data(2, 7, 2, count=3), data(5, 7, 5), marker(6, 7))
    txn = the_aborted(replay)
    assert (txn.first_offset, txn.visible_from, txn.visible_to, txn.last_offset) == (0, 2, 4, 6)


def test_below_the_log_start_nobody_sees_anything() -> None:
    for reader in (REFERENCE, KERNEL):
        replay = replay_of(reader, 3)
        feed(replay, data(0, 7, count=3), data(3, 7, 3), marker(4, 7), data(5, 8, count=1), marker(6, 8))
        assert [txn.visible_from for txn in replay.fetch_aborted()] == [3, 5]


def emptied(first: int, last: int, producer_id: int) -> bytes:
    return raw_batch(
        b"",
        base_offset=first,
        last_offset_delta=last - first,
        attributes=TRANSACTIONAL_BIT,
        base_timestamp=-1,
        max_timestamp=5,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        records_count=0,
    )


def test_what_a_producer_did_before(replay: ProducerReplay) -> None:
    feed(replay, data(0, 7), marker(1, 7, "commit"), data(2, 7, 1), marker(3, 7))
    assert the_aborted(replay).before == 1
    feed(replay, data(4, 7, 2), marker(5, 7))
    assert the_aborted(replay).before == 3
    feed(replay, data(6, 9, txn=False), data(7, 9, 1), marker(8, 9))
    assert the_aborted(replay).before == 6


def test_which_transactions_were_open(replay: ProducerReplay) -> None:
    feed(replay, emptied(0, 0, 5), data(1, 6), data(2, 7), marker(3, 7))
    txn = the_aborted(replay)
    assert (txn.last_stable_offset, txn.open_from) == (0, 1)
    feed(replay, marker(4, 6))
    assert the_aborted(replay).open_from == -1
    feed(replay, marker(5, 5))
    assert the_aborted(replay).last_stable_offset == 6


def test_aborts_without_a_transaction(replay: ProducerReplay) -> None:
    feed(replay, marker(0, 7), data(1, 8, txn=False), marker(2, 8), marker(3, 8, "commit"))
    assert replay.fetch_lone_aborts() == [(0, 7, -1), (2, 8, 1)]
    assert replay.fetch_lone_aborts() == []
    assert replay.fetch_aborted() == []


def test_what_is_open_where_some_of_the_log_is_missing_is_doubtful(replay: ProducerReplay) -> None:
    feed(replay, data(0, 7))
    replay.lose_track()
    feed(replay, data(1, 8), marker(2, 8), marker(3, 7), data(4, 7, 1), marker(5, 7))
    assert [txn.is_known for txn in replay.fetch_aborted()] == [True, False, True]


def test_a_mark_amid_the_log(replay: ProducerReplay, tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(
        b"".join([data(0, 7, count=5, txn=False), data(5, 7, 5, txn=False), data(10), data(11, 7, 6, txn=False)])
    )
    seen = []
    for halt in replay_segment(replay, str(log), [(0, log.stat().st_size)], [0, 3, 5, 11, 12, 99]):
        (entry,) = known(replay, [7]) or [None]
        seen.append((halt.mark, entry and entry.last_offset))
    assert seen == [(0, None), (3, 4), (5, 4), (11, 5), (12, 11), (99, 11)]


def test_only_the_spans_are_read(replay: ProducerReplay, tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    pieces = [data(0, 7, txn=False), b"garbage", data(1, 7, 1, txn=False)]
    log.write_bytes(b"".join(pieces))
    at = len(pieces[0])
    assert list(replay_segment(replay, str(log), [(0, at), (at + 7, log.stat().st_size)])) == []
    assert known(replay, [7])[0].last_offset == 1


# ---------------------------------------------------------------- what cannot be


def test_data_out_of_its_transaction_is_left_out(replay: ProducerReplay, tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    pieces = [data(0, 7), data(1, 7, 1, txn=False), marker(2, 7)]
    log.write_bytes(b"".join(pieces))
    (halt,) = take_all(replay, log)
    assert (halt.why, halt.position, halt.size) == (ReplayStop.IMPOSSIBLE, len(pieces[0]), len(pieces[1]))
    assert the_aborted(replay).first_offset == 0


def control(key: bytes | None, value: bytes | None, **fields: Any) -> bytes:
    from raw_batches import build_batch

    from klogtool.format.batch import Record

    fields = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True, "is_control": True, **fields}
    return build_batch([Record(3, 1_700_000_000_000, key, value)], **fields)


@pytest.mark.parametrize(
    "batch",
    [
        control(b"", b"\0" * 6),
        control(None, b"\0" * 6),
        control(b"\0\0\0\0", b"\0"),
        control(b"\xff\xff\0\0", b"\0" * 6),
        control(b"\0\0\0\5", b"\0" * 6),
        control(b"\0\0\0\0", None),
    ],
)
def test_a_marker_that_cannot_be_read(replay: ProducerReplay, batch: bytes, tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(data(0, 7) + batch + data(4, 7, 1))
    (halt,) = take_all(replay, log)
    assert (halt.why, halt.size) == (ReplayStop.IMPOSSIBLE, len(batch))
    assert known(replay, [7])[0].last_offset == 4


@pytest.mark.parametrize("fields", [{"codec": "gzip"}, {"delete_horizon_ms": 5}, {"log_append_time": 9}])
def test_a_marker_of_an_unusual_kind(replay: ProducerReplay, fields: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(data(0, 7) + control(b"\0\0\0\0\1\1", b"\0\0\0\0\0\5\1", **fields))
    assert take_all(replay, log) == []
    assert the_aborted(replay).last_offset == 3
    assert known(replay, [7])[0].coordinator_epoch == 5


def test_an_emptied_marker_is_nothing(replay: ProducerReplay) -> None:
    batch = bytearray(emptied(3, 3, 7))
    batch[22] |= CONTROL_BIT
    feed(replay, bytes(batch))
    assert replay.find(7) is None


def test_very_many_producers_are_too_many(replay: ProducerReplay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_replay, "MOST_PRODUCERS", 1000)
    most = 1 << 18 if type(replay) is not ProducerReplay else 1000
    one = bytearray(data(0, 1, txn=False))
    for producer_id in range(most):
        one[43:51] = producer_id.to_bytes(8, "big")
        assert replay.take(memoryview(one), 0, len(one), None) == (len(one), ReplayStop.DONE)
    one[43:51] = most.to_bytes(8, "big")
    assert replay.take(memoryview(one), 0, len(one), None) == (0, ReplayStop.FULL)
    one[43:51] = (5).to_bytes(8, "big")
    assert replay.take(memoryview(one), 0, len(one), None) == (len(one), ReplayStop.DONE)


def test_a_kernel_refuses_places_outside_of_its_data() -> None:
    replay = replay_of(KERNEL)
    for at, cut in ((-1, 5), (3, 2), (0, 11), (11, 11)):
        with pytest.raises(ValueError, match="to lie in the data"):
            replay.take(memoryview(bytes(10)), at, cut, None)


# ---------------------------------------------------------------- both readers

batches = st.one_of(
    st.builds(
        data,
        st.integers(0, 2**40),
        st.sampled_from([-1, 1, 2, 3, 2**62]),
        st.integers(0, 9),
        count=st.integers(1, 3),
        epoch=st.integers(0, 2),
        txn=st.booleans(),
    ),
    st.builds(
        marker,
        st.integers(0, 2**40),
        st.sampled_from([1, 2, 3, 2**62]),
        st.sampled_from(["commit", "abort"]),
        epoch=st.integers(0, 2),
    ),
    st.builds(emptied, st.integers(0, 9), st.integers(9, 20), st.sampled_from([1, 2])),
)


@given(st.lists(batches, max_size=40), st.integers(0, 2**40), st.integers(0, 2**41))
def test_both_readers_tell_the_same(log: list[bytes], log_start_offset: int, mark: int) -> None:
    joined = memoryview(b"".join(log))
    reference, kernel = (
        replayed(replay_of(reader, log_start_offset), joined, len(joined), [mark], (1, 2, 3, 2**62, 5))
        for reader in (REFERENCE, KERNEL)
    )
    assert kernel == reference


@pytest.mark.slow
def test_both_readers_tell_the_same_of_damaged_logs() -> None:
    rng = random.Random(1)
    for _ in range(300):
        log = recovery_log(rng, rng.choice((5, 60)))
        data = memoryview(wounded(rng, log) if rng.random() < 0.5 else log)
        marks = [BASE_OFFSET + rng.randrange(100) for _ in range(rng.randrange(3))]
        start = rng.choice((0, BASE_OFFSET + 20))
        reference, kernel = (
            replayed(replay_of(reader, start), data, len(data), marks, PRODUCERS) for reader in (REFERENCE, KERNEL)
        )
        assert kernel == reference


def kept_headers(path: Path) -> KeptHeaders:
    kept = KeptHeaders()
    with LogFile(path) as file:
        for proved in walk_proved(file, 0, RowPool(), end=file.size):
            assert proved.reached == file.size
            for rows, count in proved.rows:
                kept.add(rows, count)
    return kept


def test_kept_headers_tell_what_the_log_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of data in and out of transactions, also where Kafka would refuse it, whatever the order of the offsets."""
    monkeypatch.setattr(log_replay, "LEAST_BATCH_BYTES", 0)
    rng, path, halts = random.Random(5), tmp_path / "a.log", 0
    for _ in range(100):
        producers = [rng.choice((-1, 1, 2, 2**62)) for _ in range(rng.randrange(1, 40))]
        bases = [rng.randrange(200) for _ in producers]
        path.write_bytes(
            b"".join(
                data(base, id_, rng.randrange(9), count=rng.randrange(1, 4), txn=id_ > 0 and rng.random() < 0.5)
                for base, id_ in zip(bases, producers, strict=True)
            )
        )
        marks = sorted(rng.randrange(220) for _ in range(rng.randrange(4)))
        read, kept = make_replay(0), make_replay(0)
        expected = take_all(read, path, *marks)
        headers = kept_headers(path)
        assert headers.is_whole
        assert list(headers.replay(kept, marks)) == expected
        assert known(kept, producers) == known(read, producers)
        assert kept.open_txns() == read.open_txns()
        halts += len(expected)
    assert halts > 100


def test_headers_of_small_batches_and_of_markers_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(data(0, 1, 0) * 3)
    assert not kept_headers(path).is_whole
    path.write_bytes(raw_batch(b"x" * 9000, producer_id=1, producer_epoch=0, base_sequence=0))
    assert kept_headers(path).is_whole
    path.write_bytes(path.read_bytes() + marker(1, 1, "commit"))
    assert not kept_headers(path).is_whole
