"""transplant: a copied partition as another cluster, or a topic that was created again, can adopt it.

Records, offsets and timestamps stay. What the old cluster has counted goes: the topic's id, leader epochs, and unless
asked otherwise producers. The log is recovered here, so a damaged copy is refused, and side files are a broker's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict, replace

from klogtool import kernels
from klogtool.broker.circumstances import REMOTE_STORAGE, UNCLEAN, Checkpoints, terms_of
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import facts_of, file_fact
from klogtool.broker.metadata.image import ClusterMetadata, read_cluster_metadata
from klogtool.broker.spools import MakeSpool
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.content_writer import ContentWriter
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import walk_entries
from klogtool.broker.unified_log.rolling import roll
from klogtool.causes import Reason, Text
from klogtool.errors import FileCause, KlogError, Refused
from klogtool.format.batch import RecordBatch
from klogtool.format.checkpoints import EpochEntry, build_leader_epoch_checkpoint
from klogtool.format.identity import PartitionMetadata, build_meta_properties, build_partition_metadata
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.kraft_snapshot import Voter
from klogtool.format.names import METADATA_TOPIC, TOPIC_NAME, FileKind, TopicPartition, build_file_name, parse_file_name
from klogtool.format.producer_snapshot import build_producer_snapshot
from klogtool.format.uuids import build_uuid, parse_uuid
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.parameters import Unit, parameter
from klogtool.plans.causes import PlanNote, RecoverCause, TopicIdCause, TransplantRefusal, VerdictCause
from klogtool.plans.checkpoint_lines import CheckpointLines, plan_checkpoints
from klogtool.plans.creation import known_topic_id
from klogtool.plans.erased_witness import ErasedWitness, walk_erased_gaps
from klogtool.plans.node_ids import NewIds, parse_node_ids, plan_metadata
from klogtool.plans.plan import Plan, SizedVerdict, Write
from klogtool.plans.question import PathText, Question
from klogtool.plans.quorum_voters import VotersQuestion
from klogtool.plans.quorum_voters import decide as decide_voters
from klogtool.plans.recover_answer import losses_of_loading
from klogtool.plans.recover_gaps import find_gaps, find_perhaps_missing
from klogtool.plans.recover_reach import find_behind_end
from klogtool.plans.results import Result
from klogtool.plans.salvage import order_steps
from klogtool.quorum.new_voters import parse_voters
from klogtool.verify.cures import salvage

COMMAND = "transplant"
FIRST_EPOCH = 0  # of a new topic: no leader of the adopting cluster is below it
PIECE_BYTES = 4 << 20
_METADATA, _EPOCHS = FileKind.PARTITION_METADATA.value, FileKind.LEADER_EPOCH_CHECKPOINT.value


class TransplantQuestion(Question, frozen=True, kw_only=True):
    """What is to become of a copy? topic, partition: its new name; None: the name stays. in_place: the copy already
    lies in the log dir of the adopting broker. log_dirs: all that get the cluster id."""

    topic_id: Annotated[PathText | None, parameter("The id of the topic that adopts it.", Unit.TOPIC_ID)] = None
    topic: Annotated[PathText | None, parameter("The name of that topic.  [default: that of the copy]", Unit.TOPIC)] = (
        None
    )
    partition: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_INT)] | None,
        parameter("The number of the partition.  [default: that of the copy]"),
    ] = None
    log_dir: Annotated[
        PathText | None,
        parameter("A log dir of the adopting broker: the topic id is looked up there.", Unit.LOG_DIR),
    ] = None
    keep_producers: Annotated[
        bool,
        parameter("Keep the state of producers: only if the topic is adopted by the cluster that wrote the copy."),
    ] = False
    forget_open: Annotated[
        bool,
        parameter(
            "Records of transactions without a marker may count as committed.", option="forget-open-transactions"
        ),
    ] = False
    cluster_id: Annotated[
        PathText | None,
        parameter("Give whole log dirs this cluster id. Topic ids, directory ids and records stay.", Unit.CLUSTER_ID),
    ] = None
    voters: Annotated[
        PathText | None,
        parameter(
            "With --cluster-id: where the voters of a dynamic quorum listen now. Name the log dirs of all controllers.",
            Unit.TEXT,
            metavar="ID@HOST:PORT[:DIR-ID],...",
        ),
    ] = None
    node_ids: Annotated[
        PathText | None,
        parameter(
            "With --cluster-id: nodes get other ids. Name all log dirs of all nodes.", Unit.TEXT, metavar="OLD=NEW,..."
        ),
    ] = None
    check: Annotated[bool, parameter("Only say whether it can be transplanted, and to where.")] = False
    in_place: bool = False
    log_dirs: tuple[PathText, ...] = ()


QUESTION = TransplantQuestion
_LINES = {
    "recovery_point": FileKind.RECOVERY_POINT_CHECKPOINT.value,
    "high_watermark": FileKind.REPLICATION_CHECKPOINT.value,
    "log_start_offset": FileKind.LOG_START_CHECKPOINT.value,
}


class NeededLines(Struct, frozen=True, rename=_LINES):
    """The partition's lines in the checkpoints of its new log dir; None: it needs none."""

    recovery_point: int
    high_watermark: int
    log_start_offset: int | None


