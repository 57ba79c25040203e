"""klogtool offsets."""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import replace

from klogtool.broker.coordinator.committed_offsets import TOPIC, LoadedOffsets, LogRanges, load_offsets
from klogtool.cli import commands, options
from klogtool.cli.in_use import note_if_in_use
from klogtool.cli.output import Output
from klogtool.cli.show import header
from klogtool.cli.status import DONE, FOUND
from klogtool.errors import Unsupported
from klogtool.format.java_numbers import MAX_LONG
from klogtool.json_rows import row_line
from klogtool.log.cores import usable_cores
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.render.offsets import (
    answer_row,
    closing_texts,
    csv_lines,
    group_texts,
    has_line_end,
    history_notes,
    left_out_text,
    offset_row,
)

COMMAND = "offsets"


@commands.command(COMMAND)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--at", callback=options.moment, metavar="TIME", help="As they stood at this time (epoch ms or ISO 8601)."
)
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@options.output_format(
    ("text", "json", "csv"), "Output format: text, JSON Lines (--json), or CSV for kafka-consumer-groups --from-file."
)
@options.jobs
@options.quiet
@options.debug
def command(paths: tuple[str, ...], at: int | None, groups: tuple[str, ...], form: str, **chosen: Any) -> int:
    """Show the offsets that consumer groups have committed, now or at a past time, and their lag.

    klogtool reads __consumer_offsets in the given log dirs as a broker's group coordinator does. It writes nothing.
    Several log dirs are those of one broker. A PATH may also be a partition dir of __consumer_offsets.

    \b
    Examples:
      klogtool offsets LOGDIR --group billing
      klogtool offsets LOGDIR --at 2026-11-21T18:10:00Z --format csv

    Exit status: 0 done; 1 damage was met, and commits may be missing; 2 wrong usage, no such path; 4 a file could not
    be read.
    """
    opened = [_opened(path) for path in paths]
    if not chosen["quiet"]:
        note_if_in_use(paths)
    found = load_offsets(opened, MAX_LONG if at is None else at, chosen["jobs"] or usable_cores())
    shown = _of_groups(found, groups)
    out = Output()
    if form == "json":
        _show_json(out, shown, at, LogRanges(opened))
    elif form == "csv":
        out.write("".join(line + "\n" for line in csv_lines(shown, with_group=len(groups) != 1)).encode())
    else:
        _show_text(out, shown, at, LogRanges(opened))
    out.flush()
    _tell(out, shown, at, groups, is_csv=form == "csv", is_quiet=chosen["quiet"])
    return FOUND if found.damage else DONE


def _opened(path: str) -> LogDir | Partition:
    """Open a log dir or a partition dir of __consumer_offsets. Raises Unsupported for anything else."""
    found = open_path(path)
    if isinstance(found, LogDir) or (isinstance(found, Partition) and found.topic == TOPIC):
        return found
    raise Unsupported(f"neither a log dir nor a partition dir of {TOPIC}", path=path)


def _of_groups(found: LoadedOffsets, groups: tuple[str, ...]) -> LoadedOffsets:
    if not groups:
        return found
    wanted = set(groups)
    return replace(
        found,
        committed=tuple(one for one in found.committed if one.commit.group in wanted),
        pending=tuple(one for one in found.pending if one.commit.group in wanted),
    )


def _show_json(out: Output, found: LoadedOffsets, at: int | None, ranges: LogRanges) -> None:
    out.line(row_line(header(COMMAND)))
    for one in (*found.committed, *found.pending):
        out.line(row_line(offset_row(one, ranges)))
    out.line(row_line({"type": "answer", "command": COMMAND, **answer_row(found, at, ranges)}))


def _show_text(out: Output, found: LoadedOffsets, at: int | None, ranges: LogRanges) -> None:
    for line in (*group_texts(found, ranges), *closing_texts(found, at, ranges)):
        out.line(line)


def _tell(
    out: Output, found: LoadedOffsets, at: int | None, groups: tuple[str, ...], *, is_csv: bool, is_quiet: bool
) -> None:
    """Say on stderr what is missing: damage always, other notes unless they are not wanted."""
    for one in found.damage:
        out.note(f"klogtool: {left_out_text(one)}")
    if is_quiet:
        return
    if not found.logs:
        out.note(f"klogtool: no partition of {TOPIC} is under the given paths")
    for line in history_notes(found, at):
        out.note(f"klogtool: {line}")
    known = {one.commit.group for one in (*found.committed, *found.pending)}
    for group in groups:
        if group not in known and found.logs:
            out.note(f"klogtool: group {group}: no committed offsets in the partitions that were read")
    left_out = sum(has_line_end(one) for one in found.committed) if is_csv else 0
    if left_out:
        out.note(f"klogtool: {left_out:,} left out of the CSV: a name has a line end, and Kafka's tool reads lines")
