"""What rebuild-index does, once its words are understood. Knows nothing of click: see cli/plain.py."""

from __future__ import annotations

from klogtool.cli.writing import decide_and_carry_out
from klogtool.repair.rebuild import COMMAND, answer_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from klogtool.repair.circumstances import Circumstances


def run_rebuild_index(partition: str, given: Circumstances, chosen: Mapping[str, Any]) -> int:
    """Plan, show, perhaps carry out; returns the exit status. chosen: the command's options."""
    arguments = {**given.as_arguments(), "segments": chosen["segments"], "only": chosen["only"]}
    if chosen["jobs"] is not None:
        arguments["jobs"] = chosen["jobs"]
    return decide_and_carry_out(COMMAND, [partition], arguments, chosen, answers_of=answer_rows)
