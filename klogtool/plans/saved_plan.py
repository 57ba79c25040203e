"""A plan as it is saved: without the bytes that it writes. To carry it out, klogtool decides again and compares."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from klogtool.broker.file_facts import Fact, sum_of
from klogtool.broker.spools import MakeSpool
from klogtool.causes import Say, named
from klogtool.errors import Refused, StalePlan
from klogtool.json_rows import restored, row_line
from klogtool.log.offset_ranges import Offsets
from klogtool.plans.causes import FieldCause, PlanRefusal
from klogtool.plans.decisions import decide, question_type
from klogtool.plans.fields import JsonObject, WrongField, absolute, checked_path, inside, read_as
from klogtool.plans.plan import (
    Discard,
    Plan,
    PlanRow,
    Rename,
    RenameFolder,
    SavedStep,
    Write,
    may_discard,
    may_rename_folder,
)
from klogtool.plans.question import Question, read_question
from klogtool.plans.saved_losses import read_losses
from klogtool.values import Natural

SCHEMA = 1
KEPT_BYTES = 256 << 20  # contents in memory, of all plans; other plans are decided again when they are carried out
LIGHT_BYTES = 64 << 10  # contents of a plan up to this size are always kept
SUM = "sum"


class SavedPlan(Struct, frozen=True):
    """A plan in its saved form. plan: the plan itself, if it is still in memory. Paths of facts are absolute."""

    row: PlanRow
    question: Question
    plan: Plan | None = None

    @property
    def id(self) -> str:
        """The plan's id."""
        return self.row.id

    @property
    def command(self) -> str:
        """The command that planned."""
        return self.row.command

    @property
    def path(self) -> str:
        """The plan's path."""
        return self.row.path

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts, with absolute paths."""
        return self.row.facts

    @property
    def steps(self) -> tuple[SavedStep, ...]:
        """The steps, without new bytes."""
        return self.row.steps

    @property
    def loses(self) -> bool:
        """Whether its answer reports lost records, as `Plan.loses`."""
        return read_losses(self.command, self.row.answer).loses

    @property
    def gone(self) -> tuple[tuple[int, int], ...]:
        """Return the offsets [first, last], ascending, of which its answer says that the log lacks them when it is
        carried out."""
        deleted = Offsets()
        for loss in read_losses(self.command, self.row.answer).walk_gone():
            if loss.span is not None:
                deleted.add(*loss.span)
        return tuple(deleted.ranges)

    @classmethod
    def of(cls, plan: Plan, *, say: Say = named, with_content: bool = True) -> SavedPlan:
        """Save a new plan. If its content is left out or incomplete, it has to be decided again. say: gives its reasons
        their sentences, unless nobody reads them."""
        return cls(plan.as_row(say), plan.question, plan if with_content and plan.is_whole else None)

    @property
    def renames_folders(self) -> bool:
        """Whether a step renames a folder."""
        return any(isinstance(step, RenameFolder) for step in self.steps)

    @property
    def discards(self) -> bool:
        """Whether a step deletes a folder of klogtool's own for good."""
        return any(isinstance(step, Discard) for step in self.steps)

    @property
    def changes_log_dir(self) -> bool:
        """Whether there is any other step."""
        return not all(isinstance(step, Discard) for step in self.steps)

    def decided(self, make_spool: MakeSpool | None = None) -> Plan:
        """Return the plan with all its content. Raises StalePlan if the same question now has another answer.

        make_spool: for large contents, if the plan has to be decided again.
        """
        if self.plan is not None:
            return self.plan
        for plan in decide(self.command, self.path, self.question, make_spool):
            if plan.path == self.path and plan.id == self.id:
                return plan
        raise self.is_stale()

    def is_stale(self) -> StalePlan:
        """Return the error for a decision that has changed."""
        return StalePlan(PlanRefusal.DECIDES_DIFFERENTLY(command=self.command, plan=self.id), path=self.path)


class KeptPlans:
    """Plans in memory, with their contents as long as those fit, else as saved. `plans`: in order."""

    def __init__(self, say: Say = named) -> None:
        self.plans: list[SavedPlan] = []
        self._say = say
        self._room_bytes = KEPT_BYTES

    def keep(self, plan: Plan) -> SavedPlan:
        """Add one plan."""
        contents = (step.content for step in plan.steps if isinstance(step, Write))
        size = sum(len(part) for content in contents for part in content if isinstance(part, bytes))
        fits = size <= max(self._room_bytes, LIGHT_BYTES)
        self._room_bytes -= size if fits else 0
        self.plans.append(SavedPlan.of(plan, say=self._say, with_content=fits))
        return self.plans[-1]


def decide_saved(
    plans: Sequence[SavedPlan],
    paths: Sequence[str],
    spools_for: Callable[[str], MakeSpool | None] = lambda _: None,
) -> list[SavedPlan]:
    """Decide the same plans again, all at once. paths: what the command was given, of which the plans are parts; if
    empty, each plan is decided by itself. spools_for: gives `decide` its make_spool for a path. Raises StalePlan if a
    decision has changed."""
    kept = KeptPlans()
    wanted = {(plan.path, plan.id) for plan in plans}
    for command, question in _questions(plans):
        own = (plan.path for plan in plans if (plan.command, plan.question) == (command, question))
        for path in paths or dict.fromkeys(own):
            for plan in decide(command, path, question, spools_for(path)):
                if (plan.path, plan.id) in wanted:
                    kept.keep(plan)
    decided = {(plan.path, plan.id): plan for plan in kept.plans}
    missing = next((plan for plan in plans if (plan.path, plan.id) not in decided), None)
    if missing is not None:
        raise missing.is_stale()
    again = ((plan.row, decided[plan.path, plan.id]) for plan in plans)
    return [replace(now, row=replace(row, facts=now.row.facts)) for row, now in again]


