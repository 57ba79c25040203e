"""What becomes of each partition if all disks of a set start together. Pure: a forecast that is never too rosy.

The controller may elect any broker that its metadata lets lead (choosing.electable_of); the others then cut their
copies to the leader's. So a partition ends somewhere between the worst and the best of these copies, and what is behind
the worst end may be lost. Counts are offsets: of a compacted log there are fewer records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from klogtool.fleet.choosing import Choice, PlacedCopy, choose, electable_of, held_within, hidden_damage, without
from klogtool.fleet.collected import Brokers, Collected, CopyFacts, PartitionFacts
from klogtool.fleet.histories import brokers_cut, history_of, latest_epoch_of, parting_offset
from klogtool.fleet.node_starts import Foreseen
from klogtool.fleet.planning import find_unclean, open_to_all, placed_copies


class LossReason(Enum):
    """Why records are lost, or may be."""

    NO_COPY = "no-copy"
    """The metadata knows the partition, and no disk has it: it begins empty."""
    STRAY = "stray"
    """The metadata does not know the copy: its broker renames the folder to -stray, and serves nothing of it."""
    OLDER_LEADER = "older-leader"
    """A broker that may lead has an older copy, or one with a hole; nobody is served what it lacks."""
    EMPTY_LEADER = "empty-leader"
    """A broker that may lead has no copy; the others cut theirs to nothing."""
    OTHER_HISTORY = "other-history"
    """A copy has records of another leader at offsets where the best one has others: its broker cuts them."""
    DAMAGED = "damaged"
    """Records of the best copy are damaged or missing, and no other copy has them."""
    BROKER_MISSING = "broker-missing"
    """A broker that may lead is not in the set: only it may have the last acknowledged records."""
    METADATA_NEWER = "metadata-newer"
    """The leader of the metadata's epoch has not written it down: its disk is older than the metadata."""
    METADATA_OLDER = "metadata-older"
    """Logs have leader epochs that the metadata has not given yet: they may be given again, to another leader."""
    ONCE_LONGER = "once-longer"
    """A checkpoint, an index or a segment's name says that the log was longer once."""
    UNREADABLE = "copy-unreadable"
    """A copy cannot be read."""
    START_LOSES = "start-loses"
    """A broker that may lead loses or hides records of its own copy when it starts: as the doctor says, or because its
    log start is beyond its records."""
    DELETED = "marked-for-deletion"
    """Only a folder that ends in -delete has them: its broker was to delete it, because others had its records."""
    LOG_DIR_OFFLINE = "log-dir-offline"
    """The log dir of the copy goes offline, as the doctor says: nobody is served from it."""


# What no disk has, so that no start loses it.
_GONE = frozenset(
    (
        LossReason.NO_COPY,
        LossReason.DAMAGED,
        LossReason.BROKER_MISSING,
        LossReason.METADATA_NEWER,
        LossReason.ONCE_LONGER,
    )
)
# Only one of several brokers leads: of these losses one happens.
_ALTERNATIVES = frozenset((LossReason.OLDER_LEADER, LossReason.EMPTY_LEADER, LossReason.START_LOSES))


class PartitionLoss(Struct, frozen=True, gc=False):
    """A loss. node_id, folder: the witness: whose copy, or whose lack of one. records: at most; None: unknown.
    first, last: their offsets; None: unknown. lost_ms: by the newest timestamps; None: unknown."""

    reason: LossReason
    node_id: int | None = None
    folder: str | None = None
    records: int | None = None
    first: int | None = None
    last: int | None = None
    lost_ms: int | None = None

    @property
    def is_gone(self) -> bool:
        """Return whether no disk of the set has the records."""
        return self.reason in _GONE


