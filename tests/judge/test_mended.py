"""What was mended is a scenario, and a broker is asked of it."""

from __future__ import annotations

import pathlib
import sys

from .mended import MENDED, scenarios

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "doctor")]

from startup import SCENARIOS  # noqa: E402


def test_what_was_mended_is_a_scenario() -> None:
    assert [name for name in scenarios() if name not in SCENARIOS] == []
    assert all(MENDED.values())


def test_a_broker_is_asked_of_it() -> None:
    from kafka.test_brokers_as_the_doctor_said import BY_NIGHT

    assert set(BY_NIGHT) >= set(scenarios())
