"""klogtool verify."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from klogtool.cli import options
from klogtool.cli.output import Output, note
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing_options import header, writing
from klogtool.log.cores import usable_cores
from klogtool.log.folder import list_folder
from klogtool.log.logdir import KINDS_IN_LOG_DIR, LogDir
from klogtool.log.opened import open_path
from klogtool.render.findings import FindingText, closing_line, finding_row, row_line, summary_row
from klogtool.render.progress_bar import Bar, total_size
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.findings import Finding, Severity
from klogtool.repair.verify import Summary, VerifyOptions, log_files, verify

if TYPE_CHECKING:
    from klogtool.repair.baseline import Baseline

ONLY_WITHOUT_RECOVER = ("deep", "notes", "fail_on", "baseline", "max_duration", "subset")
ONLY_WITH_RECOVER = ("mark_clean", "apply", "output", "plan_out", "journal")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
_SECONDS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600}
WIDTH_WITHOUT_TERMINAL = 110


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A callback: 90, 90s, 10m, 2h; in seconds."""
    if value is None:
        return None
    found = _DURATION.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"'{value}' is no duration: 90s, 10m, 2h.", ctx, param)
    return float(found[1]) * _SECONDS[found[2]]


def _subset(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int]:
    """A callback: N/T."""
    if value is None:
        return 1, 1
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", value)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"'{value}' is no part: N/T, N from 1 to T.", ctx, param)
    return int(found[1]), int(found[2])


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--deep", is_flag=True, help="Also decompress and parse every record.")
@click.option("--notes", is_flag=True, help="Show notes, too: what is normal, and worth knowing.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="From where on the exit status is 1.",
)
@click.option("--baseline", metavar="FILE", help="A former JSON output: what is in it does not count.")
@click.option("--max-duration", callback=_duration, metavar="TIME", help="Begin no segment after it: 90s, 10m, 2h.")
@click.option(
    "--subset", callback=_subset, metavar="N/T", help="Only the N-th of T parts of the partitions, by their order."
)
@click.option("--recover", is_flag=True, help="Tell what a broker's start would make of it; or do that.")
@click.option("--mark-clean", is_flag=True, help="With --recover: leave a log dir as after a clean stop.")
@writing
@options.jobs
@options.quiet
@options.no_progress
@options.circumstances
@options.debug
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], form: str, given: Circumstances, **chosen: Any) -> int:
    """Find every damage under PATH: files of a partition, partition dirs, log dirs (several: those of one broker).

    It goes on behind a damage, and never writes. docs/findings.md says of each finding what it means, what a broker
    does about it, and what to do.

    With --recover it does what a broker's start does to partition dirs and log dirs: cuts each log at its first
    damage, rebuilds indexes, finishes what was interrupted. It prints the plan and stops; with --apply or --output,
    carries it out. --mark-clean goes on, if every batch of every partition is sound, to checkpoints and clean marker.

    Exit status: 0 nothing wrong; 1 an error was found (--fail-on warning: or a warning), or --recover would lose
    records; 2 wrong usage, no such path; 3 refused, nothing written: a broker would not start on it either; 4 a PATH
    could not be read, or is nothing of Kafka's.
    """
    _check_options(ctx, chosen)
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


def _check_options(ctx: click.Context, chosen: Mapping[str, Any]) -> None:
    """Raises UsageError for options that do not go with --recover, and those that go only with it."""
    wrong, how = (ONLY_WITHOUT_RECOVER, "does not go") if chosen["recover"] else (ONLY_WITH_RECOVER, "goes")
    given = (name for name in wrong if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE)
    for name in given:
        raise click.UsageError(f"--{name.replace('_', '-')} {how} with --recover.", ctx)


def _baseline(path: str | None) -> Baseline | None:
    if path is None:
        return None
    from klogtool.repair.baseline import Baseline

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

    def __init__(self, bar: Bar, paths: tuple[str, ...], *, notes: bool, quiet: bool) -> None:
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