class Forecast(Struct, frozen=True, tag="forecast", gc=False):
    """A partition. may_lead: brokers of the set that the controller may elect by itself, with or without a copy; empty:
    it stays offline. end_least, end_most: where its log may end after the start; None: there is no copy. best: the
    broker with the best copy. strays: brokers whose copy becomes -stray, whether others have its records or not."""

    topic: str
    partition: int
    topic_id: str | None
    may_lead: Brokers
    end_least: int | None
    end_most: int | None
    losses: tuple[PartitionLoss, ...] = ()
    best: int | None = None
    strays: Brokers = ()

    @property
    def lost_records(self) -> int | None:
        """Records that the start loses, at most: those that a disk has, and nobody is served afterwards."""
        return at_most([loss for loss in self.losses if not loss.is_gone])

    @property
    def lost_at_best(self) -> int | None:
        """Records that the start loses at most if the best copy leads."""
        own = (LossReason.START_LOSES, self.best)
        return at_most(
            [
                loss
                for loss in self.losses
                if not loss.is_gone and (loss.reason not in _ALTERNATIVES or (loss.reason, loss.node_id) == own)
            ]
        )

    @property
    def gone_records(self) -> int | None:
        """Records that no disk of the set has, although something says that they were there."""
        return at_most([loss for loss in self.losses if loss.is_gone])

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is lost, and a leader is there."""
        return not self.losses and bool(self.may_lead)


def at_most(losses: Sequence[PartitionLoss]) -> int | None:
    """Return the sum of what is lost; of what several leaders lose, the highest sum. None if one is unknown."""
    always, either = 0, Counter[int | None]()
    for loss in losses:
        if loss.records is None:
            return None
        if loss.reason in _ALTERNATIVES:
            either[loss.node_id] += loss.records
        else:
            always += loss.records
    return always + max(either.values(), default=0)


def walk_forecasts(leading: Sequence[Collected], files: Sequence[Collected], foreseen: Foreseen) -> Iterator[Forecast]:
    """Yield all partitions, by name, with the first metadata that may lead; then, of each further one, those that it
    knows otherwise. leading: whose metadata may lead the cluster. foreseen: what each disk's own start does."""
    brokers = {file.broker.node_id: file for file in files if file.broker.node_id is not None}
    placed = placed_copies(brokers)
    before: dict[tuple[str, int], tuple[PartitionFacts | None, bool]] = {}
    for file in leading:
        node_id = file.broker.node_id
        known = {(each.topic, each.partition): each for each in file.partitions}
        unclean, open_topics = find_unclean(brokers, node_id), open_to_all(brokers, node_id)
        for key in sorted({*known, *placed}):
            facts = known.get(key), key[0] in open_topics
            if before.get(key) != facts:
                before[key] = facts
                yield from _judge(key, placed.get(key, ()), *facts, unclean, brokers, foreseen)


def _judge(
    key: tuple[str, int],
    placed: Sequence[PlacedCopy],
    known: PartitionFacts | None,
    is_open: bool,
    unclean: Collection[int],
    brokers: Mapping[int, Collected],
    foreseen: Foreseen,
) -> Iterator[Forecast]:
    """Yield the forecast of a partition; none if nobody knows it, and nothing is there. is_open: any replica leads."""
    offline = [each for each in placed if foreseen.is_offline(each) and _may_be_of(each.copy, known)]
    own, strays = _by_metadata([each for each in placed if each not in offline], known)
    if known is None:
        if strays:
            topic_id = next((each.copy.topic_id for each in strays if each.copy.topic_id is not None), None)
            losses = tuple(_not_served(LossReason.STRAY, strays, None))
            yield Forecast(*key, topic_id, (), None, None, losses, None, _nodes_of(strays))
        return
    electable = electable_of(known, unclean)
    may_lead = tuple(dict.fromkeys((*electable, *known.replicas))) if is_open else electable
    marked = [each for each in placed if each.copy.state == "delete" and each.copy.topic_id == known.topic_id]
    if not (strays or offline or marked) and _is_even(own, known, foreseen):
        end = own[0].copy.log_end_offset
        here = tuple(node_id for node_id in may_lead if node_id in brokers)
        yield Forecast(*key, known.topic_id, here, end, end, (), own[0].node_id)
        return
    down = {each.node_id for each in offline}
    able = tuple(node_id for node_id in may_lead if node_id not in down)
    forecast = _forecast(choose(own, known, tuple(brokers), key, unclean), known, able, brokers, foreseen)
    best = next((each.copy for each in own if each.node_id == forecast.best), None)
    aside = (
        *_not_served(LossReason.STRAY, strays, best),
        *_not_served(LossReason.DELETED, marked, best),
        *_not_served(LossReason.LOG_DIR_OFFLINE, offline, best),
    )
    # What an offline log dir has is on a disk.
    own_losses = [loss for loss in forecast.losses if not (offline and loss.reason is LossReason.NO_COPY)]
    yield replace(forecast, losses=(*own_losses, *aside), strays=_nodes_of(strays))


def _nodes_of(placed: Sequence[PlacedCopy]) -> Brokers:
    return tuple(sorted({each.node_id for each in placed}))


def _is_even(own: Sequence[PlacedCopy], known: PartitionFacts, foreseen: Foreseen) -> bool:
    """Return whether all replicas have the same sound log, in the epoch of the metadata, and keep it: most partitions
    of a set."""
    if not own or len(own) != len(known.replicas) or len({each.node_id for each in own}) < len(own):
        return False
    first = own[0].copy
    if latest_epoch_of(first) != known.leader_epoch:
        return False
    alike = (first.log_start_offset, first.log_end_offset, first.epochs, first.checkpoint_epochs)
    return all(
        each.copy.problem is None
        and not (each.copy.holes or each.copy.wounds_count)
        and foreseen.is_as_it_stands(each)
        and each.copy.sound_end_offset == first.log_end_offset >= each.copy.reached_offset
        and (each.copy.log_start_offset, each.copy.log_end_offset, each.copy.epochs, each.copy.checkpoint_epochs)
        == alike
        for each in own
    )


