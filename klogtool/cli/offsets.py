"""klogtool offsets."""

from __future__ import annotations

from typing import Annotated

import click
from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.coordinator.committed_offsets import LoadedOffsets, LogRanges, load_offsets
from klogtool.cli import commands, options
from klogtool.cli.causes import CommandRefusal
from klogtool.cli.gentle_reading import begin_reading
from klogtool.cli.output import note
from klogtool.cli.question_options import question_options
from klogtool.cli.show import ReadingOptions, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.errors import Unsupported
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import OFFSETS_TOPIC
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.parameters import Unit, parameter
from klogtool.render.offsets import (
    answer_row,
    closing_texts,
    csv_lines,
    foreign_texts,
    group_texts,
    has_line_end,
    history_notes,
    left_out_text,
    offset_row,
)

COMMAND = "offsets"


class OffsetsQuestion(Struct, frozen=True, kw_only=True):
    """Which committed offsets are shown. at: as they stood then, in ms."""

    at: Annotated[int | None, parameter("As they stood at this time (epoch ms or ISO 8601).", Unit.TIME)] = None
    groups: Annotated[
        tuple[str, ...], parameter("Only this group; may be repeated.", Unit.TEXT, option="group", metavar="GROUP")
    ] = ()


@commands.command(COMMAND)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@question_options(OffsetsQuestion)
@options.reading(
    *("text", "json", "csv"),
    about="Output format: text, JSON Lines (--json), or CSV for kafka-consumer-groups --from-file.",
)
def command(paths: tuple[str, ...], question: OffsetsQuestion, reading: ReadingOptions) -> int:
    """Show the offsets that consumer groups have committed, now or at a past time, and their lag.

    klogtool reads __consumer_offsets in the given log dirs as a broker's group coordinator does. It writes nothing.
    Several log dirs are those of one broker. A PATH may also be a partition dir of __consumer_offsets.

    \b
    Examples:
      klogtool offsets LOGDIR --group billing
      klogtool offsets LOGDIR --at 2026-11-21T18:10:00Z --format csv

    Exit status: 0 done; 1 damage or records that no coordinator can read or wrote were met, and commits may be missing,
    or commits lie where no coordinator looks for them; 2 wrong usage, no such path; 4 a file could not be read.
    """
    opened = [_opened(path) for path in paths]
    begin_reading(paths, quiet=reading.quiet)
    loaded = load_offsets(opened, MAX_LONG if question.at is None else question.at, reading.threads)
    result, ranges = _of_groups(loaded, question.groups), LogRanges(opened)
    show = Show(COMMAND, reading)
    show.rows(offset_row(one, ranges, result) for one in (*result.committed, *result.pending))
    if reading.is_json:
        show.answer(answer_row(result, question.at, ranges))
    elif reading.form == "csv":
        lines = csv_lines(result, with_group=len(question.groups) != 1)
        show.out.write("".join(f"{line}\n" for line in lines).encode())
    else:
        show.lines((*group_texts(result, ranges), *closing_texts(result, question.at, ranges)))
    show.close()
    _note(result, question, reading)
    is_sound = loaded.is_loaded and not (loaded.damage or loaded.has_foreign or loaded.unserved)
    return DONE if is_sound else FOUND


def _opened(path: str) -> LogDir | Partition:
    """Open a log dir or a partition dir of __consumer_offsets. Raises Unsupported for anything else."""
    opened = open_path(path)
    if isinstance(opened, LogDir) or (isinstance(opened, Partition) and opened.topic == OFFSETS_TOPIC):
        return opened
    raise Unsupported(CommandRefusal.NO_DIR_OF(topic=OFFSETS_TOPIC), path=path)


def _of_groups(loaded: LoadedOffsets, groups: tuple[str, ...]) -> LoadedOffsets:
    if not groups:
        return loaded
    wanted = set(groups)
    return replace(
        loaded,
        committed=tuple(one for one in loaded.committed if one.commit.group in wanted),
        pending=tuple(one for one in loaded.pending if one.commit.group in wanted),
    )


def _note(result: LoadedOffsets, question: OffsetsQuestion, reading: ReadingOptions) -> None:
    """Say on stderr what is missing: what makes the status 1 always, other notes unless they are not wanted."""
    for one in result.damage:
        note(f"klogtool: {left_out_text(one)}")
    for text in foreign_texts(result):
        note(f"klogtool: {text}")
    if reading.quiet:
        return
    if not result.logs:
        note(f"klogtool: no partition of {OFFSETS_TOPIC} is under the given paths")
    for line in history_notes(result, question.at):
        note(f"klogtool: {line}")
    known = {one.commit.group for one in (*result.committed, *result.pending)}
    for group in question.groups:
        if group not in known and result.logs:
            note(f"klogtool: group {group}: no committed offsets in the partitions that were read")
    left_out = sum(has_line_end(one) for one in result.committed) if reading.form == "csv" else 0
    if left_out:
        note(f"klogtool: {left_out:,} left out of the CSV: a name has a line end, and Kafka's tool reads lines")