class TransplantResult(Result, frozen=True):
    """What a copy becomes. topic_id_by: who knows the id. batches_restamped: how many had another leader epoch.
    producers: how many the copy knows. erased: what is missing, and what alone shows it."""

    topic: str
    partition: int
    topic_id: str | None
    topic_id_by: Text | None
    source_topic_id: str | None
    log_start_offset: int
    log_end_offset: int
    batches_restamped: int
    producers: int
    producers_kept: bool
    open_transactions: int
    checkpoints: NeededLines
    erased: list[ErasedWitness] | UnsetType = UNSET


def decide(path: str, question: TransplantQuestion, make_spool: MakeSpool | None = None) -> Iterator[Plan]:
    """Plan for one partition dir, or for a whole log dir that gets another cluster id. make_spool: for segments whose
    batches get another leader epoch.

    Raises Refused for a damaged log, a name that Kafka refuses, or a topic id that is unknown or contradicts a known
    one; Corrupt or Unsupported, with Kafka's class, if a broker refuses to load it; KlogError for what is no partition
    dir.
    """
    if question.cluster_id is not None:
        yield from _walk_log_dir_plans(path, question, question.cluster_id)
        return
    if not isinstance(open_path(path), Partition):
        raise KlogError(FileCause.NO_PARTITION_DIR(), path=path)
    topic, number = _new_name(path, question)
    beside = Checkpoints.beside(path)
    topic_id, by = _topic_id(path, topic, question, beside.log_dir if question.in_place else None)
    draft = Draft.of(path)
    draft.make_spool = make_spool
    facts, source_id = facts_of(draft), Partition(path).topic_id
    log, erased, doubtful = _recovered(draft, path, question)
    open_txns = len(log.producers.ongoing_txns)
    if open_txns and not (question.keep_producers or question.forget_open or question.check):
        raise Refused(TransplantRefusal.OPEN_TRANSACTIONS(count=open_txns), path=path)
    end, start = log.log_end_offset, log.log_start_offset
    remote = _perhaps_remote(log)
    is_tiered = remote is not None or log.terms.config.remote_storage_enable
    log_start_line = start if is_tiered else log.log_start_checkpoint
    if log.segments.last.size:
        roll(log)
    log.stop()
    producers = len(log.producers.snapshot_entries())
    changed = _set_epochs(draft, start)
    if not question.keep_producers:
        _forget_producers(draft, end)
    if topic_id is not None:
        draft.write(_METADATA, build_partition_metadata(PartitionMetadata(0, topic_id)))
    result = TransplantResult(
        topic,
        number,
        None if topic_id is None else build_uuid(topic_id),
        by,
        source_id,
        start,
        end,
        sum(changed.values()),
        producers,
        question.keep_producers,
        open_txns,
        NeededLines(end, end, log_start_line),
        erased or UNSET,
    )
    plan = Plan(
        COMMAND,
        path,
        question,
        facts,
        order_steps(draft),
        tuple(_verdicts(draft, changed)),
        result,
        tuple(_notes(open_txns, producers, question, log_start_line, remote))
        + tuple(_notes_on_missing(erased, doubtful, question)),
    )
    if not question.in_place or beside.log_dir is None:
        yield plan
        return
    lines = CheckpointLines(TopicPartition(topic, number), start, end, log_start_line, first_dirty_at_most=start)
    before, after = plan_checkpoints(COMMAND, beside.log_dir, question, [lines])
    yield from (one for one in (before, plan, after) if one is not None)


