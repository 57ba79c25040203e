"""What a row of a fleet file may say, beside its types. Somebody else may have written the file, or changed it.

Each check raises Impossible, which says why a row cannot be right. What `fleet collect` or `fleet plan` writes passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from klogtool.escape import escaped
from klogtool.fleet.causes import ImpossibleCause
from klogtool.fleet.collected import (
    BrokerFacts,
    Collected,
    CommitFacts,
    CopyFacts,
    Epoch,
    LogDirFacts,
    PartitionFacts,
    TopicFacts,
    TransactionFacts,
)
from klogtool.format.names import TOPIC_NAME
from klogtool.log.folder import find_partition_dir_name
from klogtool.plans.plan import is_plain_name

_FOLDER_TOPIC = re.compile(r"[^\s/\x00-\x1f\x7f]{1,255}")  # a folder may have any name that a broker reads
_PATH = re.compile(r"/[^\x00-\x1f\x7f]*")


class Impossible(ValueError):
    """A row says what cannot be."""


def check_file(file: Collected) -> None:
    """Raises Impossible if the rows of a file of `fleet collect` contradict each other."""
    paths = {log_dir.path for log_dir in file.broker.log_dirs}
    for copy in file.copies:
        if copy.log_dir not in paths:
            raise Impossible(ImpossibleCause.OTHER_LOG_DIR(copy=_named(copy), log_dir=escaped(copy.log_dir)))
    _check_once("topic", (topic.topic for topic in file.topics))
    _check_once("partition", (f"{known.topic}-{known.partition}" for known in file.partitions))
    _check_once("folder", (f"{copy.log_dir}/{copy.folder}" for copy in file.copies))


def _check_once(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Impossible(ImpossibleCause.TWICE(what=what, name=escaped(name)))
        seen.add(name)


def check_row(row: Any) -> None:
    """Raises Impossible if a row of a file of `fleet collect` cannot be right."""
    if isinstance(row, BrokerFacts):
        check_log_dirs(row.log_dirs)
        paths = [log_dir.path for log_dir in row.log_dirs]
        if row.node_id is not None and row.node_id < 0:
            raise Impossible(ImpossibleCause.NO_BROKER(broker=row.node_id))
        if row.metadata is not None and row.metadata.log_dir not in paths:
            log_dir = escaped(row.metadata.log_dir)
            raise Impossible(ImpossibleCause.METADATA_ELSEWHERE(log_dir=log_dir))
    elif isinstance(row, TopicFacts | PartitionFacts):
        check_topic(row.topic, TOPIC_NAME)
        if isinstance(row, PartitionFacts):
            check_number(row.partition)
            named = (*row.replicas, *row.isr, *row.elr, *row.last_known_elr)
            if min(named, default=0) < 0 or row.leader < -1:
                raise Impossible(ImpossibleCause.NEGATIVE_ID())
            if len(set(row.replicas)) < len(row.replicas):
                raise Impossible(ImpossibleCause.REPLICA_TWICE())
    elif isinstance(row, CopyFacts):
        check_copy(row)
    elif isinstance(row, CommitFacts):
        check_topic(row.topic)
        check_number(min(row.partition, row.coordinator))
    elif isinstance(row, TransactionFacts):
        for topic, partition in row.partitions:
            check_topic(topic)
            check_number(min(partition, row.coordinator))


def check_log_dirs(log_dirs: Sequence[LogDirFacts]) -> None:
    """Raises Impossible if a broker cannot have these log dirs."""
    for log_dir in log_dirs:
        if not _PATH.fullmatch(log_dir.path):
            raise Impossible(ImpossibleCause.NO_PATH(path=escaped(log_dir.path)))
    if len({log_dir.path for log_dir in log_dirs}) < len(log_dirs):
        raise Impossible(ImpossibleCause.LOG_DIR_TWICE())


def check_topic(topic: str, legal: re.Pattern[str] = _FOLDER_TOPIC) -> None:
    """Raises Impossible if no topic can have this name."""
    if not legal.fullmatch(topic) or topic in (".", ".."):
        raise Impossible(ImpossibleCause.NO_TOPIC(topic=escaped(topic)))


def check_number(partition: int) -> None:
    """Raises Impossible if no partition can have this number."""
    if partition < 0:
        raise Impossible(ImpossibleCause.NO_PARTITION(partition=partition))


def check_copy(copy: CopyFacts) -> None:
    """Raises Impossible if no copy can be like this."""
    check_topic(copy.topic)
    check_number(copy.partition)
    result = find_partition_dir_name(copy.folder) if is_plain_name(copy.folder) else None
    if result is None or (result.topic, result.partition) != copy.key or result.state.name.lower() != copy.state:
        raise Impossible(ImpossibleCause.OTHER_FOLDER(folder=escaped(copy.folder), state=copy.state, copy=_named(copy)))
    if not copy.log_start_offset <= copy.log_end_offset or copy.sound_end_offset > copy.log_end_offset:
        raise Impossible(ImpossibleCause.OFFSETS(copy=_named(copy)))
    if any(hole.last is not None and hole.last < hole.first for hole in copy.holes):
        raise Impossible(ImpossibleCause.HOLE(copy=_named(copy)))
    if any(wound.end < wound.start for wound in copy.wounds) or copy.wounds_count < len(copy.wounds):
        raise Impossible(ImpossibleCause.DAMAGE(copy=_named(copy)))
    if copy.started is not None and any(lost.last < lost.first for lost in copy.started.lost or ()):
        raise Impossible(ImpossibleCause.LOST(copy=_named(copy)))
    if not (_ascend(copy.epochs) and _ascend(copy.checkpoint_epochs or ())):
        raise Impossible(ImpossibleCause.EPOCHS(copy=_named(copy)))


def _named(copy: CopyFacts) -> str:
    return escaped(f"{copy.topic}-{copy.partition}")


def _ascend(epochs: Sequence[Epoch]) -> bool:
    before = Epoch(-1, 0)
    for epoch in epochs:
        if epoch.epoch <= before.epoch or epoch.start_offset < before.start_offset:
            return False
        before = epoch
    return True
