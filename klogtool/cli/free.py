"""klogtool free."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import click
from msgspec.structs import replace

from klogtool.cli import commands
from klogtool.cli.question_options import question_options
from klogtool.cli.remote_options import key_of
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import PLAN_OUT, PlanFace, Writing, decide_and_carry_out, writing_by
from klogtool.disk.belonging import SUFFIX
from klogtool.disk.journal import Entry, walk_entries
from klogtool.disk.manifest import Progress
from klogtool.errors import KlogError
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.typed import parse_size
from klogtool.plans.free import COMMAND, FreeQuestion, FreeResult
from klogtool.plans.free_kinds import NAMES, REMOTE, STRAY
from klogtool.plans.plan import Plan
from klogtool.render.free import HOW_TO_APPLY, HOW_TO_APPLY_FOR_GOOD, free_text


def _size(text: str) -> int:
    """Parse a number of bytes with an optional unit: 50GiB, 1.5T, 10GB, 1,024. Raises ValueError."""
    size = parse_size(text)
    if not 1 <= size <= MAX_LONG:
        raise ValueError(f"'{text}' is out of range.")
    return size


def _no_output(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.fail("free has no --output: a copy elsewhere frees nothing here. Give --apply --to DIR, or --no-undo.")


APPLY = click.option("--apply", is_flag=True, help="Do it. Needs --to or --no-undo.")
TO = click.option(
    "--to",
    "--journal",
    "journal",
    type=click.Path(),
    metavar="DIR",
    help="With --apply: move what is removed to this folder on another disk. klogtool undo takes it back from there.",
)


@commands.command("free")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option("--bytes", "wanted", type=_size, metavar="SIZE", help="How much to free, for example 50GiB.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Take only this kind. Repeatable.")
@click.option("--except", "without", multiple=True, type=click.Choice(NAMES), help="Leave this kind alone. Repeatable.")
@question_options(FreeQuestion)
@click.option("--no-undo", is_flag=True, help="With --apply: delete for good. -stray folders only with --only stray.")
@writing_by(APPLY, TO, PLAN_OUT)
@click.option("--output", callback=_no_output, metavar="DIR", hidden=True, expose_value=False)
def command(
    paths: tuple[str, ...],
    wanted: int | None,
    only: tuple[str, ...],
    without: tuple[str, ...],
    question: FreeQuestion,
    writing: Writing,
) -> int:
    """Free space on a full disk: say what can be given up in log dirs, the safest first, and take no more than asked.

    Works on a disk without a free byte: a deletion comes first. Log dirs on one disk count together; on several disks,
    --bytes is for each. Without --bytes, all that can be given up is listed. There is no --output, because a
    copy frees nothing. With --remote, local segments of tiered topics that are in remote storage as well, and were read
    there without a finding, can be given up.

    \b
    Examples:
      klogtool free LOGDIR
      klogtool free LOGDIR --bytes 20GiB --to /mnt/usb --apply

    Exit status: 0 done, or the bytes can be reached; 1 they cannot be reached, and the plan says how much is possible;
    2 wrong usage, no such path; 3 refused, nothing changed; 4 could not go on.
    """
    if wanted is None and writing.keeps_plans:
        raise click.UsageError("--apply and --plan-out need --bytes: how much to free.")
    if question.remote is None and (REMOTE.name in only or question.metadata or question.key):
        raise click.UsageError("--only remote, --metadata and --key need --remote: the store.")
    for text in question.key:
        key_of(text)
    log_dirs = tuple(dict.fromkeys(map(os.path.realpath, paths)))
    # What may be the only copy of records goes for good only if the user names it.
    kinds = only or tuple(name for name in NAMES if not (question.no_undo and name == STRAY.name))
    kinds = tuple(name for name in NAMES if name in kinds and name not in without)
    kinds = tuple(name for name in kinds if name != REMOTE.name or question.remote)
    if not kinds:
        raise click.UsageError("--only and --except leave no kind.")
    question = replace(
        question,
        asked_bytes=wanted,
        log_dirs=log_dirs,
        kinds=kinds,
        runs=tuple(entry.path for log_dir in log_dirs for entry in _finished_runs(log_dir)),
    )
    how = HOW_TO_APPLY_FOR_GOOD if question.no_undo else HOW_TO_APPLY

    def status_of(plan: Plan) -> int:
        return FOUND if isinstance(plan.result, FreeResult) and not plan.result.reached else DONE

    face = PlanFace(text_of=free_text, status_of=status_of, nothing_changed=how)
    return decide_and_carry_out(COMMAND, log_dirs, question, writing, face)


def _finished_runs(log_dir: str) -> Iterator[Entry]:
    """Yield the runs in the journal beside a log dir that are done, or taken back. Unreadable ones are left alone."""
    for entry in walk_entries(log_dir + SUFFIX) if os.path.isdir(log_dir + SUFFIX) else ():
        with suppress(KlogError):
            if entry.progress() in (Progress.DONE, Progress.UNDONE):
                yield entry
