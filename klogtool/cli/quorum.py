"""klogtool quorum."""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec import to_builtins

from klogtool.cli import commands, options
from klogtool.cli.in_use import note_if_in_use
from klogtool.cli.question_options import MOST_CONFIG_BYTES
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.errors import KlogError
from klogtool.format.java_text import parse_properties
from klogtool.log.file import read_whole
from klogtool.quorum.configuration import Configuration, parse_configuration
from klogtool.quorum.controllers import Controller, read_controller
from klogtool.quorum.election import judge_election
from klogtool.render.quorum import quorum_row, quorum_text

COMMAND = "quorum"


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
@options.screen()
@options.debug
def command(paths: tuple[str, ...], config_files: tuple[str, ...], screen: Screen) -> int:
    """Say whether these controllers would elect a leader, and who may vote. Name the metadata log dir of every
    controller that is at hand; a broker's copy of the metadata counts as well.

    The answer is about a start of these nodes together, and of no others. klogtool reads who votes from the metadata
    log and its newest snapshot, or from controller.quorum.voters; and it compares how far the copies go. It names the
    most complete copy, what a worse one would lose, and what to do. It writes nothing.

    \b
    Examples:
      klogtool quorum /data/controller-1 --config-file server-1.properties
      klogtool quorum LOGDIR1 LOGDIR2 LOGDIR3 --json

    Exit status: 0 a leader is elected, no controller is shut out, and nothing is lost; 1 no leader, or it is unknown,
    or something may be lost; 2 wrong usage, no such path; 4 a file could not be read.
    """
    if len(config_files) > len(paths):
        raise click.UsageError("There are more files of --config-file than log dirs.")
    if not screen.quiet:
        note_if_in_use(paths)
    election = judge_election(_controllers(paths, [_configuration(path) for path in config_files]))
    show = Show(COMMAND, screen)
    show.row({"type": "answer", "command": COMMAND, **to_builtins(quorum_row(election))})
    show.text(quorum_text(election))
    return DONE if election.is_sound else FOUND


def _controllers(paths: Sequence[str], configurations: Sequence[Configuration]) -> list[Controller]:
    found: dict[int, Controller] = {}
    controllers = []
    for n, path in enumerate(paths):
        controller = read_controller(path, configurations[n] if n < len(configurations) else None)
        if controller.node_id is not None:
            other = found.setdefault(controller.node_id, controller)
            if other is not controller:
                raise click.UsageError(
                    f"{other.path} and {path} are both of node {controller.node_id}. Name one of them at a time."
                )
        controllers.append(controller)
    return controllers


def _configuration(path: str) -> Configuration:
    try:
        return parse_configuration(parse_properties(read_whole(path, limit=MOST_CONFIG_BYTES)))
    except KlogError as error:
        raise error.at_path(path) from None
