"""klogtool fleet collect."""

from __future__ import annotations

from collections.abc import Sequence

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options, question_options
from klogtool.cli.gentle_reading import begin_reading, gently
from klogtool.cli.output import Output, note
from klogtool.cli.show import ReadingOptions, header
from klogtool.cli.status import COULD_NOT, DONE
from klogtool.fleet.collected import COMMAND, Collected, CopyFacts
from klogtool.fleet.collecting import Collecting
from klogtool.fleet.coordinating import without_names
from klogtool.fleet.framed import walk_lines
from klogtool.fleet.node_starts import collect_with_claims
from klogtool.render.progress_bar import bar_over
from klogtool.render.words import count_text


@commands.command("collect")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@options.reading("json", about="Output format: JSON Lines (--json), and no other.")
@question_options.circumstances
@gently
def command(paths: tuple[str, ...], circumstances: Circumstances, reading: ReadingOptions) -> int:
    """Write what the log dirs of one broker have to stdout, as JSON Lines: about 1 KB for each partition.

    Name all log dirs of the broker, while it is stopped. Every batch is read, and proved by its checksum. Of each
    partition dir the file has ids, offsets, leader epochs, damage and checkpoints; of `__cluster_metadata` it has
    replicas and ISR. No record is in it.

    \b
    Examples:
      klogtool fleet collect /data/kafka-1 /data/kafka-2 > broker-1.klog
      klogtool fleet collect -q LOGDIR | ssh host 'cat > broker-1.klog'

    Exit status: 0 done; 2 wrong usage, no such path; 3 log dirs of several brokers; 4 a log dir or partition dir could
    not be read: the file says which.
    """
    begin_reading(paths, quiet=reading.quiet)
    with bar_over(paths, wanted=reading.wants_bar, in_bytes=False) as bar:
        collected = collect_with_claims(
            paths, Collecting(circumstances, reading.jobs, lambda: bar.advance_partition(0))
        )
    out = Output()
    for line in walk_lines(header(COMMAND), without_names(collected).rows()):
        out.line(line)
    out.flush()
    unread = [copy for copy in collected.copies if copy.problem is not None]
    _note(collected, unread, is_quiet=reading.quiet)
    return COULD_NOT if unread or any(log_dir.problem for log_dir in collected.broker.log_dirs) else DONE


def _note(collected: Collected, unread: Sequence[CopyFacts], *, is_quiet: bool) -> None:
    for log_dir in collected.broker.log_dirs:
        if log_dir.problem is not None:
            note(f"klogtool: {log_dir.problem}")
    for copy in unread:
        note(f"klogtool: {copy.problem}")
    if not is_quiet:
        who = "a broker of unknown id" if collected.broker.node_id is None else f"broker {collected.broker.node_id}"
        log_dirs = count_text(len(collected.broker.log_dirs), "log dir")
        note(f"klogtool: {who}: {count_text(len(collected.copies), 'partition dir')} in {log_dirs}")
