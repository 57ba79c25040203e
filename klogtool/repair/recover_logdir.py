"""verify --recover of a whole log dir: which partition dirs, and what goes into the log dir's own files.

As LogManager goes about it: every folder but those of metadata and remote storage has to be a partition dir, each
partition is there once, and checkpoints are by topic and partition, whatever else the folder's name says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.checkpoints import build_offset_checkpoint
from klogtool.format.identity import CleanShutdown, build_clean_shutdown, parse_clean_shutdown
from klogtool.format.names import (
    FileKind,
    PartitionDirName,
    PartitionDirState,
    TopicPartition,
    parse_partition_dir_name,
)
from klogtool.lazy_dataclasses import dataclass
from klogtool.log.cores import usable_cores
from klogtool.log.file import Unreadable
from klogtool.log.folder import list_folder
from klogtool.log.logdir import REMOTE_INDEX_CACHE
from klogtool.repair.circumstances import CLEAN, Checkpoints, is_log_dir
from klogtool.repair.draft import Draft
from klogtool.repair.plan import Delete, Fact, Plan, Step, Write
from klogtool.repair.unified_log.loading import LoadedLog
from klogtool.repair.unified_log.proof import prove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

COMMAND = "verify --recover"
METADATA_TOPIC = "__cluster_metadata"
UNKNOWN_BROKER_EPOCH = -1
_MARKER = FileKind.CLEAN_SHUTDOWN.value

# Path, arguments, checkpoints, threads.
PlanPartition: TypeAlias = "Callable[[str, Mapping[str, Any], Checkpoints, int], tuple[LoadedLog, Plan]]"


def plan_log_dir(path: str, arguments: Mapping[str, Any], plan_partition: PlanPartition) -> Iterator[Plan]:
    """Plans for its partition dirs, and for its own files.

    Raises Corrupt or Refused, with Kafka's class, where a broker refuses the log dir; if it refuses partitions, the
    first of these errors, behind the plans of the others.
    """
    folders = _partition_dirs(path)
    checkpoints = Checkpoints(path if is_log_dir(path) else None)
    _check_checkpoints(checkpoints, arguments)
    if checkpoints.has_clean_marker and arguments.get("last_stop") not in (None, CLEAN):
        yield _without_marker(path, arguments)
    ends: dict[TopicPartition, int] = {}
    starts: dict[TopicPartition, int] = {}
    errors: list[KlogError] = []
    loaded = _load_all(
        path, [name for name, parsed in folders if not _skipped(parsed)], arguments, checkpoints, plan_partition
    )
    for name, parsed in folders:
        if (skipped := _skipped(parsed)) is not None:
            yield Plan(COMMAND, os.path.join(path, name), arguments, (), (), (), {"skipped": skipped}, (skipped,))
            continue
        log = next(loaded)
        if isinstance(log, Unreadable):
            raise log
        if isinstance(log, KlogError):
            errors.append(log.at_path(os.path.join(path, name)))
            continue
        yield log.plan
        if parsed.state is not PartitionDirState.STRAY:
            key = TopicPartition(parsed.topic, parsed.partition)
            ends[key] = log.log_end_offset
            if log.log_start_checkpoint is not None:
                starts[key] = log.log_start_checkpoint
    if errors:
        raise first_of(errors)
    if arguments.get("mark_clean"):
        yield _with_marker(path, arguments, ends, starts)


def walk_partition_dirs(path: str) -> Iterator[tuple[str, PartitionDirName, str | None]]:
    """The partition dirs of a log dir, by name, and why one is left alone, or None.

    Raises Corrupt or Refused, with Kafka's class, where a broker refuses the log dir for its folders.
    """
    for name, parsed in _partition_dirs(path):
        yield name, parsed, _skipped(parsed)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What is to be told of a partition dir, and what goes into the log dir's checkpoints."""

    plan: Plan
    log_end_offset: int
    log_start_checkpoint: int | None


def _load_all(
    path: str,
    names: list[str],
    arguments: Mapping[str, Any],
    checkpoints: Checkpoints,
    plan_partition: PlanPartition,
) -> Iterator[_Loaded | KlogError]:
    """Partition dirs in their order; of many, several at a time, of few, each on several threads."""
    from klogtool.log.in_processes import in_processes  # not for a partition by itself

    jobs = int(arguments.get("jobs") or usable_cores())
    processes = jobs if len(names) >= 2 * jobs else 1

    def load(name: str) -> _Loaded:
        log, plan = plan_partition(os.path.join(path, name), arguments, checkpoints, jobs if processes == 1 else 1)
        if arguments.get("mark_clean"):
            prove(log)
        return _Loaded(plan, log.log_end_offset, log.log_start_checkpoint)

    return in_processes(load, names, processes, weight=lambda name: _log_bytes(os.path.join(path, name)))


