"""All claims of a diagnosis: the broker, its log dirs, its partition dirs, the options."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec.structs import replace

from klogtool.doctor.answers import OFF, Diagnosis, Option, Starts, What
from klogtool.doctor.claims import (
    BrokerClaim,
    Claim,
    Gone,
    Hidden,
    HiddenBy,
    LogDirClaim,
    Lost,
    OptionClaim,
    PartitionClaim,
    WhyUnknown,
)
from klogtool.format.names import METADATA_TOPIC
from klogtool.log.log_dirs import find_log_dir_among
from klogtool.log.partition import Partition

_MAY_FAIL = (What.FAILS_AT_READ, What.LINK_BROKEN)
_CUTS_DELTA = (What.MISNAMED, What.LEADER_FAILS, What.UNSERVED)
_UNKNOWN_FOLDER = (What.STRAY, What.MISNAMED, What.REPLACED)


def walk_claims(diagnosis: Diagnosis) -> Iterator[Claim]:
    """Yield the claims, the broker's first."""
    points = diagnosis.points
    starts = diagnosis.starts is not Starts.REFUSES
    may_end = starts and any(point.may_end for point in points)
    if not diagnosis.is_known:  # no broker starts on a copy as it is
        yield BrokerClaim(None, reason=WhyUnknown.ELSEWHERE)
    else:
        yield _of_process(diagnosis, None if may_end else starts)
    off, unserved, failing = (
        {find_log_dir_among(point.path, diagnosis.log_dirs) for point in points if is_one(point)}
        for is_one in (
            lambda point: point.what in OFF and not point.is_unsure,
            lambda point: point.what is What.UNSERVED,
            lambda point: point.what in _MAY_FAIL or point.is_unsure,
        )
    )
    for path in diagnosis.log_dirs:
        if starts and path in failing - off:
            yield LogDirClaim(path, None, WhyUnknown.WHILE_IT_RUNS)
        elif diagnosis.may_be_copy:
            yield LogDirClaim(path, None, WhyUnknown.ELSEWHERE)
        else:
            yield LogDirClaim(path, starts and path not in off)
    folders = {point.path for point in points if point.what in _UNKNOWN_FOLDER}
    replaced = {point.path for point in points if point.what is What.REPLACED and point.is_uncounted}
    forgotten = {path for point in points for path in point.folders}
    if diagnosis.lead.elected:  # by what is here: nobody else knows more of the metadata
        folders, forgotten = folders | forgotten, set()
    # Where a partition fails when it becomes a leader, the rest of that change of metadata is not applied: which
    # partitions that is depends on the order of their topic ids in a hash table.
    is_delta_cut = diagnosis.skips_leaders or any(point.what in _CUTS_DELTA for point in points)
    for prospect in diagnosis.prospects:
        if prospect.claim is not None:
            log_dir = os.path.dirname(prospect.path)
            claim = prospect.claim
            if not starts or log_dir in off | unserved:
                claim = replace(claim, served=False, hidden=_nobody(HiddenBy.LOG_DIR))
            if prospect.path not in diagnosis.promoted:
                claim = _in_folder(claim, is_known=prospect.path not in folders)
            elif replaced:  # the folder in its place may have what it lacks
                claim = replace(claim, gone_already=Gone(None, reason=WhyUnknown.ELSEWHERE))
            if prospect.path in replaced:
                claim = replace(claim, lost=Lost(None, reason=WhyUnknown.NOT_READ))
            if may_end or log_dir in failing:
                claim = _not_for_sure(claim, WhyUnknown.WHILE_IT_RUNS)
            if prospect.path in forgotten:
                claim = _not_for_sure(claim, WhyUnknown.ELSEWHERE)
            if claim.served and is_delta_cut:
                claim = replace(claim, served=None, reason=WhyUnknown.WHILE_IT_RUNS)
            elif claim.served and diagnosis.lacks_metadata:
                claim = replace(claim, served=None, reason=WhyUnknown.ELSEWHERE)
            yield claim
    yield from (_of_option(option) for trouble in diagnosis.troubles for option in trouble.options)


def _of_process(diagnosis: Diagnosis, starts: bool | None) -> BrokerClaim:
    """Return whether the process starts, and ends, and whether the controllers have a leader. What ends a start comes
    before any election."""
    lead, ending = diagnosis.lead, [point for point in diagnosis.points if point.what is What.REFUSES]
    if not lead.replays:
        ending = [point for point in ending if not point.by_leader]
    # Where nobody knows whether there is a leader, what comes only with one is not known either: without one, a broker
    # ends as well, and a controller does not.
    own = [point for point in ending if not (lead.is_open and point.by_leader)]
    ends = True if own or not ending or lead.is_broker else None
    stops = {point.stop for point in own if point.stop is not None}
    if any(stop.is_exit for stop in stops):
        stops = set()  # it may end without an exception, before it comes to one
    if diagnosis.metadata_log_dir_to_set is not None:
        stops = set()  # without the settings for that, it ends at the metadata, first of all
    error, message = _only({stop.kafka_class for stop in stops}), _only({stop.message for stop in stops})
    if ending or (starts is False and lead.elected is not False):
        claim = BrokerClaim(starts, error, ends, message=message)
    else:
        claim = BrokerClaim(starts, None, lead.ends, lead.ends_after_ms, lead.elected, lead.message)
    if starts is None:
        return replace(claim, reason=WhyUnknown.WHILE_IT_RUNS)
    is_known = claim.ends is not None and claim.leader_elected is not None
    return claim if is_known else replace(claim, reason=WhyUnknown.ELSEWHERE)


def _only(texts: set[str]) -> str | None:
    """Return the one text; None if there are several: log dirs are loaded side by side, so nobody knows which is
    first."""
    return next(iter(texts)) if len(texts) == 1 else None


def _not_for_sure(claim: PartitionClaim, why: WhyUnknown) -> PartitionClaim:
    """A partition of a log dir that goes offline while the broker runs, or whose broker ends then; or one that the
    metadata here does not know, and the controllers may know."""
    return replace(claim, served=None, hidden=Hidden(None, reason=why), reason=why) if claim.served else claim


def _in_folder(claim: PartitionClaim, *, is_known: bool) -> PartitionClaim:
    partition = Partition(claim.path)
    if partition.topic == METADATA_TOPIC:
        return claim
    if is_known and partition.state.is_current:
        return claim
    return replace(claim, served=False, hidden=_nobody(HiddenBy.FOLDER))


def _nobody(why: HiddenBy) -> Hidden:
    return Hidden(None, (), (why,), WhyUnknown.NOT_SERVED)


def _of_option(option: Option) -> OptionClaim:
    lost = option.lost or Lost(None, (), WhyUnknown.NOT_READ)
    reason = (lost.reason or WhyUnknown.NOT_READ) if option.readable is None else None
    return OptionClaim(option.path, option.number, option.readable, lost, option.erases_witness, reason)
