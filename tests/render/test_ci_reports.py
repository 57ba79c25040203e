"""Reports for CI systems: written as findings come, or with a bound; fingerprints that stay as they are."""

from __future__ import annotations

import os
import pathlib

import pytest

from klogtool.causes import from_text
from klogtool.render.ci.github import GithubReport
from klogtool.render.ci.gitlab import GitlabReport
from klogtool.render.ci.junit import MOST_TOLD, JunitReport
from klogtool.render.ci.report import Ending, Report, checkout_folder
from klogtool.render.ci.sarif import SarifReport
from klogtool.verify.findings import Finding, Kind
from klogtool.verify.fingerprints import Fingerprints
from klogtool.verify.settings import PathPattern
from klogtool.verify.weighing import Weighed

FOLDER = "/r"
STREAMED = [
    GithubReport(FOLDER, notes=False),
    GitlabReport(FOLDER, notes=False),
    SarifReport(FOLDER, "1", notes=False, has_baseline=False),
]


@pytest.mark.parametrize("report", STREAMED, ids=lambda report: type(report).__name__)
def test_a_finding_is_written_when_it_comes(report: Report) -> None:
    report.begin()
    for at in range(3):
        assert f"byte {at}" in report.finding(
            Weighed(Finding(Kind.BATCH_CRC, "/r/t-0/0.log", from_text("wrong"), start=at))
        )


def test_junit_keeps_a_few_findings_of_each_testcase() -> None:
    report = JunitReport(FOLDER, ["/r/t-0"], notes=False, fail_on="error")
    for at in range(10 * MOST_TOLD):
        report.finding(Weighed(Finding(Kind.BATCH_CRC, "/r/t-0/0.log", from_text("wrong"), start=at)))
    text = report.end(Ending(1, ""))
    assert text.count("error: batch-crc") == MOST_TOLD
    assert f"and {9 * MOST_TOLD} more" in text
    assert f"{10 * MOST_TOLD} findings: batch-crc {10 * MOST_TOLD}" in text


# Other people's tools remember these: they do not change between releases.
@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (
            Finding(Kind.BATCH_CRC, "/r/a/t-0/0.log", from_text("x"), start=5, first_offset=1, last_offset=2),
            "fb1b6637ea73da74",
        ),
        (
            Finding(Kind.BATCH_CRC, "/r/a/t-0/0.log", from_text("y"), start=6, first_offset=1, last_offset=2),
            "fb1b6637ea73da74",
        ),
        (
            Finding(Kind.BATCH_CRC, "/r/a/t-0/0.log", from_text("x"), start=5, first_offset=1, last_offset=3),
            "ff11b429f712c81f",
        ),
        (
            Finding(Kind.CHECKPOINT_ENTRY, "/r/a/c", from_text("says 5"), first_offset=1, entry="t-0"),
            "67953026d89e8690",
        ),
    ],
)
def test_fingerprints_stay(finding: Finding, expected: str) -> None:
    assert Fingerprints("/r").of(finding)[:16] == expected


def test_lines_of_a_checkpoint_differ_by_their_partition() -> None:
    fingerprints = Fingerprints("/r")
    lines = [("t-0", "says 5"), ("t-1", "says 5"), ("t-1", "says 6")]
    found = [fingerprints.of(_line(entry, text)) for entry, text in lines]
    assert len(set(found)) == 3
    assert Fingerprints("/r").of(_line("t-1", "other words")) == found[1]


def _line(entry: str, text: str) -> Finding:
    return Finding(Kind.CHECKPOINT_ENTRY, "/r/c", from_text(text), first_offset=5, entry=entry)


def test_the_checkout_is_the_nearest_that_a_ci_system_names(tmp_path: pathlib.Path) -> None:
    inside = tmp_path / "project/below"
    inside.mkdir(parents=True)
    assert checkout_folder({}, str(inside)) == str(inside)
    assert checkout_folder({"GITHUB_WORKSPACE": str(tmp_path)}, str(inside)) == str(tmp_path)
    assert checkout_folder({"CI_PROJECT_DIR": str(tmp_path / "proj")}, str(inside)) == str(inside)
    assert checkout_folder({"CI_PROJECT_DIR": ""}, str(inside)) == str(inside)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/r/**/x", "/r/x", True),
        ("/r/**/x", "/r/a/b/x/y", True),
        ("/r/*/x", "/r/a/b/x", False),
        ("a/**", "/r/a/b", True),
        ("a/**", "/r/b/a", False),
        ("a", "/r/b/a/c", True),
        ("a", "/other/a", False),
        ("../s/a", "/s/a/b", True),
        ("[ab]?", "/r/bx", True),
        ("[", "/r/[", True),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert PathPattern(pattern, "/r").matches(path) is expected


def test_a_pattern_of_many_stars_takes_no_long(tmp_path: pathlib.Path) -> None:
    deep = os.path.join(tmp_path, *["a"] * 200)
    assert not PathPattern("/".join(["**", "a*a*"] * 100) + "/b", str(tmp_path)).matches(deep)
