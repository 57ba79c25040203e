"""klogtool verify."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import click
from msgspec.structs import replace

from klogtool.causes import from_text
from klogtool.cli import commands, options
from klogtool.cli.causes import CommandRefusal
from klogtool.cli.gentle_reading import begin_reading, gently
from klogtool.cli.output import note
from klogtool.cli.output_file import check_metrics_place, output_file, write_metrics
from klogtool.cli.question_options import question_options
from klogtool.cli.show import ReadingOptions
from klogtool.cli.status import COULD_NOT, DONE, FOUND
from klogtool.cli.verify_faces import CUT_SHORT, NOT_WRITTEN, Face, make_face
from klogtool.cli.verify_settings import VerifyQuestion, is_failed, merged, settings_of
from klogtool.disk.facts import check_rewritable
from klogtool.errors import KlogError, Refused
from klogtool.log.folder import list_folder
from klogtool.log.log_dirs import log_dirs_of_files
from klogtool.log.logdir import KINDS_IN_LOG_DIR, LogDir
from klogtool.log.opened import open_path
from klogtool.log.search import BelowPaths, search_below
from klogtool.render.metrics import verify_metrics
from klogtool.render.progress_bar import Bar, bar_over
from klogtool.render.words import count_text
from klogtool.verify.baseline import Baseline, baseline_lines, is_baseline_file
from klogtool.verify.findings import Finding, Kind, Severity
from klogtool.verify.fingerprints import FindingIdentity, identity_of
from klogtool.verify.verification import PartitionDone, Summary, VerifyOptions, verify
from klogtool.verify.weighing import Weighed, Weighing

FORMS = ("text", "json", "junit", "sarif", "github", "gitlab")
WITH_STATISTICS = ("text", "json")


@commands.command("verify")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@question_options(VerifyQuestion)
@options.reading(*FORMS, about="Output format: text, JSON Lines (--json), or a report for a CI system.")
@gently
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], question: VerifyQuestion, reading: ReadingOptions) -> int:
    """Find all damage under PATH: a file of a partition, a partition dir, or a log dir. Several log dirs are log dirs
    of one broker, unless --recursive finds them. Without PATH, the paths of the settings file are verified.

    verify reads on after damage, and never changes a log. `klogtool explain ID` says what a finding means, what a
    broker does about it, and what to do.

    \b
    Examples:
      klogtool verify /var/kafka-logs
      klogtool verify --deep --notes /var/kafka-logs/orders-0

    Exit status: 0 nothing is wrong; 1 an error was found (with --fail-on warning: an error or a warning); 2 wrong
    usage, no such path; 4 a PATH could not be read, or is not Kafka's, or the time (--max-duration) was up before
    damage was found.
    """
    if reading.form not in WITH_STATISTICS and question.statistics:
        raise click.UsageError(f"--format {reading.form} does not go with --statistics.", ctx)
    if question.write_baseline is not None and (question.is_partial or question.baseline is not None):
        other = "--baseline" if question.baseline is not None else "--subset and --max-duration"
        raise click.UsageError(f"--write-baseline does not go with {other}.", ctx)
    if question.isolated and question.settings is not None:
        raise click.UsageError("--isolated does not go with --settings.", ctx)
    settings = settings_of(question, quiet=reading.quiet)
    paths = paths if paths or question.changed_files else settings.paths
    if not paths and not question.changed_files:
        raise click.UsageError("Missing argument 'PATH...'.", ctx)
    return run_verify(paths, merged(question, settings), reading, settings.path)


def run_verify(
    paths: Sequence[str], question: VerifyQuestion, reading: ReadingOptions, settings_path: str | None
) -> int:
    """Verify the paths; returns the exit status. settings_path: the settings file, if there is one."""
    if question.write_baseline is not None:
        check_rewritable(question.write_baseline)
        if os.path.lexists(question.write_baseline) and not is_baseline_file(question.write_baseline):
            raise Refused(CommandRefusal.NOT_OF_BASELINE(), path=question.write_baseline)
        question = replace(question, baseline=None)
    check_metrics_place(question.metrics)
    baseline = None if question.baseline is None else Baseline.read(question.baseline)
    weighing = Weighing(question.severity, question.exclude, baseline)
    if not question.changed_files:
        below = _what_to_verify(paths, weighing, is_recursive=question.recursive)
    else:
        question = replace(question, recursive=True)
        below = search_below(log_dirs_of_files(paths), weighing.is_excluded)
        if not below.paths and not below.unreadable:
            note("klogtool: nothing to verify: none of these files is in a log dir, or all of those are excluded")
            return DONE
    begin_reading(below.paths, quiet=reading.quiet)
    if not reading.quiet:
        if below.links:
            note(f"klogtool: {count_text(below.links, 'link')} to folders not followed")
        for path in [] if question.recursive else below.paths:
            if doubt := _doubt(path):
                note(f"klogtool: {path}: {doubt}")
    with bar_over(below.paths, wanted=reading.wants_bar) as bar:
        run = _Run(below, weighing, bar, question, reading)
        return run.show(make_face(question, reading, paths, below.paths, settings_path, bar))


def _what_to_verify(paths: Sequence[str], weighing: Weighing, *, is_recursive: bool) -> BelowPaths:
    """Return the paths to verify. Raises KlogError if there are none."""
    if is_recursive:
        for path in paths:
            if not os.path.isdir(path):
                open_path(path)
        below = search_below(paths, weighing.is_excluded)
    else:
        kept = [path for path in paths if not weighing.is_excluded(path)]
        below = BelowPaths(kept, excluded=len(paths) - len(kept))
    if not below.paths and not below.unreadable:
        why = CommandRefusal.NONE_BELOW() if is_recursive else CommandRefusal.NOTHING_TO_VERIFY()
        raise KlogError(
            CommandRefusal.EXCLUDED(why=why, paths=below.excluded) if below.excluded else why, path=paths[0]
        )
    return below


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


class _Run:
    """One run: what is verified, and how it is shown."""

    def __init__(
        self,
        below: BelowPaths,
        weighing: Weighing,
        bar: Bar,
        question: VerifyQuestion,
        reading: ReadingOptions,
    ) -> None:
        """Raises KlogError, before anything is shown, if a path is not Kafka's."""
        self._below, self._weighing, self._bar = below, weighing, bar
        self._question, self._reading = question, reading
        self._face: Face
        self._began = time.monotonic()
        several = [[path] for path in below.paths] if question.recursive else [below.paths]
        self._first = verify(several[0] if below.paths else [], self._options(has_begun=False))
        self._others = several[1:]
        self._identities: list[FindingIdentity] = []
        self._counted = Counter[tuple[str, ...]]()
        new_baseline = question.write_baseline
        self._folder = "" if new_baseline is None else os.path.realpath(os.path.dirname(new_baseline) or os.curdir)

    def show(self, face: Face) -> int:
        """Verify and show everything; returns the exit status."""
        self._face = face
        total = Summary(excluded_paths=self._below.excluded)
        for item in self._ended_if_cut_short():
            if isinstance(item, Summary):
                total.add(item)
            else:
                self._show_finding(item)
        total.seconds = self._seconds()
        if self._question.write_baseline is not None:
            try:
                with output_file(self._question.write_baseline, replaces=True) as sink:
                    for line in baseline_lines(self._identities):
                        sink.write(line.encode())
            except KlogError:
                self._face.cut_short(NOT_WRITTEN)
                raise
        summary = self._weighing.finish(total, self._below.paths)
        status = _status_of(summary, self._question.fail_on)
        self._face.summary(summary, self._weighing.not_counted, status)
        self._face.close()
        metrics = verify_metrics(summary, self._counted)
        write_metrics(self._question.metrics, "verify", self._below.paths, total.seconds, status, metrics)
        return status

    def _show_finding(self, finding: Finding) -> None:
        weighed = self._weighing.weigh(finding)
        if weighed is None:
            return
        if self._question.write_baseline is not None and weighed.finding.severity is not Severity.INFO:
            self._identities.append(identity_of(weighed.finding, self._folder))
            weighed = Weighed(weighed.finding, is_known=True)
            self._weighing.take_as_known(weighed)
        if not weighed.is_known:
            self._counted[weighed.finding.id, weighed.finding.severity.value] += 1
        self._face.finding(weighed)

    def _ended_if_cut_short(self) -> Iterator[Finding | Summary]:
        """Yield all findings; if an interrupt or an error ends them, show what was found by then."""
        try:
            yield from (
                Finding(Kind.UNREADABLE, error.path or "", from_text(error.reason)) for error in self._below.unreadable
            )
            yield from self._first
            for paths in self._others:
                yield from verify(paths, self._options(has_begun=True))
        except (KlogError, OSError, KeyboardInterrupt):
            self._face.cut_short(CUT_SHORT)
            raise

    def _options(self, *, has_begun: bool) -> VerifyOptions:
        return VerifyOptions(
            self._question.circumstances,
            deep=self._question.deep,
            jobs=self._reading.threads,
            subset=self._question.subset,
            max_seconds=self._question.max_duration,
            has_begun=has_begun,
            is_excluded=self._weighing.is_excluded,
            seconds=self._seconds,
            on_progress=self._bar.advance,
            on_partition=self._partition,
        )

    def _partition(self, done: PartitionDone) -> None:
        self._bar.advance_partition()
        self._face.partition(done)

    def _seconds(self) -> float:
        return time.monotonic() - self._began


def _status_of(summary: Summary, fail_on: str) -> int:
    """Return 1 for damage, whatever was left out; 4 for what was left out without a request (a subset is a request)."""
    if is_failed(summary, fail_on):
        return FOUND
    return COULD_NOT if summary.was_time_up or summary.was_changed else DONE
