"""A set of restored disks: is it a cluster, and what does it lack? Pure.

The verdict is the doctor's, for a set: it starts, it starts and loses, it refuses. Then partition by partition what may
be lost, which groups are reset, which transactions are torn. Each is a bound: what a start can do at worst.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.coordinator.transaction_state import TransactionState
from klogtool.doctor.answers import Starts
from klogtool.errors import Refused
from klogtool.fleet.causes import FleetRefusal
from klogtool.fleet.collected import Brokers, Collected, CopyFacts, ProducerFacts, TransactionFacts
from klogtool.fleet.forecast import Forecast, walk_forecasts
from klogtool.fleet.node_starts import Foreseen, NodeStart
from klogtool.fleet.restored_identity import (
    SetTrouble,
    elect,
    find_foreseen,
    find_missing_directories,
    find_producer_ids,
    find_troubles,
    judge_quorum,
)
from klogtool.fleet.sequences import SequenceBehind, find_behind
from klogtool.format.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klogtool.quorum.election import Election

_Key = tuple[str, int]


class GroupReset(Struct, frozen=True, tag="reset"):
    """A committed offset that may be beyond the end of its log: auto.offset.reset decides where the group goes on.
    committed: the highest that a coordinator may have. is_certain: whichever brokers lead."""

    group: str
    topic: str
    partition: int
    committed: int
    log_end_offset: int
    is_certain: bool


class RestoreStep(Enum):
    """What to do before the brokers start, in this order."""

    MEND_IDS = "mend-ids"
    """What keeps a broker from its start."""
    DOCTOR = "doctor"
    """What the start of each disk loses by itself: `klogtool doctor` has the options."""
    FLEET_PLAN = "fleet-plan"
    """`fleet plan`, `fleet apply`, and the order of starts that the plan says."""
    NEWEST_METADATA = "newest-metadata-first"
    """The controller with the newest metadata starts with a bare majority, and leads before the others start."""
    AS_THE_BROKER = "as-the-broker"
    """All brokers are started together."""


class RestoreOption(Struct, frozen=True):
    """What can be done. lost_records: at most, once it is done; None: unknown. node_id: of the newest metadata;
    others: how many more controllers start with it."""

    number: int
    step: RestoreStep
    lost_records: int | None
    node_id: int | None = None
    others: int | None = None


class Fate(Enum):
    """What may become of a transaction in a copy, the worst first."""

    HANGS = "hangs"
    """It is open, and no coordinator ends it: the last stable offset stays before it."""
    TORN = "torn"
    """A coordinator that does not know how it ended ends it otherwise, here or on other partitions."""
    ABORTED = "aborted"
    """It is open, and its coordinator has not decided: it is aborted after its timeout."""
    COMMITTED = "committed"
    """It is open, and its coordinator has decided to commit it."""


class TransactionAhead(Struct, frozen=True, tag="transaction-ahead"):
    """A transaction in a copy of a broker that may lead. first_offset: of its data; None if it is ended in this copy.
    coordinator_node: the broker whose copy of `__transaction_state` decides this fate; None: no copy knows it."""

    fate: Fate
    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    topic: str
    partition: int
    node_id: int
    first_offset: int | None
    coordinator_node: int | None


class Restored(Struct, frozen=True):
    """The answer. metadata_from: brokers whose metadata may lead, the newest first. nodes: what the doctor says of each
    node that it was asked about."""

    starts: Starts
    brokers: Brokers
    troubles: tuple[SetTrouble, ...]
    election: Election | None
    metadata_from: Brokers
    forecasts: tuple[Forecast, ...] = ()
    resets: tuple[GroupReset, ...] = ()
    transactions: tuple[TransactionAhead, ...] = ()
    nodes: tuple[NodeStart, ...] = ()
    behind: tuple[SequenceBehind, ...] = ()

    @property
    def lacks_disks(self) -> bool:
        """Return whether the doctor looked at fewer nodes than the set has."""
        return len(self.nodes) < len(self.brokers)

    @property
    def lost_records(self) -> int | None:
        """Records that the start loses, at most; None: unknown."""
        return _sum(forecast.lost_records for forecast in self.forecasts)

    @property
    def gone_records(self) -> int | None:
        """Records that no disk of the set has; None: unknown."""
        return _sum(forecast.gone_records for forecast in self.forecasts)

    @property
    def lost_at_best(self) -> int | None:
        """Records that are lost at most if the best copies lead, as `fleet plan` arranges it; None: unknown."""
        return _sum(forecast.lost_at_best for forecast in self.forecasts)

    @property
    def lost_ms(self) -> int | None:
        """By how much the newest record of a partition may become older, at most; None: nothing tells."""
        known = [loss.lost_ms for one in self.forecasts for loss in one.losses if loss.lost_ms is not None]
        return max(known, default=None)


def walk_options(restored: Restored) -> Iterator[RestoreOption]:
    """Yield what to do, in order. Nothing if the set starts and loses nothing."""
    steps: list[tuple[RestoreStep, int | None]] = []
    if any(node.starts is not Starts.YES for node in restored.nodes):
        steps.append((RestoreStep.DOCTOR, None))
    if restored.starts is Starts.REFUSES:
        steps.append((RestoreStep.MEND_IDS, None))
    elif restored.starts is Starts.LOSES_DATA:
        if restored.lost_at_best != restored.lost_records or restored.lost_records is None:
            steps.append((RestoreStep.FLEET_PLAN, restored.lost_at_best))
        if len(restored.metadata_from) > 1:
            steps.append((RestoreStep.NEWEST_METADATA, restored.lost_records))
        steps.append((RestoreStep.AS_THE_BROKER, restored.lost_records))
    for number, (step, lost) in enumerate(steps, 1):
        if step is RestoreStep.NEWEST_METADATA and restored.election is not None:
            others = restored.election.majority - 1
            yield RestoreOption(number, step, lost, restored.metadata_from[0], others)
        else:
            yield RestoreOption(number, step, lost)


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def judge_set(files: Sequence[Collected]) -> Restored:
    """Judge a set of disks: one file for each broker. Raises Refused without a file."""
    if not files:
        raise Refused(FleetRefusal.NO_DISK())
    foreseen = Foreseen(files)
    election, leading = elect(files)
    troubles = [*find_troubles(files), *judge_quorum(election), *find_foreseen(foreseen)]
    if leading:
        troubles += find_missing_directories(leading[0], files)
        troubles += find_producer_ids(leading, files)
    brokers = tuple(sorted(file.broker.node_id for file in files if file.broker.node_id is not None))
    metadata_from = tuple(file.broker.node_id or 0 for file in leading)
    if any(trouble.refuses for trouble in troubles):
        return Restored(Starts.REFUSES, brokers, tuple(troubles), election, metadata_from, nodes=foreseen.nodes)
    forecasts = _worst(leading, files, foreseen)
    by_key = {(one.topic, one.partition): one for one in forecasts}
    resets = tuple(_resets(by_key, files))
    transactions = tuple(_transactions(by_key, files))
    is_ended = all(one.fate in (Fate.ABORTED, Fate.COMMITTED) for one in transactions)
    starts_whole = all(node.starts is Starts.YES for node in foreseen.nodes)
    is_whole = all(one.is_whole for one in forecasts) and is_ended and starts_whole and not (resets or troubles)
    return Restored(
        Starts.YES if is_whole else Starts.LOSES_DATA,
        brokers,
        tuple(troubles),
        election,
        metadata_from,
        forecasts,
        resets,
        transactions,
        foreseen.nodes,
        tuple(find_behind(by_key, files)),
    )


def with_troubles(restored: Restored, troubles: Sequence[SetTrouble]) -> Restored:
    """Return the answer with further problems that keep nobody from a start."""
    starts = Starts.LOSES_DATA if troubles and restored.starts is Starts.YES else restored.starts
    return replace(restored, starts=starts, troubles=(*restored.troubles, *troubles))


def _worst(leading: Sequence[Collected], files: Sequence[Collected], foreseen: Foreseen) -> tuple[Forecast, ...]:
    """Return the forecast of each partition, the worst one of all metadata that may lead."""
    worst: dict[_Key, Forecast] = {}
    for forecast in walk_forecasts(leading, files, foreseen):
        key = forecast.topic, forecast.partition
        worst[key] = forecast if key not in worst else _worse_of(worst[key], forecast)
    return tuple(worst[key] for key in sorted(worst))


def _worse_of(one: Forecast, other: Forecast) -> Forecast:
    """Return what either metadata may do: the losses of the worse one, and the leaders and ends of both."""
    worse = max(one, other, key=lambda forecast: (forecast.lost_records is None, forecast.lost_records or 0))
    worse = replace(worse, strays=tuple(sorted({*one.strays, *other.strays})))
    least = [each.end_least for each in (one, other) if each.end_least is not None]
    most = [each.end_most for each in (one, other) if each.end_most is not None]
    if len(least) < 2 or len(most) < 2 or not worse.may_lead:
        return worse
    may_lead = tuple(dict.fromkeys((*one.may_lead, *other.may_lead)))
    return replace(worse, may_lead=may_lead, end_least=min(least), end_most=max(most))


# Groups.


def _of_leaders(topic: str, partition: int, forecasts: Mapping[_Key, Forecast], node_id: int) -> bool:
    """Return whether a broker may lead a partition. Without a forecast nobody knows."""
    known = forecasts.get((topic, partition))
    return known is None or node_id in known.may_lead


def _resets(forecasts: Mapping[_Key, Forecast], files: Sequence[Collected]) -> Iterator[GroupReset]:
    """Yield committed offsets that may be beyond the end of their log."""
    commits: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for file in files:
        for commit in file.commits:
            if _of_leaders(OFFSETS_TOPIC, commit.coordinator, forecasts, file.broker.node_id or 0):
                commits[commit.group, commit.topic, commit.partition].append(commit.offset)
    for (group, topic, partition), offsets in sorted(commits.items()):
        known = forecasts.get((topic, partition))
        if known is None or known.end_least is None or known.end_most is None:
            continue
        if max(offsets) > known.end_least:
            is_certain = min(offsets) > known.end_most
            yield GroupReset(group, topic, partition, max(offsets), known.end_least, is_certain)


# Transactions.


class _View(Struct, frozen=True):
    """What one broker's `__transaction_state` knows of a producer; row None: nothing."""

    node_id: int
    row: TransactionFacts | None


