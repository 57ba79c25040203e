"""What klogtool verify prints: text, JSON, counts by id, or the report of a CI system."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from klogtool.cli.show import ReadingOptions, Show, header
from klogtool.cli.status import COULD_NOT
from klogtool.cli.verify_settings import VerifyQuestion
from klogtool.cli.version import VERSION
from klogtool.render.ci.github import GithubReport
from klogtool.render.ci.gitlab import GitlabReport
from klogtool.render.ci.junit import JunitReport
from klogtool.render.ci.report import Ending, Report, checkout_folder
from klogtool.render.ci.sarif import SarifReport
from klogtool.render.findings import (
    FindingText,
    closing_line,
    finding_row,
    gone_lines,
    left_out_line,
    summary_row,
)
from klogtool.render.progress_bar import Bar
from klogtool.render.terminal import columns
from klogtool.render.worst_first import Statistics, WorstFirst
from klogtool.verify.findings import Severity
from klogtool.verify.verification import PartitionDone, Summary
from klogtool.verify.weighing import NotCounted, Weighed

CUT_SHORT = "Interrupted: the rest was not read."
NOT_WRITTEN = "The baseline was not written."


class Face(Show):
    """Shows a run of verify."""

    def __init__(self, reading: ReadingOptions, settings_path: str | None = None, command: str = "verify") -> None:
        """settings_path: the settings file, if there is one."""
        row = header(command)
        with suppress(OSError):  # the folder is gone; the paths of findings are relative to it
            row["cwd"] = os.getcwd()
        if settings_path is not None:
            row["settings"] = settings_path
        super().__init__(command, reading, first_row=row)

    def partition(self, done: PartitionDone) -> None:
        """Take note of a partition; its findings follow."""

    def finding(self, weighed: Weighed) -> None:
        """Show a finding, or keep it."""

    def cut_short(self, why: str) -> None:
        """Show what was found by the time of an interrupt or an error. why: a sentence for people."""

    def summary(self, summary: Summary, not_counted: NotCounted, status: int) -> None:
        """Show the end."""


def make_face(
    question: VerifyQuestion,
    reading: ReadingOptions,
    paths: Sequence[str],
    below: Sequence[str],
    settings_path: str | None,
    bar: Bar,
    command: str = "verify",
) -> Face:
    """Return the face of a --format. paths: as typed. below: what --recursive found below them."""
    if question.statistics:
        return StatisticsFace(reading, settings_path)
    if reading.form == "json":
        return JsonFace(reading, settings_path, command)
    if reading.form == "text":
        return TextFace(bar, paths, question, reading)
    return ReportFace(_report(reading.form, below, question), question, reading)


def _report(form: str, below: Sequence[str], question: VerifyQuestion) -> Report:
    try:
        here = os.getcwd()
    except OSError:  # the working directory is gone
        here = os.sep
    folder, notes = checkout_folder(os.environ, here), question.notes
    match form:
        case "junit":
            return JunitReport(folder, below, notes=notes, fail_on=question.fail_on)
        case "sarif":
            return SarifReport(folder, VERSION, notes=notes, has_baseline=question.baseline is not None)
        case "github":
            return GithubReport(folder, notes=notes)
        case _:
            return GitlabReport(folder, notes=notes)


class JsonFace(Face):
    """A line for each finding, known ones included, and one for the summary."""

    def finding(self, weighed: Weighed) -> None:
        """Show a finding."""
        self.row(finding_row(weighed.finding, is_known=weighed.is_known))

    def cut_short(self, why: str) -> None:
        """Do nothing else: all findings have been shown."""
        self.close()

    def summary(self, summary: Summary, not_counted: NotCounted, _: int) -> None:
        """Show the last line."""
        self.row(summary_row(summary, not_counted))


class TextFace(Face):
    """Blocks for the findings that count, and a closing line.

    The worst come first, so they are held back until all are known; with --verbose each is shown as it comes. What was
    left out is shown before all of them.
    """

    def __init__(self, bar: Bar, paths: Sequence[str], question: VerifyQuestion, reading: ReadingOptions) -> None:
        super().__init__(reading)
        self._bar, self._question, self._blocks = bar, question, list[str]()
        self._text, self._held = FindingText(list(paths), width=columns()), WorstFirst(paths)

    def finding(self, weighed: Weighed) -> None:
        """Show a finding, unless it is known, or an info that nobody asked for."""
        finding = weighed.finding
        if weighed.is_known and self._question.write_baseline is None:
            return
        if finding.severity is Severity.INFO and not self._question.notes:
            return
        if not self.screen.verbose:
            self._held.add(finding)
        elif self._question.is_partial:
            self._blocks.append(self._text.block(finding))
        else:
            with self._bar.aside():
                self._paragraph(self._text.block(finding))

    def cut_short(self, why: str) -> None:
        """Show what was found so far."""
        with self._bar.aside():
            self._show_held()
            self.line(why)
            self.close()

    def summary(self, summary: Summary, not_counted: NotCounted, status: int) -> None:
        """Show what was left out, the findings held back, and the closing line."""
        with self._bar.aside():
            if not summary.complete:
                self._paragraph(left_out_line(summary, not_counted.excluded_by))
            self._show_held()
            self.lines(gone_lines(not_counted))
            self.line(closing_line(summary, not_counted, notes_shown=self._question.notes, status=status))
            self.close()

    def _show_held(self) -> None:
        for paragraph in (*self._blocks, *self._held.walk(self._text)):
            self._paragraph(paragraph)

    def _paragraph(self, text: str) -> None:
        self.text(f"{text}\n")
        self.close()


class StatisticsFace(Face):
    """How many findings there are of each id, in text or JSON, and the closing line."""

    def __init__(self, reading: ReadingOptions, settings_path: str | None) -> None:
        super().__init__(reading, settings_path)
        self._counts = Statistics()

    def finding(self, weighed: Weighed) -> None:
        """Count a finding."""
        self._counts.add(weighed)

    def cut_short(self, why: str) -> None:
        """Show the counts so far."""
        self._show(NotCounted())
        self.line(why)
        self.close()

    def summary(self, summary: Summary, not_counted: NotCounted, status: int) -> None:
        """Show the counts and the closing line."""
        if not summary.complete:
            self.text(left_out_line(summary, not_counted.excluded_by) + "\n")
        self._show(not_counted)
        self.row(summary_row(summary, not_counted))
        self.line(closing_line(summary, not_counted, notes_shown=True, status=status))

    def _show(self, not_counted: NotCounted) -> None:
        if self.json:
            self.rows(self._counts.rows(not_counted))
        elif text := self._counts.text(not_counted):
            self.text(text)


class ReportFace(Face):
    """The report of a CI system on stdout. The closing line goes to stderr, unless it is a part of the report."""

    def __init__(self, report: Report, question: VerifyQuestion, reading: ReadingOptions) -> None:
        super().__init__(reading)
        self._report, self._notes = report, question.notes
        self._tells = not reading.quiet and not isinstance(report, GithubReport)
        self._write(report.begin())

    def partition(self, done: PartitionDone) -> None:
        """Add a partition."""
        self._write(self._report.partition(done))

    def finding(self, weighed: Weighed) -> None:
        """Add a finding."""
        self._write(self._report.finding(weighed))

    def cut_short(self, why: str) -> None:
        """End the report so that it can be read."""
        self._write(self._report.end(Ending(COULD_NOT, why, cut_short=why)))
        self.close()

    def summary(self, summary: Summary, not_counted: NotCounted, status: int) -> None:
        """End the report."""
        closing = closing_line(summary, not_counted, notes_shown=self._notes, status=status)
        self._write(self._report.end(Ending(status, closing, summary, not_counted)))
        if self._tells:
            self.out.note(f"klogtool: {closing}")

    def _write(self, text: str) -> None:
        self.out.write(text.encode())
