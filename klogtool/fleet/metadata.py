"""What a lost `__cluster_metadata` said, as far as the brokers' log dirs know: topics, ids, partitions, replicas.

Every value is from a disk, given by the user, or chosen here; `guessed` names what was chosen and `unknown` what no
disk knows. The rule for what is chosen: no broker may lose a record by it. So no record is deleted by time or size
until somebody sets the retention of its topic again (`HELD`). Numbers that must never come twice begin at the time:
ahead of all that a cluster has used, also of those of an earlier rebuilding.
Sources: org.apache.kafka.image (TopicImage, ClusterImage), org.apache.kafka.controller ReplicationControlManager.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.broker.circumstances import Sections, settings_by_file
from klogtool.broker.releases import REFERENCE, Release, rules_of
from klogtool.causes import Cause, Reason, Told
from klogtool.errors import Refused
from klogtool.fleet.causes import FleetRefusal, Guess, NotAdoptedCause
from klogtool.fleet.choosing import PlacedCopy, choose
from klogtool.fleet.collected import Collected, CopyFacts, LogDirFacts
from klogtool.fleet.histories import history_of, latest_epoch_of, parting_offset
from klogtool.format.kraft_snapshot import Voter
from klogtool.format.metadata_versions import METADATA_VERSION, metadata_version_name
from klogtool.format.names import (
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    REMOTE_TOPIC,
    SHARES_TOPIC,
    TOPIC_NAME,
    TRANSACTIONS_TOPIC,
)
from klogtool.format.uuids import METADATA_TOPIC_ID, ZERO_UUID, parse_uuid

MARGIN = 1_000_000  # how far the snapshot's offset is ahead of every one that a disk has
EPOCH_MARGIN = 100  # likewise leader epochs: an election without records leaves no trace on the other disks
MOST_EPOCH = 2**31 - 1 - 2 * EPOCH_MARGIN
MOST_OFFSET = 2**62
_MS_OF_MINUTE, _IDS_OF_MS = 60_000, 1000
UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"  # DirectoryId.UNASSIGNED
_MIN_ISR = "min.insync.replicas"
CLEANUP, COMPACT = "cleanup.policy", "compact"
# Why a topic has a setting.
GIVEN, KNOWN, INTERNAL_TOPIC, CLEANED, HOLD = "given", "metadata", "internal", "cleaner", "held"
GUESSED: Mapping[str, Cause] = {
    INTERNAL_TOPIC: Guess.INTERNAL_SETTINGS,
    CLEANED: Guess.CLEANED,
    HOLD: Guess.HELD,
}
MOST_NAMED = 5  # topics in one sentence
HELD: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1"}
# As coordinators create their topics (groupMetadataTopicConfigs, shareGroupStateTopicConfigs, ...), by default.
INTERNAL: Mapping[str, Mapping[str, str]] = {
    OFFSETS_TOPIC: {CLEANUP: COMPACT, "compression.type": "producer", "segment.bytes": "104857600"},
    TRANSACTIONS_TOPIC: {
        CLEANUP: COMPACT,
        "compression.type": "uncompressed",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
        "min.insync.replicas": "2",
    },
    SHARES_TOPIC: {
        CLEANUP: "delete",
        "compression.type": "producer",
        "segment.bytes": "104857600",
        "min.insync.replicas": "2",
        "retention.ms": "-1",
    },
    REMOTE_TOPIC: {CLEANUP: "delete", "retention.ms": "-1"},
}
# What kafka-storage format sets from a level of metadata.version on (Feature.defaultLevel), but for eligible leader
# replicas. A level too low breaks what was there: a transactional id that has used transaction.version 2 cannot go on
# under 0. A level too high breaks nothing.
FEATURES: Mapping[str, tuple[int, int]] = {
    "group.version": (1, 22),
    "transaction.version": (2, 24),
    "share.version": (1, 28),
    "streams.version": (1, 29),
}
MOST_NAME_BYTES = 255  # a broker cuts the name of a -stray folder to this
LEAST_LEVEL = 7  # of metadata.version, for which records are written: 3.3-IV3
MOST_MISSING = 10_000  # partitions of a topic that begin empty


class Wishes(Struct, frozen=True, kw_only=True):
    """What the user knows. now_ms: the clock. settings: by topic. sections: of a --config-file. features:
    their levels. topic_ids: which id to take for a topic.

    hold: keep all records of topics whose settings are unknown. adopt_stray: take folders that a broker has renamed to
    -stray. rebuild_anyway: even if a broker still has `__cluster_metadata`.
    """

    now_ms: int
    release: Release = REFERENCE
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sections: Sections = ()
    features: Mapping[str, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    voters: tuple[Voter, ...] = ()
    hold: bool = True
    adopt_stray: bool = False
    rebuild_anyway: bool = False
    next_producer_id: int | None = None


class Damaged(Struct, frozen=True):
    """A copy that a broker is to adopt although a part of it is damaged or missing. It counts up to there."""

    broker: int
    log_dir: str
    folder: str
    sound_end_offset: int
    log_end_offset: int


class Replica(Struct, frozen=True):
    """A copy of a partition that a broker is to adopt. sound: the same, up to its first damage."""

    broker: int
    directory_id: str
    copy: CopyFacts
    sound: CopyFacts


class Behind(Struct, frozen=True):
    """A shorter copy, which ends at `end_offset` and fetches up to `leads_to`."""

    broker: int
    end_offset: int
    leads_to: int


class SnapshotPartition(Struct, frozen=True):
    """A partition of the snapshot. replicas: brokers, the preferred one first. complete: those of the most complete
    copies; the first one is the `leader`. is_new: no disk has a copy, so it begins empty."""

    partition: int
    replicas: tuple[int, ...]
    directories: tuple[str, ...]
    leader: int
    complete: tuple[int, ...]
    behind: tuple[Behind, ...] = ()
    leader_epoch: int = EPOCH_MARGIN
    end_offset: int = 0
    is_new: bool = False


class Setting(Struct, frozen=True):
    """A setting of a topic. why: where it comes from, GIVEN, KNOWN or one of `GUESSED`."""

    name: str
    value: str
    why: str


class Topic(Struct, frozen=True, rename={"name": "topic"}):
    """A topic of the snapshot. looks_compacted: its offsets have gaps as a compacted log has."""

    name: str
    topic_id: str
    looks_compacted: bool
    partitions: tuple[SnapshotPartition, ...]
    settings: tuple[Setting, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether the topic has this setting."""
        return any(setting.name == name for setting in self.settings)


