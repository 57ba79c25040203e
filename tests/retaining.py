"""Retention asked of small partition dirs: what is deleted, what is kept and why, which files there are then."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from deciding import decided
from loading import CONFIG, NOW_MS, result_of

from klogtool.broker.circumstances import Circumstances
from klogtool.plans.plan import Plan

FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}


def arguments(now_ms: int, config: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    circumstances = Circumstances(now_ms=now_ms, config={**CONFIG, **FOREVER, **config}, **given)
    return {**circumstances.as_arguments(), "jobs": 1}


def retained(folder: pathlib.Path, config: Mapping[str, str], now_ms: int = NOW_MS, **given: Any) -> Plan:
    """The plan of retain for a partition dir that lies in no log dir; without limits but those of config."""
    (plan,) = decided("retain", str(folder), arguments(now_ms, config, given))
    return plan


def records_deleted(
    folder: pathlib.Path, before: int, config: Mapping[str, str] | None = None, now_ms: int = NOW_MS, **given: Any
) -> Plan:
    """The plan of delete-records for such a partition dir."""
    (plan,) = decided("delete-records", str(folder), {**arguments(now_ms, config or {}, given), "before": before})
    return plan


def gone(plan: Plan) -> list[tuple[int, str]]:
    """Base offsets of what goes, and why."""
    return [(row["segment"], row["reason"]) for row in plan.answer["deletions"]]


def kept(plan: Plan) -> list[tuple[int, str]]:
    """Base offsets of what stays, and why."""
    return [(row["segment"], row["reason"]) for row in plan.answer["kept"]]


def after(plan: Plan) -> dict[str, bytes]:
    """The files afterwards."""
    return result_of(plan)
