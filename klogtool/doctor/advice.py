"""What to do about a trouble: what to look at first, and the options with what each loses."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from msgspec.structs import replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.causes import Text
from klogtool.doctor.answers import Ahead, Option, Strategy, Trouble, What, by_hand
from klogtool.doctor.bad_sectors import is_unread
from klogtool.doctor.causes import AdviceCause
from klogtool.doctor.claims import HiddenBy, Lost
from klogtool.doctor.file_options import (
    OPTIONS_BY_FINDING,
    OptionsOf,
    absent_options,
    deletion,
    future_away_options,
    future_options,
    identity_options,
    log_start_options,
    move_away,
    rename_options,
    stray_options,
)
from klogtool.doctor.fixes import edits_links, plans_of
from klogtool.doctor.forgotten_segments import is_of_epochs
from klogtool.doctor.log_options import (
    cut_options,
    damage_options,
    early_end_options,
    gap_options,
    hidden_options,
    loading_options,
    priced,
    rebuilding_options,
    replica_option,
    salvage_options,
    set_aside_options,
)
from klogtool.doctor.messages import situation_of
from klogtool.doctor.metadata_options import quorum_options
from klogtool.doctor.option_prices import price_of, price_without
from klogtool.doctor.patient import Patient
from klogtool.doctor.permissions import TEMPORARY, is_of_owner
from klogtool.escape import quoted
from klogtool.format.names import METADATA_TOPIC, FileKind, PartitionDirState, parse_file_name
from klogtool.log.folder import is_broken_link, is_device, is_fifo, is_socket, names_in
from klogtool.log.partition import Partition
from klogtool.verify.cures import move_out_of_partition
from klogtool.verify.findings import Kind

_LOOK_AT: Mapping[What, tuple[AdviceCause, ...]] = {
    What.TRUNCATED: (AdviceCause.REPLICA,),
    What.ABSENT: (AdviceCause.WHO_MOVED_FOLDER, AdviceCause.IN_UNNAMED_LOG_DIR, AdviceCause.REPLICA),
    What.ALL_DELETED: (AdviceCause.MOVED_BY_HAND,),
    What.ENDS_EARLY: (AdviceCause.REPLICA, AdviceCause.WHO_MADE_MARKER),
    What.DAMAGED: (AdviceCause.REPLICA,),
    What.LEADER_FAILS: (AdviceCause.REPLICA,),
    What.HIDDEN: (AdviceCause.RENAMED_BY_HAND, AdviceCause.SEND_AGAIN),
    What.LINK_BROKEN: (AdviceCause.MOUNTED, AdviceCause.NO_START_BEFORE),
    What.STRAY: (AdviceCause.TOPIC_RECREATED,),
    What.METADATA_LOST: (AdviceCause.OTHER_CONTROLLER, AdviceCause.ALL_CONTROLLERS_LOST),
    What.FUTURE_EMPTIED: (AdviceCause.MOVE_BETWEEN_DISKS,),
    What.MISNAMED: (AdviceCause.FOLDER_RENAMED,),
    What.LEFT_OUT: (AdviceCause.MOUNTED, AdviceCause.NAME_ALL),
    What.REMOTE_OFF: (AdviceCause.RIGHT_FILE,),
    What.REMOTE_FORGOTTEN: (AdviceCause.BROKERS_WITH_TOPIC,),
    What.COORDINATOR_FAILS: (AdviceCause.OWN_FOLDER, AdviceCause.REPLICA),
    What.MISSING: (AdviceCause.REPLICA,),
    What.PERHAPS_MISSING: (AdviceCause.REPLICA,),
    What.NO_ROOM: (AdviceCause.WHAT_FILLS_DISK,),
}
_MEASURED = frozenset({What.HIDDEN, What.TRUNCATED})  # the broker starts, and serves all that is not counted in them
_LOOK_AT_FINDING: Mapping[Kind | None, AdviceCause] = {
    Kind.META_PROPERTIES_MISSING: AdviceCause.MOUNTED,
    Kind.META_PROPERTIES_CONFLICT: AdviceCause.OTHER_BROKERS_DISK,
    Kind.DUPLICATE_PARTITION: AdviceCause.WHICH_FAILED,
    Kind.UNREADABLE: AdviceCause.WHO_OWNS,
}
_OPTIONS: Mapping[What, OptionsOf] = {
    What.NOT_VOTER: quorum_options,
    What.NO_MAJORITY: quorum_options,
    What.ENDPOINT_STALE: quorum_options,
    What.METADATA_BEHIND: quorum_options,
    What.TRUNCATED: cut_options,
    What.ABSENT: absent_options,
    What.ALL_DELETED: lambda point, patient: chain(rename_options(point, patient), log_start_options(point, patient)),
    What.ENDS_EARLY: early_end_options,
    What.DAMAGED: damage_options,
    What.LEADER_FAILS: damage_options,
    What.HIDDEN: hidden_options,
    What.ENDS_LATE: hidden_options,
    What.REFUSES: lambda point, patient: _refusal_options(point, patient),
    What.OFFLINE: loading_options,
    What.STRAY: stray_options,
    What.CLEANER_STOPS: lambda point, patient: iter((deletion(point.path, patient, AdviceCause.LONG_CLEANING),)),
    What.MISNAMED: identity_options,
    What.FUTURE_EMPTIED: future_options,
    What.REPLACED: future_away_options,
    What.IGNORED: set_aside_options,
    What.MISSING: lambda point, patient: iter(()) if _is_metadata_log(point) else gap_options(point, patient),
    What.PERHAPS_MISSING: gap_options,
    What.EXPIRES_EARLY: lambda point, patient: rebuilding_options(point.path, "timeindex", patient),
    What.EXPIRES_LATE: lambda point, patient: rebuilding_options(point.path, "timeindex", patient),
    What.INDEX_FALSE: lambda point, patient: rebuilding_options(point.path, "index", patient),
    What.ROLLS_EARLY: lambda point, patient: rebuilding_options(point.path, "index,timeindex", patient),
    What.COPY_FAILS: lambda point, patient: rebuilding_options(point.path, "snapshot", patient),
    What.REMOTE_FORGOTTEN: lambda point, _: iter(
        [by_hand(point.path, point.cure or "", *(() if is_of_epochs(point) else (AdviceCause.BY_OBJECTS(),)))]
    ),
    What.COORDINATOR_FAILS: lambda point, _: iter([by_hand(point.path, point.cure or "")]),
    What.WRITES_FAIL: lambda point, patient: rebuilding_options(point.path, "index,timeindex", patient),
}


def advise(trouble: Trouble, patient: Patient) -> Trouble:
    """Return the trouble with what to look at first, and with its options."""
    look = [line for point in trouble.ahead for line in _look_first(point)]
    options = [option for point in trouble.ahead for option in _walk_plannable(point, patient)]
    options = [option for option in options if not _is_worse_than_a_start(option, trouble)]
    if not options:
        options = [_by_hand(trouble.path, point, point.cure) for point in trouble.ahead if point.cure is not None]
    if not options:
        options = [option for point in trouble.ahead for option in _last_resorts(point, patient)]
    once: dict[Text, Option] = {}
    for option in options:
        once.setdefault(option.command, option)
    return replace(trouble, look_first=tuple(dict.fromkeys(look)), options=tuple(once.values()))


def _refusal_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a partition at which the broker ends: a log is not to blame where its folder is."""
    is_future = Partition(point.path).state is PartitionDirState.FUTURE
    aside = list(future_away_options(point, patient)) if is_future else []
    yield from aside or loading_options(point, patient)


