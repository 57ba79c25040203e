"""What to do about all partitions: which copy leads, in which order brokers start, what Kafka's own tools are given.

Pure: files of `fleet collect` in, a plan out. The plan is a file too (`fleet plan --plan-out`), for `fleet apply` and
`fleet check`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from klogtool.causes import Reason
from klogtool.errors import Refused
from klogtool.escape import escaped
from klogtool.fleet.causes import FleetProblem, FleetRefusal, FramedRefusal, ImpossibleCause, ShareCause
from klogtool.fleet.checks import Impossible, check_log_dirs, check_number, check_topic
from klogtool.fleet.choosing import Choice, PlacedCopy, Share, check_choice, choose, hidden_damage
from klogtool.fleet.collected import (
    MOST_LISTED,
    Brokers,
    Collected,
    CopyFacts,
    LogDirFacts,
    Name,
    PartitionFacts,
    Word,
)
from klogtool.fleet.framed import FramedFiles, LastLine
from klogtool.fleet.histories import brokers_cut
from klogtool.fleet.restored_identity import elect
from klogtool.format.names import METADATA_TOPIC
from klogtool.quorum.election import ElectionOutcome
from klogtool.values import Int

COMMAND = "fleet plan"
FORMAT = 1
UNCLEAN_ELECTIONS = "unclean.leader.election.enable"
ELR = "eligible.leader.replicas.version"  # a feature
BY_APPLY = ("truncate", "set-aside", "restore")


class PlannedBroker(Struct, frozen=True):
    """A broker whose file was given, and its log dirs then."""

    node_id: Int
    log_dirs: Annotated[tuple[LogDirFacts, ...], Meta(max_length=MOST_LISTED)]


class Conflict(Struct, frozen=True):
    """A partition for which no order of starts is right: broker `node_id` would lead with a worse copy."""

    topic: Name
    partition: Int
    node_id: Int


class FleetFacts(Struct, frozen=True, tag="fleet"):
    """What the plan says of the whole. waves: brokers in the order in which they must start. missing: brokers that the
    metadata names, and of which no file was given. metadata_from: the broker with the newest metadata; None: there is
    none."""

    format: Int
    cluster_id: Word | None
    brokers: Annotated[tuple[PlannedBroker, ...], Meta(max_length=MOST_LISTED)]
    missing: Brokers = ()
    waves: tuple[Brokers, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    metadata_from: Int | None = None
    notes: tuple[Reason, ...] = ()


class FleetPlan(Struct, frozen=True):
    """A plan for all brokers. path: of the file that it was read from."""

    fleet: FleetFacts
    choices: tuple[Choice, ...]
    path: str = ""

    def rows(self) -> Iterator[FleetFacts | Choice]:
        """Yield the rows of its file."""
        yield self.fleet
        yield from self.choices

    def elections(self) -> dict[str, object]:
        """Return the JSON for `kafka-leader-election.sh --election-type UNCLEAN --path-to-json-file`: partitions whose
        best copy may be on a broker that the controller does not elect by itself."""
        unclean = filter(needs_election, self.choices)
        return {"partitions": [{"topic": choice.topic, "partition": choice.partition} for choice in unclean]}

    def reassignments(self) -> dict[str, object]:
        """Return the JSON for `kafka-reassign-partitions.sh --reassignment-json-file`: partitions without the brokers
        that are missing, the best copy first. The tool refuses brokers that do not run."""
        lacking = [each for each in self.choices if each.missing and each.leader in each.replicas]
        return {"version": 1, "partitions": list(map(_reassignment, lacking))}

    def shares_of(self, node_id: int) -> Iterator[tuple[Choice, Share]]:
        """Yield the copies of a broker."""
        for choice in self.choices:
            yield from ((choice, share) for share in choice.shares if share.placed.node_id == node_id)


def _check(row: Any) -> None:
    """Raises Impossible if a row of a plan cannot be right."""
    if isinstance(row, FleetFacts):
        _check_fleet(row)
    elif isinstance(row, Choice):
        check_choice(row)


def _check_fleet(fleet: FleetFacts) -> None:
    nodes = [broker.node_id for broker in fleet.brokers]
    if len(set(nodes)) < len(nodes) or min(nodes, default=0) < 0:
        raise Impossible(ImpossibleCause.BROKER_IDS())
    for broker in fleet.brokers:
        check_log_dirs(broker.log_dirs)
    for conflict in fleet.conflicts:
        check_topic(conflict.topic)
        check_number(conflict.partition)


_FRAME = FramedFiles(COMMAND, FleetFacts | Choice | LastLine, _check)


def read_fleet_plan(path: str) -> FleetPlan:
    """Read a saved plan. Raises Refused, which says what is wrong with it; KlogError if it cannot be read."""
    rows = _FRAME.read(path).rows
    fleets = [row for row in rows if isinstance(row, FleetFacts)]
    if len(fleets) != 1 or rows[0] is not fleets[0]:
        raise _FRAME.refused(path, FramedRefusal.NO_FLEET())
    if fleets[0].format != FORMAT:
        raise _FRAME.refused(path, FramedRefusal.OTHER_FORMAT(format=fleets[0].format, known=FORMAT))
    plan = FleetPlan(fleets[0], tuple(row for row in rows if isinstance(row, Choice)), path)
    _check_places(plan)
    return plan


def _check_places(plan: FleetPlan) -> None:
    """Raises Refused for a copy where no broker of the plan has a log dir, and for what is in the plan twice."""
    paths = {broker.node_id: {log_dir.path for log_dir in broker.log_dirs} for broker in plan.fleet.brokers}
    seen: set[tuple[object, ...]] = set()
    for choice in plan.choices:
        named = escaped(f"{choice.topic}-{choice.partition}")
        for placed in (share.placed for share in choice.shares):
            if placed.copy.log_dir not in paths.get(placed.node_id, ()):
                log_dir = escaped(placed.copy.log_dir)
                raise _FRAME.refused(plan.path, FramedRefusal.UNPLANNED_DIR(copy=named, log_dir=log_dir))
        places: list[tuple[object, ...]] = [(choice.topic, choice.partition)]
        places += [(each.placed.node_id, each.placed.copy.log_dir, each.placed.copy.folder) for each in choice.shares]
        if len(set(places)) < len(places) or not seen.isdisjoint(places):
            raise _FRAME.refused(plan.path, FramedRefusal.TWICE(what=named))
        seen.update(places)


def make_fleet_plan(files: Sequence[Collected]) -> FleetPlan:
    """Plan for these brokers. Raises Refused for files that do not belong together."""
    brokers = _by_node(files)
    cluster_id = _cluster_id(files)
    known, metadata_from = _known_partitions(brokers)
    placed = placed_copies(brokers)
    keys = sorted({*placed, *known})
    unclean = find_unclean(brokers, metadata_from)
    choices = [choose(placed.get(key, ()), known.get(key), tuple(brokers), key, unclean) for key in keys]
    open_topics = open_to_all(brokers, metadata_from)
    choices = [
        replace(each, electable=tuple(dict.fromkeys((*each.electable, *each.replicas))))
        if each.topic in open_topics
        else each
        for each in choices
    ]
    choices, waves, conflicts = _in_order(choices, tuple(brokers))
    in_conflict: dict[tuple[str, int], set[int]] = defaultdict(set)
    for each in conflicts:
        in_conflict[each.topic, each.partition].add(each.node_id)
    choices = [_with_conflicts(choice, in_conflict.get((choice.topic, choice.partition), set())) for choice in choices]
    fleet = FleetFacts(
        FORMAT,
        cluster_id,
        tuple(PlannedBroker(node_id, file.broker.log_dirs) for node_id, file in brokers.items()),
        tuple(sorted({node_id for choice in choices for node_id in choice.missing})),
        waves,
        conflicts,
        metadata_from,
        tuple(_notes(files, metadata_from)),
    )
    return FleetPlan(fleet, tuple(choices))


# The files.


def _by_node(files: Sequence[Collected]) -> dict[int, Collected]:
    results: dict[int, Collected] = {}
    for file in sorted(files, key=lambda file: -1 if file.broker.node_id is None else file.broker.node_id):
        node_id = file.broker.node_id
        if node_id is None:
            raise Refused(FleetRefusal.NO_BROKER(), path=file.path)
        if node_id in results:
            raise Refused(FleetRefusal.SECOND_FILE(broker=node_id, first=results[node_id].path), path=file.path)
        results[node_id] = file
    return results


def _cluster_id(files: Sequence[Collected]) -> str | None:
    clusters = {file.broker.cluster_id: file.path for file in files if file.broker.cluster_id is not None}
    if len(clusters) > 1:
        (one, first), (other, second) = list(clusters.items())[:2]
        raise Refused(FleetRefusal.OTHER_CLUSTER(other=other, first=first, one=one), path=second)
    return next(iter(clusters), None)


def _known_partitions(brokers: Mapping[int, Collected]) -> tuple[dict[tuple[str, int], PartitionFacts], int | None]:
    """Return the partitions by the metadata that reaches furthest."""
    ends = {
        node_id: file.broker.metadata.completeness
        for node_id, file in brokers.items()
        if file.broker.metadata is not None
    }
    if not ends:
        return {}, None
    newest = max(ends, key=lambda node_id: (ends[node_id], -node_id))
    return {(known.topic, known.partition): known for known in brokers[newest].partitions}, newest


def find_unclean(brokers: Mapping[int, Collected], metadata_from: int | None) -> set[int]:
    """Return brokers that register without their last epoch, because a log dir has no clean marker: with
    eligible.leader.replicas.version 1 the controller takes them out of ISR and ELR (KIP-966)."""
    metadata = None if metadata_from is None else brokers[metadata_from].broker.metadata
    if metadata is None or metadata.features.get(ELR, 0) < 1:
        return set()
    return {n for n, file in brokers.items() if not all(log_dir.is_clean for log_dir in file.broker.log_dirs)}


def open_to_all(brokers: Mapping[int, Collected], metadata_from: int | None) -> set[str]:
    """Return the topics for which the controller elects any replica that runs, if none in sync does."""
    topics = () if metadata_from is None else brokers[metadata_from].topics
    return {known.topic for known in topics if known.settings.get(UNCLEAN_ELECTIONS) == "true"}


def placed_copies(brokers: Mapping[int, Collected]) -> dict[tuple[str, int], list[PlacedCopy]]:
    """Return the copies of each partition, but those of the cluster's metadata."""
    results: dict[tuple[str, int], list[PlacedCopy]] = defaultdict(list)
    for node_id, file in brokers.items():
        log_dirs = {log_dir.path: log_dir for log_dir in file.broker.log_dirs}
        for copy in file.copies:
            if copy.topic == METADATA_TOPIC:
                continue
            log_dir = log_dirs.get(copy.log_dir, LogDirFacts(copy.log_dir))
            results[copy.key].append(PlacedCopy(node_id, copy, log_dir.is_clean, log_dir.directory_id))
    return results


