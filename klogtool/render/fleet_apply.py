"""The text and rows of `fleet apply` and `fleet check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klogtool.escape import escaped
from klogtool.fleet.checking import Checked
from klogtool.fleet.sharing import AlreadyThere, Todo
from klogtool.render.counts import count_text

_VERBS = {"truncate": "cut", "set-aside": "move out of the log dir", "restore": "rename"}


def share_line(result: AlreadyThere | Todo) -> str:
    """Return `to do: cut t-0 to 33: damaged ...`."""
    share = result.share
    to = "" if share.to is None else f" to {share.to:,}"
    state = "done already" if isinstance(result, AlreadyThere) else "to do"
    return f"{state}: {_VERBS[share.action]} {escaped(share.placed.copy.folder)}{to}: {escaped(share.why)}"


def share_row(result: AlreadyThere | Todo) -> dict[str, object]:
    """Return the row of JSON."""
    share = result.share
    return {
        "type": "share",
        "done": isinstance(result, AlreadyThere),
        "topic": share.placed.copy.topic,
        "partition": share.placed.copy.partition,
        "log_dir": share.placed.copy.log_dir,
        "folder": share.placed.copy.folder,
        "action": share.action,
        "to": share.to,
        "why": share.why,
    }


def checked_text(results: Sequence[Checked]) -> Iterator[str]:
    """Yield a line for each copy that is not as the plan wants it, and how many are."""
    for each in results:
        if each.why is not None:
            where = f"{each.topic}-{each.partition}  broker {each.node_id}"
            yield f"{escaped(where)}: {escaped(each.why)}"
    holding = sum(each.holds for each in results)
    yield f"{count_text(holding, 'copy', 'copies')} as planned, {len(results) - holding:,} not."