def _walk_log_dir_plans(path: str, question: TransplantQuestion, cluster_id: str) -> Iterator[Plan]:
    """Yield the plans of a log dir: of its metadata, if nodes get other ids, and of meta.properties. The plan of new
    voters relies on what all log dirs have, so it is the very first. path: may be that of the metadata alone."""
    new_ids: NewIds = {} if question.node_ids is None else parse_node_ids(question.node_ids)
    voters = None if question.voters is None else parse_voters(question.voters)
    if voters is not None and not new_ids and path in question.log_dirs[:1]:
        yield from decide_voters(path, _voters_question(question))
    log_dir = os.path.dirname(path) if new_ids and own_name(path) == CLUSTER_METADATA_DIR else path
    of_log_dir = plan_log_dir(COMMAND, log_dir, question, cluster_id, new_ids)
    if new_ids and os.path.isdir(os.path.join(log_dir, CLUSTER_METADATA_DIR)):
        yield plan_metadata(COMMAND, log_dir, question, new_ids, voters)
    if path == log_dir:
        yield of_log_dir


def _voters_question(question: TransplantQuestion) -> VotersQuestion:
    """Return the question for new voters, of the log dirs with metadata. Raises Refused if there is none."""
    copies = tuple(path for path in question.log_dirs if os.path.isdir(os.path.join(path, CLUSTER_METADATA_DIR)))
    if not copies:
        raise Refused(TransplantRefusal.NO_METADATA())
    return VotersQuestion(**asdict(question.circumstances), voters=question.voters, copies=copies)


def _new_name(path: str, question: TransplantQuestion) -> tuple[str, int]:
    """Return the topic and the partition's number. Raises Refused, or KlogError if they are not known."""
    name = find_partition_dir_name(own_name(path))
    # Of a folder that is being deleted or is a stray, the topic may be cut short.
    is_whole = name is not None and name.state.is_live
    topic = question.topic if question.topic is not None else name.topic if name and is_whole else None
    number = question.partition if question.partition is not None else name.partition if name else None
    if topic is None or number is None:
        raise KlogError(TransplantRefusal.NO_NAME())
    if not TOPIC_NAME.fullmatch(topic):
        raise Refused(TransplantRefusal.NAME_REFUSED(topic=topic), path=path)
    if question.in_place and own_name(path) != f"{topic}-{number}":
        raise Refused(TransplantRefusal.OTHER_NAME(topic=topic, partition=number), path=path)
    if METADATA_TOPIC in (topic, name.topic if name else None):
        raise Refused(TransplantRefusal.OF_ITS_CLUSTER(topic=METADATA_TOPIC), path=path)
    return topic, number


def _topic_id(
    path: str, topic: str, question: TransplantQuestion, around: str | None
) -> tuple[bytes | None, Text | None]:
    """Return the id, and where it is from; None of a check that does not know it. around: a log dir around the copy,
    if that is the adopting broker's."""
    log_dir = question.log_dir or around
    but = own_name(path) if log_dir == around else ""
    known, where = (None, "") if log_dir is None else known_topic_id(topic, log_dir, but)
    if question.topic_id is not None:
        wanted = parse_uuid(question.topic_id)
        if known not in (None, wanted):
            raise Refused(TopicIdCause.OTHER_ID(topic=topic, log_dir=str(log_dir), where=where), path=path)
        return wanted, "as given"
    if known is None and not question.check:
        at = "" if log_dir is None else TopicIdCause.NOTHING_KNOWS(log_dir=log_dir, topic=topic)
        raise Refused(TopicIdCause.UNKNOWN(at=at), path=path)
    return known, None if known is None else TopicIdCause.BY(where=where, log_dir=str(log_dir))


def _recovered(
    draft: Draft, path: str, question: TransplantQuestion
) -> tuple[LoadedLog, list[ErasedWitness], list[tuple[int, int]]]:
    """Load the log as after a kill, from its first byte; also return what is missing and nothing tells of any more, and
    offsets before the log that may have been lost. Raises Refused if that loses records."""
    known = terms_of(path, replace(question.circumstances, recovery_point=0, last_stop=UNCLEAN))
    # Records that are only in remote storage do not come along.
    terms = replace(known, is_clean=False, is_tiered=False)
    log = LoadedLog(draft, terms, jobs=question.threads)
    behind = find_behind_end(log)
    if losses_of_loading(log, behind).loses:
        said = RecoverCause.LOSES() if behind is None else behind.reason(log.log_end_offset)
        raise _damaged(path, said)
    gaps = find_gaps(log, terms.compaction)
    for gap in gaps:
        if gap.is_left_over:
            why = TransplantRefusal.LEFT_OVER(name=str(gap.told_by), first=gap.first_offset, last=gap.last_offset)
            raise _damaged(path, why)
    _check_order(log, path)
    is_remote = known.is_tiered or _perhaps_remote(log) is not None
    doubtful = [] if is_remote else find_perhaps_missing(log, gaps, terms.compaction)
    log.run_scheduled()
    return log, list(walk_erased_gaps(log)), doubtful


