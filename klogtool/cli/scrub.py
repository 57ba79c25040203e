"""klogtool scrub."""

from __future__ import annotations

import math
import os
import re
import time
from typing import Annotated, TypeAlias

import click
from msgspec import Struct

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options
from klogtool.cli.gentle_reading import always_gently, begin_reading
from klogtool.cli.output import note
from klogtool.cli.output_file import MetricsFile, check_metrics_place, write_metrics
from klogtool.cli.question_options import question_options
from klogtool.cli.show import ReadingOptions, Show
from klogtool.cli.status import COULD_NOT, DONE, FOUND
from klogtool.disk.line_file import LineFile, open_line_file
from klogtool.log.expected_files import announced
from klogtool.parameters import Unit, parameter
from klogtool.render.findings import FindingText
from klogtool.render.metrics import scrub_metrics
from klogtool.render.scrub import (
    earlier_line,
    earlier_row,
    scrub_block,
    scrub_closing_line,
    scrub_finding_row,
    scrub_summary_row,
)
from klogtool.render.terminal import columns
from klogtool.scrub.closed_segments import ClosedSegment, Listing, SegmentId, list_closed_segments
from klogtool.scrub.other_copies import CopyLines, CopyVerdict, cured_by_copies, judge_copies
from klogtool.scrub.scrub_run import ScrubSummary, due_segments
from klogtool.scrub.segment_check import CheckOutcome, Covered, ScrubState, check_segment, files_of
from klogtool.verify.findings import Finding, Severity

COMMAND, STATE_NAME = "scrub", ".klogtool-scrub"
DAY_SECONDS = 86_400
EVERY_MS = 30 * DAY_SECONDS * 1000
KEPT_PERIODS = 2  # for so long, what is remembered of a disk that is away stays
Duration: TypeAlias = Annotated[
    float | None,
    parameter(
        "After this time, start no further segment: 90s, 10m, 2h.", Unit.TIME, option="for", parse=options.duration
    ),
]


def _window(text: str) -> tuple[int, int]:
    """Parse HH:MM-HH:MM into seconds of the day."""
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)", text, re.ASCII)
    if match is None:
        raise click.BadParameter(f"'{text}' is not a window such as 02:00-05:00.")
    hour, minute, end_hour, end_minute = (int(part) for part in match.groups())
    return hour * 3600 + minute * 60, end_hour * 3600 + end_minute * 60


def period_ms(every: float | None) -> int:
    """Return the period of --every in milliseconds."""
    return EVERY_MS if every is None else int(every * 1000)


class ScrubQuestion(Struct, frozen=True, kw_only=True):
    """What is read, and how long. every, duration: seconds. window: seconds of the day, local time."""

    circumstances: Circumstances
    every: Annotated[
        float | None,
        parameter("Read each closed segment once in this time.  [default: 30d]", Unit.TIME, parse=options.duration),
    ] = None
    window: Annotated[
        tuple[int, int] | None,
        parameter(
            "Read only at this time of the day, local time: 02:00-05:00. The segment at its end is read to its end.",
            Unit.TEXT,
            metavar="FROM-TO",
            parse=_window,
        ),
    ] = None
    duration: Duration = None
    state: Annotated[
        str | None,
        parameter(
            "Remember in this file what was read, outside of the log dirs.  [default: LOGDIR.klogtool-scrub, beside "
            "the first log dir]",
            Unit.FILE,
        ),
    ] = None
    metrics: MetricsFile = None
    replica: Annotated[
        tuple[str, ...],
        parameter(
            "Lines of klogtool hash --json of another broker: says which copy is whole. Repeatable.",
            Unit.FILE,
            metavar="HASHLINES",
        ),
    ] = ()

    def seconds_left(self, now_ms: int) -> float:
        """Return for how long a segment may be begun."""
        if self.window is None:
            return math.inf
        local, (start, end) = time.localtime(now_ms / 1000), self.window
        since = (local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec - start) % DAY_SECONDS
        return max(0, ((end - start) % DAY_SECONDS or DAY_SECONDS) - since)


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@question_options(ScrubQuestion)
@options.reading()
@always_gently
def command(paths: tuple[str, ...], question: ScrubQuestion, reading: ReadingOptions) -> int:
    """Read all closed segments of the log dirs of a broker once in a while, beside the broker, and find bit rot.

    A broker never looks at closed segments again. scrub reads those that were not read for longest, past the page
    cache, and remembers what it read. It finds what verify finds in a segment and its indexes, and bytes that changed
    since it read them before. Run it again and again, by a timer.

    \b
    Examples:
      klogtool scrub /var/kafka-logs --rate 50MB/s --window 02:00-05:00
      klogtool scrub /disk1/kafka /disk2/kafka --state /var/lib/klogtool/scrub --for 1h

    Exit status: 0 nothing is wrong, also if more is due; 1 an error stands, of this run or an earlier one; 2 wrong
    usage, no such path; 3 refused: the state is another file, in a log dir, or in use; 4 a log dir could not be read,
    or what was read could not be remembered.
    """
    check_metrics_place(question.metrics)
    copies = [CopyLines.read(path) for path in question.replica]
    begin_reading(paths, quiet=reading.quiet)
    listing = list_closed_segments(paths, question.circumstances)
    with open_line_file(question.state or os.path.abspath(paths[0]) + STATE_NAME) as file:
        return _Run(paths, question, reading, listing, file, copies).run()