def _is_worse_than_a_start(option: Option, trouble: Trouble) -> bool:
    """Return whether more is readable if nothing is done. A salvage of batches in disorder drops whole batches, of
    which consumers may get a part today."""
    if any(point.what not in _MEASURED or point.is_uncounted for point in trouble.ahead):
        return False
    return option.lost_records is not None and option.lost_records > sum(each.lost_records for each in trouble.ahead)


def _look_first(point: Ahead) -> Iterator[Text]:
    if is_unread(point):
        yield from (AdviceCause.BAD_SECTOR(),) if point.stop is None else ()
    elif point.kind in _LOOK_AT_FINDING:
        yield _LOOK_AT_FINDING[point.kind]()
    situation = None if point.stop is None else situation_of(point.stop, point.kind)
    is_apt = point.cure != AdviceCause.MIGRATE() and not is_broken_link(point.path)
    if situation is not None and is_apt:  # else it says to write what KRaft lacks, or takes the file for deleted
        yield situation.look_first
    # Damage and indexes have nothing to do with names of files, and dump-log stops at damage.
    by_reason = {HiddenBy.DAMAGE: (AdviceCause.REPLICA,), HiddenBy.INDEX: ()}
    causes = _LOOK_AT.get(point.what, ()) if point.hidden_by is None else by_reason[point.hidden_by]
    causes = (AdviceCause.REPLICA,) if is_of_epochs(point) else causes
    causes = tuple(cause for cause in causes if cause is not AdviceCause.REPLICA or not _is_metadata_log(point))
    yield from (cause() for cause in causes)