def _perhaps_remote(log: LoadedLog) -> tuple[int, int] | None:
    """Return the offsets that remote storage has and the disk has not, if the topic is tiered: that is unknown. No
    start comes to them with the result: they are those of a topic's id (TopicIdPartition), and of leader epochs, which
    begin anew."""
    start = log.tiered_log_start_offset if log.terms.is_start_known else None
    local = log.segments.first.base_offset
    return None if start is None or start >= local else (start, local - 1)


def _check_order(log: LoadedLog, path: str) -> None:
    """Raise Refused if offsets go back: no checksum covers a base offset, and a recovery may keep a false one."""
    before = -1
    for segment in log.segments.values(log.local_log_start_offset):
        with segment.open_log() as file:
            for entry in walk_entries(file):
                first = entry.base_offset if isinstance(entry, RecordBatch) else entry.last_offset
                if first <= before:
                    raise _damaged(path, FileCause.NOT_BEHIND(offset=first, before=before))
                before = entry.last_offset


def _damaged(path: str, why: Text) -> Refused:
    return Refused(TransplantRefusal.DAMAGED(why=why), path=path, cure=salvage(path))


def _forget_producers(draft: Draft, end: int) -> None:
    """Leave one snapshot, of no producer, at the end. Without it, a start after a kill would read producers from the
    batches before the end. An empty log needs none."""
    for name in draft.names():
        if parse_file_name(name).kind is FileKind.PRODUCER_SNAPSHOT:
            draft.delete(name)
    if any(parse_file_name(name).kind is FileKind.LOG and draft.size(name) for name in draft.names()):
        draft.write(build_file_name(FileKind.PRODUCER_SNAPSHOT, end), build_producer_snapshot([]))


def _set_epochs(draft: Draft, start: int) -> dict[int, int]:
    """Give all batches the first epoch. Return how many had another one, by base offset of their segment."""
    changed = {}
    has_entries = False
    for name in draft.names():
        file = parse_file_name(name)
        if file.kind is not FileKind.LOG or file.suffix or file.base_offset is None:
            continue
        has_entries = has_entries or draft.size(name) > 0
        count = _restamp(draft, name, None)
        if count:
            writer = ContentWriter(draft.new_spool())
            _restamp(draft, name, writer)
            draft.write(name, writer.content(), draft.files[name].mtime_ns)
        changed[file.base_offset] = count
    entries = [EpochEntry(FIRST_EPOCH, start)] if has_entries else []
    draft.write(_EPOCHS, build_leader_epoch_checkpoint(entries))
    return changed


def _restamp(draft: Draft, name: str, writer: ContentWriter | None) -> int:
    """Read a sound log, and write it with the first epoch. writer None: only count the batches with another one."""
    at = changed = 0
    size = PIECE_BYTES
    with ContentFile(os.path.join(draft.path, name), draft.files[name].content) as file:
        while at < file.size:
            chunk = bytearray(file.read(at, size))
            reached, count = kernels.native.set_leader_epochs(chunk, 0, len(chunk), FIRST_EPOCH)
            if reached == 0 and at + len(chunk) < file.size:
                size *= 2
                continue
            if reached == 0:
                raise Refused(FileCause.CHANGED(), path=file.path, position=at)
            if writer is not None:
                writer.write(bytes(memoryview(chunk)[:reached]))
            at, changed, size = at + reached, changed + count, PIECE_BYTES
    return changed


def _verdicts(draft: Draft, changed: Mapping[int, int]) -> Iterator[SizedVerdict]:
    for base_offset, count in sorted(changed.items()):
        name = build_file_name(FileKind.LOG, base_offset)
        size = draft.size(name)
        if name not in draft.before:
            yield SizedVerdict(base_offset, "create", VerdictCause.BEGINS_CLUSTER(), size)
        elif count:
            yield SizedVerdict(base_offset, "rewrite", VerdictCause.NEW_EPOCH(batches=count, epoch=FIRST_EPOCH), size)
        else:
            yield SizedVerdict(base_offset, "keep", VerdictCause.AS_IT_IS(), size)


