"""klogtool quorum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import click
from msgspec import to_builtins

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.releases import Release, Rules, rules_of
from klogtool.cli import commands, options
from klogtool.cli.in_use import note_if_in_use
from klogtool.cli.question_options import MOST_CONFIG_BYTES
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.errors import KlogError, Unsupported
from klogtool.format.java_text import parse_properties
from klogtool.log.file import read_whole
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
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
@options.kafka
@options.screen()
@options.debug
def command(paths: tuple[str, ...], config_files: tuple[str, ...], kafka: Release, screen: Screen) -> int:
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
    files = [_settings(path) for path in config_files]
    election = judge_election(list(_controllers(paths, files, rules_of(kafka))))
    show = Show(COMMAND, screen)
    show.row({"type": "answer", "command": COMMAND, **to_builtins(quorum_row(election))})
    show.text(quorum_text(election))
    return DONE if election.is_sound else FOUND


def _controllers(paths: Sequence[str], files: Sequence[Mapping[str, str]], rules: Rules) -> Iterator[Controller]:
    """Yield the controllers. Raises UsageError if two disks are of one node."""
    owners: dict[int, str] = {}
    for path, settings in itertools.zip_longest(paths, files):
        if not isinstance(open_path(path), LogDir):
            raise Unsupported(f"not a log dir: name the one that has {CLUSTER_METADATA_DIR}", path=path)
        controller = read_controller(path, settings, rules)
        if controller.node_id is not None and owners.setdefault(controller.node_id, path) != path:
            raise click.UsageError(
                f"{owners[controller.node_id]} and {path} are both of node {controller.node_id}: name one at a time."
            )
        yield controller


def _settings(path: str) -> Mapping[str, str]:
    try:
        return parse_properties(read_whole(path, limit=MOST_CONFIG_BYTES))
    except KlogError as error:
        raise error.at_path(path) from None
