"""GitLab's Code Quality report: a JSON array with an object for each finding."""

from __future__ import annotations

from klogtool.escape import escaped
from klogtool.json_rows import row_line
from klogtool.render.ci.report import Ending, Report, message_text
from klogtool.verify.findings import Severity
from klogtool.verify.weighing import Weighed

SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "minor", Severity.INFO: "info"}


class GitlabReport(Report):
    """The findings that count. GitLab wants a line of each: files of a log have none, so it is always the first."""

    _between = "\n"

    def begin(self) -> str:
        """Return the bracket."""
        return "["

    def finding(self, weighed: Weighed) -> str:
        """Return the object of a finding."""
        finding, fingerprint = weighed.finding, self._fingerprint(weighed.finding)
        if not self._has(weighed):
            return ""
        row = {
            "description": f"{finding.id}: {message_text(finding)}",
            "check_name": finding.id,
            "fingerprint": fingerprint,
            "severity": SEVERITIES[finding.severity],
            "location": {"path": escaped(self._name(finding.path)), "lines": {"begin": 1}},
        }
        between, self._between = self._between, ",\n"
        return between + row_line(row)

    def end(self, ending: Ending) -> str:
        """Return the bracket; a run that was cut short is an issue of its own."""
        text = ""
        if ending.cut_short is not None:
            row = {
                "description": f"klogtool did not come to its end: {escaped(ending.cut_short)}",
                "check_name": "cut-short",
                "fingerprint": "0" * 64,
                "severity": "blocker",
                "location": {"path": ".", "lines": {"begin": 1}},
            }
            text = self._between + row_line(row)
        return f"{text}\n]\n"
