"""compact: laws that hold whatever Kafka says, and rules one by one; tests/kafka has Kafka's word for random logs."""

from __future__ import annotations

import os
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import deciding
import pytest
from damage import heal_checksums
from kafka import layout
from loading import NOW_MS, make, marker, result_of, times_behind
from raw_batches import build_batch
from readers import READERS, Reader, Watched
from running import run_here

from klogtool.errors import KlogError
from klogtool.format.batch import Header, Record, RecordBatch, parse_batch
from klogtool.format.framing import walk_frames
from klogtool.format.indexes import AbortedTxn, build_txn_index
from klogtool.format.message import build_message, build_message_set, parse_message, walk_messages
from klogtool.plans.plan import Plan, Rename
from klogtool.render.words import in_words

LATER_MS = NOW_MS + 10**8
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "1000"}


@pytest.fixture(autouse=True, params=READERS)
def native(request: pytest.FixtureRequest) -> Iterator[Watched | None]:
    """Everything holds for the reference, and for the kernels; this is what counts their calls."""
    with Reader(request.param).reading() as native:
        yield native


def test_the_reader_that_is_meant_is_the_one_that_runs(tmp_path: pathlib.Path, native: Watched | None) -> None:
    decided(random_log(tmp_path / "t-0", 1, 4))
    assert native is None or (native.asked["MapFiller"] > 0 and native.asked["BatchCleaner"] > 0)


def decided(folder: pathlib.Path, **asked: Any) -> Plan:
    config = COMPACT | asked.pop("config", {})
    (plan,) = deciding.decided("compact", str(folder), {"now_ms": LATER_MS, "jobs": 1, **asked, "config": config})
    return plan


def logs_of(files: dict[str, bytes]) -> dict[int, bytes]:
    return {int(name[:20]): data for name, data in sorted(files.items()) if name.endswith(".log")}


def batches_of(files: dict[str, bytes]) -> list[RecordBatch]:
    logs = logs_of(files)
    return [parse_batch(data, frame.position) for data in logs.values() for frame in walk_frames(data, 0, len(data))]


def records_of(files: dict[str, bytes]) -> list[Record]:
    return [record for batch in batches_of(files) if not batch.is_control for record in batch.records()]


def random_batches(rng: random.Random, start: int, count: int, keys: int) -> Iterator[bytes]:
    """Batches of a few records, some of them tombstones, now and then with offsets missing between them."""
    offset = start
    for _ in range(count):
        records = []
        for _ in range(rng.randint(1, 5)):
            value = None if rng.random() < 0.2 else b"value %d" % offset
            records.append(Record(offset, NOW_MS + offset, b"key %d" % rng.randrange(keys), value))
            offset += rng.choice((1, 1, 1, 3))
        yield build_batch(records, codec=rng.choice(("none", "none", "gzip", "lz4", "zstd", "snappy")))


def random_log(folder: pathlib.Path, seed: int, keys: int) -> pathlib.Path:
    rng, logs, offset = random.Random(seed), {}, 0
    for _ in range(5):
        batches = list(random_batches(rng, offset, 8, keys))
        logs[offset] = b"".join(batches)
        offset = parse_batch(batches[-1]).last_offset + 1
    return make(folder, logs)


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [1, 6, 40])
@pytest.mark.parametrize("seed", range(6))
def test_the_last_value_of_each_key_is_a_dicts_and_nothing_else_of_the_clean_part_stays(
    tmp_path: pathlib.Path, seed: int, keys: int
) -> None:
    folder = random_log(tmp_path / "t-0", seed, keys)
    before = records_of(files_of(folder))
    plan = decided(folder)
    after = records_of(result_of(plan))
    assert {r.key: r.value for r in after} == {r.key: r.value for r in before}
    bound = plan.answer["passes"][0]["bound"]
    cleaned, kept = [r for r in after if r.offset < bound], [r for r in before if r.offset < bound]
    assert len({r.key for r in cleaned}) == len(cleaned)
    assert {r.key: (r.offset, r.timestamp, r.value) for r in kept} == {
        r.key: (r.offset, r.timestamp, r.value) for r in cleaned
    }
    assert [r for r in after if r.offset >= bound] == [r for r in before if r.offset >= bound]
    offsets = [r.offset for r in after]
    assert offsets == sorted(set(offsets))


