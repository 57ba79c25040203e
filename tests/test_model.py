"""A model beside the machine: a log that is worked at in any order, and crashes, against a plain list of batches.

The model knows what a batch is, and what each operation takes away from the list. Where segments begin it reads off the
names of the files, since retention goes by them. KLOGTOOL_MODEL_EXAMPLES: how many rows of operations are tried, each
time others; without it a few are, always the same.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import random
import shutil
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from raw_batches import build_batch

import klogtool
from klogtool.broker.unified_log.loaded_partition import LoadedPartition
from klogtool.disk.journal import walk_entries as walk_entries_of_journal
from klogtool.disk.writer import undo
from klogtool.errors import Refused
from klogtool.format.batch import Record
from klogtool.format.checkpoints import build_offset_checkpoint
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)
from klogtool.format.names import TopicPartition
from klogtool.log.entries import walk_entries
from klogtool.plans.plan import Plan
from klogtool.verify.findings import Severity

EXAMPLES = os.environ.get("KLOGTOOL_MODEL_EXAMPLES")
STEPS = 30
T0 = 1_700_000_000_000
KEY = TopicPartition("t", 0)
POINTS, STARTS, MARKER = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", ".kafka_cleanshutdown"
EPOCHS = "leader-epoch-checkpoint"
KEYS = (b"a", b"b", b"c", b"d", None)
SIDE_KINDS = (".index", ".timeindex", ".txnindex", ".snapshot", EPOCHS)
PRODUCERS = (1, 2, 3)
CLEANING = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "1"}
# Behind a cut, or a cut inside a batch, until the next start.
LEFT_BY_KAFKA = {"timeindex-max", "snapshot-stray", "epochs-content"}
FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True)
class Batch:
    """As it is to be read. producer_id: of a transaction, -1 without. aborts: of a marker, what it says."""

    first_offset: int
    last_offset: int
    records: tuple[Record, ...]
    epoch: int
    producer_id: int = -1
    aborts: bool | None = None

    @property
    def max_timestamp(self) -> int:
        return max((record.timestamp for record in self.records), default=-1)


@dataclass
class Model:
    """The log: its batches, those below its start included as long as their segment is there; where it starts and ends;
    leader epochs and where they begin."""

    batches: list[Batch]
    start: int
    end: int
    epochs: list[tuple[int, int]]

    @property
    def records(self) -> list[Record]:
        """What a reader gets."""
        return [record for batch in self.batches for record in batch.records if record.offset >= self.start]

    def append(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.end = batch.last_offset + 1
        self.assign_epoch(batch)

    def assign_epoch(self, batch: Batch) -> None:
        if not self.epochs or batch.epoch > self.epochs[-1][0]:
            self.epochs.append((batch.epoch, batch.first_offset))

    def begin_anew(self, offset: int) -> None:
        self.batches, self.epochs, self.start, self.end = [], [], offset, offset

    def cut(self, to: int, bases: Sequence[int]) -> None:
        """What a next start finds of it: the batch that holds the offset is gone whole."""
        if to < bases[0]:
            return self.begin_anew(to)
        self.batches = [batch for batch in self.batches if batch.last_offset < to]
        self.start = min(self.start, to)
        self.end = self.end_of([base for base in bases if base <= to])
        self.settle()
        return None

    def end_of(self, bases: Sequence[int]) -> int:
        """Behind the last batch; an empty segment at the end tells, too."""
        last = self.batches[-1].last_offset + 1 if self.batches else 0
        return max(last, bases[-1])

    def settle(self) -> None:
        """A log that ends before it starts begins anew there."""
        if self.end < self.start:
            self.batches, self.end = [], self.start
        above = [entry for entry in self.epochs if entry[1] > self.start]
        holding = [(epoch, self.start) for epoch, start in self.epochs if start <= self.start][-1:]
        self.epochs = [entry for entry in (*holding, *above) if entry[1] < self.end]

    def begin_at(self, start: int, bases: Sequence[int]) -> int:
        """The log starts there; the first base offset that stays: of the segment that holds it."""
        if start > self.start:
            self.start = start
            self.settle()
        first = bases[max(bisect_right(bases, self.start) - 1, 0)]
        self.batches = [batch for batch in self.batches if batch.last_offset >= first]
        return first

    def open_txns(self) -> dict[int, int]:
        """First offsets, by producer."""
        found: dict[int, int] = {}
        for batch in self.batches:
            if batch.aborts is not None:
                found.pop(batch.producer_id, None)
            elif batch.producer_id >= 0:
                found.setdefault(batch.producer_id, batch.first_offset)
        return found

    def committed(self) -> list[Record]:
        """What a read_committed consumer gets of a log that nothing was taken from the beginning of."""
        stable = min(self.open_txns().values(), default=self.end)
        return [record for batch in self.not_aborted() if batch.last_offset < stable for record in batch.records]

    def not_aborted(self) -> list[Batch]:
        """All data but that of transactions whose end is there, and is an abort."""
        aborts: dict[int, bool] = {}
        found = []
        for batch in reversed(self.batches):
            if batch.aborts is not None:
                aborts[batch.producer_id] = batch.aborts
            elif not aborts.get(batch.producer_id, False):
                found.append(batch)
        return found[::-1]


class LogAtWork(RuleBasedStateMachine):
    """Each rule asks klogtool for it and does it to the model; what is left is read and looked up."""

    def __init__(self) -> None:
        super().__init__()
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="klogtool-model-", dir=memory))
        self.log_dir = self.top / "logdir"
        self.path = self.log_dir / "t-0"
        self.path.mkdir(parents=True)
        for name in (POINTS, STARTS):
            (self.log_dir / name).write_bytes(build_offset_checkpoint({}))
        (self.log_dir / MARKER).write_text('{"version":0,"brokerEpoch":1}')  # believed but for a crash
        self.model = Model([], 0, 0, [])
        self.now_ms, self.epoch = T0, 0
        self.is_whole = True  # nothing went but from the end
        self.knows_times = True  # not so where time indexes tell of records that are gone, or not of all there are

    def teardown(self) -> None:
        shutil.rmtree(self.top)

    @initialize(
        segment_bytes=st.sampled_from((1000, 4000)),
        interval=st.sampled_from((0, 100, 4096)),
        index_bytes=st.sampled_from((800, 4000)),  # all that a recovery finds has room
    )
    def configure(self, segment_bytes: int, interval: int, index_bytes: int) -> None:
        sizes = {"segment.bytes": segment_bytes, "index.interval.bytes": interval, "segment.index.bytes": index_bytes}
        self.config = {**FOREVER, **{name: str(size) for name, size in sizes.items()}}

    # --- asked and done

    @property
    def partition(self) -> klogtool.Partition:
        opened = klogtool.open(self.path)
        assert isinstance(opened, klogtool.Partition)
        return opened

    def planned(self, command: str, *, config: Mapping[str, str] | None = None, **given: Any) -> Any:
        plan = getattr(self.partition, f"plan_{command}")
        return plan(now_ms=self.now_ms, config={**self.config, **(config or {})}, jobs=1, **given)

    def done(self, command: str, **given: Any) -> Plan:
        """Carried out; the plan of the partition. What undo needs is not kept."""
        planned = self.planned(command, **given)
        planned.apply(now_ms=self.now_ms)
        shutil.rmtree(f"{self.log_dir}.klogtool", ignore_errors=True)
        plan: Plan = next(plan for plan in planned.plans if plan.path == str(self.path))
        return plan

    def bases(self) -> list[int]:
        return sorted(int(path.name[:20]) for path in self.path.glob("*.log")) or [0]

    def log_name(self, base: int) -> pathlib.Path:
        return self.path / f"{base:020d}.log"

    def segment_of(self, batch: Batch, bases: Sequence[int]) -> int:
        return bases[bisect_right(bases, batch.first_offset) - 1]

    # --- rules

    @rule(
        rows=st.lists(
            st.tuples(st.sampled_from(KEYS), st.sampled_from((None, b"", b"v", b"value " * 20)), st.integers(-50, 50)),
            min_size=1,
            max_size=6,
        ),
        codec=st.sampled_from(("none", "none", "gzip", "snappy", "lz4", "zstd")),
        to_a_batch=st.sampled_from((1, 2, 6)),
        next_epoch=st.booleans(),
    )
    def append_records(
        self, rows: list[tuple[bytes | None, bytes | None, int]], codec: str, to_a_batch: int, next_epoch: bool
    ) -> None:
        self.now_ms += 1000
        self.epoch += next_epoch
        records = [
            Record(self.model.end + n, self.now_ms + delta, key, value) for n, (key, value, delta) in enumerate(rows)
        ]
        asked = self.top / "records"
        asked.write_text("\n".join(map(line_of, records)))
        given = {"codec": codec, "batch_records": to_a_batch, "leader_epoch": self.epoch}
        plan = self.done("append", records=asked, **given)
        for n in range(0, len(records), to_a_batch):
            some = tuple(records[n : n + to_a_batch])
            self.model.append(Batch(some[0].offset, some[-1].offset, some, self.epoch))
        assert [row["last_offset"] for row in plan.answer["appends"]][-1] == self.model.end - 1

    @rule(gap=st.sampled_from((0, 0, 1, 30)), count=st.integers(1, 3), producer_id=st.sampled_from((-1, *PRODUCERS)))
    def append_batch(self, gap: int, count: int, producer_id: int) -> None:
        """As a follower: offsets stay, also with a gap before them."""
        self.now_ms += 1000
        first = self.model.end + gap
        records = tuple(
            Record(first + n, self.now_ms + n, b"a", b"txn %d" % producer_id, sequence=n if producer_id >= 0 else -1)
            for n in range(count)
        )
        header: dict[str, Any] = {}
        if producer_id >= 0:
            header = {"producer_id": producer_id, "producer_epoch": 0, "is_transactional": True, "base_sequence": 0}
        self._append_raw(Batch(first, records[-1].offset, records, self.epoch, producer_id), header)

    @precondition(lambda self: self.model.open_txns())
    @rule(data=st.data(), aborts=st.booleans())
    def end_transaction(self, data: st.DataObject, aborts: bool) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.model.open_txns())))
        kind = ControlRecordType.ABORT if aborts else ControlRecordType.COMMIT
        value = build_end_transaction_marker(EndTransactionMarker(kind, 0))
        record = Record(self.model.end, self.now_ms, build_control_key(kind), value)
        header = {"producer_id": producer_id, "producer_epoch": 0, "is_transactional": True, "is_control": True}
        self._append_raw(Batch(record.offset, record.offset, (record,), self.epoch, producer_id, aborts), header)

    def _append_raw(self, batch: Batch, header: Mapping[str, Any]) -> None:
        raw = build_batch(batch.records, partition_leader_epoch=batch.epoch, **header)
        (self.top / "batch").write_bytes(raw)
        plan = self.done("append", batches=[self.top / "batch"])
        assert "error" not in plan.answer["appends"][0], plan.answer
        self.model.append(batch)

    @precondition(lambda self: self.model.batches)
    @rule(is_flipped=st.booleans())
    def append_what_is_refused(self, is_flipped: bool) -> None:
        """A batch that lies below the end, or one whose checksum is wrong."""
        offset = self.model.end if is_flipped else self.model.batches[-1].last_offset
        raw = bytearray(build_batch([Record(offset, self.now_ms, b"a", b"never")], partition_leader_epoch=self.epoch))
        raw[-1] ^= is_flipped
        request = {"as": "follower", "leader_epoch": self.epoch, "hex": bytes(raw).hex()}
        (self.top / "requests").write_text(json.dumps(request))
        plan = self.done("append", requests=self.top / "requests")
        assert "error" in plan.answer["appends"][0]

    @rule(data=st.data(), purge=st.booleans())
    def truncate(self, data: st.DataObject, purge: bool) -> None:
        to, bases = self._an_offset(data), self.bases()
        plan = self.done("truncate", to=to, purge=purge)
        assert plan.answer["truncated"] is (to < self.model.end)
        if to < self.model.end:
            self.is_whole = self.is_whole and to >= bases[0]
            self.model.cut(to, bases)
            assert plan.answer["end_at_next_start"] <= self.model.end
            if data.draw(st.booleans()):
                self._start(self.bases()[-1], self.bases())
                return
            # It may begin the log anew. A cut may leave nothing of a time index, and Kafka does not look for more.
            self.done("recover", last_stop="clean")
            self.knows_times = False

    @rule(data=st.data(), to_zero=st.booleans())
    def begin_anew(self, data: st.DataObject, to_zero: bool) -> None:
        offset = 0 if to_zero else self._an_offset(data)
        self.done("truncate", start_at=offset)
        self.model.begin_anew(offset)
        self.is_whole = self.knows_times = True

    @rule()
    def roll(self) -> None:
        before = self.bases()
        plan = self.done("roll", force=True)
        assert plan.answer["rolled_to"] == self.model.end
        assert self.bases() == sorted({*before, self.model.end})

    @precondition(lambda self: self.knows_times)
    @rule(data=st.data())
    def retain_by_time(self, data: st.DataObject) -> None:
        """Segments go whose newest record is older; the first that stays ends it."""
        age_ms, watermark = data.draw(st.integers(0, 20)) * 1000, self._a_watermark(data)
        limit = {"retention.ms": str(age_ms)}
        self._retain(limit, watermark, lambda base: self.now_ms - self._newest(base) > age_ms)

    @rule(data=st.data())
    def retain_by_size(self, data: st.DataObject) -> None:
        sizes = {base: self._size(base) for base in self.bases()}
        limit, watermark = data.draw(st.integers(0, sum(sizes.values()) + 100)), self._a_watermark(data)
        excess = sum(sizes.values()) - limit

        def is_in_excess(base: int) -> bool:
            nonlocal excess
            excess -= sizes[base]
            return excess >= 0

        self._retain({"retention.bytes": str(limit)}, watermark, is_in_excess)

    def _retain(self, config: Mapping[str, str], watermark: int | None, is_due: Any) -> None:
        bases, gone = self.bases(), 0
        for base, bound in zip(bases, [*bases[1:], self.model.end], strict=True):
            below_start = bound <= self.model.start and base != bases[-1]
            empty = base == bases[-1] and not self._size(base)
            if self._mark(watermark) < bound or empty or not (below_start or is_due(base)):
                break
            gone += 1
        plan = self.done("retain", config=config, high_watermark=watermark)
        assert [row["segment"] for row in plan.answer["deletions"]] == bases[:gone]
        if gone:
            first = self.model.begin_at(max(self.model.start, [*bases[1:], self.model.end][gone - 1]), self.bases())
            assert first == self.bases()[0]
            self.is_whole = False

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        before, watermark = self._an_offset(data), self._a_watermark(data)
        if before > self._mark(watermark):
            with pytest.raises(Refused):
                self.planned("delete_records", before=before, high_watermark=watermark)
            return
        self.done("delete_records", before=before, high_watermark=watermark)
        self.is_whole = self.is_whole and before <= self.model.start
        assert self.model.begin_at(before, self.bases()) == self.bases()[0]

    @rule(aside=st.sampled_from((0, 1)))
    def compact(self, aside: int) -> None:
        """The last value of each key stays, and nothing comes that was not there."""
        before = {record.offset: record for batch in self.model.batches for record in batch.records}
        last = last_values(self.model)
        self.now_ms += 1000 * aside
        self.done("compact", config=CLEANING)
        self.is_whole = self.knows_times = False
        found = read_batches(self.path, self.model.batches)
        for batch in found:
            assert all(before[record.offset] == record for record in batch.records)
        self.model.batches = found
        self.model.start = max(self.model.start, self.bases()[0])
        now = last_values(self.model)
        assert {key: value for key, value in now.items() if value is not None} == {
            key: value for key, value in last.items() if value is not None
        }

    # --- what goes wrong

    @rule(data=st.data(), junk=st.sampled_from((b"", b"\0" * 100, b"\xff" * 30, b"torn")), loses=st.booleans())
    def crash(self, data: st.DataObject, junk: bytes, loses: bool) -> None:
        """The tail behind a recovery point is cut anywhere, and garbage follows; then a broker starts."""
        bases = self.bases()
        log = self.log_name(bases[-1])
        if not log.exists():
            return
        ends = [entry.position + entry.size for entry in walk_entries(str(log))]
        whole = log.read_bytes()
        kept = data.draw(st.integers(0, len(whole))) if loses else len(whole)
        found = whole[:kept] + (junk if junk != b"torn" else torn_batch(self.model.end))
        log.write_bytes(found)
        lost = sum(found[:end] != whole[:end] for end in ends)  # what follows may be what was cut off
        self.model.batches = self.model.batches[: len(self.model.batches) - lost]
        self._start(bases[-1], bases)

    @rule(data=st.data())
    def lose_side_files(self, data: st.DataObject) -> None:
        """Any of them; the broker reads everything anew."""
        kinds = data.draw(st.sets(st.sampled_from(SIDE_KINDS), min_size=1))
        for path in [*self.path.iterdir()]:
            if path.name.endswith(tuple(kinds)):
                path.unlink()
        if EPOCHS in kinds:
            self.model.epochs = []
        self._start(0, self.bases())

    def _start(self, recovery_point: int, bases: list[int]) -> None:
        (self.log_dir / POINTS).write_bytes(build_offset_checkpoint({KEY: recovery_point}))
        self.model.end = self.model.end_of(bases)
        for batch in self.model.batches:
            if self.segment_of(batch, bases) >= bases[max(bisect_right(bases, recovery_point) - 1, 0)]:
                self.model.assign_epoch(batch)
        self.model.settle()
        plan = self.done("recover", last_stop="unclean")
        assert plan.answer["log_end_offset"] == self.model.end
        (self.log_dir / POINTS).write_bytes(build_offset_checkpoint({KEY: self.model.end}))

    @rule(command=st.sampled_from(("roll", "retain", "compact")), purge=st.booleans())
    def undo(self, command: str, purge: bool) -> None:
        """What was done is taken back, and all is as it was."""
        before = contents(self.log_dir)
        config = CLEANING if command == "compact" else {"retention.ms": "0"}
        planned = self.planned(command, config=config, purge=purge, **({"force": True} if command == "roll" else {}))
        planned.apply(now_ms=self.now_ms)
        journal = f"{self.log_dir}.klogtool"
        for entry in list(walk_entries_of_journal(journal)) if os.path.isdir(journal) else ():
            undo(entry)
        shutil.rmtree(journal, ignore_errors=True)
        assert contents(self.log_dir) == before

    # --- what holds

    @invariant()
    def reads_and_looks_up_what_the_model_has(self) -> None:
        loaded, model = self.partition.load(now_ms=self.now_ms, config=self.config, jobs=1), self.model
        assert (loaded.log_start_offset, loaded.log_end_offset) == (model.start, model.end)
        assert [(entry.epoch, entry.start_offset) for entry in loaded.log.epochs.entries] == model.epochs
        assert list(walk_read(loaded, "log_end")) == model.records
        if self.is_whole:
            assert list(walk_read(loaded, "read_committed")) == model.committed()
        chance, bases = random.Random(model.end), self.bases()
        for _ in range(4):
            self._look_up_offset(loaded, chance)
            self._look_up_time(loaded, chance, bases)
        self._look_up_epoch(loaded)
        found = {found.id for found in self.partition.verify(deep=True) if found.severity is not Severity.INFO}
        assert found <= LEFT_BY_KAFKA, found

    def _look_up_offset(self, loaded: LoadedPartition, chance: random.Random) -> None:
        model = self.model
        offset = chance.randint(model.start - 1, model.end + 1)
        if not model.start <= offset <= model.end:
            with pytest.raises(Refused):
                loaded.lookup_offset(offset)
            return
        found = loaded.lookup_offset(offset, explain=True)
        wanted = next((batch for batch in model.batches if batch.last_offset >= offset), None)
        assert found.is_end is (wanted is None)
        if wanted is not None:
            assert (found.base_offset, found.last_offset) == (wanted.first_offset, wanted.last_offset)
            record = next((record for record in wanted.records if record.offset >= offset), None)
            assert (found.record and found.record.offset) == (record and record.offset)

    def _look_up_time(self, loaded: LoadedPartition, chance: random.Random, bases: Sequence[int]) -> None:
        """In the first segment that has a timestamp so late, and in no other."""
        asked = T0 + chance.randint(0, max(self.now_ms - T0, 0) + 100)
        found, wanted = loaded.lookup_timestamp(asked).found, None
        if not self.knows_times:
            told = {(record.offset, record.timestamp) for record in self.model.records if record.timestamp >= asked}
            assert found is None or (found.offset, found.timestamp) in told
            return
        for base in bases:
            records = [r for b in self.model.batches if self.segment_of(b, bases) == base for r in b.records]
            # One without any timestamp goes by the time of its file, which is later than all that is asked here.
            if not records or any(record.timestamp >= asked for record in records):
                late = (r for r in records if r.offset >= self.model.start and r.timestamp >= asked)
                wanted = next(late, None)
                break
        assert (found and (found.offset, found.timestamp)) == (wanted and (wanted.offset, wanted.timestamp))

    def _look_up_epoch(self, loaded: LoadedPartition) -> None:
        """Of the largest epoch up to the one asked for, where the next one begins."""
        starts = dict(self.model.epochs)
        for epoch in starts:
            found = loaded.end_offset_for_epoch(epoch)
            ends = [start for other, start in self.model.epochs if other > epoch]
            assert (found.found_epoch, found.end_offset) == (epoch, ends[0] if ends else self.model.end)

    # --- what is drawn

    def _an_offset(self, data: st.DataObject) -> int:
        """Of the log mostly: anywhere in it, where a segment or a batch begins, near its ends."""
        model = self.model
        likely = {model.start, model.end, *self.bases(), *(batch.first_offset for batch in model.batches)}
        if data.draw(st.booleans()):
            return int(data.draw(st.sampled_from(sorted(likely))))
        return int(data.draw(st.integers(max(0, model.start - 2), model.end + 3)))

    def _a_watermark(self, data: st.DataObject) -> int | None:
        return self._an_offset(data) if data.draw(st.sampled_from((False, False, True))) else None

    def _mark(self, watermark: int | None) -> int:
        """The high watermark lies in the log; nobody gave one: at its end."""
        return self.model.end if watermark is None else min(max(watermark, self.model.start), self.model.end)

    def _size(self, base: int) -> int:
        log = self.log_name(base)
        return log.stat().st_size if log.exists() else 0

    def _newest(self, base: int) -> int:
        """The largest timestamp of a segment; one without any was written later than all that is tried here."""
        bases = self.bases()
        found = [batch.max_timestamp for batch in self.model.batches if self.segment_of(batch, bases) == base]
        return max(found, default=2**62)


def line_of(record: Record) -> str:
    """As dump-log prints it."""
    key, value = (
        {"base64": base64.b64encode(data).decode()} if data is not None else None for data in (record.key, record.value)
    )
    return json.dumps({"type": "record", "timestamp": record.timestamp, "key": key, "value": value})


def torn_batch(offset: int) -> bytes:
    return build_batch([Record(offset, T0, b"a", b"torn")])[:-3]


def walk_read(loaded: LoadedPartition, isolation: str) -> Iterator[Record]:
    """All that a consumer gets, fetch by fetch."""
    offset, committed_only = loaded.log_start_offset, isolation == "read_committed"
    while True:
        found = loaded.read(offset, 300, min_one_message=True, isolation=isolation)
        batches = list(map(kept, found.batches()))
        if not batches:
            return
        yield from found.records(committed_only=committed_only)
        offset = batches[-1] + 1


def kept(batch: Any) -> int:
    return int(batch.last_offset)


def read_batches(partition: pathlib.Path, before: Sequence[Batch]) -> list[Batch]:
    """As they lie on the disk; a batch that is cleaned keeps its last offset."""
    known = {batch.last_offset: batch for batch in before}
    entries = (entry for log in sorted(partition.glob("*.log")) for entry in walk_entries(str(log)))
    return [
        replace(known[entry.last_offset], first_offset=entry.base_offset, records=tuple(entry.records()))
        for entry in entries
    ]


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Files and their bytes; `.lock` waits for the next one to take it."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def last_values(model: Model) -> dict[bytes, bytes | None]:
    records = (record for batch in model.not_aborted() for record in batch.records if record.offset >= model.start)
    return {record.key: record.value for record in records if record.key is not None}


LogAtWork.TestCase.settings = settings(
    max_examples=int(EXAMPLES or 40),
    stateful_step_count=STEPS,
    derandomize=EXAMPLES is None,
    phases=(Phase.generate,) if EXAMPLES is None else tuple(Phase),  # what is found takes minutes to be made small
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestLogAtWork = pytest.mark.slow(LogAtWork.TestCase)
