"""klogtool build."""

from __future__ import annotations

import os

import click
from msgspec import to_builtins

from klogtool.building.places import WrongSpec
from klogtool.building.spec_text import MOST_TEXT_BYTES, read_spec
from klogtool.cli import commands, options
from klogtool.cli.causes import CommandRefusal
from klogtool.cli.output import read_stdin
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE
from klogtool.cli.writing import note_if_interrupted
from klogtool.disk.building import write_log_dir
from klogtool.disk.output import check_place
from klogtool.errors import AboveLimit, KlogError
from klogtool.log.file import read_whole
from klogtool.plans.build import COMMAND, BuildPlan, decide
from klogtool.render.changes import build_text

STDIN, STANDARD_INPUT = "-", "standard input"


@commands.command(COMMAND)
@click.argument("spec", metavar="SPEC")
@click.option(
    "--output",
    required=True,
    type=click.Path(),
    metavar="DIR",
    help="Write the log dir to this folder. It must be new or empty.",
)
@options.screen()
def command(spec: str, output: str, screen: Screen) -> int:
    """Make a log dir from a description in YAML: records, batches, transactions, segments, settings, damage.

    SPEC is a file, or - for stdin. The same description gives the same bytes every time. Indexes, producer snapshots
    and checkpoints are those that a broker leaves after a clean stop. klogtool dump-log --format spec writes the
    description of an existing log dir.

    \b
    Examples:
      klogtool build orders.yaml --output logs
      klogtool build orders.yaml --output logs --json

    Exit status: 0 done; 2 wrong usage, or the description is not valid; 3 refused, nothing written; 4 could not go on.
    """
    check_place(output, None if spec == STDIN else spec)
    plan = _decided(spec, output)
    with note_if_interrupted(lambda: f"{output} was not written, or it is complete"):
        write_log_dir(plan, output)
    show = Show(COMMAND, screen)
    show.answer({"path": plan.path, **to_builtins(plan.result)})
    if not screen.quiet:
        show.text(build_text(plan.result, output))
    return DONE


def _decided(spec: str, output: str) -> BuildPlan:
    """Return the plan. An error about the spec names its file."""
    where = STANDARD_INPUT if spec == STDIN else spec
    data = _standard_input() if spec == STDIN else read_whole(spec, limit=MOST_TEXT_BYTES)
    try:
        return decide(os.path.abspath(output), read_spec(data))
    except WrongSpec as error:  # what Kafka refuses is an error of the description
        raise KlogError(error.reason, path=where) from error
    except KlogError as error:
        error.at_path(where)
        raise


def _standard_input() -> bytes:
    data = read_stdin(MOST_TEXT_BYTES + 1)
    if len(data) > MOST_TEXT_BYTES:
        raise AboveLimit(CommandRefusal.LONG_INPUT(most=MOST_TEXT_BYTES), path=STANDARD_INPUT)
    return data
