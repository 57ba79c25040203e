"""What a row of a fleet file may say, beside its types. Somebody else may have written the file, or changed it.

Each check returns why a row cannot be right, or nothing. A row that `fleet collect` or `fleet plan` writes passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from klogtool.escape import escaped
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
from klogtool.log.folder import find_partition_dir_name
from klogtool.plans.plan import is_plain_name

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Topic.validate
_FOLDER_TOPIC = re.compile(r"[^\s/\x00-\x1f\x7f]{1,255}")  # a folder may have any name that a broker reads
_PATH = re.compile(r"/[^\x00-\x1f\x7f]*")


def wrong_row(row: Any) -> str | None:
    """Return what is wrong with a row of a file; None if nothing is."""
    return next(_wrong(row), None)


def wrong_file(file: Collected) -> str | None:
    """Return what is wrong between the rows of a file of `fleet collect`."""
    paths = {log_dir.path for log_dir in file.broker.log_dirs}
    for copy in file.copies:
        if copy.log_dir not in paths:
            return f"{_named(copy)} is in a log dir that is none of this broker's: {escaped(copy.log_dir)}"
    return (
        _twice("topic", (topic.topic for topic in file.topics))
        or _twice("partition", (f"{known.topic}-{known.partition}" for known in file.partitions))
        or _twice("folder", (f"{copy.log_dir}/{copy.folder}" for copy in file.copies))
    )


def _twice(what: str, names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return f"{what} {escaped(name)} is in it twice"
        seen.add(name)
    return None


def _wrong(row: Any) -> Iterator[str]:
    if isinstance(row, BrokerFacts):
        yield from wrong_log_dirs(row.log_dirs)
        paths = [log_dir.path for log_dir in row.log_dirs]
        if (row.node_id or 0) < 0:
            yield f"no broker has the id {row.node_id}"
        if row.metadata is not None and row.metadata.log_dir not in paths:
            yield f"the metadata is in a log dir that is none of this broker's: {escaped(row.metadata.log_dir)}"
    elif isinstance(row, TopicFacts | PartitionFacts):
        yield from wrong_topic(row.topic, _TOPIC)
        if isinstance(row, PartitionFacts):
            yield from wrong_number(row.partition)
            named = (*row.replicas, *row.isr, *row.elr, *row.last_known_elr)
            if min(named, default=0) < 0 or row.leader < -1:
                yield "no broker has a negative id"
            if len(set(row.replicas)) < len(row.replicas):
                yield "a replica is in it twice"
    elif isinstance(row, CopyFacts):
        yield from wrong_copy(row)
    elif isinstance(row, CommitFacts):
        yield from wrong_topic(row.topic)
        yield from wrong_number(min(row.partition, row.coordinator))
    elif isinstance(row, TransactionFacts):
        for topic, partition in row.partitions:
            yield from wrong_topic(topic)
            yield from wrong_number(min(partition, row.coordinator))


def wrong_log_dirs(log_dirs: Sequence[LogDirFacts]) -> Iterator[str]:
    """Yield what is wrong with the log dirs of a broker."""
    for log_dir in log_dirs:
        if not _PATH.fullmatch(log_dir.path):
            yield f"no path of a log dir: {escaped(log_dir.path)}"
    if len({log_dir.path for log_dir in log_dirs}) < len(log_dirs):
        yield "a log dir is in it twice"


def wrong_topic(topic: str, legal: re.Pattern[str] = _FOLDER_TOPIC) -> Iterator[str]:
    """Yield what is wrong with the name of a topic."""
    if not legal.fullmatch(topic) or topic in (".", ".."):
        yield f"no topic has the name {escaped(topic)}"


def wrong_number(partition: int) -> Iterator[str]:
    """Yield what is wrong with the number of a partition."""
    if partition < 0:
        yield f"no partition has the number {partition}"


def wrong_copy(copy: CopyFacts) -> Iterator[str]:
    """Yield what is wrong with a copy."""
    yield from wrong_topic(copy.topic)
    yield from wrong_number(copy.partition)
    result = find_partition_dir_name(copy.folder) if is_plain_name(copy.folder) else None
    if result is None or (result.topic, result.partition) != copy.key or result.state.name.lower() != copy.state:
        yield f"the folder {escaped(copy.folder)} is none of a {copy.state} copy of {_named(copy)}"
    if not copy.log_start_offset <= copy.log_end_offset or copy.sound_end_offset > copy.log_end_offset:
        yield f"the offsets of {_named(copy)} are not in order"
    if any(hole.last is not None and hole.last < hole.first for hole in copy.holes):
        yield f"a hole of {_named(copy)} ends before it begins"
    if any(wound.end < wound.start for wound in copy.wounds) or copy.wounds_count < len(copy.wounds):
        yield f"the damage of {_named(copy)} is impossible"
    if not (_ascend(copy.epochs) and _ascend(copy.checkpoint_epochs or ())):
        yield f"the leader epochs of {_named(copy)} are not in order"


def _named(copy: CopyFacts) -> str:
    return escaped(f"{copy.topic}-{copy.partition}")


def _ascend(epochs: Sequence[Epoch]) -> bool:
    before = Epoch(-1, 0)
    for epoch in epochs:
        if epoch.epoch <= before.epoch or epoch.start_offset < before.start_offset:
            return False
        before = epoch
    return True
