"""Options for `__cluster_metadata-0` and its quorum: a record that a start does not replay, a controller that does not
vote or has no leader. What loses nothing comes first."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec.structs import asdict, replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.broker.releases import Rules
from klogtool.causes import Reason
from klogtool.doctor.answers import BY_HAND, Ahead, Option, Remedy, Strategy, What, by_hand
from klogtool.doctor.causes import AdviceCause
from klogtool.doctor.claims import Lost, WhyUnknown
from klogtool.doctor.patient import Patient
from klogtool.doctor.readable import Readable, ranges_of, walk_each, walk_readable
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.metadata_versions import METADATA_VERSION, metadata_version_name
from klogtool.log.file import LogFile
from klogtool.log.partition import Partition
from klogtool.plans.truncate import COMMAND as TRUNCATE
from klogtool.plans.truncate import TruncateQuestion
from klogtool.verify.cures import FROM_A_CONTROLLER


def quorum_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a point about the quorum, the cheapest first. The last resort is planned by another
    command, which wants to know that the others are lost."""
    metadata, path = patient.cluster.metadata, point.path
    voters = () if metadata is None else metadata.quorum.voters or ()
    if point.cure is not None and not point.cure_looks:
        yield by_hand(path, point.cure, _TITLES[point.what]() if point.what in _TITLES else BY_HAND)
    for voter in voters if point.what is What.NO_MAJORITY else ():
        if voter.id != patient.cluster.node_id:
            command = AdviceCause.OLD_DISK(voter=voter.id, directory_id=voter.directory_id)
            yield by_hand(path, command, AdviceCause.BRING_VOTER(voter=voter.id))
    if point.what in (What.NOT_VOTER, What.NO_MAJORITY, What.ENDPOINT_STALE) and voters:
        command = AdviceCause.STANDALONE(path=quoted(patient.cluster.metadata_dir or patient.log_dirs[0]))
        price = AdviceCause.MAJORITY_LOST()
        yield Option(AdviceCause.ONLY_VOTER(), path, command, Strategy.MAY_DIVERGE, price=price)


_TITLES = {What.ENDPOINT_STALE: AdviceCause.OLD_ENDPOINT, What.METADATA_BEHIND: AdviceCause.BEST_COPY_FIRST}


def copy_option(folder: str) -> Option:
    """Return the option to take the folder from another controller. What its log lacks is not known here."""
    return by_hand(folder, FROM_A_CONTROLLER, AdviceCause.COPY_OF_CONTROLLER())


def replay_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a record that does not replay: another release, if it is the level of a feature, which all
    copies have; else another copy; and the log without what begins with it."""
    folder = os.path.join(patient.log_dir_of(point.path), CLUSTER_METADATA_DIR)
    refusal = read_cluster_metadata(folder, patient.rules).refusal
    if refusal is None or refusal.feature is None or refusal.level is None:
        yield copy_option(folder)
    else:
        cure = AdviceCause.START_WITH_FEATURE(feature=refusal.feature)
        if refusal.feature == METADATA_VERSION:
            cure = level_cure(refusal.level, patient.rules)
        yield replace(by_hand(folder, cure, AdviceCause.OTHER_RELEASE()), lost=Lost(), lost_records=0)
    if refusal is None or refusal.offset is None:
        return
    question = TruncateQuestion(**asdict(patient.circumstances), to=refusal.offset)
    yield Option(
        AdviceCause.CUT_METADATA(offset=refusal.offset),
        folder,
        AdviceCause.TRUNCATE(path=quoted(folder), offset=refusal.offset),
        Strategy.AS_THE_BROKER,
        price=AdviceCause.FORGETS(),
        remedies=(Remedy(TRUNCATE, folder, question),),
    )


def level_cure(level: int, rules: Rules) -> Reason:
    """Return what a person does where a release does not take a level of metadata.version."""
    if level < rules.metadata_levels.lowest:
        return AdviceCause.RAISE_LEVEL(kafka=str(rules.release))
    release, dash, _ = metadata_version_name(level).partition("-")
    return AdviceCause.START_NEWER(release=release) if dash else AdviceCause.START_NEWEST()


def lost_of_metadata(path: str, end: int) -> Lost:
    """Return what a start cuts off a metadata log: the sound batches from an offset on. What is before it is in the log
    that is left, or in the newest snapshot."""
    parts: list[Readable] = []
    try:
        for segment in Partition(path).segments:
            with LogFile(segment.path) as file:
                rows = walk_readable(file, 0, file.size)
                parts += (each for row in rows for each in walk_each(file, row) if each.first_offset >= end)
    except KlogError:
        return Lost(None, (), WhyUnknown.UNREADABLE)
    return Lost(sum(part.records for part in parts), ranges_of(parts))
