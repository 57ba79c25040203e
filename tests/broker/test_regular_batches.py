"""Recovery with the kernel and without: the same indexes, epochs, producers, cut and error, whatever the log."""

from __future__ import annotations

import itertools
import pathlib
import random
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from raw_batches import build_batch
from readers import READERS, Reader
from recovered import LOG_NAME, drawn_config, recover, recover_with, state_of
from recovery_logs import BASE_OFFSET, TIMESTAMP, recovery_log, wounded

from klogtool import kernels
from klogtool.broker.config import LogConfig
from klogtool.broker.content import FileRange
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log import kernel_recovery, mapped_windows
from klogtool.broker.unified_log.log_segment import LogSegment, walk_valid
from klogtool.broker.unified_log.segment_recovery import SegmentRecovery
from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)
from klogtool.log import mapped
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.log.producer_state import ProducerStateManager

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="the kernels are not built")

LOGS_A_SEED = 40


@pytest.mark.some(6)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("jobs", [1, 2])
def test_both_readers_leave_the_same_behind(tmp_path: pathlib.Path, seed: int, jobs: int) -> None:
    """Small spans, mapped, so that a log has many of them."""
    errors = set()
    for n in range(LOGS_A_SEED):
        rng = random.Random(f"{seed}-{n}")
        log = recovery_log(rng, rng.choice((0, 1, 5, 60, 300)))
        (tmp_path / LOG_NAME).write_bytes(wounded(rng, log))
        config, again = drawn_config(rng), f"{seed}-{n}"
        spans = patch.object(mapped_windows, "SPAN_BYTES", rng.choice((300, 2000, 8 << 20)))
        with spans, patch.object(mapped, "MAPPED_FROM_BYTES", rng.choice((1, 1 << 20))):
            kernel = recover_with("kernel", Draft.of(str(tmp_path)), again, config, jobs)
        reference = recover_with("reference", Draft.of(str(tmp_path)), again, config)
        assert kernel == reference, f"log {n} of seed {seed}"
        errors.add(str(kernel["error"] or kernel["stopped_by"]))
    assert len(errors) > 1


def write_log(folder: pathlib.Path, *batches: bytes) -> None:
    (folder / LOG_NAME).write_bytes(b"".join(batches))


def batch_at(offset: int, **fields: Any) -> bytes:
    return build_batch([Record(offset, TIMESTAMP + offset, None, b"v" * 50)], **fields)


def taken_by_reference(folder: pathlib.Path, config: LogConfig | None = None) -> int:
    """How many batches the kernel left alone."""
    count = 0
    take = SegmentRecovery.take

    def counted(self: SegmentRecovery, entry: Any) -> None:
        nonlocal count
        count += 1
        take(self, entry)

    with patch.object(SegmentRecovery, "take", counted):
        recover(Draft.of(str(folder)), "x", config or LogConfig())
    return count


