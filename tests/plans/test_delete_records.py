"""delete-records: where a log begins afterwards, what goes, and what a broker refuses."""

import pathlib

import pytest
from loading import EPOCHS, NOW_MS, files_of, make, names_of, segment
from retaining import after, gone, records_deleted

from klogtool.errors import KlogError

DAY_MS = 86_400_000


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    """Segments 0, 4 and 8 of four records each."""
    return make(tmp_path / "t-0", {base: segment(base) for base in (0, 4, 8)})


@pytest.mark.parametrize(
    ("before", "bases", "checkpoint"),
    [(1, [], 1), (3, [], 3), (4, [0], None), (7, [0], 7), (8, [0, 4], None), (11, [0, 4], 11), (12, [0, 4], 12)],
)
def test_the_log_begins_there_and_whole_segments_below_go(
    log: pathlib.Path, before: int, bases: list[int], checkpoint: int | None
) -> None:
    plan = records_deleted(log, before)
    assert plan.answer["moved"] is True
    assert gone(plan) == [(base, "log_start") for base in bases]
    state = {"log_start_offset": before, "log_end_offset": 12, "log_start_checkpoint": checkpoint}
    assert plan.answer["state"] == state
    assert names_of(after(plan), "log.deleted") == bases
    assert after(plan)[EPOCHS] == f"0\n1\n1 {before}\n".encode()


def test_the_active_segment_stays_where_all_records_go(log: pathlib.Path) -> None:
    plan = records_deleted(log, -1)
    assert names_of(after(plan), "log") == [8]
    assert plan.answer["state"]["log_start_checkpoint"] == 12


@pytest.mark.parametrize("before", [0, 3, 5])
def test_a_log_that_begins_there_or_later_does_not_move(log: pathlib.Path, before: int) -> None:
    plan = records_deleted(log, before, log_start_offset=5)
    assert plan.answer["moved"] is False
    assert plan.answer["state"]["log_start_offset"] == 5
    assert gone(plan) == [(0, "log_start")], "what is below the log start anyway"


def test_what_is_too_old_or_too_much_is_left_to_retain(log: pathlib.Path) -> None:
    config = {"retention.ms": "1", "retention.bytes": "1"}
    assert gone(records_deleted(log, 5, config, NOW_MS + DAY_MS)) == [(0, "log_start")]


def test_nothing_changes_where_nothing_moves(log: pathlib.Path) -> None:
    plan = records_deleted(log, 0)
    assert (plan.answer["moved"], plan.steps) == (False, ())
    assert after(plan) == files_of(log)


@pytest.mark.parametrize(
    ("before", "high_watermark", "policy", "kafka_class"),
    [
        (13, None, "delete", "OffsetOutOfRangeException"),
        (7, 6, "delete", "OffsetOutOfRangeException"),
        (-2, None, "delete", "OffsetOutOfRangeException"),
        (5, None, "compact", "PolicyViolationException"),
    ],
)
def test_what_a_broker_refuses(
    log: pathlib.Path, before: int, high_watermark: int | None, policy: str, kafka_class: str
) -> None:
    with pytest.raises(KlogError) as refused:
        records_deleted(log, before, {"cleanup.policy": policy}, high_watermark=high_watermark)
    assert refused.value.kafka_class == kafka_class


@pytest.mark.parametrize("policy", ["compact,delete", ""])
def test_other_policies_allow_it(log: pathlib.Path, policy: str) -> None:
    assert gone(records_deleted(log, 4, {"cleanup.policy": policy})) == [(0, "log_start")]


def test_the_high_watermark_is_where_minus_one_leads(log: pathlib.Path) -> None:
    assert records_deleted(log, -1, high_watermark=6).answer["state"]["log_start_offset"] == 6
