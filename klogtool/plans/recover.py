"""recover: what a broker's start, and a clean stop after it, would make of a partition dir or a log dir.

In a log dir, each partition dir that a broker would load gets its own plan, by the checkpoints and the clean marker
there. With `mark_clean` there is one more plan, for the checkpoints and the marker, but only if every batch of every
partition was read and is sound.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from msgspec import Struct

from klogtool.broker.circumstances import CLEAN, Checkpoints, LoadTerms, terms_of
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import Fact, facts_of, file_fact
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.sound_batches import find_sound_end
from klogtool.causes import Reason, Text
from klogtool.errors import AtPath, Corrupt, FileCause, KlogError, Refused
from klogtool.format.checkpoints import build_offset_checkpoint, parse_offset_checkpoint
from klogtool.format.identity import CleanShutdown, build_clean_shutdown, parse_clean_shutdown
from klogtool.format.names import (
    METADATA_TOPIC,
    FileKind,
    PartitionDirName,
    PartitionDirState,
    TopicPartition,
    is_visible_to_java,
    parse_partition_dir_name,
)
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_partition_dir_name, list_folder, own_name
from klogtool.log.logdir import REMOTE_INDEX_CACHE, LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.log.process_pool import in_processes
from klogtool.parameters import parameter
from klogtool.plans.causes import MarkCleanCause, PlanNote, RecoverCause
from klogtool.plans.checkpoint_lines import lines_of
from klogtool.plans.loading_steps import order_steps
from klogtool.plans.plan import Delete, Plan, Step, Write
from klogtool.plans.question import Question
from klogtool.plans.recover_answer import INTERVAL, recovery_notes, recovery_of, recovery_verdicts
from klogtool.plans.recover_reach import BehindEnd
from klogtool.plans.recover_result import Recovery
from klogtool.plans.results import LeftAlone, Result
from klogtool.plans.start_problems import find_start_problems
from klogtool.verify.cures import rebuild_index, salvage
from klogtool.verify.identity import without_set_aside

COMMAND = "recover"
UNKNOWN_BROKER_EPOCH = -1
_MARKER = FileKind.CLEAN_SHUTDOWN.value
_NEVER_BEYOND = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT, FileKind.CLEANER_CHECKPOINT)


class RecoverQuestion(Question, frozen=True, kw_only=True):
    """What would a broker's start do?"""

    mark_clean: Annotated[bool, parameter("Leave the log dir as after a clean shutdown, if all of it is sound.")] = (
        False
    )


QUESTION = RecoverQuestion


class MarkedClean(Result, frozen=True):
    """A log dir of so many partitions that gets the clean marker."""

    marked_clean: bool
    partitions: int


def decide(path: str, question: RecoverQuestion) -> Iterator[Plan]:
    """Yield a plan for each partition dir; with `mark_clean` one more, for the log dir.

    Raises Corrupt, Refused or Unsupported, with Kafka's class, if a broker refuses to load; other KlogErrors for what
    is neither a log dir nor a partition dir, or cannot be read.
    """
    opened = open_path(path)
    if isinstance(opened, Partition):
        log, plan, _ = recover_partition(path, question)
        yield plan
        log_dir, lines = Checkpoints.beside(path).log_dir, lines_of(log)
        if log_dir is not None and lines is not None:
            yield from walk_lowered(log_dir, question, {lines.topic_partition: lines.log_end_offset})
    elif isinstance(opened, LogDir):
        yield from plan_log_dir(path, question)
    else:
        raise KlogError(FileCause.NO_DIR(), path=path)


def recover_partition(
    path: str,
    question: RecoverQuestion,
    checkpoints: Checkpoints | None = None,
    threads: int | None = None,
    *,
    passes_over_links: bool = False,
) -> tuple[LoadedLog, Plan, Recovery]:
    """Return the loaded and stopped log, the plan that makes it so, and its answer.

    threads: default: those of the question. passes_over_links: see `Draft.of`; the plan is not to be carried out then.
    """
    beside = checkpoints or Checkpoints.beside(path)
    terms = terms_of(path, question.circumstances, clean_by_default=False, checkpoints=beside)
    draft = Draft.of(path, passes_over_links=passes_over_links)
    facts = facts_of(draft)
    with AtPath(path):
        log = _load(draft, terms, threads or question.threads)
    is_known = knows_interval(path, terms, beside)
    stray = why_stray(path, beside)
    recovery = recovery_of(log, stray, is_interval_known=is_known, could_be_known=beside.log_dir is not None)
    plan = Plan(
        COMMAND,
        path,
        question,
        facts,
        order_steps(draft, log.report),
        recovery_verdicts(log),
        recovery,
        (*terms.notes, *recovery_notes(log)),
    )
    return log, plan, recovery