def _may_be_of(copy: CopyFacts, known: PartitionFacts | None) -> bool:
    """Return whether a copy is one of the partition, as far as its topic id can be read."""
    return copy.state == "current" and known is not None and copy.topic_id in (None, known.topic_id)


def _by_metadata(
    placed: Sequence[PlacedCopy], known: PartitionFacts | None
) -> tuple[list[PlacedCopy], list[PlacedCopy]]:
    """Return the copies that their brokers keep, and those that become -stray (LogManager.isStrayReplica)."""
    kept: list[PlacedCopy] = []
    strays: list[PlacedCopy] = []
    for each in placed:
        if each.copy.state == "current" and each.copy.problem is None:
            is_known = known is not None and each.copy.topic_id == known.topic_id and each.node_id in known.replicas
            (kept if is_known else strays).append(each)
        elif each.copy.state == "current":
            kept.append(each)
    return kept, strays


def _not_served(reason: LossReason, aside: Sequence[PlacedCopy], best: CopyFacts | None) -> Iterator[PartitionLoss]:
    """Yield what only copies have that nobody is served from: the longest one counts. best: of the copies that stay."""
    for topic_id in dict.fromkeys(each.copy.topic_id for each in aside):
        longest = max(
            (each for each in aside if each.copy.topic_id == topic_id), key=lambda each: each.copy.log_end_offset
        )
        copy = longest.copy
        first = copy.log_start_offset
        if best is not None and best.topic_id == topic_id:
            first = max(first, best.log_end_offset)
        if first < copy.log_end_offset:
            yield _loss(reason, longest, first, copy.log_end_offset)


def _loss(reason: LossReason, witness: PlacedCopy, first: int, end: int, lost_ms: int | None = None) -> PartitionLoss:
    return PartitionLoss(reason, witness.node_id, witness.copy.folder, end - first, first, end - 1, lost_ms)


def _forecast(
    choice: Choice,
    known: PartitionFacts,
    may_lead: Sequence[int],
    brokers: Mapping[int, Collected],
    foreseen: Foreseen,
) -> Forecast:
    here = tuple(node_id for node_id in may_lead if node_id in brokers)
    own: dict[int, PlacedCopy] = {}
    for share in choice.shares:
        if share.placed.copy.problem is None and share.placed.copy.state == "current":
            own[share.placed.node_id] = share.placed
    ends = [foreseen.end_of(own[node_id]) if node_id in own else 0 for node_id in here]
    losses = (
        *_of_leaders(choice, own, here, foreseen),
        *_of_histories(choice, known, own),
        *_gone(choice, known, own, may_lead, brokers),
    )
    is_empty = choice.best is None
    return Forecast(
        choice.topic,
        choice.partition,
        known.topic_id,
        here,
        None if is_empty else min(ends, default=None),
        None if is_empty else max(ends, default=None),
        losses,
        choice.leader,
    )


def _of_leaders(
    choice: Choice, own: Mapping[int, PlacedCopy], may_lead: Brokers, foreseen: Foreseen
) -> Iterator[PartitionLoss]:
    """Yield what each broker that may lead would make the best copy lose, and those that it could be filled from."""
    best = choice.best
    if best is None:
        return
    copy = best.copy
    for node_id in may_lead:
        rival = own.get(node_id)
        if rival is None:
            if copy.log_end_offset > copy.log_start_offset:
                yield PartitionLoss(
                    LossReason.EMPTY_LEADER,
                    node_id,
                    None,
                    copy.log_end_offset - copy.log_start_offset,
                    copy.log_start_offset,
                    copy.log_end_offset - 1,
                )
            continue
        # Without the doctor, a leader's own log ends at its first damage, also if it is the best one.
        kept = copy.log_end_offset if foreseen.knows(rival) else foreseen.end_of(rival)
        if rival is not best:
            kept = min(kept, rival.copy.log_end_offset, brokers_cut(copy, rival.copy, is_clean=False))
        if kept < copy.log_end_offset:
            first = max(kept, copy.log_start_offset)
            yield _loss(LossReason.OLDER_LEADER, rival, first, copy.log_end_offset, _ms(best, rival))
        yield from _of_its_start(rival, min(kept, copy.log_end_offset), foreseen)
        yield from _unfilled(choice, rival, kept, own, foreseen)


