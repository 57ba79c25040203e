"""What all commands that write have in common: the options, and how a plan is shown, saved and carried out.

Without --apply or --output nothing is written, and `disk` is not even imported. Showing and doing are of the same plan.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from klogtool.cli.output import Output, error_line, note
from klogtool.cli.output_file import output_file
from klogtool.cli.status import DONE, REFUSED
from klogtool.cli.writing_options import header as header
from klogtool.cli.writing_options import output_format as output_format
from klogtool.cli.writing_options import writing as writing
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.log.file import Unreadable
from klogtool.render.plans import NOTHING_CHANGED, plan_text, row_line
from klogtool.repair.decisions import SPOOLING, decide
from klogtool.repair.draft import Content
from klogtool.repair.plan import Plan
from klogtool.repair.saved_plan import KeptPlans, SavedPlan, build_saved_plans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from klogtool.disk.journal import Entry
    from klogtool.disk.writer import InPlace
    from klogtool.repair.spools import MakeSpool

Row: TypeAlias = "Mapping[str, Any]"
Given: TypeAlias = "Mapping[str, Any]"


def decide_and_carry_out(
    command: str,
    paths: Sequence[str],
    arguments: Row,
    given: Given,
    *,
    text_of: Callable[[Plan], str] = plan_text,
    answers_of: Callable[[Plan], Iterable[Row]] = lambda _: (),
    status_of: Callable[[Plan], int] = lambda _: DONE,
    beside_of: Callable[[Plan], Mapping[str, Mapping[str, Content]]] = lambda _: {},
) -> int:
    """The whole of a command that writes: decide for each path, show, perhaps do. Returns the exit status.

    command: a name in repair/decisions.py. given: the parameters of `writing`, and quiet. text_of: the plan for people;
    answers_of: rows that follow its line in JSON, in place of its `answer`; status_of: the status if all goes well;
    beside_of: further folders that --output writes, see `carry_out_to`.
    What Kafka (or a rule of ours) refuses is an answer with `error`, status 3, and then nothing is written at all.
    """
    _check_usage(given, paths)
    show, statuses = Show(command, given, text_of, answers_of), [DONE]
    beside: dict[str, Mapping[str, Content]] = {}
    with show.refusals():
        _check_places(given, paths)
    with ExitStack() as held:
        decisions = _walk_decisions(command, paths, arguments, lambda path: find_spools(given, path, held))
        for plans in decisions if not show.refused else ():
            with show.refusals():
                for plan in plans:
                    show.plan(plan)
                    statuses.append(status_of(plan))
                    beside.update(beside_of(plan))
        return max([_carry_out(show, paths, given, beside), *statuses])


def _walk_decisions(
    command: str, paths: Sequence[str], arguments: Row, spools_for: Callable[[str], MakeSpool]
) -> Iterator[Iterable[Plan]]:
    """What is decided for each path. Where that takes long, for several at a time, as of a log dir's partitions."""

    def walk_plans(path: str) -> Iterator[Plan]:
        make_spool = spools_for(path) if command in SPOOLING else None
        yield from decide(command, os.path.abspath(path), arguments, make_spool)

    if command not in SPOOLING or len(paths) == 1:
        yield from map(walk_plans, paths)
        return
    from klogtool.log.cores import usable_cores
    from klogtool.log.in_order import in_order

    jobs = int(arguments.get("jobs") or usable_cores())
    for _, plans in in_order(lambda: lambda path: _collected(walk_plans(path)), iter(paths), jobs):
        yield plans()


def _collected(plans: Iterator[Plan]) -> Callable[[], Iterator[Plan]]:
    """The same plans, made by now, and then the error that there was behind them."""
    found: list[Plan] = []
    errors: list[KlogError] = []
    try:
        for plan in plans:
            found.append(plan)
    except KlogError as error:
        errors.append(error)

    def walk() -> Iterator[Plan]:
        yield from found
        for error in errors:
            raise error

    return walk


def find_spools(given: Given, path: str, held: ExitStack) -> MakeSpool:
    """For what is rewritten: on the device where it is to be, as long as `held` is, if it is to be carried out."""
    if given["apply"]:
        from klogtool.disk.journal import spools_for

        return held.enter_context(spools_for(path, given["journal"])).make_spool
    if given["output"]:
        from klogtool.disk.output import spools_beside

        return held.enter_context(spools_beside(given["output"])).make_spool
    from klogtool.repair.spools import OnlyTold

    return OnlyTold


