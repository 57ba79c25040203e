"""How long the cleaner waits (LogCleanerManager.maxCompactionDelay): by the first batch of each segment."""

import pathlib

import pytest
from loading import CONFIG, NOW_MS, data, make

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.cleaning.dirty_range import find_log_to_clean
from klogtool.broker.unified_log.loaded_partition import load

LAG_MS, AGE_MS = 500, 1200


@pytest.mark.parametrize("unknown", [0, -1])
def test_a_segment_without_a_timestamp_says_nothing_about_its_age(unknown: int, tmp_path: pathlib.Path) -> None:
    times = {0: unknown, 10: NOW_MS - AGE_MS, 20: NOW_MS - AGE_MS + 100, 30: NOW_MS - 2 * AGE_MS}
    folder = make(tmp_path / "t-0", {base: data(base, time_ms=time_ms) for base, time_ms in times.items()})
    settings = {**CONFIG, "cleanup.policy": "compact", "max.compaction.lag.ms": str(LAG_MS)}
    log = load(str(folder), Circumstances(now_ms=NOW_MS, config=settings)).log
    assert find_log_to_clean(log, None, NOW_MS).compaction_delay_ms == AGE_MS - LAG_MS  # not by the active segment


@pytest.mark.parametrize("late_ms", [0, 1, 2])
def test_a_log_is_due_once_its_first_record_is_older_than_the_lag(late_ms: int, tmp_path: pathlib.Path) -> None:
    """LogCleanerManager.grabFilthiestCompactedLog: needCompactionNow, whatever the dirty ratio is."""
    folder = make(tmp_path / "t-0", {0: data(0, time_ms=NOW_MS - LAG_MS - late_ms), 10: data(10, time_ms=NOW_MS)})
    config = {"cleanup.policy": "compact", "max.compaction.lag.ms": str(LAG_MS), "min.cleanable.dirty.ratio": "1"}
    log = load(str(folder), Circumstances(now_ms=NOW_MS, config={**CONFIG, **config})).log
    assert find_log_to_clean(log, None, NOW_MS).is_eligible is (late_ms > 0)
    assert not find_log_to_clean(log, 10, NOW_MS).is_eligible  # all is clean up to the active segment
