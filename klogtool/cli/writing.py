"""What all commands that write share: their options, and how a plan is decided, shown, saved and carried out.

Without --apply or --output nothing is written. The plan that is shown is the plan that is carried out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import click
from msgspec import Struct

from klogtool import interrupts
from klogtool.broker.content import Content
from klogtool.broker.spools import CountingSpool, MakeSpool
from klogtool.cli import options
from klogtool.cli.causes import CommandCure, CommandRefusal
from klogtool.cli.gentle_reading import begin_reading
from klogtool.cli.output import note
from klogtool.cli.output_file import output_file
from klogtool.cli.show import RefusalText, Row, Screen, Show, header
from klogtool.cli.status import DONE, FOUND, REFUSED
from klogtool.disk.facts import check_facts, check_saving_place, with_digests
from klogtool.disk.journal import Entry, check_journal, journal_of, spools_for
from klogtool.disk.no_undo import NoUndo, discard_all
from klogtool.disk.output import carry_out_to, check_place, spools_beside
from klogtool.disk.writer import InPlace, check_not_in_use
from klogtool.errors import KlogError, Refused
from klogtool.escape import quoted
from klogtool.log.log_dirs import log_dir_of
from klogtool.log.log_files import count_partitions, log_files
from klogtool.log.thread_pool import in_order
from klogtool.plans.decisions import SPOOLING, decide
from klogtool.plans.free import COMMAND
from klogtool.plans.plan import Plan
from klogtool.plans.question import DeletingQuestion, Question
from klogtool.plans.recover import MarkedClean
from klogtool.plans.results import ChangeResult, LeftAlone
from klogtool.plans.saved_plan import KeptPlans, SavedPlan, build_saved_plans
from klogtool.render.plans import (
    NOTHING_CHANGED,
    NOTHING_CHANGED_NO_UNDO,
    Digest,
    Rank,
    Totals,
    far_text,
    plan_text,
    steps_text,
)
from klogtool.render.progress_bar import Bar, is_drawn, total_size
from klogtool.render.recover import recovery_first_text
from klogtool.render.words import in_words, words

Command = TypeVar("Command", bound=Callable[..., Any])


class Writing(Screen, frozen=True, kw_only=True):
    """What a command that writes is to do with its plans, and how it shows them."""

    apply: bool = False
    output: str | None = None
    plan_out: str | None = None
    journal: str | None = None

    @property
    def keeps_plans(self) -> bool:
        """Whether something is done with the plans after they are shown."""
        return self.apply or self.output is not None or self.plan_out is not None


APPLY = click.option("--apply", is_flag=True, help="Change the files in place. klogtool undo takes it back.")
OUTPUT = click.option(
    "--output",
    type=click.Path(),
    metavar="DIR",
    help="Write the result to this folder. It must be new or empty.",
)
PLAN_OUT = click.option("--plan-out", type=click.Path(), metavar="FILE", help="Save the plan, for klogtool apply.")
JOURNAL = click.option(
    "--journal",
    type=click.Path(),
    metavar="DIR",
    help="Where --apply keeps what undo needs.  [default: a folder beside the log dir]",
)


def writing_by(*add: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Some of the options, and those about output: the parameter writing."""
    return options.packed(options.taken(Writing), "writing", options.output_format(), *add, options.quiet)


def writing(command: Command) -> Command:
    """--apply, --output, --plan-out, --journal, and the options about output: the parameter writing."""
    return writing_by(APPLY, OUTPUT, PLAN_OUT, JOURNAL)(command)


NOTHING_DONE = "interrupted: nothing was changed"
NO_TOTALS = Totals()


class PlanFace(Struct, frozen=True, kw_only=True):
    """How the plans of one command are shown, and what else is its own.

    text_of: the plan as text. brief_of, totals: for a command that accepts log dirs, see `Digest` and `Totals`.
    answers_of: rows that follow the plan's line in JSON, in place of its `answer`. status_of: the status if all goes
    well. beside_of: additional folders that --output writes, see `carry_out_to`. begin: is shown first, and returns the
    paths to decide for. refusal_of: additional text for a refusal. next_steps: what to do with the result of --output.
    nothing_changed: what to say when nothing was carried out, if the command has other options for that than most.
    """

    text_of: Callable[[Plan], str] = plan_text
    brief_of: Callable[[Plan], str | None] | None = None
    totals: Totals = NO_TOTALS
    answers_of: Callable[[Plan], Iterable[Struct]] = lambda _: ()
    status_of: Callable[[Plan], int] = lambda _: DONE
    beside_of: Callable[[Plan], Mapping[str, Mapping[str, Content]]] = lambda _: {}
    begin: Callable[[PlanShow], Sequence[str]] | None = None
    refusal_of: Callable[[KlogError], RefusalText | None] = lambda _: None
    next_steps: Callable[[], Iterable[str]] = tuple
    nothing_changed: str | None = None


