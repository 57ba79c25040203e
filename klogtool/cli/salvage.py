"""klogtool salvage."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

import click
from msgspec.structs import replace

from klogtool.broker.content import Content
from klogtool.cli import commands
from klogtool.cli.causes import CommandCure, CommandRefusal
from klogtool.cli.gentle_reading import gently
from klogtool.cli.output import note
from klogtool.cli.question_options import question_options
from klogtool.cli.remote_options import key_of
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import OUTPUT, PLAN_OUT, PlanFace, Writing, decide_and_carry_out, writing_by
from klogtool.clock import now_ms
from klogtool.disk.output import check_place, spools_beside, write_folder
from klogtool.disk.scratch import Scratch
from klogtool.errors import Refused
from klogtool.log.log_dirs import is_log_dir
from klogtool.plans.plan import REJECTED, Plan
from klogtool.plans.rejected_files import rejected_files
from klogtool.plans.remote_fetch import fetch_log
from klogtool.plans.salvage import COMMAND, SalvageQuestion
from klogtool.remote.fetching import choose_log
from klogtool.remote.inventory import walk_partitions
from klogtool.remote.named import find_named, segments_of
from klogtool.remote.store import KEY_HELP
from klogtool.render.salvage import NOTHING_WRITTEN, lost_anything, place_lines, rejected_text, salvage_text


def _refuse_in_place(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        raise click.UsageError("salvage does not work in place. Use --output DIR to write the result elsewhere.", ctx)


@commands.command("salvage")
@click.argument("partition", metavar="PARTITION")
@question_options(SalvageQuestion)
@click.option(
    "--rejected",
    type=click.Path(),
    metavar="DIR",
    help="Where to keep the rejected bytes, with a manifest.  [default: the --output DIR with .rejected added]",
)
@click.option(
    "--deep/--shallow",
    default=True,
    help="Open every batch, and reject those whose records cannot be read; or go by headers and checksums alone.  "
    "[default: --deep]",
)
@click.option("--key", "keys", multiple=True, metavar="ID=FILE", help=KEY_HELP)
@click.option("--apply", is_flag=True, hidden=True, expose_value=False, callback=_refuse_in_place)
@gently
@writing_by(OUTPUT, PLAN_OUT)
def command(
    partition: str, question: SalvageQuestion, writing: Writing, rejected: str | None, keys: tuple[str, ...]
) -> int:
    """Copy every good batch of a damaged partition dir, before and after each damage.

    Prints the plan and stops. With --output, writes a partition dir that a broker can load: offsets are unchanged,
    side files are rebuilt. A wrong field that no checksum protects is corrected if its value is certain. Rejected
    bytes go to --rejected. That folder must not be in a log dir, because a broker does not start with a foreign folder
    there.

    \b
    Examples:
      klogtool salvage orders-0 --output rescued/orders-0
      klogtool salvage orders-0 --replica broker-2/orders-0 --output rescued/orders-0

    Exit status: 0 nothing is lost; 1 records are lost (the result is written all the same); 2 wrong usage, no such
    path; 3 refused, nothing written; 4 could not go on.
    """
    place = _place_for_rejected(partition, writing.output, rejected)
    replicas = tuple(_at_hand(replica, keys, writing) for replica in question.replicas)
    kept: dict[str, Mapping[str, Content]] = {}

    def beside_of(plan: Plan) -> Mapping[str, Mapping[str, Content]]:
        files = rejected_files(plan) if place is not None else {}
        if place is not None and files:
            kept[place] = files
        return kept

    def next_steps() -> Iterator[str]:
        for folder, files in kept.items():
            yield rejected_text(folder, len(files) - 1)
        yield from place_lines(partition, writing.output or "")

    def text_of(plan: Plan) -> str:
        is_shown_only = not (writing.keeps_plans or writing.quiet)
        return salvage_text(plan) + (f"\n{NOTHING_WRITTEN}" if is_shown_only else "")

    face = PlanFace(
        text_of=text_of,
        status_of=lambda plan: FOUND if lost_anything(plan) else DONE,
        beside_of=beside_of,
        next_steps=next_steps,
        nothing_changed="",
    )
    question = replace(question, replicas=replicas)
    return decide_and_carry_out(COMMAND, [partition], question, writing, face)


def _at_hand(replica: str, keys: Sequence[str], writing: Writing) -> str:
    """Return the path of a replica; of one in remote storage, that of a partition dir made of it for this run."""
    store = find_named(replica, dict(map(key_of, keys)))
    if store is None:
        return os.path.abspath(replica)
    if writing.plan_out is not None:
        cure = CommandCure.FETCH(store=store.uri)
        raise Refused(CommandRefusal.SAVED_ON_REMOTE(), path=store.uri, cure=cure)
    segments_of(store)  # of one partition
    listed = next(walk_partitions(store, None))
    scratch = Scratch.make("remote")
    click.get_current_context().call_on_close(scratch.remove)
    place = f"{scratch.path}/{listed.topic}-{listed.partition}"
    choice = choose_log(store, listed, None, None)
    with spools_beside(place) as spools:
        fetched = fetch_log(store, listed, choice, place, spools.make_spool, now_ms())
        write_folder(place, fetched.files, store.uri)
    if not writing.quiet:
        note(f"klogtool: {store.uri}: fetched to {place} for this run")
    return place


def _place_for_rejected(partition: str, output: str | None, rejected: str | None) -> str | None:
    """Return where rejected bytes go; None without --output. Raises Refused for a place in a log dir."""
    if output is None:
        if rejected is not None:
            raise click.UsageError("--rejected needs --output.")
        return None
    place = output.rstrip(os.sep) + REJECTED if rejected is None else rejected
    above = os.path.dirname(os.path.realpath(place))
    while above != os.path.dirname(above):
        if is_log_dir(above):
            cure = CommandCure.OUTPUT_ELSEWHERE()
            raise Refused(CommandRefusal.REJECTED_IN_LOG_DIR(above=above), path=place, cure=cure)
        above = os.path.dirname(above)
    check_place(place, partition)
    return place