def _transactions(forecasts: Mapping[_Key, Forecast], files: Sequence[Collected]) -> Iterator[TransactionAhead]:
    """Yield transactions that do not end as their producers were told, or that were open when the disks were copied."""
    rows = {(file.broker.node_id or 0, row.producer_id): row for file in files for row in file.transactions}
    coordinators = {row.producer_id: row.coordinator for row in rows.values()}
    nodes = [file.broker.node_id or 0 for file in files]
    for file in files:
        node_id = file.broker.node_id or 0
        for copy in file.copies:
            if not copy.producers or copy.state != "current":
                continue
            if not _of_leaders(copy.topic, copy.partition, forecasts, node_id):
                continue
            for producer in copy.producers:
                coordinator = coordinators.get(producer.producer_id)
                views = [
                    _View(node, rows.get((node, producer.producer_id)))
                    for node in nodes
                    if coordinator is None or _of_leaders(TRANSACTIONS_TOPIC, coordinator, forecasts, node)
                ]
                yield from _judge(copy, producer, node_id, views)


def _judge(
    copy: CopyFacts, producer: ProducerFacts, node_id: int, views: Sequence[_View]
) -> Iterator[TransactionAhead]:
    """Yield the worst fate that is possible, if any is."""
    fates = {_fate(copy, producer, view.row): view for view in views or (_View(node_id, None),)}
    worst = next((fate for fate in Fate if fate in fates), None)
    if worst is not None:
        fate, view = worst, fates[worst]
        yield TransactionAhead(
            fate,
            producer.producer_id,
            producer.epoch,
            None if view.row is None else view.row.transactional_id,
            copy.topic,
            copy.partition,
            node_id,
            producer.first_offset,
            None if view.row is None else view.node_id,
        )