PLAIN = PlanFace()


def decide_and_carry_out(
    command: str, paths: Sequence[str], question: Question, writing: Writing, face: PlanFace = PLAIN
) -> int:
    """Run a command that writes: decide for each path, show, and carry out if requested. Returns the exit status.

    command: a name in plans/decisions.py.

    A plan that reports lost records has status 1, whether it is carried out or not. If Kafka (or a rule of ours)
    refuses, the answer has `error`, the status is 3, and nothing at all is written.
    """
    _check_usage(writing, question, paths)
    show, statuses = PlanShow(command, writing, face), [DONE]
    beside: dict[str, Mapping[str, Content]] = {}
    with show.refusals():
        _check_places(writing, question, paths)
    begin_reading(paths, quiet=writing.apply or writing.quiet)
    with ExitStack() as held:
        if show.refused:
            going_on: Sequence[str] = ()
        else:
            going_on = paths if face.begin is None else face.begin(show)
        decisions = _walk_decisions(command, going_on, question, lambda path: find_spools(writing, path, held))
        with held_back(show), plan_bar(going_on, writing) as bar:
            for plans in decisions:
                with show.refusals():
                    for plan in plans:
                        bar.advance_partition(log_bytes(plan))
                        statuses.append(max(face.status_of(plan), status_of_losses(plan)))
                        show.plan(plan, is_loud=statuses[-1] != DONE)
                        beside.update(face.beside_of(plan))
        status = _carry_out(show, paths, question, writing, beside)
        if writing.output and not show.refused:
            show.lines(face.next_steps())
        return max([status, *statuses])


def _walk_decisions(
    command: str, paths: Sequence[str], question: Question, spools_for: Callable[[str], MakeSpool]
) -> Iterator[Iterable[Plan]]:
    """Yield the plans for each path. If that takes long, several paths are decided at a time, like a log dir's
    partitions."""

    def walk_plans(path: str) -> Iterator[Plan]:
        make_spool = spools_for(path) if command in SPOOLING else None
        yield from decide(command, os.path.abspath(path), question, make_spool)

    if command not in SPOOLING or len(paths) == 1:
        yield from map(walk_plans, paths)
        return
    jobs = question.threads
    for _, plans in in_order(lambda: lambda path: _collected(walk_plans(path)), iter(paths), jobs):
        yield plans()


def _collected(plans: Iterator[Plan]) -> Callable[[], Iterator[Plan]]:
    """Decide now; return the plans, and raise the error, if any, after them."""
    results: list[Plan] = []
    errors: list[KlogError] = []
    try:
        for plan in plans:
            results.append(plan)
    except KlogError as error:
        errors.append(error)

    def walk() -> Iterator[Plan]:
        yield from results
        for error in errors:
            raise error

    return walk


def find_spools(writing: Writing, path: str, held: ExitStack) -> MakeSpool:
    """Return what makes spools for new contents, on the device where they will be, while `held` is open. Unless the
    plan is carried out, they only count bytes."""
    if writing.apply:
        return held.enter_context(spools_for(path, writing.journal)).make_spool
    if writing.output:
        return held.enter_context(spools_beside(writing.output)).make_spool
    return CountingSpool


class PlanShow(Show):
    """Prints plans, refusals and results as they come; keeps the plans, large ones only in their saved form."""

    def __init__(self, command: str, screen: Screen, face: PlanFace = PLAIN) -> None:
        super().__init__(command, screen, face.refusal_of)
        self.face, self.has_steps = face, False
        self._kept = KeptPlans(words)
        self._is_kept = isinstance(screen, Writing) and screen.keeps_plans
        self._digest = Digest(is_whole=screen.verbose)

    @property
    def plans(self) -> list[SavedPlan]:
        """The plans that were shown."""
        return self._kept.plans

    def plan(self, plan: Plan, *, is_loud: bool = False) -> None:
        """Show a plan; as text, one of many is held back to the end. is_loud: it loses records, or is refused."""
        self.has_steps = self.has_steps or bool(plan.steps)
        if self._is_kept:
            self._kept.keep(plan)
        if self.json:
            self.row(self._kept.plans[-1].row if self._is_kept else plan.as_row(words))
            for answer in self.face.answers_of(plan):
                row = {"type": "answer", "command": self.command, **in_words(answer)}
                self.row({**row, "kafka": plan.question.circumstances.kafka})
        elif self.face.brief_of is None:
            self.text(self._paragraph(plan))
        else:
            is_about_all = plan.result is None or isinstance(plan.result, MarkedClean)
            rank = Rank.LOSES if is_loud else Rank.ABOUT_ALL if is_about_all else Rank.CHANGES
            skipped = plan.result.skipped if isinstance(plan.result, LeftAlone) else None
            brief = self.face.brief_of(plan) if skipped is None else words(skipped)
            self._digest.add(self._paragraph(plan), rank, None if is_loud or is_about_all else brief)
            self.face.totals.add(plan, is_loud=is_loud)

    def close(self) -> None:
        """Show what was held back."""
        for paragraph in self._digest.walk():
            self.out.text(paragraph)
        for line in self.face.totals.walk():
            self.out.line(line)
        self.out.flush()

    def _paragraph(self, plan: Plan) -> str:
        """Return the plan as text. Records lost by loading come first, whatever the command is about."""
        text = self.face.text_of(plan)
        if isinstance(plan.result, ChangeResult) and plan.loses:
            first = recovery_first_text(plan)
            text = f"{first}\n{text}" if first else text
        if self.screen.verbose and plan.steps:
            text += f"\n{steps_text(plan)}"
        return text

    def applied(self, entry: Entry) -> None:
        """Say that it was done, and how to undo it."""
        how, held = command_on("undo", entry), entry.held_bytes()
        self.row({"type": "applied", "id": entry.id, "journal": entry.journal, "bytes_held": held, "undo": how})
        self.line(f"Done. {held:,} bytes are held for undo. To take it back: {how}")
        self.line(f"To give up undo and free them: {command_on('undo --discard', entry)}")


