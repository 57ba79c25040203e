"""assert_log_clean: nothing is wrong with a log."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Literal, Unpack

from klogtool.errors import KlogError
from klogtool.objects import circumstances_of
from klogtool.render.findings import FindingText
from klogtool.render.words import count_text
from klogtool.testing.known import KnownArguments
from klogtool.verify.findings import KINDS, Finding, Severity
from klogtool.verify.verification import VerifyOptions, verify

COLUMNS = 76  # pytest writes four more in front of each line
MOST_SHOWN = 20


def assert_log_clean(
    *paths: str | os.PathLike[str],
    fail_on: Literal["error", "warning", "info"] = "warning",
    ignore: Collection[str] = (),
    deep: bool = True,
    **known: Unpack[KnownArguments],
) -> None:
    """Assert that `klogtool verify` finds nothing in a file, partition dir or log dir.

    paths: several log dirs are those of one broker. fail_on: the lowest severity that counts. ignore: ids of findings
    that do not count. deep: also decompress and parse every record. known: what a broker would know.
    Raises AssertionError with the findings as text; KlogError for a path that is not Kafka's, and for an unknown id.
    """
    __tracebackhide__ = True
    findings = _verify([os.fspath(path) for path in paths], _counted(fail_on), deep, known)
    unknown = sorted(set(ignore) - set(KINDS))
    if unknown:
        raise KlogError(f"there is no finding '{unknown[0]}': `klogtool explain` lists all")
    counted = [finding for finding in findings if finding.id not in ignore]
    if counted:
        raise AssertionError(_text_of([os.fspath(path) for path in paths], counted))


def _verify(paths: list[str], severities: Collection[Severity], deep: bool, known: KnownArguments) -> list[Finding]:
    if not paths:
        raise KlogError("no path is given")
    options = VerifyOptions(circumstances_of(known), deep=deep)
    findings = (each for each in verify(paths, options) if isinstance(each, Finding))
    return [finding for finding in findings if finding.severity in severities]


def _counted(fail_on: str) -> list[Severity]:
    """Return the severities from this one on."""
    severities = list(Severity)
    try:
        return severities[: severities.index(Severity(fail_on)) + 1]
    except ValueError:
        raise KlogError(f"fail_on is error, warning or info, not '{fail_on}'") from None


def _text_of(paths: list[str], findings: list[Finding]) -> str:
    text = FindingText(paths, width=COLUMNS)
    head = f"{count_text(len(findings), 'finding')} in {', '.join(paths)}"
    left = len(findings) - MOST_SHOWN
    more = [f"... and {count_text(left, 'more finding')}"] if left > 0 else []
    return "\n\n".join([head, *(text.block(finding) for finding in findings[:MOST_SHOWN]), *more])
