"""What is planned and read is every record once, whatever the cuts; files change under it, and are damaged."""

from __future__ import annotations

import json
import math
import os
import pathlib
import random
import shutil
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from damage import append_bytes, flip_bit, overwrite, tear_at
from loading import NOW_MS, data, make, marker, name_of
from planned import by_klogtool, offsets, read, splits_of
from running import FIXTURES
from unreliable_storage import Unreliable, unreliable

from klogtool.errors import Corrupt, Refused
from klogtool.log.file import Unreadable
from klogtool.log.logdir import LogDir
from klogtool.log.storage import Place
from klogtool.spark import planning
from klogtool.spark.copies import find_copies
from klogtool.spark.filters import Bounds
from klogtool.spark.inventory import walk_part
from klogtool.spark.read_committed import find_committed
from klogtool.spark.reading import PLACE_COLUMNS, Task, read_split

__all__ = ["unreliable"]

ALL = {"includeHeaders": True, "includeMetadata": True}
LOG_DIRS = [p for p in sorted(FIXTURES.glob("*/logdir")) if p.parent.name != "killed-mid-append"]
SIZE = len(data(0))
SIZE_OF_TWO = len(data(0, records=2))
pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("log_dir", LOG_DIRS, ids=lambda path: path.parent.name)
def test_every_fixture_reads_as_klogtool_reads_it(log_dir: pathlib.Path) -> None:
    for options in ({}, {"splitBytes": 300}, {"maxRecordsPerPartition": 7}):
        splits = splits_of(log_dir, **options)
        folders = dict.fromkeys(os.path.dirname(piece.log.path) for split in splits for piece in split.parts)
        table, same = read(log_dir, **ALL, **options), by_klogtool(*folders)
        starts = checkpointed_starts(log_dir)
        if starts:
            kept = pa.array([starts.get(tp, 0) <= o for tp, o in rows_of(same)])
            same = same.filter(kept)
        names = [name for name in table.column_names if name not in PLACE_COLUMNS]
        assert table.select(names).equals(same.select(names)), options


def checkpointed_starts(log_dir: pathlib.Path) -> dict[Any, int]:
    found = {}
    for part in (log_dir, *log_dir.iterdir()):
        if part.is_dir():
            found |= LogDir(str(part)).log_start_offsets or {}
    return {(tp.topic, tp.partition): offset for tp, offset in found.items()}


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    names = ("topic", "partition", "offset")
    return [((t, p), o) for t, p, o in zip(*(table.column(name).to_pylist() for name in names), strict=True)]


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    """Partition t-0 with 160 records: segments from offset 0, 60 and 100 on, a batch every two records."""
    bases = (0, 60, 100, 160)
    logs = {a: [data(n, records=2) for n in range(a, b, 2)] for a, b in pairwise(bases)}
    return make(tmp_path / "t-0", logs)


def without_index(log: pathlib.Path) -> None:
    for path in log.glob("*.index"):
        path.unlink()


def with_positions_off(log: pathlib.Path) -> None:
    for path in log.glob("*.index"):
        size = path.stat().st_size
        for at in range(7, size, 8):
            flip_bit(path, at, bit=1)


def with_random_indexes(log: pathlib.Path) -> None:
    made = random.Random(7)
    for path in log.glob("*.index"):
        path.write_bytes(made.randbytes(path.stat().st_size))


def with_entries_shifted(log: pathlib.Path) -> None:
    """Each entry has the position of the next one: a sound batch, and the wrong one."""
    for path in log.glob("*.index"):
        entries = path.read_bytes()
        pairs = [(entries[at : at + 4], entries[at + 12 : at + 16]) for at in range(0, len(entries) - 8, 8)]
        path.write_bytes(b"".join(offset + position for offset, position in pairs))


def untouched(log: pathlib.Path) -> None:
    pass


@pytest.mark.parametrize(
    "wound", [untouched, without_index, with_positions_off, with_entries_shifted, with_random_indexes]
)
def test_cuts_lose_nothing_and_double_nothing_by_any_index(log: pathlib.Path, wound: Any) -> None:
    whole = read(log, **ALL)
    assert offsets(whole) == list(range(160))
    wound(log)
    for options in ({"splitBytes": 3 * SIZE}, {"minPartitions": 11}, {"maxRecordsPerPartition": 9}):
        splits = splits_of(log, **options)
        assert len(splits) >= 10, "nothing was cut"
        assert read(log, **ALL, **options).equals(whole)
    for first in range(0, 160, 7):
        assert offsets(read(log, startingOffsets=f'{{"t":{{"0":{first}}}}}')) == list(range(first, 160))


