"""What to do about a trouble: what to look at first, and the options with what each loses."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.doctor.answers import Ahead, Option, Strategy, Trouble, What, by_hand
from klogtool.doctor.claims import HiddenBy
from klogtool.doctor.file_options import (
    OPTIONS_BY_FINDING,
    absent_options,
    deletion,
    future_options,
    identity_options,
    log_start_options,
    move_away,
    rename_options,
    stray_options,
)
from klogtool.doctor.fixes import plans_of
from klogtool.doctor.log_options import (
    cut_metadata_options,
    cut_options,
    damage_options,
    early_end_options,
    gap_options,
    hidden_options,
    loading_options,
    priced,
    rebuilding_options,
    set_aside_options,
)
from klogtool.doctor.messages import situation_of
from klogtool.doctor.metadata_options import quorum_options
from klogtool.doctor.option_prices import price_of, price_without
from klogtool.doctor.patient import Patient
from klogtool.escape import quoted
from klogtool.format.names import METADATA_TOPIC, FileKind, parse_file_name
from klogtool.log.folder import is_fifo, is_socket, names_in
from klogtool.log.partition import Partition
from klogtool.verify.cures import move_out_of_partition
from klogtool.verify.findings import Kind

_REPLICA = (
    "is another replica of this partition whole? Then a broker can fetch all of it again (klogtool hash on each host "
    "compares them)"
)
_UNMOUNTED = "is the disk mounted, and is it the right one?"
_LOOK_AT: dict[What, tuple[str, ...]] = {
    What.TRUNCATED: (_REPLICA,),
    What.ABSENT: (
        "who moved or removed the folder? If it still exists, put it back before any start",
        "is the partition in a log dir that is not named, or on a disk that is not mounted?",
        _REPLICA,
    ),
    What.ALL_DELETED: ("did somebody move or delete segment files by hand? Put them back first",),
    What.ENDS_EARLY: (_REPLICA, "who made .kafka_cleanshutdown? A broker that was killed leaves none"),
    What.DAMAGED: (_REPLICA,),
    What.LEADER_FAILS: (_REPLICA,),
    What.HIDDEN: (
        "were files of segments renamed or exchanged by hand? Give them their names back",
        "klogtool dump-log --print-data-log shows records that consumers do not get; a producer can send them again",
    ),
    What.LINK_BROKEN: (_UNMOUNTED, "a broker must not start before that: it deletes files beside the link"),
    What.STRAY: ("was the topic deleted or recreated while the broker was down? Then the broker is right",),
    What.METADATA_LOST: (
        "does another controller of the cluster live? Copy its folder __cluster_metadata-0",
        "are all controllers lost? klogtool fleet metadata builds the metadata from the brokers' disks",
    ),
    What.FUTURE_EMPTIED: ("was the partition being moved between log dirs? Is the other disk mounted?",),
    What.MISNAMED: ("was the folder renamed, or was partition.metadata copied? klogtool dump-log shows the records",),
    What.LEFT_OUT: (_UNMOUNTED, "name all log dirs of the broker"),
    What.MISSING: (_REPLICA,),
    What.NO_ROOM: ("what else fills this disk? klogtool free says what may go",),
}
_MEASURED = frozenset({What.HIDDEN, What.TRUNCATED})  # the broker starts, and serves all that is not counted in them
_LOOK_AT_FINDING: Mapping[Kind | None, tuple[str, ...]] = {
    Kind.META_PROPERTIES_MISSING: (_UNMOUNTED,),
    Kind.META_PROPERTIES_CONFLICT: ("does one of these disks belong to another broker?",),
    Kind.DUPLICATE_PARTITION: ("which of the two disks failed, or was copied, most recently?",),
    Kind.UNREADABLE: ("who owns the file? The broker's user has to read and write it (chown)",),
}


def advise(trouble: Trouble, patient: Patient) -> Trouble:
    """Return the trouble with what to look at first, and with its options."""
    look = [line for point in trouble.ahead for line in _look_first(point)]
    options = [option for point in trouble.ahead for option in _walk_plannable(point, patient)]
    options = [option for option in options if not _is_worse_than_a_start(option, trouble)]
    if not options:
        options = [
            by_hand(trouble.path, point.cure, looks=point.cure_looks)
            for point in trouble.ahead
            if point.cure is not None
        ]
    if not options:
        options = [_last_resort(point, patient) for point in trouble.ahead]
    return replace(trouble, look_first=tuple(dict.fromkeys(look)), options=tuple(_unlike(options)))


def _is_worse_than_a_start(option: Option, trouble: Trouble) -> bool:
    """Return whether more is readable if nothing is done. A salvage of batches in disorder drops whole batches, of
    which consumers may get a part today."""
    if any(point.what not in _MEASURED or point.is_uncounted for point in trouble.ahead):
        return False
    return option.lost_records is not None and option.lost_records > sum(each.lost_records for each in trouble.ahead)


def _look_first(point: Ahead) -> tuple[str, ...]:
    situation = None if point.stop is None else situation_of(point.stop)
    told = () if situation is None else (situation.look_first,)
    # Damage has nothing to do with names of files, and dump-log stops there.
    look = (_REPLICA,) if point.hidden_by is HiddenBy.DAMAGE else _LOOK_AT.get(point.what, ())
    return (*_LOOK_AT_FINDING.get(point.kind, ()), *told, *look)


def _walk_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for one point."""
    if not patient.holds(point.path) or (point.path in patient.log_dirs and point.stop is not None):
        return  # a disk is missing, read-only or full: only a person can help
    if is_fifo(point.path) or is_socket(point.path):
        return  # no plan touches what is no file
    by_finding = OPTIONS_BY_FINDING.get(point.kind)
    if by_finding is not None:
        yield from by_finding(point, patient)
        return
    match point.what:
        case What.STATE_CONTRADICTS | What.REFUSES if _is_of_state(point):
            yield deletion(point.path, patient, "a new election")
        case What.NOT_VOTER | What.NO_MAJORITY | What.ENDPOINT_STALE | What.METADATA_BEHIND:
            yield from quorum_options(point, patient)
        case What.TRUNCATED if os.path.basename(point.path) == CLUSTER_METADATA_DIR:
            yield from cut_metadata_options(point, patient)
        case What.TRUNCATED:
            yield from cut_options(point, patient)
        case What.ABSENT:
            yield from absent_options(point, patient)
        case What.ALL_DELETED:
            yield from rename_options(point, patient)
            yield from log_start_options(point, patient)
        case What.ENDS_EARLY:
            yield from early_end_options(point, patient)
        case What.DAMAGED | What.LEADER_FAILS:
            yield from damage_options(point, patient)
        case What.HIDDEN | What.ENDS_LATE:
            yield from hidden_options(point, patient)
        case What.REFUSES | What.OFFLINE:
            yield from loading_options(point, patient)
        case What.STRAY:
            yield from stray_options(point, patient)
        case What.CLEANER_STOPS:
            yield deletion(point.path, patient, "one long cleaning")
        case What.MISNAMED:
            yield from identity_options(point, patient)
        case What.FUTURE_EMPTIED:
            yield from future_options(point, patient)
        case What.IGNORED:
            yield from set_aside_options(point, patient)
        case What.MISSING:
            yield from gap_options(point, patient)
        case What.EXPIRES_EARLY | What.EXPIRES_LATE:
            yield from rebuilding_options(point.path, "timeindex", patient)
        case What.ROLLS_EARLY | What.WRITES_FAIL:
            yield from rebuilding_options(point.path, "index,timeindex", patient)
        case _:
            pass