def _by_hand(path: str, point: Ahead, cure: Text) -> Option:
    """Return a point's cure as an option. Another owner, or another mode, costs no record."""
    option = by_hand(path, cure, looks=point.cure_looks)
    return replace(option, title=AdviceCause.PERMIT(), lost_records=0, lost=Lost()) if is_of_owner(point) else option


def _is_metadata_log(point: Ahead) -> bool:
    """Return whether a point is about the metadata log as a whole: it has copies, with a cure of their own."""
    return os.path.basename(point.path) == CLUSTER_METADATA_DIR


def _walk_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    if (
        is_of_owner(point)
        or not patient.holds(point.path)
        or (point.path in patient.log_dirs and point.stop is not None)
    ):
        return  # a disk is missing, read-only or full: only a person can help
    if is_unread(point) and _is_in_partition(point.path, patient) and point.cure is None:
        path = patient.partition_of(point.path).path
        by_person = [replace(each, remedies=(), is_undone=False) for each in salvage_options(path, patient)]
        yield from (*by_person, replica_option(path))  # a plan in place keeps what it replaces: that cannot be read
        return
    is_folder = point.cure is not None and point.path.endswith(TEMPORARY) and os.path.isdir(point.path)
    if is_folder or is_fifo(point.path) or is_socket(point.path) or is_device(point.path):
        return  # no plan touches what is no file
    is_of_state = os.path.basename(point.path) == FileKind.QUORUM_STATE.value
    if (by_finding := OPTIONS_BY_FINDING.get(point.kind)) is not None:
        yield from by_finding(point, patient)
    elif is_of_state and point.what in (What.STATE_CONTRADICTS, What.REFUSES):
        yield deletion(point.path, patient, AdviceCause.NEW_ELECTION)
    elif point.what in _OPTIONS:
        yield from _OPTIONS[point.what](point, patient)


