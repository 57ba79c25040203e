"""What recovery leaves behind, all of it, to be compared: once with the kernel, once without."""

from __future__ import annotations

import random
from typing import Any

from readers import Reader, told
from recovery_logs import BASE_OFFSET, PRODUCERS, TIMESTAMP

from klogtool.broker.config import LogConfig
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.segment_recovery import SegmentRecovery
from klogtool.errors import KlogError
from klogtool.format.checkpoints import EpochEntry
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.log.leader_epochs import LeaderEpochFileCache
from klogtool.log.producer_state import ProducerStateManager

LOG_NAME = f"{BASE_OFFSET:020d}.log"


def drawn_config(rng: random.Random) -> LogConfig:
    """Index entries for every batch, or for few; indexes with room, or with hardly any."""
    return LogConfig(
        index_interval_bytes=rng.choice((0, 100, 1000, 4096)), segment_index_bytes=rng.choice((10 << 20, 10 << 20, 130))
    )


def drawn_producers(rng: random.Random) -> ProducerStateManager:
    """What a snapshot may have told: some producers, with and without a batch, some with a transaction open."""
    producers = ProducerStateManager()
    producers.load(
        [
            ProducerStateEntry(
                producer_id,
                producer_epoch=rng.choice((0, 1)),
                last_sequence=5,
                last_offset=rng.choice((-1, 3)),
                offset_delta=2,
                timestamp=TIMESTAMP,
                coordinator_epoch=rng.choice((-1, 4)),
                current_txn_first_offset=rng.choice((None, producer_id % 1000)),
            )
            for producer_id in rng.sample(PRODUCERS, rng.randrange(4))
        ],
        TIMESTAMP,
        10**9,
    )
    return producers


def state_of(producers: ProducerStateManager) -> dict[str, Any]:
    """All that is known of producers, in the order that decides how a snapshot is written."""
    return {
        "producers": [(p.as_snapshot_entry(), list(p.batches)) for p in producers.producers.values()],
        "snapshot": producers.snapshot_entries(),
        "ongoing": producers.ongoing_txns,
        "ended": producers.unreplicated_txns,
        "end": producers.map_end_offset,
    }


def recover(draft: Draft, seed: str, config: LogConfig, jobs: int = 1) -> dict[str, Any]:
    """Recover the segment of a draft with whichever reader runs; all that is left behind. seed: of what was known."""
    rng = random.Random(seed)
    segment = LogSegment(draft, BASE_OFFSET, config)
    epochs = LeaderEpochFileCache([EpochEntry(0, 3)] if rng.random() < 0.5 else [])
    producers = drawn_producers(rng)
    recovery = SegmentRecovery(segment, epochs, producers, jobs)
    error, truncated = None, None
    try:
        truncated = recovery.run()
    except KlogError as ended_it:
        error = told(ended_it)
    segment.write_back()
    return {
        "error": error,
        "stopped_by": recovery.stopped_by and told(recovery.stopped_by),
        "truncated": truncated,
        "valid_bytes": recovery.valid_bytes,
        "bytes_since_entry": recovery.bytes_since_entry,
        "order": (recovery.previous_offset, recovery.needs_order),
        "max_timestamp": segment.max_timestamp_so_far,
        "epochs": (epochs.entries, epochs.due),
        "last_entries": (segment.offset_index.last_offset, segment.time_index.last_entry),
        **{name: draft.read(name) for name in draft.names() if name != LOG_NAME},
        **state_of(producers),
    }


def recover_with(reader: str, draft: Draft, seed: str, config: LogConfig, jobs: int = 1) -> dict[str, Any]:
    """The same with this reader; that it ran is made sure of."""
    with Reader(reader).reading() as native:
        found = recover(draft, seed, config, jobs)
    assert native is None or native.asked["Recovery"] == 1
    return found
