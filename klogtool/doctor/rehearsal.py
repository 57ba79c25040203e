"""Rehearses the start of a broker on all its log dirs, in Kafka's order, and writes nothing.

First come the files that identify log dirs, the names of folders and the checkpoints (KafkaRaftServer, LogManager);
then the cluster's metadata; then each partition is loaded. Problems of one place do not hide those of others: each
partition is rehearsed as if nothing else was wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import asdict, replace

from klogtool.broker.circumstances import Checkpoints, Circumstances, terms_of
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.releases import Release, Rules
from klogtool.causes import Reason
from klogtool.doctor.absent import split_log_dirs
from klogtool.doctor.absent_partitions import walk_absent, walk_absent_notes, walk_made
from klogtool.doctor.advice import advise
from klogtool.doctor.answers import (
    OFF,
    Ahead,
    Diagnosis,
    Leadership,
    Option,
    Prospect,
    Starts,
    Strategy,
    Trouble,
    What,
    Work,
    ahead_at_stop,
)
from klogtool.doctor.bad_sectors import walk_unread
from klogtool.doctor.causes import AheadCause, NoteCause
from klogtool.doctor.failed_log_dirs import walk_lock_points, with_metadata_log_dir, with_refusals
from klogtool.doctor.file_systems import NEW_PARTITION, Growth, rooms_of, walk_file_system_points, walk_room_notes
from klogtool.doctor.forgotten_segments import walk_forgotten_notes, walk_forgotten_segments, with_starts
from klogtool.doctor.host import judge_host
from klogtool.doctor.host_dirs import host_dirs
from klogtool.doctor.log_dirs import (
    Current,
    find_stray,
    is_forgotten,
    walk_log_dir_points,
    walk_misplaced,
    walk_promoted,
    walk_replaced,
    with_one_cause,
)
from klogtool.doctor.other_release import walk_level_points, walk_release_points
from klogtool.doctor.partitions import Rehearsed, glance, not_loaded, refused_metadata, rehearse
from klogtool.doctor.passed_over import LEAST_READ_BYTES
from klogtool.doctor.patient import Cluster, Patient, read_cluster
from klogtool.doctor.permissions import walk_denied
from klogtool.doctor.replicas import has_eligible_replicas, leads_in, walk_left_out, walk_replica_points
from klogtool.doctor.running_broker import weigh_by_store, with_ends, with_markers
from klogtool.doctor.segments_drawn import with_segments
from klogtool.doctor.server_properties import walk_server_notes, walk_server_points
from klogtool.doctor.voters import (
    QuorumView,
    ends_start,
    gone_of,
    lead_of,
    view_quorum,
    walk_cut_points,
    walk_quorum_points,
    walk_unlike_settings,
)
from klogtool.errors import KlogError
from klogtool.format.names import METADATA_TOPIC, FileKind, PartitionDirState, TopicPartition
from klogtool.log.cores import usable_cores
from klogtool.log.gentle import pace
from klogtool.log.log_dirs import find_log_dir_among
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.log.process_pool import in_processes
from klogtool.log.second_reading import has_changed, read_again
from klogtool.plans.recover import RecoverQuestion, log_bytes
from klogtool.plans.start_problems import find_start_problems, replay_problems
from klogtool.quorum.metadata_load import load_metadata_log
from klogtool.remote.local import read_log
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.safe_to_lose import SafePart, find_safe_part
from klogtool.remote.store import RemoteStore
from klogtool.verify.findings import Kind
from klogtool.verify.verify_log_dirs import may_be_copy

_RANKS = {what: rank for rank, what in enumerate(What)}
_STRATEGIES = {strategy: rank for rank, strategy in enumerate(Strategy)}
_READ_BYTES = 1 << 30  # of a log dir, beyond what its start reads: shared by its partitions


class Examination(Struct, frozen=True):
    """What the doctor is asked. quick: read names, ids and side files only. jobs: processes; None: one per core.

    host_root: the folder with `proc` and `sys`, to judge the machine, too; None: do not. controllers: metadata log
    dirs of other controllers of the cluster, with the settings of each (None: not known), to judge whether a leader is
    elected. tier: the store of tiered topics and their metadata. unfit: settings of the broker whose values have the
    wrong type, so that the circumstances do not have them.
    """

    circumstances: Circumstances
    quick: bool = False
    jobs: int | None = None
    on_partition: Callable[[], None] = lambda: None
    host_root: str | None = None
    controllers: tuple[tuple[str, Mapping[str, str] | None], ...] = ()
    tier: tuple[RemoteStore, RemoteMetadata] | None = None
    unfit: Mapping[str, str] = {}


class _SeenOnDisks(Struct, frozen=True):
    """What was found on the disks, the same for every release."""

    log_dirs: tuple[str, ...]
    cluster: Cluster
    points: tuple[Ahead, ...]
    rehearsed: tuple[Rehearsed, ...]
    may_be_copy: bool


def examine(paths: Sequence[str], how: Examination) -> Diagnosis:
    """Return what a broker's start does to these log dirs, and what can be done about it. Raises KlogError for a path
    that is no log dir, Unreadable for what klogtool may not read."""
    named = tuple(dict.fromkeys(map(os.path.abspath, paths)))
    return read_again(lambda: _diagnose(_find(named, how), named, how))


def examine_for_all(paths: Sequence[str], how: Examination, releases: Sequence[Release]) -> list[Diagnosis]:
    """Return what `examine` does, for several releases. The logs are loaded once, if all releases load them alike."""
    named = tuple(dict.fromkeys(map(os.path.abspath, paths)))
    seen = _find(named, how)
    examinations = [replace(how, circumstances=replace(how.circumstances, kafka=release)) for release in releases]
    if any(each.depends_on_release for each in seen.rehearsed):
        return [_diagnose(_find(named, each), named, each) for each in examinations]
    return [_diagnose(seen, named, each) for each in examinations]


def _find(named: Sequence[str], how: Examination) -> _SeenOnDisks:
    log_dirs, absent = split_log_dirs(named)
    is_copy = may_be_copy(named, how.circumstances)
    cluster = read_cluster(log_dirs, how.circumstances)
    problems = find_start_problems(log_dirs, how.circumstances, named)
    points = absent + tuple(map(ahead_at_stop, problems))
    first = [point for point in points if point.kind != Kind.PARTITION_METADATA_CORRUPT]
    held = {point.path for point in first} | {os.path.dirname(point.path) for point in first}
    folders = [partition for path in log_dirs for partition in LogDir(path).partitions]
    current: dict[TopicPartition | None, list[Partition]] = {}
    for partition in folders:
        if partition.state.is_current:
            current.setdefault(partition.topic_partition, []).append(partition)
    rehearsed = tuple(each for path in log_dirs for each in _rehearse_log_dir(path, how, cluster, held, current))
    return _SeenOnDisks(log_dirs, cluster, tuple(_in_order(points, rehearsed)), rehearsed, is_copy)


def _in_order(points: Sequence[Ahead], rehearsed: Sequence[Rehearsed]) -> Iterator[Ahead]:
    """Yield the points; a partition.metadata to which a start does not come changes nothing about how it ends: it is
    read when the log is loaded (UnifiedLog.initializeTopicId)."""
    stops = {
        each.prospect.path: point.what
        for each in rehearsed
        for point in each.ahead
        if point.what in (What.REFUSES, What.OFFLINE) and not point.path.endswith(FileKind.PARTITION_METADATA.value)
    }
    for point in points:
        what = stops.get(os.path.dirname(point.path))
        if point.kind != Kind.PARTITION_METADATA_CORRUPT or what is None:
            yield point
        else:
            yield replace(point, what=what, detail=AheadCause.NOT_REACHED(what=point.detail), stop=None)


def _replay_points(cluster: Cluster, rules: Rules) -> Iterator[Ahead]:
    """Yield a point if this release does not replay the metadata."""
    if cluster.metadata_dir is not None:
        for problem in replay_problems(os.path.join(cluster.metadata_dir, CLUSTER_METADATA_DIR), rules):
            yield replace(ahead_at_stop(problem), by_leader=True)


def _diagnose(seen: _SeenOnDisks, named: tuple[str, ...], how: Examination) -> Diagnosis:
    patient = Patient(seen.log_dirs, seen.cluster, how.circumstances)
    held = {point.path for point in seen.points}
    promoted = {future.path: any(walk_replaced(future, patient)) for future in walk_promoted(patient)}
    loaded = [
        _weighed(point, how)
        for each in seen.rehearsed
        for point in each.ahead
        # What a -future folder lacks, the folder that it replaces may have.
        if point.path not in held and not (point.what is What.MISSING and promoted.get(point.path))
    ]
    strays = [point for point in loaded if point.what is What.STRAY]
    rooms = rooms_of(_growths(seen, patient))
    view = view_quorum(patient, how.controllers)
    levels = list(walk_level_points(seen.cluster, patient.rules))
    lead = lead_of(view, patient)
    forgotten = () if _learns_nothing(seen, lead) else tuple(with_one_cause(strays, patient))
    is_told = any(point.what is What.METADATA_LOST for point in forgotten)
    points = _once(
        *(point for point in seen.points if point.kind != Kind.METADATA_REPLAY and ends_start(point.kind, view)),
        *walk_file_system_points(seen.log_dirs, seen.cluster, rooms),
        *walk_lock_points(seen.log_dirs, seen.cluster),
        *walk_server_points(seen.log_dirs, how.circumstances, how.unfit),
        *walk_log_dir_points(patient),
        *(() if how.quick else walk_misplaced(patient)),
        *walk_replica_points(patient),
        *((*walk_left_out(patient), *walk_absent(patient)) if len(named) == len(seen.log_dirs) else ()),
        *(levels or _replay_points(seen.cluster, patient.rules)),
        *walk_quorum_points(view, patient),
        *(() if is_told else walk_cut_points(view)),
        *walk_forgotten_segments(patient, how.tier),
        *walk_denied(seen.log_dirs, seen.cluster, how.circumstances.checkpoints_read),
        *walk_unread(seen.log_dirs, seen.cluster, how.circumstances.checkpoints_read),
        *walk_release_points(seen.log_dirs, seen.cluster, patient.rules, view is None or view.is_broker),
        *(point for point in loaded if point.what is not What.STRAY),
        *forgotten,
    )
    points += _walk_unloaded_metadata(points, view, patient)
    points = with_refusals(points, seen.rehearsed, {point.path for point in strays})
    points = with_ends(list(with_metadata_log_dir(points, seen.cluster)), seen.log_dirs, seen.cluster)
    prospects = with_starts([_with_gone(each.prospect, view) for each in seen.rehearsed], points, seen.cluster)
    prospects = with_markers(prospects, seen.log_dirs, how.circumstances)
    off = _log_dirs_off(points, named)
    leads_off = len(off) < len(seen.log_dirs) and leads_in(seen.cluster, off)
    skips_leaders = leads_off and not has_eligible_replicas(seen.cluster)
    tiered = [] if how.tier is None else list(_walk_safe_parts(patient, *how.tier))
    starts = Starts.REFUSES if lead.elected is False else _starts(points, patient, named)
    return Diagnosis(
        how.circumstances.kafka,
        named,
        starts,
        _troubles(points, patient),
        prospects,
        (
            *_notes(seen, patient, how, view),
            *_unled(off if leads_off else [], skips=skips_leaders),
            *walk_room_notes(rooms),
            *(str(error) for error in tiered if isinstance(error, KlogError)),
        ),
        _seconds(seen.rehearsed, how),
        how.quick,
        () if how.host_root is None else tuple(judge_host(host_dirs(seen.log_dirs, prospects), how.host_root)),
        lead,
        tuple(part for part in tiered if isinstance(part, SafePart)),
        skips_leaders,
        tuple(promoted),
        seen.may_be_copy,
        _lacks_metadata(seen.cluster),
        patient.metadata_log_dir_to_set,
    )


def _log_dirs_off(points: Sequence[Ahead], named: Sequence[str]) -> list[str]:
    """Return the log dirs that go offline."""
    paths = {find_log_dir_among(point.path, named) for point in points if point.what in OFF}
    return sorted(path for path in paths if path is not None)


def _with_gone(prospect: Prospect, view: QuorumView | None) -> Prospect:
    """Return the prospect; of the metadata log, which is not loaded here, with what is known to be gone."""
    gone = gone_of(view) if view is not None and prospect.path == view.path else None
    if gone is None or prospect.claim is None:
        return prospect
    return replace(prospect, claim=replace(prospect.claim, gone_already=gone))


def _weighed(point: Ahead, how: Examination) -> Ahead:
    """Return a point as the store of tiered topics shows it, if one is named and the log can be read."""
    if how.tier is None:
        return point
    try:
        return weigh_by_store(point, *how.tier)
    except KlogError:  # told with what is safe to lose
        return point


def _growths(seen: _SeenOnDisks, patient: Patient) -> dict[str, Growth]:
    """Return by how much a start makes each log dir larger."""
    by_log_dir: dict[str, list[Growth]] = {path: [] for path in seen.log_dirs}
    for each in seen.rehearsed:
        by_log_dir[patient.log_dir_of(each.prospect.path)].append(each.growth)
    for path in walk_made(patient):
        by_log_dir[path].append(NEW_PARTITION)
    return {path: Growth.total(growths) for path, growths in by_log_dir.items()}


def _once(*points: Ahead) -> list[Ahead]:
    """Return the points, each place and kind once: every partition of a log dir may meet the same file."""
    return list({(point.path, point.what, point.first_offset): point for point in reversed(points)}.values())[::-1]


def _starts(points: Sequence[Ahead], patient: Patient, named: Sequence[str]) -> Starts:
    """Return whether a broker starts. It ends if all of log.dirs go offline (LogManager)."""
    given_up = [point.path for point in points if point.what in (What.OFFLINE, What.NO_ROOM) and not point.is_unsure]
    offline = {patient.log_dir_of(path) if patient.holds(path) else path for path in given_up}
    of_logs = set(named) - {patient.metadata_log_dir_apart}
    if any(point.what is What.REFUSES for point in points) or (of_logs and offline >= of_logs):
        return Starts.REFUSES
    return Starts.LOSES_DATA if any(point.is_losing for point in points) else Starts.YES


def _learns_nothing(seen: _SeenOnDisks, lead: Leadership) -> bool:
    """Return whether the broker hears of no partition: without a leader the metadata are never replayed, and nobody
    refuses to register it."""
    return _stops_at_metadata(seen) or not lead.replays


def _walk_unloaded_metadata(points: Sequence[Ahead], view: QuorumView | None, patient: Patient) -> Iterator[Ahead]:
    """Yield the point about a file at which the loading of the metadata log ends, unless another point says why a start
    ends there."""
    if patient.cluster.metadata_dir is None:
        return
    folder = os.path.join(patient.cluster.metadata_dir, CLUSTER_METADATA_DIR)
    stops = (What.REFUSES, What.OFFLINE)
    if not os.path.isdir(folder) or any(point.what in stops and point.path.startswith(folder) for point in points):
        return
    try:
        if view is not None and view.path == folder and view.own.start_error is None:
            return
        load_metadata_log(folder, patient.rules.release)
    except KlogError as error:
        if has_changed(error):
            raise
        yield refused_metadata(folder, error)


def _stops_at_metadata(seen: _SeenOnDisks) -> bool:
    """Return whether the broker ends because of the metadata that is not whole: nothing is forgotten then."""
    if seen.cluster.metadata_dir is None or not is_forgotten(seen.cluster):
        return False
    folder = os.path.join(seen.cluster.metadata_dir, CLUSTER_METADATA_DIR)
    return any(point.what is What.REFUSES and point.path.startswith(folder) for point in seen.points)


def _troubles(points: Sequence[Ahead], patient: Patient) -> tuple[Trouble, ...]:
    """Return a trouble for each path, the worst first, with its options; these have numbers, the cheapest first."""
    by_path: dict[str, list[Ahead]] = {}
    for point in points:
        by_path.setdefault(point.path, []).append(point)
    troubles = [advise(Trouble(path, tuple(ahead)), patient) for path, ahead in by_path.items()]
    numbers = count(1)

    def order(trouble: Trouble) -> tuple[int, int, str]:
        rank = min(_RANKS[point.what] for point in trouble.ahead)
        return rank, -sum(point.lost_records for point in trouble.ahead), trouble.path

    def numbered(trouble: Trouble) -> Trouble:
        options = sorted(trouble.options, key=_price)
        return replace(trouble, options=tuple(replace(option, number=next(numbers)) for option in options))

    return tuple(map(numbered, sorted(troubles, key=order)))


def _price(option: Option) -> tuple[bool, int, int]:
    """Sort key: what is lost; of options that lose the same, the safer strategy. Unknown losses come last, but salvage
    never keeps less than the broker, and a plan that only gives names and ids back is there to lose nothing. What
    removes the only witness of a loss is the very last."""
    is_sparing = bool(option.remedies) and option.strategy in (Strategy.NOTHING_LOST, Strategy.DAMAGED_ONLY)
    most = 0 if is_sparing else 1 << 62
    lost = most if option.lost_records is None else option.lost_records
    return option.erases_witness, lost, _STRATEGIES[option.strategy]


# The partitions.


def _rehearse_log_dir(
    path: str, how: Examination, cluster: Cluster, held: set[str], current: Current
) -> Iterator[Rehearsed]:
    """Yield the start of each partition dir, by name. held: paths with a start problem; such partitions are not
    loaded. current: the partitions of all log dirs."""
    checkpoints = Checkpoints.of(path, cluster.settings(), resets_unreadable=True)
    question = RecoverQuestion(**asdict(how.circumstances))
    partitions = LogDir(path).partitions
    loaded = [partition for partition in partitions if _is_loaded(partition) and partition.path not in held]
    jobs = how.jobs or usable_cores()
    processes = jobs if len(loaded) >= 2 * jobs else 1
    threads = jobs if processes == 1 else 1

    most_unread = max(LEAST_READ_BYTES, _READ_BYTES // max(1, len(loaded)))

    def work(partition: Partition) -> Rehearsed:
        rehearsed = (
            glance(partition) if how.quick else rehearse(partition.path, question, checkpoints, threads, most_unread)
        )
        stray = find_stray(partition, cluster, current)
        rehearsed = rehearsed if stray is None else replace(rehearsed, ahead=(*rehearsed.ahead, stray))
        return rehearsed if how.quick else with_segments(rehearsed)

    results = in_processes(work, loaded, processes, weight=lambda partition: log_bytes(partition.path))
    for partition in partitions:
        how.on_partition()
        if partition.path in held:
            yield Rehearsed(not_loaded(partition.path))
        elif not _is_loaded(partition):
            why = Work.METADATA if partition.topic == METADATA_TOPIC else Work.DELETED
            yield Rehearsed(not_loaded(partition.path, work=why))
        else:
            result = next(results)
            if isinstance(result, KlogError):
                raise result.at_path(partition.path)
            yield result


def _is_loaded(partition: Partition) -> bool:
    return partition.topic != METADATA_TOPIC and partition.state is not PartitionDirState.DELETE


def _seconds(rehearsed: Sequence[Rehearsed], how: Examination) -> float | None:
    """Return how long recovery takes at the rate of this rehearsal; None if nothing was loaded, or gently: a broker
    is not gentle."""
    if how.quick or pace() is not None:
        return None
    return sum(each.prospect.scan_seconds for each in rehearsed) / (how.jobs or usable_cores())


def _notes(seen: _SeenOnDisks, patient: Patient, how: Examination, view: QuorumView | None) -> Iterator[Reason]:
    cluster = seen.cluster
    if seen.may_be_copy:
        yield NoteCause.MAY_BE_COPY()
    elif _lacks_metadata(cluster):
        yield NoteCause.NO_METADATA()
    elif cluster.metadata is not None and cluster.metadata.problem is not None:
        yield NoteCause.METADATA_NOT_WHOLE(why=cluster.metadata.problem)
    if how.quick:
        yield NoteCause.QUICK()
    yield from walk_absent_notes(patient)
    yield from walk_forgotten_notes(patient, how.tier)
    yield from walk_unlike_settings(view)
    yield from walk_server_notes(seen.log_dirs, how.circumstances)
    if view is None or view.is_broker is not False:
        yield from _walk_unclean_notes(seen.log_dirs, cluster)


def _lacks_metadata(cluster: Cluster) -> bool:
    """Return whether brokers with topic ids wrote here, and no log dir has the metadata with which they compare."""
    return cluster.metadata is None and cluster.topic_ids


def _unled(off: Sequence[str], *, skips: bool) -> Iterator[Reason]:
    """Yield what a start does to the partitions that this broker leads in log dirs that go offline, and to others."""
    if off:
        yield NoteCause.MADE_TWICE(paths=tuple(off))
    if skips:
        yield NoteCause.SKIPS_LEADERS()


def _walk_unclean_notes(log_dirs: Sequence[str], cluster: Cluster) -> Iterator[Reason]:
    """Yield why a broker registers without its previous epoch, if the cluster has eligible leader replicas."""
    if not has_eligible_replicas(cluster):
        return
    unclean = [path for path in log_dirs if not Checkpoints(path).has_clean_marker]
    epochs = set(map(_broker_epoch, log_dirs))
    if unclean:
        yield NoteCause.UNCLEAN(paths=tuple(unclean))
    elif len(epochs) > 1 or None in epochs:
        yield NoteCause.NO_BROKER_EPOCH()


def _broker_epoch(path: str) -> int | None:
    try:
        marker = LogDir(path).clean_shutdown
    except KlogError:  # it counts all the same, and has no epoch
        return None
    return None if marker is None else marker.broker_epoch


def _walk_safe_parts(patient: Patient, store: RemoteStore, metadata: RemoteMetadata) -> Iterator[SafePart | KlogError]:
    """Yield the safe part of each log of a tiered topic; an error for one that cannot be read. Reads the segments of
    the store that stand for it."""
    for partition in patient.partitions():
        if not partition.state.is_current:
            continue
        try:
            checkpoints = patient.checkpoints_of(partition.path)
            terms = terms_of(partition.path, patient.circumstances, checkpoints=checkpoints)
            log = read_log(partition, terms.log_start_offset)
            is_tiered = bool(terms.is_tiered) and not terms.config.remote_log_copy_disable
            if log is not None and (is_tiered or metadata.knows(log.topic_id, log.partition)):
                is_off = terms.is_remote_off
                yield find_safe_part(store, metadata, log, is_tiered=is_tiered, is_remote_off=is_off)
        except KlogError as error:
            yield error.at_path(partition.path)