def status_of_losses(plan: Plan) -> int:
    """Return FOUND if the plan reports lost records."""
    return FOUND if plan.loses else DONE


@contextmanager
def held_back(show: PlanShow) -> Iterator[None]:
    """Show at the end everything that is held back in this context, even after an error."""
    try:
        yield
    except KlogError:
        show.close()
        raise
    show.close()


def plan_bar(paths: Sequence[str], screen: Screen) -> Bar:
    """Return a progress bar over the partitions of log dirs; a single partition dir has none."""
    wanted = screen.wants_bar and is_drawn()
    partitions = count_partitions(paths) if wanted else 0
    if partitions <= len(paths):
        return Bar(0, wanted=False)
    return Bar(total_size(log_files(paths)), partitions=partitions, wanted=True)


def log_bytes(plan: Plan) -> int:
    """Return the bytes of the logs of a plan."""
    return sum(fact.size for fact in plan.facts if fact.path.endswith(".log"))


def command_on(command: str, entry: Entry) -> str:
    """Return a command line about an entry that works in any folder."""
    return f"klogtool {command} {entry.id} --journal {quoted(entry.journal)}"


def _check_usage(writing: Writing, question: Question, paths: Sequence[str]) -> None:
    if not (writing.apply or writing.output or writing.journal):
        return
    if writing.apply and writing.output:
        raise click.UsageError("Give --apply (in place) or --output (elsewhere), not both.")
    if writing.output and len(paths) != 1:
        raise click.UsageError("--output takes exactly one PATH.")
    if writing.journal and not writing.apply:
        raise click.UsageError("--journal needs --apply.")
    if question.no_undo and (writing.journal or writing.output):
        raise click.UsageError("--no-undo keeps nothing, so it does not go with --journal or --output.")


def _check_places(writing: Writing, question: Question, paths: Sequence[str]) -> None:
    """Check the places before long work. Raises Refused, or KlogError for what does not exist."""
    if isinstance(question, DeletingQuestion) and question.no_undo and not question.purge:
        raise Refused(CommandRefusal.FOR_GOOD())
    if writing.output:
        check_place(writing.output, paths[0])
    if writing.journal:
        check_journal(writing.journal)
    if writing.plan_out:
        check_saving_place(writing.plan_out)
    if writing.apply:
        check_not_in_use(paths)


def _carry_out(
    show: PlanShow,
    paths: Sequence[str],
    question: Question,
    writing: Writing,
    beside: Mapping[str, Mapping[str, Content]],
) -> int:
    """Carry out what was requested, unless something is refused. Returns the exit status."""
    with show.refusals():
        if show.refused:
            return REFUSED
        if writing.plan_out:
            save_plans(
                head_of(show.command, paths),
                show.plans,
                writing.plan_out,
                is_applied=writing.apply,
                quiet=writing.quiet,
            )
        if writing.output:
            with note_if_interrupted(lambda: f"{writing.output} was not written, or it is complete"):
                carry_out_to(show.plans, os.path.abspath(paths[0]), writing.output, beside=beside)
            row = {"type": "written", "path": os.path.abspath(writing.output)}
            show.row(row | ({"beside": [os.path.abspath(place) for place in beside]} if beside else {}))
            show.line(f"Done: {writing.output}")
        elif writing.apply:
            apply_plans(show, head_of(show.command, paths), show.plans, writing.journal)
        elif not writing.quiet and show.has_steps:
            usual = NOTHING_CHANGED_NO_UNDO if question.no_undo else NOTHING_CHANGED
            if text := usual if show.face.nothing_changed is None else show.face.nothing_changed:
                show.text(text)
    return REFUSED if show.refused else DONE


