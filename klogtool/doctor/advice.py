"""What to do about a trouble: what to look at first, and the options with what each loses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from klogtool.doctor.answers import Ahead, Option, Strategy, Trouble, What
from klogtool.doctor.file_options import (
    OPTIONS_BY_FINDING,
    absent_options,
    deletion,
    future_options,
    identity_options,
    log_start_options,
    rename_options,
    stray_options,
)
from klogtool.doctor.log_options import (
    cut_options,
    early_end_options,
    gap_options,
    hidden_options,
    loading_options,
    rebuilding_options,
)
from klogtool.doctor.messages import situation_of
from klogtool.doctor.patient import Patient

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
    What.HIDDEN: ("who renamed the segment's files? Give them their name back",),
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
_LOOK_AT_FINDING = {
    "meta-properties-missing": (_UNMOUNTED,),
    "meta-properties-conflict": ("does one of these disks belong to another broker?",),
    "duplicate-partition": ("which of the two disks failed, or was copied, most recently?",),
    "unreadable": ("who owns the file? The broker's user has to read and write it (chown)",),
}


def advise(trouble: Trouble, patient: Patient) -> Trouble:
    """Return the trouble with what to look at first, and with its options."""
    look = [line for point in trouble.ahead for line in _look_first(point)]
    options = [option for point in trouble.ahead for option in _walk_options(point, patient)]
    if not options:
        options = [_by_hand(trouble.path, point.cure) for point in trouble.ahead if point.cure is not None]
    return replace(trouble, look_first=tuple(dict.fromkeys(look)), options=tuple(_unlike(options)))


def _look_first(point: Ahead) -> tuple[str, ...]:
    situation = None if point.stop is None else situation_of(point.stop)
    told = () if situation is None else (situation.look_first,)
    return (*_LOOK_AT_FINDING.get(point.finding or "", ()), *told, *_LOOK_AT.get(point.what, ()))


def _walk_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for one point."""
    if not patient.holds(point.path) or (point.path in patient.log_dirs and point.stop is not None):
        return  # a disk is missing, read-only or full: only a person can help
    by_finding = OPTIONS_BY_FINDING.get(point.finding or "")
    if by_finding is not None:
        yield from by_finding(point, patient)
        return
    match point.what:
        case What.TRUNCATED:
            yield from cut_options(point, patient)
        case What.ABSENT:
            yield from absent_options(point, patient)
        case What.ALL_DELETED:
            yield from rename_options(point, patient)
            yield from log_start_options(point, patient)
        case What.ENDS_EARLY | What.DAMAGED:
            yield from early_end_options(point, patient)
        case What.HIDDEN:
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
        case What.MISSING:
            yield from gap_options(point, patient)
        case What.EXPIRES_EARLY:
            yield from rebuilding_options(point.path, "timeindex", patient)
        case What.ROLLS_EARLY:
            yield from rebuilding_options(point.path, "index,timeindex", patient)
        case _:
            pass


def _by_hand(path: str, cure: str) -> Option:
    return Option("by hand", path, cure, Strategy.NOTHING_LOST, is_undone=False)


def _unlike(options: Sequence[Option]) -> Iterator[Option]:
    """Yield the options, each command once."""
    seen: set[str] = set()
    for option in options:
        if option.command not in seen:
            seen.add(option.command)
            yield option
