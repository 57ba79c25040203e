"""What klogtool verify prints: text, JSON, counts by id, or the report of a CI system."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from klogtool.cli.output import Output
from klogtool.cli.show import header
from klogtool.cli.status import COULD_NOT
from klogtool.cli.version import VERSION
from klogtool.json_rows import row_line
from klogtool.render.ci.github import GithubReport
from klogtool.render.ci.gitlab import GitlabReport
from klogtool.render.ci.junit import JunitReport
from klogtool.render.ci.report import Ending, Places, Report, checkout_folder
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
from klogtool.render.statistics import Statistics
from klogtool.render.terminal import columns
from klogtool.render.worst_first import WorstFirst
from klogtool.verify.findings import Severity
from klogtool.verify.verification import PartitionDone, Summary
from klogtool.verify.weighing import NotCounted, Weighed

CUT_SHORT = "Interrupted: the rest was not read."
NOT_WRITTEN = "The baseline was not written."


class Face(Protocol):
    """Shows a run of verify."""

    out: Output

    def partition(self, done: PartitionDone) -> None:
        """Take note of a partition; its findings follow."""

    def finding(self, weighed: Weighed) -> None:
        """Show a finding."""

    def cut_short(self, why: str) -> None:
        """Show what was found by the time of an interrupt or an error. why: a sentence for people."""

    def summary(self, summary: Summary, not_counted: NotCounted, status: int) -> None:
        """Show the end."""


def make_face(
    form: str,
    bar: Bar,
    paths: Sequence[str],
    found: Sequence[str],
    settings_path: str | None,
    chosen: Mapping[str, Any],
) -> Face:
    """Return the face of a --format. paths: as typed. found: what --recursive found below them. settings_path: the
    settings file, if there is one."""
    if chosen["statistics"]:
        return StatisticsFace(form, settings_path)
    if form == "json":
        return JsonFace(settings_path)
    if form == "text":
        return TextFace(bar, paths, chosen)
    return ReportFace(_report(form, found, chosen), chosen)


def _report(form: str, found: Sequence[str], chosen: Mapping[str, Any]) -> Report:
    try:
        here = os.getcwd()
    except OSError:  # the working directory is gone
        here = os.sep
    places, notes = Places(checkout_folder(os.environ, here)), chosen["notes"]
    match form:
        case "junit":
            return JunitReport(places, found, notes=notes, fail_on=chosen["fail_on"])
        case "sarif":
            return SarifReport(places, VERSION, notes=notes, has_baseline=chosen["baseline"] is not None)
        case "github":
            return GithubReport(places, notes=notes)
        case _:
            return GitlabReport(places, notes=notes)


class JsonFace:
    """A line for each finding, known ones included, and one for the summary."""

    def __init__(self, settings_path: str | None) -> None:
        self.out = Output()
        self.out.line(row_line(json_header(settings_path)))

    def partition(self, done: PartitionDone) -> None:
        """Do nothing."""

    def finding(self, weighed: Weighed) -> None:
        """Show a finding."""
        self.out.line(row_line(finding_row(weighed.finding, is_known=weighed.is_known)))

    def cut_short(self, why: str) -> None:
        """Do nothing: all findings have been written."""
        self.out.flush()

    def summary(self, summary: Summary, not_counted: NotCounted, _: int) -> None:
        """Show the last line."""
        self.out.line(row_line(summary_row(summary, not_counted)))


def json_header(settings_path: str | None) -> dict[str, Any]:
    """Return the first line: with the folder to which paths are relative, and the settings file."""
    told = header("verify")
    with suppress(OSError):  # the folder is gone
        told["cwd"] = os.getcwd()
    return told if settings_path is None else {**told, "settings": settings_path}


class TextFace:
    """Blocks for the findings that count, and a closing line.

    The worst come first, so they are held back until all are known; with --verbose each is shown as it comes. What was
    left out is shown before all of them.
    """

    def __init__(self, bar: Bar, paths: Sequence[str], chosen: Mapping[str, Any]) -> None:
        self.out, self._bar, self._notes = Output(), bar, chosen["notes"]
        self._is_verbose, self._blocks = chosen["verbose"], list[str]()
        self._waits = chosen["max_duration"] is not None or chosen["subset"] != (1, 1)
        self._shows_known = chosen["write_baseline"] is not None
        self._text, self._held = FindingText(list(paths), width=columns()), WorstFirst(paths)

    def partition(self, done: PartitionDone) -> None:
        """Do nothing."""

    def finding(self, weighed: Weighed) -> None:
        """Show a finding, unless it is known, or an info that nobody asked for."""
        finding = weighed.finding
        if (weighed.is_known and not self._shows_known) or (finding.severity is Severity.INFO and not self._notes):
            return
        if not self._is_verbose:
            self._held.add(finding)
        elif self._waits:
            self._blocks.append(self._text.block(finding))
        else:
            with self._bar.aside():
                self._paragraph(self._text.block(finding))

    def cut_short(self, why: str) -> None:
        """Show what was found so far."""
        with self._bar.aside():
            self._show_held()
            self.out.line(why)
            self.out.flush()

    def summary(self, summary: Summary, not_counted: NotCounted, status: int) -> None:
        """Show what was left out, the findings held back, and the closing line."""
        with self._bar.aside():
            if not summary.complete:
                self._paragraph(left_out_line(summary, not_counted.excluded_by))
            self._show_held()
            for line in gone_lines(not_counted):
                self.out.line(line)
            self.out.line(closing_line(summary, not_counted, notes_shown=self._notes, status=status))
            self.out.flush()

    def _show_held(self) -> None:
        for paragraph in (*self._blocks, *self._held.walk(self._text)):
            self._paragraph(paragraph)

    def _paragraph(self, text: str) -> None:
        self.out.text(f"{text}\n")
        self.out.flush()


class StatisticsFace:
    """How many findings there are of each id, in text or JSON, and the closing line."""

    def __init__(self, form: str, settings_path: str | None) -> None:
        self.out, self._is_json, self._counts = Output(), form == "json", Statistics()
        if self._is_json:
            self.out.line(row_line(json_header(settings_path)))

    def partition(self, done: PartitionDone) -> None:
        """Do nothing."""

    def finding(self, weighed: Weighed) -> None:
        """Count a finding."""
        self._counts.add(weighed)

    def cut_short(self, why: str) -> None:
        """Show the counts so far."""
        self._show(NotCounted())
        if not self._is_json:
            self.out.line(why)
        self.out.flush()

    def summary(self, summary: Summary, not_counted: NotCounted, status: int) -> None:
        """Show the counts and the closing line."""
        if not self._is_json and not summary.complete:
            self.out.text(left_out_line(summary, not_counted.excluded_by) + "\n")
        self._show(not_counted)
        if self._is_json:
            self.out.line(row_line(summary_row(summary, not_counted)))
        else:
            self.out.line(closing_line(summary, not_counted, notes_shown=True, status=status))

    def _show(self, not_counted: NotCounted) -> None:
        if self._is_json:
            for row in self._counts.rows(not_counted):
                self.out.line(row_line(row))
        elif text := self._counts.text(not_counted):
            self.out.text(text)


class ReportFace:
    """The report of a CI system on stdout. The closing line goes to stderr, unless it is a part of the report."""

    def __init__(self, report: Report, chosen: Mapping[str, Any]) -> None:
        self.out, self._report = Output(), report
        self._notes = chosen["notes"]
        self._tells = not chosen["quiet"] and not isinstance(report, GithubReport)
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
        self.out.flush()

    def summary(self, summary: Summary, not_counted: NotCounted, status: int) -> None:
        """End the report."""
        closing = closing_line(summary, not_counted, notes_shown=self._notes, status=status)
        self._write(self._report.end(Ending(status, closing, summary, not_counted)))
        if self._tells:
            self.out.note(f"klogtool: {closing}")

    def _write(self, text: str) -> None:
        self.out.write(text.encode())