@pytest.mark.parametrize("seed", range(4))
def test_what_was_read_is_what_was_kept_and_what_went(tmp_path: pathlib.Path, seed: int) -> None:
    plan = decided(random_log(tmp_path / "t-0", seed, 8))
    (row,) = plan.answer["passes"]
    assert row["stats"]["messages_read"] == row["stats"]["messages_written"] + sum(row["gone"].values())
    for verdict in plan.segments:
        assert verdict.reason


@pytest.mark.parametrize("seed", range(4))
def test_a_second_run_with_the_same_clock_has_nothing_to_do(tmp_path: pathlib.Path, seed: int) -> None:
    plan = decided(random_log(tmp_path / "t-0", seed, 8))
    again = put(tmp_path / "again" / "t-0", result_of(plan))
    second = decided(again, first_dirty_offset=plan.answer["cleaner_checkpoint"])
    assert not second.answer["passes"][0]["eligible"]
    assert "end_offset" not in second.answer["passes"][0]
    forced = decided(again, first_dirty_offset=plan.answer["cleaner_checkpoint"], force=True)
    assert logs_of(result_of(forced)) == logs_of(result_of(plan))


@pytest.mark.parametrize("room", [3, 5, 9])
def test_a_map_that_is_too_small_takes_several_passes_and_ends_at_the_same(tmp_path: pathlib.Path, room: int) -> None:
    folder = random_log(tmp_path / "t-0", 7, 12)
    config = {"log.cleaner.dedupe.buffer.size": str(24 * room), "delete.retention.ms": str(10**12)}
    many = decided(folder, passes_at_ms=[LATER_MS] * 60, config=config)
    once = decided(folder, config={"delete.retention.ms": str(10**12)})
    ends = [row["end_offset"] for row in many.answer["passes"] if row["eligible"]]
    assert 60 > len(ends) > 3
    assert ends == sorted(ends)
    assert ends[-1] == once.answer["cleaner_checkpoint"] == many.answer["cleaner_checkpoint"]
    assert {r.key: r.offset for r in records_of(result_of(many))} == {
        r.key: r.offset for r in records_of(result_of(once))
    }


def test_nothing_at_or_above_the_first_uncleanable_offset_is_touched(tmp_path: pathlib.Path) -> None:
    folder = random_log(tmp_path / "t-0", 3, 5)
    logs = logs_of(files_of(folder))
    bound = sorted(logs)[2]
    after = logs_of(result_of(decided(folder, high_watermark=bound + 1)))
    assert {base: data for base, data in after.items() if base >= bound} == {
        base: data for base, data in logs.items() if base >= bound
    }


def test_keys_are_told_apart_exactly(tmp_path: pathlib.Path) -> None:
    """MD5 sums of these two are equal (a published pair), so Kafka drops the first; klogtool keeps both."""
    one = bytes.fromhex(
        "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a"
        "085125e8f7cdc99fd91dbdf280373c5bd8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0"
        "e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70"
    )
    other = bytearray(one)
    for at in (19, 59, 83, 123):
        other[at] ^= 0x80
    other[45] ^= 0x80
    other[109] ^= 0x80
    records = [Record(0, NOW_MS, one, b"1"), Record(1, NOW_MS, bytes(other), b"2")]
    folder = make(tmp_path / "t-0", {0: build_batch(records), 2: build_batch([Record(2, NOW_MS, b"k", b"3")])})
    assert [r.value for r in records_of(result_of(decided(folder)))] == [b"1", b"2", b"3"]


# --- rules ------------------------------------------------------------------------------------------------------------


def keyed(offset: int, key: bytes | None, value: bytes | None = b"v", **header: Any) -> bytes:
    return build_batch([Record(offset, NOW_MS + offset, key, value)], **header)


