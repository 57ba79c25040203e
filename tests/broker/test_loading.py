"""What a broker's start does to a partition dir: LogLoader's rules, one by one, on logs of a few batches.

Three segments, 0, 4 and 8, of four batches of one record; each of another leader epoch.
"""

from __future__ import annotations

import gzip
import os
import pathlib
from collections.abc import Callable

import pytest
from damage import append_bytes, flip_bit, frames_of, overwrite, tear_at
from loading import (
    CONFIG,
    EPOCHS,
    NOW_MS,
    data,
    files_of,
    make,
    marker,
    name_of,
    names_of,
    plan,
    put,
    result_of,
    segment,
    times_behind,
)
from msgspec.structs import replace

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.unified_log.loaded_partition import load
from klogtool.broker.unified_log.rolling import roll
from klogtool.errors import KlogError, Refused
from klogtool.format.checkpoints import EpochEntry, parse_leader_epoch_checkpoint
from klogtool.format.indexes import (
    OFFSET_ENTRIES,
    TIME_ENTRIES,
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    build_txn_index,
    parse_txn_index,
)
from klogtool.format.message import build_message
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.render.words import in_words

BATCH = len(data(0))


@pytest.fixture
def partition(tmp_path: pathlib.Path) -> pathlib.Path:
    return make(tmp_path / "t-0", {base: segment(base, epoch=n) for n, base in enumerate((0, 4, 8), 1)})


def log(partition: pathlib.Path, base: int) -> pathlib.Path:
    return partition / name_of(base, "log")


def epochs(files: dict[str, bytes]) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in parse_leader_epoch_checkpoint(files[EPOCHS])]


# ---------------------------------------------------------------- nothing wrong


@pytest.mark.parametrize("clean", [True, False])
def test_a_sound_log_stays_as_it_is(partition: pathlib.Path, clean: bool) -> None:
    before = files_of(partition)
    made = plan(partition, clean=clean)
    assert made.steps == ()
    assert result_of(made) == before
    assert (made.answer["log_start_offset"], made.answer["log_end_offset"]) == (0, 12)
    assert made.answer["recovered"] == ([] if clean else [0, 4, 8])
    assert not made.answer["loses_records"]


def test_what_recovery_writes(partition: pathlib.Path) -> None:
    files = files_of(partition)
    assert OFFSET_ENTRIES.parse(files[name_of(4, "index")], 4) == [
        OffsetIndexEntry(4 + n, n * BATCH) for n in range(1, 4)
    ]
    times = TIME_ENTRIES.parse(files[name_of(4, "timeindex")], 4)
    assert times[-1] == TimeIndexEntry(1_700_000_000_000 + 7000, 7)
    assert epochs(files) == [(1, 0), (2, 4), (3, 8)]
    assert names_of(files, "snapshot") == [4, 8, 12]


# ---------------------------------------------------------------- damage


def test_behind_a_cut_nothing_stays(partition: pathlib.Path) -> None:
    flip_bit(log(partition, 4), BATCH + 65)
    made = plan(partition)
    files = result_of(made)
    assert made.answer["truncated"] == [
        {"segment": 4, "position": BATCH, "bytes": 3 * BATCH, "reason": made.answer["truncated"][0]["reason"]}
    ]
    assert made.answer["truncated"][0]["reason"].startswith("Record is corrupt")
    assert (made.answer["deleted_segments"], made.answer["log_end_offset"]) == ([8], 5)
    assert made.answer["loses_records"]
    assert (names_of(files, "log"), names_of(files, "log.deleted")) == ([0, 4], [8])
    assert files[name_of(4, "log")] == data(4, epoch=2)
    assert epochs(files) == [(1, 0), (2, 4)]
    assert names_of(files, "snapshot") == [4, 5]


@pytest.mark.parametrize(("clean", "recovery_point"), [(True, None), (False, 8)])
def test_below_the_recovery_point_and_after_a_clean_stop_nobody_looks(
    partition: pathlib.Path, clean: bool, recovery_point: int | None
) -> None:
    flip_bit(log(partition, 4), BATCH + 65)
    made = plan(partition, clean=clean, recovery_point=recovery_point)
    assert (made.answer["truncated"], made.answer["log_end_offset"]) == ([], 12)


