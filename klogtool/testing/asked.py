"""Circumstances by name, as the functions for tests take them: the release, settings, the time, the last stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from klogtool.broker.circumstances import Circumstances
from klogtool.clock import now_ms as clock_ms
from klogtool.errors import KlogError
from klogtool.format.typed import parse_moment
from klogtool.plans.fields import WrongField
from klogtool.plans.question import Question, read_question

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klogtool.format.typed import Moment


def circumstances_of(now_ms: Moment | None, given: Mapping[str, Any]) -> Circumstances:
    """Return circumstances. now_ms: epoch ms, ISO 8601 or a datetime; None: the clock.

    given: kafka (a release, "3.9.2"); config (Kafka's names and values as text); last_stop ("clean" or "unclean");
    recovery_point, log_start_offset, high_watermark (offsets). What is not given is read from the log dir's files.
    Raises KlogError for another name or a wrong type.
    """
    moment = clock_ms() if now_ms is None else parse_moment(now_ms)
    asked = {name: value for name, value in given.items() if value is not None}
    try:
        return read_question(Question, {"now_ms": moment, **asked}, "the question").circumstances
    except WrongField as error:
        raise KlogError(str(error)) from None
