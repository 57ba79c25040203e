"""klogtool doctor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.releases import RELEASES
from klogtool.cli import commands, options, question_options
from klogtool.cli.doctor_page import print_page, write_page
from klogtool.cli.in_use import note_if_in_use
from klogtool.cli.output import Output
from klogtool.cli.show import header
from klogtool.cli.status import DONE, FOUND, REFUSED
from klogtool.cli.writing import PlanShow, head_of, save_plans
from klogtool.cli.writing_options import Writing
from klogtool.disk.facts import check_saving_place
from klogtool.doctor.absent import split_log_dirs
from klogtool.doctor.answers import Diagnosis
from klogtool.doctor.fixes import choose, plan_fixes
from klogtool.doctor.rehearsal import Examination, examine, examine_for_all
from klogtool.doctor.server_properties import log_dirs_of, server_settings
from klogtool.json_rows import row_line
from klogtool.log.log_files import count_partitions
from klogtool.plans.mend import COMMAND as FIX
from klogtool.render.doctor import diagnosis_rows, diagnosis_text, matrix_row, matrix_text
from klogtool.render.plans import NOTHING_CHANGED_YET
from klogtool.render.progress_bar import Bar, is_drawn

COMMAND = "doctor"


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, metavar="LOGDIR...")
@click.option("--quick", is_flag=True, help="Read names, ids and small files only. No log is loaded.")
@click.option("--matrix", is_flag=True, help="Say for each release from 3.6 to 4.4 whether it starts.")
@click.option("--host", is_flag=True, help="Also judge the machine: kernel limits, mounts, free room.")
@click.option("--fix", is_flag=True, help="Plan the chosen options. Nothing is changed: --plan-out saves the plan.")
@click.option(
    "--option",
    "numbers",
    type=options.Number(1),
    multiple=True,
    metavar="N",
    help="With --fix: this option. Repeatable.  [default: the first one of each trouble]",
)
@click.option("--plan-out", type=click.Path(), metavar="FILE", help="With --fix: save the plan, for klogtool apply.")
@click.option("--html", type=click.Path(), metavar="FILE", help="Write the answer to a new file, as one HTML page.")
@click.option("--from", "page", type=click.Path(), metavar="FILE", help="Print the answer in a page of --html again.")
@options.output_format()
@options.jobs
@options.quiet
@options.no_progress
@question_options.circumstances
@options.debug
def command(paths: tuple[str, ...], circumstances: Circumstances, form: str, **chosen: Any) -> int:
    """Say what a broker's start will do to its log dirs, and what to do first. Name all log dirs of one broker, or its
    server.properties with --config-file.

    doctor rehearses the start in memory, and never writes. First comes the verdict: whether the broker starts, what it
    loses, and the command to run. Then come the troubles, the worst first, each with options: what each option loses,
    and its command. --fix makes a plan of options; klogtool apply carries the plan out, and klogtool undo takes it
    back.

    \b
    Examples:
      klogtool doctor /data/kafka-1 /data/kafka-2
      klogtool doctor LOGDIR --fix --plan-out plan.json

    Exit status: 0 the broker starts and nothing is wrong; 1 something would be lost or refused, or is gone already; 2
    wrong usage, a path that is no log dir, a file that is no page; 3 --fix refused, or the file of --html exists; 4 a
    log dir or page could not be read.
    """
    if not chosen["page"]:
        paths = paths or log_dirs_of(server_settings(circumstances))
    _check_usage(paths, chosen)
    if chosen["page"]:
        return print_page(chosen["page"], form)
    split_log_dirs(paths)
    if not chosen["quiet"]:
        note_if_in_use(paths)
    if chosen["matrix"]:
        return _show_matrix(_examine_for_all(paths, circumstances, chosen), form)
    diagnosis = _examine(paths, circumstances, chosen)
    if chosen["fix"]:
        return _fix(diagnosis, paths, form, chosen)
    status = DONE if diagnosis.is_silent else FOUND
    try:
        if chosen["html"]:
            write_page(chosen["html"], diagnosis, list(_rows(diagnosis)), status, circumstances.now_ms)
    finally:  # also if the page cannot be written
        _show(diagnosis, form)
    return status


def _check_usage(paths: Sequence[str], chosen: dict[str, Any]) -> None:
    if chosen["page"] and (paths or any(chosen[name] for name in ("quick", "matrix", "host", "fix", "html"))):
        raise click.UsageError("--from goes with --format only.")
    if not paths and not chosen["page"]:
        raise click.UsageError("Missing argument 'LOGDIR...'.")
    for name in ("fix", "matrix"):
        if chosen["html"] and chosen[name]:
            raise click.UsageError(f"--html does not go with --{name}.")
    for name in ("numbers", "plan_out"):
        if chosen[name] and not chosen["fix"]:
            raise click.UsageError(f"--{'option' if name == 'numbers' else 'plan-out'} goes with --fix.")
    for name in ("quick", "matrix"):
        if chosen["fix"] and chosen[name]:
            raise click.UsageError(f"--fix does not go with --{name}.")
    for name in ("plan_out", "html"):
        if chosen[name]:
            check_saving_place(chosen[name])


def _examine(paths: Sequence[str], circumstances: Circumstances, chosen: dict[str, Any]) -> Diagnosis:
    with _bar(paths, chosen) as bar:
        return examine(paths, _how(circumstances, chosen, bar))


def _examine_for_all(paths: Sequence[str], circumstances: Circumstances, chosen: dict[str, Any]) -> list[Diagnosis]:
    with _bar(paths, chosen) as bar:
        return examine_for_all(paths, _how(circumstances, chosen, bar), RELEASES)


def _bar(paths: Sequence[str], chosen: dict[str, Any]) -> Bar:
    wanted = not (chosen["quiet"] or chosen["no_progress"]) and is_drawn()
    return Bar(0, partitions=count_partitions(paths) if wanted else 0, wanted=wanted)


def _how(circumstances: Circumstances, chosen: dict[str, Any], bar: Bar) -> Examination:
    root = "/" if chosen["host"] else None
    return Examination(circumstances, chosen["quick"], chosen["jobs"], lambda: bar.advance_partition(0), root)


def _show(diagnosis: Diagnosis, form: str) -> None:
    out = Output()
    if form == "json":
        for row in _rows(diagnosis):
            out.line(row_line(row))
    else:
        out.text(diagnosis_text(diagnosis))
    out.flush()


def _show_matrix(diagnoses: Sequence[Diagnosis], form: str) -> int:
    out = Output()
    if form == "json":
        out.line(row_line(header(COMMAND)))
        for diagnosis in diagnoses:
            out.line(row_line(matrix_row(diagnosis)))
    else:
        out.text(matrix_text(diagnoses))
    out.flush()
    return DONE if all(diagnosis.is_silent for diagnosis in diagnoses) else FOUND


def _rows(diagnosis: Diagnosis) -> Iterator[dict[str, Any]]:
    yield header(COMMAND)
    yield from diagnosis_rows(diagnosis)


def _fix(diagnosis: Diagnosis, paths: Sequence[str], form: str, chosen: dict[str, Any]) -> int:
    """Show the plan of the chosen options, and save it."""
    show = PlanShow(FIX, Writing(form=form, verbose=chosen["verbose"], plan_out=chosen["plan_out"]))
    with show.refusals():
        for plan in plan_fixes(choose(diagnosis, chosen["numbers"])):
            show.plan(plan)
        if chosen["plan_out"]:
            save_plans(head_of(FIX, ()), show.plans, chosen["plan_out"])  # each plan is decided by itself
        elif not chosen["quiet"] and show.has_steps:
            show.text(NOTHING_CHANGED_YET)
    return REFUSED if show.refused else DONE