def test_the_segment_that_holds_the_recovery_point_is_recovered_from_its_start(partition: pathlib.Path) -> None:
    flip_bit(log(partition, 4), BATCH + 65)
    assert plan(partition, recovery_point=7).answer["truncated"][0]["position"] == BATCH


@pytest.mark.parametrize(("tail", "is_lost"), [(bytes(5), False), (bytes(500), False), (b"torn", True)])
def test_what_is_no_batch_goes_and_zeros_are_no_loss(partition: pathlib.Path, tail: bytes, is_lost: bool) -> None:
    append_bytes(log(partition, 8), tail)
    made = plan(partition)
    (cut,) = made.answer["truncated"]
    assert (cut["segment"], cut["position"], cut["bytes"]) == (8, 4 * BATCH, len(tail))
    assert made.answer["loses_records"] is is_lost
    assert files_of(partition) | {log(partition, 8).name: segment(8, epoch=3)} == result_of(made)


def test_a_torn_batch_is_cut_off_without_a_word(partition: pathlib.Path) -> None:
    tear_at(log(partition, 8), 4 * BATCH - 3)
    made = plan(partition)
    assert made.answer["truncated"][0]["reason"] is None
    assert made.answer["log_end_offset"] == 11


def test_a_lower_offset_at_an_index_entry_empties_the_segment(partition: pathlib.Path) -> None:
    overwrite(log(partition, 4), 3 * BATCH, (4).to_bytes(8, "big"))
    made = plan(partition)
    files = result_of(made)
    assert made.answer["truncated"][0]["position"] == 0
    assert "emptied" in in_words(made.result)["truncated"][0]["reason"]
    assert (made.answer["log_end_offset"], made.answer["deleted_segments"]) == (4, [8])
    assert (files[name_of(4, "log")], files[name_of(4, "index")]) == (b"", b"")
    assert next(verdict.action for verdict in made.segments if verdict.segment == 4) == "empty"


def test_without_its_index_a_segment_is_recovered_even_after_a_clean_stop(partition: pathlib.Path) -> None:
    before = files_of(partition)
    (partition / name_of(4, "index")).unlink()
    (partition / name_of(0, "timeindex")).unlink()
    made = plan(partition, clean=True)
    assert made.answer["recovered"] == [4]
    # A time index that is missing beside its .index is not made anew.
    assert result_of(made) == before | {name_of(0, "timeindex"): b""}


def test_only_a_recovery_of_the_log_removes_what_lies_behind_a_cut(partition: pathlib.Path) -> None:
    flip_bit(log(partition, 4), BATCH + 65)
    (partition / name_of(4, "index")).unlink()
    made = plan(partition, clean=True)
    assert (made.answer["truncated"][0]["segment"], made.answer["deleted_segments"]) == (4, [])
    assert made.answer["log_end_offset"] == 12


# ---------------------------------------------------------------- log start, overflow, leftovers


def test_a_log_that_ends_below_its_start_goes_as_a_whole(partition: pathlib.Path) -> None:
    made = plan(partition, clean=True, log_start_offset=50)
    files = result_of(made)
    assert (made.answer["log_start_offset"], made.answer["log_end_offset"]) == (50, 50)
    assert made.answer["deleted_segments"] == [0, 4, 8]
    assert (names_of(files, "log"), names_of(files, "log.deleted")) == ([50], [0, 4, 8])
    assert (files[EPOCHS], names_of(files, "snapshot")) == (b"0\n0\n", [50])


def test_a_log_start_within_the_log_takes_epochs_and_snapshots_below_it(partition: pathlib.Path) -> None:
    files = result_of(plan(partition, log_start_offset=6))
    assert epochs(files) == [(2, 6), (3, 8)]
    assert names_of(files, "snapshot") == [8, 12]


