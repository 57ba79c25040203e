"""What a follower takes of its leader's log: offsets that go up, epochs that it knows; large sets by the kernel."""

from __future__ import annotations

import pathlib
import random

import pytest
from appending import NOW_MS, Record, appended, build_batch, follower, mended, patched, plan_of, refusal, replica

from klogtool import kernels
from klogtool.broker.appending import analysis as append_analysis
from klogtool.broker.appending import appender as appending
from klogtool.broker.appending.analysis import KERNEL_FROM_BYTES
from klogtool.broker.content import read_content
from klogtool.broker.releases import Release
from klogtool.broker.unified_log import mapped_windows
from klogtool.format.message import build_message_set
from klogtool.plans.plan import Plan, Write


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "t-0"


def files_of(plan: Plan) -> dict[str, bytes]:
    return {step.path: read_content(step.content) for step in plan.steps if isinstance(step, Write)}


def epochs_of(plan: Plan) -> bytes:
    return files_of(plan).get("leader-epoch-checkpoint", b"")


@pytest.mark.parametrize(
    ("sets", "kafka_class"),
    [
        ([replica(0, 2), replica(2)], None),
        ([replica(0, 2), replica(1)], "UnexpectedAppendOffsetException"),
        ([replica(0, 2), replica(9)], None),
        ([replica(0) + replica(1) + replica(7)], None),
        ([replica(5) + replica(5)], "OffsetsOutOfOrderException"),
        ([replica(5) + replica(3)], "OffsetsOutOfOrderException"),
        ([replica(5) + bytes(12)], "CorruptRecordException"),
        ([replica(5) + replica(6)[:20]], None),
        ([replica(5, epoch=-1)], "IllegalArgumentException"),
        ([build_message_set([Record(4, NOW_MS, b"k", b"v")], magic=1)], None),
    ],
)
def test_offsets_go_up(folder: pathlib.Path, sets: list[bytes], kafka_class: str | None) -> None:
    rows = appended(folder, *map(follower, sets))
    assert (rows[-1]["error"]["class"] if "error" in rows[-1] else None) == kafka_class


def test_batches_of_a_later_leader_are_left_out_and_all_behind_them(folder: pathlib.Path) -> None:
    data = replica(0, epoch=3) + replica(1, epoch=5) + replica(2, epoch=3)
    (row,) = appended(folder, follower(data, leader_epoch=4))
    assert (row["last_offset"], row["valid_bytes"], row["log_end_offset"]) == (0, len(replica(0, epoch=3)), 1)


def test_first_offsets_that_are_not_told(folder: pathlib.Path) -> None:
    old = build_message_set([Record(n, NOW_MS, b"k", b"v") for n in (7, 8)], magic=1, codec="gzip")
    (row,) = appended(folder, follower(old))
    assert (row["first_offset"], row["last_offset"], row["log_end_offset"]) == (-1, 8, 9)


def test_epochs_are_noted(folder: pathlib.Path) -> None:
    call = follower(replica(0, epoch=1) + replica(1, epoch=1) + replica(2, epoch=4), leader_epoch=9)
    assert epochs_of(plan_of(folder, call)) == b"0\n2\n1 0\n4 2\n"
    back = follower(replica(3, epoch=2), leader_epoch=9)
    assert epochs_of(plan_of(folder, call, back)) == b"0\n2\n1 0\n2 3\n"
    old = follower(build_message_set([Record(9, NOW_MS, b"k", b"v")], magic=1))
    assert epochs_of(plan_of(folder, call, old)) == b"0\n0\n"


def test_the_kept_bytes_are_no_copies(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """They stay where they are until they are written: the plan only says where."""
    fetched = tmp_path / "fetched"
    fetched.write_bytes(replica(0) + replica(1) + b"\0\0\0")
    plan = plan_of(folder, {"as": "follower", "leader_epoch": 1, "file": str(fetched)})
    (log,) = (step for step in plan.steps if isinstance(step, Write) and step.path.endswith(".log"))
    (piece,) = log.content
    assert (piece.path, piece.start, piece.stop) == (str(fetched), 0, len(replica(0) + replica(1)))  # type: ignore[union-attr]
    assert str(fetched) in [fact.path for fact in plan.facts]


def test_far_away_the_segment_is_rolled(folder: pathlib.Path) -> None:
    rows = appended(folder, follower(replica(0)), follower(replica(2**31 + 5)))
    assert [row["rolled"] for row in rows] == [False, True]
    old = build_message_set([Record(2**32, NOW_MS, b"k", b"v")], magic=1)
    assert f"{2**32 - 2**31 + 1:020d}.log" in files_of(plan_of(folder, follower(replica(0)), follower(old)))


def test_what_fits_no_segment_leaves_the_new_one_with_an_index_that_was_asked(folder: pathlib.Path) -> None:
    """LogSegment.ensureOffsetInRange asks the offset index, which comes to be; the time index does not."""
    first = 5_000_000_000
    backward = patched(replica(first), 23, (-(2**31)).to_bytes(4, "big", signed=True))  # its last offset is below that
    plan = plan_of(folder, follower(replica(0)), follower(backward))
    assert plan.answer["appends"][1]["error"]["class"] == "LogSegmentOffsetOverflowException"
    new = {name.removeprefix(f"{first:020d}") for name in files_of(plan) if name.startswith(f"{first:020d}")}
    assert new == {".log", ".index", ".snapshot"}


@pytest.mark.parametrize("excess", [0, 1])
def test_a_set_of_segment_bytes(folder: pathlib.Path, excess: int) -> None:
    data = replica(0) + replica(1)
    found = refusal(folder, follower(data), segment_bytes=len(data) - excess)
    assert found == ("RecordBatchTooLargeException" if excess else None)


# The kernel.


def random_set(rng: random.Random) -> bytes:
    """Batches of producers, transactions, epochs and formats of all kinds, sound, or with one that is not."""
    parts, offset, epoch, sequences = [], rng.randrange(5), 0, dict[int, int]()
    for _ in range(rng.randrange(1, 60)):
        epoch += rng.random() < 0.1
        count, when = rng.randrange(1, 4), NOW_MS + rng.randrange(-50, 50)
        made = [Record(offset + n, when, b"k", b"v" * rng.randrange(40)) for n in range(count)]
        if rng.random() < 0.15:
            magic = rng.randrange(2)
            parts.append(build_message_set(made, magic=magic, codec=rng.choice(["none", "gzip"])))
        else:
            producer_id = rng.choice([-1, 5, 6, 7])
            known = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequences.get(producer_id, 0)}
            sequences[producer_id] = sequences.get(producer_id, 0) + count
            header = known if producer_id >= 0 else {}
            is_txn = producer_id == 7
            parts.append(build_batch(made, partition_leader_epoch=epoch, is_transactional=is_txn, **header))
        offset += count + rng.choice([0, 0, 0, 5])
    whole = b"".join(parts)
    draw = rng.random()
    if draw < 0.1:
        return whole[: rng.randrange(len(whole))]
    if draw < 0.2:
        at = rng.randrange(len(whole))
        return whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
    return whole