def _load(draft: Draft, terms: LoadTerms, threads: int) -> LoadedLog:
    """Return the log as a start leaves it, and a clean stop after that."""
    try:
        log = LoadedLog(draft, terms, jobs=threads)
        log.stop()
    except Unreadable as error:
        error.at_start = True
        raise
    return log


def knows_interval(path: str, terms: LoadTerms, beside: Checkpoints) -> bool:
    """Return whether a user, or the cluster's metadata, says the `index.interval.bytes` of a partition dir's topic."""
    topic = Partition(path).topic
    return INTERVAL in terms.sources or topic is None or beside.cluster.knows(topic)


def check_mark_clean(path: str) -> None:
    """Raises KlogError unless the path is a log dir: nothing else has a clean marker."""
    if not isinstance(open_path(path), LogDir):
        raise Refused(MarkCleanCause.NO_LOG_DIR(), path=path)


# Whether a broker treats a partition as stray at its start: it renames the folder, and creates an empty partition.


def why_stray(path: str, beside: Checkpoints) -> Reason | None:
    """Return why a broker does so with the partition dir `path`, or None if nothing shows that. beside: checkpoints of
    its log dir.

    A partition of a topic that the cluster no longer knows is stray too: this is how a topic goes that was deleted
    while the broker was down. That is reported in a note.
    """
    name = find_partition_dir_name(own_name(path))
    if name is None or not name.state.is_live or name.topic == METADATA_TOPIC or beside.log_dir is None:
        return None
    if os.path.exists(os.path.join(path, FileKind.PARTITION_METADATA.value)) or not beside.knows_topic_ids:
        return None
    return RecoverCause.NO_METADATA()


# A whole log dir. This follows LogManager: every folder except those of metadata and remote storage has to be a
# partition dir, each partition exists once, and checkpoints are by topic and partition, whatever else is in the
# folder's name.


def plan_log_dir(path: str, question: RecoverQuestion) -> Iterator[Plan]:
    """Yield plans for the partition dirs of a log dir, and for its own files.

    Raises Corrupt or Refused, with Kafka's class, if a broker does not start with this log dir, or takes it offline. If
    partitions cannot be loaded, the plans of the others come first; then the first error is raised.
    """
    for problem in find_start_problems([path], question.circumstances):
        raise problem.as_error()
    folders = _partition_dirs(path)
    checkpoints = Checkpoints.of(path)
    if checkpoints.has_clean_marker and question.circumstances.last_stop not in (None, CLEAN):
        # Plan the removal of the marker: a broker, too, deletes it before it loads anything.
        draft = Draft.of(path)
        notes = (PlanNote.MARKER_FIRST(),)
        yield Plan(COMMAND, path, question, _facts(draft, _MARKER), (Delete(_MARKER),), (), None, notes)
    ends: dict[TopicPartition, int] = {}
    starts: dict[TopicPartition, int] = {}
    errors: list[KlogError] = []
    short: list[Reason] = []
    loaded = _load_all(path, [name for name, parsed in folders if not _skipped(parsed)], question, checkpoints)
    for name, parsed in folders:
        if (skipped := _skipped(parsed)) is not None:
            yield Plan(COMMAND, os.path.join(path, name), question, (), (), (), LeftAlone(skipped), (skipped,))
            continue
        log = next(loaded)
        if isinstance(log, Unreadable):
            raise log
        if isinstance(log, KlogError):
            errors.append(log.at_path(os.path.join(path, name)))
            continue
        yield log.plan
        if log.behind_end is not None:
            reached = log.log_end_offset + log.behind_end.offsets
            short.append(PlanNote.SHORT(name=name, end=log.log_end_offset, reached=reached))
        if parsed.state is not PartitionDirState.STRAY:
            key = TopicPartition(parsed.topic, parsed.partition).in_checkpoints
            ends[key] = log.log_end_offset
            if log.log_start_checkpoint is not None:
                starts[key] = log.log_start_checkpoint
    if errors:
        raise first_of(errors)
    if question.mark_clean:
        yield _with_marker(path, question, ends, starts, short)
    else:
        yield from walk_lowered(path, question, ends)


