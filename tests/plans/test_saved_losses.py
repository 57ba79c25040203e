"""What the answer of a saved plan says of losses."""

from __future__ import annotations

from typing import Any

import pytest

from klogtool.plans.saved_losses import read_losses

SPAN = {"first_offset": 5, "last_offset": 9}


@pytest.mark.parametrize(
    ("command", "answer", "loses"),
    [
        ("recover", {}, False),
        ("recover", {"lost": SPAN, "loses_records": False}, False),
        ("recover", {"lost": None, "loses_records": True}, True),
        ("recover", {"missing": [SPAN]}, True),
        ("recover", {"may_lose": {"segment": 0, **SPAN}}, True),
        ("recover", {"stray": "another topic id"}, True),
        ("salvage", {"lost": [{"segment": 0, "start": 1, "end": 2}]}, False),  # bytes without offsets
        ("salvage", {"lost": [SPAN]}, True),
        ("retain", {"lost_by_recovery": {"truncated": []}}, True),
        ("retain", {"behind_end": {**SPAN, "told_by": []}}, True),
        ("retain", {"missing": [{**SPAN, "erased": True}]}, True),
        ("rebuild-index", {"erased": [{**SPAN, "told_by": "0.snapshot"}]}, False),
        ("transplant", {"erased": [{**SPAN, "told_by": "0.index"}]}, False),
        # What may be lost with a new set of voters was confirmed: the command itself ends with 0, and so does apply.
        ("quorum", {"may_lose": True}, False),
    ],
    ids=str,
)
def test_who_applies_a_saved_plan_says_what_its_command_says(command: str, answer: Any, loses: bool) -> None:
    assert read_losses(command, answer).loses is loses


def test_what_is_gone_are_certain_offsets() -> None:
    swap = {"first_offset": 20, "last_offset": 21}
    gaps = [{"first_offset": at, "last_offset": at + 1, "erased": at == 30} for at in (30, 40)]
    answer = {"lost": SPAN, "behind_end": {"first_offset": None, "last_offset": None}, "missing": gaps}
    for told, expected in (
        ({**answer, "lost_by_swap": swap}, [(5, 9), None, (20, 21), (30, 31)]),
        ({**answer, "lost_by_swap": {**swap, "unless_compacted": True}}, [(5, 9), None, (30, 31)]),
    ):
        assert [loss.span for loss in read_losses("recover", told).walk_gone()] == expected


def test_what_a_rebuild_erases_is_gone() -> None:
    answer = {"erased": [{**SPAN, "told_by": "x"}, {**SPAN, "last_offset": 5, "told_by": "y"}]}
    assert [loss.span for loss in read_losses("rebuild-index", answer).walk_gone()] == [(5, 9), (5, 5)]
    assert list(read_losses("rebuild-index", {}).walk_gone()) == []


@pytest.mark.parametrize("lost", [[7], [None], ["x"], 7, SPAN, [{"first_offset": "5"}]])
def test_an_answer_that_somebody_changed_says_nothing(lost: Any) -> None:
    losses = read_losses("salvage", {"lost": lost})
    assert (losses.loses, list(losses.walk_gone())) == (False, [])
