"""What a broker would know, by name, as the functions for tests take it: the release, settings, the last stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klogtool.broker.circumstances import Circumstances
from klogtool.clock import now_ms as clock_ms
from klogtool.errors import KlogError
from klogtool.format.typed import parse_moment
from klogtool.plans.fields import WrongField
from klogtool.plans.question import Question, read_question

if TYPE_CHECKING:
    from klogtool.objects import KnownArguments


def circumstances_of(known: KnownArguments) -> Circumstances:
    """Return circumstances: the fields that are not None. now_ms: the clock, if it is not known.

    What is not known is read from the log dir's files. Raises KlogError for another name or a wrong type.
    """
    fields = {name: value for name, value in known.items() if value is not None}
    now_ms = known.get("now_ms")
    fields["now_ms"] = clock_ms() if now_ms is None else parse_moment(now_ms)
    try:
        return read_question(Question, fields, "the question").circumstances
    except WrongField as error:
        raise KlogError(str(error)) from None