def test_a_tombstone_gets_a_horizon_stays_until_then_and_its_batch_keeps_it(tmp_path: pathlib.Path) -> None:
    logs = {0: keyed(0, b"a", None) + keyed(1, b"b"), 2: keyed(2, b"c")}
    folder = make(tmp_path / "t-0", logs)
    first = result_of(decided(folder))
    assert [b.delete_horizon_ms for b in batches_of(first)] == [LATER_MS + 1000, None, None]
    for late_ms, left in ((999, [b"a", b"b", b"c"]), (1000, [b"b", b"c"])):
        again = put(tmp_path / str(late_ms) / "t-0", first)
        files = result_of(decided(again, now_ms=LATER_MS + late_ms))
        assert [r.key for r in records_of(files)] == left
        # Not a second more for each cleaning (KAFKA-8522); a batch without its tombstone keeps none.
        horizons = {b.delete_horizon_ms for b in batches_of(files) if any(r.value is None for r in b.records())}
        assert horizons <= {LATER_MS + 1000}


def test_an_empty_value_is_no_tombstone(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: keyed(0, b"a", b"") + keyed(1, b"b"), 2: keyed(2, b"c")})
    assert [b.delete_horizon_ms for b in batches_of(result_of(decided(folder)))] == [None, None, None]


def test_the_last_batch_of_a_producer_stays_emptied_at_offset_0_too(tmp_path: pathlib.Path) -> None:
    """Cleaner.cleanInto: offset 0 is one, and the producer's next start needs its sequence."""
    producer = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    folder = make(tmp_path / "t-0", {0: keyed(0, b"a", **producer) + keyed(1, b"a"), 2: keyed(2, b"c")})
    kept = [(b.base_offset, b.records_count) for b in batches_of(result_of(decided(folder, loaded_at_ms=NOW_MS)))]
    assert kept == [(0, 0), (1, 1), (2, 1)]


def test_of_an_aborted_transaction_the_marker_goes_last(tmp_path: pathlib.Path) -> None:
    producer = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    logs = {0: keyed(0, b"a", **producer) + marker(1, 9) + keyed(2, b"b"), 3: keyed(3, b"c")}
    folder = make(tmp_path / "t-0", logs)
    (folder / f"{0:020d}.txnindex").write_bytes(build_txn_index([AbortedTxn(0, 9, 0, 1, 2)]))
    # Nobody knows the producer any more: no batch stays for its sake.
    seen = []
    for n, now_ms in enumerate((LATER_MS, LATER_MS + 1, LATER_MS + 5000)):
        files = result_of(decided(folder, now_ms=now_ms, loaded_at_ms=LATER_MS))
        seen.append(([b.base_offset for b in batches_of(files)], bool(files.get(f"{0:020d}.txnindex"))))
        folder = put(tmp_path / str(n) / "t-0", files)
    assert seen == [([1, 2, 3], True), ([1, 2, 3], False), ([2, 3], False)]


def test_records_without_a_key_go_and_are_told(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: keyed(0, None) + keyed(1, b"a"), 2: keyed(2, b"b")})
    plan = decided(folder)
    assert plan.answer["passes"][0]["gone"] == {"keyless": 1}
    assert [r.offset for r in records_of(result_of(plan))] == [1, 2]


def test_a_batch_with_a_wrong_checksum_that_replaces_a_sound_record_is_told(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: keyed(0, b"a") + keyed(1, b"a"), 2: keyed(2, b"b")})
    assert not any("checksum" in str(note) for note in decided(folder).notes)
    log = folder / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-2] + b"!\0")  # the value's last byte, before the number of headers
    (note,) = (note for note in map(str, decided(folder).notes) if "checksum" in note)
    assert note.startswith(f"1 batch has a wrong checksum, the first at byte {len(keyed(0, b'a'))} of {log.name}")
    assert [record.offset for record in records_of(result_of(decided(folder)))] == [1, 2]  # as a broker does it


