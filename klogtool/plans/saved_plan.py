"""A plan as it is saved: without the bytes that it writes. To carry it out, klogtool decides again and compares."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.file_facts import Fact, sum_of
from klogtool.errors import Refused, StalePlan
from klogtool.json_rows import restored, row_line
from klogtool.plans.decisions import decide, question_type
from klogtool.plans.fields import MOST, Fields, WrongField
from klogtool.plans.plan import (
    KINDS,
    Discard,
    Plan,
    Rename,
    RenameFolder,
    Step,
    Truncate,
    Write,
    may_discard,
    may_rename_folder,
)
from klogtool.plans.question import Question, read_question

if TYPE_CHECKING:
    from klogtool.broker.spools import MakeSpool


SCHEMA = 1
KEPT_BYTES = 256 << 20  # contents in memory, of all plans; other plans are decided again when they are carried out
LIGHT_BYTES = 64 << 10  # contents of a plan up to this size are always kept
SUM = "sum"
RENAME_FOLDER = KINDS[RenameFolder]
DISCARD = KINDS[Discard]


class SavedStep(Struct, frozen=True):
    """A step without content: its name in JSON, the file's path relative to the plan's, and the step's other fields."""

    kind: str
    path: str
    to: str | None = None
    size: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of the files that it changes, relative to the plan's. A step about a folder changes none."""
        if self.kind in (RENAME_FOLDER, DISCARD):
            return ()
        return (self.path,) if self.to is None else (self.path, self.to)


class SavedPlan(Struct, frozen=True):
    """row: the plan as JSON. plan: the plan itself, if it is still in memory. Paths of facts are absolute."""

    row: Mapping[str, Any]
    id: str
    command: str
    path: str
    question: Question
    facts: tuple[Fact, ...]
    steps: tuple[SavedStep, ...]
    plan: Plan | None = None

    @property
    def loses(self) -> bool:
        """Whether its answer reports lost records, as `Plan.loses`."""
        answer = self.row["answer"]
        lost = answer.get("lost")
        if isinstance(lost, list):
            return any(loss["first_offset"] is not None for loss in lost)
        return any(answer.get(name) for name in ("loses_records", "behind_end", "missing", "lost_by_recovery", "stray"))

    @classmethod
    def of(cls, plan: Plan, *, with_content: bool = True) -> SavedPlan:
        """Save a new plan. If its content is left out or incomplete, it has to be decided again."""
        row = plan.as_json()
        facts = (replace(fact, path=os.path.join(plan.path, fact.path).rstrip("/")) for fact in plan.facts)
        whole = plan if with_content and plan.is_whole else None
        steps = tuple(map(_saved_step, plan.steps))
        return cls(row, row["id"], plan.command, plan.path, plan.question, tuple(facts), steps, whole)

    @property
    def renames_folders(self) -> bool:
        """Whether a step renames a folder."""
        return any(step.kind == RENAME_FOLDER for step in self.steps)

    @property
    def discards(self) -> bool:
        """Whether a step deletes a folder of klogtool's own for good."""
        return any(step.kind == DISCARD for step in self.steps)

    @property
    def changes_log_dir(self) -> bool:
        """Whether there is any other step."""
        return any(step.kind != DISCARD for step in self.steps)

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
        return StalePlan(f"'{self.command}' now decides differently than plan {self.id}", path=self.path)


class KeptPlans:
    """Plans in memory, with their contents as long as those fit, else as saved. `plans`: in order."""

    def __init__(self) -> None:
        self.plans: list[SavedPlan] = []
        self._room_bytes = KEPT_BYTES

    def keep(self, plan: Plan) -> SavedPlan:
        """Add one plan."""
        contents = (step.content for step in plan.steps if isinstance(step, Write))
        size = sum(len(part) for content in contents for part in content if isinstance(part, bytes))
        fits = size <= max(self._room_bytes, LIGHT_BYTES)
        self._room_bytes -= size if fits else 0
        self.plans.append(SavedPlan.of(plan, with_content=fits))
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
    found = {(plan.path, plan.id): plan for plan in kept.plans}
    missing = next((plan for plan in plans if (plan.path, plan.id) not in found), None)
    if missing is not None:
        raise missing.is_stale()
    return [found[plan.path, plan.id] for plan in plans]


def _questions(plans: Iterable[SavedPlan]) -> list[tuple[str, Question]]:
    questions: list[tuple[str, Question]] = []
    for plan in plans:
        if (plan.command, plan.question) not in questions:
            questions.append((plan.command, plan.question))
    return questions


def _saved_step(step: Step) -> SavedStep:
    to = step.to if isinstance(step, Rename | RenameFolder) else None
    size = step.size if isinstance(step, Write | Truncate) else 0
    return SavedStep(KINDS[type(step)], step.path, to, size)


# As lines of JSON.


def build_saved_plans(head: Mapping[str, Any], plans: Sequence[SavedPlan]) -> bytes:
    """Build the saved form: the head (as in all JSON of klogtool, with more fields), then a line for each plan."""
    return b"".join(map(_build_line, ({**head, "plans": len(plans)}, *(plan.row for plan in plans))))