def _notes(files: Sequence[Collected], metadata_from: int | None) -> Iterator[Reason]:
    if metadata_from is None:
        yield FleetProblem.NO_METADATA()
    for file in files:
        metadata = file.broker.metadata
        if metadata is not None and metadata.problem is not None:
            yield FleetProblem.METADATA_NOT_WHOLE(broker=file.broker.node_id or 0, problem=metadata.problem)
    election, _ = elect(files)
    if election is None or election.outcome is not ElectionOutcome.NEVER:
        return
    voters = tuple(voter.id for voter in election.voters)
    absent = set(voters) - {file.broker.node_id for file in files}
    if len(absent) * 2 >= len(voters) > 0:
        needed = election.majority
        yield FleetProblem.NO_MAJORITY(needed=needed, voters=voters, absent=tuple(sorted(absent)))
    else:
        yield FleetProblem.NO_LEADER(causes=", ".join(cause.value for cause in election.causes))


# Who leads.


def needs_election(choice: Choice) -> bool:
    """Return whether the best copy may lead only after an unclean election.

    Also if it is electable, but a broker with a worse copy is, too, or one that is missing. The controllers start with
    all brokers in sync that the metadata names, and take out one after another because its session has timed out
    (ReplicationControlManager.handleBrokerFenced). The last one stays, whichever it is, and is waited for.
    """
    if choice.leader not in choice.replicas:
        return False
    return choice.leader not in choice.electable or bool(waited_for(choice))