class _Run:
    """One run: what is read, and how it is shown."""

    def __init__(
        self,
        paths: tuple[str, ...],
        question: ScrubQuestion,
        reading: ReadingOptions,
        listing: Listing,
        file: LineFile,
        copies: list[CopyLines],
    ) -> None:
        self._paths, self._question, self._listing, self._file, self._copies = paths, question, listing, file, copies
        self._began, self._began_ms = time.monotonic(), question.circumstances.now_ms
        self._state = ScrubState(Covered, COMMAND, file.path, file.data, self._began_ms)
        self._summary = ScrubSummary(len(listing.closed), listing.unflushed, self._state.damaged)
        self._read_now, self._gone = set[SegmentId](), set[SegmentId]()
        self._show, self._is_quiet = Show(COMMAND, reading), reading.quiet
        self._text = FindingText(list(paths), width=columns())

    def run(self) -> int:
        """Read what is due; returns the exit status."""
        for finding in self._listing.findings:
            self._show_finding(finding, [])
        if not self._file.data.startswith(self._state.first_line):
            self._file.add(self._state.first_line)
        every_ms = period_ms(self._question.every)
        self._read(due_segments(self._listing.closed, self._state, now_ms=self._began_ms, every_ms=every_ms))
        self._listing.closed = [one for one in self._listing.closed if one.id not in self._gone]
        since_ms = self._began_ms - KEPT_PERIODS * every_ms
        self._file.replace(self._state.lines({one.id for one in self._listing.closed}, since_ms=since_ms))
        return self._finish()

    def _read(self, due: list[ClosedSegment]) -> None:
        """Read segments while there is time."""
        window, duration = self._question.seconds_left(self._began_ms), self._question.duration
        if not window and not self._is_quiet:
            note("klogtool: it is not the time of --window: nothing is read")
        for n, segment in enumerate(announced(due, files_of)):
            # The first one is read however short --for is: else nothing would ever be read.
            if self._seconds() >= window or (n and duration is not None and self._seconds() >= duration):
                self._summary.due = len(due) - n
                break
            check = check_segment(segment, self._state.find(segment.id), self._began_ms)
            self._summary.add(check)
            for finding in check.findings:
                verdicts = judge_copies(finding, segment, self._copies)
                self._show_finding(cured_by_copies(finding, segment, verdicts), verdicts)
            if check.covered is not None:
                self._file.add(self._state.add(check.covered))
                self._read_now.add(segment.id)
            elif check.outcome is CheckOutcome.GONE:
                self._gone.add(segment.id)

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _now_ms(self) -> int:
        return self._began_ms + int(self._seconds() * 1000)

    def _show_finding(self, finding: Finding, verdicts: list[CopyVerdict]) -> None:
        self._show.row(scrub_finding_row(finding, verdicts))
        self._show.text(scrub_block(finding, verdicts, self._text) + "\n")
        self._show.close()

    def _finish(self) -> int:
        summary = self._summary
        summary.finish(self._listing, self._state, self._read_now)
        summary.seconds = self._seconds()
        for earlier in summary.earlier:
            self._show.row(earlier_row(earlier))
            self._show.line(earlier_line(earlier))
        status = FOUND if summary.count(Severity.ERROR) else COULD_NOT if summary.changed else DONE
        self._show.row(scrub_summary_row(summary))
        self._show.line(scrub_closing_line(summary, now_ms=self._now_ms(), status=status))
        self._show.close()
        metrics = scrub_metrics(summary, self._now_ms())
        write_metrics(self._question.metrics, COMMAND, self._paths, summary.seconds, status, metrics)
        return status
