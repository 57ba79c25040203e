"""klogtool doctor."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Annotated, Literal

import click
from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.releases import RELEASES
from klogtool.causes import Reason
from klogtool.cli import commands, options
from klogtool.cli.causes import CommandRefusal
from klogtool.cli.gentle_reading import begin_reading, gently
from klogtool.cli.output import Output, note
from klogtool.cli.output_file import MetricsFile, check_metrics_place, output_file, write_metrics
from klogtool.cli.question_options import question_options, read_properties
from klogtool.cli.remote_options import key_of
from klogtool.cli.show import ReadingOptions, Row, Show, header
from klogtool.cli.status import DONE, FOUND, REFUSED
from klogtool.cli.writing import PlanShow, Writing, command_on, head_of, save_plans
from klogtool.disk.facts import check_saving_place
from klogtool.disk.given_up import walk_cut_short, walk_given_up
from klogtool.disk.manifest import Progress
from klogtool.doctor.absent import check_log_dirs, is_empty_folder
from klogtool.doctor.answers import Diagnosis, Starts
from klogtool.doctor.causes import NoteCause, offsets_in
from klogtool.doctor.fixes import OnlyByHand, choose, plan_fixes
from klogtool.doctor.rehearsal import Examination, examine, examine_for_all
from klogtool.doctor.server_properties import without_unfit
from klogtool.errors import AboveLimit, Refused, Unsupported
from klogtool.escape import quoted
from klogtool.log.file import read_whole
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.parameters import Unit, parameter
from klogtool.plans.mend import COMMAND as FIX
from klogtool.remote.metadata import RemoteMetadata, read_metadata
from klogtool.remote.store import MetadataDirs, RemoteStore, StoreKeys, open_store
from klogtool.render.doctor import diagnosis_rows, diagnosis_text, matrix_row, matrix_text
from klogtool.render.doctor_page import doctor_page
from klogtool.render.kept_answer import MOST_PAGE_BYTES, read_answer
from klogtool.render.metrics import doctor_metrics
from klogtool.render.plans import NOTHING_SAVED
from klogtool.render.progress_bar import bar_over

COMMAND, LOSS = "doctor", "loss"


class DoctorQuestion(Struct, frozen=True, kw_only=True):
    """What the doctor looks at, and what becomes of the answer. numbers: options to fix. page: an answer to print."""

    circumstances: Circumstances
    quick: Annotated[bool, parameter("Read names, ids and small files only. No log is loaded.")] = False
    matrix: Annotated[bool, parameter("Say for each release from 3.6 to 4.4 whether it starts.")] = False
    host: Annotated[bool, parameter("Also judge the machine: kernel limits, mounts, free room.")] = False
    controllers: Annotated[
        tuple[str, ...],
        parameter(
            "The metadata log dir of another controller: would they elect a leader? Repeatable.",
            Unit.LOG_DIR,
            option="controller",
        ),
    ] = ()
    controller_files: Annotated[
        tuple[str, ...],
        parameter(
            "The server.properties of each --controller, in their order. May be repeated.",
            Unit.FILE,
            option="controller-config-file",
        ),
    ] = ()
    remote: Annotated[
        str | None,
        parameter(
            "The remote store of tiered topics: say what of the local logs is there as well.",
            Unit.TEXT,
            metavar="STORE",
        ),
    ] = None
    metadata: MetadataDirs = ()
    key: StoreKeys = ()
    fail_on: Annotated[
        Literal["anything", "loss"],
        parameter("What makes the exit status 1. With loss, a broker may start after status 0: it loses nothing."),
    ] = "anything"
    fix: Annotated[bool, parameter("Plan the chosen options. Nothing is changed: --plan-out saves the plan.")] = False
    numbers: Annotated[
        tuple[int, ...],
        parameter(
            "With --fix: this option. Repeatable.  [default: the first one of each trouble]",
            option="option",
            parse=options.Number(1),
        ),
    ] = ()
    plan_out: Annotated[str | None, parameter("With --fix: save the plan, for klogtool apply.", Unit.FILE)] = None
    html: Annotated[str | None, parameter("Write the answer to a new file, as one HTML page.", Unit.FILE)] = None
    metrics: MetricsFile = None
    page: Annotated[str | None, parameter("Print the answer in a page of --html again.", Unit.FILE, option="from")] = (
        None
    )


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, metavar="LOGDIR...")
@question_options(DoctorQuestion)
@options.reading()
@gently
def command(paths: tuple[str, ...], question: DoctorQuestion, reading: ReadingOptions) -> int:
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

    Exit status: 0 the broker starts and nothing is wrong; 1 something would be lost or refused, or is gone already, or
    a run of klogtool was cut short; 2 wrong usage, a path that is no log dir, a file that is no page; 3 --fix refused,
    or the file of --html exists; 4 a log dir or page could not be read. With --fail-on loss, for an init container: 0
    the broker starts and loses nothing, or all log dirs are empty folders; 1 it loses something, or refuses to start.
    """
    if not question.page:
        paths = paths or question.circumstances.log_dirs
    _check_usage(paths, question)
    if question.page:
        return print_page(question.page, reading.form)
    if question.fail_on == LOSS and all(map(is_empty_folder, paths)):
        note(f"klogtool: {', '.join(paths)}: empty, so nothing can be lost. Or it is the wrong disk.")
        return DONE
    check_log_dirs(paths)
    for path in question.controllers:
        if not isinstance(open_path(path), LogDir):
            raise Unsupported(CommandRefusal.NO_LOG_DIR_WITH(folder=CLUSTER_METADATA_DIR), path=path)
    controllers = tuple(zip_longest(question.controllers, map(read_properties, question.controller_files)))
    check_metrics_place(question.metrics)
    began = time.monotonic()
    begin_reading(paths, quiet=reading.quiet)
    with bar_over(paths, wanted=reading.wants_bar, in_bytes=False) as bar:
        root = "/" if question.host else None
        progress = lambda: bar.advance_partition(0)  # noqa: E731
        fit, unfit = without_unfit(question.circumstances)
        tier = _tier_of(paths, question)
        how = Examination(fit, question.quick, reading.jobs, progress, root, controllers, tier, unfit)
        diagnoses = examine_for_all(paths, how, RELEASES) if question.matrix else [examine(paths, how)]
    cut_short = tuple(_walk_cut_short(paths))
    more = (*cut_short, *_walk_given_up(paths))
    diagnoses = [replace(one, notes=(*one.notes, *more)) for one in diagnoses]
    by_loss = question.fail_on == LOSS
    are_fine = (one.is_known and (one.starts is Starts.YES if by_loss else one.is_silent) for one in diagnoses)
    is_fine = not cut_short and all(are_fine)
    status = DONE if is_fine else FOUND
    write_metrics(question.metrics, COMMAND, paths, time.monotonic() - began, status, doctor_metrics(diagnoses[0]))
    if question.fix:
        return _fix(diagnoses[0], question, reading)
    show = Show(COMMAND, reading)
    if question.matrix:
        for diagnosis in diagnoses:
            show.row(matrix_row(diagnosis))
        show.text(matrix_text(diagnoses))
        show.close()
        return status
    try:
        if question.html:
            rows = [header(COMMAND), *diagnosis_rows(diagnoses[0])]
            write_page(question.html, diagnoses[0], rows, status, question.circumstances.now_ms)
    finally:  # also if the page cannot be written
        show.rows(diagnosis_rows(diagnoses[0]))
        if not show.json:
            show.text(diagnosis_text(diagnoses[0]))
        show.close()
    return status