class Show:
    """Prints plans, refusals and what was done as they come; keeps the plans, of large ones only what is saved."""

    def __init__(
        self,
        command: str,
        given: Given,
        text_of: Callable[[Plan], str] = plan_text,
        answers_of: Callable[[Plan], Iterable[Row]] = lambda _: (),
    ) -> None:
        self.command, self.out, self.json = command, Output(), given["form"] == "json"
        self.refused = False
        self._kept = KeptPlans()
        self._text_of, self._answers_of = text_of, answers_of
        if self.json:
            self.row(header(command))

    @property
    def plans(self) -> list[SavedPlan]:
        """Those that were shown."""
        return self._kept.plans

    def row(self, row: Row) -> None:
        """A JSON line; nothing where text is wanted."""
        if self.json:
            self.out.line(row_line(dict(row)))
            self.out.flush()

    def text(self, text: str) -> None:
        """A line for people; nothing where JSON is wanted."""
        if not self.json:
            self.out.line(text)
            self.out.flush()

    def plan(self, plan: Plan) -> None:
        """Show a plan."""
        self.row(self._kept.keep(plan).row)
        if self.json:
            for answer in self._answers_of(plan):
                self.row({"type": "answer", "command": self.command, **answer})
        else:
            self._text(plan)

    def _text(self, plan: Plan) -> None:
        """The plan for people. What is lost by loading comes first, whatever the command is about."""
        if "lost_by_recovery" in plan.answer:
            from klogtool.render.recover import recovery_first_text

            self.text(recovery_first_text(plan) or "")
        self.text(self._text_of(plan))

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """What is refused meanwhile is shown, and remembered. Other errors go on: a file that cannot be read."""
        try:
            yield
        except KlogError as error:
            if not is_refusal(error):
                raise
            self._refusal(error)

    def _refusal(self, error: KlogError) -> None:
        self.refused = True
        if self.json:
            told = {"class": error.kafka_class or type(error).__name__, "message": error.kafka_message or str(error)}
            self.row({"type": "answer", "command": self.command, "error": told})
        else:
            self.out.note(error_line(error))

    def applied(self, entry: Entry) -> None:
        """Say that it was done, and how to take it back."""
        how, held = words("undo", entry), entry.held_bytes()
        self.row({"type": "applied", "id": entry.id, "journal": entry.journal, "bytes_held": held, "undo": how})
        self.text(f"Done. {held:,} bytes are held to take it back: {how}")
        self.text(f"To give that up: {words('undo --discard', entry)}")


def is_refusal(error: KlogError) -> bool:
    """Whether a rule of Kafka's or ours said no, rather than that we could not go on."""
    if isinstance(error, Unreadable):
        return False
    return isinstance(error, Refused | Corrupt) or error.kafka_class is not None


def words(command: str, entry: Entry) -> str:
    """A command line about an entry that works wherever it is typed."""
    import shlex

    return f"klogtool {command} {entry.id} --journal {shlex.quote(entry.journal)}"


def _check_usage(given: Given, paths: Sequence[str]) -> None:
    if not (given["apply"] or given["output"] or given["journal"]):
        return
    import click  # is there already: these options came through it

    if given["apply"] and given["output"]:
        raise click.UsageError("--apply or --output: in place, or elsewhere.")
    if given["output"] and len(paths) != 1:
        raise click.UsageError("--output takes one PATH: DIR is to the result what PATH is to the source.")
    if given["journal"] and not given["apply"]:
        raise click.UsageError("--journal goes with --apply.")


def _check_places(given: Given, paths: Sequence[str]) -> None:
    """Before anything long is done. Raises Refused, or KlogError for what is not there."""
    if given["output"]:
        from klogtool.disk.output import check_place

        check_place(given["output"], paths[0])
    if given["journal"]:
        from klogtool.disk.journal import check_journal

        check_journal(given["journal"])
    if given["plan_out"]:
        from klogtool.disk.facts import check_saving_place

        check_saving_place(given["plan_out"])
    if given["apply"]:
        from klogtool.disk.writer import check_not_in_use

        for path in paths:
            check_not_in_use(path)


def _carry_out(show: Show, paths: Sequence[str], given: Given, beside: Mapping[str, Mapping[str, Content]]) -> int:
    """What was asked for, unless something is refused. Returns the exit status."""
    with show.refusals():
        if show.refused:
            return REFUSED
        if given["plan_out"]:
            save_plans(head_of(show.command, paths), show.plans, given["plan_out"])
        if given["output"]:
            from klogtool.disk.output import carry_out_to

            carry_out_to(show.plans, os.path.abspath(paths[0]), given["output"], beside=beside)
            show.row({"type": "written", "path": os.path.abspath(given["output"])})
            show.text(f"Done: {given['output']}")
        elif given["apply"]:
            apply_plans(show, head_of(show.command, paths), show.plans, given["journal"])
        elif not given["quiet"] and any(plan.steps for plan in show.plans):
            show.text(NOTHING_CHANGED)
    return REFUSED if show.refused else DONE


def head_of(command: str, paths: Sequence[str]) -> dict[str, Any]:
    """The head of what is saved of a run: also what the command was asked, so that it can be asked again."""
    return {**header(command), "paths": [os.path.abspath(path) for path in paths]}


def apply_plans(show: Show, head: Row, plans: Sequence[SavedPlan], journal: str | None) -> None:
    """In place; and say how to take it back, or, of a run that was cut short, how to go on."""
    from klogtool.disk.writer import InPlace

    run = InPlace(plans, {**head, "when_ms": time.time_ns() // 10**6}, journal=journal)
    with told_if_cut_short(run):
        run.carry_out()
    for entry in run.entries:
        show.applied(entry)
    if not run.entries:
        show.text("Nothing to do.")


@contextmanager
def told_if_cut_short(run: InPlace) -> Iterator[None]:
    """Whatever ends a run in its middle, an interrupt as well: how to go on is said."""
    try:
        yield
    finally:
        for entry in run.entries if run.begun else ():
            note(f"klogtool: cut short; to take back what was done: {words('undo', entry)}")
            note(f"To finish it: {words('apply --resume', entry)}")


def save_plans(head: Row, plans: Iterable[SavedPlan], path: str) -> None:
    """A file with the head and a line for each plan. Raises Refused if there is a file of that name."""
    import shlex

    with output_file(path) as sink:
        sink.write(build_saved_plans(head, plans))
    note(f"klogtool: plan saved; to carry it out: klogtool apply {shlex.quote(path)}")