def _fate(copy: CopyFacts, producer: ProducerFacts, row: TransactionFacts | None) -> Fate | None:
    """Return what becomes of a producer's transaction in a copy, if this is all that a coordinator knows of it."""
    will_end = row is not None and row.state in _WILL_END and copy.key in row.partitions
    if row is None or not will_end:
        return None if producer.first_offset is None else Fate.HANGS
    commits = row.state == _PREPARED_COMMIT
    # The marker's epoch: a coordinator raises it when it decides (KIP-890), or aborts after the timeout.
    epoch = row.epoch + (row.state == _ONGOING)
    if producer.first_offset is None:
        is_its_end = producer.marker_epoch in (row.epoch, epoch) and (producer.marker_ms or 0) >= row.start_ms
        return Fate.TORN if is_its_end and producer.is_abort is not None and producer.is_abort == commits else None
    if epoch < producer.epoch:
        return Fate.HANGS  # the partition refuses the marker: InvalidProducerEpochException
    # What is open is of an earlier transaction, which the coordinator has ended.
    if row.epoch - (row.state != _ONGOING) > producer.epoch:
        return Fate.TORN
    return Fate.COMMITTED if commits else Fate.ABORTED


_ONGOING, _PREPARED_COMMIT = TransactionState.ONGOING.told, TransactionState.PREPARE_COMMIT.told
_WILL_END = (_ONGOING, _PREPARED_COMMIT, TransactionState.PREPARE_ABORT.told)
