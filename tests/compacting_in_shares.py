"""A pass in shares held against the whole pass: random logs, and a crew that does its shares here, one by one."""

from __future__ import annotations

import pathlib
import pickle
import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from deciding import compact_question
from raw_batches import build_batch
from verifying import marker

from klogtool.broker.circumstances import Checkpoints
from klogtool.broker.cleaning.offset_map import joined_map
from klogtool.broker.cleaning.shares import (
    GroupCleaned,
    GroupShare,
    KeyShare,
    KeysResult,
    MapResult,
    NotShared,
    SentPass,
    clean_group,
    clean_in_shares,
    find_keys,
)
from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft
from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.plans.compact import plan_one
from klogtool.plans.plan import files_after

NOW_MS = 1_700_000_000_000
PARTS = 3


class CrewHere:
    """Everything that goes to a share, or comes back, is pickled. rounds: of groups; filled: in one go, how often."""

    def __init__(self) -> None:
        self.rounds, self.filled, self._map = 0, 0, [b""]

    def find_keys(self, sent: SentPass, shares: Sequence[KeyShare]) -> tuple[int, list[KeysResult]]:
        found, parts = [], [[] for _ in range(PARTS)]  # type: list[KeysResult], list[list[bytes]]
        for share in shares:
            whole = arrived(sent).arrive()
            found.append(arrived(find_keys(whole, arrived(share))))
            keys: Any = whole.offsets
            for some, data in zip(parts, keys.entries_by_hash(PARTS), strict=True):
                some.insert(0, data)
        self._map = [joined_map(some, sent.secret).entries_by_hash(1)[0] for some in parts]
        return sum(map(len, self._map)) // 24, found

    def fill_map(self, sent: SentPass) -> MapResult:
        self.filled += 1
        whole = arrived(sent).arrive()
        whole.build_map()
        keys: Any = whole.offsets
        self._map = keys.entries_by_hash(1)
        return MapResult(keys.entries, keys.latest_offset, whole.stats.map_is_full, whole.stats.map_messages_read)

    def clean_groups(self, sent: SentPass, shares: Sequence[GroupShare], latest_offset: int) -> list[GroupCleaned]:
        self.rounds += 1
        return [self._clean_group(sent, share, latest_offset) for share in shares]

    def _clean_group(self, sent: SentPass, share: GroupShare, latest_offset: int) -> GroupCleaned:
        whole = arrived(sent).arrive()
        whole.offsets = joined_map(self._map, sent.secret)
        whole.offsets.latest_offset = latest_offset
        return arrived(clean_group(whole, arrived(share)))


def arrived(value: Any) -> Any:
    """As it is on another machine."""
    return pickle.loads(pickle.dumps(value))


def told(folder: str, arguments: dict[str, Any], **how: Any) -> Any:
    """What a decision comes to: the files, the answer, the verdicts; or the error."""
    try:
        plan, lines = plan_one(folder, compact_question(arguments), Checkpoints.beside(folder), **how)
    except NotShared:
        raise
    except KlogError as error:
        return type(error), str(error), error.kafka_class
    after = files_after(Draft.of(folder), plan.steps)
    files = {name: read_content(file.content) for name, file in after.items()}
    times = {step.path: step.mtime_ns for step in plan.steps if hasattr(step, "mtime_ns")}
    return files, times, plan.answer, plan.segments, plan.notes, lines


def compare(folder: str, arguments: dict[str, Any]) -> CrewHere | None:
    """Hold both together; the crew, or None where the pass was not done in shares."""
    crew = CrewHere()
    try:
        shared = told(folder, arguments, cleaning=partial(clean_in_shares, crew))
    except NotShared:
        return None
    alone = told(folder, arguments)
    if len(alone) == 3 and len(shared) == 3:  # shares are not begun in the order in which a pass comes to them
        return None
    assert shared == alone, f"{folder}: {[a == b for a, b in zip(shared, alone, strict=False)]}"
    return crew


# Logs with transactions.


def random_segments(rng: random.Random, segments: int) -> dict[int, list[bytes]]:
    """Segments of a few batches each: plain ones, idempotent ones, and transactions, interleaved, that are committed,
    aborted, or go on to the end."""
    keys, open_txns, offset, found = rng.choice((3, 12, 60)), set[int](), 0, dict[int, list[bytes]]()
    sequences: dict[int, int] = {}
    transactional = rng.random() < 0.7
    for _ in range(segments):
        batches = found[offset] = []
        for _ in range(rng.randint(1, 9)):
            pid = rng.choice((-1, -1, 5, *((1, 2, 3, 4) if transactional else ())))
            if pid in open_txns and rng.random() < 0.5:
                kind = rng.choice(("abort", "commit"))
                batches.append(marker(offset, pid, kind))
                open_txns.discard(pid)
                offset += 1
                continue
            count = rng.randint(1, 4)
            batches.append(_batch(rng, offset, count, keys, pid, sequences))
            if 1 <= pid <= 4:
                open_txns.add(pid)
            offset += count
        offset += rng.choice((0, 0, 0, 2))
    return found


def _batch(rng: random.Random, offset: int, count: int, keys: int, pid: int, sequences: dict[int, int]) -> bytes:
    records = [
        Record(
            offset + n,
            NOW_MS + offset + n,
            None if rng.random() < 0.03 else b"key %d" % rng.randrange(keys),
            None if rng.random() < 0.2 else b"value %d" % offset * rng.randint(1, 20),
        )
        for n in range(count)
    ]
    header: dict[str, Any] = {"codec": rng.choice(("none", "none", "none", "gzip", "lz4", "zstd", "snappy"))}
    if pid >= 0:
        header |= {"producer_id": pid, "producer_epoch": 0, "base_sequence": sequences.get(pid, 0)}
        header["is_transactional"] = 1 <= pid <= 4
        sequences[pid] = sequences.get(pid, 0) + count
    return build_batch(records, **header)


def random_partition(folder: pathlib.Path, rng: random.Random) -> dict[str, Any]:
    """A partition dir; and the question that is put about it."""
    folder.mkdir(parents=True)
    found = random_segments(rng, rng.randint(2, 12))
    for base_offset, batches in found.items():
        (folder / f"{base_offset:020d}.log").write_bytes(b"".join(batches))
    bases = list(found)
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(rng.choice((1, 700, 5000))),
        "segment.index.bytes": "1200",
        "index.interval.bytes": str(rng.choice((0, 200))),
        "delete.retention.ms": str(rng.choice((0, 1000))),
        "log.cleaner.dedupe.buffer.size": str(rng.choice((24 * 5, 24 * 40, 1 << 20))),
    }
    return {
        "config": config,
        "now_ms": NOW_MS + 10**6,
        "loaded_at_ms": NOW_MS + 10**6,
        "last_stop": "unclean",
        "recovery_point": 0,
        "force": True,
        "jobs": 1,
        "first_dirty_offset": rng.choice((None, None, 0, rng.choice(bases), rng.choice(bases) + 1)),
        "keep_magic": rng.random() < 0.1,
    }


def walk_partitions(work: pathlib.Path, seed: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Random ones, each below a folder of its own."""
    for n in range(seed, seed + count):
        folder = work / str(n) / "t-0"
        yield str(folder), random_partition(folder, random.Random(n))