def test_the_kernel_does_nearly_all_of_an_ordinary_log(tmp_path: pathlib.Path) -> None:
    write_log(
        tmp_path,
        *(
            batch_at(BASE_OFFSET + n, partition_leader_epoch=n // 100, producer_id=n % 7, producer_epoch=0)
            for n in range(300)
        ),
    )
    assert taken_by_reference(tmp_path) == 3  # the first batch of each epoch


def test_a_batch_larger_than_a_span_is_the_kernels(tmp_path: pathlib.Path) -> None:
    large = build_batch([Record(BASE_OFFSET + 1, TIMESTAMP, None, bytes(3 << 20))])
    write_log(tmp_path, batch_at(BASE_OFFSET), large, batch_at(BASE_OFFSET + 2))
    with patch.object(mapped_windows, "SPAN_BYTES", 1 << 20):
        assert taken_by_reference(tmp_path) == 0


def test_a_log_of_nothing_but_exceptions_is_not_gone_over_again_and_again(tmp_path: pathlib.Path) -> None:
    """Each begins an epoch: the reference gets more of them at a time, and not a window for each."""
    write_log(tmp_path, *(batch_at(BASE_OFFSET + n, partition_leader_epoch=n) for n in range(1000)))
    walks = 0
    walk = walk_valid

    def counted(*arguments: Any) -> Any:
        nonlocal walks
        walks += 1
        return walk(*arguments)

    with patch.object(kernel_recovery, "walk_valid", counted):
        recover(Draft.of(str(tmp_path)), "x", LogConfig())
    assert walks < 40


def transactions(count: int) -> Iterator[bytes]:
    """Each of a batch and its marker, every third aborted; three producers in turn, so that two others are open."""
    for n in range(count):
        fields: dict[str, Any] = {"producer_epoch": 0, "is_transactional": True}
        yield batch_at(BASE_OFFSET + 2 * n, producer_id=n % 3, base_sequence=n, **fields)
        if n >= 2:
            kind = ControlRecordType.ABORT if n % 3 == 0 else ControlRecordType.COMMIT
            marker = EndTransactionMarker(kind, 5)
            record = Record(BASE_OFFSET + 2 * n + 1, TIMESTAMP, *marker_bytes(marker))
            yield build_batch([record], producer_id=(n - 2) % 3, is_control=True, **fields)


def marker_bytes(marker: EndTransactionMarker) -> tuple[bytes, bytes]:
    return build_control_key(marker.type), build_end_transaction_marker(marker)


@pytest.mark.parametrize("keeps_ended", [True, False])
def test_ended_transactions_are_kept_only_if_somebody_may_ask(tmp_path: pathlib.Path, keeps_ended: bool) -> None:
    write_log(tmp_path, *transactions(200))
    left = []
    for reader in READERS:
        with Reader(reader).reading():
            draft = Draft.of(str(tmp_path))
            producers = ProducerStateManager()
            producers.keeps_ended = keeps_ended
            segment = LogSegment(draft, BASE_OFFSET, LogConfig())
            SegmentRecovery(segment, LeaderEpochFileCache(), producers, 1).run()
            left.append((state_of(producers), segment.txn_index.parse()))
    assert left[0] == left[1]
    assert len(left[0][1]) == 66
    assert bool(left[0][0]["ended"]) == keeps_ended


def test_the_kernel_takes_transactions_and_their_markers(tmp_path: pathlib.Path) -> None:
    write_log(tmp_path, *transactions(200))
    assert taken_by_reference(tmp_path, LogConfig(index_interval_bytes=100)) == 0


def test_a_log_in_pieces_of_several_files(tmp_path: pathlib.Path) -> None:
    """As it is after a split, or in a copy that is filled from a replica."""
    whole = recovery_log(random.Random(9), 200)
    cut = len(whole) // 3
    (tmp_path / "a").write_bytes(whole[:cut])
    (tmp_path / "b").write_bytes(b"xyz" + whole[cut : 2 * cut])
    content = (
        FileRange(str(tmp_path / "a"), 0, cut),
        FileRange(str(tmp_path / "b"), 3, 3 + cut),
        whole[2 * cut :],
    )
    left = []
    for reader in READERS:
        spans = patch.object(mapped_windows, "SPAN_BYTES", 3000)
        with Reader(reader).reading(), spans, patch.object(mapped, "MAPPED_FROM_BYTES", 1):
            draft = Draft(str(tmp_path), {})
            draft.write(LOG_NAME, content)
            segment = LogSegment(draft, BASE_OFFSET, LogConfig())
            recovery = SegmentRecovery(segment, LeaderEpochFileCache(), ProducerStateManager(), 2)
            recovery.run()
            left.append((recovery.valid_bytes, bytes(segment.offset_index.data), state_of(recovery.producers)))
    assert left[0] == left[1]


def test_a_file_that_is_cut_meanwhile_is_told_of(tmp_path: pathlib.Path) -> None:
    """The pages are gone while the kernel reads them: an error, not zeros that look like damage, nor SIGBUS."""
    write_log(tmp_path, *(batch_at(BASE_OFFSET + n) for n in range(3000)))
    path = tmp_path / LOG_NAME
    read = mapped.MappedReads.read

    def cut_behind(self: mapped.MappedReads, at: int, size: int) -> memoryview:
        view = read(self, at, size)
        with path.open("r+b") as file:
            file.truncate(5000)
        return view

    with patch.object(mapped, "MAPPED_FROM_BYTES", 1), patch.object(mapped.MappedReads, "read", cut_behind):
        found = recover(Draft.of(str(tmp_path)), "x", LogConfig())
    assert found["error"] is not None
    assert "shorter" in str(found["error"][2])
    assert found["truncated"] is None


@pytest.mark.parametrize("reader", READERS)
def test_a_log_needs_order_if_the_densest_index_cannot_hold_its_batches(tmp_path: pathlib.Path, reader: str) -> None:
    """The smallest interval makes an entry for each batch but the first; a larger one says without entries that such an
    index could not be."""
    seen = set()
    for offsets, times in itertools.product(itertools.product(range(3), repeat=3), repeat=2):
        pairs = zip(offsets, times, strict=True)
        batches = [build_batch([Record(BASE_OFFSET + at, TIMESTAMP + t, b"k", b"v", ())]) for at, t in pairs]
        (tmp_path / LOG_NAME).write_bytes(b"".join(batches))
        needs, error = (ordered(tmp_path, reader, interval) for interval in (1 << 20, 1))
        assert needs[0] == (error[1] is not None), (offsets, times)
        assert needs[1] is None or not needs[0]
        seen.add(needs)
    assert len(seen) > 1


def ordered(folder: pathlib.Path, reader: str, interval: int) -> tuple[bool, str | None]:
    """Whether a recovery says that the log needs order, and the error with which it ends."""
    with Reader(reader).reading():
        segment = LogSegment(Draft.of(str(folder)), BASE_OFFSET, LogConfig(index_interval_bytes=interval))
        recovery = SegmentRecovery(segment, LeaderEpochFileCache(), ProducerStateManager(), 1)
        try:
            recovery.run()
        except KlogError as error:
            return recovery.needs_order, error.kafka_class
    return recovery.needs_order, None