def _tier_of(paths: Sequence[str], question: DoctorQuestion) -> tuple[RemoteStore, RemoteMetadata] | None:
    """Return the remote storage of --remote and what the cluster knows of it. Raises KlogError."""
    if question.remote is None:
        return None
    store = open_store(question.remote, dict(map(key_of, question.key)))
    return store, read_metadata(question.metadata or paths, may_lack=not question.metadata)


def _walk_cut_short(log_dirs: Sequence[str]) -> Iterator[Reason]:
    """Yield a note for each run that may go on in a log dir: who starts a broker before cannot undo it any more."""
    for log_dir in log_dirs:
        for entry, progress in walk_cut_short(log_dir):
            cause = NoteCause.CUT_SHORT if progress is Progress.STAGED else NoteCause.UNDO_CUT_SHORT
            finish, back = command_on("apply --resume", entry), command_on("undo", entry)
            yield cause(log_dir=log_dir, run=entry.id, finish=finish, back=back)


def _walk_given_up(log_dirs: Sequence[str]) -> Iterator[Reason]:
    """Yield a note for each partition of which a run lowered, or removed, what shows that records are missing."""
    for one in chain.from_iterable(map(walk_given_up, log_dirs)):
        cause = NoteCause.GIVEN_UP if one.lowered else NoteCause.LACKED_AFTER
        offsets, journal = offsets_in(one.ranges), quoted(one.run.journal)
        yield cause(offsets=offsets, partition=one.partition, run=one.run.id, journal=journal)