def head_of(command: str, paths: Sequence[str]) -> dict[str, object]:
    """Return the head of what is saved of a run, with the command's paths, so that it can be decided again."""
    return {**header(command), "paths": [os.path.abspath(path) for path in paths]}


def apply_plans(show: PlanShow, head: Row, plans: Sequence[SavedPlan], journal: str | None) -> None:
    """Apply in place, and say how to undo it, or how to continue an interrupted run."""
    check_makes_room(plans, journal)
    check_facts(plan for plan in plans if plan.discards)
    if plans and all(plan.question.no_undo for plan in plans):
        _apply_without_undo(show, plans)
        return
    run = InPlace(plans, {**head, "when_ms": time.time_ns() // 10**6}, journal=journal)
    with note_if_cut_short(run):
        run.carry_out()
    for entry in run.entries:
        show.applied(entry)
    if len(run.entries) > 1:
        where = quoted(run.entries[0].journal)
        show.line(f"To take back all of it, while it is the newest run there: klogtool undo --journal {where}")
    if not _discard(show, plans) and not run.entries:
        show.text("Nothing to do.")


def _discard(show: PlanShow, plans: Sequence[SavedPlan]) -> bool:
    """Delete what the plans discard, and say so; return whether there was anything."""
    done = discard_all(plans)
    for path in done:
        show.row({"type": "discarded", "path": path})
        show.line(f"Deleted for good: {path}")
    return bool(done)


def _apply_without_undo(show: PlanShow, plans: Sequence[SavedPlan]) -> None:
    """Apply in place, and keep nothing."""
    run = NoUndo(plans)
    try:
        with interrupts.writing():
            run.carry_out()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or run.begun:
            far = f"interrupted: {far_text(run.steps)}; the same command does the rest"
            note(f"klogtool: {far if run.begun else NOTHING_DONE}")
        raise
    _discard(show, plans)
    freed = sum(plan.row.bytes_freed for plan in plans)
    show.row({"type": "applied", "id": None, "journal": None, "bytes_held": 0, "bytes_freed": freed, "undo": None})
    show.text(f"Done. {freed:,} bytes are freed. Nothing is kept for undo.")


@contextmanager
def note_if_cut_short(run: InPlace) -> Iterator[None]:
    """If anything ends a run early, including an interrupt, say how far it came and how to continue."""
    try:
        with interrupts.writing():
            yield
    except KeyboardInterrupt:
        if run.begun:
            note(f"klogtool: interrupted: {far_text(run.steps)}")
        elif run.entries:
            note(
                f"klogtool: interrupted, but everything is done; to take it back: {command_on('undo', run.entries[0])}"
            )
        else:
            note(f"klogtool: {NOTHING_DONE}")
        raise
    finally:
        for entry in run.entries if run.begun else ():
            note(f"klogtool: interrupted; to take back what was done: {command_on('undo', entry)}")
            note(f"To finish it: {command_on('apply --resume', entry)}")


@contextmanager
def note_if_interrupted(text: Callable[[], str]) -> Iterator[None]:
    """After an interrupt, say in a line what it leaves."""
    try:
        with interrupts.writing():
            yield
    except KeyboardInterrupt:
        note(f"klogtool: interrupted: {text()}")
        raise


def save_plans(
    head: Row, plans: Sequence[SavedPlan], path: str, *, is_applied: bool = False, quiet: bool = False
) -> None:
    """Save a file with the head and a line for each plan. Raises Refused if the file exists. is_applied: they are
    carried out now."""
    with output_file(path) as sink:
        sink.write(build_saved_plans(head, with_digests(plans)))
    how = "" if is_applied else f"; to carry it out: klogtool apply {quoted(path)}"
    if not quiet:
        note(f"klogtool: plan saved{how}")


def check_makes_room(plans: Sequence[SavedPlan], journal: str | None) -> None:
    """Raises Refused if a plan of `free` would keep what it removes on the disk that is to get room."""
    for plan in plans:
        if plan.command == COMMAND and plan.steps and not plan.question.no_undo:
            place = journal_of(log_dir_of(plan.path)) if journal is None else os.path.realpath(journal)
            existing = place
            while not os.path.isdir(existing):
                existing = os.path.dirname(existing)
            if os.stat(existing).st_dev == os.stat(plan.path).st_dev:
                raise Refused(CommandRefusal.SAME_DISK(), path=place, cure=CommandCure.MOVE_OR_DELETE())