def _notes(
    open_txns: int,
    producers: int,
    question: TransplantQuestion,
    log_start_line: int | None,
    remote: tuple[int, int] | None,
) -> Iterator[Reason]:
    if open_txns:
        note = PlanNote.OPEN_STAY if question.keep_producers else PlanNote.OPEN_COMMITTED
        yield note(count=open_txns)
    if producers and not question.keep_producers:
        yield PlanNote.FORGOTTEN(count=producers)
    if log_start_line is not None:
        yield PlanNote.NEEDS_LINE(start=log_start_line)
    if remote is not None:
        yield PlanNote.LEFT_REMOTE(first=remote[0], last=remote[1])


def _notes_on_missing(
    erased: Iterable[ErasedWitness], doubtful: Iterable[tuple[int, int]], question: TransplantQuestion
) -> Iterator[Reason]:
    note = PlanNote.ERASES_WITNESS if question.in_place else PlanNote.LEAVES_WITNESS
    yield from (note(first=each.first_offset, last=each.last_offset, name=each.told_by) for each in erased)
    yield from (PlanNote.ERASES_DOUBT(first=first, last=last) for first, last in doubtful)


# A whole log dir: for a clone from copies of all disks. A broker knows its cluster by meta.properties alone
# (MetaPropertiesEnsemble). `__cluster_metadata` names nodes, directory ids and topic ids, and no cluster: so these
# stay, and all log dirs of all nodes get the same new id. Other node ids are another matter: plans/node_ids.py.


class LogDirTransplant(Result, frozen=True):
    """What a log dir becomes. directory_id: it stays. source_node_id: the node id that it had. partitions: how many
    partition dirs come along; has_metadata: one of them is `__cluster_metadata-0`. voters: whom that names, of a
    dynamic quorum, with where they listen: this stays, too, unless nodes get other ids. tiered_topics: topics that the
    metadata tiers, so that a clone shares their objects."""

    cluster_id: str
    source_cluster_id: str | None
    node_id: int | None
    source_node_id: int | None
    directory_id: str | None
    partitions: int
    has_metadata: bool
    voters: tuple[Voter, ...] = ()
    tiered_topics: tuple[str, ...] = ()


def plan_log_dir(command: str, path: str, question: Question, cluster_id: str, new_ids: NewIds) -> Plan:
    """Plan for one log dir. new_ids: of nodes.

    Raises KlogError for what is no log dir, or an id that is none; Refused for one without meta.properties, or one
    whose node id may have been changed already; Corrupt if meta.properties cannot be read.
    """
    log_dir = open_path(path)
    if not isinstance(log_dir, LogDir):
        raise KlogError(TransplantRefusal.NO_LOG_DIR(), path=path)
    parse_uuid(cluster_id)
    draft, name = Draft.of(path), FileKind.META_PROPERTIES.value
    identity = log_dir.meta_properties
    if identity is None:
        raise Refused(TransplantRefusal.NO_NODE(), path=path)
    if new_ids and identity.cluster_id == cluster_id:
        raise Refused(TransplantRefusal.SAME_CLUSTER(), path=path)
    partitions = log_dir.partitions
    node_id = None if identity.node_id is None else new_ids.get(identity.node_id, identity.node_id)
    has_metadata = any(partition.topic == METADATA_TOPIC for partition in partitions)
    folder = os.path.join(draft.path, CLUSTER_METADATA_DIR)
    metadata = read_cluster_metadata(folder) if has_metadata else ClusterMetadata()
    result = LogDirTransplant(
        cluster_id,
        identity.cluster_id,
        node_id,
        identity.node_id,
        None if identity.directory_id is None else build_uuid(identity.directory_id),
        len(partitions),
        has_metadata,
        () if new_ids else metadata.quorum.voters or (),
        tuple(sorted(topic for topic, settings in metadata.topics.items() if settings.get(REMOTE_STORAGE) == "true")),
    )
    new_identity = replace(identity, cluster_id=cluster_id, node_id=node_id)
    is_same = new_identity == identity
    content = build_meta_properties(new_identity)
    steps = () if is_same else (Write(name, (content,)),)
    return Plan(command, draft.path, question, (file_fact(name, draft.files[name]),), steps, (), result)
