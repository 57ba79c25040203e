"""Nothing is deleted by a setting that nobody gave, where the disk speaks against Kafka's default for it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from deciding import decided
from loading import NOW_MS, make, segment
from loading import data as one_record
from raw_batches import build_batch
from running import FIXTURES, run_here

from klogtool.broker.config import DAY_MS
from klogtool.errors import Refused
from klogtool.format.batch import Record
from klogtool.plans.plan import Plan
from klogtool.render.words import words

LATER_MS = NOW_MS + 30 * DAY_MS
CopyOf = Callable[[str], pathlib.Path]


def retained(path: pathlib.Path, **config: str) -> list[Plan]:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return list(decided("retain", str(path), {"now_ms": LATER_MS, "jobs": 1, "config": settings}))


def deletions(plans: list[Plan]) -> list[int]:
    (plan,) = [plan for plan in plans if "deletions" in plan.answer]
    return [row["segment"] for row in plan.answer["deletions"]]


def refusal(path: pathlib.Path, **config: str) -> str:
    with pytest.raises(Refused, match="is a guess") as caught:
        retained(path, **config)
    assert caught.value.cure is not None
    return f"{caught.value.reason}\n{caught.value.cure}"


def in_a_log_dir(tmp_path: pathlib.Path, logs: dict[int, Any], **lines: int) -> pathlib.Path:
    """A partition t-0 of a log dir with a clean marker; lines: of checkpoints, such as log_start=5."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / ".kafka_cleanshutdown").write_bytes(b"")
    for kind, offset in lines.items():
        name = {"cleaner": "cleaner-offset-checkpoint", "log_start": "log-start-offset-checkpoint"}[kind]
        (tmp_path / "logs" / name).write_text(f"0\n1\nt 0 {offset}\n")
    (tmp_path / "logs" / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return make(tmp_path / "logs" / "t-0", logs)


SOUND = {0: segment(0), 4: segment(4), 8: segment(8)}


def test_a_log_that_agrees_with_the_defaults_is_retained_by_them(tmp_path: pathlib.Path) -> None:
    assert deletions(retained(in_a_log_dir(tmp_path, SOUND))) == [0, 4, 8]


# ---------------------------------------------------------------- tiered


def test_a_tiered_topic_of_a_real_broker(copy_of: CopyOf) -> None:
    partition = copy_of("tiered/logdir") / "t-0"
    told = refusal(partition)
    assert "the topic looks tiered: log-start-offset-checkpoint has 30, and the first segment starts at 63" in told
    assert all(name in told for name in ("remote.storage.enable=true", "local.retention.ms", "local.retention.bytes"))
    assert "remote.storage.enable is a guess" in refusal(partition, retention_ms="1")
    assert deletions(retained(partition, remote_storage_enable="true")) == []
    assert deletions(retained(partition, remote_storage_enable="false")) == [63, 99]


def test_on_the_command_line_that_is_status_3_and_nothing_changes(copy_of: CopyOf) -> None:
    log_dir = copy_of("tiered/logdir")
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    for asked in (["t-0"], ["."], ["t-0", "--apply"], ["t-0", "--output", "../out"]):
        done = run_here(["retain", *asked, "--now", str(LATER_MS)], log_dir)
        assert done.status == 3, done.err
        assert "remote.storage.enable" in done.err.splitlines()[-1]
    assert {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()} == before
    given = ["retain", "t-0", "--now", str(LATER_MS), "--config", "remote.storage.enable=true"]
    assert run_here(given, log_dir).status == 0


def test_a_settings_file_that_has_no_remote_storage_may_be_that_of_another_broker(copy_of: CopyOf) -> None:
    """A broker 4.3.1 that was started so deleted its local segments, and those in remote storage once it had that."""
    partition, system = copy_of("tiered/logdir") / "t-0", "remote.log.storage.system.enable"
    tiered = {"remote.storage.enable": "true", "retention.ms": "1000"}
    asked = {"now_ms": LATER_MS, "jobs": 1, "config": tiered, "config_sections": [[None, {"log.dirs": "/elsewhere"}]]}
    with pytest.raises(Refused, match=f"deleted, but {system} is a guess: the topic has remote.storage.enable=true"):
        list(decided("retain", str(partition), asked))
    plans = list(decided("retain", str(partition), {**asked, "config": {**tiered, system: "false"}}))
    assert deletions(plans) == [63, 99]
    notes = [note for plan in plans for note in map(words, plan.notes)]
    assert any(note.startswith("offsets 30 to 62 are in remote storage only") for note in notes)
    assert deletions(list(decided("retain", str(partition), {**asked, "config": {**tiered, system: "true"}}))) == []


@pytest.mark.parametrize(
    ("first", "line", "epochs", "is_tiered"),
    [
        (4, 2, "0 2", True),
        (4, 2, "0 0\n1 6", True),
        (4, 2, "", True),  # nobody knows
        (4, 2, "0 4", False),  # the line is old: epochs of what went are gone
        (4, 4, "0 4", False),  # as is this one, behind a kill
        (4, 5, "0 4", False),
        (0, 0, "0 0", True),
        (0, 2, "0 0", False),
    ],
)
def test_a_line_that_only_a_tiered_topic_has(
    tmp_path: pathlib.Path, first: int, line: int, epochs: str, is_tiered: bool
) -> None:
    """A broker notes a log start only if it is above the first segment, or the topic has remote storage."""
    partition = in_a_log_dir(tmp_path, {first: segment(first), first + 4: segment(first + 4)}, log_start=line)
    lines = epochs.splitlines()
    (partition / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    if is_tiered:
        assert f"log-start-offset-checkpoint has {line}" in refusal(partition)
    else:
        assert deletions(retained(partition)) == [first, first + 4]


def test_what_does_not_go_needs_no_word(copy_of: CopyOf) -> None:
    partition = copy_of("tiered/logdir") / "t-0"
    (plan,) = [plan for plan in retained(partition, retention_ms="-1") if "deletions" in plan.answer]
    assert plan.answer["deletions"] == []
    assert any("if the topic is tiered, set --config" in note for note in map(words, plan.notes))


# ---------------------------------------------------------------- compacted


def test_a_line_of_the_cleaner(tmp_path: pathlib.Path) -> None:
    partition = in_a_log_dir(tmp_path, SOUND, cleaner=4)
    for given in ({}, {"retention_ms": "1"}, {"retention_bytes": "1", "retention_ms": "-1"}):
        told = refusal(partition, **given)
        assert "cleanup.policy" in told
        assert "cleaner-offset-checkpoint has a line for it, 4" in told
    assert deletions(retained(partition, cleanup_policy="compact")) == []
    assert deletions(retained(partition, cleanup_policy="delete")) == [0, 4, 8]
    assert deletions(retained(partition, log_cleanup_policy="delete")) == [0, 4, 8]


CLEANED = {
    "offsets missing between batches": one_record(0) + one_record(3),
    "a batch without some of its records": build_batch([Record(0, NOW_MS, b"k", b"v")], last_offset=3),
    "a delete horizon": build_batch([Record(0, NOW_MS, b"k", None)], delete_horizon_ms=NOW_MS),
}


@pytest.mark.parametrize("how", CLEANED)
def test_gaps_as_cleaning_leaves_them(tmp_path: pathlib.Path, how: str) -> None:
    partition = in_a_log_dir(tmp_path, {0: CLEANED[how], 4: segment(4), 8: segment(8)})
    assert f"{0:020d}.log has gaps as the log cleaner leaves them" in refusal(partition)
    assert deletions(retained(partition, cleanup_policy="delete")) == [0, 4, 8]
    assert deletions(retained(partition, retention_ms="1")) == [0, 4, 8]  # somebody wants it


def test_records_of_what_looks_compacted_are_not_deleted_either(tmp_path: pathlib.Path) -> None:
    """A broker refuses that for a topic that is only compacted."""
    partition = in_a_log_dir(tmp_path, SOUND, cleaner=4)
    given = {"now_ms": NOW_MS, "jobs": 1, "before": 5}
    with pytest.raises(Refused, match=r"records would be deleted, but cleanup\.policy is a guess"):
        list(decided("delete-records", str(partition), given))
    (plan, *_) = [
        plan
        for plan in decided("delete-records", str(partition), given | {"config": {"cleanup.policy": "compact,delete"}})
        if "moved" in plan.answer
    ]
    assert plan.answer["moved"] is True


def test_what_nothing_says_is_compacted_is_not_forced_to_be(tmp_path: pathlib.Path) -> None:
    partition = in_a_log_dir(tmp_path, SOUND)
    given = {"now_ms": LATER_MS, "jobs": 1, "force": True}
    with pytest.raises(Refused, match="nothing on the disk says that the topic is compacted"):
        list(decided("compact", str(partition), given))
    assert list(decided("compact", str(partition), given | {"force": False}))
    assert list(decided("compact", str(partition), given | {"config": {"cleanup.policy": "compact"}}))
    (partition.parent / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    assert list(decided("compact", str(partition), given))


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_what_a_broker_gives_its_own_topics_is_no_guess(tmp_path: pathlib.Path, topic: str) -> None:
    partition = make(tmp_path / f"{topic}-0", SOUND)
    assert deletions(retained(partition)) == []


# ---------------------------------------------------------------- kept for longer


def old_and_new(days: float) -> dict[int, bytes]:
    newest = NOW_MS + int(days * DAY_MS)
    return {0: one_record(0, time_ms=NOW_MS), 1: one_record(1, time_ms=newest), 2: one_record(2, time_ms=newest)}


def test_a_log_that_was_written_on_while_its_first_segment_was_long_due(tmp_path: pathlib.Path) -> None:
    partition = in_a_log_dir(tmp_path, old_and_new(8.5))
    told = refusal(partition)
    assert "retention.ms is a guess: the topic seems to keep more than seven days" in told
    assert "its newest record is 8 d 12 h newer" in told
    assert deletions(retained(partition, retention_ms=str(7 * DAY_MS))) == [0, 1, 2]
    assert deletions(retained(partition, log_retention_hours="168")) == [0, 1, 2]
    assert deletions(retained(partition, retention_ms="-1")) == []


@pytest.mark.parametrize("days", [0, 6.9, 7.9])
def test_what_a_broker_that_was_down_for_a_while_leaves_is_no_such_log(tmp_path: pathlib.Path, days: float) -> None:
    assert deletions(retained(in_a_log_dir(tmp_path, old_and_new(days)))) == [0, 1, 2]


def test_a_time_in_the_future_says_nothing(tmp_path: pathlib.Path) -> None:
    logs = {0: one_record(0, time_ms=NOW_MS), 1: one_record(1, time_ms=LATER_MS + 10**12)}
    assert deletions(retained(in_a_log_dir(tmp_path, logs))) == [0]


def test_retention_behind_a_cleaning_guesses_no_more(tmp_path: pathlib.Path) -> None:
    keyed = [
        build_batch([Record(n, NOW_MS + n * 9 * DAY_MS, b"%d" % n, b"v")]) for n in range(3)
    ]  # no key twice: all stay
    partition = in_a_log_dir(tmp_path, dict(enumerate(keyed)))
    given: dict[str, Any] = {"now_ms": LATER_MS, "jobs": 1, "config": {"cleanup.policy": "compact,delete"}}
    with pytest.raises(Refused, match=r"retention\.ms is a guess"):
        list(decided("compact", str(partition), given))
    given["config"] |= {"retention.ms": "1"}
    assert list(decided("compact", str(partition), given))


def test_no_fixture_of_an_ordinary_topic_is_suspected() -> None:
    for fixture in ("leader-epochs", "retention", "transactions", "every-codec"):
        for partition in sorted((FIXTURES / fixture).glob("**/t-0")):
            retained(partition)