def test_a_split_has_no_more_offsets_than_was_asked_for(log: pathlib.Path) -> None:
    task = Task(("offset",), Bounds(), "FAILFAST")
    for split in splits_of(log, maxRecordsPerPartition=9):
        assert 0 < sum(batch.num_rows for batch in read_split(split, task)) <= 9


def test_a_row_for_a_batch_is_in_one_task_however_few_records_a_task_may_have(log: pathlib.Path) -> None:
    for table in ("batches", "segments"):
        whole = read(log, table=table)
        for most in (1, 2, 7, 1000):
            assert read(log, table=table, maxRecordsPerPartition=most).equals(whole), (table, most)


@pytest.mark.slow
def test_a_record_out_of_order_is_in_one_task(tmp_path: pathlib.Path) -> None:
    """A base offset is under no checksum."""
    for bit in (1, 3, 4, 5, 6):
        folder = make(tmp_path / f"t-{bit}", {0: [data(2 * n, records=2) for n in range(30)]})
        flip_bit(folder / name_of(0, "log"), 12 * SIZE_OF_TWO + 7, bit)
        whole = sorted(offsets(read(folder, mode="PERMISSIVE")))
        for most in (1, 2, 3, 7):
            assert sorted(offsets(read(folder, mode="PERMISSIVE", maxRecordsPerPartition=most))) == whole, (bit, most)
            with pytest.raises(Corrupt, match="do not lie behind"):
                read(folder, maxRecordsPerPartition=most)


def test_small_segments_share_record_batches(log: pathlib.Path) -> None:
    (split,) = splits_of(log)
    for columns, batches in ((("key", "offset"), 1), (("offset", "_segment"), 3)):
        assert len(list(read_split(split, Task(columns, Bounds(), "FAILFAST")))) == batches


