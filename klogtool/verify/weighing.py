"""Which findings count: severities that a user set, exclusions, and a baseline of known findings.

Whatever does not count is counted here, so that no verdict hides it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.verify.baseline import Baseline, GoneEntry
from klogtool.verify.findings import Finding, Kind, Severity
from klogtool.verify.settings import Exclusion, SeverityRule
from klogtool.verify.verification import Summary


class Weighed(Struct, frozen=True):
    """A finding with its severity in this run. is_known: it is in the baseline, so it does not count."""

    finding: Finding
    is_known: bool = False


class NotCounted(Struct):
    """What did not count. ignored, changed: by the file or option that told so, and id. known: None without a baseline.
    gone: what is in the baseline, and was not found. excluded_by: what told which paths are not verified."""

    ignored: Counter[tuple[str, Kind]] = field(default_factory=Counter)
    changed: Counter[tuple[str, Kind]] = field(default_factory=Counter)
    known: int | None = None
    gone: tuple[GoneEntry, ...] = ()
    excluded_by: tuple[str, ...] = ()


class Weighing:
    """Weighs the findings of a run, one after another, and counts them by severity."""

    def __init__(
        self, rules: Sequence[SeverityRule], exclusions: Sequence[Exclusion], baseline: Baseline | None
    ) -> None:
        self._rules, self._exclusions, self._baseline = rules, exclusions, baseline
        self.summary = Summary()
        self.not_counted = NotCounted(known=None if baseline is None else 0)

    def is_excluded(self, path: str) -> bool:
        """Return whether a path is not to be verified."""
        return self._excluded_by(path) is not None

    def weigh(self, finding: Finding) -> Weighed | None:
        """Return the finding as it counts; None if it is left out."""
        severity, source = self._severity_of(finding)
        is_known = self._baseline is not None and self._baseline.knows(finding)
        if severity is None:
            self.not_counted.ignored[source, finding.id] += 1
            return None
        weighed = finding if source == "" else replace(finding, user_severity=severity)
        if weighed.severity is not finding.severity:
            self.not_counted.changed[source, finding.id] += 1
        if is_known:
            self.not_counted.known = (self.not_counted.known or 0) + 1
            return Weighed(weighed, is_known=True)
        self.summary.count(weighed)
        return Weighed(weighed)

    def take_as_known(self, weighed: Weighed) -> None:
        """Count a finding as known that was weighed as one that counts: a new baseline has it."""
        self.summary.count(weighed.finding, -1)
        self.not_counted.known = (self.not_counted.known or 0) + 1

    def finish(self, summary: Summary, paths: Sequence[str]) -> Summary:
        """Return what was read, with the findings that count; paths: what was verified, to know what is gone."""
        counted = self.summary
        summary.errors, summary.warnings, summary.infos = counted.errors, counted.warnings, counted.infos
        if self._baseline is not None and summary.is_whole_but_excluded:
            self.not_counted.gone = tuple(
                gone for gone in self._baseline.gone(paths) if not self.is_excluded(gone.path)
            )
        if not summary.complete:
            self.not_counted.excluded_by = tuple(dict.fromkeys(one.source for one in self._exclusions))
        return summary

    def _severity_of(self, finding: Finding) -> tuple[Severity | None, str]:
        """Return the severity, None if the finding is left out, and who told so; the last rule wins."""
        if (source := self._excluded_by(finding.path)) is not None:
            return None, source
        severity: Severity | None = finding.id.row.severity
        source = ""
        for rule in self._rules:
            is_about = finding.id in rule.severities and (rule.pattern is None or rule.pattern.matches(finding.path))
            if is_about:
                severity, source = rule.severities[finding.id], rule.source
        return severity, source or ""

    def _excluded_by(self, path: str) -> str | None:
        return next((one.source for one in self._exclusions if one.pattern.matches(path)), None)
