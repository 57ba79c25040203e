"""The transaction coordinators at hand: the partitions of `__transaction_state` in some log dirs, loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.coordinator.committed_offsets import find_partition_count
from klogtool.broker.coordinator.transaction_state import CoordinatorPartition, TransactionMetadata, load_transactions
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.errors import KlogError
from klogtool.format.batch import NO_PRODUCER_ID
from klogtool.format.names import TRANSACTIONS_TOPIC
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition

USUAL_PARTITIONS = 50  # transaction.state.log.num.partitions


class Coordinators:
    """What the coordinators at hand know. expected: how many partitions `__transaction_state` has.

    problems: errors of partitions that could not be loaded; those are not at hand.
    """

    def __init__(
        self, partitions: Iterable[CoordinatorPartition], expected: int, problems: Sequence[KlogError] = ()
    ) -> None:
        self.partitions = {one.partition: one for one in sorted(partitions, key=lambda one: one.end_offset)}
        self.expected, self.problems = expected, tuple(problems)

    @property
    def is_whole(self) -> bool:
        """Whether every partition is at hand, so that a producer that is not found has no transactional id."""
        return set(self.partitions) == set(range(self.expected))

    def find(self, producer_id: int) -> TransactionMetadata | None:
        """Return the transactional id that has this producer id now (TransactionStateManager.listTransactionStates)."""
        return self._by_producer.get(producer_id)

    def find_former(self, producer_id: int) -> TransactionMetadata | None:
        """Return the transactional id that had this producer id before its current one, or gets it next."""
        return self._by_former.get(producer_id)

    @cached_property
    def _by_producer(self) -> dict[int, TransactionMetadata]:
        return {one.producer_id: one for one in self._all()}

    @cached_property
    def _by_former(self) -> dict[int, TransactionMetadata]:
        by_id = {former: one for one in self._all() for former in (one.previous_producer_id, one.next_producer_id)}
        by_id.pop(NO_PRODUCER_ID, None)
        return by_id

    def _all(self) -> Iterator[TransactionMetadata]:
        for partition in self.partitions.values():
            yield from partition.latest.values()


def find_coordinators(
    paths: Sequence[str], circumstances: Circumstances, jobs: int | None = None, *, with_ends: bool = False
) -> Coordinators:
    """Load every `__transaction_state` partition in these log dirs, around these partition dirs, and in these partition
    dirs themselves. If several log dirs have the same partition, the copy that ends last counts.

    with_ends: see `load_transactions`. Raises KlogError if a path is neither kind of dir.
    """
    known = {folder: Checkpoints.of(folder) for folder in map(_folder_of, paths)}
    loaded: list[CoordinatorPartition] = []
    problems: list[KlogError] = []
    general = replace(circumstances, recovery_point=None, log_start_offset=None, high_watermark=None)
    inside = [partition.path for folder in known for partition in LogDir(folder).partitions]
    for path in filter(_is_of_topic, dict.fromkeys((*inside, *map(os.path.abspath, paths)))):
        try:
            checkpoints = known[os.path.dirname(path)]
            log = load(path, general, jobs, checkpoints).log
            one = load_transactions(log, Partition(path).partition or 0, with_ends=with_ends)
            loaded += [] if one is None else [one]
        except KlogError as error:
            problems.append(error.at_path(path))
    return Coordinators(loaded, _expected(known.values()), problems)


def clusters_of(paths: Sequence[str]) -> list[str]:
    """Return the ids of the clusters that these log dirs and partition dirs belong to, as far as meta.properties says.
    Producer ids mean something only within one cluster. Raises KlogError if a path is neither kind of dir."""
    ids = set()
    for folder in dict.fromkeys(map(_folder_of, paths)):
        with suppress(KlogError):  # a broken meta.properties is verify's
            identity = LogDir(folder).meta_properties
            ids.add(None if identity is None else identity.cluster_id)
    return sorted(one for one in ids if one)


def _folder_of(path: str) -> str:
    """Return the folder that has the partition dirs: the log dir, or what a partition dir is in."""
    whole = os.path.abspath(path)
    return whole if isinstance(open_path(whole), LogDir) else os.path.dirname(whole)


def _is_of_topic(path: str) -> bool:
    partition = Partition(path)
    return partition.topic == TRANSACTIONS_TOPIC and partition.state.is_current


def _expected(log_dirs: Iterable[Checkpoints]) -> int:
    """Return how many partitions the topic has, by the first `__cluster_metadata` that knows it; else Kafka's
    default."""
    return find_partition_count(log_dirs, TRANSACTIONS_TOPIC) or USUAL_PARTITIONS
