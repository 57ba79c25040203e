"""SARIF 2.1.0 (OASIS): one run, with a rule for each id and a result for each finding.

Results are written as they come. What is known from the baseline is there too, with a suppression.
"""

from __future__ import annotations

import os
from urllib.parse import quote

from klogtool.escape import escaped
from klogtool.json_rows import row_line
from klogtool.render.ci.report import Ending, Report, message_text
from klogtool.render.explained import brief, explain
from klogtool.render.findings import meanings, not_counted_texts
from klogtool.verify.findings import Finding, Kind, Severity
from klogtool.verify.weighing import Weighed

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
ROOT = "%SRCROOT%"
FINGERPRINT = "klogtoolFinding/v1"
RULE_INDEXES = {kind: index for index, kind in enumerate(Kind)}


class SarifReport(Report):
    """All findings; notes only if asked for. version: klogtool's."""

    _between = "\n"

    def __init__(self, folder: str, version: str, *, notes: bool, has_baseline: bool) -> None:
        super().__init__(folder, notes=notes)
        self._version, self._has_baseline = version, has_baseline

    def begin(self) -> str:
        """Return everything up to the first result."""
        driver = {
            "name": "klogtool",
            "version": self._version,
            "rules": [_rule(kind) for kind in Kind],
        }
        bases = {ROOT: {"uri": f"file://{_uri(self._folder.rstrip('/'))}/"}}
        return (
            f'{{"$schema":"{SCHEMA}","version":"2.1.0","runs":[{{"tool":{row_line({"driver": driver})},'
            f'"originalUriBaseIds":{row_line(bases)},"columnKind":"utf16CodeUnits","results":['
        )

    def finding(self, weighed: Weighed) -> str:
        """Return the result of a finding."""
        fingerprint = self._fingerprint(weighed.finding)
        if weighed.finding.severity is Severity.INFO and not self._notes:
            return ""
        between, self._between = self._between, ",\n"
        return between + row_line(self._result(weighed, fingerprint))

    def _result(self, weighed: Weighed, fingerprint: str) -> dict[str, object]:
        finding = weighed.finding
        result: dict[str, object] = {
            "ruleId": finding.id,
            "ruleIndex": RULE_INDEXES[finding.id],
            "level": LEVELS[finding.severity],
            "message": {"text": message_text(finding)},
            "locations": [self._location(finding)],
            "partialFingerprints": {FINGERPRINT: fingerprint},
        }
        if self._has_baseline:
            result["baselineState"] = "unchanged" if weighed.is_known else "new"
        if weighed.is_known:
            result["suppressions"] = [{"kind": "external", "justification": "It is in the baseline."}]
        return result

    def _location(self, finding: Finding) -> dict[str, object]:
        name = self._name(finding.path)
        inside = not os.path.isabs(name)
        artifact = {"uri": _uri(name), "uriBaseId": ROOT} if inside else {"uri": f"file://{_uri(name)}"}
        physical = {"artifactLocation": artifact, "region": _region(finding)}
        return {"physicalLocation": physical, "logicalLocations": _logical(finding, name)}

    def end(self, ending: Ending) -> str:
        """Return the end of the results, and how the run ended."""
        invocation: dict[str, object] = {
            "executionSuccessful": ending.cut_short is None,
            "exitCode": ending.status,
            "exitCodeDescription": escaped(ending.closing),
        }
        if notices := [{"level": level, "message": {"text": escaped(text)}} for level, text in _notices(ending)]:
            invocation["toolExecutionNotifications"] = notices
        return f'\n],"invocations":[{row_line(invocation)}]}}]}}\n'


def _notices(ending: Ending) -> list[tuple[str, str]]:
    """Return what was not read and what did not count."""
    notices = [] if ending.cut_short is None else [("error", ending.cut_short)]
    if ending.left_out is not None:
        notices.append(("warning", ending.left_out))
    if ending.not_counted is not None:
        notices += [("note", f"{text}.") for text in not_counted_texts(ending.not_counted)]
    return notices


def _rule(kind: Kind) -> dict[str, object]:
    explanation = explain(kind)
    return {
        "id": kind,
        "name": "".join(word.capitalize() for word in kind.split("-")),
        "shortDescription": {"text": brief(kind)},
        "fullDescription": {"text": meanings()[kind].meaning},
        "help": {"text": f"{explanation.text}\n\nklogtool explain {kind} shows this text."},
        "defaultConfiguration": {"level": LEVELS[kind.row.severity]},
    }


def _region(finding: Finding) -> dict[str, int]:
    """Return the bytes; and a line, without which GitHub does not take a result."""
    region = {"startLine": 1}
    if finding.start is not None:
        region["byteOffset"] = finding.start
    if finding.start is not None and finding.end is not None:
        region["byteLength"] = finding.end - finding.start
    return region


def _logical(finding: Finding, name: str) -> list[dict[str, object]]:
    """Return the folder, which is a partition or a log dir, and the offsets as a part of it."""
    folder = escaped(os.path.basename(os.path.dirname(name)) or name)
    first, last = finding.first_offset, finding.last_offset
    full = escaped(name)
    if first is not None or last is not None:
        full += f"@{first if first is not None else last}..{last if last is not None else first}"
    return [{"name": folder, "fullyQualifiedName": full, "kind": "partition"}]


def _uri(path: str) -> str:
    return quote(os.fsencode(path), safe="/")
