"""A query gives the same rows with filters pushed down and without, whatever is wrong with the files beside a log."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import pytest
from false_indexes import BASES, SECONDS, damaged, write_sound
from loading import NOW_MS

KEY = "spark.sql.python.filterPushdown.enabled"


@pytest.mark.parametrize("seed", range(4))
def test_pushed_filters_change_no_answer(pushing: Any, tmp_path: pathlib.Path, seed: int) -> None:
    from pyspark.sql import functions as sql

    chance = random.Random(seed)
    folder = damaged(write_sound(tmp_path / "sound-0"), tmp_path / "t-0", chance)
    for _ in range(4):
        second, offset = chance.randrange(SECONDS), chance.randrange(BASES[-1])
        moment = sql.timestamp_millis(sql.lit(NOW_MS + 1000 * second))
        asked = chance.choice(
            (sql.col("timestamp") >= moment, sql.col("timestamp") < moment, sql.col("offset") > offset)
        )
        told = []
        for pushed in ("true", "false"):
            pushing.conf.set(KEY, pushed)
            rows = pushing.read.format("klog").load(str(folder)).where(asked).select("offset").collect()
            told.append(sorted(row.offset for row in rows))
        assert told[0] == told[1]


def test_names_of_columns_in_any_case(pushing: Any, tmp_path: pathlib.Path) -> None:
    folder = write_sound(tmp_path / "t-0")
    pushing.conf.set(KEY, "true")
    rows = pushing.read.format("klog").schema("OFFSET bigint, TimestampType int").load(str(folder))
    assert rows.columns == ["OFFSET", "TimestampType"]
    assert [tuple(row) for row in rows.where("offset >= 158").collect()] == [(158, 0), (159, 0)]
    lost = pushing.read.format("klog").option("table", "left_out").option("columns", "START,reason").load(str(folder))
    assert lost.columns == ["start", "reason"]
    assert lost.count() == 0