def waited_for(choice: Choice) -> tuple[int, ...]:
    """Return the brokers for which the controller may wait, although they must not lead, or do not start."""
    return tuple(n for n in choice.electable if n in choice.rivals or n in choice.missing)


def is_damaged(choice: Choice) -> bool:
    """Return whether the best copy must be salvaged: a broker would cut it at its damage, or lacks what others have."""
    return choice.best is not None and (hidden_damage(choice.best) is not None or bool(choice.fills))


def _reassignment(choice: Choice) -> dict[str, object]:
    leader = choice.leader
    others = [node_id for node_id in choice.replicas if node_id != leader and node_id not in choice.missing]
    return {"topic": choice.topic, "partition": choice.partition, "replicas": [leader, *others]}


def _in_order(
    choices: Sequence[Choice], brokers: Brokers
) -> tuple[list[Choice], tuple[Brokers, ...], tuple[Conflict, ...]]:
    """Return the choices with their rivals, and the order of starts that these ask for."""
    first: Collection[int] = brokers
    while True:
        ranked = [replace(choice, rivals=_rivals(choice, brokers, first)) for choice in choices]
        waves, conflicts = start_order(ranked, brokers)
        still_first = set(first) & set(waves[0]) if waves else set()
        later = set(first) - still_first
        if not any(needs_election(choice) and choice.leader in later for choice in ranked):
            return ranked, waves, conflicts
        first = still_first


