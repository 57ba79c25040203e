"""compact --why: each thing that holds a cleaner back is named, with what to do about it."""

from __future__ import annotations

import pathlib
import shlex
import shutil
from typing import Any

import pytest
from curing import carry_out
from damage import flip_bit
from deciding import compact_question
from loading import NOW_MS, data, make, marker
from running import run_here
from test_compact import COMPACT, keyed

from klogtool.format.message import build_message
from klogtool.plans.why_not_compacted import LogStanding, Obstacle, Standing, walk_standings
from klogtool.render.compact import standing_text
from klogtool.render.words import in_words, words

COMPACTED = ("--config", "cleanup.policy=compact")
TXN = {"producer_id": 9, "producer_epoch": 3, "base_sequence": 0, "is_transactional": True}
LATER_MS = NOW_MS + 86_400_001


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log dir with a checkpoint for t-0."""
    path = tmp_path / "disk"
    path.mkdir()
    (path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    return path


def standings(*paths: pathlib.Path, **asked: Any) -> list[Standing]:
    config = COMPACT | asked.pop("config", {})
    return list(
        walk_standings([str(path) for path in paths], compact_question({"now_ms": LATER_MS, "config": config, **asked}))
    )


def cure_of(reason: Obstacle) -> str:
    return "" if reason.cure is None else words(reason.cure)


def reasons(*paths: pathlib.Path, **asked: Any) -> list[str]:
    return [reason.id for standing in standings(*paths, **asked) for reason in standing.reasons]


def test_a_log_that_is_due_and_one_that_is_clean(disk: pathlib.Path) -> None:
    folder = make(disk / "t-0", {0: keyed(0, b"a") + keyed(1, b"a"), 2: keyed(2, b"b")})
    (standing,) = standings(folder)
    assert [reason.id for reason in standing.reasons] == ["due"]
    assert isinstance(standing, LogStanding)
    assert standing.remaining is not None
    assert (standing.remaining.records, standing.remaining.of_records) == (1, 2)
    (disk / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    assert reasons(folder) == ["active-segment"]


def test_too_little_is_dirty(disk: pathlib.Path) -> None:
    folder = make(disk / "t-0", {0: data(0, records=9), 9: keyed(9, b"a"), 10: keyed(10, b"b")})
    (disk / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    assert reasons(folder, config={"min.cleanable.dirty.ratio": "0.5"}) == ["ratio"]
    assert reasons(folder, config={"cleanup.policy": "delete"})[0] == "policy"
    assert "disabled" in reasons(folder, config={"log.cleaner.enable": "false"})


def test_an_open_transaction_and_its_producer(disk: pathlib.Path) -> None:
    folder = make(disk / "t-0", {0: keyed(0, b"a") + keyed(1, b"b", **TXN), 2: keyed(2, b"c"), 3: keyed(3, b"d")})
    (standing,) = standings(folder)
    found = {reason.id: reason for reason in standing.reasons}
    told = in_words(found["transaction"])
    assert (told["producer_id"], told["first_offset"], told["producer_epoch"]) == (9, 1, 3)
    assert cure_of(found["transaction"]) == (
        "kafka-transactions.sh --bootstrap-server ... abort --topic t --partition 0 --start-offset 1"
        f"  # if it hangs: klogtool txns {shlex.quote(str(folder))} says so"
    )
    text = standing_text(standing)
    assert "producer 9 epoch 3 started it at offset 1, 1 d ago" in text
    ended = make(disk / "t-1", {0: keyed(0, b"b", **TXN) + marker(1, 9), 2: keyed(2, b"c"), 3: keyed(3, b"d")})
    assert "transaction" not in reasons(ended)


def test_the_high_watermark_and_a_lag(disk: pathlib.Path) -> None:
    folder = make(disk / "t-0", {0: keyed(0, b"a"), 1: keyed(1, b"b"), 2: keyed(2, b"c")})
    assert "high-watermark" in reasons(folder, high_watermark=1)
    assert "lag" in reasons(folder, config={"min.compaction.lag.ms": "999999999"})


@pytest.mark.parametrize("first_dirty", [0, 2, 3], ids=["none clean", "at a segment", "inside of a segment"])
def test_what_holds_a_cleaner_back_is_named_wherever_it_has_cleaned_up_to(disk: pathlib.Path, first_dirty: int) -> None:
    """The limit is below the first dirty offset where that is inside of a segment, or where a limit went back."""
    logs = {0: keyed(0, b"a") + keyed(1, b"b"), 2: keyed(2, b"c") + keyed(3, b"d"), 4: keyed(4, b"e")}
    (disk / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {first_dirty}\n")
    folder = make(disk / "t-0", logs)
    assert reasons(folder, config={"min.compaction.lag.ms": "999999999"}) == ["lag"]
    assert reasons(folder, high_watermark=0)[0] == "high-watermark"
    shutil.rmtree(folder)
    open_from_the_start = make(disk / "t-0", {**logs, 0: keyed(0, b"a", **TXN) + keyed(1, b"b")})
    assert reasons(open_from_the_start)[0] == "transaction"


def test_a_log_dir_without_compacted_logs_gets_an_answer(disk: pathlib.Path) -> None:
    make(disk / "t-0", {0: keyed(0, b"a"), 1: keyed(1, b"b")})
    done = run_here(["compact", str(disk), "--why", "--config", "cleanup.policy=delete"], disk)
    assert (done.status, done.out) == (0, b"")
    assert "no partition here has a cleanup.policy with compact" in done.err
    assert "no partition" not in run_here(["compact", str(disk), "--why", *COMPACTED], disk).err


def test_what_the_cleaner_breaks_off_at(disk: pathlib.Path) -> None:
    folder = make(disk / "t-0", {0: keyed(0, b"a") + keyed(1, b"b"), 2: keyed(2, b"c")})
    flip_bit(folder / f"{0:020d}.log", 11, 0)
    (reason,) = standings(folder, last_stop="clean")[0].reasons
    assert (reason.id, in_words(reason)["class"]) == ("breaks-off", "InvalidRecordException")
    old = make(disk / "t-1", {0: build_message(0, None, b"1", magic=1), 1: keyed(1, b"b")})
    (reason,) = standings(old, last_stop="clean")[0].reasons
    assert reason.id == "breaks-off"


def test_records_without_a_key_are_told(disk: pathlib.Path) -> None:
    folder = make(disk / "t-0", {0: keyed(0, None) + keyed(1, b"b"), 2: keyed(2, b"c")})
    assert reasons(folder) == ["due", "keyless"]


def test_what_ends_the_cleaners_thread(disk: pathlib.Path, tmp_path: pathlib.Path) -> None:
    make(disk / "t-0", {0: keyed(0, b"a"), 1: keyed(1, b"b")})
    other = tmp_path / "other"
    other.mkdir()
    (other / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 1\ngone 3 5\n")
    assert reasons(disk, other)[:2] == ["checkpoint-duplicate", "checkpoint-stale"]
    duplicate = standings(disk, other)[0].reasons[0]
    assert in_words(duplicate)["ends_thread"]
    assert str(other) in cure_of(duplicate)
    (disk / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 x\n")
    (line, *_) = standings(disk)
    assert [(r.id, in_words(r)["ends_thread"]) for r in line.reasons] == [("checkpoint-line", True)]
    (disk / "cleaner-offset-checkpoint").write_text("0\n1\nt 0\n")
    (line, *_) = standings(disk)
    assert [(r.id, in_words(r)["ends_thread"]) for r in line.reasons] == [("checkpoint-line", False)]


@pytest.mark.parametrize("line", ["t 0 x", "t 0"])
def test_a_bad_checkpoint_is_no_damage_of_the_log(disk: pathlib.Path, line: str) -> None:
    """Its cure mends it: salvage would write the whole log anew, and leave the checkpoint as it is."""
    folder = make(disk / "t-0", {0: keyed(0, b"a"), 1: keyed(1, b"b")})
    (disk / "cleaner-offset-checkpoint").write_text(f"0\n1\n{line}\n")
    cures = [cure_of(reason) for standing in standings(folder) for reason in standing.reasons]
    assert not [cure for cure in cures if "salvage" in cure]
    carry_out(cures[0], disk)
    assert reasons(folder) == ["due"]


def test_the_cure_of_a_line_that_is_there_twice(disk: pathlib.Path, tmp_path: pathlib.Path) -> None:
    make(disk / "t-0", {0: keyed(0, b"a"), 1: keyed(1, b"b")})
    (tmp_path / "other").mkdir()
    other = make(tmp_path / "other" / "u-1", {0: keyed(0, b"a"), 1: keyed(1, b"b")}).parent
    (other / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 1\nu 1 0\n")
    (told,) = standings(disk, other)[0].reasons
    assert told.id == "checkpoint-duplicate"
    carry_out(cure_of(told), tmp_path)
    assert reasons(disk, other) == ["due", "due"]
    assert (other / "cleaner-offset-checkpoint").read_text() == "0\n1\nu 1 0\n"


def test_the_cures_of_a_damaged_log(disk: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = make(disk / "t-0", {0: keyed(0, b"a") + keyed(1, b"b"), 2: keyed(2, b"c")})
    log = folder / f"{0:020d}.log"
    flip_bit(log, log.stat().st_size - 1)
    (reason,) = standings(folder, last_stop="clean")[0].reasons
    assert reason.id == "breaks-off"
    carry_out(cure_of(reason), tmp_path)
    assert "breaks-off" not in reasons(folder, last_stop="clean")
    (folder / "leader-epoch-checkpoint").write_text("hello")
    (reason,) = standings(folder, last_stop="clean")[0].reasons
    assert (reason.id, cure_of(reason)) == (
        "breaks-off",
        f"klogtool rebuild-index {shlex.quote(str(folder))} --only leader-epoch-checkpoint --apply",
    )
    carry_out(cure_of(reason), tmp_path)
    assert "breaks-off" not in reasons(folder, last_stop="clean")


def test_the_cure_of_too_little_that_is_dirty(disk: pathlib.Path) -> None:
    folder = make(disk / "t-0", {0: data(0, records=9), 9: keyed(9, b"a"), 10: keyed(10, b"b")})
    (disk / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    (standing,) = standings(folder, config={"min.cleanable.dirty.ratio": "0.5"})
    (cure,) = (cure_of(reason) for reason in standing.reasons if reason.id == "ratio")
    carry_out(cure, disk)
    assert reasons(folder, config={"min.cleanable.dirty.ratio": "0.5"}) == ["active-segment"]


def test_a_checkpoint_that_does_not_fit(disk: pathlib.Path) -> None:
    folder = make(disk / "t-0", {0: keyed(0, b"a"), 1: keyed(1, b"b")})
    (disk / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 99\n")
    assert "checkpoint-reset" in reasons(folder)
    # Below the log start, as after retention: KAFKA-1641.
    (disk / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    assert "checkpoint-reset" in reasons(folder, log_start_offset=1)


def test_a_log_dir_tells_of_its_compacted_logs_only(disk: pathlib.Path) -> None:
    make(disk / "t-0", {0: keyed(0, b"a"), 1: keyed(1, b"b")})
    assert [pathlib.Path(s.path).name for s in standings(disk)] == ["t-0"]
    assert standings(disk, config={"cleanup.policy": "delete"}) == []
