"""Salvage: named wounds on copies of what brokers left, and what holds of every result."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import pathlib
import random
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from built import write_log_dir
from damage import append_bytes, flip_bit, frames_of, overwrite, tear_at, zero_from
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import FIXTURES, run_here
from salvaging import Batch, batches, check_laws, logs, plan_salvage, write_result
from verifying import found

from klogtool import kernels
from klogtool.broker.content import read_content
from klogtool.building.spec_text import read_spec
from klogtool.errors import KlogError, Refused
from klogtool.format.batch import build_raw_batch
from klogtool.format.checkpoints import EpochEntry, build_leader_epoch_checkpoint, parse_leader_epoch_checkpoint
from klogtool.format.fields import field_positions
from klogtool.format.indexes import parse_txn_index
from klogtool.format.layouts import BATCH_HEADER
from klogtool.plans.plan import Delete, Plan
from klogtool.plans.rejected_files import MANIFEST, rejected_files
from klogtool.render.words import words

Path = pathlib.Path
CopyOf = Callable[[str], Path]
AT = {name: at for name, at, _ in field_positions(BATCH_HEADER)}
THREE_MAGICS = "three-magics/logdir/plain-0"
EPOCHS = "leader-epochs/logdir/t-0"
TRANSACTIONS = "transactions/logdir/t-0"
OLD = ["magic-0/logdir/create-0", "magic-0/logdir/create-2", "magic-1/logdir/create-0", "magic-1/logdir/create-2"]


@pytest.fixture
def salvage(tmp_path: Path) -> Callable[..., tuple[Plan, list[Batch]]]:
    """`salvage(partition, *replicas)`: the plan and the batches of its result, which keeps all laws."""

    def run(partition: Path, *replicas: Path, **given: Any) -> tuple[Plan, list[Batch]]:
        plan = plan_salvage(partition, *replicas, **given)
        result = write_result(plan, Path(tempfile.mkdtemp(dir=tmp_path)))
        check_laws(plan, result)
        return plan, list(batches(result))

    return run


Salvage = Callable[..., tuple[Plan, list[Batch]]]


def nth(partition: Path, n: int) -> tuple[Path, Batch]:
    """The n-th batch of a partition, and its file."""
    batch = list(batches(partition))[n]
    return partition / batch.name, batch


def rebuilt(batch: Batch, body: bytes | None = None, **fields: int) -> bytes:
    """A batch with other fields or records, and a right checksum."""
    before = {
        name: int.from_bytes(batch.data[at : at + kind.sizeof()], "big", signed=True)
        for name, at, kind in field_positions(BATCH_HEADER)
        if name not in ("length", "crc", "magic")
    }
    return build_raw_batch(batch.data[61:] if body is None else body, **(before | fields))


def same(one: list[Batch], other: list[Batch]) -> bool:
    return [(b.first_offset, b.data) for b in one] == [(b.first_offset, b.data) for b in other]


def loss(plan: Plan) -> dict[str, Any]:
    (only,) = plan.answer["lost"]
    return dict(only)


# ---------------------------------------------------------------- nothing wrong


@pytest.mark.parametrize("name", [THREE_MAGICS, EPOCHS, TRANSACTIONS, "compacted/result-2/gone-0", *OLD])
def test_what_is_sound_stays_as_it_is(copy_of: CopyOf, salvage: Salvage, name: str) -> None:
    partition = copy_of(name)
    before = list(batches(partition))
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert plan.answer["lost"] == plan.answer["rejected"] == plan.answer["mended"] == []
    assert {verdict.action for verdict in plan.segments} == {"keep"}
    assert not [step for step in plan.steps if step.path.endswith(".log")]


def test_the_plan_is_the_same_each_time(copy_of: CopyOf) -> None:
    partition = copy_of(EPOCHS)
    flip_bit(logs(partition)[0], 100)
    assert plan_salvage(partition).id == plan_salvage(partition).id


# ---------------------------------------------------------------- bytes that are not kept


def test_a_flipped_bit_costs_one_batch(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    before = list(batches(partition))
    path, batch = nth(partition, 5)
    flip_bit(path, batch.position + 70)
    plan, kept = salvage(partition)
    assert same(kept, [b for b in before if b != batch])
    assert loss(plan) == {
        "segment": int(path.name.split(".")[0]),
        "start": batch.position,
        "end": batch.end,
        "first_offset": batch.first_offset,
        "last_offset": batch.last_offset,
        "cause": "batch-crc",
    }
    assert plan.answer["kept_batches"] == len(before) - 1


@pytest.mark.parametrize("given", [0, 1, None])
def test_epochs_of_the_batches_are_added_where_one_beyond_the_end_hides_them(
    copy_of: CopyOf, tmp_path: Path, given: int | None
) -> None:
    """A recovery does not see epochs that are lower than the last one, and then drops that."""
    partition = copy_of(EPOCHS)
    checkpoint = partition / "leader-epoch-checkpoint"
    right = parse_leader_epoch_checkpoint(checkpoint.read_bytes())
    checkpoint.write_bytes(build_leader_epoch_checkpoint([*right[:given], EpochEntry(99, 90_000)]))
    plan = plan_salvage(partition)
    result = write_result(plan, tmp_path / "result")
    check_laws(plan, result)
    assert parse_leader_epoch_checkpoint((result / checkpoint.name).read_bytes()) == right


def test_what_a_torn_tail_began_with_is_told(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    path, batch = nth(partition, -1)
    tear_at(path, batch.end - 3)
    plan, kept = salvage(partition)
    assert kept[-1].last_offset + 1 == batch.first_offset
    assert (loss(plan)["first_offset"], loss(plan)["last_offset"]) == (batch.first_offset, batch.last_offset)
    assert loss(plan)["cause"] == "torn-batch"


def test_of_a_few_stray_bytes_others_may_know_what_they_were(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    path, batch = nth(partition, -1)
    tear_at(path, batch.position + 9)
    plan, _ = salvage(partition)
    assert (loss(plan)["first_offset"], loss(plan)["last_offset"]) == (batch.first_offset, batch.last_offset)
    (partition / f"{batch.last_offset + 1:020d}.snapshot").unlink()
    plan, _ = salvage(partition)
    assert (loss(plan)["first_offset"], loss(plan)["last_offset"]) == (batch.first_offset, None)


def test_zeros_at_the_end_lose_nothing_that_is_known(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    append_bytes(nth(partition, -1)[0], bytes(400))
    plan, _ = salvage(partition)
    assert (loss(plan)["cause"], loss(plan)["first_offset"]) == ("zero-tail", None)


def test_foreign_bytes_between_batches_cost_nothing(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    before = list(batches(partition))
    path, batch = nth(partition, 3)
    data = path.read_bytes()
    path.write_bytes(data[: batch.position] + b"\xff" * 33 + data[batch.position :])
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert (loss(plan)["first_offset"], loss(plan)["end"] - loss(plan)["start"]) == (None, 33)


def test_a_segment_with_nothing_left_goes_but_an_active_one_stays(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(THREE_MAGICS)
    first, *_, last = logs(partition)
    for path in (first, last):
        zero_from(path, 0)
    plan, _ = salvage(partition)
    actions = {verdict.segment: verdict.action for verdict in plan.segments}
    assert (actions[0], actions[int(last.name.split(".")[0])]) == ("drop", "rewrite")
    assert plan.answer["log_end_offset"] == int(last.name.split(".")[0])


def test_all_is_lost(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of("magic-0/logdir/create-0")
    for path in logs(partition):
        zero_from(path, 0)
    plan, kept = salvage(partition)
    assert (kept, plan.answer["kept_records"]) == ([], 0)


def test_an_impossible_header_under_a_good_checksum_is_not_kept(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    path, batch = nth(partition, -1)
    append_bytes(path, rebuilt(batch, base_offset=78, attributes=6))
    plan, _ = salvage(partition)
    assert (loss(plan)["cause"], loss(plan)["first_offset"]) == ("batch-attributes", 78)


@pytest.mark.parametrize("beyond", [1, 40, 2**31 - 200])
@pytest.mark.parametrize("name", ["every-codec/logdir/create-0", EPOCHS, TRANSACTIONS])
def test_a_last_offset_beyond_the_records_costs_nothing(
    copy_of: CopyOf, salvage: Salvage, name: str, beyond: int
) -> None:
    """Of each batch before another, also across segments: verify names that one batch, salvage gives back its bytes."""
    partition = copy_of(name)
    before = list(batches(partition))
    for n in range(0, len(before) - 1, 3):
        path, batch = nth(partition, n)
        delta = batch.last_offset - batch.first_offset + beyond
        overwrite(path, batch.position, rebuilt(batch, last_offset_delta=delta))
        about = [each for each in found(partition) if each.id == "batch-attributes"]
        assert [(each.path, each.start, each.end, each.field) for each in about] == [
            (str(path), batch.position, batch.end, "last_offset_delta")
        ]
        assert not {each.id for each in found(partition)} & {"offset-order", "segment-overlap", "offset-overflow"}
        plan, kept = salvage(partition)
        assert same(kept, before)
        assert plan.answer["lost"] == plan.answer["rejected"] == []
        assert [mended["field"] for mended in plan.answer["mended"]] == ["last_offset_delta", "crc"]
        overwrite(path, batch.position, batch.data)


CLOSED = """
partitions:
  - topic: t
    log:
      - generate: {records: 40, seed: 3, keys: 9, batch_bytes: 1000}
      - batch: {producer: 7, codec: gzip, records: [{key: a, value: "1"}, {key: b, value: "2"}, {key: c, value: "3"}]}
