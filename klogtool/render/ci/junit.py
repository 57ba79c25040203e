"""JUnit XML: a testsuite for each log dir, a testcase for each partition. A sound partition is a test that passed.

The number of tests stands before the tests, so the report is kept until its end; of each testcase only a few findings
are kept in full.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from klogtool.escape import escaped
from klogtool.render.ci.report import Ending, Report, message_text, one_line_of
from klogtool.render.findings import not_counted_texts
from klogtool.render.words import count_text
from klogtool.verify.findings import Severity
from klogtool.verify.verification import PartitionDone, WhyLeftOut
from klogtool.verify.weighing import Weighed

MOST_TOLD = 50  # findings of a testcase in full
OWN_FILES = "(files of the log dir)"
_WHY = {
    WhyLeftOut.SUBSET: "not in this subset (--subset)",
    WhyLeftOut.TIME: "time was up (--max-duration)",
    WhyLeftOut.EXCLUDED: "excluded",
}


class _Case(Struct):
    """A testcase. failures: what fails it; others: what does not."""

    name: str
    skipped: str | None = None
    failures: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    more: int = 0

    def add(self, text: str, finding_id: str, *, fails: bool) -> None:
        """Add a finding."""
        self.failed[finding_id] += fails
        kept = self.failures if fails else self.others
        if len(kept) < MOST_TOLD:
            kept.append(text)
        else:
            self.more += 1


class JunitReport(Report):
    """Collects testcases. paths: what is verified. fail_on: the lowest severity that fails one."""

    def __init__(self, folder: str, paths: Sequence[str], *, notes: bool, fail_on: str) -> None:
        super().__init__(folder, notes=notes)
        self._paths = dict.fromkeys(paths)
        self._fails = {Severity.ERROR} if fail_on == Severity.ERROR.value else {Severity.ERROR, Severity.WARNING}
        self._suites: dict[str, dict[str, _Case]] = {}

    def partition(self, done: PartitionDone) -> str:
        """Keep the testcase of a partition."""
        suite = done.log_dir if done.log_dir is not None else os.path.dirname(done.path)
        if done.log_dir is not None:
            self._case(suite, suite)
        case = self._case(suite, done.path)
        case.skipped = None if done.why_left_out is None else f"not read: {_WHY[done.why_left_out]}"
        return ""

    def finding(self, weighed: Weighed) -> str:
        """Keep a finding with its testcase."""
        finding = weighed.finding
        if finding.severity is Severity.INFO and not self._notes and not weighed.is_known:
            return ""
        suite, case = self._place_of(finding.path)
        level = "known, not counted" if weighed.is_known else finding.severity.value
        text = f"{level}: {finding.id} in {escaped(self._name(finding.path))}: {message_text(finding)}"
        fails = finding.severity in self._fails and not weighed.is_known
        self._case(suite, case).add(text, finding.id, fails=fails)
        return ""

    def _case(self, suite: str, path: str) -> _Case:
        name = OWN_FILES if path == suite else os.path.basename(path)
        return self._suites.setdefault(suite, {}).setdefault(path, _Case(name))

    def _place_of(self, path: str) -> tuple[str, str]:
        """Return the log dir and the partition dir of a file, as far as they were verified."""
        inner = path
        while True:
            above = os.path.dirname(inner)
            if inner in self._suites.get(above, {}):
                return above, inner
            if inner in self._suites or inner in self._paths:
                return inner, inner
            if above in ("", inner):
                folder = os.path.dirname(path)
                return folder, folder
            inner = above

    def end(self, ending: Ending) -> str:
        """Return the whole report."""
        known = {path for suite, cases in self._suites.items() for path in (suite, *cases)}
        for path in [path for path in self._paths if path not in known]:
            self._case(path if os.path.isdir(path) else os.path.dirname(path), path)
        if ending.cut_short is not None:
            self._suites["klogtool"] = {"klogtool": _Case("verify")}
        suites = "".join(self._suite_text(name, cases, ending) for name, cases in self._suites.items())
        cases = [case for cases in self._suites.values() for case in cases.values()]
        failures = sum(bool(case.failed.total()) for case in cases)
        errors = int(ending.cut_short is not None)
        head = f'<testsuites name="klogtool verify" tests="{len(cases)}" failures="{failures}" errors="{errors}">'
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n{suites}</testsuites>\n'

    def _suite_text(self, path: str, cases: dict[str, _Case], ending: Ending) -> str:
        name = escaped(self._name(path) if path != "klogtool" else path)
        failures = sum(bool(case.failed.total()) for case in cases.values())
        skipped = sum(case.skipped is not None for case in cases.values())
        is_cut = path == "klogtool" and ending.cut_short is not None
        head = f'<testsuite name={_quoted(name)} tests={_quoted(str(len(cases)))} failures="{failures}"'
        head += f' errors="{int(is_cut)}" skipped="{skipped}">'
        text = one_line_of(list(_told(ending))) if path == next(iter(self._suites)) else ""
        properties = f'<properties><property name="klogtool" value={_quoted(text)}/></properties>\n' if text else ""
        body = "".join(self._case_text(name, case, ending.cut_short if is_cut else None) for case in cases.values())
        return f"{head}\n{properties}{body}</testsuite>\n"

    def _case_text(self, suite: str, case: _Case, cut_short: str | None) -> str:
        inside = "".join(_inside(case, cut_short))
        head = f"<testcase classname={_quoted(suite)} name={_quoted(escaped(case.name))}"
        return f"{head}>{inside}</testcase>\n" if inside else f"{head}/>\n"


def _inside(case: _Case, cut_short: str | None) -> Iterator[str]:
    more = [f"and {case.more:,} more"] if case.more else []
    if cut_short is not None:
        yield f'<error type="cut-short" message={_quoted(escaped(cut_short))}/>'
    if case.skipped is not None:
        yield f"<skipped message={_quoted(case.skipped)}/>"
    if case.failed.total():
        ids = {finding_id: count for finding_id, count in case.failed.items() if count}
        counts = f"{count_text(case.failed.total(), 'finding')}: " + ", ".join(f"{one} {ids[one]:,}" for one in ids)
        body = _as_text(_lines([*case.failures, *more]))
        yield f"<failure type={_quoted(next(iter(ids)))} message={_quoted(counts)}>{body}</failure>"
    if case.others:
        yield f"<system-out>{_as_text(_lines([*case.others, *more]))}</system-out>"


def _as_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _quoted(text: str) -> str:
    """Return an attribute's value in quotes. (xml.sax.saxutils has the same, and imports the whole of HTTP.)"""
    return '"' + _as_text(text).replace('"', "&quot;") + '"'


def _lines(lines: list[str]) -> str:
    return "".join(f"\n{line}" for line in lines) + "\n"


def _told(ending: Ending) -> Iterator[str]:
    """Yield what was not read and what did not count."""
    if ending.left_out is not None:
        yield ending.left_out.rstrip(".")
    if ending.not_counted is not None:
        yield from not_counted_texts(ending.not_counted)