def _unfilled(
    choice: Choice, leader: PlacedCopy, kept: int, own: Mapping[int, PlacedCopy], foreseen: Foreseen
) -> Iterator[PartitionLoss]:
    """Yield what other copies have where a leader has nothing: the plan fills the best copy from them, a start does
    not. kept: the end of what it keeps of the best one's log."""
    best = choice.best
    end = 0 if best is None else best.copy.log_end_offset
    spans: list[tuple[int, int]] = []
    for fill in choice.fills:
        parts = [(max(fill.first, low), min(fill.last, high)) for low, high in ((0, kept - 1), (end, fill.last))]
        spans += without(parts, _led_with(leader, own.get(fill.node_id), parts, foreseen))
    if best is not None and leader is not best:
        holes = [(hole.first, hole.last) for hole in leader.copy.holes if hole.last is not None]
        spans += held_within(best.copy, [(first, min(last, kept - 1)) for first, last in holes])
    for first, last in sorted({(first, last) for first, last in spans if first <= last}):
        yield _loss(LossReason.OLDER_LEADER, leader, first, last + 1)


def _led_with(
    leader: PlacedCopy, source: PlacedCopy | None, spans: Sequence[tuple[int, int]], foreseen: Foreseen
) -> list[tuple[int, int]]:
    """Return which of these offsets of another copy a leader has, too."""
    if source is None or not foreseen.is_as_it_stands(leader):
        return []
    alike = parting_offset(history_of(leader.copy), history_of(source.copy))
    end = min(alike, foreseen.end_of(leader))
    return held_within(leader.copy, [(first, min(last, end - 1)) for first, last in spans if first < end])


def _of_its_start(leader: PlacedCopy, end: int, foreseen: Foreseen) -> Iterator[PartitionLoss]:
    """Yield what a leader's own start loses or hides before an offset."""
    offsets = foreseen.lost_of(leader)
    lost = None if offsets is None else [(lost.first, min(lost.last, end - 1)) for lost in offsets if lost.first < end]
    where = (LossReason.START_LOSES, leader.node_id, leader.copy.folder)
    if lost is None:
        yield PartitionLoss(*where)
    elif lost:
        yield PartitionLoss(*where, sum(last - first + 1 for first, last in lost), lost[0][0], lost[-1][1])


def _ms(best: PlacedCopy, rival: PlacedCopy) -> int | None:
    """Return how much older the newest record of a copy is."""
    newest, older = best.copy.newest_timestamp, rival.copy.newest_timestamp
    return None if newest is None or older is None else max(0, newest - older)


def _of_histories(choice: Choice, known: PartitionFacts, own: Mapping[int, PlacedCopy]) -> Iterator[PartitionLoss]:
    for span in choice.only_elsewhere:
        witness = own.get(span.node_id)
        folder = None if witness is None else witness.copy.folder
        yield PartitionLoss(
            LossReason.OTHER_HISTORY, span.node_id, folder, span.last - span.first + 1, span.first, span.last
        )
    ahead = [each for each in own.values() if latest_epoch_of(each.copy) > known.leader_epoch]
    for each in ahead[:1]:
        yield PartitionLoss(LossReason.METADATA_OLDER, each.node_id, each.copy.folder)
    for share in choice.shares:
        if share.placed.copy.problem is not None:
            yield PartitionLoss(LossReason.UNREADABLE, share.placed.node_id, share.placed.copy.folder)


def _gone(
    choice: Choice,
    known: PartitionFacts,
    own: Mapping[int, PlacedCopy],
    may_lead: Sequence[int],
    brokers: Mapping[int, Collected],
) -> Iterator[PartitionLoss]:
    """Yield what no disk of the set has."""
    best = choice.best
    for node_id in may_lead:
        if node_id not in brokers:
            yield PartitionLoss(LossReason.BROKER_MISSING, node_id)
    if best is None:
        if not any(node_id not in brokers for node_id in known.replicas):
            yield PartitionLoss(LossReason.NO_COPY)
        return
    leader = own.get(known.leader)
    if leader is not None and latest_epoch_of(leader.copy) < known.leader_epoch:
        yield PartitionLoss(LossReason.METADATA_NEWER, leader.node_id, leader.copy.folder)
    for hole in choice.lost:
        last = hole.first if hole.last is None else hole.last
        yield _loss(LossReason.DAMAGED, best, hole.first, last + 1)
    if (damage := hidden_damage(best)) is not None and damage < best.copy.log_end_offset and not choice.lost:
        yield _loss(LossReason.DAMAGED, best, damage, best.copy.log_end_offset)
    reached = max(own.values(), key=lambda each: each.copy.reached_offset, default=best)
    if reached.copy.reached_offset > best.copy.log_end_offset:
        yield _loss(LossReason.ONCE_LONGER, reached, best.copy.log_end_offset, reached.copy.reached_offset)
