"""klogtool retain."""

from __future__ import annotations

from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.render.retain import retain_brief, retain_text
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.retain import COMMAND


@click.command("retain")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@options.purge
@writing
@options.jobs
@options.quiet
@options.circumstances
@options.debug
def command(paths: tuple[str, ...], given: Circumstances, **chosen: Any) -> int:
    """Delete the segments that retention no longer keeps: of a partition dir, or of each in a log dir.

    By log start offset, retention.bytes and retention.ms, as a broker does and guarded by the high watermark. Settings
    come from --config, --config-file, or the log dir's __cluster_metadata. Prints the plan and stops; with --apply or
    --output, carries it out.

    Exit status: 0 done, or nothing to delete; 2 wrong usage, no such path; 3 refused, nothing written; 4 could not go
    on.
    """
    is_one = len(paths) == 1 and isinstance(open_path(paths[0]), Partition)
    arguments = given.as_arguments() | options.only_given(chosen, ("purge", "jobs"))
    return decide_and_carry_out(COMMAND, paths, arguments, chosen, text_of=retain_text if is_one else retain_brief)
