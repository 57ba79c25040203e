"""Workflow commands of GitHub Actions: `::error file=...,title=...::message`.

The rules of escaping are those of actions/toolkit (packages/core/src/command.ts, escapeData and escapeProperty).
"""

from __future__ import annotations

from klogtool.escape import escaped
from klogtool.render.ci.report import Ending, Report, message_text
from klogtool.verify.findings import Severity
from klogtool.verify.weighing import Weighed

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_DATA = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_PROPERTY = (*_DATA, (":", "%3A"), (",", "%2C"))


class GithubReport(Report):
    """An annotation for each finding that counts, and the closing line as text of the job's log."""

    def finding(self, weighed: Weighed) -> str:
        """Return the command of a finding."""
        finding = weighed.finding
        if not self._has(weighed):
            return ""
        properties = {"file": escaped(self._name(finding.path)), "title": f"klogtool {finding.id}"}
        return command_line(COMMANDS[finding.severity], properties, message_text(finding))

    def end(self, ending: Ending) -> str:
        """Return a notice for what was not read or did not count, and the closing line."""
        lines = []
        if ending.cut_short is not None:
            lines.append(command_line("error", {"title": "klogtool"}, escaped(ending.cut_short)))
        if ending.left_out is not None:
            lines.append(command_line("notice", {"title": "klogtool"}, escaped(ending.left_out)))
        return "".join([*lines, escaped(ending.closing), "\n"])


def command_line(command: str, properties: dict[str, str], message: str) -> str:
    """Return a workflow command, with its line end."""
    fields = ",".join(f"{name}={_replaced(value, _PROPERTY)}" for name, value in properties.items())
    return f"::{command} {fields}::{_replaced(message, _DATA)}\n"


def _replaced(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for raw, written in pairs:
        text = text.replace(raw, written)
    return text