def test_all_batches_with_a_wrong_checksum_are_counted(tmp_path: pathlib.Path) -> None:
    """In any segment and place: first, last, one after another."""
    for wrong in ((0,), (2,), (3,), (0, 1, 2), (1, 4), (3, 4, 5), (0, 1, 2, 3, 4, 5)):
        batches = [keyed(offset, b"k%d" % (offset % 2)) for offset in range(6)]
        segments = {0: batches[:3], 3: batches[3:], 6: [keyed(6, b"z")]}
        folder = make(tmp_path / f"t{'-'.join(map(str, wrong))}-0", segments)
        changed = [data[:-2] + b"!\0" if n in wrong else data for n, data in enumerate(batches)]
        for base in (0, 3):
            (folder / f"{base:020d}.log").write_bytes(b"".join(changed[base : base + 3]))
        (note,) = (note for note in map(str, decided(folder).notes) if "checksum" in note)
        assert note.startswith(f"{len(wrong)} batch"), (wrong, note)


def test_an_empty_key_is_a_key(tmp_path: pathlib.Path) -> None:
    """Cleaner.shouldRetainRecord asks hasKey, which is a size of -1."""
    folder = make(tmp_path / "t-0", {0: keyed(0, b"") + keyed(1, b"a") + keyed(2, b""), 3: keyed(3, b"b")})
    plan = decided(folder)
    assert plan.answer["passes"][0]["gone"] == {"superseded": 1}
    assert [r.offset for r in records_of(result_of(plan))] == [1, 2, 3]


def test_a_header_key_that_is_no_text_is_replaced_when_its_batch_is_built_anew(tmp_path: pathlib.Path) -> None:
    headers = (Header(b"\xed\xa0\x80", None),)
    records = [Record(0, NOW_MS, b"a", b"1"), Record(1, NOW_MS, b"b", b"2", headers), Record(2, NOW_MS, b"a", b"3")]
    folder = make(tmp_path / "t-0", {0: build_batch(records), 3: keyed(3, b"c")})
    kept = records_of(result_of(decided(folder)))
    assert [(r.offset, r.headers) for r in kept] == [
        (1, (Header("\ufffd".encode(), None),)),
        (2, ()),
        (3, ()),
    ]


def test_offsets_that_fit_no_segment_split_it_and_the_log_is_cleaned_later(tmp_path: pathlib.Path) -> None:
    """KAFKA-6264: such segments are from before 2.0."""
    folder = make(tmp_path / "t-0", {0: keyed(0, b"a"), 1: keyed(1, b"z")})
    far = 2**31 + 5
    (folder / f"{0:020d}.log").write_bytes(keyed(0, b"a") + keyed(far, b"b"))
    (folder / f"{1:020d}.log").rename(folder / f"{far + 1:020d}.log")
    (folder / f"{far + 1:020d}.log").write_bytes(keyed(far + 1, b"z"))
    plan = decided(folder, last_stop="clean")
    (row,) = plan.answer["passes"]
    assert (row["split"], row["end_offset"], row["stats"]["messages_read"]) == (True, 0, 0)
    assert sorted(logs_of(result_of(plan))) == [0, far, far + 1]


def test_segments_that_are_too_far_apart_are_not_joined(tmp_path: pathlib.Path) -> None:
    """KAFKA-5413: their offsets fit no index of one segment."""
    far = 2**31 + 5
    logs = {0: keyed(0, b"a"), far: keyed(far, b"b"), far + 1: keyed(far + 1, b"c"), far + 2: keyed(far + 2, b"d")}
    plan = decided(make(tmp_path / "t-0", logs), last_stop="clean")
    assert plan.answer["passes"][0].get("split", False) is False
    assert list(logs_of(result_of(plan))) == [0, far, far + 2]


def test_a_batch_that_is_built_anew_keeps_its_codec(tmp_path: pathlib.Path) -> None:
    """Whatever the topic's setting is (KAFKA-20036)."""
    both = build_batch([Record(n, NOW_MS, b"%d" % n, b"v" * 99) for n in range(2)], codec="gzip")
    plan = decided(
        make(tmp_path / "t-0", {0: both, 2: keyed(2, b"0"), 3: keyed(3, b"b")}), config={"compression.type": "zstd"}
    )
    first, *_ = batches_of(result_of(plan))
    assert (first.codec, [r.offset for r in first.records()]) == ("gzip", [1])


