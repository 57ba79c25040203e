"""Which copy of a partition is the best, what becomes of the others, and what is lost. Pure: a decision over facts.

The base is the copy with the highest leader epoch; of several, the one with the highest end. This is how Kafka compares
logs (KIP-101, KIP-595). If the metadata is as new as the logs, copies of brokers that may lead (ISR, ELR) come first.
With clean elections the base has the history of every record that was acknowledged by all in-sync replicas: each leader
had all such records when it was elected. It may have lost its end. So the best copy is the base, or the longest one
that has all of it and goes on as it did. What it lacks in the middle is filled from others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from klogtool.causes import Reason
from klogtool.escape import escaped
from klogtool.fleet.causes import FleetProblem, ImpossibleCause, RangeCause, ShareCause
from klogtool.fleet.checks import Impossible, check_copy, check_number, check_topic
from klogtool.fleet.collected import Brokers, CopyFacts, LostOffsets, Name, PartitionFacts, Uuid
from klogtool.fleet.histories import (
    History,
    brokers_cut,
    extends,
    history_of,
    last_epoch_of,
    latest_epoch_of,
    parting_offset,
    remembered_history,
)
from klogtool.values import Int, Natural

Action: TypeAlias = Literal["lead", "follow", "truncate", "set-aside", "restore", "replace", "leave"]
HELD = ("current", "future")


class PlacedCopy(Struct, frozen=True, gc=False):
    """A copy on a broker. is_clean: its log dir has a clean marker. directory_id: of its log dir."""

    node_id: Int
    copy: CopyFacts
    is_clean: bool = False
    directory_id: Uuid | None = None


class CopyRange(Struct, frozen=True):
    """Offsets [first, last] of one copy."""

    node_id: Int
    first: Natural
    last: Natural
    why: Reason


class Share(Struct, frozen=True):
    """What becomes of one copy.

    lead: it is the best. follow: its broker cuts it at `to`, and fetches the rest from the leader. leave: nothing.
    By `fleet apply`: truncate: cut at `to`. set-aside: moved out of the log dir. restore: gets the plain name.
    By hand: replace: the best copy is brought in its place.
    """

    placed: PlacedCopy
    action: Action
    why: Reason
    to: Natural | None = None


class Choice(Struct, frozen=True, tag="choice"):
    """A partition. best: None if there is no copy.

    fills: offsets that the best copy lacks, and other copies have: for `salvage --replica`. lost: offsets that no copy
    has, between those that are kept. only_elsewhere: offsets that this choice loses. older: offsets before the start of
    the best copy, where retention may have deleted them. missing: brokers that have the partition by the metadata, and
    of which no file was given. electable: brokers that the controller may elect by itself (electable_of). rivals:
    brokers with a worse copy that may be elected: they must not lead.
    """

    topic: Name
    partition: Int
    topic_id: Uuid | None
    best: PlacedCopy | None
    shares: tuple[Share, ...] = ()
    fills: tuple[CopyRange, ...] = ()
    lost: tuple[LostOffsets, ...] = ()
    only_elsewhere: tuple[CopyRange, ...] = ()
    older: tuple[CopyRange, ...] = ()
    missing: Brokers = ()
    replicas: Brokers = ()
    electable: Brokers = ()
    rivals: Brokers = ()
    problems: tuple[Reason, ...] = ()

    @property
    def leader(self) -> int | None:
        """The broker with the best copy."""
        return None if self.best is None else self.best.node_id


def check_choice(choice: Choice) -> None:
    """Raises Impossible, which says what is wrong with a choice that was read."""
    check_topic(choice.topic)
    check_number(choice.partition)
    named = escaped(f"{choice.topic}-{choice.partition}")
    own = [share.placed for share in choice.shares]
    for placed in own if choice.best is None else [*own, choice.best]:
        check_copy(placed.copy)
        if placed.copy.key != (choice.topic, choice.partition) or placed.node_id < 0:
            raise Impossible(ImpossibleCause.OTHER_PARTITION(partition=named))
    for share in choice.shares:
        if share.action == "truncate" and share.to is None:
            raise Impossible(ImpossibleCause.CUT_NOWHERE(partition=named))
        if share.to is not None and share.to > max(share.placed.copy.log_end_offset, share.placed.copy.reached_offset):
            raise Impossible(ImpossibleCause.CUT_BEHIND_END(partition=named))
    spans = (*choice.fills, *choice.only_elsewhere, *choice.older)
    if any(span.last < span.first for span in spans) or any(
        hole.last is not None and hole.last < hole.first for hole in choice.lost
    ):
        raise Impossible(ImpossibleCause.SPAN(partition=named))


def choose(
    placed: Sequence[PlacedCopy],
    known: PartitionFacts | None,
    brokers: Sequence[int],
    key: tuple[str, int],
    unclean: Collection[int] = (),
) -> Choice:
    """Choose for one partition. placed: all its copies, readable or not. known: what the metadata says of it. brokers:
    whose files were given. unclean: brokers that the controller takes out of ISR and ELR when they start."""
    topic_id, candidates, others = _candidates(placed, known)
    replicas = known.replicas if known is not None else ()
    missing = tuple(node_id for node_id in replicas if node_id not in brokers)
    problems = [
        FleetProblem.OF_BROKER(broker=each.node_id, problem=each.copy.problem)
        for each in placed
        if each.copy.problem is not None
    ]
    problems += [
        FleetProblem.START_DELETES(broker=each.node_id)
        for each in placed
        if each.copy.state == "current" and each.copy.starts_beyond_its_records
    ]
    choice = Choice(*key, topic_id, None, missing=missing, replicas=replicas, problems=tuple(problems))
    if known is not None:
        choice = replace(choice, electable=electable_of(known, unclean))
    if not candidates:
        return replace(choice, shares=tuple(others))
    first = () if known is None else _elected_first(known, unclean)
    # Of equal copies the one that the controller elects first, so that no reassignment is needed.
    order = sorted(replicas, key=lambda node_id: node_id not in first)
    # Of each broker its best copy competes: it can lead with one folder only.
    own = {
        node_id: _best_of([each for each in candidates if each.node_id == node_id], order)
        for node_id in dict.fromkeys(each.node_id for each in candidates)
    }
    base, best = _best(list(own.values()), known, order)
    shares = [*_shares(best, own, candidates, replicas), *others]
    rest = [each for each in candidates if each is not best]
    fills, lost = _fill(base, best, rest)
    older, parted = tuple(_older(best, rest)), (*_parted(best, rest, fills), *_deleted(best, others, known))
    is_head_lost = _lost_its_head(best.copy)
    return replace(
        choice,
        best=best,
        shares=tuple(_kept_for_salvage(share, fills) for share in shares),
        fills=fills,
        lost=lost,
        only_elsewhere=(*older, *parted) if is_head_lost else parted,
        older=() if is_head_lost else older,
    )


def electable_of(known: PartitionFacts, unclean: Collection[int]) -> tuple[int, ...]:
    """Return the brokers that the controller may elect by itself, those first that it elects if nothing fails.

    At first these are the ISR; if that is empty, the ELR. With eligible.leader.replicas.version 1 they are those that
    stopped in order, and if there is none, the last leader (PartitionChangeBuilder). While sessions time out, every
    broker of the ISR may become the last leader: it counts as running, although it is dead (handleBrokerFenced).
    """
    return tuple(dict.fromkeys((*_elected_first(known, unclean), *known.isr)))


def _elected_first(known: PartitionFacts, unclean: Collection[int]) -> tuple[int, ...]:
    for brokers in (known.isr, known.elr):
        left = tuple(node_id for node_id in brokers if node_id not in unclean)
        if left:
            return left
    last = (known.leader,) if known.leader >= 0 else known.last_known_elr
    return last if unclean and len(last) == 1 else ()


def _candidates(
    placed: Sequence[PlacedCopy], known: PartitionFacts | None
) -> tuple[str | None, list[PlacedCopy], list[Share]]:
    """Return the topic id, the copies of the topic with that id, and what becomes of the others."""
    topic_id = known.topic_id if known is not None else _newest_id(placed)
    candidates, others = [], []
    for each in placed:
        if each.copy.problem is not None:
            others.append(Share(each, "leave", ShareCause.UNREADABLE()))
        # A topic that was deleted and created again has other records at the same offsets: never mixed with this one's.
        elif each.copy.topic_id not in (None, topic_id) and topic_id is not None:
            others.append(Share(each, "leave", ShareCause.OTHER_TOPIC(topic_id=each.copy.topic_id)))
        elif each.copy.state == "delete":
            others.append(Share(each, "leave", ShareCause.DELETED()))
        else:
            candidates.append(each)
    return topic_id, candidates, others


def _newest_id(placed: Sequence[PlacedCopy]) -> str | None:
    """Return the id of the topic that was written last: without metadata, nothing else says which one lives."""
    copies = [each.copy for each in placed if each.copy.topic_id is not None and each.copy.state in HELD]
    copies = copies or [each.copy for each in placed if each.copy.topic_id is not None]
    newest = max(copies, key=lambda copy: (copy.newest_timestamp or -1, copy.topic_id), default=None)
    return None if newest is None else newest.topic_id


def _best_of(placed: Sequence[PlacedCopy], order: Sequence[int]) -> PlacedCopy:
    return max(placed, key=lambda each: _rank(each, order))


def _best(
    placed: Sequence[PlacedCopy], known: PartitionFacts | None, order: Sequence[int]
) -> tuple[PlacedCopy, PlacedCopy]:
    """Return the base, and the copy that leads: see the head of this file."""
    # The epoch comes before the end: what is more in a longer log of an older epoch was not acknowledged by all, and
    # its broker cuts it when it follows (KIP-101).
    base = max(
        placed,
        key=lambda e: (
            not e.copy.starts_beyond_its_records,
            _may_lead(e, placed, known),
            latest_epoch_of(e.copy),
            *_rank(e, order),
        ),
    )
    return base, _best_of([each for each in placed if each is base or extends(each.copy, base.copy)], order)


def _may_lead(each: PlacedCopy, placed: Sequence[PlacedCopy], known: PartitionFacts | None) -> bool:
    """Return whether the controller elects a broker by itself, by metadata that is as new as the logs."""
    # Metadata that is older than the logs names an ISR of an earlier leader: it must not decide.
    if known is None or known.leader_epoch < max(latest_epoch_of(one.copy) for one in placed):
        return False
    return each.node_id in (known.isr or known.elr)


def _rank(each: PlacedCopy, order: Sequence[int]) -> tuple[int, ...]:
    """Return what decides, most important first: epoch of the last batch, end; then the lowest start, fewest holes, a
    folder that needs no new name, and the order in which the controller elects."""
    copy = each.copy
    place = order.index(each.node_id) if each.node_id in order else len(order)
    holes = sum(hole.last is not None for hole in copy.holes)
    return (
        last_epoch_of(copy),
        copy.log_end_offset,
        -copy.log_start_offset,
        -holes,
        copy.state == "current",
        -place,
        -each.node_id,
    )


# What becomes of the copies.


def _shares(
    best: PlacedCopy, own: dict[int, PlacedCopy], candidates: Sequence[PlacedCopy], replicas: Sequence[int]
) -> Iterator[Share]:
    inside = [each for each in own.values() if each.node_id in replicas]
    heir = _best_of(inside, replicas) if inside and best.node_id not in replicas else None
    for each in candidates:
        kept = own[each.node_id]
        if each is not kept:
            yield _beside(each, kept)
        elif replicas and each.node_id not in replicas:
            yield Share(each, "leave", ShareCause.NO_REPLICA(broker=each.node_id))
        elif each is heir:
            yield Share(each, "replace", ShareCause.BEST_IS_NO_REPLICA(broker=best.node_id))
        elif each.copy.state != "current":
            yield Share(each, "restore", ShareCause.HIDDEN_BY_NAME(state=each.copy.state))
        elif each is best:
            yield Share(each, "lead", _why_best(best, own))
        elif each.copy.starts_beyond_its_records:
            # Its broker would delete the log, and begin it at the leader's end (UnifiedLog.truncateFullyAndStartAt).
            yield Share(each, "set-aside", ShareCause.STARTS_BEYOND_RECORDS())
        else:
            yield _follower(each, best)


def _beside(each: PlacedCopy, kept: PlacedCopy) -> Share:
    """Return the share of a copy beside a better one on the same broker."""
    if each.copy.state == "current":
        return Share(each, "set-aside", ShareCause.BESIDE_BETTER())
    if each.copy.state == "future" and kept.copy.state != "current":
        return Share(each, "set-aside", ShareCause.BESIDE_BETTER())
    return Share(each, "leave", ShareCause.BESIDE_BETTER_UNSEEN())


def _why_best(best: PlacedCopy, own: dict[int, PlacedCopy]) -> Reason:
    others = [each for each in own.values() if each is not best]
    if not others:
        return ShareCause.ONLY_COPY()
    epoch, end = last_epoch_of(best.copy), best.copy.log_end_offset
    if any(last_epoch_of(each.copy) < epoch for each in others):
        if len(others) == 1:
            return ShareCause.HIGHEST_EPOCH(epoch=epoch)
        return ShareCause.HIGHEST_EPOCH_AND_END(epoch=epoch, end=end)
    if any(each.copy.log_end_offset < end for each in others):
        return ShareCause.HIGHEST_END(end=end)
    return ShareCause.AS_GOOD()


def hidden_damage(placed: PlacedCopy) -> int | None:
    """Return the offset from which on a copy is damaged in a way that its broker does not mend when it follows or
    leads; None if there is none. A start after a clean stop does not look at batches, not even at the last ones."""
    copy = placed.copy
    if copy.sound_end_offset < copy.log_end_offset or (copy.wounds_count and placed.is_clean):
        return copy.sound_end_offset
    return None


def _follower(each: PlacedCopy, best: PlacedCopy) -> Share:
    copy, parting = each.copy, parting_offset(history_of(each.copy), history_of(best.copy))
    by_broker = brokers_cut(copy, best.copy, is_clean=each.is_clean)
    damage = hidden_damage(each)
    if damage is not None and damage <= parting:
        return Share(each, "truncate", ShareCause.DAMAGED(), damage)
    if by_broker > parting:
        return Share(each, "truncate", ShareCause.CUT_TOO_LATE(to=by_broker), parting)
    why = ShareCause.CUT_BY_BROKER
    if parting >= copy.log_end_offset:
        is_same = parting == best.copy.log_end_offset == copy.log_end_offset
        why = ShareCause.SAME_AS_BEST if is_same else ShareCause.FETCHES
    return Share(each, "follow", why(), min(by_broker, parting))


def _kept_for_salvage(share: Share, fills: Sequence[CopyRange]) -> Share:
    """Return the share of a copy that the best one is salvaged from: it stays as it is until then."""
    is_source = any(fill.node_id == share.placed.node_id for fill in fills)
    if share.action != "truncate" or not is_source:
        return share
    return Share(share.placed, "follow", ShareCause.SALVAGE_SOURCE())


# What is lost.


def _fill(
    base: PlacedCopy, best: PlacedCopy, others: Sequence[PlacedCopy]
) -> tuple[tuple[CopyRange, ...], tuple[LostOffsets, ...]]:
    """Return what other copies have of the holes of the best one, and of its lost end; and what no copy has."""
    fills: list[CopyRange] = []
    lost: list[LostOffsets] = []
    for hole in best.copy.holes:
        if hole.last is None:
            continue
        left = [(hole.first, hole.last)]
        for other in others:
            end = _fitting_end(other.copy, best.copy, hole)
            result = held_within(other.copy, [(first, min(last, end - 1)) for first, last in left if first < end])
            fills += [CopyRange(other.node_id, first, last, RangeCause.FILLS_HOLE()) for first, last in result]
            left = without(left, result)
        lost += [LostOffsets(first, last) for first, last in left]
    behind, at = _fill_end(base, best, others), best.copy.log_end_offset
    for fill in behind:
        lost += [LostOffsets(at, fill.first - 1)] if at < fill.first else []
        at = fill.last + 1
    return (*fills, *behind), tuple(lost)


def _fill_end(base: PlacedCopy, best: PlacedCopy, others: Sequence[PlacedCopy]) -> list[CopyRange]:
    """Return what other copies have behind the end of the best one, as far as the base remembers who wrote that."""
    remembered = remembered_history(base.copy)
    left, fills = [(best.copy.log_end_offset, remembered.end - 1)], []
    for other in others:
        theirs = history_of(other.copy)
        parting = parting_offset(theirs, remembered)
        spans = [(first, min(last, parting - 1)) for first, last in left if first < parting]
        result = held_within(other.copy, spans)
        fills += [CopyRange(other.node_id, first, last, RangeCause.GOES_ON()) for first, last in result]
        left = without(left, result)
    return sorted(fills, key=lambda fill: fill.first)


def _fitting_end(other: CopyFacts, best: CopyFacts, hole: LostOffsets) -> int:
    """Return up to which offset (exclusive) another copy has what the best one had in a hole. If both have an offset
    behind it from the same leader, all before is the same; else up to where they part."""
    theirs, ours = history_of(other), history_of(best)
    behind = best.log_end_offset if hole.last is None else hole.last + 1
    if _covers(theirs, behind) and _covers(ours, behind) and theirs.epoch_at(behind) == ours.epoch_at(behind):
        return behind
    return min(behind, parting_offset(theirs, ours))


def _covers(history: History, offset: int) -> bool:
    return history.start <= offset < history.end


def held_within(copy: CopyFacts, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of these offset ranges that a copy has."""
    inside = [
        (max(first, copy.log_start_offset), min(last, copy.log_end_offset - 1))
        for first, last in ranges
        if first < copy.log_end_offset and last >= copy.log_start_offset
    ]
    gone = [(hole.first, copy.log_end_offset if hole.last is None else hole.last) for hole in copy.holes]
    return without(inside, gone)