def walk_partition_dirs(path: str) -> Iterator[tuple[str, PartitionDirName, Reason | None]]:
    """Yield the partition dirs of a log dir, by name, and why one is left alone, or None.

    Raises Corrupt or Refused, with Kafka's class, if a broker refuses the log dir because of its folders.
    """
    for name, parsed in _partition_dirs(path):
        is_stray = parsed.state is PartitionDirState.STRAY
        yield name, parsed, RecoverCause.STRAY() if is_stray else _skipped(parsed)


class _LoadedDir(Struct, frozen=True):
    """The result for a partition dir, and its lines in the log dir's checkpoints."""

    plan: Plan
    behind_end: BehindEnd | None
    log_end_offset: int
    log_start_checkpoint: int | None


def _load_all(
    path: str, names: list[str], question: RecoverQuestion, checkpoints: Checkpoints
) -> Iterator[_LoadedDir | KlogError]:
    """Load partition dirs in order. Many are loaded several at a time; a few are loaded each with several threads."""
    jobs = question.threads
    processes = jobs if len(names) >= 2 * jobs else 1

    def load(name: str) -> _LoadedDir:
        log, plan, recovery = recover_partition(
            os.path.join(path, name), question, checkpoints, jobs if processes == 1 else 1
        )
        if question.mark_clean:
            prove(log)
        return _LoadedDir(plan, recovery.behind_end, log.log_end_offset, log.log_start_checkpoint)

    return in_processes(load, names, processes, weight=lambda name: log_bytes(os.path.join(path, name)))


def log_bytes(path: str) -> int:
    """Return roughly how many bytes will be read."""
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(FileKind.LOG.value))
    except OSError:  # reported when the file is opened
        return 0


def _partition_dirs(path: str) -> list[tuple[str, PartitionDirName]]:
    """Return the folders that a broker loads or knows how to treat. Of two folders of one partition it loads one, and
    renames the other to -stray: else it would not start, which is found before. Raises Corrupt for a foreign name."""
    folders = []
    by_partition: dict[tuple[str, int | None, PartitionDirState], list[Partition]] = defaultdict(list)
    for name in list_folder(path).folders:
        if name == REMOTE_INDEX_CACHE or not is_visible_to_java(name):
            continue
        try:
            parsed = parse_partition_dir_name(name)
        except Corrupt as error:
            raise error.at_path(os.path.join(path, name)) from None
        folders.append((name, parsed))
        if parsed.state.is_live and parsed.topic != METADATA_TOPIC:
            by_partition[parsed.topic, parsed.partition, parsed.state].append(Partition(os.path.join(path, name)))
    twice = [each for each in by_partition.values() if len(each) > 1]
    kept = {each.path for partitions in twice for each in without_set_aside(partitions, [path])}
    left = {os.path.basename(each.path) for partitions in twice for each in partitions if each.path not in kept}
    return [(name, parsed) for name, parsed in folders if name not in left]


def _skipped(parsed: PartitionDirName) -> Reason | None:
    """Return why a folder is left alone, or None."""
    if parsed.topic == METADATA_TOPIC:
        return RecoverCause.CLUSTER_METADATA()
    if parsed.state is PartitionDirState.DELETE:
        return RecoverCause.DELETED_TOPIC()
    return None


def first_of(errors: list[KlogError]) -> KlogError:
    """Return the first error of several partitions; its message says how many there are."""
    first = errors[0]
    if len(errors) > 1:
        others = ", ".join(str(error.path) for error in errors[1:4])
        more = "1 more partition has" if len(errors) == 2 else f"{len(errors) - 1} more partitions have"
        first.reason += f" ({more} no plan: {others}{' ...' * (len(errors) > 4)})"
    return first


# The log dir's own files.


def _facts(draft: Draft, *names: str) -> tuple[Fact, ...]:
    """Return facts about those files that exist. The names in the folder are no fact: plans of partitions change
    them."""
    return tuple(file_fact(name, draft.files[name]) for name in names if name in draft)


