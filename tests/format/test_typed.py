"""Numbers and times as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from klogtool.errors import Corrupt, KlogError
from klogtool.format.typed import parse_moment, parse_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("1783", 1783), ("1,783", 1783), ("-1", -1), ("-1,000", -1000)),
        ("9,223,372,036,854,775,807", 2**63 - 1),
    ],
)
def test_numbers_as_they_are_shown(text: str, number: int) -> None:
    assert parse_number(text) == number
    assert parse_number(f"{number:,}") == number


@pytest.mark.parametrize("text", ["", ",", "1,2", "1,7833", "1783,000", ",100", "1,000,0", "1,,000", "1 783", "1,78x"])
@pytest.mark.parametrize("end", ["", ","])
def test_other_commas_are_no_numbers(text: str, end: str) -> None:
    with pytest.raises(Corrupt):
        parse_number(text + end)


@pytest.mark.parametrize(
    ("moment", "ms"),
    [
        (1_700_000_000_000, 1_700_000_000_000),
        ("1700000000000", 1_700_000_000_000),
        ("1,700,000,000,000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.007+01:00", 1_700_000_000_007),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
        ("1969-12-31T23:59:59.999Z", -1),
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 1_700_000_000_000),
        (datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=2))), 1_700_000_000_000),
        (datetime(2023, 11, 14, 22, 13, 20), 1_700_000_000_000),
    ],
)
def test_moments(moment: int | str | datetime, ms: int) -> None:
    assert parse_moment(moment) == ms


@pytest.mark.parametrize("text", ["", "yesterday", "1,2", "2023-13-01", "12:00"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(KlogError, match="neither epoch milliseconds nor ISO 8601"):
        parse_moment(text)