def _questions(plans: Iterable[SavedPlan]) -> list[tuple[str, Question]]:
    questions: list[tuple[str, Question]] = []
    for plan in plans:
        if (plan.command, plan.question) not in questions:
            questions.append((plan.command, plan.question))
    return questions


# As lines of JSON.


class PlansHead(Struct, frozen=True, tag_field="type", tag="klogtool"):
    """The first line, as far as it is read. paths: what the command was given; empty if that was not recorded."""

    schema: int
    command: str
    plans: Natural
    paths: tuple[str, ...] = ()


def build_saved_plans(head: Mapping[str, object], plans: Sequence[SavedPlan]) -> bytes:
    """Build the saved form: the head (as in all JSON of klogtool, with more fields), then a line for each plan."""
    return b"".join([_build_line({**head, "plans": len(plans)}), *(_build_line(plan.row) for plan in plans)])


def _build_line(row: Mapping[str, object] | PlanRow) -> bytes:
    """Build a line that ends with a checksum of the rest, so that changes by others are noticed."""
    line = row_line(row).encode()
    return line[:-1] + b',"%b":"%b"}\n' % (SUM.encode(), sum_of(line).encode())


def parse_saved_plans(lines: Iterable[bytes], path: str) -> tuple[JsonObject, list[SavedPlan]]:
    """Parse the head and the plans. Raises Refused, which names the field, for anything else."""
    first, *rest = lines or [b""]
    head = parse_head(first, path)
    with _refused(path):
        if head["plans"] != len(rest):
            raise WrongField(FieldCause.PLANS_MISSING(saved=head["plans"], plans=len(rest)))
    return head, [_parse_plan(line, n, path) for n, line in enumerate(rest, 1)]


def parse_head(line: bytes, path: str) -> JsonObject:
    """Parse the first line. Raises Refused for anything else."""
    with _refused(path):
        value = _parse_line(line, "the head")
        if value.get("type") != "klogtool":
            raise WrongField(FieldCause.NO_HEAD())
        head = read_as(value, PlansHead)
        if head.schema != SCHEMA:
            raise WrongField(FieldCause.OTHER_SCHEMA(schema=head.schema, known=SCHEMA))
        for name in head.paths:
            absolute(name, "paths")
        _check_sum(line)
        return value


def paths_of(head: Mapping[str, object]) -> list[str]:
    """Return the paths that the command was given, by the head."""
    return list(read_as(head, PlansHead).paths)


def _parse_plan(line: bytes, n: int, file: str) -> SavedPlan:
    with _refused(file, f"plan {n}"):
        value = _parse_line(line, "the line")
        if value.get("type") != "plan":
            raise WrongField(FieldCause.NO_PLAN())
        row = read_as(value, PlanRow)
        for place, fact, fields in zip(count(), row.facts, value["facts"], strict=False):
            absolute(fact.path, f"facts[{place}].path")
            for name in fields.keys() - to_builtins(fact).keys():
                raise WrongField(FieldCause.NULL(field=f"facts[{place}].{name}"))
        absolute(row.path, "path")
        for place, step in enumerate(row.steps):
            check_step(step, row.path, f"steps[{place}]")
        try:
            kind = question_type(row.command)
        except Refused as error:
            raise WrongField(f"command: {error.reason}") from None
        question = read_question(kind, row.arguments)
        _check_sum(line)
        return SavedPlan(row, question)


def _parse_line(line: bytes, what: str) -> JsonObject:
    try:
        return read_as(restored(json.loads(line)), JsonObject)
    except WrongField:
        raise
    except (ValueError, TypeError, RecursionError):  # TypeError: a base64 name that is not a string
        raise WrongField(FieldCause.NO_JSON(what=what)) from None


def _check_sum(line: bytes) -> None:
    text, _, checksum = line.rstrip(b"\r\n").rpartition(b',"%b":' % SUM.encode())
    if not text or checksum != b'"%b"}' % sum_of(text + b"}").encode():
        raise WrongField(FieldCause.CHANGED(field=SUM))


def check_step(step: SavedStep, plan_path: str, name: str) -> None:
    """Raises WrongField for a step that leads elsewhere than steps of klogtool's plans. name: of the step."""
    match step:
        case Discard():
            if not may_discard(checked_path(step.path, f"{name}.path"), plan_path):
                raise WrongField(FieldCause.NOT_OURS(field=name))
        case RenameFolder():
            if not may_rename_folder(inside(step.path, f"{name}.path"), checked_path(step.to, f"{name}.to"), plan_path):
                raise WrongField(FieldCause.NO_MOVE(field=name))
        case _:
            inside(step.path, f"{name}.path")
            if isinstance(step, Rename):
                inside(step.to, f"{name}.to")


@contextmanager
def _refused(path: str, what: str = "") -> Iterator[None]:
    """Turn a wrong field into an error about the file."""
    try:
        yield
    except WrongField as error:
        where = f"{what}: " if what else ""
        raise Refused(PlanRefusal.NO_SAVED_PLAN(where=where, why=str(error)), path=path) from None
