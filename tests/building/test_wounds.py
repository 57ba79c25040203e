"""Each wound does what its name says: to bytes, and to what verify and the doctor say of them."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from verifying import found, ids

from klogtool.broker.draft import Draft
from klogtool.building.wounds import WOUNDS, Wound, read_wound
from klogtool.errors import KlogError
from klogtool.log.segment import Segment
from klogtool.testing import wounds

Path = pathlib.Path
Copy = Callable[[str], Path]
EPOCHS, TXNS, METADATA = "leader-epochs/logdir", "transactions/logdir", "metadata/logdir"
LOG_DIR = ("unclean_stop", "clean_stop", "forge_checkpoint", "drop_checkpoint", "add_file")

# The wound, its arguments, and all that verify then finds: in t-0 of a fixture, or in the log dir.
CASES: list[tuple[str, dict[str, object], set[str], str]] = [
    ("flip_bit", {"segment": 0}, {"batch-crc"}, EPOCHS),
    ("flip_bit", {"segment": 0, "batch": 2, "at": 70, "bit": 7}, {"batch-crc"}, EPOCHS),
    ("overwrite", {"segment": 0, "batch": 2, "at": 16, "hex": "03"}, {"batch-header"}, EPOCHS),
    ("insert", {"segment": 0, "batch": 2, "at": 0, "hex": "ca fe ba be"}, {"foreign-bytes", "index-entry"}, EPOCHS),
    ("zero_range", {"segment": 0, "batch": 2, "at": -30, "size": 20}, {"batch-crc"}, EPOCHS),
    ("zero_from", {"batch": -1, "at": 0}, {"zero-tail", "clean-marker-false", "checkpoint-entry"}, EPOCHS),
    ("zero_tail", {}, {"zero-tail", "clean-marker-false"}, EPOCHS),
    ("garbage_tail", {}, {"foreign-bytes", "clean-marker-false"}, EPOCHS),
    ("tear_at", {}, {"torn-batch", "clean-marker-false", "checkpoint-entry"}, EPOCHS),
    ("wrong_crc", {"segment": 0}, {"batch-crc"}, EPOCHS),
    ("set_field", {"segment": 0, "batch": 2, "field": "records_count", "value": -1}, {"batch-attributes"}, EPOCHS),
    ("swap_batches", {"segment": 0, "batch": 2}, {"offset-order", "index-entry"}, EPOCHS),
    ("duplicate_batch", {"segment": 0}, {"offset-order"}, EPOCHS),
    ("drop_index", {}, {"index-missing"}, EPOCHS),
    ("drop_timeindex", {}, {"timeindex-missing"}, EPOCHS),
    ("drop_txnindex", {}, {"txnindex-missing"}, TXNS),
    ("drop_snapshot", {}, set(), EPOCHS),
    ("drop_epochs", {}, {"epochs-missing"}, EPOCHS),
    ("stale_index", {"kind": "timeindex", "segment": 0}, {"timeindex-max"}, EPOCHS),
    ("stale_index", {"segment": 0}, set(), EPOCHS),
    ("preallocate_index", {"segment": 42}, set(), EPOCHS),
    ("copy_segment", {"segment": 0, "to": 10}, {"segment-overlap"}, EPOCHS),
    ("leave_over", {"segment": 0, "suffix": ".swap"}, {"leftover-swap"}, EPOCHS),
    ("leave_over", {"segment": 0, "suffix": ".cleaned"}, {"leftover-cleaned"}, EPOCHS),
    ("leave_over", {"segment": 0, "suffix": ".deleted"}, set(), EPOCHS),
    ("rename_file", {"segment": 42, "to": "foo.log"}, {"segment-name"}, EPOCHS),
    ("forge_index", {"segment": 0}, {"index-entry"}, EPOCHS),
    ("forge_timeindex", {"segment": 0, "entry": 0}, {"timeindex-entry"}, EPOCHS),
    ("forge_txnindex", {}, {"txnindex-entry"}, TXNS),
    ("forge_snapshot", {"segment": 42}, {"snapshot-content"}, EPOCHS),
    ("forge_epochs", {}, {"epochs-content"}, EPOCHS),
    ("unclean_stop", {}, set(), EPOCHS),
    (
        "forge_checkpoint",
        {"checkpoint": "cleaner-offset-checkpoint", "partition": "t-0", "offset": 79},
        {"checkpoint-entry"},
        EPOCHS,
    ),
    ("add_file", {"name": "lost+found/x"}, {"foreign-folder"}, EPOCHS),
    ("add_file", {"name": "notes.txt", "text": "hello"}, set(), EPOCHS),
]


def batches(partition: Path) -> list[object]:
    return [batch for log in sorted(partition.glob("*.log")) for batch in Segment(str(log)).batches()]


@pytest.mark.parametrize(("name", "arguments", "expected", "fixture"), CASES)
def test_verify_finds_what_a_wound_does(
    name: str, arguments: dict[str, object], expected: set[str], fixture: str, copy_of: Copy
) -> None:
    log_dir = copy_of(fixture)
    getattr(wounds, name)(log_dir if name in LOG_DIR else log_dir / "t-0", **arguments)
    assert ids(found(log_dir)) >= expected
    assert bool(ids(found(log_dir))) == bool(expected)


def test_every_wound_is_tried_here() -> None:
    others = {"drop_batch", "drop_file", "drop_segment", "empty_file", "replace_text", "drop_checkpoint"}
    others |= {"clean_stop", "wrong_topic_id"}
    assert {case[0] for case in CASES} | others == set(WOUNDS)


def test_a_log_loses_what_is_dropped(copy_of: Copy) -> None:
    partition = copy_of(EPOCHS) / "t-0"
    before = len(batches(partition))
    wounds.drop_batch(partition, batch=0)
    assert len(batches(partition)) == before - 1
    wounds.drop_segment(partition, segment=42)
    assert [path.name for path in sorted(partition.glob(f"{42:020d}.*"))] == []
    assert "checkpoint-entry" in ids(found(partition.parent))
    wounds.drop_file(partition / "leader-epoch-checkpoint")
    assert not (partition / "leader-epoch-checkpoint").exists()
    wounds.empty_file(partition)
    assert (partition / f"{0:020d}.log").read_bytes() == b""


def test_wounds_of_text_files(copy_of: Copy) -> None:
    log_dir = copy_of(METADATA)
    wounds.replace_text(log_dir / "meta.properties", old="version=1", new="version=7")
    wounds.wrong_topic_id(log_dir / "topic-0-0")
    wounds.drop_checkpoint(log_dir, checkpoint="recovery-point-offset-checkpoint")
    assert not (log_dir / "recovery-point-offset-checkpoint").exists()
    assert {"meta-properties-corrupt", "topic-id-mismatch"} <= ids(found(log_dir))


def test_a_clean_stop_is_written_over_a_torn_log(copy_of: Copy) -> None:
    log_dir = copy_of("killed-mid-append/logdir")
    assert "clean-marker-false" not in ids(found(log_dir))
    wounds.clean_stop(log_dir)
    assert "clean-marker-false" in ids(found(log_dir))


def test_a_wound_changes_only_its_file_and_keeps_its_time(copy_of: Copy) -> None:
    partition = copy_of(EPOCHS) / "t-0"
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in partition.iterdir()}
    log = partition / f"{42:020d}.log"
    wounds.flip_bit(log, at=100, bit=3)
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in partition.iterdir()}
    assert [path for path in before if before[path] != after[path]] == [log]
    assert after.keys() == before.keys()
    assert after[log][1] == before[log][1]
    changed = [at for at, (one, other) in enumerate(zip(before[log][0], after[log][0], strict=True)) if one != other]
    assert changed == [100]
    assert before[log][0][100] ^ after[log][0][100] == 8


def test_a_hard_link_elsewhere_keeps_its_bytes(copy_of: Copy, tmp_path: Path) -> None:
    log = copy_of(EPOCHS) / f"t-0/{0:020d}.log"
    (tmp_path / "linked").hardlink_to(log)
    before = log.read_bytes()
    wounds.tear_at(log, at=10)
    assert log.read_bytes() == before[:10]
    assert (tmp_path / "linked").read_bytes() == before


@pytest.mark.parametrize("fixture", ["magic-0/logdir", "magic-1/logdir", "three-magics/logdir"])
def test_wounds_of_batches_know_every_magic(fixture: str, copy_of: Copy) -> None:
    log_dir = copy_of(fixture)
    partition = next(path.parent for path in sorted(log_dir.rglob("*.log")) if path.stat().st_size)
    wounds.wrong_crc(partition, batch=0)
    assert "batch-crc" in ids(found(log_dir))
    wounds.set_field(partition, batch=0, field="attributes", value=7)
    assert "batch-crc" not in ids(found(log_dir))
    assert "batch-attributes" in ids(found(log_dir))


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("flip_bit", {"batch": 99}, "there is no batch 99: the file has"),
        ("flip_bit", {"at": 10**6}, "there is no byte 1000000: the file has 1721"),
        ("flip_bit", {"bit": 8}, "a byte has no bit 8"),
        ("flip_bit", {"segment": 7}, "there is no .log file of segment 7 here"),
        ("overwrite", {"hex": "xyz"}, "'xyz' is not hexadecimal digits"),
        ("zero_tail", {"size": 1 << 40}, "a wound writes 0 to 67,108,864 bytes"),
        ("set_field", {"field": "offset", "value": 1}, "a batch has no field 'offset': it has base_offset"),
        ("set_field", {"field": "magic", "value": 1000}, "1000 does not fit into the field 'magic' (1 bytes)"),
        ("swap_batches", {"batch": -1}, "there is no batch behind the last one"),
        ("drop_txnindex", {}, "there is no .txnindex file here"),
        ("stale_index", {"entries": 99}, "99 entries cannot be taken out: the index has"),
        ("preallocate_index", {"size": 1}, "1 is not a size from"),
        ("rename_file", {"to": "../x"}, "'../x' is not the name of a file"),
        ("rename_file", {"to": "partition.metadata"}, "this exists already"),
        ("copy_segment", {"to": 42}, "this exists already"),
        ("copy_segment", {"to": -1}, "-1 is no base offset"),
        ("forge_index", {"entry": 50}, "there is no entry 50: the file has"),
        ("drop_checkpoint", {"checkpoint": "cleaner-offset-checkpoint"}, "no such file"),
        ("add_file", {"name": "../x"}, "'../x' is not a path below a folder"),
        ("add_file", {"name": ".lock"}, "the lock of a log dir is a broker's"),
        ("replace_text", {"old": "a", "new": "b"}, "the file does not contain 'a'"),
    ],
)
def test_a_wound_that_does_not_fit_says_why(
    name: str, arguments: dict[str, object], told: str, copy_of: Copy, unchanged: Callable[..., object]
) -> None:
    partition = copy_of(EPOCHS) / "t-0"
    path = partition / "partition.metadata" if name == "replace_text" else partition
    with pytest.raises(KlogError) as error:
        getattr(wounds, name)(path, **arguments)
    assert told in str(error.value)
    assert str(partition) in str(error.value)


@pytest.mark.parametrize("name", ["forge_index", "forge_timeindex", "forge_txnindex", "forge_snapshot", "forge_epochs"])
@pytest.mark.parametrize("shift", [1 << 31, 1 << 80, -(1 << 63)])
def test_a_forged_number_wraps(name: str, shift: int, copy_of: Copy) -> None:
    partition = copy_of(TXNS) / "t-0"
    getattr(wounds, name)(partition, shift=shift)
    getattr(wounds, name)(partition, shift=-shift)


def test_wounds_as_values(copy_of: Copy) -> None:
    """As a spec has them: paths are below the draft."""
    log_dir = copy_of(EPOCHS)
    row = {"wound": "tear_at", "file": "t-0", "segment": 42, "at": 100}
    wound = read_wound(row)
    assert wound == Wound("tear_at", "t-0", {"segment": 42, "at": 100})
    assert wound.as_row() == row
    files = {str(path.relative_to(log_dir)): path for path in log_dir.rglob("*") if path.is_file()}
    draft = Draft(str(log_dir), {})
    for name, path in files.items():
        draft.write(name, path.read_bytes())
    wound.inflict(draft)
    assert draft.size(f"t-0/{42:020d}.log") == 100
    read_wound({"wound": "unclean_stop"}).inflict(draft)
    assert ".kafka_cleanshutdown" not in draft
    with pytest.raises(KlogError, match=r"/t-9: no such file"):
        Wound("flip_bit", "t-9").inflict(draft)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({}, "there is no wound 'None'; there are add_file, clean_stop, "),
        ({"wound": ["x"]}, "there is no wound"),
        ({"wound": "flip_bot", "file": "t-0"}, "there is no wound 'flip_bot' (did you mean flip_bit?)"),
        ({"wound": "flip_bit"}, "flip_bit: it missing required field file"),
        ({"wound": "flip_bit", "file": "t-0", "bat": 1}, "flip_bit: it contains unknown field bat"),
        ({"wound": "flip_bit", "file": "t-0", "bit": "1"}, "flip_bit: bit: expected int, got str"),
        ({"wound": "leave_over", "file": "t-0", "suffix": ".tmp"}, "leave_over: suffix: invalid enum value '.tmp'"),
    ],
)
def test_a_wrong_value_is_named(row: dict[str, object], told: str) -> None:
    with pytest.raises(KlogError) as error:
        read_wound(row)
    assert told in str(error.value)