def _rivals(choice: Choice, brokers: Collection[int], first: Collection[int]) -> tuple[int, ...]:
    """Return the brokers that must not run before the best one. first: the brokers that start first.

    Those are the brokers that the controller elects by itself, and whose copy would cut the best one. If an unclean
    election is needed, which takes the first live replica, they are also those with such a copy that come before the
    best one in the list; and all with such a copy if the election runs once before the best one has started.
    """
    by_itself = tuple(_worse(choice, choice.electable, brokers))
    if choice.leader is None or not needs_election(replace(choice, rivals=by_itself)):
        return by_itself
    end = choice.replicas.index(choice.leader) if choice.leader in first else None
    return tuple(dict.fromkeys((*by_itself, *_worse(choice, choice.replicas[:end], brokers))))


def _worse(choice: Choice, candidates: Sequence[int], brokers: Collection[int]) -> Iterator[int]:
    """Yield those of the brokers whose copy would cut the best one, if they led."""
    if choice.best is None or choice.leader not in choice.replicas:
        return
    best = choice.best.copy
    own = {share.placed.node_id: share for share in choice.shares if share.action in ("follow", "truncate")}
    for node_id in candidates:
        if node_id == choice.leader or node_id not in brokers:
            continue
        rival = own.get(node_id)
        if rival is None or brokers_cut(best, _as_it_leads(rival), is_clean=False) < best.log_end_offset:
            yield node_id


def _as_it_leads(share: Share) -> CopyFacts:
    """Return the copy as its broker would lead with it: cut by `fleet apply`, or by the broker at its damage."""
    copy = share.placed.copy
    end = min(copy.log_end_offset, copy.sound_end_offset)
    if share.action == "truncate" and share.to is not None:
        end = min(end, share.to)
    return replace(copy, log_end_offset=end)


def start_order(
    choices: Sequence[Choice], brokers: Sequence[int]
) -> tuple[tuple[tuple[int, ...], ...], tuple[Conflict, ...]]:
    """Return the brokers in waves: a broker with a best copy comes before those that would lead with a worse one. A
    conflict is a partition for which that cannot be."""
    before: dict[int, dict[int, list[Choice]]] = {node_id: defaultdict(list) for node_id in brokers}
    for choice in choices:
        for rival in choice.rivals:
            if choice.leader is not None:
                before[rival][choice.leader].append(choice)
    waves: list[tuple[int, ...]] = []
    conflicts: list[Conflict] = []
    left = sorted(brokers)
    while left:
        waiting = {
            node_id: [c for first, cs in before[node_id].items() if first in left for c in cs] for node_id in left
        }
        free = tuple(node_id for node_id in left if not waiting[node_id])
        if not free:
            free = (min(left, key=lambda node_id: (len(waiting[node_id]), node_id)),)
            conflicts += [Conflict(choice.topic, choice.partition, free[0]) for choice in waiting[free[0]]]
        waves.append(free)
        left = [node_id for node_id in left if node_id not in free]
    return tuple(waves), tuple(conflicts)


def _with_conflicts(choice: Choice, brokers: Collection[int]) -> Choice:
    """Let the best copy be brought to the brokers that would lead with a worse one."""
    if not brokers:
        return choice
    why = ShareCause.WOULD_LEAD(broker=-1 if choice.leader is None else choice.leader)
    shares = tuple(
        replace(share, action="replace", why=why, to=None)
        if share.placed.node_id in brokers and share.action in ("follow", "truncate")
        else share
        for share in choice.shares
    )
    empty = set(brokers) - {share.placed.node_id for share in shares}
    texts = (FleetProblem.NO_COPY(broker=node_id, why=why) for node_id in sorted(empty))
    rivals = tuple(node_id for node_id in choice.rivals if node_id not in brokers)
    return replace(choice, shares=shares, rivals=rivals, problems=(*choice.problems, *texts))