class NotAdopted(Struct, frozen=True):
    """A folder that no broker adopts, and why."""

    broker: int
    log_dir: str
    folder: str
    why: Reason


class Renaming(Struct, frozen=True):
    """A folder that has to get its name back before the broker starts."""

    broker: int
    log_dir: str
    folder: str
    to: str


class Rebuilt(Struct, frozen=True):
    """What the snapshot says. offset, epoch: of the snapshot. brokers: by id; the epoch of one that stopped cleanly."""

    cluster_id: str
    brokers: Mapping[int, int | None]
    log_dirs: Mapping[int, tuple[str, ...]]
    features: Mapping[str, int]
    topics: tuple[Topic, ...]
    next_producer_id: int
    offset: int
    epoch: int
    voters: tuple[Voter, ...] = ()
    not_adopted: tuple[NotAdopted, ...] = ()
    damaged: tuple[Damaged, ...] = ()
    renamings: tuple[Renaming, ...] = ()
    guessed: tuple[Reason, ...] = ()


def rebuild(collected: Sequence[Collected], wishes: Wishes) -> Rebuilt:
    """Decide what the snapshot says. Raises Refused if the files are not of one cluster, or a choice is the user's."""
    cluster_id = _check(collected, wishes)
    levels = rules_of(wishes.release).metadata_levels
    level = wishes.features.get(METADATA_VERSION, levels.production)
    if not max(levels.lowest, LEAST_LEVEL) <= level <= levels.highest:
        known = str(levels)
        raise Refused(
            FleetRefusal.UNKNOWN_LEVEL(release=wishes.release, level=level, feature=METADATA_VERSION, known=known)
        )
    usual = {name: usual for name, (usual, since) in FEATURES.items() if level >= since}
    features = {METADATA_VERSION: level, **usual, **wishes.features}
    result = _Found(wishes)
    for one in collected:
        result.add(one)
    topics = tuple(result.topics({topic.topic_id: topic.settings for one in collected for topic in one.topics}))
    _check_ids(topics)
    for name in (*wishes.settings, *wishes.topic_ids):  # it may be misspelt
        if all(name != topic.name for topic in topics):
            raise Refused(FleetRefusal.UNKNOWN_TOPIC(topic=name))
    if not topics:
        raise Refused(FleetRefusal.NOTHING_ADOPTABLE(), path=collected[0].path)
    return Rebuilt(
        cluster_id=cluster_id,
        brokers={_node(one): _broker_epoch(one) for one in collected},
        log_dirs={
            _node(one): tuple(
                log_dir.directory_id for log_dir in one.broker.log_dirs if log_dir.directory_id is not None
            )
            for one in collected
        },
        features=features,
        topics=topics,
        next_producer_id=_next_producer_id(wishes),
        offset=max(wishes.now_ms, MARGIN + max(map(_newest_offset, collected))),
        epoch=min(wishes.now_ms // _MS_OF_MINUTE, MOST_EPOCH),
        voters=wishes.voters,
        not_adopted=tuple(result.not_adopted),
        damaged=tuple(result.damaged),
        renamings=tuple(result.renamings),
        guessed=tuple(_guessed(wishes, features, topics)),
    )


# Checks of the files.


def _check(collected: Sequence[Collected], wishes: Wishes) -> str:
    """Return the cluster id. Raises Refused."""
    for one in collected:
        if one.broker.node_id is None or one.broker.node_id < 0 or one.broker.cluster_id is None:
            raise Refused(FleetRefusal.NO_IDENTITY(), path=one.path, cure=FleetRefusal.WRITE_IT())
    by_node: dict[int, str] = {}
    for one in collected:
        if _node(one) in by_node:
            raise Refused(FleetRefusal.TWO_FILES(broker=_node(one), first=by_node[_node(one)]), path=one.path)
        by_node[_node(one)] = one.path
    ids = {one.broker.cluster_id: one.path for one in collected}
    if len(ids) > 1:
        clusters = tuple(f"{cluster} ({path})" for cluster, path in sorted(ids.items(), key=str))
        raise Refused(FleetRefusal.OTHER_CLUSTERS(clusters=clusters))
    if not wishes.rebuild_anyway:
        _check_lost(collected)
    return next(iter(ids)) or ""


def _check_ids(topics: Iterable[Topic]) -> None:
    """Raises Refused if two topics have one id."""
    names: dict[str, str] = {}
    for topic in topics:
        other = names.setdefault(topic.topic_id, topic.name)
        if other != topic.name:
            cause = FleetRefusal.SAME_TOPIC_ID(other=other, topic=topic.name, topic_id=topic.topic_id)
            raise Refused(cause, cure=FleetRefusal.NAME_BACK())


def _check_lost(collected: Sequence[Collected]) -> None:
    """Raises Refused if a broker still has metadata that knows one of its topics."""
    alive = [
        (one.broker.metadata.completeness, n, one.broker.metadata)
        for n, one in enumerate(collected)
        if one.broker.metadata is not None
        and {copy.topic_id for copy in one.copies} & {topic.topic_id for topic in one.topics}
    ]
    if not alive:
        return
    _, n, metadata = max(alive, key=lambda each: (each[0], -each[1]))
    voters = tuple(metadata.voters)
    raise Refused(
        FleetRefusal.METADATA_LEFT(
            broker=_node(collected[n]),
            end=metadata.end_offset,
            log_dir=metadata.log_dir,
            of_all=FleetRefusal.OF_ALL() if len(alive) > 1 else "",
        ),
        path=collected[n].path,
        cure=FleetRefusal.COPY_IT(voters=FleetRefusal.ITS_VOTERS(voters=voters) if voters else ""),
    )


def _node(one: Collected) -> int:
    return -1 if one.broker.node_id is None else one.broker.node_id


def _newest_offset(one: Collected) -> int:
    """Return the highest offset of the lost metadata log that a broker knows of. Broker epochs are such offsets."""
    metadata = 0 if one.broker.metadata is None else one.broker.metadata.end_offset
    return min(MOST_OFFSET, max([0, metadata, *(log_dir.broker_epoch or 0 for log_dir in one.broker.log_dirs)]))


def _next_producer_id(wishes: Wishes) -> int:
    return wishes.now_ms * _IDS_OF_MS if wishes.next_producer_id is None else wishes.next_producer_id


def _broker_epoch(one: Collected) -> int | None:
    """Return the epoch of a broker that has stopped cleanly (CleanShutdownFileHandler); all its log dirs must agree."""
    epochs = {log_dir.broker_epoch if log_dir.is_clean else None for log_dir in one.broker.log_dirs}
    epoch = next(iter(epochs)) if len(epochs) == 1 else None
    return epoch if epoch is not None and epoch >= 0 else None


# Copies, and what becomes of them.


class _Found:
    """The copies of all brokers, put together."""

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._brokers: list[int] = []
        self._copies: list[tuple[int, LogDirFacts | None, CopyFacts]] = []
        self.not_adopted: list[NotAdopted] = []
        self.damaged: list[Damaged] = []
        self.renamings: list[Renaming] = []

    def add(self, one: Collected) -> None:
        """Take the copies of a broker that can be adopted."""
        self._brokers = sorted([*self._brokers, _node(one)])
        log_dirs = {log_dir.path: log_dir for log_dir in one.broker.log_dirs}
        for copy in one.copies:
            if copy.topic == METADATA_TOPIC:
                continue
            why = self._why_not(copy)
            if why is None:
                self._copies.append((_node(one), log_dirs.get(copy.log_dir), copy))
            else:
                self._leave(_node(one), copy, why)

    def topics(self, known: Mapping[str, Mapping[str, str]]) -> Iterator[Topic]:
        """Yield the topics by name. known: settings by topic id."""
        self._copies.sort(key=lambda item: (item[2].topic, item[2].partition, item[0], item[2].log_dir))
        groups = groupby(self._copies, key=lambda item: item[2].topic)
        for number, (name, group) in enumerate(groups):
            copies = list(group)
            topic_id = self._choose_id(name, [copy for _, _, copy in copies])
            selected = [item for item in copies if item[2].topic_id == topic_id]
            for broker, _, copy in copies:
                if copy.topic_id != topic_id:
                    self._leave(broker, copy, NotAdoptedCause.OTHER_ID(topic_id=str(copy.topic_id), wanted=topic_id))
            partitions = tuple(self._partitions(selected, number))
            adopted = [copy for _, _, copy in selected]
            settings = tuple(_settings(name, adopted, known.get(topic_id, {}), self._wishes))
            yield Topic(name, topic_id, any(copy.is_compacted for copy in adopted), partitions, settings)

    def _leave(self, broker: int, copy: CopyFacts, why: Reason) -> None:
        self.not_adopted.append(NotAdopted(broker, copy.log_dir, copy.folder, why))

    def _why_not(self, copy: CopyFacts) -> Reason | None:
        if copy.problem is not None:
            return Told.TEXT(text=copy.problem)
        if TOPIC_NAME.fullmatch(copy.topic) is None or copy.partition < 0:
            return NotAdoptedCause.IMPOSSIBLE_NAME()
        if copy.state == "delete":
            return NotAdoptedCause.TOPIC_DELETED()
        if copy.state == "future":
            return NotAdoptedCause.MOVE_UNFINISHED()
        if copy.topic_id is None:
            return NotAdoptedCause.NO_ID()
        if parse_uuid(copy.topic_id) in (ZERO_UUID, METADATA_TOPIC_ID):
            return NotAdoptedCause.IMPOSSIBLE_ID(topic_id=copy.topic_id)
        if _newest_epoch(copy) > MOST_EPOCH:
            return NotAdoptedCause.IMPOSSIBLE_EPOCH(epoch=_newest_epoch(copy))
        if copy.state == "stray" and not self._wishes.adopt_stray:
            return NotAdoptedCause.SET_ASIDE()
        if copy.state == "stray" and len(os.fsencode(copy.folder)) >= MOST_NAME_BYTES:
            return NotAdoptedCause.NAME_CUT()
        return None

    def _choose_id(self, name: str, copies: Sequence[CopyFacts]) -> str:
        """Choose between ids of one name: the one given, or that of the newest record.

        Raises Refused where a set-aside folder and a current one compete: which is wanted, only the user knows.
        """
        ids = sorted({copy.topic_id or "" for copy in copies})
        wished = self._wishes.topic_ids.get(name)
        if wished is not None:
            if wished not in ids:
                raise Refused(FleetRefusal.NO_SUCH_ID(topic=name, topic_id=wished, ids=tuple(ids)))
            return wished
        states = {copy.topic_id or "": copy.state for copy in copies}
        if len(ids) > 1 and len(set(states.values())) > 1:
            stated = tuple(f"{topic_id} ({states[topic_id]})" for topic_id in ids)
            cure = FleetRefusal.SAY_WHICH(topic=name)
            raise Refused(FleetRefusal.SET_ASIDE(topic=name, ids=stated), cure=cure)

        def newness(topic_id: str) -> tuple[int, int]:
            timestamps = [copy.newest_timestamp for copy in copies if copy.topic_id == topic_id]
            return max(-1 if timestamp is None else timestamp for timestamp in timestamps), len(timestamps)

        return max(ids, key=newness)

    def _partitions(
        self, copies: Sequence[tuple[int, LogDirFacts | None, CopyFacts]], first_turn: int
    ) -> Iterator[SnapshotPartition]:
        """Yield partitions 0 to the highest that is there. One without a copy gets replicas as its neighbours have."""
        by_number: dict[int, list[Replica]] = {}
        for broker, log_dir, copy in copies:
            directory = UNASSIGNED if log_dir is None or log_dir.directory_id is None else log_dir.directory_id
            end = copy.sound_end_offset  # a broker that recovers the copy cuts it at its first damage
            epochs = tuple(epoch for epoch in copy.epochs if epoch.start_offset < end)
            by_number.setdefault(copy.partition, []).append(
                Replica(broker, directory, copy, replace(copy, log_end_offset=end, epochs=epochs, holes=()))
            )
        if max(by_number) - len(by_number) >= MOST_MISSING:
            name = copies[0][2].topic
            raise Refused(
                FleetRefusal.FEW_PARTITIONS(topic=name, highest=max(by_number), others=len(by_number) - 1),
                path=os.path.join(copies[-1][2].log_dir, copies[-1][2].folder),
                cure=FleetRefusal.MOVE_AWAY(),
            )
        number_of_replicas = max(len({r.broker for r in replicas}) for replicas in by_number.values())
        for number in range(max(by_number) + 1):
            turn = first_turn + number
            if number in by_number:
                yield self._placed(number, by_number[number], turn)
            else:
                brokers = _turned(self._brokers, turn)[:number_of_replicas]
                yield SnapshotPartition(number, brokers, (UNASSIGNED,) * len(brokers), brokers[0], brokers, is_new=True)

    def _placed(self, number: int, replicas: Sequence[Replica], turn: int) -> SnapshotPartition:
        best = self._one_for_each_broker(replicas)
        order = _turned(sorted(best), turn)
        top = _leading([best[broker] for broker in order])
        complete = tuple(broker for broker in order if _is_as_complete(best[broker], top))
        self.damaged.extend(_damaged(best.values()))
        self.renamings.extend(_renamings(best.values()))
        newest, end = max(_newest_epoch(replica.copy) for replica in replicas), top.sound.log_end_offset
        return SnapshotPartition(
            number,
            tuple(order),
            tuple(best[broker].directory_id for broker in order),
            complete[0],
            complete,
            tuple(Behind(b, best[b].sound.log_end_offset, end) for b in order if b not in complete),
            newest + EPOCH_MARGIN,
            end,
        )

    def _one_for_each_broker(self, replicas: Sequence[Replica]) -> dict[int, Replica]:
        """Return the most complete copy of each broker. A broker refuses to start with two."""

        def reach(replica: Replica) -> tuple[bool, int, int]:
            sound = replica.sound
            return replica.copy.state == "current", latest_epoch_of(sound), sound.log_end_offset

        best: dict[int, Replica] = {}
        for replica in sorted(replicas, key=reach):
            if replica.broker in best:
                beaten = best[replica.broker]
                self._leave(replica.broker, beaten.copy, NotAdoptedCause.BETTER_COPY(log_dir=replica.copy.log_dir))
            best[replica.broker] = replica
        return best


def _leading(replicas: Sequence[Replica]) -> Replica:
    """Return the copy that is to lead, by the rule of `fleet plan`; of several as good, the first."""
    placed = [PlacedCopy(replica.broker, replica.sound) for replica in replicas]
    leader = choose(placed, None, (), replicas[0].copy.key).leader
    best = next(replica for replica in replicas if replica.broker == leader)
    return next(replica for replica in replicas if _is_as_complete(replica, best))


def _is_as_complete(replica: Replica, best: Replica) -> bool:
    """Return whether a copy has all that the best one has, and nothing else."""
    one, other = history_of(replica.sound), history_of(best.sound)
    return one.end == other.end == parting_offset(one, other)


def _damaged(replicas: Iterable[Replica]) -> Iterator[Damaged]:
    for replica in replicas:
        copy = replica.copy
        if copy.sound_end_offset < copy.log_end_offset:
            folder = copy.log_dir, copy.folder
            yield Damaged(replica.broker, *folder, copy.sound_end_offset, copy.log_end_offset)


def _newest_epoch(copy: CopyFacts) -> int:
    return max((epoch.epoch for epoch in (*copy.epochs, *(copy.checkpoint_epochs or ()))), default=0)


def _turned(brokers: Sequence[int], turn: int) -> tuple[int, ...]:
    """Return the brokers, begun at another one for each partition, so that leaders spread."""
    at = turn % len(brokers)
    return (*brokers[at:], *brokers[:at])


def _renamings(replicas: Iterable[Replica]) -> Iterator[Renaming]:
    for replica in replicas:
        copy = replica.copy
        if copy.state != "current":
            yield Renaming(replica.broker, copy.log_dir, copy.folder, f"{copy.topic}-{copy.partition}")


# Settings.


def _settings(name: str, copies: Sequence[CopyFacts], known: Mapping[str, str], wishes: Wishes) -> Iterator[Setting]:
    """Yield the settings of a topic by name; what is given wins, then what a broker's metadata knows."""
    results: dict[str, Setting] = {}

    def add(settings: Mapping[str, str], why: str) -> None:
        for key, value in settings.items():
            results.setdefault(key, Setting(key, value, why))

    add({**settings_by_file(name, wishes.sections), **wishes.settings.get(name, {})}, GIVEN)
    add(known, KNOWN)
    add(_internal(name, copies), INTERNAL_TOPIC)
    if any(copy.cleaner_offset is not None for copy in copies):
        add({CLEANUP: COMPACT}, CLEANED)
    if wishes.hold and not known and name not in INTERNAL:
        add(HELD, HOLD)
    yield from sorted(results.values(), key=lambda setting: setting.name)


def _internal(name: str, copies: Sequence[CopyFacts]) -> dict[str, str]:
    """Return the settings of an internal topic. What it has fewer replicas for is lowered: else nobody could write."""
    settings = dict(INTERNAL.get(name, {}))
    if _MIN_ISR in settings:
        replicas = max(Counter(copy.partition for copy in copies).values())
        settings[_MIN_ISR] = str(min(int(settings[_MIN_ISR]), replicas))
    return settings


def _guessed(wishes: Wishes, features: Mapping[str, int], topics: Sequence[Topic]) -> Iterator[Reason]:
    """Yield what was chosen that no disk says."""
    if METADATA_VERSION not in wishes.features:
        name = metadata_version_name(features[METADATA_VERSION])
        yield Guess.METADATA_VERSION(level=name, kafka=wishes.release)
    usual = [f"{name}={level}" for name, level in features.items() if name in FEATURES.keys() - wishes.features.keys()]
    if usual:
        yield Guess.FEATURES(features=tuple(usual))
    yield Guess.LEADER_EPOCHS(margin=EPOCH_MARGIN)
    if wishes.next_producer_id is None:
        yield Guess.PRODUCER_ID(next=_next_producer_id(wishes))
    yield Guess.REPLICA_ORDER()
    for why, guess in GUESSED.items():
        names = [topic.name for topic in topics if any(setting.why == why for setting in topic.settings)]
        if names:
            yield guess(topics=_listed(names))
    unproved = [topic.name for topic in topics if topic.looks_compacted and not topic.has(CLEANUP)]
    if unproved:
        yield Guess.LOOKS_COMPACTED(topics=_listed(unproved))


def _listed(names: Sequence[str]) -> Reason | tuple[str, ...]:
    listed, more = tuple(names[:MOST_NAMED]), len(names) - MOST_NAMED
    return listed if more <= 0 else Guess.AND_MORE(topics=listed, more=more)
