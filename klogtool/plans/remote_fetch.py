"""remote fetch: a partition of a store as a dir that a broker can load.

Sound batches are taken as they are; indexes, snapshots and leader epochs are made by recovering the log, as a broker
does. What cannot be had is a gap, and said.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import UNCLEAN, Circumstances, terms_of
from klogtool.broker.content import Content, FileRange, Part
from klogtool.broker.draft import Draft
from klogtool.broker.spools import PART_BYTES, MakeSpool
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.errors import Corrupt, KlogError, Refused, Unsupported
from klogtool.format.identity import PartitionMetadata, build_partition_metadata
from klogtool.format.names import FileKind, build_file_name
from klogtool.format.uuids import parse_uuid
from klogtool.log.file import Unreadable
from klogtool.plans.causes import PlanRefusal
from klogtool.plans.recover_answer import losses_of_loading
from klogtool.remote.fetching import LogChoice, LogSource, MissingOffsets, SoundBytes, find_sound, open_source
from klogtool.remote.inventory import ListedPartition
from klogtool.remote.store import RemoteStore, gave_other_bytes


class FetchedLog(Struct, frozen=True):
    """The files of the partition dir, by name, and what they have. missing: offsets that could not be had."""

    files: Mapping[str, Content]
    log_start_offset: int
    log_end_offset: int
    bytes: int
    missing: tuple[MissingOffsets, ...]


def fetch_log(
    store: RemoteStore, partition: ListedPartition, choice: LogChoice, output: str, make_spool: MakeSpool, now_ms: int
) -> FetchedLog:
    """Read all sources, and return the files of the partition dir at `output`. make_spool: where the bytes wait.

    Raises Unsupported if a key is missing, Unreadable if the store does not give what it lists, Refused if the batches
    cannot be one log, KlogError.
    """
    missing = list(choice.missing)
    draft = Draft(output, {})
    draft.make_spool = make_spool
    for source in choice.sources:
        sound = _confirmed(store, source)
        missing += sound.missing
        content = _content(store, source, sound, make_spool)
        if content:
            draft.write(build_file_name(FileKind.LOG, source.base_offset), content)
    if not draft.files:
        raise Refused(PlanRefusal.NO_RECORD(), path=store.uri)
    draft.write(
        FileKind.PARTITION_METADATA.value,
        build_partition_metadata(PartitionMetadata(0, parse_uuid(partition.topic_id))),
    )
    try:
        log = recover_new(draft, now_ms, choice.start)
    except Corrupt as error:  # of a file that is not there yet
        raise Refused(PlanRefusal.NOT_LOADED(why=error.reason), path=store.uri) from error
    if log is None:
        raise Refused(PlanRefusal.NOT_ONE_LOG(), path=store.uri)
    files = {name: draft.files[name].content for name in draft.names()}
    size = sum(draft.size(name) for name in draft.names())
    return FetchedLog(
        files, log.log_start_offset, log.log_end_offset, size, tuple(sorted(missing, key=lambda one: one.first_offset))
    )


def recover_new(draft: Draft, now_ms: int, start: int = 0) -> LoadedLog | None:
    """Recover a new log of sound batches, as a broker does that finds no indexes, and stop it; None if that loses
    records. start: the log start offset."""
    circumstances = Circumstances(now_ms=now_ms, recovery_point=0, log_start_offset=start, last_stop=UNCLEAN)
    log = LoadedLog(draft, replace(terms_of(draft.path, circumstances), is_clean=False, is_tiered=False))
    if losses_of_loading(log, None).loses:
        return None
    log.run_scheduled()
    log.stop()
    return log


def _confirmed(store: RemoteStore, source: LogSource) -> SoundBytes:
    """Return what is sound of a source. Raises Unreadable if a store gives other bytes when it is asked again: then
    nobody knows what is missing."""
    sound = _sound_of(store, source)
    if sound.missing and source.listed is not None and not store.is_local and _sound_of(store, source) != sound:
        raise gave_other_bytes(source.path)
    return sound


def _sound_of(store: RemoteStore, source: LogSource) -> SoundBytes:
    try:
        with open_source(store, source) as file:
            return find_sound(store, file, source)
    except (Unsupported, Unreadable):  # another time it may be had
        raise
    except KlogError as error:
        return SoundBytes((), (_whole(source, error),))


def _content(store: RemoteStore, source: LogSource, sound: SoundBytes, make_spool: MakeSpool) -> Content:
    if source.listed is None:  # an object may have a mode and an owner with which no broker can write
        return tuple(FileRange(source.path, *one) for one in sound.ranges)
    if not sound.ranges:
        return ()
    spool, parts = make_spool(), list[Part]()
    try:
        with open_source(store, source) as file:
            for start, stop in sound.ranges:
                for at in range(start, stop, PART_BYTES):
                    spool.write(file.read(at, min(PART_BYTES, stop - at)))
    except Corrupt:  # it was sound
        raise gave_other_bytes(source.path) from None
    parts.append(spool.end_part())
    return tuple(parts)


def _whole(source: LogSource, error: KlogError) -> MissingOffsets:
    known = None if source.listed is None else source.listed.metadata
    last = source.last_offset if source.last_offset is not None or known is None else known.end_offset
    return MissingOffsets(
        source.first_offset, source.first_offset if last is None else last, error.reason, error.path or source.path
    )
