"""klogtool quorum."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence

import click
from msgspec.structs import replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.releases import Rules, rules_of
from klogtool.cli import commands, options
from klogtool.cli.causes import CommandRefusal
from klogtool.cli.gentle_reading import begin_reading
from klogtool.cli.question_options import question_options, read_properties
from klogtool.cli.show import Show
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import APPLY, JOURNAL, PLAN_OUT, PlanFace, Writing, decide_and_carry_out, writing_by
from klogtool.errors import Unsupported
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.plans.quorum_voters import COMMAND, VotersQuestion
from klogtool.quorum.controllers import Controller, read_controller
from klogtool.quorum.election import judge_election
from klogtool.quorum.settings import used_settings
from klogtool.render.quorum import quorum_row, quorum_text, voters_text

OPTIONS = ("voters", "standalone", "destroyed", "accept_loss", "static", "controller_listener", "now_ms", "kafka")


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option(
    "--config-file",
    "config_files",
    type=click.Path(),
    multiple=True,
    metavar="FILE",
    help="The server.properties of each controller, in the order of the log dirs. May be repeated.",
)
@question_options(VotersQuestion, only=OPTIONS)
@writing_by(APPLY, PLAN_OUT, JOURNAL)
def command(paths: tuple[str, ...], config_files: tuple[str, ...], question: VotersQuestion, writing: Writing) -> int:
    """Say whether these controllers would elect a leader, and who may vote. Name the metadata log dir of every
    controller that is at hand; a broker's copy of the metadata counts as well.

    The answer is about a start of these nodes together, and of no others. klogtool reads who votes from the metadata
    log and its newest snapshot, or from controller.quorum.voters; and it compares how far the copies go. It names the
    most complete copy, what a worse one would lose, and what to do. It writes nothing.

    With --voters or --standalone it plans a new set of voters, for a quorum that has lost its majority for good. It is
    written at the end of the most complete copy. Without --apply nothing is changed.

    \b
    Examples:
      klogtool quorum /data/controller-1 --config-file server-1.properties
      klogtool quorum LOGDIR1 LOGDIR2 LOGDIR3 --json
      klogtool quorum /data/controller-1 --standalone --destroyed 2 --destroyed 3 --accept-loss

    Exit status: 0 a leader is elected, no controller is shut out, and nothing is lost, or a new set of voters is
    planned or written; 1 no leader, or it is unknown, or something may be lost; 2 wrong usage, no such path; 3 refused,
    nothing written; 4 a file could not be read.
    """
    if len(config_files) > len(paths):
        raise click.UsageError("There are more files of --config-file than log dirs.")
    files = [read_properties(path) for path in config_files]
    if question.voters is not None or question.standalone:
        return _plan(paths, files, question, writing)
    used = options.first_used(
        "apply", "plan_out", "journal", "destroyed", "accept_loss", "static", "controller_listener"
    )
    if used is not None:
        raise click.UsageError(f"{used} needs --voters or --standalone.")
    begin_reading(paths, quiet=writing.quiet)
    election = judge_election(list(_controllers(paths, files, rules_of(question.circumstances.kafka))))
    show = Show(COMMAND, writing)
    show.row({"type": "answer", "command": COMMAND, **quorum_row(election)})
    show.text(quorum_text(election))
    return DONE if election.is_sound else FOUND


def _plan(paths: Sequence[str], files: Sequence[Mapping[str, str]], question: VotersQuestion, writing: Writing) -> int:
    """Plan a new set of voters. The plan is about one of the log dirs, and relies on all."""
    if question.voters is not None and question.standalone:
        raise click.UsageError("Give --voters or --standalone, not both.")
    try:
        question.wish  # noqa: B018
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--voters") from None
    list(_controllers(paths, files, rules_of(question.circumstances.kafka)))
    copies = tuple(map(os.path.abspath, paths))
    question = replace(
        question, copies=copies, settings=(*map(used_settings, files), *[None] * (len(paths) - len(files)))
    )
    face = PlanFace(
        text_of=voters_text,
        begin=lambda _: paths[:1],
        nothing_changed="Nothing was changed. --apply does it, with undo.",
    )
    return decide_and_carry_out(COMMAND, paths, question, writing, face)


def _controllers(paths: Sequence[str], files: Sequence[Mapping[str, str]], rules: Rules) -> Iterator[Controller]:
    """Yield the controllers. Raises UsageError if two disks are of one node."""
    owners: dict[int, str] = {}
    for path, settings in itertools.zip_longest(paths, files):
        if not isinstance(open_path(path), LogDir):
            raise Unsupported(CommandRefusal.NO_LOG_DIR_WITH(folder=CLUSTER_METADATA_DIR), path=path)
        controller = read_controller(path, settings, rules)
        if controller.node_id in owners:
            raise click.UsageError(
                f"{owners[controller.node_id]} and {path} are both of node {controller.node_id}: name one at a time."
            )
        if controller.node_id is not None:
            owners[controller.node_id] = path
        yield controller
