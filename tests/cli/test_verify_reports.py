"""klogtool verify --format junit|sarif|github|gitlab: by the published schemas, and true."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
import xmlschema
from damage import flip_bit
from running import FIXTURES, KLOGTOOL, ROOT, Done, run_here
from verifying import NOW_MS

Path = pathlib.Path
NOW = f"--now={NOW_MS}"
SCHEMAS = pathlib.Path(__file__).with_name("data") / "schemas"
DAMAGED = FIXTURES / "killed-mid-append/logdir"
ODD = b"o\xff\"<&>%,:\x1b[2J\n'\xe2\x80\xae-0"  # a name of bytes that every format has to escape
FORMS = ("junit", "sarif", "github", "gitlab")


def verify(form: str, *args: str | os.PathLike[str], folder: Path = ROOT) -> Done:
    return run_here(["verify", NOW, "--format", form, *map(os.fspath, args)], folder)


@pytest.fixture
def checkout(copy_of: Callable[[str], Path]) -> Path:
    """A folder with two sound log dirs of the same topic, and one that is damaged."""
    folder = copy_of("leader-epochs/logdir")
    shutil.copytree(folder, folder.parent / "b")
    folder = folder.rename(folder.parent / "a")
    shutil.copytree(DAMAGED, folder.parent / "damaged")
    return folder.parent


@pytest.fixture
def odd(copy_of: Callable[[str], Path]) -> Path:
    """A log dir with a partition dir whose name is no text, and foreign files."""
    folder = copy_of("leader-epochs/logdir")
    (folder / "t-0").rename(os.fsdecode(os.path.join(os.fsencode(folder), ODD)))
    os.mkdir(os.fsencode(folder) + b"/" + ODD[:-2])
    return folder


def issues_by_json(*args: str | os.PathLike[str], folder: Path = ROOT) -> list[dict[str, Any]]:
    """The findings that are no notes."""
    rows = [json.loads(line) for line in verify("json", *args, folder=folder).out.splitlines()]
    return [row for row in rows if row["type"] == "finding" and row["severity"] != "info"]


# ---------------------------------------------------------------- each by its schema


def junit_of(done: Done) -> ET.Element:
    text = done.out.decode()
    xmlschema.XMLSchema10(str(SCHEMAS / "junit-10.xsd")).validate(ET.ElementTree(ET.fromstring(text)))
    return ET.fromstring(text)


def sarif_of(done: Done) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(done.out)
    schema = json.loads((SCHEMAS / "sarif-2.1.0-rtm.5.json").read_text())
    jsonschema.validators.validator_for(schema)(schema, format_checker=jsonschema.FormatChecker()).validate(log)
    (run,) = log["runs"]
    return dict(run)


def gitlab_of(done: Done) -> list[dict[str, Any]]:
    issues: list[dict[str, Any]] = json.loads(done.out)
    jsonschema.validate(issues, json.loads((SCHEMAS / "gitlab-code-quality.json").read_text()))
    return issues


COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


def github_of(done: Done) -> list[dict[str, str]]:
    """The annotations as a runner reads them: it splits properties at commas, and takes the escapes back."""
    found = []
    for line in done.out.decode().splitlines():
        if line.startswith("::"):
            command = COMMAND.fullmatch(line)
            assert command is not None, line
            pairs = (pair.split("=", 1) for pair in command[2].split(","))
            told = {name: unescaped(value) for name, value in pairs}
            found.append({"level": command[1], "message": unescaped(command[3]), **told})
    return found


def unescaped(text: str) -> str:
    for raw, written in ((",", "%2C"), (":", "%3A"), ("\n", "%0A"), ("\r", "%0D"), ("%", "%25")):
        text = text.replace(written, raw)
    return text


READ: dict[str, Callable[[Done], Any]] = {
    "junit": junit_of,
    "sarif": sarif_of,
    "github": github_of,
    "gitlab": gitlab_of,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", [(), ("--notes",), ("--subset", "1/3"), ("--exclude", "flip-*")], ids=str)
def test_a_report_is_as_its_schema_says(form: str, options: tuple[str, ...]) -> None:
    READ[form](verify(form, DAMAGED, *options))


@pytest.mark.parametrize("form", FORMS)
def test_names_that_are_no_text_are_escaped(form: str, odd: Path) -> None:
    done = verify(form, odd, "--notes", "--fail-on", "warning")
    assert READ[form](done)
    assert b"\x1b" not in done.out
    assert "\u202e".encode() not in done.out
    assert done.status == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_clean_run_is_a_report_and_exits_0(form: str, checkout: Path) -> None:
    done = verify(form, checkout / "a")
    READ[form](done)
    assert done.status == 0
    assert done.out


@pytest.mark.parametrize("form", FORMS)
def test_a_path_that_is_wrong_leaves_stdout_empty(form: str) -> None:
    done = verify(form, "no-such-path")
    assert (done.status, done.out) == (2, b"")


@pytest.mark.parametrize("form", ["junit", "sarif", "gitlab"])
def test_people_see_the_closing_line_on_stderr(form: str) -> None:
    done = verify(form, DAMAGED)
    assert done.told.endswith("Exit status 1.\n")
    assert verify(form, DAMAGED, "--quiet").told == ""


def test_each_finding_is_in_each_report() -> None:
    expected = sorted((row["id"], row["path"]) for row in issues_by_json("fixtures/killed-mid-append/logdir"))
    assert len(expected) > 5
    path = "fixtures/killed-mid-append/logdir"
    sarif = sarif_of(verify("sarif", path))["results"]
    assert sorted((one["ruleId"], sarif_path(one)) for one in sarif) == expected
    gitlab = gitlab_of(verify("gitlab", path))
    assert sorted((one["check_name"], one["location"]["path"]) for one in gitlab) == expected
    github = github_of(verify("github", path))
    assert sorted((one["title"].removeprefix("klogtool "), one["file"]) for one in github) == expected
    junit = "".join(ET.tostring(junit_of(verify("junit", path)), encoding="unicode"))
    assert all(f"{name} in {where}" in junit for name, where in expected)


def sarif_path(result: dict[str, Any]) -> str:
    location = result["locations"][0]["physicalLocation"]["artifactLocation"]
    return urllib.parse.unquote(location["uri"])


# ---------------------------------------------------------------- JUnit


def test_junit_has_a_testcase_for_each_partition(checkout: Path) -> None:
    suites = junit_of(verify("junit", "a", "damaged", folder=checkout))
    cases = {case.attrib["name"]: case for case in suites.iter("testcase")}
    partitions = {path.parent.name for path in checkout.glob("*/*/*.log")}
    assert partitions <= cases.keys()
    assert {suite.attrib["name"] for suite in suites} == {"a", "damaged"}
    assert cases["t-0"].find("failure") is None
    failure = cases["flip-bit-0"].find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "batch-crc"
    assert "klogtool salvage" in (failure.text or "")
    warned = cases["remove-timeindex-0"]
    assert warned.find("failure") is None
    assert "timeindex-missing" in (warned.findtext("system-out") or "")
    failed = [case for case in suites.iter("testcase") if case.find("failure") is not None]
    assert suites.attrib["failures"] == str(len(failed))
    assert suites.attrib["tests"] == str(len(list(suites.iter("testcase"))))


def test_a_warning_fails_a_testcase_where_it_is_asked_to(checkout: Path) -> None:
    suites = junit_of(verify("junit", "damaged", "--fail-on", "warning", folder=checkout))
    failed = {case.attrib["name"] for case in suites.iter("testcase") if case.find("failure") is not None}
    assert {"remove-timeindex-0", "zero-tail-0", "flip-bit-0"} <= failed


def test_what_was_not_read_is_skipped_and_said(checkout: Path) -> None:
    suites = junit_of(verify("junit", "damaged", "--exclude", "zero-*", "--subset", "1/2", folder=checkout))
    skipped = {case.attrib["name"]: case.find("skipped") for case in suites.iter("testcase")}
    told = {name: one.attrib["message"] for name, one in skipped.items() if one is not None}
    assert told["zero-tail-0"] == "not read: excluded"
    assert "not read: not in this subset (--subset)" in told.values()
    assert "NOT READ: " in str(ET.tostring(suites))


def test_files_of_the_log_dir_itself_have_a_testcase(checkout: Path) -> None:
    (checkout / "a/meta.properties").write_text("")
    suites = junit_of(verify("junit", "a", folder=checkout))
    (case,) = (case for case in suites.iter("testcase") if case.find("failure") is not None)
    assert case.attrib == {"classname": "a", "name": "(files of the log dir)"}


# ---------------------------------------------------------------- SARIF


def test_sarif_has_rules_bytes_and_offsets() -> None:
    run = sarif_of(verify("sarif", "fixtures/killed-mid-append/logdir"))
    rules = run["tool"]["driver"]["rules"]
    (wrong,) = (one for one in run["results"] if one["ruleId"] == "batch-crc")
    rule = rules[wrong["ruleIndex"]]
    assert rule["id"] == "batch-crc"
    assert "klogtool salvage" in rule["help"]["text"]
    (location,) = wrong["locations"]
    assert location["physicalLocation"]["region"] == {"startLine": 1, "byteOffset": 182, "byteLength": 74}
    assert location["logicalLocations"][0]["name"] == "flip-bit-0"
    assert location["logicalLocations"][0]["fullyQualifiedName"].endswith(".log@47..47")
    base = run["originalUriBaseIds"][location["physicalLocation"]["artifactLocation"]["uriBaseId"]]["uri"]
    assert urllib.parse.unquote(base) == f"file://{ROOT}/"
    assert run["invocations"][0]["exitCode"] == 1


def test_a_file_elsewhere_has_an_absolute_address(tmp_path: Path) -> None:
    (result, *_) = sarif_of(verify("sarif", DAMAGED, folder=tmp_path))["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact["uri"].startswith(f"file://{urllib.parse.quote(str(DAMAGED))}/")
    assert "uriBaseId" not in artifact


def test_the_bytes_of_a_name_are_in_its_address(odd: Path) -> None:
    results = sarif_of(verify("sarif", odd, "--notes"))["results"]
    addresses = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in results]
    assert any(ODD[:-2] in urllib.parse.unquote_to_bytes(address) for address in addresses)


# ---------------------------------------------------------------- GitHub


def test_github_levels_and_the_closing_line(checkout: Path) -> None:
    done = verify("github", "damaged", folder=checkout)
    assert {one["level"] for one in github_of(done)} == {"error", "warning"}
    assert done.out.decode().splitlines()[-1].endswith("Exit status 1.")
    noted = github_of(verify("github", "damaged", "--notes", folder=checkout))
    assert {one["level"] for one in noted} == {"error", "warning", "notice"}


def test_a_name_cannot_begin_a_command_of_its_own(odd: Path) -> None:
    os.mkdir(os.fsencode(odd) + b"/x\n::set-output name=a::b")
    lines = verify("github", odd, "--notes").out.decode().splitlines()
    assert not [line for line in lines if line.startswith("::set-output")]
    assert all(re.match(r"::(error|warning|notice) |\d", line) for line in lines)


# ---------------------------------------------------------------- GitLab, fingerprints


def fingerprints(*args: str, folder: Path) -> list[str]:
    return [one["fingerprint"] for one in gitlab_of(verify("gitlab", *args, folder=folder))]


def test_fingerprints_are_unique_and_do_not_depend_on_the_place_of_the_checkout(checkout: Path, tmp_path: Path) -> None:
    found = fingerprints("damaged", folder=checkout)
    assert len(set(found)) == len(found) > 5
    shutil.copytree(checkout / "damaged", tmp_path / "elsewhere/damaged")
    assert fingerprints("damaged", folder=tmp_path / "elsewhere") == found
    absolute = str(tmp_path / "elsewhere/damaged")
    assert fingerprints(absolute, folder=tmp_path / "elsewhere") == found
    sarif = sarif_of(verify("sarif", "damaged", folder=checkout))["results"]
    assert [one["partialFingerprints"]["klogtoolFinding/v1"] for one in sarif] == found


def test_a_new_finding_leaves_the_fingerprints_of_others(checkout: Path) -> None:
    once = fingerprints("damaged", folder=checkout)
    flip_bit(checkout / "damaged/torn-tail-0" / f"{0:020d}.log", 100)
    then = fingerprints("damaged", folder=checkout)
    assert set(once) < set(then)


def test_the_checkout_of_a_ci_job_is_the_root(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_PROJECT_DIR", str(checkout))
    paths = {one["location"]["path"] for one in gitlab_of(verify("gitlab", ".", folder=checkout / "damaged"))}
    assert all(path.startswith("damaged/") for path in paths)
    monkeypatch.setenv("CI_PROJECT_DIR", str(checkout / "a"))
    paths = {one["location"]["path"] for one in gitlab_of(verify("gitlab", ".", folder=checkout / "damaged"))}
    assert not any(path.startswith("damaged/") for path in paths)


# ---------------------------------------------------------------- ends that come early


@pytest.mark.parametrize("form", FORMS)
def test_an_interrupted_report_is_whole_and_says_so(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from klogtool.verify import verification

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verification, "verify_against_logs", interrupted)
    done = verify(form, DAMAGED)
    assert done.status == 130
    READ[form](done)
    assert b"Interrupted: the rest was not read." in done.out


@pytest.mark.parametrize("form", FORMS)
def test_a_reader_that_goes_away(form: str) -> None:
    script = '"$@" | head -c 1 >/dev/null; echo "${PIPESTATUS[0]}"'
    command = ["bash", "-c", script, "bash", *KLOGTOOL, "verify", str(DAMAGED), "--quiet", "--format", form]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
    assert done.stdout.strip() in (b"141", b"1")  # all of it may fit into the pipe


@pytest.mark.parametrize("words", [["--statistics"]], ids=str)
def test_what_has_no_report(words: list[str]) -> None:
    done = verify("sarif", DAMAGED, *words)
    assert (done.status, done.out) == (2, b"")


def test_what_has_no_partition_has_a_testcase_too(checkout: Path) -> None:
    (checkout / "empty").mkdir()
    shutil.copy(checkout / "a/meta.properties", checkout / "empty")
    suites = junit_of(verify("junit", "empty", "a/meta.properties", folder=checkout))
    assert sorted(case.attrib["name"] for case in suites.iter("testcase")) == [
        "(files of the log dir)",
        "meta.properties",
    ]