def walk_lowered(path: str, question: Question, ends: Mapping[TopicPartition, int]) -> Iterator[Plan]:
    """Yield the plan for checkpoints that have lines above the ends of logs; such lines are lowered to the ends. A
    broker does the same when it next writes these files after its start."""
    draft = Draft.of(path)
    contents = _lowered(draft, ends, _NEVER_BEYOND)
    if contents:
        steps = tuple(Write(name, (data,)) for name, data in contents.items())
        notes = (PlanNote.LOWERED(files=tuple(contents)), PlanNote.ONLY_IN_PLACE())
        yield Plan(COMMAND, path, question, _facts(draft, *contents), steps, (), None, notes)


def _with_marker(
    path: str,
    question: RecoverQuestion,
    ends: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    short: list[Reason],
) -> Plan:
    """Plan what a broker writes when it stops: recovery points, log starts, and last the marker. short: a note on
    each log that reached further in the past: after the recovery points are written, nothing else shows that."""
    draft = Draft.of(path)
    epoch = _broker_epoch(draft)
    contents = {
        FileKind.RECOVERY_POINT_CHECKPOINT.value: build_offset_checkpoint(ends),
        FileKind.LOG_START_CHECKPOINT.value: build_offset_checkpoint(starts),
        **_lowered(draft, ends, (FileKind.REPLICATION_CHECKPOINT, FileKind.CLEANER_CHECKPOINT)),
        _MARKER: build_clean_shutdown(CleanShutdown(0, epoch)),
    }
    steps: tuple[Step, ...] = tuple(Write(name, (data,)) for name, data in contents.items())
    note = PlanNote.SOUND_NO_EPOCH if epoch == UNKNOWN_BROKER_EPOCH else PlanNote.SOUND
    marked = MarkedClean(True, len(ends))
    return Plan(COMMAND, path, question, _facts(draft, *contents), steps, (), marked, (note(), *short))


def _lowered(draft: Draft, ends: Mapping[TopicPartition, int], kinds: Iterable[FileKind]) -> dict[str, bytes]:
    """Return the checkpoints of these kinds that have a line above the end of its log, with such lines lowered."""
    contents: dict[str, bytes] = {}
    for name in (kind.value for kind in kinds):
        try:
            before = parse_offset_checkpoint(draft.read(name)) if name in draft else {}
        except Corrupt:  # a broker starts without it; leave it unchanged
            continue
        after = {key: min(offset, ends.get(key, offset)) for key, offset in before.items()}
        if after != before:
            contents[name] = build_offset_checkpoint(after)
    return contents


def _broker_epoch(draft: Draft) -> int:
    """Return the broker epoch of an existing marker; it may still be this broker's."""
    if _MARKER not in draft:
        return UNKNOWN_BROKER_EPOCH
    epoch = parse_clean_shutdown(draft.read(_MARKER)).broker_epoch
    return UNKNOWN_BROKER_EPOCH if epoch is None else epoch


# Whether a log may be marked as cleanly stopped: every batch was read, its CRC is right, and the log ends where indexes
# say. A clean marker tells a broker not to check the log, so klogtool has to check it to the last byte.


def prove(log: LoadedLog) -> None:
    """Raises Refused if a segment that was not recovered is damaged, or does not end where a broker believes it
    ends."""
    recovered = set(log.report.recovered)
    for segment in log.segments.all:
        if segment.base_offset not in recovered:
            end = _proved_end(segment, log.jobs)
            if segment is log.segments.last and end != log.log_end_offset:
                reason = MarkCleanCause.INDEX_ENDS_ELSEWHERE(end=log.log_end_offset)
                cure = rebuild_index(os.path.dirname(segment.path), "index", segment.base_offset)
                raise _refused(segment, reason, end, cure)


def _proved_end(segment: LogSegment, jobs: int) -> int:
    """Return the offset after the last batch, or the base offset of an empty segment."""
    try:
        with segment.open_log() as file:
            end, position = find_sound_end(file, jobs)
    except Corrupt as error:
        raise _refused(segment, error.reason, error.position, salvage(os.path.dirname(segment.path))) from error
    if position < segment.size:
        cure = salvage(os.path.dirname(segment.path))
        raise _refused(segment, MarkCleanCause.ENDS_INSIDE(), position, cure)
    return segment.base_offset if end is None else end


def _refused(segment: LogSegment, reason: Text, position: int | None, cure: Reason) -> KlogError:
    """Return the error. Its cure is not a recovery, which would cut the log at the first damage with all sound batches
    after it."""
    return Refused(MarkCleanCause.CANNOT(why=reason), path=segment.path, position=position, cure=cure)