def _is_of_state(point: Ahead) -> bool:
    return os.path.basename(point.path) == FileKind.QUORUM_STATE.value


def _walk_plannable(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for one point, without those whose plan would be refused. If a rebuilding is refused, the log
    itself is damaged: then the options for a log that does not load."""
    options = list(_walk_options(point, patient))
    plannable = [each for option in options if (each := _planned(option, patient)) is not None]
    yield from plannable
    if options and _is_in_partition(point.path, patient):
        yield from _folders_away(patient.partition_of(point.path), patient)  # recovery empties a segment over it
    if any(option.remedies for option in plannable) or not _is_in_partition(point.path, patient):
        return
    if len(plannable) < len(options):
        yield from loading_options(point, patient)
    if options:
        yield from _links_away(patient.partition_of(point.path))


def _is_in_partition(path: str, patient: Patient) -> bool:
    """Return whether a path is a partition dir, or in one."""
    return patient.holds(path) and path not in patient.log_dirs and os.path.isdir(patient.partition_of(path).path)


def _planned(option: Option, patient: Patient) -> Option | None:
    """Return the option with its price, if its plan is one of a partition dir; None if no plan can be made. What was
    decided when the option was made has its price already."""
    commands = {remedy.command for remedy in option.remedies}
    if not commands or commands & {"salvage", "recover"}:
        return option
    plans = plans_of(option)
    if len(plans) != 1 or option.lost is not None or not Partition(plans[0].path).topic_partition:
        return option if plans else None
    price = price_of(plans[0], patient)
    return replace(option, lost=price.lost) if price.readable is None else priced(option, price)


def _links_away(partition: Partition) -> Iterator[Option]:
    """Yield what to do about links to files: no plan touches them."""
    for name in names_in(partition.path):
        path = os.path.join(partition.path, name)
        if os.path.islink(path) and os.path.isfile(path):
            command = f"cp -p --remove-destination {quoted(os.path.realpath(path))} {quoted(path)}"
            yield replace(by_hand(partition.path, command), title="put the file in place of the link first")


def _folders_away(partition: Partition, patient: Patient) -> Iterator[Option]:
    """Yield what to do about folders that have the names of files: no plan touches them."""
    for name in names_in(partition.path):
        path = os.path.join(partition.path, name)
        if os.path.isdir(path) and parse_file_name(name).base_offset is not None:
            option = replace(by_hand(partition.path, move_out_of_partition(path)), title="move the folder away first")
            price = price_without(partition.path, name, patient)
            yield option if price.readable is None else priced(option, price)


def _last_resort(point: Ahead, patient: Patient) -> Option:
    """Return what is left where nothing mends: no trouble ends without a word on what to do."""
    if point.what is What.LEFT_OUT:
        paths = " ".join(map(quoted, patient.log_dirs))
        command = f"klogtool doctor {paths} LOGDIR  # LOGDIR: the log dir that is not named"
        return by_hand(point.path, command, looks=True)
    if point.what is What.METADATA_LOST:
        command = f"cp -a COPY {quoted(point.path)}  # COPY: {os.path.basename(point.path)} of another controller"
        return by_hand(point.path, command)
    is_partition = patient.holds(point.path) and point.path not in patient.log_dirs
    partition = patient.partition_of(point.path) if is_partition else None
    if partition is None or partition.topic in (None, METADATA_TOPIC) or not os.path.isdir(partition.path):
        command = f"klogtool verify {quoted(point.path)}  # names the damage, and what mends it"
        return by_hand(point.path, command, looks=True)
    option = move_away("move the folder out of the log dir, and keep it", partition.path, patient)
    if point.what is What.STRAY:  # nobody would be served from it
        return option
    price = "the broker creates an empty one; another replica fills it, if there is one"
    return replace(option, strategy=Strategy.AS_THE_BROKER, price=price)


def _unlike(options: Sequence[Option]) -> Iterator[Option]:
    """Yield the options, each command once."""
    seen: set[str] = set()
    for option in options:
        if option.command not in seen:
            seen.add(option.command)
            yield option