def test_messages_of_another_magic_in_a_wrapper_get_that_of_the_wrapper(tmp_path: pathlib.Path) -> None:
    """KAFKA-4298: the cleaner of 0.10.0 left messages of magic 0 in wrappers of magic 1."""
    inside = b"".join(layout.Message(n, 0, 0, -1, b"k%d" % n, b"v").build() for n in range(2))
    mixed = layout.Message(1, 1, 1, 5, None, layout.compress(1, inside)).build()
    files = result_of(decided(make(tmp_path / "t-0", {0: mixed, 2: keyed(2, b"b")}), keep_magic=True))
    wrapper = parse_message(logs_of(files)[0])
    assert [(part.magic, part.offset, part.key) for part in walk_messages(wrapper)] == [(1, 0, b"k0"), (1, 1, b"k1")]


def test_old_messages_become_batches_of_magic_2_or_stay_what_they_are(tmp_path: pathlib.Path) -> None:
    logs = {0: build_message(0, b"a", b"1", magic=1, timestamp=5) + build_message(1, b"a", b"2", magic=1, timestamp=6)}
    folder = make(tmp_path / "t-0", {**logs, 2: keyed(2, b"b")})
    (new,) = [b for b in batches_of(result_of(decided(folder))) if b.base_offset == 1]
    assert (new.magic, new.producer_id, [r.value for r in new.records()]) == (2, -1, [b"2"])
    kept = logs_of(result_of(decided(folder, keep_magic=True)))[0]
    assert kept == build_message(1, b"a", b"2", magic=1, timestamp=6)


def test_tombstones_of_old_get_a_horizon_where_they_become_magic_2(tmp_path: pathlib.Path) -> None:
    """MemoryRecords.filterTo. Where they stay what they are, no byte changes: nothing is compressed anew."""
    records = [Record(n, 5, b"key %d" % n, None) for n in range(50)]
    old = build_message_set(records, magic=1, codec="gzip", level=1)
    assert old != build_message_set(records, magic=1, codec="gzip")
    folder = make(tmp_path / "t-0", {0: old, 50: keyed(50, b"b")})
    assert batches_of(result_of(decided(folder, force=True)))[0].delete_horizon_ms == LATER_MS + 1000
    assert logs_of(result_of(decided(folder, force=True, keep_magic=True)))[0] == old


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_that_do_not_decompress_are_told_by_file_and_byte(tmp_path: pathlib.Path, codec: str) -> None:
    first = keyed(0, b"a")
    folder = make(tmp_path / "t-0", {0: first + keyed(1, b"b", b"v" * 500, codec=codec), 2: keyed(2, b"c")})
    log = folder / f"{0:020}.log"
    damaged = bytearray(log.read_bytes())
    damaged[-8:] = b"\xff" * 8
    heal_checksums(damaged)
    log.write_bytes(damaged)
    with pytest.raises(KlogError) as refused:
        decided(folder)
    assert (refused.value.path, refused.value.position) == (str(log), len(first))


def test_an_old_message_that_would_have_to_be_emptied_refuses_the_pass(tmp_path: pathlib.Path) -> None:
    folder = make(tmp_path / "t-0", {0: build_message(0, None, b"1", magic=1), 1: keyed(1, b"b")})
    with pytest.raises(KlogError) as refused:
        decided(folder)
    assert refused.value.kafka_class == "IllegalStateException"