"""


@pytest.mark.parametrize("beyond", [1, 40, 2**31 - 200])
@pytest.mark.parametrize("field", ["last_offset_delta", "base_offset"])
def test_a_last_batch_beyond_the_closed_end_costs_nothing(
    tmp_path: Path, salvage: Salvage, field: str, beyond: int
) -> None:
    """Only the recovery point of a clean stop contradicts it: verify and the doctor name the field, salvage gives back
    the bytes."""
    partition = write_log_dir(read_spec(CLOSED.encode()), tmp_path / "d") / "t-0"
    before = list(batches(partition))
    path, batch = nth(partition, len(before) - 1)
    value = (2 if field == "last_offset_delta" else batch.first_offset) + beyond
    fields = [field] + ["crc"] * (field == "last_offset_delta")
    overwrite(path, batch.position, rebuilt(batch, **{field: value}))
    findings = found(partition.parent)
    assert [(each.path, each.start, each.end, each.field) for each in findings] == [
        (str(path), batch.position, batch.end, field)
    ]
    rows = [
        json.loads(line) for line in run_here(["doctor", ".", "--format", "json"], partition.parent).out.splitlines()
    ]
    assert [row["what"] for row in rows if row["type"] == "ahead"] == ["ends-late"]
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert plan.answer["lost"] == plan.answer["rejected"] == []
    assert [mended["field"] for mended in plan.answer["mended"]] == fields


@pytest.mark.parametrize("count", [-1, 0, 1, 1000])
@pytest.mark.parametrize("name", ["every-codec/logdir/create-0", "compacted/result-2/gone-0", EPOCHS, TRANSACTIONS])
def test_a_wrong_count_of_records_costs_nothing(copy_of: CopyOf, salvage: Salvage, name: str, count: int) -> None:
    """The bytes of a batch say how many records they are, also after a cleaning."""
    partition = copy_of(name)
    before = list(batches(partition))
    for n in range(1, len(before), 3):
        path, batch = nth(partition, n)
        if int.from_bytes(batch.data[57:61], "big") in (0, count):
            continue
        overwrite(path, batch.position, rebuilt(batch, records_count=count))
        plan, kept = salvage(partition)
        assert same(kept, before)
        assert plan.answer["lost"] == plan.answer["rejected"] == []
        assert [mended["field"] for mended in plan.answer["mended"]] == ["records_count", "crc"]
        overwrite(path, batch.position, batch.data)


# ---------------------------------------------------------------- fields outside of the checksum


@pytest.mark.parametrize("byte", range(17))
@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_field_that_no_checksum_covers_is_set_right(copy_of: CopyOf, salvage: Salvage, byte: int, bit: int) -> None:
    partition = copy_of("every-codec/logdir/create-0")
    before = list(batches(partition))
    path, batch = nth(partition, 2)
    flip_bit(path, batch.position + byte, bit)
    plan, kept = salvage(partition)
    assert same(kept, before)
    (mended,) = plan.answer["mended"]
    field = max((at, name) for name, at in AT.items() if at <= byte)[1]
    assert (mended["segment"], mended["position"], mended["field"]) == (0, batch.position, field)
    assert plan.answer["lost"] == []


@pytest.mark.parametrize("name", OLD)
@pytest.mark.parametrize(("byte", "bit"), [(0, 7), (5, 1), (7, 4), (8, 7), (10, 0)])
def test_so_are_those_of_old_messages(copy_of: CopyOf, salvage: Salvage, name: str, byte: int, bit: int) -> None:
    partition = copy_of(name)
    before = list(batches(partition))
    path, batch = nth(partition, 2)
    flip_bit(path, batch.position + byte, bit)
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert [mended["field"] for mended in plan.answer["mended"]] == ["length" if byte >= 8 else "base_offset"]


def test_two_damaged_offsets_in_a_row_are_set_right(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    before = list(batches(partition))
    for n, high in ((4, 3), (5, 1)):
        path, batch = nth(partition, n)
        overwrite(path, batch.position + high, b"\x01")
    assert same(salvage(partition)[1], before)


@pytest.mark.parametrize("order", [(1, 0), (2, 0, 1), (2, 1, 0), (1, 3, 0, 2)])
def test_batches_in_another_order_keep_their_offsets(copy_of: CopyOf, salvage: Salvage, order: tuple[int, ...]) -> None:
    partition = copy_of(EPOCHS)
    before = list(batches(partition))
    row = [batch for batch in before if batch.name == before[0].name][3 : 3 + len(order)]
    overwrite(logs(partition)[0], row[0].position, b"".join(row[n].data for n in order))
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert plan.answer["mended"] == plan.answer["rejected"] == []
    assert (plan.segments[0].action, words(plan.segments[0].why)) == ("rewrite", "batches put in order")


def test_exchanged_base_offsets_are_no_exchanged_batches(copy_of: CopyOf, salvage: Salvage) -> None:
    """Base offset and leader epoch are under no checksum. In order of their base offsets, the epochs would go back."""
    partition = copy_of(EPOCHS)
    rows = [batch for batch in batches(partition) if batch.name == next(iter(batches(partition))).name]
    path, size = logs(partition)[0], len(rows[0].data)
    row = [bytearray(rows[0].data) for _ in range(4)]
    width = int.from_bytes(rows[0].data[23:27], "big") + 1
    for data, place, epoch in zip(row, (0, 2, 1, 3), (1, 2, 3, 3), strict=True):
        data[:8], data[12:16] = (place * width).to_bytes(8, "big"), epoch.to_bytes(4, "big")
    for other in (*logs(partition)[1:], partition / "leader-epoch-checkpoint"):
        other.unlink()
    path.write_bytes(b"".join(row))
    plan, kept = salvage(partition)
    assert plan.answer["rejected"] == []
    assert [batch.position for batch in kept] == [n * size for n in range(4)]


@pytest.mark.parametrize("n", range(1, 7))
def test_a_batch_that_is_there_twice_never_gets_other_offsets(copy_of: CopyOf, salvage: Salvage, n: int) -> None:
    """Also where a cleaner left room for it."""
    partition = copy_of(EPOCHS)
    before = list(batches(partition))
    path, doubled = nth(partition, n)
    kept_batches = [batch for batch in before if batch.name == doubled.name and batch not in before[n - 1 : n]]
    path.write_bytes(b"".join(b.data * (1 + (b is before[n])) for b in kept_batches))
    assert same(salvage(partition)[1], [batch for batch in before if batch not in before[n - 1 : n]])


def test_a_leader_epoch_between_different_ones_is_by_the_checkpoint(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    before = list(batches(partition))
    epochs = [int.from_bytes(b.data[12:16], "big") for b in before]
    n = next(n for n in range(1, len(before) - 1) if epochs[n - 1] < epochs[n])
    path, batch = nth(partition, n)
    overwrite(path, batch.position + AT["partition_leader_epoch"], (77).to_bytes(4, "big"))
    assert same(salvage(partition)[1], before)
    (partition / "leader-epoch-checkpoint").unlink()
    plan, _ = salvage(partition)
    assert (loss(plan)["cause"], loss(plan)["start"]) == ("batch-header", batch.position)


def test_a_last_batch_goes_where_the_next_leader_began(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    before = [batch for batch in batches(partition) if batch.last_offset < 52]  # leader epoch 4 begins at 52
    path, batch = nth(partition, len(before) - 1)
    tear_at(path, batch.end)
    overwrite(path, batch.position + 4, b"\x01")
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert [mended["field"] for mended in plan.answer["mended"]] == ["base_offset"]


def test_an_offset_that_nothing_tells_is_not_guessed(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    before = list(batches(partition))
    overwrite(nth(partition, 4)[0], before[4].position, bytes(before[4].end - before[4].position + 8))
    plan, kept = salvage(partition)
    assert same(kept, before[:4] + before[6:])
    assert [part["cause"] for part in plan.answer["lost"]] == ["foreign-bytes", "offset-order"]
    assert (plan.answer["lost"][0]["first_offset"], plan.answer["lost"][0]["last_offset"]) == (15, 21)


def test_an_offset_may_be_told_by_the_header_of_a_damaged_batch(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    before = list(batches(partition))
    path, batch = nth(partition, 5)
    overwrite(path, batch.position - 30, bytes(38))
    plan, kept = salvage(partition)
    assert same(kept, before[:4] + before[5:])
    assert (loss(plan)["first_offset"], loss(plan)["last_offset"]) == (15, 16)


# ---------------------------------------------------------------- segments that do not fit each other


def test_a_copy_of_a_segment_under_a_lower_name_is_left_out(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(THREE_MAGICS)
    before = list(batches(partition))
    shutil.copy(partition / f"{120:020d}.log", partition / f"{100:020d}.log")
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert [part["cause"] for part in plan.answer["rejected"]] == ["segment-overlap"]
    assert (plan.answer["lost"][0]["first_offset"], plan.answer["lost"][0]["segment"]) == (None, 100)


@pytest.mark.parametrize("name", [100, 119, 123])
def test_a_segment_of_a_wrong_name_gets_its_own_again(copy_of: CopyOf, salvage: Salvage, name: int) -> None:
    partition = copy_of(THREE_MAGICS)
    before = list(batches(partition))
    (partition / f"{120:020d}.log").rename(partition / f"{name:020d}.log")
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert kept[-10].name != f"{name:020d}.log"
    assert plan.answer["lost"] == []


def cut_into(partition: Path, *ranges: range) -> list[bytes]:
    """The batches of a partition as contents of segments, each of a range of them; all its segments are deleted."""
    frames = [batch.data for batch in batches(partition)]
    for path in partition.glob("0*"):
        path.unlink()
    return [b"".join(frames[n] for n in each) for each in ranges]


@pytest.mark.parametrize("seed", range(16))
def test_segments_under_each_others_names_are_all_kept(copy_of: CopyOf, salvage: Salvage, seed: int) -> None:
    """Also where some of their batches are in two of them."""
    partition = copy_of(EPOCHS)
    before = list(batches(partition))
    chance = random.Random(seed)
    twice = chance.choice([0, 0, 1])
    places = range(2, len(before) - 1, 2) if twice else range(1, len(before))  # else some have one batch alone
    edges = [0, *sorted(chance.sample(places, chance.randint(1, 3))), len(before)]
    ranges = [range(max(0, low - twice), high) for low, high in itertools.pairwise(edges)]
    names = [before[low].first_offset for low in edges[:-1]]
    contents = cut_into(partition, *ranges)
    for name, content in zip(chance.sample(names, len(names)), contents, strict=True):
        (partition / f"{name:020}.log").write_bytes(content)
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert [lost["first_offset"] for lost in plan.answer["lost"]] == [None] * len(plan.answer["rejected"])


@pytest.mark.parametrize("name", range(1, 12))
def test_a_first_segment_under_a_name_that_is_too_high_is_kept_whole(
    copy_of: CopyOf, salvage: Salvage, name: int
) -> None:
    """Also if one batch alone is below its name: the next one begins where that one ends."""
    partition = copy_of(EPOCHS)
    before = list(batches(partition))
    count = sum(batch.last_offset < 12 for batch in before) + 1
    first, rest = cut_into(partition, range(count), range(count, len(before)))
    (partition / f"{name:020}.log").write_bytes(first)
    (partition / f"{before[count].first_offset:020}.log").write_bytes(rest)
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert (plan.answer["lost"], plan.answer["rejected"]) == ([], [])


def test_a_swapped_segment_stands_for_those_that_are_gone(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(THREE_MAGICS)
    before = list(batches(partition))
    (partition / f"{120:020d}.log").rename(partition / f"{120:020d}.log.swap")
    plan, kept = salvage(partition)
    assert same(kept, before)
    assert [part["from"] for part in plan.answer["filled"]] == [str(partition / f"{120:020d}.log.swap")]


# ---------------------------------------------------------------- other copies


@pytest.fixture
def replica(copy_of: CopyOf, tmp_path: Path) -> Callable[[str], Path]:
    """`replica("leader-epochs/logdir/t-0")`: another copy of it."""

    def make(name: str) -> Path:
        target = Path(tempfile.mkdtemp(dir=tmp_path)) / Path(name).name
        shutil.copytree(FIXTURES / name, target)
        return target

    return make


Replica = Callable[[str], Path]


def test_a_hole_is_filled_from_a_copy(copy_of: CopyOf, replica: Replica, salvage: Salvage) -> None:
    partition, other = copy_of(EPOCHS), replica(EPOCHS)
    before = list(batches(partition))
    path, batch = nth(partition, 5)
    zero_from(path, batch.position)
    plan, kept = salvage(partition, other)
    assert same(kept, before)
    assert plan.answer["lost"] == []
    assert plan.answer["filled"][0]["from"] == str(other)
    assert plan.answer["filled"][0]["first_offset"] == batch.first_offset


def test_a_segment_that_is_gone_comes_back_under_its_name(copy_of: CopyOf, replica: Replica, salvage: Salvage) -> None:
    partition, other = copy_of(THREE_MAGICS), replica(THREE_MAGICS)
    before = list(batches(partition))
    for kind in ("log", "index", "timeindex"):
        (partition / f"{120:020d}.{kind}").unlink(missing_ok=True)
    plan, kept = salvage(partition, other)
    assert kept == before
    assert [(v.segment, v.action) for v in plan.segments if v.action != "keep"] == [(120, "new")]


def test_a_copy_may_have_other_segments_and_damages(copy_of: CopyOf, replica: Replica, salvage: Salvage) -> None:
    partition, first, second = copy_of(EPOCHS), replica(EPOCHS), replica(EPOCHS)
    before = list(batches(partition))
    whole = b"".join(path.read_bytes() for path in logs(first))
    for path in logs(first)[1:]:
        path.unlink()
    logs(first)[0].write_bytes(whole)
    flip_bit(logs(first)[0], list(batches(first))[4].position + 80)
    for n in (3, 4, 5):
        path, batch = nth(partition, n)
        flip_bit(path, batch.position + 80)
    plan, kept = salvage(partition, first, second)
    assert same(kept, before)
    assert [Path(part["from"]) for part in plan.answer["filled"]] == [first, second, first]
    plan, kept = salvage(partition, first)
    assert same(kept, [b for n, b in enumerate(before) if n != 4])
    assert loss(plan)["first_offset"] == before[4].first_offset


def test_a_torn_log_goes_on_as_the_copy_does(copy_of: CopyOf, replica: Replica, salvage: Salvage) -> None:
    partition, other = copy_of(EPOCHS), replica(EPOCHS)
    before = list(batches(partition))
    path, batch = nth(partition, -3)
    tear_at(path, batch.position + 20)
    for later in logs(partition):
        if later.name > path.name:
            later.unlink()
    plan, kept = salvage(partition, other)
    assert same(kept, before)
    assert any("continues where this log is cut off" in note for note in map(words, plan.notes))


def test_a_log_with_a_sound_end_does_not_go_on(copy_of: CopyOf, replica: Replica, salvage: Salvage) -> None:
    partition, other = copy_of("every-codec/logdir/create-0"), replica("every-codec/logdir/create-0")
    path, batch = nth(partition, -1)
    tear_at(path, batch.position)
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    plan, kept = salvage(partition, other)
    assert kept[-1].last_offset + 1 == batch.first_offset
    assert any("not taken, because the end of this log is sound" in note for note in map(words, plan.notes))
    plan, kept = salvage(partition, other, high_watermark=batch.last_offset + 1)
    assert kept[-1].last_offset == batch.last_offset


def test_a_log_that_ends_before_its_high_watermark_has_lost_its_end(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(EPOCHS)
    plan, _ = salvage(partition, high_watermark=100)
    assert loss(plan) == {
        "segment": 78,
        "start": 0,
        "end": 0,
        "first_offset": 78,
        "last_offset": 99,
        "cause": "segment-missing",
    }


def with_epoch(partition: Path, from_batch: int, epoch: int) -> None:
    """From a batch on, all are of another leader, and have other bytes."""
    for n, batch in enumerate(list(batches(partition))):
        if n >= from_batch:
            overwrite(partition / batch.name, batch.position + AT["partition_leader_epoch"], epoch.to_bytes(4, "big"))


def test_a_copy_of_another_leader_does_not_fill(copy_of: CopyOf, replica: Replica, salvage: Salvage) -> None:
    name = "every-codec/logdir/create-0"
    partition, other = copy_of(name), replica(name)
    before = list(batches(partition))
    with_epoch(other, 4, 5)
    path, batch = nth(partition, 5)
    flip_bit(path, batch.position + 80)
    plan, kept = salvage(partition, other)
    assert same(kept, before[:5] + before[6:])
    assert plan.answer["filled"] == []
    assert any("are not taken" in note for note in map(words, plan.notes))


def test_where_copies_diverge_is_told(copy_of: CopyOf, replica: Replica, salvage: Salvage) -> None:
    partition, other = copy_of(EPOCHS), replica(EPOCHS)
    _, batch = nth(partition, 4)
    _, found = nth(other, 4)
    overwrite(other / found.name, found.position, rebuilt(found, max_timestamp=1))
    plan, _ = salvage(partition, other)
    assert plan.answer["diverging"] == [
        {"from": str(other), "first_offset": batch.first_offset, "last_offset": batch.last_offset}
    ]
    assert any(
        f"diverges at offsets {batch.first_offset} to {batch.last_offset}" in note for note in map(words, plan.notes)
    )


def test_what_is_no_copy_is_refused(copy_of: CopyOf, replica: Replica) -> None:
    partition = copy_of("every-codec/logdir/create-0")
    with pytest.raises(Refused, match="topic id"):
        plan_salvage(partition, FIXTURES / EPOCHS)
    with pytest.raises(Refused, match="it is partition 1, here it is 0"):
        plan_salvage(partition, FIXTURES / "every-codec/logdir/create-1")
    other = replica("magic-1/logdir/create-0").rename(partition.parent / "other")
    with pytest.raises(Refused, match="none in common"):
        plan_salvage(copy_of("magic-0/logdir/create-0"), other)


def test_small_files_that_are_damaged_come_from_the_copy(copy_of: CopyOf, replica: Replica, salvage: Salvage) -> None:
    partition, other = copy_of(EPOCHS), replica(EPOCHS)
    epochs = (partition / "leader-epoch-checkpoint").read_bytes()
    metadata = (partition / "partition.metadata").read_bytes()
    (partition / "leader-epoch-checkpoint").write_bytes(b"0\nx\n")
    (partition / "partition.metadata").write_bytes(b"")
    result = write_result(plan_salvage(partition, other), partition.parent / "with")
    assert (result / "leader-epoch-checkpoint").read_bytes() == epochs
    assert (result / "partition.metadata").read_bytes() == metadata
    plan, _ = salvage(partition)
    assert any("a broker treats the partition as a stray" in note for note in map(words, plan.notes))
    alone = write_result(plan, partition.parent / "alone")
    assert not (alone / "partition.metadata").exists()
    assert parse_leader_epoch_checkpoint((alone / "leader-epoch-checkpoint").read_bytes())


# ---------------------------------------------------------------- what a broker would stop at


def test_data_out_of_its_transaction_is_left_out(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(TRANSACTIONS)
    opened: set[bytes] = set()
    for batch in batches(partition):
        producer, bits = batch.data[43:51], batch.data[22] & 0x30
        if bits == 0x30:
            opened.discard(producer)
        elif bits == 0x10 and producer in opened:
            break
        elif bits == 0x10:
            opened.add(producer)
    overwrite(partition / batch.name, batch.position, rebuilt(batch, attributes=batch.data[22] & ~0x10))
    plan, kept = salvage(partition)
    assert batch.first_offset not in [b.first_offset for b in kept]
    assert (loss(plan)["cause"], loss(plan)["first_offset"]) == ("unloadable", batch.first_offset)


def test_a_transaction_whose_marker_is_lost_is_told(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(TRANSACTIONS)
    opened: dict[bytes, int] = {}
    markers = [b for b in batches(partition) if b.data[16] == 2 and b.data[22] & 0x30 == 0x30]
    for batch in batches(partition):
        if batch.data[22] & 0x30 == 0x10:
            opened.setdefault(batch.data[43:51], batch.first_offset)
    last = {marker.data[43:51]: marker for marker in markers}
    producer, marker = next((p, m) for p, m in last.items() if p in opened)
    flip_bit(partition / marker.name, marker.position + 65)
    plan, _ = salvage(partition)
    number = int.from_bytes(producer, "big", signed=True)
    assert any(
        f"transaction of producer {number}" in note and "its marker may be lost" in note
        for note in map(words, plan.notes)
    )


# ---------------------------------------------------------------- rejected bytes


def test_rejected_bytes_are_kept_with_a_manifest(copy_of: CopyOf) -> None:
    partition = copy_of(EPOCHS)
    path, batch = nth(partition, 5)
    flip_bit(path, batch.position + 70)
    damaged = path.read_bytes()[batch.position : batch.end]
    files = rejected_files(plan_salvage(partition))
    (manifest,) = files[MANIFEST]
    assert isinstance(manifest, bytes)
    (row,) = json.loads(manifest)["ranges"]
    assert (row["file"], row["start"], row["end"], row["cause"]) == (path.name, batch.position, batch.end, "batch-crc")
    assert set(files) == {MANIFEST, row["bytes"]}
    assert row["sha256"] == hashlib.sha256(damaged).hexdigest()


def test_bad_sectors_cost_what_lies_on_them(copy_of: CopyOf, salvage: Salvage, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = copy_of("groups/logdir/__consumer_offsets-0")
    before = list(batches(partition))
    (path,) = logs(partition)
    good, hit = [b for b in before if b.end <= 4096 or b.position >= 8192], range(4096, 8192)

    def fail_on_bad(fd: int, start: int, size: int) -> None:
        if os.path.samestat(os.fstat(fd), path.stat()) and start < hit.stop and hit.start < start + size:
            raise OSError(errno.EIO, "Input/output error")

    def pread(fd: int, size: int, at: int, read: Callable[[int, int, int], bytes] = os.pread) -> bytes:
        fail_on_bad(fd, at, size)
        return read(fd, size, at)

    def preadv(fd: int, views: list[memoryview], at: int, read: Callable[..., int] = os.preadv) -> int:
        fail_on_bad(fd, at, sum(map(len, views)))
        return read(fd, views, at)

    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.setattr(os, "preadv", preadv)
    plan = plan_salvage(partition)
    files = rejected_files(plan)
    assert {part["cause"] for part in plan.answer["lost"]} == {"unreadable"}
    rejected = b"".join(read_content(content) for name, content in sorted(files.items()) if name != MANIFEST)
    monkeypatch.undo()
    assert same(list(batches(write_result(plan, partition.parent / "result"))), good)
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    assert rejected == b"".join(data[part["start"] : part["end"]] for part in plan.answer["rejected"])


def test_nothing_rejected_makes_no_files(copy_of: CopyOf) -> None:
    assert rejected_files(plan_salvage(copy_of(EPOCHS))) == {}


def test_an_abort_that_only_the_index_knows_is_told(copy_of: CopyOf, salvage: Salvage) -> None:
    partition = copy_of(TRANSACTIONS)
    (aborted, *_) = [entry for path in partition.glob("*.txnindex") for entry in parse_txn_index(path.read_bytes())]
    marker = next(batch for batch in batches(partition) if batch.first_offset == aborted.last_offset)
    flip_bit(partition / marker.name, marker.position + 65)
    plan, _ = salvage(partition)
    told = f"the transaction of producer {aborted.producer_id}, offsets {aborted.first_offset} to {aborted.last_offset}"
    assert any(note.startswith(told) and "was aborted" in note for note in map(words, plan.notes))


def test_a_log_dir_is_too_much(copy_of: CopyOf) -> None:
    with pytest.raises(KlogError, match="name one of its partition dirs"):
        plan_salvage(copy_of("leader-epochs/logdir"))


def test_where_there_is_nothing_to_salvage(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    with pytest.raises(KlogError, match="no segment"):
        plan_salvage(tmp_path / "t-0")
    with pytest.raises(KlogError, match="no such file"):
        plan_salvage(tmp_path / "t-1")


# ---------------------------------------------------------------- any damage


SOUND = [
    THREE_MAGICS,
    EPOCHS,
    TRANSACTIONS,
    "transactions/logdir/input-0",
    "every-codec/logdir/create-0",
    "every-codec/logdir/append-2",
    "every-codec/logdir/create-4",
    "magic-0/logdir/create-1",
    "magic-1/logdir/create-3",
    "magic-1/logdir/append-0",
    "compacted/result-2/gone-0",
    "groups/logdir/__consumer_offsets-0",
]


def wound(rng: random.Random, partition: Path) -> tuple[str, int, int, int]:
    """Some bytes of some segment are flipped, zeroed, cut off, overwritten, taken out or put in: (file, start, end of
    what was touched, bytes put in)."""
    path = rng.choice([path for path in logs(partition) if path.stat().st_size])
    data = bytearray(path.read_bytes())
    at, size = rng.randrange(len(data)), rng.choice((1, 3, 17, 60, 200))
    end = min(len(data), at + size)
    kind = rng.choice(("flip", "zero", "tear", "overwrite", "insert"))
    # A file that ends where a batch does has nothing wrong with it.
    at += kind == "tear" and at in [frame.position for frame in frames_of(data)]
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
        end = at + 1
    elif kind == "insert":
        data[at:at] = rng.randbytes(size)
        path.write_bytes(data)
        return path.name, at, at, size
    else:
        data[at:] = b"" if kind == "tear" else (bytes if kind == "zero" else rng.randbytes)(end - at) + data[end:]
        end = 1 << 40 if kind == "tear" else end
    path.write_bytes(data)
    return path.name, at, end, 0


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(SOUND), seed=st.integers(0, 2**32))
def test_whatever_is_damaged_all_that_was_not_hit_is_kept(name: str, seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        partition = Path(shutil.copytree(FIXTURES / name, Path(scratch) / "log" / Path(name).name))
        before = list(batches(partition))
        file, start, end, _ = wound(rng, partition)
        plan = plan_salvage(partition)
        result = write_result(plan, Path(scratch) / "alone")
        check_laws(plan, result)
        kept = {batch.first_offset: batch.data for batch in batches(result)}
        for batch in before:
            is_hit = batch.name == file and batch.position < max(end, start) and start < batch.end
            assert is_hit or kept.get(batch.first_offset) == batch.data, f"lost {batch.name} at {batch.position}"
        high_watermark = before[-1].last_offset + 1
        plan = plan_salvage(partition, FIXTURES / name, high_watermark=high_watermark)
        result = write_result(plan, Path(scratch) / "filled")
        check_laws(plan, result)
        assert same(list(batches(result)), before)
        assert [part for part in plan.answer["lost"] if part["first_offset"] is not None] == []


# ---------------------------------------------------------------- in place


def test_steps_lead_from_what_was_to_what_is_to_be(copy_of: CopyOf, tmp_path: Path) -> None:
    partition = copy_of(THREE_MAGICS)
    flip_bit(partition / f"{82:020d}.log", 700)
    (partition / f"{120:020d}.log").rename(partition / f"{119:020d}.log")
    (partition / f"{0:020d}.log.cleaned").write_bytes(b"x")
    (partition / f"{0:020d}.index.deleted").write_bytes(b"x")
    plan = plan_salvage(partition)
    there = {path.name for path in partition.iterdir()}
    for step in plan.steps:
        if isinstance(step, Delete):
            there.remove(step.path)
        else:
            base, kind = step.path.split(".")[0], step.path.rpartition(".")[2]
            assert kind != "log" or f"{base}.index" not in there, "an index of another log"
            assert kind != "index" or f"{base}.log" in there
            there.add(step.path)
    result = write_result(plan, tmp_path / "result")
    assert there == {path.name for path in result.iterdir()}
    assert [step.path for step in plan.steps][-2:] == [f"{0:020d}.index.deleted", f"{0:020d}.log.cleaned"]


# ---------------------------------------------------------------- both readers


@pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")
@pytest.mark.parametrize("name", SOUND)
def test_both_readers_decide_the_same(copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    partition = copy_of(name)
    rng = random.Random(name)
    for _ in range(4):
        wound(rng, partition)
    by_kernel = plan_salvage(partition, FIXTURES / name)
    monkeypatch.setattr(kernels, "native", kernels.absent)
    assert plan_salvage(partition, FIXTURES / name).as_row(words) == by_kernel.as_row(words)