def _log_bytes(path: str) -> int:
    """About how much there is to be read."""
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(FileKind.LOG.value))
    except OSError:  # whoever opens it says what is wrong
        return 0


def _check_checkpoints(checkpoints: Checkpoints, arguments: Mapping[str, Any]) -> None:
    """Raises Corrupt (KafkaStorageException) for one that is needed and costs a broker the whole log dir."""
    for kind, given in (
        (FileKind.RECOVERY_POINT_CHECKPOINT, arguments.get("recovery_point")),
        (FileKind.LOG_START_CHECKPOINT, arguments.get("log_start_offset")),
    ):
        if given is None:
            checkpoints.find(kind, TopicPartition("", 0))


def _partition_dirs(path: str) -> list[tuple[str, PartitionDirName]]:
    """Folders that a broker loads, or knows what to do with. Raises Corrupt, Refused where it does not start."""
    found: dict[tuple[TopicPartition, PartitionDirState], str] = {}
    folders = []
    for name in list_folder(path).folders:
        if name == REMOTE_INDEX_CACHE:
            continue
        try:
            parsed = parse_partition_dir_name(name)
        except Corrupt as error:
            raise error.at_path(os.path.join(path, name)) from None
        folders.append((name, parsed))
        if parsed.state in (PartitionDirState.CURRENT, PartitionDirState.FUTURE) and parsed.topic != METADATA_TOPIC:
            key = TopicPartition(parsed.topic, parsed.partition), parsed.state
            if key in found:
                raise Refused(
                    f"Duplicate log directories for {key[0]}: {found[key]} and {name}",
                    path=path,
                    kafka_class="IllegalStateException",
                )
            found[key] = name
    return folders


def _skipped(parsed: PartitionDirName) -> str | None:
    """Why a folder is left as it is, or None."""
    if parsed.topic == METADATA_TOPIC:
        return "the cluster's metadata: a broker recovers it at every start, and keeps its snapshots in step"
    if parsed.state is PartitionDirState.DELETE:
        return "of a topic that was deleted: a broker removes it a minute after its start"
    return None


def first_of(errors: list[KlogError]) -> KlogError:
    """The first error, of several partitions; of how many, it says."""
    first = errors[0]
    if len(errors) > 1:
        others = ", ".join(str(error.path) for error in errors[1:4])
        first.reason += f" ({len(errors) - 1} more partitions cannot be loaded: {others}{' ...' * (len(errors) > 4)})"
    return first


# The log dir's own files.


def _facts(draft: Draft, *names: str) -> tuple[Fact, ...]:
    """Of those files that are there. Of the folder only that it is: partitions' plans change what is in it."""
    return tuple(Fact(name, draft.size(name), draft.files[name].mtime_ns or 0) for name in names if name in draft)


def _without_marker(path: str, arguments: Mapping[str, Any]) -> Plan:
    """A broker, too, takes the marker away before it loads anything."""
    draft = Draft.of(path)
    note = "the clean marker goes first: as long as it is there, a broker would not recover what is left half done"
    return Plan(COMMAND, path, arguments, _facts(draft, _MARKER), (Delete(_MARKER),), (), {}, (note,))


def _with_marker(
    path: str, arguments: Mapping[str, Any], ends: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
) -> Plan:
    """As a broker stops: recovery points, log starts, and the marker last of all."""
    draft = Draft.of(path)
    epoch = _broker_epoch(draft)
    contents = {
        FileKind.RECOVERY_POINT_CHECKPOINT.value: build_offset_checkpoint(ends),
        FileKind.LOG_START_CHECKPOINT.value: build_offset_checkpoint(starts),
        _MARKER: build_clean_shutdown(CleanShutdown(0, epoch)),
    }
    steps: tuple[Step, ...] = tuple(Write(name, (data,)) for name, data in contents.items())
    note = "every batch of every partition was read and is sound: the log dir can be marked clean"
    told = "" if epoch != UNKNOWN_BROKER_EPOCH else "; the broker's epoch is not known"
    answer = {"marked_clean": True, "partitions": len(ends)}
    return Plan(COMMAND, path, arguments, _facts(draft, *contents), steps, (), answer, (note + told,))


def _broker_epoch(draft: Draft) -> int:
    """That of a marker that is there: it may stand for this broker still."""
    if _MARKER not in draft:
        return UNKNOWN_BROKER_EPOCH
    epoch = parse_clean_shutdown(draft.read(_MARKER)).broker_epoch
    return UNKNOWN_BROKER_EPOCH if epoch is None else epoch
