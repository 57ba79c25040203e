"""One controller, as its metadata log dir and its settings show it: what KafkaRaftClient.initialize would find.

Sources: KafkaRaftClient.initialize, KRaftControlRecordStateMachine, KafkaRaftLog.truncateToLatestSnapshot, QuorumState.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.image import ClusterMetadata, read_cluster_metadata
from klogtool.broker.metadata.quorum import Quorum
from klogtool.broker.metadata.refusals import Refusal
from klogtool.broker.releases import REFERENCE_RULES, Rules
from klogtool.errors import Corrupt, KlogError
from klogtool.format.batch import Record, RecordBatch
from klogtool.format.checkpoints import assign_leader_epochs
from klogtool.format.identity import MetaProperties, QuorumState
from klogtool.format.internal.records import METADATA, parse_metadata_record
from klogtool.format.kraft_snapshot import Voter
from klogtool.format.names import MAPPED_INDEXES, METADATA_TOPIC, FileKind, parse_file_name
from klogtool.format.uuids import METADATA_TOPIC_ID, build_uuid, is_reserved_directory_id
from klogtool.log.file import LogFile, Unreadable, find_disk_error
from klogtool.log.folder import is_broken_link, is_loop, names_in
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.log.probing import ends_in_zeros
from klogtool.log.resync import find_next_batch
from klogtool.log.second_reading import has_changed, read_again
from klogtool.log.segment import BatchFile, KraftSnapshot, Segment
from klogtool.quorum.causes import MetadataCopyCause
from klogtool.quorum.metadata_load import find_in_the_way, load_metadata
from klogtool.quorum.settings import QuorumSettings
from klogtool.verify.findings import Kind
from klogtool.verify.only_copies import HIGHEST
from klogtool.verify.openable import may_read
from klogtool.verify.verify_kraft import verify_kraft_snapshot

NO_OP = "NoOpRecord"


class Position(Struct, frozen=True, order=True):
    """How far a metadata log goes, in the order in which elections compare (OffsetAndEpoch): the epoch of its last
    record, and the offset after that record."""

    epoch: int = 0
    end_offset: int = 0


class MetadataLog(Struct, frozen=True):
    """The metadata log of a disk, as a start would load it.

    quorum: what its control records say. voters_at: the last VotersRecord's epoch and offset (in a snapshot: that of
    its end), None if there is none. voters_before: those that it replaced, if it may not be committed: no later epoch
    went on after it. is_behind_snapshot: the log has records, but the newest snapshot is ahead of
    it. cut_bytes: what is after the last whole batch, unless it is zeros up to the log's end. Every start recovers
    this log, and cuts it there (KafkaRaftLog.createLog). damage: why, unless only the last batch is torn. problem: why
    it cannot be read to its end, so that nobody knows how far it goes; what is before that counts. snapshot_problem:
    the newest snapshot is damaged: a start ends. sound_end: the offset after the last sound batch behind the damage, 0
    if there is none. reached: the log went up to this offset once, as the file `reached_by` shows; 0 if nothing shows
    more than the log has. side_problem: so it does at leader-epoch-checkpoint or
    partition.metadata. committed: the high watermark was this offset at least, as the end of a snapshot tells: it has
    committed records only (KafkaRaftClient.createSnapshot).
    """

    position: Position = Position()
    quorum: Quorum = Quorum()
    voters_at: Position | None = None
    voters_before: tuple[Voter, ...] | None = None
    is_behind_snapshot: bool = False
    cut_bytes: int = 0
    damage: KlogError | None = None
    problem: KlogError | None = None
    snapshot_problem: KlogError | None = None
    side_problem: KlogError | None = None
    committed: int = 0
    sound_end: int = 0
    reached: int = 0
    reached_by: str = ""

    @property
    def is_whole(self) -> bool:
        """Return whether nothing of it is damaged."""
        return self.trouble is None and not self.cut_bytes

    @property
    def gone(self) -> tuple[int, int] | None:
        """Return the offsets, first and last, that it had once and that no file of it has; None if nothing shows
        any."""
        return (max(self.position.end_offset, self.sound_end), self.reached - 1) if self.reached else None

    @property
    def trouble(self) -> KlogError | None:
        """Return why it is not read to its end, or None."""
        return self.damage or self.problem or self.snapshot_problem


class Controller(Struct, frozen=True):
    """A disk and the settings of its node: None if they are not known. refusal: why the node ends at its settings.

    node_id, directory_id, cluster_id: of meta.properties; None where the file has none. has_identity: there is a
    meta.properties. state_problem: why quorum-state cannot be parsed, so that a start ends. record_problem: why a
    record is refused whose checksum holds, so that a start ends at it. identity_problem: why it ends at
    meta.properties. replay_refusal: the first record that only a replay refuses: a controller ends when it replays it,
    which is after the election. start_error: why its start ends at another file that it cannot open or make.
    """

    path: str
    node_id: int | None
    directory_id: str | None
    cluster_id: str | None
    has_identity: bool
    log: MetadataLog
    quorum_state: QuorumState | None = None
    state_problem: KlogError | None = None
    settings: QuorumSettings | None = None
    refusal: KlogError | None = None
    record_problem: KlogError | None = None
    identity_problem: KlogError | None = None
    replay_refusal: Refusal | None = None
    start_error: KlogError | None = None

    @property
    def is_dynamic(self) -> bool:
        """Return whether the voters stand in its metadata log or snapshot: then the settings name none."""
        return self.log.quorum.voters is not None


def read_controller(path: str, settings: Mapping[str, str] | None = None, rules: Rules = REFERENCE_RULES) -> Controller:
    """Read a log dir that may have a metadata log. Damage is no error here. settings: of its server.properties.

    Raises Unreadable if meta.properties or the folder cannot be read.
    """
    own, refusal = None, None
    try:
        own = None if settings is None else QuorumSettings.of(settings, rules)
    except KlogError as error:
        refusal = error
    identity, wrong = _identity(path)
    state, problem = _quorum_state(path)
    directory_id = None if identity is None else identity.directory_id
    folder = os.path.join(path, CLUSTER_METADATA_DIR)
    metadata = read_cluster_metadata(folder, rules) if os.path.isdir(folder) else ClusterMetadata()
    if directory_id is not None and is_reserved_directory_id(directory_id):
        directory_id = None
    log, start_error = _as_loaded(path, read_metadata_log(folder), rules)
    return Controller(
        path,
        None if identity is None else identity.node_id,
        None if directory_id is None else build_uuid(directory_id),
        None if identity is None else identity.cluster_id,
        identity is not None,
        log,
        state,
        problem,
        own,
        refusal,
        _record_problem(metadata),
        wrong,
        _replay_refusal(metadata, identity),
        start_error,
    )


def _as_loaded(path: str, log: MetadataLog, rules: Rules) -> tuple[MetadataLog, KlogError | None]:
    """Return the metadata log of a log dir as a start loads it, and the error at which the start ends instead. A start
    that cannot write a side file cuts the log there, although no byte of it is damaged. Raises Unreadable for what
    klogtool alone may not read, and Changed beside a node that runs."""
    try:
        end = read_again(lambda: load_metadata(path, rules.release))
    except KlogError as error:
        is_ours = isinstance(error, Unreadable) and error.is_denied and may_read(error.path or path, path)
        if is_ours or has_changed(error):
            raise
        return log, error
    if isinstance(log.problem, Unreadable) and not log.problem.is_of_disk:  # no file, which a start does not see
        return replace(log, problem=None, damage=log.problem), None
    folder = os.path.join(path, CLUSTER_METADATA_DIR)
    newest = _newest(Partition(folder)) if log.trouble is None and os.path.isdir(folder) else None
    snapshot = Position() if newest is None else Position(newest.epoch or 0, newest.end_offset or 0)
    if log.trouble is not None or log.position <= snapshot or end.offset >= log.position.end_offset:
        return log, None
    damage = KlogError(MetadataCopyCause.CUT_BY_LOAD(), path=find_in_the_way(folder))
    position = max(Position(end.epoch, end.offset), snapshot)
    return replace(log, position=position, damage=damage, sound_end=log.position.end_offset), None


def _identity(path: str) -> tuple[MetaProperties | None, KlogError | None]:
    try:
        return LogDir(path).meta_properties, None
    except Unreadable:
        raise
    except KlogError as error:
        return None, error


def _record_problem(metadata: ClusterMetadata) -> KlogError | None:
    """Return why Raft refuses a record of the metadata."""
    refusal = next((one for one in metadata.refusals if one.record is None), None)
    if refusal is None:
        return None
    return KlogError(refusal.message, path=refusal.path, kafka_class=refusal.kafka_class)


def _replay_refusal(metadata: ClusterMetadata, identity: MetaProperties | None) -> Refusal | None:
    """Return what a replay refuses, if this node is a controller: a broker logs it, and goes on."""
    refusal = metadata.refusal
    is_of_replay = refusal is not None and refusal.record is not None
    may_be = metadata.may_be_controller(None if identity is None else identity.node_id)
    return refusal if is_of_replay and may_be else None


def _quorum_state(path: str) -> tuple[QuorumState | None, KlogError | None]:
    """Read quorum-state. A link to nothing is no file for Kafka, which renames the new file over it."""
    partition = Partition(os.path.join(path, CLUSTER_METADATA_DIR))
    if is_broken_link(os.path.join(partition.path, FileKind.QUORUM_STATE.value)):
        return None, None
    try:
        return partition.quorum_state, None
    except KlogError as error:
        return None, error


def read_metadata_log(path: str) -> MetadataLog:
    """Read the control records of a partition dir of `__cluster_metadata`, and where its log ends.

    Of its snapshots only the newest counts, of its log what is after that. A log that is behind the newest snapshot is
    thrown away by a start, whichever is longer: the epoch decides first.
    """
    if not os.path.isdir(path):
        return MetadataLog()
    partition = Partition(path)
    log = replace(_read_metadata_log(partition), side_problem=_side_problem(partition))
    reached, name = max(_walk_reached(partition), default=(0, ""))
    is_more = log.trouble is log.damage and reached > max(log.position.end_offset, log.sound_end)
    return replace(log, reached=reached, reached_by=name) if is_more else log


def _walk_reached(partition: Partition) -> Iterator[tuple[int, str]]:
    """Yield up to which offset the log went once, with the name of the file that shows it: a producer snapshot has the
    state at an offset that the log had, and an epoch begins at one. Both go when a log is cut on purpose
    (ProducerStateManager.truncateAndReload, LeaderEpochFileCache.truncateFromEndAsyncFlush)."""
    snapshots = map(parse_file_name, names_in(partition.path))
    for file in snapshots:
        if file.kind is FileKind.PRODUCER_SNAPSHOT and not file.suffix and (file.base_offset or 0) < HIGHEST:
            yield file.base_offset or 0, file.name
    with suppress(KlogError):  # the start reports it
        starts = (line.start_offset for line in partition.leader_epochs or ())
        yield from ((start, FileKind.LEADER_EPOCH_CHECKPOINT.value) for start in starts if start < HIGHEST)


def _side_problem(partition: Partition) -> KlogError | None:
    """Return why a start ends at a file beside the log, or None (UnifiedLog.create). It maps all indexes. What is no
    file is told by the loading."""
    paths = (segment.side_path(kind) for segment in partition.segments for kind in MAPPED_INDEXES)
    if (error := next(filter(None, map(find_disk_error, paths)), None)) is not None:
        return error
    epochs, path = (
        os.path.join(partition.path, kind.value)
        for kind in (FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA)
    )
    try:
        if os.path.isfile(epochs):
            assign_leader_epochs(partition.leader_epochs or ())
        topic_id = partition.topic_id if os.path.isfile(path) else None
    except KlogError as error:
        return error
    if topic_id in (None, build_uuid(METADATA_TOPIC_ID)):
        return None
    return KlogError(MetadataCopyCause.OTHER_TOPIC_ID(topic_id=topic_id, topic=METADATA_TOPIC), path=path)


def _read_metadata_log(partition: Partition) -> MetadataLog:
    try:
        newest = _newest(partition)
        segments = partition.segments
    except KlogError as error:
        return MetadataLog(problem=error)
    committed = max((one.end_offset or 0 for one in partition.kraft_snapshots), default=0)
    snapshot = replace(MetadataLog() if newest is None else _read_snapshot(newest), committed=committed)
    if segments and segments[0].base_offset > snapshot.position.end_offset and snapshot.trouble is None:
        absent = MetadataCopyCause.NO_SNAPSHOT(offset=segments[0].base_offset)
        snapshot = replace(snapshot, snapshot_problem=KlogError(absent, path=partition.path))
    log = _with_epochs_of(partition, _read_log(segments, snapshot))
    if snapshot.trouble is None and log.position < snapshot.position:
        behind = log.position > Position()
        of_log = replace(snapshot, is_behind_snapshot=behind, cut_bytes=log.cut_bytes, problem=log.problem)
        is_cut = log.sound_end > snapshot.position.end_offset
        return replace(of_log, damage=log.damage, sound_end=log.sound_end) if is_cut else of_log
    return log


def _newest(partition: Partition) -> KraftSnapshot | None:
    """Return the snapshot that a start reads. Those that end before the log are deleted (recoverSnapshots), and a link
    to no file is none."""
    start = next((segment.base_offset for segment in partition.segments), 0)
    there = (one for one in reversed(partition.kraft_snapshots) if not is_broken_link(one.path) or is_loop(one.path))
    return next((one for one in there if (one.end_offset or 0) >= start), None)


def _read_snapshot(snapshot: KraftSnapshot) -> MetadataLog:
    """Read the voters of a snapshot. They count as of its last offset: -1 for the one that a disk is formatted with."""
    end = Position(snapshot.epoch or 0, snapshot.end_offset or 0)
    quorum = Quorum()
    stop = next((one for one in verify_kraft_snapshot(snapshot.path) if one.stop or one.id is Kind.UNREADABLE), None)
    if stop is not None:
        error = KlogError(stop.detail, path=stop.path, position=stop.start)
        return MetadataLog(problem=error) if stop.stop is None else MetadataLog(snapshot_problem=error)
    for batch in snapshot.batches():
        if isinstance(batch, RecordBatch) and batch.is_control:
            quorum = _with_records_of(quorum, batch)
    at = Position(end.epoch, end.end_offset - 1)  # KRaftControlRecordStateMachine: as of the last contained offset
    return MetadataLog(end, quorum, None if quorum.voters is None else at)


def _read_log(segments: Sequence[Segment], snapshot: MetadataLog) -> MetadataLog:
    """Read the log after a snapshot. position: of the log alone."""
    start = snapshot.position.end_offset
    log = replace(snapshot, position=Position())
    for n, segment in enumerate(segments):
        later = segments[n + 1 :]
        if later and later[0].base_offset <= start:
            continue
        at, damage = 0, None
        try:
            for batch in walk_batches(segment):
                log, at = _after(log, batch, start), batch.position + batch.size
        except Unreadable as error:
            return replace(log, problem=error)
        except KlogError as error:
            damage = error
        try:
            cut = _bytes_after(segment, at, later)
        except KlogError as error:
            return replace(log, problem=error)
        if cut and later:
            damage = damage or KlogError(MetadataCopyCause.ENDS_INSIDE(), path=segment.path, position=at)
        if cut:
            return replace(log, cut_bytes=cut, damage=damage, sound_end=_sound_end(segment, at, later) if damage else 0)
    return log


def _sound_end(segment: Segment, at: int, later: Sequence[Segment]) -> int:
    """Return the offset after the last sound batch behind damage at a byte of a segment, there or in those after it; 0
    if there is none."""
    places = (*((one, 0) for one in reversed(later)), (segment, at + 1))
    return next((end for end in (_sound_end_from(*place) for place in places) if end), 0)


def _sound_end_from(segment: Segment, position: int) -> int:
    """Return the offset after the last sound batch of a segment, from a byte on; 0 if there is none."""
    end = 0
    with suppress(KlogError), LogFile(segment.path) as file:
        following = find_next_batch(file, position, end=file.size, lowest=segment.base_offset)
        while following is not None:
            after = following + 1
            with suppress(KlogError):
                for batch in walk_batches(segment, following):
                    end, after = max(end, batch.last_offset + 1), batch.position + batch.size
            following = find_next_batch(file, after, end=file.size, lowest=segment.base_offset)
    return end


def _bytes_after(segment: Segment, at: int, later: Sequence[Segment]) -> int:
    """Return how many bytes a start cuts if the last whole batch ends at a position, with the segments after it, which
    are then deleted (LogLoader.recoverLog). Zeros at the end of the log are nothing: they are room for more."""
    with LogFile(segment.path) as file:
        left = file.size - at
        if not left or (not later and ends_in_zeros(file, at)):
            return 0
    return left + sum(one.size for one in later)


def _with_epochs_of(partition: Partition, log: MetadataLog) -> MetadataLog:
    """Return the log with the last epoch as Kafka has it: a line of leader-epoch-checkpoint counts, too, unless it
    begins where the log ends (LeaderEpochFileCache.latestEpoch)."""
    try:
        lines = partition.leader_epochs or ()
    except KlogError:  # the start reports it
        return log
    end = log.position.end_offset
    epoch = max([log.position.epoch, *(line.epoch for line in lines if line.start_offset < end)])
    return replace(log, position=Position(epoch, end))


def _after(log: MetadataLog, batch: RecordBatch, start: int) -> MetadataLog:
    """Return the log with one more batch. Its records of voters count after offset `start`."""
    log = replace(log, position=Position(batch.partition_leader_epoch, batch.last_offset + 1))
    if log.voters_at is not None and log.voters_at.epoch < log.position.epoch:
        log = replace(log, voters_before=None)
    if not batch.is_control or batch.last_offset < start:
        return log
    quorum = _with_records_of(log.quorum, batch)
    if quorum.voters is log.quorum.voters:
        return replace(log, quorum=quorum)
    at = Position(batch.partition_leader_epoch, quorum.voters_offset)
    return replace(log, quorum=quorum, voters_at=at, voters_before=log.quorum.voters)


def _with_records_of(quorum: Quorum, batch: RecordBatch) -> Quorum:
    """Return what is so after control records. A record that is refused ends the start: Controller.record_problem."""
    try:
        return quorum.with_records_of(batch)
    except KlogError:
        return quorum


def walk_batches(file: BatchFile, start: int = 0) -> Iterator[RecordBatch]:
    """Yield the batches from a byte on, up to the zeros that a file may end with. Raises KlogError at damage: a start
    cuts the log there."""
    at = start
    try:
        for batch in file.batches(start):
            if not isinstance(batch, RecordBatch) or not batch.crc_valid:
                raise KlogError(MetadataCopyCause.BATCH_DAMAGED(), path=file.path, position=batch.position)
            yield batch
            at = batch.position + batch.size
    except Corrupt:
        with LogFile(file.path) as log:
            if not ends_in_zeros(log, at):
                raise


def count_metadata_records(path: str, first: int) -> int | None:
    """Return how many metadata records from an offset on are in the metadata log of a log dir, without those that
    change nothing (NoOpRecord) and control records; None if some of them are in no `.log` file or cannot be read."""
    partition = Partition(os.path.join(path, CLUSTER_METADATA_DIR))
    count = 0
    try:
        segments = partition.segments
        if not segments or segments[0].base_offset > first:
            return None
        for n, segment in enumerate(segments):
            if n + 1 == len(segments) or segments[n + 1].base_offset > first:
                count += sum(_name_of(record) != NO_OP for record in _data_records(segment, first))
    except KlogError:
        return None
    return count


def walk_metadata_values(path: str) -> Iterator[bytes]:
    """Yield the metadata records of a partition dir of `__cluster_metadata`: of its newest snapshot, and of the log
    after it. Transactions that were aborted or have no end are left out (QuorumController aborts those), and so are
    their marks. Raises KlogError at damage."""
    partition = Partition(path)
    newest = _newest(partition)
    start = 0 if newest is None else newest.end_offset or 0
    yield from (record.value or b"" for record in ([] if newest is None else _data_records(newest, 0)))
    if read_metadata_log(path).is_behind_snapshot:
        return
    pending: list[bytes] | None = None  # of the transaction that has begun
    for record in (record for segment in partition.segments for record in _data_records(segment, start)):
        value, name = record.value or b"", _name_of(record)
        if name == "BeginTransactionRecord":
            pending = []
        elif name in ("EndTransactionRecord", "AbortTransactionRecord"):
            yield from (pending or []) if name == "EndTransactionRecord" else ()
            pending = None
        elif pending is None:
            yield value
        else:
            pending.append(value)


def _data_records(file: BatchFile, first: int) -> Iterator[Record]:
    for batch in walk_batches(file):
        if not batch.is_control and batch.last_offset >= first:
            yield from (record for record in batch.records() if record.offset >= first)


def _name_of(record: Record) -> str | None:
    """Return the name of a metadata record; None for one of a newer release, which may change anything."""
    try:
        return parse_metadata_record(METADATA, record.value).name
    except KlogError:
        return None
