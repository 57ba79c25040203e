"""Checks default settings against the disk: if the disk contradicts Kafka's default, nothing is deleted because of it.

The cluster has a topic's settings. A log dir without `__cluster_metadata` does not have them, and Kafka's defaults
would be a guess: cleanup.policy=delete, seven days, no remote storage. Most logs fit these. For a log that does not,
the user has to give the setting. A setting that was given, or that `__cluster_metadata` has, is not a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from klogtool.broker.circumstances import REMOTE_STORAGE, REMOTE_SYSTEM, Checkpoints, Circumstances, settings_by_file
from klogtool.broker.cluster_config import AS_GIVEN, ClusterConfig
from klogtool.broker.config import DAY_MS
from klogtool.broker.timestamps import duration_text
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment, walk_entries
from klogtool.broker.unified_log.retention import LOG_START, SIZE, TIME, Deletion
from klogtool.broker.unified_log.segment_age import Age
from klogtool.causes import Reason
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.names import FileKind, TopicPartition, build_file_name
from klogtool.log.entries import Entry, RecordBatch
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.plans.causes import GuessedCause

BATCHES_LOOKED_AT = 1000  # of a segment: after a cleaning, hardly any batch is unchanged
# A broker checks every few minutes what is due. It may have been down for a while.
GRACE_MS = DAY_MS


class Beside(Struct, frozen=True):
    """What the checkpoints of the log dir say of a partition; None if there is no line, or the file cannot be read."""

    log_start_line: int | None = None
    cleaner_line: int | None = None

    @classmethod
    def of(cls, path: str, checkpoints: Checkpoints) -> Beside:
        """Look up a partition dir."""
        name = find_partition_dir_name(own_name(path))
        if name is None:
            return cls()
        key = TopicPartition(name.topic, name.partition)
        kinds = (FileKind.LOG_START_CHECKPOINT, FileKind.CLEANER_CHECKPOINT)
        return cls(*(_line(checkpoints, kind, key) for kind in kinds))


def _line(checkpoints: Checkpoints, kind: FileKind, key: TopicPartition) -> int | None:
    try:
        return checkpoints.find(kind, key)[0]
    except Corrupt:
        return None


def check_retention(
    log: LoadedLog,
    deleted: Sequence[Deletion],
    segments: Mapping[int, LogSegment],
    ages: Mapping[int, Age],
    beside: Beside,
) -> None:
    """Raises Refused if segments are deleted by a setting that nobody gave, and the disk contradicts its default.

    deleted: what would be deleted; segments, ages: of all segments before, by base offset; the ages as the batches have
    them.
    """
    doomed = [deletion for deletion in deleted if deletion.by != LOG_START]
    if not doomed:
        return
    for setting, why, cure in (
        *_remote_off(log),
        *_tiered(log, min(ages), beside),
        *_compacted(log, (segments[deletion.segment] for deletion in doomed), beside),
        *_kept_for_longer(log, doomed, ages),
    ):
        raise _refused(log, _guess_of(doomed, setting, why), cure)


class KnownSettings(Struct, frozen=True):
    """Which settings of a topic are known, and not only those of its broker. known: names as the user wrote them.
    is_topic_known: whether whole metadata of the cluster has the topic, so that it has all settings of the topic."""

    known: frozenset[str]
    is_topic_known: bool

    @classmethod
    def of(cls, path: str, circumstances: Circumstances, cluster: ClusterConfig) -> KnownSettings:
        """Look up the topic of a partition dir."""
        name = find_partition_dir_name(own_name(path))
        topic = "" if name is None else name.topic
        known = {*circumstances.config, *settings_by_file(topic, circumstances.config_sections)}
        return cls(frozenset(known), cluster.knows(topic))

    def has(self, name: str, source: str | None) -> bool:
        """Return whether a setting is known. A broker's setting in --config comes before the topic's own, so it says
        nothing of the topic."""
        return name in self.known or (self.is_topic_known and source not in (None, AS_GIVEN))


def check_settings_are_known(log: LoadedLog, deleted: Sequence[Deletion], known: KnownSettings) -> None:
    """Raises Refused if segments are deleted by a setting that may not be the topic's.

    Seven days is Kafka's default. A broker's own default is in its server.properties, which no log dir has. A topic's
    own setting is in `__cluster_metadata`, and comes before both.
    """
    for by, name in ((TIME, "retention.ms"), (SIZE, "retention.bytes")):
        doomed = [deletion for deletion in deleted if deletion.by == by]
        if doomed and not known.has(name, log.terms.sources.get(name)):
            source = GuessedCause.SERVER_PROPERTIES() if known.is_topic_known else "__cluster_metadata"
            raise _refused(
                log,
                _guess_of(doomed, name, GuessedCause.NOT_KNOWN(source=source)),
                GuessedCause.GIVE(source=source, name=name),
            )


def check_kept_for_longer(log: LoadedLog, deleted: Sequence[Deletion], ages: Mapping[int, Age]) -> None:
    """Raises Refused if segments of a compacted topic without remote storage are deleted by too short a time."""
    for setting, why, cure in _kept_for_longer(log, deleted, ages):
        raise _refused(log, _guess_of(deleted, setting, why), cure)


def check_delete_records(log: LoadedLog, beside: Beside) -> None:
    """Raises Refused if the topic may be compacted: a broker deletes no records of a topic that is only compacted."""
    for setting, why, cure in _cleaned(log, beside):
        raise _refused(log, GuessedCause.RECORDS(setting=setting, why=why), cure)


def check_forced_cleaning(log: LoadedLog, beside: Beside) -> None:
    """Raises Refused if nothing shows that the topic is compacted: if it is not, cleaning deletes records that its
    consumers have not read."""
    if "cleanup.policy" in log.terms.sources or beside.cleaner_line is not None:
        return
    raise _refused(
        log,
        GuessedCause.NOT_COMPACTED(),
        GuessedCause.SAY_COMPACT(),
    )


def _guess_of(doomed: Sequence[Deletion], setting: str, why: Reason) -> Reason:
    if len(doomed) == 1:
        return GuessedCause.SEGMENT(setting=setting, why=why)
    return GuessedCause.SEGMENTS(count=len(doomed), setting=setting, why=why)


def _refused(log: LoadedLog, why: Reason, cure: Reason) -> Refused:
    return Refused(why, path=log.draft.path, cure=cure)


_Guess: TypeAlias = tuple[str, Reason, Reason]

# Each function yields a setting, what the disk says, and what to do; or nothing.


def _remote_off(log: LoadedLog) -> Iterator[_Guess]:
    if log.terms.is_remote_off and REMOTE_SYSTEM not in log.terms.sources:
        yield (
            REMOTE_SYSTEM,
            GuessedCause.REMOTE_OFF(topic_setting=REMOTE_STORAGE),
            GuessedCause.SAY_REMOTE(setting=REMOTE_SYSTEM),
        )


def _tiered(log: LoadedLog, first_base: int, beside: Beside) -> Iterator[_Guess]:
    line = beside.log_start_line
    if REMOTE_STORAGE in log.terms.sources or line is None or not _looks_tiered(log, line, first_base):
        return
    yield (
        REMOTE_STORAGE,
        GuessedCause.TIERED(file=FileKind.LOG_START_CHECKPOINT.value, line=line, base=first_base),
        GuessedCause.SAY_TIERED(),
    )


def _looks_tiered(log: LoadedLog, line: int, first_base: int) -> bool:
    """Return whether the log continues below its first segment. line: of log-start-offset-checkpoint.

    A broker writes a line that is not above the first segment only for a topic with remote storage. After a kill the
    line may be old. Then the epochs decide: epochs of deleted segments are gone, epochs of segments in remote storage
    are not.
    """
    if line == 0:
        return first_base == 0  # written for topics with remote storage only
    return line < first_base and log.first_epoch_start < first_base


def _compacted(log: LoadedLog, doomed: Iterable[LogSegment], beside: Beside) -> Iterator[_Guess]:
    yield from (cleaned := list(_cleaned(log, beside)))
    settings = {"cleanup.policy", "retention.ms", "retention.bytes"} & log.terms.sources.keys()
    if cleaned or settings:
        return
    for segment in doomed:
        position = find_gap_of_cleaning(segment)
        if position is not None:
            name = build_file_name(FileKind.LOG, segment.base_offset)
            why = GuessedCause.GAPS(name=name, position=position)
            yield "cleanup.policy", why, GuessedCause.SAY_POLICY()
            return


def _cleaned(log: LoadedLog, beside: Beside) -> Iterator[_Guess]:
    if "cleanup.policy" in log.terms.sources or beside.cleaner_line is None:
        return
    why = GuessedCause.CLEANER_LINE(file=FileKind.CLEANER_CHECKPOINT.value, line=str(beside.cleaner_line))
    yield "cleanup.policy", why, GuessedCause.SAY_POLICY()


def find_gap_of_cleaning(segment: LogSegment) -> int | None:
    """Return where a segment's first batches have a gap as cleaning leaves it; None if there is none, or they cannot be
    read."""
    try:
        with segment.open_log() as file:
            before: int | None = None
            for entry in islice(walk_entries(file), BATCHES_LOOKED_AT):
                if _is_cleaned(entry, before):
                    return entry.position
                before = entry.last_offset
    except KlogError:  # verify reports damage
        pass
    return None


def _is_cleaned(entry: Entry, before: int | None) -> bool:
    """Return whether offsets are missing in a batch or before it, or it has a delete horizon. before: the last offset
    before it."""
    if isinstance(entry, RecordBatch):
        is_thinned = entry.delete_horizon_ms is not None or entry.records_count <= entry.last_offset_delta
        return is_thinned or (before is not None and entry.base_offset > before + 1)
    return entry.codec == "none" and before is not None and entry.last_offset > before + 1


def _kept_for_longer(log: LoadedLog, doomed: Iterable[Deletion], ages: Mapping[int, Age]) -> Iterator[_Guess]:
    """Yield a contradiction if the log was still written when its oldest segment was long due: its broker uses a longer
    time."""
    by_time = [deletion for deletion in doomed if deletion.by == TIME and not deletion.is_file_time]
    if "retention.ms" in log.terms.sources or not by_time:
        return
    newest = max(age.timestamp for age in ages.values() if age.offset is not None and age.timestamp <= log.terms.now_ms)
    over_ms = newest - ages[by_time[0].segment].timestamp
    if over_ms > log.terms.config.retention_ms + GRACE_MS:
        yield (
            "retention.ms",
            GuessedCause.KEPT_LONGER(duration=duration_text(over_ms)),
            GuessedCause.SAY_RETENTION(),
        )
