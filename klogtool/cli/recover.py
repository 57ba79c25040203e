"""klogtool verify --recover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import decide_and_carry_out
from klogtool.render.recover import recover_text
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.plan import Plan
from klogtool.repair.recover import COMMAND, check_mark_clean, loses_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def recover(paths: Sequence[str], form: str, given: Circumstances, chosen: Mapping[str, Any]) -> int:
    """What a broker's start would make of the paths; and that, if it is asked for. Returns the exit status."""
    arguments = given.as_arguments()
    if chosen["mark_clean"]:
        for path in paths:
            check_mark_clean(path)
        arguments["mark_clean"] = True
    if chosen["jobs"] is not None:
        arguments["jobs"] = chosen["jobs"]
    is_shown_only = not (chosen["apply"] or chosen["output"])

    def status_of(plan: Plan) -> int:
        return FOUND if is_shown_only and loses_records(plan) else DONE

    given_too = {**chosen, "form": form}
    return decide_and_carry_out(COMMAND, paths, arguments, given_too, text_of=recover_text, status_of=status_of)
