"""A plan as it is saved: all but the bytes that it writes. Whoever carries it out decides again, and compares."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from klogtool.errors import Corrupt, StalePlan, Unsupported
from klogtool.lazy_dataclasses import dataclass
from klogtool.repair.decisions import decide
from klogtool.repair.plan import Fact, Plan, Write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from klogtool.repair.spools import MakeSpool

SCHEMA = 1
KEPT_BYTES = 256 << 20  # of contents in memory, over all plans; the others are decided again when their turn comes
LIGHT_BYTES = 64 << 10  # contents of a plan that are kept in any case
DEEPEST_ARGUMENT = 16  # objects and lists in one another; what goes deeper was not saved by klogtool


@dataclass(frozen=True, slots=True)
class SavedStep:
    """A step without content: what it is called in JSON, the file below the plan's path, what else there is of it."""

    kind: str
    path: str
    to: str | None = None
    size: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of the files that it changes, below the plan's."""
        return (self.path,) if self.to is None else (self.path, self.to)


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """row: the plan as JSON. plan: the plan itself, where it is still in memory. Paths of facts are absolute."""

    row: Mapping[str, Any]
    id: str
    command: str
    path: str
    arguments: Mapping[str, Any]
    facts: tuple[Fact, ...]
    steps: tuple[SavedStep, ...]
    plan: Plan | None = None

    @classmethod
    def of(cls, plan: Plan, *, with_content: bool = True) -> SavedPlan:
        """A plan that was just made; without its content, or if that is not whole, it has to be made again."""
        return _from_row(plan.as_json(), plan if with_content and plan.is_whole else None)

    def decided(self, make_spool: MakeSpool | None = None) -> Plan:
        """The plan with all its content. Raises StalePlan if the same question has another answer now.

        make_spool: for what is large, if that has to be asked.
        """
        if self.plan is not None:
            return self.plan
        for plan in decide(self.command, self.path, self.arguments, make_spool):
            if plan.path == self.path and plan.id == self.id:
                return plan
        raise self.is_stale()

    def is_stale(self) -> StalePlan:
        """The error for a decision that is another one now."""
        return StalePlan(f"'{self.command}' decides otherwise now than in plan {self.id}", path=self.path)


class KeptPlans:
    """Plans in memory, as long as their contents fit; of those that do not, what is saved. `plans`: in order."""

    def __init__(self) -> None:
        self.plans: list[SavedPlan] = []
        self._room_bytes = KEPT_BYTES

    def keep(self, plan: Plan) -> SavedPlan:
        """One more."""
        contents = (step.content for step in plan.steps if isinstance(step, Write))
        size = sum(len(part) for content in contents for part in content if isinstance(part, bytes))
        fits = size <= max(self._room_bytes, LIGHT_BYTES)
        self._room_bytes -= size if fits else 0
        self.plans.append(SavedPlan.of(plan, with_content=fits))
        return self.plans[-1]


def paths_of(head: Mapping[str, Any]) -> list[str]:
    """What the command was asked, by the head of what was saved."""
    paths = head.get("paths")
    return [_text(path) for path in paths] if isinstance(paths, list) else []


def decide_saved(
    plans: Sequence[SavedPlan],
    paths: Sequence[str],
    spools_for: Callable[[str], MakeSpool | None] = lambda _: None,
) -> list[SavedPlan]:
    """The same plans, decided again, all at once. paths: what the command was asked, of which the plans are parts;
    where that is not known, each is asked for itself. spools_for: what `decide` gets for one. Raises StalePlan if a
    decision is another one now."""
    paths = paths or list(dict.fromkeys(plan.path for plan in plans))
    kept = KeptPlans()
    wanted = {(plan.path, plan.id) for plan in plans}
    for command, arguments in _questions(plans):
        for path in paths:
            for plan in decide(command, path, arguments, spools_for(path)):
                if (plan.path, plan.id) in wanted:
                    kept.keep(plan)
    found = {(plan.path, plan.id): plan for plan in kept.plans}
    missing = next((plan for plan in plans if (plan.path, plan.id) not in found), None)
    if missing is not None:
        raise missing.is_stale()
    return [found[plan.path, plan.id] for plan in plans]


def _questions(plans: Iterable[SavedPlan]) -> list[tuple[str, Mapping[str, Any]]]:
    questions: list[tuple[str, Mapping[str, Any]]] = []
    for plan in plans:
        if (plan.command, plan.arguments) not in questions:
            questions.append((plan.command, plan.arguments))
    return questions


def build_saved_plans(head: Mapping[str, Any], plans: Iterable[SavedPlan]) -> bytes:
    """What is saved: the head (that of all JSON of klogtool, and what else there is to say), a line for each plan."""
    import json  # not for a plan that is only shown

    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in (head, *(p.row for p in plans)))


def parse_saved_plans(lines: Iterable[bytes], path: str) -> tuple[Mapping[str, Any], list[SavedPlan]]:
    """The head and the plans of what was saved so. Raises KlogError for anything else."""
    head, *rows = [_parse_row(line, path) for line in lines] or [{}]
    if head.get("type") != "klogtool":
        raise Unsupported("not a plan that klogtool saved", path=path)
    if head.get("schema") != SCHEMA:
        raise Unsupported(f"a plan of schema {head.get('schema')}, not {SCHEMA}", path=path)
    try:
        paths_of(head)
        return head, [_from_row(row) for row in rows]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Corrupt(f"not a plan that klogtool saved: {error}", path=path) from None


def _parse_row(line: bytes, path: str) -> dict[str, Any]:
    import json

    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise Unsupported("not a plan that klogtool saved: no JSON lines", path=path) from None
    if not isinstance(row, dict):
        raise Unsupported("not a plan that klogtool saved: no JSON objects", path=path)
    return row


def _from_row(row: Mapping[str, Any], plan: Plan | None = None) -> SavedPlan:
    """Raises KeyError, TypeError or AttributeError for what is no plan's."""
    facts = (Fact(_text(fact["path"]), int(fact["size"]), int(fact["mtime_ns"])) for fact in row["facts"])
    steps = (
        SavedStep(
            _text(step["step"]), _inside(step["path"]), _inside(step["to"]) if "to" in step else None, _size(step)
        )
        for step in row["steps"]
    )
    arguments = {_text(name): _argument(value, DEEPEST_ARGUMENT) for name, value in row["arguments"].items()}
    path = _text(row["path"])
    return SavedPlan(row, _text(row["id"]), _text(row["command"]), path, arguments, tuple(facts), tuple(steps), plan)


def _argument(value: Any, deepest: int) -> Any:
    """A value of an argument, whose parts are as deep as those of a plan are."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    if parts and not deepest:
        raise ValueError("an argument is nested too deep")
    for part in parts:
        _argument(part, deepest - 1)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError("a text is none")
    return value


def _inside(value: object) -> str:
    """A path below the plan's."""
    path = _text(value)
    if os.path.isabs(path) or os.pardir in path.split(os.sep):
        raise TypeError("a step leads out of the plan's folder")
    return path


def _size(step: Mapping[str, Any]) -> int:
    size = step.get("size", 0)
    if not isinstance(size, int) or size < 0:
        raise TypeError("a size is none")
    return size