@pytest.mark.skipif(not kernels.is_built(), reason="the kernels are not built")
@pytest.mark.parametrize("seed", range(40))
def test_the_kernel_decides_as_the_reference_does(
    folder: pathlib.Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    data = random_set(rng)
    calls = [follower(data, leader_epoch=rng.choice([3, 100])), follower(replica(10**6, epoch=50), leader_epoch=100)]
    told = []
    monkeypatch.setattr(mapped_windows, "SPAN_BYTES", 300)
    for kernel_from_bytes, jobs in ((KERNEL_FROM_BYTES, 1), (1, 1), (1, 2)):
        for module in (append_analysis, appending):
            monkeypatch.setattr(module, "KERNEL_FROM_BYTES", kernel_from_bytes)
        interval = rng.choice([0, 100]) if not told else told[0][0]
        plan = plan_of(folder, *calls, jobs=jobs, index_interval_bytes=interval)
        told.append((plan.arguments["config"]["index.interval.bytes"], plan.answer, files_of(plan)))
    assert told[0] == told[1] == told[2]


@pytest.mark.skipif(not kernels.is_built(), reason="the kernels are not built")
@pytest.mark.parametrize("release", ["3.9.2", "4.3.1"])
@pytest.mark.parametrize("count", [3, 12, 13, 14, 24, 25, 26])
def test_new_producers_come_in_the_order_of_the_map_of_the_set(
    folder: pathlib.Path, count: int, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the reference has to take a batch in the middle, here the first of a new leader epoch."""
    monkeypatch.setattr(mapped_windows, "SPAN_BYTES", 300)
    for seed in range(6):
        rng = random.Random(f"{seed} {count}")
        ids = rng.sample(range(300), count)
        ids += rng.choices(ids, k=rng.choice((0, 1, 3)))
        seen: dict[int, int] = {}
        data = b""
        for n, producer_id in enumerate(ids):
            sequence = seen[producer_id] = seen.get(producer_id, -1) + 1
            epoch = 3 if n < rng.randrange(len(ids)) else 4
            data += replica(n, epoch, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        snapshots = []
        for kernel_from_bytes in (KERNEL_FROM_BYTES, 1):
            for module in (append_analysis, appending):
                monkeypatch.setattr(module, "KERNEL_FROM_BYTES", kernel_from_bytes)
            far = replica(2**31 + 5, epoch=50)  # a new segment, so there is a snapshot
            plan = plan_of(folder, follower(data, leader_epoch=100), follower(far, leader_epoch=100), as_of=release)
            snapshots.append(files_of(plan)[f"{2**31 + 5:020d}.snapshot"])
        assert snapshots[0] == snapshots[1], (seed, ids)


@pytest.mark.parametrize("kernel_from_bytes", [KERNEL_FROM_BYTES, 1])
def test_a_set_that_is_refused_behind_a_roll_leaves_no_indexes(
    folder: pathlib.Path, kernel_from_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers are looked at before the new segment is asked for anything."""
    for module in (append_analysis, appending):
        monkeypatch.setattr(module, "KERNEL_FROM_BYTES", kernel_from_bytes)
    begun = replica(0, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    far = 2**31 + 5
    plan = plan_of(folder, follower(begun), follower(replica(far, producer_id=7, producer_epoch=0, base_sequence=1)))
    row = plan.answer["appends"][1]
    assert (row["rolled"], row["error"]["class"]) == (True, "InvalidTxnStateException")
    assert {name.removeprefix(f"{far:020d}") for name in files_of(plan) if name.startswith(f"{far:020d}")} == {
        ".log",
        ".snapshot",
    }


def test_a_message_of_no_codec(folder: pathlib.Path) -> None:
    old = build_message_set([Record(9, NOW_MS, b"k", b"v")], magic=1)
    assert refusal(folder, follower(mended(old[:17] + b"\x07" + old[18:]))) == "IllegalArgumentException"
