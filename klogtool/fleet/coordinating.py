"""What transactions and groups have left on one broker: for `fleet check --restored`. Read-only.

A copy says which transactions are open in it, and how the last ones ended. `__transaction_state` says what coordinators
will still end; `__consumer_offsets` what groups have committed. Whether these fit is only seen over all disks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.coordinator import committed_offsets, transaction_state
from klogtool.broker.unified_log.loaded_partition import LoadedPartition, load
from klogtool.broker.unified_log.log_segment import walk_entries
from klogtool.errors import KlogError
from klogtool.fleet.collected import MOST_LISTED, Collected, CommitFacts, CopyFacts, ProducerFacts, TransactionFacts
from klogtool.format.batch import RecordBatch
from klogtool.format.control import parse_end_transaction_marker
from klogtool.format.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klogtool.format.producers import NO_COORDINATOR_EPOCH, ProducerState
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition

MOST_IDEMPOTENT = 100  # producers without a transaction of a copy: each restart of a client makes a new one


def without_names(file: Collected) -> Collected:
    """Return the facts with digests in place of group names and transactional ids: these are in keys of records, and a
    file of `fleet collect` promises to have none."""
    return replace(
        file,
        commits=tuple(replace(one, group=_digest("group", one.group)) for one in file.commits),
        transactions=tuple(
            replace(one, transactional_id=_digest("transactional-id", one.transactional_id))
            for one in file.transactions
        ),
    )


def _digest(kind: str, name: str) -> str:
    return f"{kind}-{hashlib.blake2b(name.encode(errors='surrogateescape'), digest_size=6).hexdigest()}"


def find_producers(
    path: str, circumstances: Circumstances, checkpoints: Checkpoints, jobs: int
) -> tuple[ProducerFacts, ...] | None:
    """Return the producers that a broker knows once it has loaded the log: all with transactions, and of the others
    those that wrote last. None if it cannot load it."""
    try:
        loaded = load(path, circumstances, jobs, checkpoints)
        known = loaded.log.producers.producers.values()
        has_markers = any(one.coordinator_epoch != NO_COORDINATOR_EPOCH for one in known)
        markers = _last_markers(loaded) if has_markers else {}
    except KlogError:  # what is wrong with the log is said by the copy's own facts
        return None
    idempotent: list[ProducerState] = []
    listed: list[ProducerState] = []
    for one in known:
        has_txn = one.current_txn_first_offset is not None or one.producer_id in markers
        (listed if has_txn else idempotent).append(one)
    listed += sorted(idempotent, key=lambda one: -one.last_data_offset)[:MOST_IDEMPOTENT]
    listed.sort(key=lambda one: one.producer_id)
    return tuple(_facts_of(one, *markers.get(one.producer_id, ())) for one in listed[:MOST_LISTED])


def _facts_of(
    known: ProducerState, marker_epoch: int | None = None, marker_ms: int | None = None, is_abort: bool | None = None
) -> ProducerFacts:
    return ProducerFacts(
        known.producer_id,
        known.producer_epoch,
        known.current_txn_first_offset,
        marker_epoch,
        marker_ms,
        is_abort,
        known.last_sequence,
        known.last_data_offset,
    )


def _last_markers(loaded: LoadedPartition) -> dict[int, tuple[int, int, bool]]:
    """Return epoch, timestamp and kind of each producer's last marker in the active segment."""
    markers = {}
    with loaded.log.segments.last.open_log() as file:
        for entry in walk_entries(file):
            if not (isinstance(entry, RecordBatch) and entry.is_control and entry.is_transactional):
                continue
            record = next(iter(entry.records()), None)
            marker = None if record is None else parse_end_transaction_marker(record.key, record.value)
            if record is not None and marker is not None:
                markers[entry.producer_id] = entry.producer_epoch, record.timestamp or 0, marker.is_abort
    return markers


def walk_commits(log_dirs: Sequence[LogDir], jobs: int) -> Iterator[CommitFacts]:
    """Yield the committed offsets, partition after partition of `__consumer_offsets`."""
    copies = committed_offsets.find_copies(log_dirs, OFFSETS_TOPIC)
    for number in sorted(copies):
        for one in committed_offsets.load_offsets(copies[number][:1], jobs=jobs).committed:
            commit = one.commit
            yield CommitFacts(number, commit.group, commit.topic, commit.partition, commit.offset)


def walk_transactional_ids(
    copies: Sequence[CopyFacts], log_dirs: Sequence[LogDir], circumstances: Circumstances, jobs: int
) -> Iterator[TransactionFacts]:
    """Yield the transactional ids of each partition of `__transaction_state` that its coordinator can load."""
    for log_dir in log_dirs:
        checkpoints = Checkpoints(log_dir.path)
        for copy in copies:
            if copy.topic == TRANSACTIONS_TOPIC and copy.state == "current" and copy.log_dir == log_dir.path:
                yield from _ids_of(Partition(f"{log_dir.path}/{copy.folder}"), copy, circumstances, checkpoints, jobs)


def _ids_of(
    partition: Partition, copy: CopyFacts, circumstances: Circumstances, checkpoints: Checkpoints, jobs: int
) -> Iterator[TransactionFacts]:
    try:
        log = load(partition.path, circumstances, jobs, checkpoints).log
        loaded = transaction_state.load_transactions(log, copy.partition)
    except KlogError:  # a coordinator cannot load it either: the copy's own facts say why
        return
    for one in () if loaded is None else loaded.latest.values():
        named = tuple(sorted((name.topic, name.partition) for name in one.partitions))[:MOST_LISTED]
        yield TransactionFacts(
            one.coordinator,
            one.transactional_id,
            one.producer_id,
            one.producer_epoch,
            one.state.told,
            named,
            one.start_ms,
        )