def _check_usage(paths: Sequence[str], question: DoctorQuestion) -> None:
    of_page = ("page", "form", "verbose", "quiet", "no_progress", "jobs")
    if question.page and any(map(options.is_typed, click.get_current_context().params.keys() - of_page)):
        raise click.UsageError("--from goes with --format only.")
    if not paths and not question.page:
        without = (
            ": --config-file has no log dirs that klogtool knows" if question.circumstances.config_sections else ""
        )
        raise click.UsageError(f"Missing argument 'LOGDIR...'{without}.")
    if question.html and (other := options.first_used("fix", "matrix")):
        raise click.UsageError(f"--html does not go with {other}.")
    if question.remote and (other := options.first_used("quick", "matrix")):
        raise click.UsageError(f"--remote does not go with {other}.")
    if not question.remote and (other := options.first_used("metadata", "key")):
        raise click.UsageError(f"{other} needs --remote: the store.")
    if question.metrics and question.matrix:
        raise click.UsageError("--metrics does not go with --matrix.")
    if len(question.controller_files) > len(question.controllers):
        raise click.UsageError("There are more files of --controller-config-file than log dirs of --controller.")
    if not question.fix and (question.numbers or question.plan_out):
        raise click.UsageError(f"{'--option' if question.numbers else '--plan-out'} goes with --fix.")
    if question.fix and (other := options.first_used("quick", "matrix")):
        raise click.UsageError(f"--fix does not go with {other}.")
    for place in filter(None, (question.plan_out, question.html)):
        check_saving_place(place)


def _fix(diagnosis: Diagnosis, question: DoctorQuestion, reading: ReadingOptions) -> int:
    """Show the plan of the chosen options, and save it."""
    show = PlanShow(FIX, Writing(form=reading.form, verbose=reading.verbose, plan_out=question.plan_out))
    with show.refusals():
        try:
            choice = choose(diagnosis, question.numbers)
        except OnlyByHand as error:
            raise Refused(CommandRefusal.BY_HAND(why=error.reason, command=error.option.command)) from error
        for plan in plan_fixes(choice):
            show.plan(plan)
        if question.plan_out:
            head = head_of(FIX, ())  # each plan is decided by itself
            save_plans(head, show.plans, question.plan_out, quiet=reading.quiet)
        elif not reading.quiet and show.has_steps:
            show.text(NOTHING_SAVED)
    return REFUSED if show.refused else DONE


def write_page(path: str, diagnosis: Diagnosis, rows: Sequence[Row], status: int, now_ms: int) -> None:
    """Write the answer as a page. rows: what `--format json` prints. Raises Refused if the file exists,
    AboveLimit if nobody could read it back."""
    page = doctor_page(diagnosis, rows, status, now_ms).encode()
    if len(page) > MOST_PAGE_BYTES:
        raise AboveLimit(CommandRefusal.LARGE_PAGE(size=len(page), most=MOST_PAGE_BYTES), path=path)
    with output_file(path) as file:
        file.write(page)


def print_page(path: str, form: str) -> int:
    """Print the answer in a page as doctor printed it, and return the exit status that it had then."""
    answer = read_answer(read_whole(path, limit=MOST_PAGE_BYTES), path)
    out = Output()
    if form == "json":
        for row in answer.rows:
            out.line(row)
    else:
        out.text(answer.text)
    out.flush()
    return answer.status