def without(ranges: Sequence[tuple[int, int]], gone: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what is left of ranges (both ends inclusive) without others."""
    left = list(ranges)
    for first, last in gone:
        left = [
            part
            for one, two in left
            for part in ((one, min(two, first - 1)), (max(one, last + 1), two))
            if part[0] <= part[1]
        ]
    return sorted(set(left))


def _lost_its_head(copy: CopyFacts) -> bool:
    """Return whether the first segments are gone although the broker did not delete them: it would have moved the first
    leader epoch and, for deleted records, its log start (LeaderEpochFileCache.truncateFromStart)."""
    first = next(iter(copy.checkpoint_epochs or ()), None)
    return first is not None and copy.log_start_checkpoint is None and first.start_offset < copy.log_start_offset


def _older(best: PlacedCopy, others: Sequence[PlacedCopy]) -> Iterator[CopyRange]:
    """Yield what other copies have before the start of the best one."""
    # Normally retention, which deletes at each broker at its own time. Not so if the broker would remember it.
    why = RangeCause.HEAD_LOST() if _lost_its_head(best.copy) else RangeCause.RETENTION()
    for other in others:
        copy = other.copy
        span = copy.log_start_offset, min(best.copy.log_start_offset, copy.log_end_offset) - 1
        for first, last in held_within(copy, [span] if span[0] <= span[1] else []):
            yield CopyRange(other.node_id, first, last, why)


def _parted(best: PlacedCopy, others: Sequence[PlacedCopy], fills: Sequence[CopyRange]) -> Iterator[CopyRange]:
    """Yield what other copies have from where they part from the best one, and its end is not filled from."""
    ours, sources = history_of(best.copy), {each.node_id: history_of(each.copy) for each in others}
    for other in others:
        theirs = history_of(other.copy)
        filled = [
            (fill.first, min(fill.last, alike - 1))
            for fill in fills
            if fill.first < (alike := parting_offset(theirs, sources[fill.node_id]))
        ]
        first = max(parting_offset(theirs, ours), theirs.start, ours.start)
        span = [(first, theirs.end - 1)] if first < theirs.end else []
        for one, two in without(held_within(other.copy, span), filled):
            yield CopyRange(other.node_id, one, two, _why_parted(theirs, ours, one, two))


def _deleted(best: PlacedCopy, others: Sequence[Share], known: PartitionFacts | None) -> Iterator[CopyRange]:
    """Yield what only folders have that are marked for deletion, although the topic lives: their brokers are no
    replicas any more, and what they had fetched may be in no other copy that is here."""
    for share in others:
        copy = share.placed.copy
        if known is not None and copy.state == "delete" and copy.topic_id == known.topic_id and copy.problem is None:
            for part in _parted(best, [share.placed], ()):
                yield replace(part, why=RangeCause.MARKED_DELETED(where=part.why))


def _why_parted(theirs: History, ours: History, first: int, last: int) -> Reason:
    one, two = theirs.epoch_at(first), theirs.epoch_at(last)
    is_behind = first >= ours.end
    where = RangeCause.BEHIND_BEST() if is_behind else RangeCause.OTHER_RECORDS(epoch=ours.epoch_at(first))
    if two < 0:
        return where
    is_one = one == two
    return (
        RangeCause.IN_EPOCH(epoch=one, where=where)
        if is_one
        else RangeCause.IN_EPOCHS(first=one, last=two, where=where)
    )


def is_healthy(choice: Choice) -> bool:
    """Return whether nothing has to be done about a partition, and nothing is lost. Without metadata, that needs equal
    copies: which one will lead is not known."""
    quiet = all(share.action in ("lead", "follow", "leave") for share in choice.shares)
    is_damaged = choice.best is not None and hidden_damage(choice.best) is not None
    needs = (
        is_damaged,
        choice.fills,
        choice.lost,
        choice.only_elsewhere,
        choice.missing,
        choice.rivals,
        choice.problems,
    )
    if choice.best is None or not quiet or any(needs):
        return False
    if choice.replicas:
        return choice.leader in choice.electable
    ends = {share.placed.copy.log_end_offset for share in choice.shares if share.action in ("lead", "follow")}
    return len(ends) == 1
