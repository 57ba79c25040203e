"""The work of verify, after its options are parsed: walks the paths, shows findings, returns the exit status."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klogtool.cli.in_use import note_if_in_use
from klogtool.cli.output import Output, note
from klogtool.cli.status import COULD_NOT, DONE, FOUND
from klogtool.cli.writing_options import header
from klogtool.errors import KlogError
from klogtool.json_rows import row_line
from klogtool.log.cores import usable_cores
from klogtool.log.folder import list_folder
from klogtool.log.logdir import KINDS_IN_LOG_DIR, LogDir
from klogtool.log.opened import open_path
from klogtool.log.under import count_partitions, log_files
from klogtool.render.findings import FindingText, closing_line, finding_row, left_out_line, summary_row
from klogtool.render.progress_bar import Bar, is_drawn, total_size
from klogtool.render.terminal import columns
from klogtool.render.worst_first import WorstFirst
from klogtool.verify.baseline import Baseline
from klogtool.verify.findings import Finding, Severity
from klogtool.verify.verification import Summary, VerifyOptions, verify

if TYPE_CHECKING:
    from klogtool.broker.circumstances import Circumstances
    from klogtool.verify.baseline import Baseline


def run_verify(paths: Sequence[str], form: str, circumstances: Circumstances, chosen: Mapping[str, Any]) -> int:
    """Verify the paths, or show what recovery makes of them; returns the exit status. chosen: the command's options."""
    if chosen["recover"]:
        from klogtool.cli.recover import recover  # in effect another command

        return recover(paths, form, circumstances, chosen)
    if not chosen["quiet"]:
        note_if_in_use(paths)
    baseline = _baseline(chosen["baseline"])
    for path in paths:
        if not chosen["quiet"] and (doubt := _doubt(path)):
            note(f"klogtool: {path}: {doubt}")
    with _bar(paths, chosen) as bar:
        began = time.monotonic()
        how = VerifyOptions(
            circumstances,
            deep=chosen["deep"],
            jobs=chosen["jobs"] or usable_cores(),
            subset=chosen["subset"],
            max_seconds=chosen["max_duration"],
            seconds=lambda: time.monotonic() - began,
            on_progress=bar.advance,
            on_partition=bar.advance_partition,
        )
        face = _Json(bar) if form == "json" else _Text(bar, paths, chosen)
        return _show(verify(paths, how), face, baseline, chosen["fail_on"])


def _bar(paths: Sequence[str], chosen: Mapping[str, Any]) -> Bar:
    if chosen["quiet"] or chosen["no_progress"] or not is_drawn():
        return Bar(0, wanted=False)
    return Bar(total_size(log_files(paths)), partitions=count_partitions(paths), wanted=True)


def _baseline(path: str | None) -> Baseline | None:
    if path is None:
        return None
    return Baseline.read(path)


def _doubt(path: str) -> str | None:
    """Return how a folder is treated whose contents do not show what it is."""
    if not os.path.isdir(path):
        return None
    kinds = {file.kind for file in list_folder(path).files}
    if kinds & KINDS_IN_LOG_DIR:
        return None
    if isinstance(open_path(path), LogDir):
        return "read as a log dir, because it contains partition dirs"
    return None if kinds else "read as a partition dir, because of its name"


def _show(found: Iterator[Finding | Summary], face: _Json | _Text, baseline: Baseline | None, fail_on: str) -> int:
    known: dict[Severity, int] = dict.fromkeys(Severity, 0)
    status = DONE
    for item in _told_if_cut_short(found, face):
        if isinstance(item, Finding):
            is_known = baseline is not None and baseline.knows(item)
            known[item.severity] += is_known
            face.finding(item, is_known=is_known)
            continue
        item.errors -= known[Severity.ERROR]
        item.warnings -= known[Severity.WARNING]
        item.infos -= known[Severity.INFO]
        status = _status_of(item, fail_on)
        face.summary(item, None if baseline is None else sum(known.values()), status)
    face.out.flush()
    return status


def _status_of(summary: Summary, fail_on: str) -> int:
    """Return 1 for damage, whatever was left out; 4 for what was left out without a request (a subset is a request)."""
    if summary.errors or (fail_on == "warning" and summary.warnings):
        return FOUND
    return COULD_NOT if summary.was_time_up else DONE


def _told_if_cut_short(found: Iterator[Finding | Summary], face: _Json | _Text) -> Iterator[Finding | Summary]:
    """Yield the same; if an interrupt or an error ends it, show what was found by then."""
    try:
        yield from found
    except (KlogError, OSError, KeyboardInterrupt):
        face.cut_short()
        raise


class _Json:
    """A line for each finding, known ones included, and one for the summary."""

    def __init__(self, bar: Bar) -> None:
        self.out, self._bar = Output(), bar
        self.out.line(row_line(header("verify") | _working_directory()))

    def finding(self, finding: Finding, *, is_known: bool) -> None:
        """Show a finding."""
        self.out.line(row_line(finding_row(finding, is_known=is_known)))

    def cut_short(self) -> None:
        """Do nothing: all findings have been written."""
        self.out.flush()

    def summary(self, summary: Summary, known: int | None, _: int) -> None:
        """Show the last line."""
        self.out.line(row_line(summary_row(summary, known)))


def _working_directory() -> dict[str, str]:
    """Return the folder to which paths in the output are relative; nothing if that folder is gone."""
    try:
        return {"cwd": os.getcwd()}
    except OSError:
        return {}


class _Text:
    """Blocks for the findings that count, and a closing line.

    The worst come first, so they are held back until all are known; with --verbose each is shown as it comes. What was
    left out is shown before all of them.
    """

    def __init__(self, bar: Bar, paths: Sequence[str], chosen: Mapping[str, Any]) -> None:
        self.out, self._bar, self._notes = Output(), bar, chosen["notes"]
        self._is_verbose, self._blocks = chosen["verbose"], list[str]()
        self._waits = chosen["max_duration"] is not None or chosen["subset"] != (1, 1)
        self._text, self._held = FindingText(list(paths), width=columns()), WorstFirst(paths)

    def finding(self, finding: Finding, *, is_known: bool) -> None:
        """Show a finding, unless it is known, or an info that nobody asked for."""
        if is_known or (finding.severity is Severity.INFO and not self._notes):
            return
        if not self._is_verbose:
            self._held.add(finding)
        elif self._waits:
            self._blocks.append(self._text.block(finding))
        else:
            with self._bar.aside():
                self._paragraph(self._text.block(finding))

    def cut_short(self) -> None:
        """Show what was found so far."""
        with self._bar.aside():
            self._show_held()
            self.out.line("Interrupted: the rest was not read.")
            self.out.flush()

    def summary(self, summary: Summary, known: int | None, status: int) -> None:
        """Show what was left out, the findings held back, and the closing line."""
        with self._bar.aside():
            if not summary.complete:
                self._paragraph(left_out_line(summary))
            self._show_held()
            self.out.line(closing_line(summary, known or 0, notes_shown=self._notes, status=status))
            self.out.flush()

    def _show_held(self) -> None:
        for paragraph in (*self._blocks, *self._held.walk(self._text)):
            self._paragraph(paragraph)

    def _paragraph(self, text: str) -> None:
        self.out.text(f"{text}\n")
        self.out.flush()
