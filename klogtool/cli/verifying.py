"""What verify does, once its words are understood. Knows nothing of click: see cli/plain.py."""

from __future__ import annotations

import os
import sys
import time

from klogtool.cli.output import Output, note
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing_options import header
from klogtool.log.cores import usable_cores
from klogtool.log.folder import list_folder
from klogtool.log.logdir import KINDS_IN_LOG_DIR, LogDir
from klogtool.log.opened import open_path
from klogtool.render.findings import FindingText, closing_line, finding_row, row_line, summary_row
from klogtool.render.progress_bar import Bar, total_size
from klogtool.repair.findings import Finding, Severity
from klogtool.repair.verify import Summary, VerifyOptions, log_files, verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from klogtool.repair.circumstances import Circumstances
    from klogtool.repair.verifying.baseline import Baseline

WIDTH_WITHOUT_TERMINAL = 110


def run_verify(paths: Sequence[str], form: str, given: Circumstances, chosen: Mapping[str, Any]) -> int:
    """Verify the paths, or tell what recovery makes of them; returns the exit status. chosen: the command's options."""
    if chosen["recover"]:
        from klogtool.cli.recover import recover

        return recover(paths, form, given, chosen)
    baseline = _baseline(chosen["baseline"])
    for path in paths:
        if not chosen["quiet"] and (doubt := _doubt(path)):
            note(f"klogtool: {path}: {doubt}")
    wanted = not (chosen["quiet"] or chosen["no_progress"])
    with Bar(total_size(log_files(paths)) if wanted else 0, wanted=wanted) as bar:
        began = time.monotonic()
        how = VerifyOptions(
            given,
            deep=chosen["deep"],
            jobs=chosen["jobs"] or usable_cores(),
            subset=chosen["subset"],
            max_seconds=chosen["max_duration"],
            seconds=lambda: time.monotonic() - began,
            on_progress=bar.advance,
        )
        face = _Json(bar) if form == "json" else _Text(bar, paths, notes=chosen["notes"], quiet=chosen["quiet"])
        return _show(verify(paths, how), face, baseline, chosen["fail_on"])


def _baseline(path: str | None) -> Baseline | None:
    if path is None:
        return None
    from klogtool.repair.verifying.baseline import Baseline

    return Baseline.read(path)


def _doubt(path: str) -> str | None:
    """How a folder is read that does not say itself what it is."""
    if not os.path.isdir(path):
        return None
    kinds = {file.kind for file in list_folder(path).files}
    if kinds & KINDS_IN_LOG_DIR:
        return None
    if isinstance(open_path(path), LogDir):
        return "read as a log dir, since partition dirs are in it"
    return None if kinds else "read as a partition dir, by its name"


def _show(found: Iterator[Finding | Summary], face: _Json | _Text, baseline: Baseline | None, fail_on: str) -> int:
    known: dict[Severity, int] = dict.fromkeys(Severity, 0)
    status = DONE
    for item in found:
        if isinstance(item, Finding):
            is_known = baseline is not None and baseline.knows(item)
            known[item.severity] += is_known
            face.finding(item, is_known=is_known)
            continue
        item.errors -= known[Severity.ERROR]
        item.warnings -= known[Severity.WARNING]
        item.infos -= known[Severity.INFO]
        status = FOUND if item.errors or (fail_on == "warning" and item.warnings) else DONE
        face.summary(item, None if baseline is None else sum(known.values()), status)
    face.out.flush()
    return status


class _Json:
    """A line for each finding, those of the baseline included, and one for the summary."""

    def __init__(self, bar: Bar) -> None:
        self.out, self._bar = Output(), bar
        self.out.line(row_line(header("verify")))

    def finding(self, finding: Finding, *, is_known: bool) -> None:
        """One finding."""
        self.out.line(row_line(finding_row(finding, is_known=is_known)))

    def summary(self, summary: Summary, known: int | None, _: int) -> None:
        """The last line."""
        self.out.line(row_line(summary_row(summary, known)))


class _Text:
    """A block for each finding that counts, and a closing line."""

    def __init__(self, bar: Bar, paths: Sequence[str], *, notes: bool, quiet: bool) -> None:
        self.out, self._bar, self._notes, self._quiet = Output(), bar, notes, quiet
        is_terminal = sys.stdout.isatty()
        colour = is_terminal and not os.environ.get("NO_COLOR")
        self._text = FindingText(list(paths), width=_columns(is_terminal=is_terminal), colour=colour)

    def finding(self, finding: Finding, *, is_known: bool) -> None:
        """One finding, unless it is known, or a note that nobody asked for."""
        if not is_known and (self._notes or finding.severity is not Severity.INFO):
            with self._bar.aside():
                self.out.line(self._text.block(finding))
                self.out.line("")
                self.out.flush()

    def summary(self, summary: Summary, known: int | None, status: int) -> None:
        """The closing line."""
        with self._bar.aside():
            self.out.line(closing_line(summary, known or 0, notes_shown=self._notes, status=status))
            self.out.flush()


def _columns(*, is_terminal: bool) -> int:
    """How wide text may be: as COLUMNS or the terminal says."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return os.get_terminal_size(sys.stdout.fileno()).columns if is_terminal else WIDTH_WITHOUT_TERMINAL
