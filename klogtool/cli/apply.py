"""klogtool apply."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import click

from klogtool.cli import commands, options
from klogtool.cli.show import Screen
from klogtool.cli.status import DONE, FOUND, REFUSED
from klogtool.cli.undo import find_entries, only_one
from klogtool.cli.writing import PlanShow, apply_plans, command_on, note_if_interrupted
from klogtool.disk.facts import check_facts
from klogtool.disk.journal import spools_for
from klogtool.disk.manifest import Progress
from klogtool.disk.states import StepsDone
from klogtool.disk.writer import check_not_in_use, resume
from klogtool.log.file import read_whole
from klogtool.plans.saved_plan import SavedPlan, decide_saved, parse_saved_plans, paths_of
from klogtool.render.plans import Digest, Rank, far_text
from klogtool.render.words import count_text

MAX_PLAN_BYTES = 1 << 32


@commands.command("apply")
@click.argument("arguments", nargs=-1, metavar="FILE | --resume [ID] [PATH]")
@click.option("--resume", "resuming", is_flag=True, help="Finish a run that was interrupted.")
@click.option(
    "--journal",
    type=click.Path(),
    metavar="DIR",
    help="Where to keep what undo needs.  [default: a folder beside the log dir]",
)
@options.screen()
def command(arguments: tuple[str, ...], resuming: bool, journal: str | None, screen: Screen) -> int:
    """Carry out a plan that --plan-out saved, in place and with undo; or finish a run that was interrupted.

    FILE is refused if any file that its plans relied on has changed, or if klogtool would decide differently now.
    --resume needs no ID if only one run was interrupted. It looks in the journal beside PATH, or beside the current
    folder.

    \b
    Examples:
      klogtool apply plan.json
      klogtool apply --resume

    Exit status: 0 done; 1 done, and records are lost or missing, as the plan said; 2 wrong usage, no such file; 3
    refused, nothing changed; 4 could not go on: the changes were taken back, or a message says how to go on.
    """
    if resuming:
        return _resume(arguments, journal, screen)
    if len(arguments) != 1:
        raise click.UsageError("Give the FILE of one saved plan, or --resume.")
    lines = read_whole(arguments[0], limit=MAX_PLAN_BYTES).splitlines()
    show = PlanShow("apply", screen)
    with show.refusals():
        head, plans = parse_saved_plans(lines, arguments[0])
        check_facts(plans)
        check_not_in_use(plan.path for plan in plans)
        _show_plans(show, plans)
        with ExitStack() as held:
            decided = decide_saved(
                plans, paths_of(head), lambda path: held.enter_context(spools_for(path, journal)).make_spool
            )
            check_facts(plans)  # a change during the decision is not in the new facts
            apply_plans(show, head, decided, journal)
    return REFUSED if show.refused else _status_of(plans)


def _show_plans(show: PlanShow, plans: Sequence[SavedPlan]) -> None:
    """Show a line for each plan that changes something, or one line for very many."""
    digest = Digest()
    for plan in plans:
        show.row(plan.row)
        line = f"Plan {plan.id}   {plan.command}   {plan.path}   {count_text(len(plan.steps), 'step')}"
        digest.add(line, Rank.CHANGES, None if plan.steps else "nothing to do")
    show.lines(digest.walk())


def _resume(paths: tuple[str, ...], journal: str | None, screen: Screen) -> int:
    cut_short = (Progress.PREPARING, Progress.STAGED)
    entries = find_entries(paths, journal)
    unfinished = [entry for entry in entries if entry.progress() in cut_short]
    entry = only_one(unfinished or entries[:1], "finish", paths, journal)
    show, status = PlanShow("apply", screen), DONE
    with show.refusals():
        steps = StepsDone()
        go_on, back = command_on("apply --resume", entry), command_on("undo", entry)
        with note_if_interrupted(lambda: f"{far_text(steps)}; to finish it: {go_on}; to take it back: {back}"):
            done = resume(entry, steps=steps)
        show.applied(done)
        status = _status_of(done.plans())
    return REFUSED if show.refused else status


def _status_of(plans: Sequence[SavedPlan]) -> int:
    """Return the status that the commands which made the plans would return: lost records are lost, whoever applies the
    plan."""
    return max([DONE, *(FOUND for plan in plans if plan.loses)])