def _walk_plannable(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for one point, without those whose plan would be refused. If a rebuilding is refused, the log
    itself is damaged: then the options for a log that does not load."""
    options = list(_walk_options(point, patient))
    plannable = list(_plannable_of(options, patient))
    yield from plannable
    if is_of_owner(point):
        return
    if (options or point.what in (What.REFUSES, What.OFFLINE)) and _is_in_partition(point.path, patient):
        yield from _folders_away(patient.partition_of(point.path), patient)  # recovery empties a segment over it
    if any(option.remedies for option in plannable) or not _is_in_partition(point.path, patient):
        return
    if len(plannable) < len(options):
        yield from _plannable_of(loading_options(point, patient), patient)
    if options:
        yield from _links_away(patient.partition_of(point.path))


def _is_in_partition(path: str, patient: Patient) -> bool:
    """Return whether a path is a partition dir, or in one."""
    return patient.holds(path) and path not in patient.log_dirs and os.path.isdir(patient.partition_of(path).path)


def _plannable_of(options: Iterable[Option], patient: Patient) -> Iterator[Option]:
    yield from (each for option in options if (each := _planned(option, patient)) is not None)


def _planned(option: Option, patient: Patient) -> Option | None:
    """Return the option with its price, if its plan is one of a partition dir; None if no plan can be made. What was
    decided when the option was made has its price already. Links to files are renamed and deleted by hand only."""
    commands = {remedy.command for remedy in option.remedies}
    if not commands or commands & {"salvage", "recover"}:
        return option
    plans = plans_of(option)
    if not plans and edits_links(option):
        return replace(option, remedies=(), is_undone=False)
    if len(plans) != 1 or option.lost is not None or not Partition(plans[0].path).topic_partition:
        return option if plans else None
    price = price_of(plans[0], patient)
    return replace(option, lost=price.lost) if price.readable is None else priced(option, price)


def _links_away(partition: Partition) -> Iterator[Option]:
    """Yield what to do about links to files: no plan touches them."""
    for name in names_in(partition.path):
        path = os.path.join(partition.path, name)
        if os.path.islink(path) and os.path.isfile(path):
            command = AdviceCause.COPY_FILE(file=quoted(os.path.realpath(path)), path=quoted(path))
            yield by_hand(partition.path, command, AdviceCause.IN_PLACE_OF_LINK())


def _folders_away(partition: Partition, patient: Patient) -> Iterator[Option]:
    """Yield what to do about folders, devices and sockets that have the names of files: no plan touches them."""
    for name in names_in(partition.path):
        path = os.path.join(partition.path, name)
        if os.path.exists(path) and not os.path.isfile(path) and parse_file_name(name).base_offset is not None:
            title = AdviceCause.FOLDER_AWAY_FIRST() if os.path.isdir(path) else AdviceCause.NO_FILE_AWAY_FIRST()
            option = by_hand(partition.path, move_out_of_partition(path), title)
            price = price_without(partition.path, name, patient)
            yield option if price.readable is None else priced(option, price)


def _last_resorts(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield what is left where nothing mends: no trouble ends without a word on what to do."""
    path, metadata = point.path, patient.cluster.metadata
    if point.what is not What.METADATA_LOST:
        yield _last_resort(point, patient)
        return
    command = AdviceCause.COPY_FROM_CONTROLLER(path=quoted(path), name=os.path.basename(path))
    yield by_hand(path, command, AdviceCause.COPY_OF_CONTROLLER())
    if metadata is not None and not metadata.topic_ids:  # else fleet metadata refuses
        log_dirs = " ".join(map(quoted, patient.log_dirs))
        command = AdviceCause.REBUILD_METADATA(log_dirs=log_dirs, path=quoted(path))
        yield by_hand(path, command, AdviceCause.METADATA_FROM_DISKS())


def _last_resort(point: Ahead, patient: Patient) -> Option:
    path = point.path
    if point.what is What.LEFT_OUT:
        return by_hand(path, AdviceCause.NAME_LEFT_OUT(paths=" ".join(map(quoted, patient.log_dirs))), looks=True)
    is_partition = patient.holds(path) and path not in patient.log_dirs
    partition = patient.partition_of(path) if is_partition else None
    if partition is None or partition.topic in (None, METADATA_TOPIC) or not os.path.isdir(partition.path):
        return by_hand(path, AdviceCause.VERIFY(path=quoted(path)), looks=True)
    option = move_away(AdviceCause.KEEP_FOLDER(), partition.path, patient)
    if point.what is What.STRAY:  # nobody would be served from it
        return option
    return replace(option, strategy=Strategy.AS_THE_BROKER, price=AdviceCause.REPLICA_FILLS())