def _build_line(row: Mapping[str, Any]) -> bytes:
    """Build a line that ends with a checksum of the rest, so that changes by others are noticed."""
    line = row_line(row).encode()
    return line[:-1] + b',"%b":"%b"}\n' % (SUM.encode(), sum_of(line).encode())


def parse_saved_plans(lines: Iterable[bytes], path: str) -> tuple[Mapping[str, Any], list[SavedPlan]]:
    """Parse the head and the plans. Raises Refused, which names the field, for anything else."""
    first, *rest = lines or [b""]
    head = parse_head(first, path)
    with _refused(path):
        if head["plans"] != len(rest):
            raise WrongField(f"{head['plans']} plans were saved, but {len(rest)} are in the file")
    return head, [_parse_plan(line, n, path) for n, line in enumerate(rest, 1)]


def parse_head(line: bytes, path: str) -> Mapping[str, Any]:
    """Parse the first line. Raises Refused for anything else."""
    with _refused(path):
        head = _parse_line(line, "the head")
        if head.row.get("type") != "klogtool":
            raise WrongField("the first line is not the head")
        if head.number("schema") != SCHEMA:
            raise WrongField(f"its schema is {head.number('schema')}, this version reads {SCHEMA}")
        head.number("plans")
        head.text("command")
        if "paths" in head.row:
            Fields({"paths": [_absolute(name) for name in head.texts("paths")]})
        _check_sum(line, head)
        return head.row


def paths_of(head: Mapping[str, Any]) -> list[str]:
    """Return the paths that the command was given, by the head."""
    return list(head.get("paths", ()))


def _parse_plan(line: bytes, n: int, file: str) -> SavedPlan:
    with _refused(file, f"plan {n}"):
        fields = _parse_line(line, "the line")
        if fields.row.get("type") != "plan":
            raise WrongField("type is not 'plan'")
        facts = tuple(map(_parse_fact, fields.objects("facts")))
        path = fields.absolute("path")
        steps = tuple(_parse_step(step, path) for step in fields.objects("steps"))
        command = fields.text("command")
        question = _parse_question(command, fields.object("arguments"))
        found = SavedPlan(fields.row, fields.text("id"), command, path, question, facts, steps)
        for name in ("segments", "notes"):
            fields.list(name)
        for name in ("bytes_freed", "bytes_held"):
            fields.number(name, -MOST)
        fields.object("answer")
        _check_sum(line, fields)
        return found


def _parse_line(line: bytes, what: str) -> Fields:
    try:
        return Fields(restored(json.loads(line)))
    except WrongField:
        raise
    except (ValueError, TypeError, RecursionError):  # TypeError: a base64 name that is not a string
        raise WrongField(f"{what} is not valid JSON") from None


def _check_sum(line: bytes, fields: Fields) -> None:
    told, _, found = line.rstrip(b"\r\n").rpartition(b',"%b":' % SUM.encode())
    if not told or found != b'"%b"}' % sum_of(told + b"}").encode():
        raise WrongField(f"{SUM} does not match: the line was changed after klogtool saved it")


def _parse_question(command: str, arguments: Fields) -> Question:
    try:
        kind = question_type(command)
    except Refused as error:
        raise WrongField(f"command: {error.reason}") from None
    return read_question(kind, arguments.row)


def _parse_fact(fields: Fields) -> Fact:
    ino = fields.number("ino") if "ino" in fields.row else None
    ctime_ns = fields.number("ctime_ns", -MOST) if "ctime_ns" in fields.row else None
    names, digest = (fields.text(name) if name in fields.row else None for name in ("names", "digest"))
    known = fields.absolute("path"), fields.number("size"), fields.number("mtime_ns", -MOST)
    return Fact(*known, ino, ctime_ns, names, digest)


def _parse_step(fields: Fields, plan_path: str) -> SavedStep:
    kind = fields.text("step")
    if kind not in KINDS.values():
        raise WrongField(f"{fields.name_of('step')} is not a known step: {kind}")
    if kind == DISCARD:
        return _parse_discard(fields, plan_path)
    path = fields.inside("path")
    if kind == RENAME_FOLDER:
        if not may_rename_folder(path, fields.text("to"), plan_path):
            raise WrongField(f"{fields.name_of('to')}: a folder can only be renamed in its log dir, or moved out of it")
        return SavedStep(kind, path, fields.text("to"))
    to = fields.inside("to") if kind == "rename" else None
    size = fields.number("size") if kind in ("write", "truncate") else 0
    if kind == "write":
        for part in fields.objects("from"):
            part.text("path") if "path" in part.row else part.number("size")
    return SavedStep(kind, path, to, size)


def _parse_discard(fields: Fields, plan_path: str) -> SavedStep:
    path = fields.text("path")
    if not may_discard(path, plan_path):
        raise WrongField(f"{fields.name_of('path')}: this is no folder of klogtool's own beside the log dir")
    return SavedStep(DISCARD, path)


def _absolute(path: str) -> str:
    return Fields({"paths": path}).absolute("paths")


@contextmanager
def _refused(path: str, what: str = "") -> Iterator[None]:
    """Turn a wrong field into an error about the file."""
    try:
        yield
    except WrongField as error:
        where = f"{what}: " if what else ""
        raise Refused(f"not a plan that klogtool saved: {where}{error}", path=path) from None