def test_an_empty_dir_gets_a_segment_at_the_log_start(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t-0").mkdir()
    files = result_of(plan(tmp_path / "t-0", log_start_offset=5))
    assert names_of(files, "log") == [5]
    assert files[EPOCHS] == b""


def test_a_segment_whose_offsets_do_not_fit_is_split(tmp_path: pathlib.Path) -> None:
    far = [data(offset) for offset in (0, 3_000_000_000, 9_000_000_000)]
    partition = tmp_path / "t-0"
    partition.mkdir()
    log(partition, 0).write_bytes(b"".join(far))
    (partition / name_of(0, "index")).write_bytes(b"")
    made = plan(partition)
    files = result_of(made)
    assert made.answer["split"] is True
    assert [files[name_of(base, "log")] for base in names_of(files, "log")] == far
    assert names_of(files, "log") == [0, 3_000_000_000, 9_000_000_000]
    assert files[name_of(0, "log.deleted")] == b"".join(far)
    assert made.answer["log_end_offset"] == 9_000_000_001


def test_two_parts_of_one_base_offset_are_refused_by_their_name(tmp_path: pathlib.Path) -> None:
    twice = 3_000_000_000
    partition = tmp_path / "t-0"
    partition.mkdir()
    log(partition, 0).write_bytes(b"".join(map(data, (0, twice, 9_000_000_000, twice))))
    (partition / name_of(0, "index")).write_bytes(b"")
    with pytest.raises(KlogError) as refused:
        plan(partition)
    assert (refused.value.kafka_class, refused.value.reason) == ("NoSuchFileException", name_of(twice, "log.cleaned"))


def test_the_parts_of_a_split_segment_have_its_time(tmp_path: pathlib.Path) -> None:
    """Also the part that has its name; retention and lookups go by it where no index knows of a time."""
    partition = tmp_path / "t-0"
    partition.mkdir()
    log(partition, 0).write_bytes(data(0) + data(3_000_000_000))
    (partition / name_of(0, "index")).write_bytes(b"")
    os.utime(log(partition, 0), ns=(10**9,) * 2)
    times = times_behind(plan(partition))
    assert [times[name_of(base, "log")] for base in (0, 3_000_000_000)] == [10**9] * 2
    assert times[name_of(0, "log.deleted")] == 10**9


def test_a_split_that_broke_off_comes_to_the_same_whatever_the_old_index_says(tmp_path: pathlib.Path) -> None:
    far = [data(5, producer_id=7, producer_epoch=0, base_sequence=0), data(9_000_000_000, epoch=2)]
    partition = make(tmp_path / "t-0", {0: segment(0)})
    log(partition, 4).write_bytes(b"".join(far))
    (partition / name_of(4, "index")).write_bytes((1).to_bytes(4, "big") + (7).to_bytes(4, "big"))
    (partition / EPOCHS).unlink()
    wanted, made = None, plan(partition)
    (tmp_path / "t-1").mkdir()
    for done in range(len(made.steps), -1, -1):
        put(tmp_path / "t-1", result_of(made, made.steps[:done]))
        left = result_of(plan(tmp_path / "t-1"))
        lasting = {name: content for name, content in left.items() if not name.endswith(".deleted")}
        wanted = wanted or lasting
        assert lasting == wanted, f"after {done} steps"


def test_a_complete_swap_takes_the_place_of_what_it_covers(partition: pathlib.Path) -> None:
    swapped = b"".join([data(0), data(7, epoch=2)])
    (partition / name_of(0, "log.swap")).write_bytes(swapped)
    files = result_of(made := plan(partition))
    assert files[name_of(0, "log")] == swapped
    assert (names_of(files, "log"), made.answer["log_end_offset"]) == ([0, 8], 12)


def test_a_swap_beside_a_cleaned_file_below_it_was_not_complete(partition: pathlib.Path) -> None:
    before = files_of(partition)
    for suffix, base in (("swap", 4), ("cleaned", 0)):
        (partition / name_of(base, f"log.{suffix}")).write_bytes(segment(base))
    assert result_of(plan(partition)) == before


def test_orphans_and_doomed_files_go(partition: pathlib.Path) -> None:
    before = files_of(partition)
    for name in (name_of(99, "index"), name_of(99, "txnindex"), name_of(3, "log.deleted")):
        (partition / name).write_bytes(bytes(24))
    (partition / "README.txt").write_text("not Kafka's")
    assert result_of(plan(partition, clean=True)) == before | {"README.txt": b"not Kafka's"}


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize(("base", "left"), [(0, (4, 12)), (4, (0, 12)), (8, (0, 8))])
def test_a_folder_in_the_place_of_a_log_is_no_segment(
    partition: pathlib.Path, base: int, left: tuple[int, int], *, clean: bool
) -> None:
    """LogLoader.loadSegmentFiles passes over all but files; an index beside it is no orphan, for the name is there."""
    log(partition, base).unlink()
    log(partition, base).mkdir()
    made = plan(partition, clean=clean, recovery_point=0)
    assert (made.answer["log_start_offset"], made.answer["log_end_offset"]) == left
    assert name_of(base, "index") in result_of(made)
    assert not any(step.path == name_of(base, "log") for step in made.steps if hasattr(step, "path"))


def test_folders_in_the_places_of_all_logs_keep_a_broker_from_its_first_segment(partition: pathlib.Path) -> None:
    for base in (0, 4, 8):
        log(partition, base).unlink()
        log(partition, base).mkdir()
    with pytest.raises(KlogError, match="Is a directory") as refused:
        plan(partition, clean=True)
    assert (refused.value.kafka_class, refused.value.path) == ("FileSystemException", str(log(partition, 0)))


# ---------------------------------------------------------------- transactions and producers


def transactions() -> list[bytes]:
    """Producer 1 aborts [0, 2], producer 2 is in its transaction from 1 on."""
    producer = [{"producer_id": n, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True} for n in (1, 2)]
    return [data(0, **producer[0]), data(1, **producer[1]), marker(2, 1)]


def test_an_aborted_transaction_gets_its_entry(tmp_path: pathlib.Path) -> None:
    partition = make(tmp_path / "t-0", {0: transactions()})
    files = files_of(partition)
    assert parse_txn_index(files[name_of(0, "txnindex")]) == [AbortedTxn(0, 1, 0, 2, 1)]
    first, second = parse_producer_snapshot(files[name_of(3, "snapshot")])
    assert (first.producer_id, first.current_txn_first_offset) == (1, None)
    assert (second.producer_id, second.current_txn_first_offset) == (2, 1)


def test_without_snapshots_after_a_clean_stop_all_producers_are_forgotten(tmp_path: pathlib.Path) -> None:
    partition = make(tmp_path / "t-0", {0: transactions()})
    (partition / name_of(3, "snapshot")).unlink()
    assert parse_producer_snapshot(result_of(plan(partition, clean=True))[name_of(3, "snapshot")]) == []
    assert len(parse_producer_snapshot(result_of(plan(partition))[name_of(3, "snapshot")])) == 2


def test_a_snapshot_that_fails_its_checksum_is_made_anew(tmp_path: pathlib.Path) -> None:
    partition = make(tmp_path / "t-0", {0: transactions()})
    before = files_of(partition)
    flip_bit(partition / name_of(3, "snapshot"), 20)
    assert result_of(plan(partition)) == before


# ---------------------------------------------------------------- refusals


def spoil_epochs(partition: pathlib.Path) -> None:
    (partition / EPOCHS).write_bytes(b"hello\n")


def name_no_offset(partition: pathlib.Path) -> None:
    (partition / "foo.log").write_bytes(b"")


def empty_metadata(partition: pathlib.Path) -> None:
    (partition / "partition.metadata").write_bytes(b"")


def zeros_behind_the_last_batch(partition: pathlib.Path) -> None:
    append_bytes(log(partition, 8), bytes(100))


def folder_for_a_snapshot(partition: pathlib.Path) -> None:
    (partition / name_of(12, "snapshot")).unlink()
    (partition / name_of(12, "snapshot")).mkdir()


@pytest.mark.parametrize(
    ("wound", "kafka_class"),
    [
        (spoil_epochs, "KafkaStorageException"),
        (name_no_offset, "NumberFormatException"),
        (empty_metadata, "NullPointerException"),
        (zeros_behind_the_last_batch, "CorruptRecordException"),
        (folder_for_a_snapshot, "FileSystemException"),
    ],
)
def test_what_a_broker_refuses(
    partition: pathlib.Path, wound: Callable[[pathlib.Path], None], kafka_class: str
) -> None:
    wound(partition)
    with pytest.raises(KlogError) as refused:
        plan(partition, clean=True)
    assert refused.value.kafka_class == kafka_class
    assert refused.value.path is not None


def test_data_outside_of_its_producers_transaction_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t-0").mkdir()
    stray = data(3, producer_id=2, producer_epoch=0, base_sequence=1)
    log(tmp_path / "t-0", 0).write_bytes(b"".join([*transactions(), stray]))
    with pytest.raises(KlogError) as refused:
        plan(tmp_path / "t-0")
    assert refused.value.kafka_class == "InvalidTxnStateException"


def test_an_index_too_small_for_its_segment_is_refused(partition: pathlib.Path) -> None:
    with pytest.raises(KlogError, match="full") as refused:
        plan(partition, config={**CONFIG, "segment.index.bytes": "16"})
    assert refused.value.kafka_class == "IllegalArgumentException"


# ---------------------------------------------------------------- plans


def wounded(partition: pathlib.Path) -> None:
    flip_bit(log(partition, 4), BATCH + 65)


def doubly_wounded(partition: pathlib.Path) -> None:
    flip_bit(log(partition, 4), BATCH + 65)
    for kind in ("index", "timeindex"):
        (partition / name_of(0, kind)).unlink()
    (partition / EPOCHS).unlink()


def swapped(partition: pathlib.Path) -> None:
    (partition / name_of(4, "log.swap")).write_bytes(segment(4, epoch=2) + segment(8, epoch=3))
    (partition / name_of(4, "index.swap")).write_bytes(b"")


def overflowing(partition: pathlib.Path) -> None:
    at = [frame.position for frame in frames_of(log(partition, 8).read_bytes())]
    overwrite(log(partition, 8), at[2], (3_000_000_000).to_bytes(8, "big"))
    overwrite(log(partition, 8), at[3], (3_000_000_001).to_bytes(8, "big"))


@pytest.mark.parametrize("wound", [wounded, doubly_wounded, swapped, overflowing])
@pytest.mark.parametrize("log_start_offset", [0, 5, 100])
def test_a_plan_that_breaks_off_anywhere_ends_where_it_would_have(
    partition: pathlib.Path, wound: Callable[[pathlib.Path], None], log_start_offset: int
) -> None:
    wound(partition)
    made = plan(partition, log_start_offset=log_start_offset)
    assert made.steps
    states = [result_of(made, made.steps[:done]) for done in range(len(made.steps) + 1)]
    ends = []
    for state in states:
        put(partition, state)
        ends.append(lasting(result_of(plan(partition, log_start_offset=log_start_offset))))
    # What a broker makes of its own result may be something else once more: an epoch without batches goes.
    assert all(end in (lasting(states[-1]), ends[-1]) for end in ends)


@pytest.mark.parametrize("lost", ["txnindex", "index"])
def test_a_segment_that_is_recovered_before_one_below_it_keeps_its_aborted_transactions(
    tmp_path: pathlib.Path, lost: str
) -> None:
    """The log of the lower one has a short name. Its recovery takes all snapshots away, and with them the producers."""
    transactional = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    partition = make(tmp_path / "t-0", {4: [data(4), data(5, **transactional)], 8: [marker(8, 1), data(9)]})
    sound = (partition / name_of(8, "txnindex")).read_bytes()
    if lost == "index":
        (partition / name_of(8, "index")).unlink()
    below_the_segment = AbortedTxn(0, producer_id=1, first_offset=1, last_offset=3, last_stable_offset=4)
    (partition / name_of(8, "txnindex")).write_bytes(build_txn_index([below_the_segment]))
    (partition / "3.log").write_bytes(b"no log of a broker")
    made = plan(partition, clean=True, log_start_offset=4)
    states = [result_of(made, made.steps[:done]) for done in range(len(made.steps) + 1)]
    assert len({state.get(name_of(8, "snapshot")) for state in states}) > 1
    for state in states:
        put(partition, state)
        assert result_of(plan(partition, clean=True, log_start_offset=4))[name_of(8, "txnindex")] == sound


def lasting(files: dict[str, bytes]) -> dict[str, bytes]:
    """A broker removes .deleted files a minute later, or at its next start."""
    return {name: content for name, content in files.items() if not name.endswith(".deleted")}


def test_what_decided_nothing_changes_the_plans_id(partition: pathlib.Path) -> None:
    wounded(partition)
    made = plan(partition)
    assert made.id == plan(partition).id
    assert made.id != replace(made, notes=()).id
    assert {fact.path for fact in made.facts} == {"", *files_of(partition)}


def test_epoch_entries_that_a_log_does_not_have_go(partition: pathlib.Path) -> None:
    (partition / EPOCHS).write_bytes(b"0\n4\n1 0\n2 4\n3 8\n9 50\n")
    assert parse_leader_epoch_checkpoint(result_of(plan(partition, clean=True))[EPOCHS])[-1] == EpochEntry(3, 8)


@pytest.mark.parametrize("high_watermark", [-2, -1, 0])
def test_no_log_has_a_high_watermark_below_0(partition: pathlib.Path, high_watermark: int) -> None:
    """UnifiedLog.updateHighWatermarkMetadata. It is raised to the log start, which only a tiered log can have there."""
    settings = {**CONFIG, "remote.storage.enable": "true"}
    circumstances = Circumstances(now_ms=NOW_MS, config=settings, log_start_offset=-5, high_watermark=high_watermark)
    if high_watermark < 0:
        with pytest.raises(Refused, match="should be non-negative"):
            load(str(partition), circumstances)
    else:
        assert load(str(partition), circumstances).log.high_watermark == 0


@pytest.mark.parametrize("high_watermark", [0, 6, 11, 12])
def test_a_high_watermark_below_the_log_end_stays_when_the_end_moves_up(
    partition: pathlib.Path, high_watermark: int
) -> None:
    """UnifiedLog.updateHighWatermarkWithLogEndOffset: what is not replicated yet is not committed by a roll, nor by
    records that are appended. The high watermark never lies beyond the end."""
    loaded = load(str(partition), Circumstances(now_ms=NOW_MS, config=CONFIG, high_watermark=high_watermark)).log
    roll(loaded)
    assert (loaded.log_end_offset, loaded.high_watermark) == (12, high_watermark)
    loaded.note_appended(13, ())
    assert (loaded.log_end_offset, loaded.high_watermark) == (13, high_watermark)
    loaded.move_log_end(5)
    loaded.keep_high_watermark_in_log()
    assert loaded.high_watermark == min(high_watermark, 5)


def test_what_was_recovered_before_a_split_stays(partition: pathlib.Path) -> None:
    """Its indexes are written before all segments are loaded anew, as LogLoader closes them."""
    index = partition / name_of(0, "index")
    config = {"index.interval.bytes": "1"}
    put(partition, result_of(plan(partition, config=config)))
    sound = index.read_bytes()
    overflowing(partition)
    for base in (0, 8):
        (partition / name_of(base, "index")).unlink()
    made = plan(partition, clean=True, config=config)
    assert made.answer["split"] is True
    assert result_of(made)[index.name] == sound != b""


def old_message(offset: int, magic: int) -> bytes:
    return build_message(offset, b"k", b"v", magic=magic, timestamp=NOW_MS if magic else -1)


def wrapper(offset: int) -> bytes:
    """Two messages from this offset on, under the offset of the last one."""
    inner = gzip.compress(old_message(0, 1) + old_message(1, 1))
    return build_message(offset + 1, None, inner, magic=1, timestamp=NOW_MS, attributes=1)


@pytest.mark.parametrize(
    "entry", [lambda at: old_message(at, 0), lambda at: old_message(at, 1), wrapper, data], ids=["0", "1", "gzip", "2"]
)
def test_each_format_is_split(tmp_path: pathlib.Path, entry: Callable[[int], bytes]) -> None:
    """A part is named after its first record, of a wrapper the first message in it."""
    entries = [entry(0), entry(3_000_000_000)]
    partition = tmp_path / "t-0"
    partition.mkdir()
    log(partition, 0).write_bytes(b"".join(entries))
    (partition / name_of(0, "index")).write_bytes(b"")
    files = result_of(plan(partition))
    assert [files[name_of(base, "log")] for base in (0, 3_000_000_000)] == entries


def test_a_batch_of_no_known_format_is_not_split(tmp_path: pathlib.Path) -> None:
    """It is read into memory for its part, where ByteBufferLogInputStream looks at the magic."""
    unknown = bytearray(data(1))
    unknown[16] = 3
    partition = tmp_path / "t-0"
    partition.mkdir()
    log(partition, 0).write_bytes(data(0) + unknown + data(3_000_000_000))
    (partition / name_of(0, "index")).write_bytes(b"")
    with pytest.raises(KlogError, match="at byte 79: Invalid magic found in record: 3"):
        plan(partition)


@pytest.mark.parametrize("log_start_offset", [0, 4])
def test_a_segment_that_reaches_into_the_next_one_is_read_up_to_it(
    tmp_path: pathlib.Path, log_start_offset: int
) -> None:
    """The recovery of the next one begins with the producers up to its base offset (UnifiedLog.rebuildProducerState),
    of which it writes a snapshot there; from a log start at that offset on there is nothing to read."""
    of_producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    partition = make(tmp_path / "t-0", {0: segment(0) + data(4) + data(5, **of_producer), 4: segment(4)})
    for path in partition.glob("*.snapshot"):
        path.unlink()
    (partition / name_of(4, "index")).unlink()
    made = plan(partition, clean=True, log_start_offset=log_start_offset)
    snapshots = {base: result_of(made)[name_of(base, "snapshot")] for base in names_of(result_of(made), "snapshot")}
    assert made.answer["log_end_offset"] == 8
    assert [parse_producer_snapshot(data) for base, data in snapshots.items() if base == 4] == (
        [[]] if not log_start_offset else []
    )


def test_a_recovered_segment_knows_the_producers_below_it_without_any_snapshot(tmp_path: pathlib.Path) -> None:
    """A load forgets them after a clean stop; the recovery of one segment reads the segments below
    (LogLoader.recoverSegment)."""
    of_producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    partition = make(tmp_path / "t-0", {0: segment(0, 3) + data(3, **of_producer), 4: segment(4)})
    for path in partition.glob("*.snapshot"):
        path.unlink()
    (partition / name_of(4, "index")).unlink()
    files = result_of(plan(partition, clean=True))
    assert [entry.producer_id for entry in parse_producer_snapshot(files[name_of(4, "snapshot")])] == [7]


def test_a_batch_that_reaches_over_the_next_segment_ends_what_is_read_before_it(tmp_path: pathlib.Path) -> None:
    partition = make(tmp_path / "t-0", {0: data(0, records=7), 4: segment(4)})
    for path in partition.glob("*.snapshot"):
        path.unlink()
    (partition / name_of(4, "index")).unlink()
    assert plan(partition, clean=True).answer["log_end_offset"] == 8


def test_one_byte_behind_the_last_batch_is_cut_and_nothing_stays_behind_it(partition: pathlib.Path) -> None:
    append_bytes(log(partition, 4), b"\0")
    made = plan(partition)
    assert (made.answer["truncated"][0]["bytes"], made.answer["deleted_segments"]) == (1, [8])


@pytest.mark.parametrize(("cleaned", "is_complete"), [(0, False), (4, False), (8, True)])
def test_a_swap_at_or_above_an_unfinished_file_goes(partition: pathlib.Path, cleaned: int, is_complete: bool) -> None:
    """It belongs to a set that is not complete (LogLoader.removeTempFilesAndCollectSwapFiles)."""
    swapped(partition)
    (partition / name_of(cleaned, "log.cleaned")).write_bytes(b"")
    before = log(partition, 4).read_bytes()
    files = result_of(plan(partition))
    assert (files[name_of(4, "log")] != before) == is_complete
    assert not [name for name in files if name.endswith((".swap", ".cleaned"))]