@pytest.fixture
def many_small(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log dir of 300 partitions, each of two segments of one batch."""
    for n in range(300):
        folder = tmp_path / "logdir" / f"t-{n}"
        folder.mkdir(parents=True)
        for base in (0, 1):
            (folder / name_of(base, "log")).write_bytes(data(base))
    return tmp_path / "logdir"


@pytest.mark.parametrize("table", ["records", "batches", "segments"])
def test_small_segments_are_as_few_tasks_as_they_cost(
    many_small: pathlib.Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """600 files cost 150 MiB to open: the sum that the splits are filled by is also the one that they are cut by."""
    monkeypatch.setattr(planning, "usable_cores", lambda: 2)
    for split_bytes in (8 << 20, 32 << 20, 64 << 20):
        splits = splits_of(many_small, splitBytes=split_bytes, table=table)
        assert len(splits) == math.ceil(600 / (split_bytes // planning.OPEN_COST_BYTES)), split_bytes
        assert sum(len(split.parts) for split in splits) == 600
    assert len(splits_of(many_small, table=table)) == 2, "one for each core"
    assert len(splits_of(many_small, table=table, minPartitions=30)) == 30


def test_the_whole_path_of_the_segment_is_a_column(log: pathlib.Path) -> None:
    for options in ({}, {"splitBytes": 1000}, {"mode": "PERMISSIVE"}):
        table = read(log, columns="_path,offset,_segment", **options)
        assert table.column_names == ["_path", "offset", "_segment"]
        assert table.column("_path").to_pylist() == [f"{log}/{name}" for name in table.column("_segment").to_pylist()]
        assert offsets(table) == list(range(160))
    assert read(log, columns="_path").column("_path").to_pylist() == table.column("_path").to_pylist()


def test_segments_that_overlap_give_each_offset_once(log: pathlib.Path) -> None:
    append_bytes(log / name_of(0, "log"), b"".join(data(n, records=2) for n in range(60, 70, 2)))
    for columns in ("offset", "offset,_segment"):
        assert offsets(read(log, columns=columns, mode="PERMISSIVE")) == list(range(160))
        with pytest.raises(Corrupt, match="not those of the segment"):
            read(log, columns=columns)


def test_what_is_appended_after_the_plan_is_not_seen(log: pathlib.Path) -> None:
    splits = splits_of(log)
    append_bytes(log / name_of(100, "log"), data(160))
    (log / name_of(161, "log")).write_bytes(data(161))
    task = Task(("offset",), Bounds(), "FAILFAST")
    seen = [o for split in splits for b in read_split(split, task) for o in b.column("offset").to_pylist()]
    assert seen == list(range(160))
    assert offsets(read(log)) == list(range(162))


@pytest.mark.parametrize(("first", "last"), [(0, 160), (13, 14), (59, 61), (60, 100), (99, 131), (7, 7), (150, 160)])
def test_offsets_from_and_to(log: pathlib.Path, first: int, last: int) -> None:
    bounds = {"startingOffsets": f'{{"t":{{"0":{first}}}}}', "endingOffsets": f'{{"t":{{"0":{last}}}}}'}
    assert offsets(read(log, **bounds)) == list(range(first, last))
    read_bytes = sum(split.bytes for split in splits_of(log, **bounds))
    assert read_bytes <= (last - first + 8) * SIZE, "more was planned than lies there"


def test_offsets_by_time_are_those_of_the_first_record_that_is_not_older(log: pathlib.Path) -> None:
    for offset, shift, found in ((0, 0, 0), (17, -1, 17), (17, 1, 18), (60, 0, 60), (99, 500, 100), (159, 0, 159)):
        time = NOW_MS + 1000 * offset + shift
        assert offsets(read(log, startingTimestamp=time)) == list(range(found, 160))
        assert offsets(read(log, endingTimestamp=time)) == list(range(found))
        each = f'{{"t":{{"0":{time}}}}}'
        both = {"startingOffsetsByTimestamp": each, "endingTimestamp": time + 3000}
        assert offsets(read(log, **both)) == list(range(found, min(found + 3, 160)))


def test_a_time_behind_all_records(log: pathlib.Path) -> None:
    late = NOW_MS + 10**9
    with pytest.raises(Refused, match="No offset matched from request of topic-partition t-0"):
        read(log, startingTimestamp=late)
    assert not offsets(read(log, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest"))
    assert offsets(read(log, endingTimestamp=late)) == list(range(160))


@pytest.mark.parametrize(
    ("options", "offset", "end"),
    [
        ({"startingOffsets": '{"t":{"0":161}}'}, 161, 160),
        ({"startingOffsets": '{"t":{"0":161}}', "failOnDataLoss": False}, 161, 160),
        ({"startingTimestamp": NOW_MS + 50_000, "endingTimestamp": NOW_MS + 49_000}, 50, 49),
    ],
)
def test_a_start_behind_the_end_is_refused(log: pathlib.Path, options: dict[str, Any], offset: int, end: int) -> None:
    with pytest.raises(Refused, match=f"start offset {offset} is greater than end offset {end}"):
        read(log, **options)


def test_lost_offsets_fail_unless_they_need_not(log: pathlib.Path) -> None:
    for kind in ("log", "index", "timeindex"):
        (log / name_of(0, kind)).unlink()
    for bound, wanted in (("startingOffsets", 3), ("endingOffsets", 170)):
        option = {bound: f'{{"t":{{"0":{wanted}}}}}'}
        with pytest.raises(Refused, match="failOnDataLoss"):
            read(log, **option)
        notes: list[str] = []
        splits_of(log, notes=notes, failOnDataLoss=False, **option)
        assert len(notes) == 1
        assert offsets(read(log, failOnDataLoss=False, **option)) == list(range(60, 160))
    both = {"startingOffsets": '{"t":{"0":170}}', "endingOffsets": '{"t":{"0":180}}'}
    assert offsets(read(log, failOnDataLoss=False, **both)) == []


def test_offsets_have_to_name_every_partition(log: pathlib.Path) -> None:
    make(log.parent / "t-1", {0: data(0)})
    with pytest.raises(Refused, match=r"you must specify all TopicPartitions.*Assigned: \[t-0, t-1\]"):
        read(log.parent, startingOffsets='{"t":{"0":3}}')
    assert len(offsets(read(log.parent, startingOffsets='{"t":{"0":150,"1":-2}}'))) == 11


def test_a_log_start_offset_counts_wherever_the_partition_was_found(log: pathlib.Path) -> None:
    (log.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 77\n")
    for path in (log.parent, log, log / name_of(60, "log")):
        assert offsets(read(path))[0] == 77
    with pytest.raises(Refused, match="begins at offset 77: offset 70 is no longer there"):
        read(log, startingOffsets='{"t":{"0":70}}')


def test_topics_by_name_by_pattern_and_by_number(log: pathlib.Path) -> None:
    root = log.parent
    for name in ("t-1", "other-0", "__consumer_offsets-0"):
        make(root / name, {0: data(0)})
    for options, rows in (
        ({}, 163),
        ({"subscribe": "t"}, 161),
        ({"subscribe": "t, other"}, 162),
        ({"subscribePattern": "^o.*r$|^t$"}, 162),
        ({"subscribePattern": "the"}, 1),
        ({"subscribePattern": ".*"}, 162),
        ({"assign": '{"t":[1],"other":[0]}'}, 2),
    ):
        assert read(root, **options).num_rows == rows, options
    with pytest.raises(Refused, match="no such topic: nope"):
        read(root, subscribe="t,nope")
    with pytest.raises(Refused, match="no such topic: nope"):
        read(root, assign='{"nope":[0]}')
    notes: list[str] = []
    assert len(splits_of(root, assign='{"t":[1,2]}', notes=notes)) == 1
    assert notes == ["no such partition: t-2"]


class GreaterThanOrEqual:
    """As pyspark.sql.datasource has it."""

    def __init__(self, offset: int) -> None:
        self.attribute = ("timestamp",)
        self.value = datetime.fromtimestamp(NOW_MS / 1000 + offset, UTC)


def test_times_leave_out_segments_by_their_time_index(log: pathlib.Path) -> None:
    for offset, left in ((0, 160), (59, 160), (60, 100), (70, 100), (99, 100), (100, 60), (159, 60)):
        late = [GreaterThanOrEqual(offset)]
        planned = sum(split.bytes for split in splits_of(log, filters=late))
        assert planned == left * SIZE_OF_TWO // 2
        assert offsets(read(log, filters=late)) == list(range(offset, 160))


def test_a_time_index_that_is_wrong_leaves_out_nothing(log: pathlib.Path) -> None:
    for path in log.glob("*.timeindex"):
        size = path.stat().st_size
        for at in range(5, size, 12):
            overwrite(path, at, b"\0")  # earlier
    assert offsets(read(log, filters=[GreaterThanOrEqual(20)])) == list(range(20, 160))


# Copies.


def test_replicas_are_not_counted_twice_and_the_one_of_the_latest_epoch_is_read(tmp_path: pathlib.Path) -> None:
    for broker, records, epoch in (("b1", 9, 1), ("b2", 5, 3), ("b3", 4, 3)):
        (tmp_path / broker).mkdir()
        make(tmp_path / broker / "t-0", {0: [data(n, epoch=epoch) for n in range(records)]})
        make(tmp_path / broker / f"only-{broker[1]}", {0: data(0)})
    notes: list[str] = []
    splits_of(tmp_path, notes=notes)
    assert offsets(read(tmp_path, subscribe="t")) == list(range(5))
    assert read(tmp_path).num_rows == 5 + 3
    (note,) = notes
    assert f"t-0 was found 3 times: {tmp_path}/b2/t-0 is read" in note


def test_copies_of_different_topics_are_refused(tmp_path: pathlib.Path) -> None:
    for name, topic_id in (("b1", "AAAAAAAAAAAAAAAAAAAAAQ"), ("b2", "AAAAAAAAAAAAAAAAAAAAAg")):
        (tmp_path / name).mkdir()
        folder = make(tmp_path / name / "t-0", {0: data(0)})
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    with pytest.raises(Refused, match="different topic ids") as refused:
        read(tmp_path)
    assert "set the option copies to all" in refused.value.cure
    make(tmp_path / "b1" / "other-0", {0: data(0)})
    assert read(tmp_path, subscribe="other").num_rows == 1
    assert read(tmp_path, subscribe="t", copies="all").num_rows == 2


def test_doomed_stray_and_future_dirs_are_left_out(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "t-0", {0: data(0)})
    for state in ("delete", "future", "stray"):
        shutil.copytree(tmp_path / "t-0", tmp_path / f"t-0.0123456789abcdef0123456789abcdef-{state}")
    assert read(tmp_path).num_rows == 1


def test_a_single_file_and_a_pattern_of_paths(log: pathlib.Path) -> None:
    assert offsets(read(log / name_of(60, "log"))) == list(range(60, 100))
    make(log.parent / "u-0", {0: data(0)})
    assert read(log.parent / "[tu]-0").num_rows == 161
    (log.parent / "empty").mkdir()
    with pytest.raises(Refused, match=r"no partition dir with a \.log file"):
        read(log.parent / "empty")


# Transactions.


def txn(offset: int, producer_id: int, records: int = 1) -> bytes:
    header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": offset, "is_transactional": True}
    return data(offset, records=records, **header)


@pytest.fixture
def transactions(tmp_path: pathlib.Path) -> pathlib.Path:
    """Producer 1: 0 and 2 committed, 9 and 10 aborted; producer 2: 1 and 4 aborted; 3 and 12: open, from 12 on."""
    first = [txn(0, 1), txn(1, 2), txn(2, 1), data(3), txn(4, 2), marker(5, 1, aborts=False)]
    second = [marker(6, 2), data(7), txn(8, 2), txn(9, 1, 2), marker(11, 1), marker(12, 2, aborts=False)]
    third = [data(13), txn(14, 1), data(15), txn(16, 3), marker(17, 1)]
    return make(tmp_path / "t-0", {0: first, 6: second, 13: third})


WRITTEN = [0, 1, 2, 3, 4, 7, 8, 9, 10, 13, 14, 15, 16]
COMMITTED = [0, 2, 3, 7, 8, 13, 15]


def test_aborted_and_open_transactions_are_for_those_who_ask(transactions: pathlib.Path) -> None:
    assert offsets(read(transactions)) == WRITTEN
    for options in ({}, {"splitBytes": 1}, {"maxRecordsPerPartition": 2}, {"columns": "offset"}):
        assert offsets(read(transactions, kafka_isolation_level="read_committed", **options)) == COMMITTED


def test_transactions_behind_damage_are_aborted_too(transactions: pathlib.Path) -> None:
    """Without snapshots and transaction indexes, all batches are read."""
    for path in (*transactions.glob("*.snapshot"), *transactions.glob("*.txnindex")):
        path.unlink()
    assert offsets(read(transactions, kafka_isolation_level="read_committed")) == COMMITTED
    overwrite(transactions / name_of(6, "log"), len(marker(6, 2)), b"\xff" * len(data(7)))
    without = [offset for offset in COMMITTED if offset != 7]
    assert read_in("PERMISSIVE", transactions, kafka_isolation_level="read_committed") == without


def test_transactions_that_cannot_be_read_are_not_committed(unreliable: Unreliable, transactions: pathlib.Path) -> None:
    for path in (*transactions.glob("*.snapshot"), *transactions.glob("*.txnindex")):
        path.unlink()
    (copy,) = find_copies([Place(f"far://{transactions}")])
    unreliable.fault_of = lambda: "503"
    with pytest.raises(Unreadable, match="slow_down"):
        find_committed(copy)


def test_times_and_offsets_behind_the_last_stable_offset(transactions: pathlib.Path) -> None:
    committed = {"kafka_isolation_level": "read_committed"}
    for options in ({"startingTimestamp": NOW_MS + 16_000}, {"startingOffsets": '{"t":{"0":17}}'}):
        with pytest.raises(Refused):
            read(transactions, **committed, **options)
        assert offsets(read(transactions, **options)) in ([16], [])
    latest = {"startingTimestamp": NOW_MS + 16_000, "startingOffsetsByTimestampStrategy": "latest"}
    assert not offsets(read(transactions, **committed, **latest))
    assert offsets(read(transactions, **committed, endingTimestamp=NOW_MS + 16_000)) == COMMITTED
    assert offsets(read(transactions, **committed, endingTimestamp=NOW_MS + 15_000)) == COMMITTED[:-1]


def without_snapshots(log: pathlib.Path) -> None:
    for path in log.glob("*.snapshot"):
        path.unlink()


def with_broken_txn_index(log: pathlib.Path) -> None:
    for path in log.glob("*.txnindex"):
        overwrite(path, 0, b"\x7f")


@pytest.mark.parametrize("wound", [without_snapshots, with_broken_txn_index, without_index])
def test_transactions_without_what_the_broker_noted_of_them(transactions: pathlib.Path, wound: Any) -> None:
    wound(transactions)
    assert offsets(read(transactions, kafka_isolation_level="read_committed")) == COMMITTED


@pytest.mark.parametrize("name", ["t-0", "t-1"])
def test_committed_records_of_a_broker_are_those_that_a_consumer_saw(name: str) -> None:
    """Consumer rules over the batches, as Kafka's own client has them (CompletedFetch)."""
    log = FIXTURES / "transactions" / "logdir" / name
    assert offsets(read(log, kafka_isolation_level="read_committed")) == consumed(log)


def consumed(log: pathlib.Path) -> list[int]:
    from klogtool import Partition
    from klogtool.format.control import parse_end_transaction_marker

    open_txns: dict[int, list[int]] = {}
    seen: list[int] = []
    began: dict[int, int] = {}
    for segment in Partition(str(log)).segments:
        for batch in segment.batches():
            found = [record.offset for record in batch.records()]
            if batch.is_control:
                (record,) = batch.records()
                kept = open_txns.pop(batch.producer_id, [])
                began.pop(batch.producer_id, None)
                seen += [] if parse_end_transaction_marker(record.key, record.value).is_abort else kept
            elif batch.is_transactional:
                open_txns.setdefault(batch.producer_id, []).extend(found)
                began.setdefault(batch.producer_id, batch.base_offset)
            else:
                seen += found
    stable = min(began.values(), default=2**63)
    return sorted(offset for offset in seen if offset < stable)


# Damage.


def read_in(mode: str, log: pathlib.Path, **options: Any) -> list[int]:
    return offsets(read(log, mode=mode, **options))


def test_a_wrong_checksum(log: pathlib.Path) -> None:
    flip_bit(log / name_of(60, "log"), 4 * len(data(0, records=2)) + 70)
    with pytest.raises(Corrupt, match="checksum") as error:
        read(log)
    assert error.value.position == 4 * len(data(0, records=2))
    assert read_in("DROPMALFORMED", log) == [n for n in range(160) if n not in (68, 69)]
    table = read(log, mode="PERMISSIVE", includeMetadata=True)
    assert [o for o, ok in zip(offsets(table), table.column("_crc_ok").to_pylist(), strict=True) if not ok] == [68, 69]
    assert offsets(table) == list(range(160))


def test_a_length_that_cannot_be(log: pathlib.Path) -> None:
    overwrite(log / name_of(60, "log"), 4 * len(data(0, records=2)) + 8, bytes(4))
    for options in ({}, {"splitBytes": 3 * SIZE}):
        with pytest.raises(Corrupt, match="record size 0"):
            read(log, **options)
        for mode in ("DROPMALFORMED", "PERMISSIVE"):  # the records are whole, and verify says so
            assert read_in(mode, log, **options) == list(range(160))


def test_a_torn_tail_is_damage_but_at_the_end_of_the_log(log: pathlib.Path) -> None:
    last = log / name_of(100, "log")
    tear_at(last, last.stat().st_size - 5)
    assert offsets(read(log)) == list(range(158)), "what is being written is not there yet"
    middle = log / name_of(60, "log")
    tear_at(middle, middle.stat().st_size - 5)
    with pytest.raises(Corrupt, match="not a whole batch"):
        read(log)
    assert read_in("PERMISSIVE", log) == [n for n in range(158) if n not in (98, 99)]


def test_zeros_that_a_broker_has_preallocated_are_the_end_of_the_log(log: pathlib.Path) -> None:
    last = log / name_of(100, "log")
    os.truncate(last, last.stat().st_size + (4 << 20))
    for options in ({}, {"mode": "PERMISSIVE"}, {"splitBytes": 3 * SIZE}, {"maxRecordsPerPartition": 7}):
        assert offsets(read(log, **options)) == list(range(160))
    for mode in ("FAILFAST", "PERMISSIVE"):
        assert sum(row["records_count"] for row in read(log, table="batches", mode=mode).to_pylist()) == 160
        assert read(log, table="segments", mode=mode).to_pylist()[-1]["last_offset"] == 159
    assert walk_part(splits_of(log, table="segments")[-1].parts[-1]).damage is None
    inner = log / name_of(60, "log")
    os.truncate(inner, inner.stat().st_size + 100)
    with pytest.raises(Corrupt, match="record size 0"):  # a broker has trimmed it when it rolled
        read(log)


def test_damage_behind_what_is_wanted_is_no_error(log: pathlib.Path) -> None:
    last = log / name_of(100, "log")
    last.write_bytes(last.read_bytes() + b"\xff" * 100)
    with pytest.raises(Corrupt):
        read(log)
    for end in (160, 159, 130):
        assert offsets(read(log, endingOffsets=json.dumps({"t": {"0": end}}))) == list(range(end))
    flip_bit(last, last.stat().st_size - 100 - 3)  # the last batch
    assert offsets(read(log, endingOffsets='{"t": {"0": 158}}')) == list(range(158))
    with pytest.raises(Corrupt, match="CRC"):
        read(log, endingOffsets='{"t": {"0": 159}}')


def test_a_wrong_offset_hides_no_damage_that_may_be_wanted(tmp_path: pathlib.Path) -> None:
    wanted = {"endingOffsets": '{"t": {"0": 40}}', "failOnDataLoss": False}
    wounds = {
        "a value": lambda log: flip_bit(log, 11 * SIZE_OF_TWO - 3),  # of the batch with offsets 20 and 21
        "its length": lambda log: overwrite(log, 10 * SIZE_OF_TWO + 8, b"\xff"),
        "all of it": lambda log: overwrite(log, 10 * SIZE_OF_TWO, bytes(SIZE_OF_TWO)),
        "a value, and its own offset": lambda log: (
            flip_bit(log, 11 * SIZE_OF_TWO - 3),
            flip_bit(log, 10 * SIZE_OF_TWO + 3, 4),
        ),
    }
    for name, wound in wounds.items():
        for raised in (4, 9, None):
            made = tmp_path / f"{name}, {raised}"
            made.mkdir()
            segments = {0: [data(2 * n, records=2) for n in range(30)]}
            folder = make(made / "t-0", segments)
            wound(folder / name_of(0, "log"))
            if raised is not None:
                flip_bit(folder / name_of(0, "log"), raised * SIZE_OF_TWO + 3, 4)
            first = [at for at in (raised, 10) if at is not None]
            with pytest.raises(Corrupt) as caught:  # a batch with a raised offset hides the one behind it
                read(folder, **wanted)
            assert caught.value.position in [(n + after) * SIZE_OF_TWO for n in first for after in (0, 1)]


def test_a_damaged_batch_that_claims_a_wanted_offset_is_an_error(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: [data(2 * n, records=2) for n in range(30)]})
    without_index(folder)  # it would say that nothing wanted is there
    flip_bit(folder / name_of(0, "log"), 28 * SIZE_OF_TWO - 3)
    assert offsets(read(folder, endingOffsets='{"t": {"0": 40}}')) == list(range(40))
    flip_bit(folder / name_of(0, "log"), 27 * SIZE_OF_TWO + 7, 5)  # 54 becomes 22
    with pytest.raises(Corrupt, match="do not lie behind"):
        read(folder, endingOffsets='{"t": {"0": 40}}')


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_a_wrong_offset_does_not_make_more_splits_than_there_are_batches(tmp_path: pathlib.Path, mode: str) -> None:
    for bit in (0, 2, *range(6, 63)):  # those that raise 58
        folder = make(tmp_path / f"t-{bit}", {0: [data(2 * n, records=2) for n in range(30)]})
        flip_bit(folder / name_of(0, "log"), 29 * SIZE_OF_TWO + 7 - bit // 8, bit % 8)
        for step in (1, 7):
            splits = splits_of(folder, maxRecordsPerPartition=step, mode=mode)
            assert len(splits) <= planning.FEW_PARTS + 60 + 30 * SIZE_OF_TWO // planning.LEAST_RECORD_BYTES
            table = read(folder, maxRecordsPerPartition=step, mode=mode)
            assert sorted(offsets(table)) == sorted(offsets(read(folder, mode=mode)))
            assert len(splits) >= 58 // step


def test_compaction_makes_no_empty_splits(tmp_path: pathlib.Path) -> None:
    bases = [n * 10**6 for n in range(20)]
    folder = make(tmp_path / "t-0", {0: [data(base, records=20) for base in bases]})
    splits = splits_of(folder, maxRecordsPerPartition=7)
    task = Task(("offset",), Bounds(), "FAILFAST")
    assert all(sum(batch.num_rows for batch in read_split(split, task)) for split in splits)
    assert offsets(read(folder, maxRecordsPerPartition=7)) == [base + n for base in bases for n in range(20)]