def test_a_partition_that_is_refused_leaves_the_others_to_be_done(tmp_path: pathlib.Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    refused = make(logs / "t-0", {0: build_message(0, None, b"1", magic=1), 1: keyed(1, b"b")})
    cleaned = make(logs / "t-1", {0: keyed(0, b"a"), 1: keyed(1, b"a"), 2: keyed(2, b"b")})
    before = files_of(refused)
    done = run_here(["compact", "logs", "--force", "--config=cleanup.policy=compact", "--apply", "--jobs=1"], tmp_path)
    assert done.status == 1, done.err
    assert b"t-0: refused, as it stays: " in done.out
    assert b"(IllegalStateException)" in done.out
    assert files_of(refused) == before
    assert any(name.endswith(".log.deleted") for name in files_of(cleaned))
    assert run_here(["undo", "--journal", f"{logs}.klogtool"], tmp_path).status == 0


@pytest.mark.parametrize("jobs", [1, 3])
def test_several_paths_are_told_of_in_their_order(tmp_path: pathlib.Path, jobs: int) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for n in range(5):
        value: dict[int, bytes | list[bytes]] = {
            0: [keyed(at, b"%d" % (at % (n + 1))) for at in range(9)],
            9: keyed(9, b"x"),
        }
        make(logs / f"t-{n}", value)
    make(logs / "t-5", {0: build_message(0, None, b"1", magic=1), 1: keyed(1, b"b")})
    paths = [f"logs/t-{n}" for n in (3, 0, 4, 1, 2)]
    given = ["--force", "--config=cleanup.policy=compact", "--now=1800000000000", f"--jobs={jobs}"]
    done = run_here(["compact", *paths, *given], tmp_path)
    assert done.status == 0, done.err
    lines = [line for line in done.out.decode().splitlines() if " records go, " in line]
    told = [f"t-{n}: {8 - n} records go" for n in (3, 0, 4, 1, 2)]
    assert [line.partition(",")[0] for line in lines] == told
    refused = run_here(["compact", *paths, "logs/t-5", *given, "--apply"], tmp_path)
    assert (refused.status, "IllegalState" in refused.err or "mpty" in refused.err) == (3, True), refused.err
    assert not list(logs.rglob("*.deleted"))


def test_what_is_not_due_and_what_is_not_compacted_is_left_alone(tmp_path: pathlib.Path) -> None:
    folder = random_log(tmp_path / "t-0", 1, 4)
    bases = sorted(logs_of(files_of(folder)))
    lazy = decided(folder, first_dirty_offset=bases[-2], config={"min.cleanable.dirty.ratio": "0.9"})
    assert not lazy.steps
    assert "needs more than 0.9" in in_words(lazy.result)["passes"][0]["why"]
    other = decided(folder, config={"cleanup.policy": "delete", "retention.ms": "-1"})
    assert not other.steps
    assert in_words(other.result)["passes"][0]["why"].startswith("cleanup.policy has no compact")


def test_force_over_a_log_dir_leaves_what_is_not_compacted_alone(tmp_path: pathlib.Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    folder = make(logs / "t-0", {0: keyed(0, b"a"), 1: keyed(1, b"a"), 2: keyed(2, b"b")})
    before = files_of(folder)
    done = run_here(["compact", "logs", "--force", "--apply"], tmp_path)
    assert (done.status, b"t-0: cleanup.policy has no compact" in done.out) == (0, True), done
    assert files_of(folder) == before
    assert run_here(["compact", "logs/t-0", "--force"], tmp_path).status == 3  # nobody says that it is compacted
    given = ["compact", "logs/t-0", "--force", "--config", "cleanup.policy=compact"]
    assert b"1 record goes, 1 stays" in run_here(given, tmp_path).out


def test_steps_go_by_the_brokers_protocol(tmp_path: pathlib.Path) -> None:
    config = {"segment.bytes": "600"}
    plan = decided(random_log(tmp_path / "t-0", 2, 6), config=config)
    renames = [step for step in plan.steps if isinstance(step, Rename)]
    order = [step.to.rpartition(".")[2] if step.to.endswith((".swap", ".deleted")) else "final" for step in renames]
    assert [word for n, word in enumerate(order) if not n or order[n - 1] != word] == ["swap", "deleted", "final"]
    swaps = [int(step.to[:20]) for step in renames if step.to.endswith(".log.swap")]
    finals = [int(step.to[:20]) for step in renames if step.to.endswith(".log")]
    assert swaps == sorted(swaps, reverse=True)
    assert finals == sorted(finals) == sorted(swaps)
    assert len(swaps) > 1


def test_a_segment_that_two_passes_replace_keeps_the_time_that_the_first_gave_it(tmp_path: pathlib.Path) -> None:
    """Also its indexes, if they have the same bytes as before the first pass: none."""
    logs = {base: keyed(base, b"same", b"v" * 100) for base in range(1, 5)} | {0: keyed(0, b"gone", None)}
    folder = make(tmp_path / "t-0", logs)
    for base in logs:
        os.utime(folder / f"{base:020d}.log", ns=((base + 1) * 10**9,) * 2)
    until_it_goes = [LATER_MS, LATER_MS + 999, LATER_MS + 1000]
    plan = decided(folder, passes_at_ms=until_it_goes, force=True, config={"segment.bytes": "150"})
    times = times_behind(plan)
    doomed = [name for name in times if name.endswith(".log.deleted")]
    assert len(doomed) > 1
    for name in doomed:
        for kind in ("index", "timeindex"):
            assert times[name.replace(".log.", f".{kind}.")] == times[name] == (int(name[:20]) + 1) * 10**9, name


def test_segments_that_become_one_have_the_time_of_the_last(tmp_path: pathlib.Path) -> None:
    """Cleaner.cleanSegments: retention by time and lookups go by it where no record has a time."""
    folder = make(tmp_path / "t-0", {base: keyed(base, b"k%d" % base) for base in range(4)})
    for base in range(4):
        os.utime(folder / f"{base:020d}.log", ns=((base + 1) * 10**9,) * 2)
    times = times_behind(decided(folder, force=True))
    assert [name for name in sorted(times) if name.endswith(".log")] == [f"{base:020d}.log" for base in (0, 3)]
    assert [times[f"{0:020d}.{kind}"] for kind in ("log", "index", "timeindex")] == [3 * 10**9] * 3
    assert times[f"{3:020d}.log"] == 4 * 10**9


@pytest.mark.parametrize("age_ms", [-1, 0, 1])
def test_a_tombstone_of_old_goes_by_the_time_of_the_last_clean_segment(tmp_path: pathlib.Path, age_ms: int) -> None:
    """Cleaner.doClean: it stays only where its segment is younger than that time, less delete.retention.ms."""
    logs = {0: build_message(0, b"a", None, magic=1, timestamp=5), 1: keyed(1, b"b"), 2: keyed(2, b"c")}
    folder = make(tmp_path / "t-0", {**logs, 3: keyed(3, b"d")})
    os.utime(folder / f"{1:020d}.log", ns=(NOW_MS * 10**6,) * 2)
    os.utime(folder / f"{0:020d}.log", ns=((NOW_MS - 1000 - age_ms) * 10**6,) * 2)
    kept = records_of(result_of(decided(folder, first_dirty_offset=2, force=True)))
    assert [record.key for record in kept] == [*[b"a"][: age_ms < 0], b"b", b"c", b"d"]


@pytest.mark.parametrize(("less", "chunks"), [(1, [3, 6]), (0, [4])])
def test_batches_are_written_together_until_what_is_kept_outgrows_the_buffer(
    tmp_path: pathlib.Path, less: int, chunks: list[int]
) -> None:
    """MemoryRecords.filterTo, in a release that makes an index entry for each write but the first. Tombstones are built
    anew, and header keys that are no text become longer: three of these batches fill the buffer, and one more joins."""
    headers = (Header(b"\xff" * 20, None),)
    old = [build_batch([Record(at, NOW_MS, b"k%d" % at, None, headers)]) for at in range(8)]
    folder = make(tmp_path / "t-0", {0: b"".join(old), 8: keyed(8, b"z")})
    built = result_of(decided(folder, kafka="3.9.0", force=True))[f"{0:020d}.log"]
    (new,) = {frame.size for frame in walk_frames(built, 0, len(built))}
    assert 4 * len(old[0]) < 3 * new
    config = {"log.cleaner.io.buffer.size": str(2 * (3 * new - less)), "index.interval.bytes": "0"}
    files = result_of(decided(folder, kafka="3.9.0", force=True, config=config))
    index = files[f"{0:020d}.index"]
    positions = [int.from_bytes(index[at + 4 : at + 8], "big") for at in range(0, len(index), 8)]
    assert positions == [new * batches for batches in chunks]


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def put(folder: pathlib.Path, files: dict[str, bytes]) -> pathlib.Path:
    folder.mkdir(parents=True)
    for name, data in files.items():
        if not name.endswith(".deleted"):
            (folder / name).write_bytes(data)
    return folder
