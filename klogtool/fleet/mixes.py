"""Several generations of snapshots: which disks of each node, put together, lose least. Pure.

A mix takes one generation of each node. It loses what its start may lose, and what only the disks have that are left
out. All mixes are judged, so that none is better than the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from klogtool.doctor.answers import Starts
from klogtool.errors import Refused
from klogtool.fleet.causes import FleetRefusal
from klogtool.fleet.choosing import PlacedCopy, choose
from klogtool.fleet.collected import Collected, CopyFacts
from klogtool.fleet.histories import history_of, parting_offset
from klogtool.fleet.restored import Restored, judge_set
from klogtool.fleet.restored_identity import completeness_of
from klogtool.format.names import METADATA_TOPIC

MOST_MIXES = 1024
_Log: TypeAlias = tuple[str, int, str | None]  # topic, partition, topic id
_Reaches: TypeAlias = dict[_Log, int]


class NodeDisks(Struct, frozen=True):
    """What one node had at one time. paths: as they were named: a file, or log dirs."""

    paths: tuple[str, ...]
    file: Collected

    @property
    def node_id(self) -> int | None:
        """The node, by meta.properties."""
        return self.file.broker.node_id


class MixedDisks(Struct, frozen=True):
    """Which disks of a node are in a mix."""

    node_id: int | None
    paths: tuple[str, ...]


class Mix(Struct, frozen=True, tag="mix"):
    """One generation of each node. lost_records: by its start, at most; lost_at_best: if its best copies lead.
    left_records: what only disks have that are left out. None: unknown."""

    number: int
    disks: tuple[MixedDisks, ...]
    starts: Starts
    lost_records: int | None
    lost_at_best: int | None
    left_records: int

    @property
    def order(self) -> tuple[bool, int, bool, int]:
        """What it loses, as a sort key: what does not start, and what is unknown, is last."""
        best, most = self.lost_at_best, self.lost_records
        least = 1 << 62 if best is None else best + self.left_records
        return self.starts is Starts.REFUSES, least, most is None, (most or 0) + self.left_records


def judge_disks(disks: Sequence[NodeDisks]) -> Restored:
    """Judge a set with one generation of each node. Raises Refused without a disk."""
    return judge_set([each.file for each in disks])


def find_mixes(disks: Sequence[NodeDisks]) -> tuple[tuple[Mix, ...], tuple[NodeDisks, ...]]:
    """Return all mixes, the one that loses least first, and the disks of that one. No mixes if each node has one
    generation. Raises Refused if there are too many to judge."""
    nodes = _by_node(disks)
    count = prod(len(own) for own in nodes)
    if count <= 1:
        return (), tuple(disks)
    if count > MOST_MIXES:
        raise Refused(FleetRefusal.TOO_MANY_MIXES(count=count, most=MOST_MIXES))
    best = _best_copies(disks)
    reached = {id(each): _reaches(each, best) for each in disks}
    judged = [(_judge(members, best, reached), members) for members in product(*nodes)]
    judged.sort(key=lambda each: each[0].order)
    mixes = tuple(replace(mix, number=number) for number, (mix, _) in enumerate(judged, 1))
    return mixes, judged[0][1]


def _by_node(disks: Sequence[NodeDisks]) -> list[list[NodeDisks]]:
    """Return the generations of each node. Disks without a node id stand each for itself."""
    nodes: dict[object, list[NodeDisks]] = defaultdict(list)
    for number, each in enumerate(disks):
        nodes[("unknown", number) if each.node_id is None else each.node_id].append(each)
    return list(nodes.values())


def _judge(disks: Sequence[NodeDisks], best: Mapping[_Log, CopyFacts], reached: Mapping[int, _Reaches]) -> Mix:
    restored, left = judge_disks(disks), 0
    for log, copy in best.items():
        here = max((reached[id(each)].get(log, 0) for each in disks), default=0)
        left += max(0, copy.log_end_offset - max(copy.log_start_offset, here))
    return Mix(
        0,
        tuple(MixedDisks(each.node_id, each.paths) for each in disks),
        restored.starts,
        restored.lost_records,
        restored.lost_at_best,
        left,
    )


def _walk_logs(disks: NodeDisks) -> Iterator[tuple[_Log, CopyFacts]]:
    for copy in disks.file.copies:
        if copy.state == "current" and copy.problem is None and copy.topic != METADATA_TOPIC:
            yield (copy.topic, copy.partition, copy.topic_id), copy


def _best_copies(disks: Sequence[NodeDisks]) -> dict[_Log, CopyFacts]:
    """Return the best copy of each log, as `fleet plan` chooses. Logs of topics that were deleted meanwhile are left
    out."""
    placed: dict[_Log, list[PlacedCopy]] = defaultdict(list)
    for number, each in enumerate(disks):  # all generations compete, so each counts as a broker of its own
        for log, copy in _walk_logs(each):
            placed[log].append(PlacedCopy(number, copy))
    deleted = _deleted_topics(disks)
    choices = {log: choose(own, None, (), log[:2]).best for log, own in placed.items() if log[2] not in deleted}
    return {log: best.copy for log, best in choices.items() if best is not None}


def _reaches(disks: NodeDisks, best: Mapping[_Log, CopyFacts]) -> _Reaches:
    """Return up to where a node's copies have what the best one has."""
    reaches: _Reaches = {}
    for log, copy in _walk_logs(disks):
        if log in best:
            parted = parting_offset(history_of(copy), history_of(best[log]))
            reaches[log] = max(reaches.get(log, 0), copy.log_end_offset if copy is best[log] else parted)
    return reaches


def _deleted_topics(disks: Sequence[NodeDisks]) -> set[str]:
    """Return the ids of topics that older metadata has, and the newest does not."""
    with_metadata = [each.file for each in disks if each.file.broker.metadata is not None]
    newest = max(with_metadata, key=completeness_of, default=None)
    if newest is None:
        return set()
    return set(_topic_ids(with_metadata)) - set(_topic_ids([newest]))


def _topic_ids(files: Sequence[Collected]) -> Iterator[str]:
    return (known.topic_id for file in files for known in file.partitions)
