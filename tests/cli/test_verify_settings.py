"""klogtool verify with a settings file, --recursive, a baseline file, --statistics: what does not count is told."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from damage import flip_bit
from running import FIXTURES, Done, run_apart, run_here, without_power_over_files
from verifying import NOW_MS

Path = pathlib.Path
NOW = f"--now={NOW_MS}"


@pytest.fixture
def project(copy_of: Callable[[str], Path]) -> Path:
    """A repository with two sound log dirs of the same topic, and one that is damaged."""
    sound = copy_of("leader-epochs/logdir")
    folder = sound.parent / "project"
    (folder / ".git").mkdir(parents=True)
    shutil.copytree(sound, folder / "logs/a")
    shutil.copytree(sound, folder / "logs/deep/er/b")
    shutil.copytree(FIXTURES / "killed-mid-append/logdir", folder / "damaged")
    return folder


def verify(folder: Path, *args: str) -> Done:
    return run_here(["verify", NOW, *args], folder)


def rows(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def issues(done: Done) -> list[tuple[str, str]]:
    """(id, path) of each finding that counts and is no note."""
    found = (row for row in rows(done) if row["type"] == "finding")
    return [(row["id"], row["path"]) for row in found if row["severity"] != "info" and not row.get("known")]


def closing(done: Done) -> str:
    return done.out.decode().splitlines()[-1]


# ---------------------------------------------------------------- --recursive


def test_every_log_dir_below_is_verified_by_itself(project: Path) -> None:
    done = verify(project, ".", "--recursive", "--format", "json")
    whole = rows(done)[-1]
    assert done.status == 1
    assert whole["partitions"] == 2 + rows(verify(project, "damaged", "--format", "json"))[-1]["partitions"]
    assert "duplicate-partition" not in {name for name, _ in issues(done)}
    assert issues(done) == [
        (name, f"./{path}") for name, path in issues(verify(project, "damaged", "--format", "json"))
    ]


def test_a_folder_of_partition_dirs_and_others_is_searched(project: Path) -> None:
    (project / "mixed/other").mkdir(parents=True)
    shutil.copytree(project / "damaged/flip-bit-0", project / "mixed/flip-bit-0")
    shutil.copytree(project / "logs/a", project / "mixed/other/a")
    found = issues(verify(project, "mixed", "--recursive", "--format", "json"))
    assert [name for name, _ in found] == ["batch-crc"]


def test_links_are_not_followed_and_journals_not_searched(project: Path) -> None:
    (project / "logs/loop").symlink_to(project)
    (project / "logs/again").symlink_to("a")
    shutil.copytree(project / "damaged", project / "logs/a.klogtool/kept")
    done = verify(project, "logs", "logs/a", "--recursive")
    assert done.status == 0
    assert "78 records in 16 batches" not in closing(done), "two log dirs, each once"
    assert "156 records in 32 batches" in closing(done)
    assert "2 links to folders not followed" in done.told


def test_a_path_that_is_too_long_is_a_finding(project: Path) -> None:
    here = os.open(project / "logs", os.O_RDONLY)
    for _ in range(30):  # 30 names of 200 characters are more than PATH_MAX
        os.mkdir("x" * 200, dir_fd=here)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    done = verify(project, "logs", "--recursive", "--format", "json")
    assert [name for name, _ in issues(done)] == ["unreadable"]
    assert rows(done)[-1]["batches"] == 32


def test_a_path_that_is_a_link_is_searched(project: Path) -> None:
    (project / "linked").symlink_to("logs")
    assert "156 records" in closing(verify(project, "linked", "--recursive"))


@pytest.mark.parametrize("kind", ["partition dir", "segment"])
def test_other_kinds_of_path_stay_as_they_are(project: Path, kind: str) -> None:
    path = "damaged/flip-bit-0" if kind == "partition dir" else f"damaged/flip-bit-0/{45:020d}.log"
    assert [name for name, _ in issues(verify(project, path, "--recursive", "--format", "json"))] == ["batch-crc"]


@pytest.mark.parametrize("path", ["empty", "no-such-path"])
def test_nothing_found_is_wrong_usage(project: Path, path: str) -> None:
    (project / "empty/below").mkdir(parents=True)
    done = verify(project, path, "--recursive")
    assert (done.status, done.out) == (2, b"")
    assert done.err.startswith(f"klogtool: {path}: ")


def test_a_folder_that_cannot_be_listed_is_a_finding(project: Path) -> None:
    closed = project / "logs/deep"
    closed.chmod(0)
    try:
        done = run_apart(
            "verify", NOW, str(project / "logs"), "--recursive", "--format", "json", before=without_power_over_files
        )
    finally:
        closed.chmod(0o700)
    assert done.status == 1
    assert issues(done) == [("unreadable", str(closed))]


def test_time_that_is_up_leaves_out_the_other_log_dirs(project: Path) -> None:
    done = verify(project, "logs", "--recursive", "--max-duration", "0s", "--jobs", "1", "--format", "json")
    last = rows(done)[-1]
    assert done.status == 4
    assert last["left_out"]["partitions"] == 1
    assert last["batches"] > 0


# ---------------------------------------------------------------- settings


def settings(project: Path, text: str, name: str = "klogtool.toml") -> None:
    (project / name).write_text(text)


def test_a_settings_file_is_found_from_below(project: Path) -> None:
    settings(project, 'paths = ["logs", "damaged"]\nrecursive = true\nfail-on = "warning"\ndeep = true\n')
    here, below = verify(project), verify(project / "logs/deep")
    assert (here.status, below.status) == (1, 1)
    assert closing(here) == closing(below)
    assert here.told == "klogtool: settings of klogtool.toml\n"
    assert below.told == "klogtool: settings of ../../klogtool.toml\n"
    assert verify(project, "--quiet").told == ""


def test_a_table_of_pyproject_is_the_same(project: Path) -> None:
    settings(
        project, '[tool.klogtool]\npaths = ["damaged"]\n[tool.klogtool.severity]\nbatch-crc = "ignore"\n', "x.toml"
    )
    (project / "x.toml").rename(project / "pyproject.toml")
    assert "1 finding left out by pyproject.toml (batch-crc 1)" in closing(verify(project))
    settings(project, 'paths = ["logs/a"]\n')
    assert verify(project).told == "klogtool: settings of klogtool.toml\n"


def test_the_search_ends_at_the_root_of_the_repository(project: Path) -> None:
    settings(project.parent, 'paths = ["project"]\n')
    assert verify(project).status == 2
    (project / ".git").rmdir()
    assert verify(project).told.startswith("klogtool: settings of ../klogtool.toml\n")


@pytest.mark.parametrize("text", ["[tool.other]\nx = 1\n", "not toml at all = = =\n", "[tool.ruff]\n# klogtool\n"])
def test_a_pyproject_of_others_does_not_count(project: Path, text: str) -> None:
    settings(project, text, "pyproject.toml")
    assert verify(project, "logs/a").told == ""


def test_settings_by_name_and_no_settings(project: Path) -> None:
    settings(project, 'paths = ["damaged"]\n')
    settings(project, 'paths = ["../logs/a"]\n', "damaged/other.toml")
    assert verify(project, "--settings", "damaged/other.toml").status == 0
    assert verify(project).status == 1
    assert verify(project, "--isolated").status == 2
    assert verify(project, "--isolated", "--settings", "klogtool.toml").status == 2


def test_the_command_line_wins(project: Path) -> None:
    settings(project, 'paths = ["damaged"]\nfail-on = "warning"\nkafka = "3.9"\n[severity]\nbatch-crc = "ignore"\n')
    assert verify(project, "logs/a").status == 0
    assert verify(project, "damaged/zero-tail-0").status == 1
    assert verify(project, "damaged/zero-tail-0", "--fail-on", "error").status == 0
    assert verify(project, "damaged/flip-bit-0").status == 0
    assert verify(project, "damaged/flip-bit-0", "--severity", "batch-crc=error").status == 1


def test_severities_by_path_and_the_last_rule_wins(project: Path) -> None:
    settings(
        project,
        '[severity]\nbatch-crc = "warning"\n[per-path-severity."damaged/flip-*"]\nbatch-crc = "info"\n',
    )
    done = verify(project, "damaged", "--format", "json")
    (crc,) = (row for row in rows(done) if row.get("id") == "batch-crc")
    assert crc["severity"] == "info"
    assert rows(done)[-1]["changed"] == [{"id": "batch-crc", "by": "klogtool.toml", "count": 1}]
    assert rows(done)[0]["settings"] == "klogtool.toml"


def test_what_something_explains_stays_a_note(project: Path) -> None:
    done = verify(FIXTURES.parent, "fixtures", "--recursive", "--severity", "segment-gap=error")
    assert "segment-gap" not in done.out.decode()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("exlude = []", "exlude: unknown key; did you mean exclude?"),
        ("paths = 3", "paths: a number is not a list"),
        ("paths = [3]", "paths[0]: a number is not a text"),
        ('paths = [""]', "paths: '' is not a path"),
        ('paths = ["a\\u0000b"]', "is not a path"),
        ("deep = 1", "deep: a number is not true or false"),
        ('exclude = ["/"]', "exclude: '/' is not a pattern of paths"),
        ("exclude = [" + "'a'," * 1001 + "]", "exclude: 1,001 items are too many (limit: 1,000)"),
        ('fail-on = "info"', "fail-on: 'info' is neither error nor warning"),
        ('kafka = "9.9"', "kafka: '9.9' is not a release that klogtool knows"),
        ("kafka = 4.3", "kafka: a number is not a text"),
        ("severity = []", "severity: a list is not a table"),
        ('[severity]\nbatch-crcs = "info"', "severity: no finding has the id 'batch-crcs'; did you mean batch-crc"),
        ('[severity]\nbatch-crc = "eror"', "severity.batch-crc: 'eror' is none of error, warning, info, ignore"),
        ("[severity]\nbatch-crc = 1", "severity.batch-crc: a number is not a text"),
        ('[per-path-severity."a"]\nbatch-crc = "x"', "per-path-severity.a.batch-crc: 'x' is none of"),
        ("x = = 1", "it is not TOML: Invalid value (at line 1"),
        ("a = " + "[" * 100_000, "it is not TOML"),
        ("a = " + "9" * 100_000, "it is not TOML"),
        ("a" + ".a" * 2_000 + " = 1", "line 1 has more than 1,000 dots"),
        ("baseline = true", "baseline: true or false is not a text"),
        ("paths = 2026-11-23", "paths: this is not a list"),
    ],
)
def test_wrong_settings_are_named_in_one_line(project: Path, text: str, told: str) -> None:
    settings(project, text)
    done = verify(project, "logs/a", "--quiet")
    assert (done.status, done.out) == (2, b"")
    (line, *_) = done.err.splitlines()
    assert line.startswith("klogtool: klogtool.toml: ")
    assert told in line
    assert len(line) < 400
    assert "Traceback" not in done.err


def test_settings_that_are_no_text_or_too_long(project: Path) -> None:
    (project / "klogtool.toml").write_bytes(b"paths = ['\xff']")
    told = "klogtool: klogtool.toml: at byte 10: it is not UTF-8\n--isolated looks for no settings file.\n"
    assert verify(project, "-q").err == told
    with open(project / "klogtool.toml", "wb") as sparse:
        sparse.truncate(1 << 40)
    assert "more than this kind of file can have" in verify(project, "-q").err


def test_a_settings_file_that_does_not_exist_or_is_a_pipe(project: Path) -> None:
    os.mkfifo(project / "pipe")
    for name in ("pipe", "none.toml", "logs"):
        done = verify(project, "--settings", name)
        assert done.status in (2, 4)
        assert done.out == b""


# ---------------------------------------------------------------- exclusions


@pytest.mark.parametrize(
    ("pattern", "is_read"),
    [
        ("flip-bit-0", False),
        ("flip-*", False),
        ("damaged/flip-bit-0", False),
        ("damaged/flip-bit-0/", False),
        ("./damaged/*-0", False),
        ("**/flip-bit-0", False),
        ("**", False),
        ("damaged/**/*", False),
        ("**/**/**/**/**/**/**/**/**/flip*", False),
        ("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", True),
        ("../flip-bit-0", True),
        ("other/flip-bit-0", True),
        ("flip-bit", True),
        ("damage", True),
        ("/flip-bit-0", True),
    ],
)
def test_patterns_of_exclusions(project: Path, pattern: str, is_read: bool) -> None:
    done = verify(project, "damaged/flip-bit-0", "damaged/remove-timeindex-0", "--exclude", pattern)
    assert ("batch-crc" in done.out.decode()) == is_read


def test_exclusions_are_told_first(project: Path) -> None:
    settings(project, 'paths = ["."]\nrecursive = true\nexclude = ["logs", "damaged/[a-eg-z]*"]\n')
    done = verify(project)
    first = done.out.decode().splitlines()[0]
    assert first.startswith("NOT READ: 5 partitions and 1 path; excluded by klogtool.toml.") or "excluded" in first
    last = rows(verify(project, "--format", "json"))[-1]
    assert last["complete"] is False
    assert last["excluded"]["paths"] == 1
    assert "left_out" not in last


def test_a_file_that_is_excluded_is_counted(project: Path) -> None:
    done = verify(project, "damaged/flip-bit-0", "--exclude", "*.log")
    assert done.status == 0
    assert "1 finding left out by --exclude (batch-crc 1)" in closing(done)


def test_everything_is_excluded(project: Path) -> None:
    done = verify(project, "damaged", "--exclude", "damaged")
    assert (done.status, done.out) == (2, b"")
    assert "damaged: nothing to verify; 1 path excluded" in done.err


@pytest.mark.parametrize("words", [["--exclude", ""], ["--severity", "x=error"], ["--severity", "batch-crc"]])
def test_wrong_options(project: Path, words: list[str]) -> None:
    done = verify(project, "damaged", *words)
    assert (done.status, done.out) == (2, b"")


# ---------------------------------------------------------------- baselines


def test_a_baseline_is_written_and_read(project: Path) -> None:
    wrote = verify(project, "damaged", "--write-baseline", "known.jsonl")
    assert wrote.status == 0
    assert "batch-crc" in wrote.out.decode(), "what is accepted is shown"
    told = verify(project, "damaged", "--baseline", "known.jsonl")
    assert (told.status, closing(told)) == (0, closing(wrote))
    assert "findings of the baseline not counted" in closing(told)
    assert verify(project / "logs", str(project / "damaged"), "--baseline", "../known.jsonl").status == 0
    elsewhere = project.parent / "elsewhere"
    shutil.copytree(project, elsewhere)
    assert verify(elsewhere, "damaged", "--baseline", "known.jsonl").status == 0
    flip_bit(elsewhere / "damaged/torn-tail-0" / f"{0:020d}.log", 100)
    assert verify(elsewhere, "damaged", "--baseline", "known.jsonl").status == 1


@pytest.mark.slow
def test_new_damage_among_many_log_dirs_with_known_damage(tmp_path: Path) -> None:
    """As a repository has it that keeps logs as fixtures: this one."""
    shutil.copytree(FIXTURES, tmp_path / "fixtures")
    assert verify(tmp_path, "fixtures", "--recursive", "--write-baseline", "known.jsonl").status == 0
    known = [json.loads(line) for line in (tmp_path / "known.jsonl").read_text().splitlines()]
    assert {row.get("id") for row in known} >= {"batch-crc", "torn-batch"}
    again = ["fixtures", "--recursive", "--baseline", "known.jsonl", "--format", "json"]
    sound = verify(tmp_path, *again)
    assert (sound.status, rows(sound)[-1]["errors"], issues(sound)) == (0, 0, [])
    assert rows(sound)[-1]["records"] > 1000
    damaged = tmp_path / "fixtures/transactions/logdir/t-0/00000000000000000007.log"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    told = verify(tmp_path, *again)
    assert told.status == 1
    assert {path for _, path in issues(told)} == {"fixtures/transactions/logdir/t-0/00000000000000000007.log"}


def test_a_baseline_is_the_same_every_time_and_is_written_anew(project: Path) -> None:
    verify(project, ".", "--recursive", "--write-baseline", "known.jsonl")
    once = (project / "known.jsonl").read_bytes()
    again = verify(project, ".", "--recursive", "--write-baseline", "known.jsonl", "--jobs", "1")
    assert again.status == 0
    assert (project / "known.jsonl").read_bytes() == once
    assert b'"damaged/flip-bit-0/' in once
    assert str(project).encode() not in once


def test_another_file_is_not_replaced(project: Path) -> None:
    settings(project, "")
    (project / "link.jsonl").symlink_to("klogtool.toml")
    for name in ("klogtool.toml", "link.jsonl", "damaged", "damaged/known.jsonl"):
        done = verify(project, "damaged", "--write-baseline", name)
        assert (done.status, done.out) == (3, b""), name
    assert (project / "klogtool.toml").read_text() == ""


def test_a_baseline_without_a_folder(project: Path) -> None:
    done = verify(project, "damaged", "--write-baseline", "none/known.jsonl")
    assert (done.status, done.out) == (2, b"")
    assert done.err.startswith("klogtool: none/known.jsonl: its folder does not exist\n")


def test_a_baseline_that_cannot_be_written(project: Path) -> None:
    closed = project / "closed"
    closed.mkdir(0o500)
    words = ["verify", NOW, str(project / "damaged"), "--write-baseline", str(closed / "x"), "--format", "gitlab"]
    done = run_apart(*words, before=without_power_over_files)
    assert done.status == 4
    assert "The baseline was not written." in json.loads(done.out)[-1]["description"]
    assert list(closed.iterdir()) == []


@pytest.mark.parametrize("words", [["--subset", "1/2"], ["--max-duration", "1h"], ["--baseline", "x"]])
def test_what_does_not_go_with_a_new_baseline(project: Path, words: list[str]) -> None:
    assert verify(project, "damaged", "--write-baseline", "known.jsonl", *words).status == 2
    assert not (project / "known.jsonl").exists()


def test_an_entry_that_no_longer_occurs_is_told(project: Path) -> None:
    settings(project, 'baseline = "known.jsonl"\n')
    assert verify(project, "damaged", "--write-baseline", "known.jsonl").status == 0
    shutil.copy(project / "damaged/torn-tail-0" / f"{66:020d}.log", project / "kept")
    (project / "damaged/torn-tail-0" / f"{66:020d}.log").write_bytes(b"")
    done = verify(project, "damaged")
    assert f"  torn-batch  damaged/torn-tail-0/{66:020d}.log\n" in done.out.decode()
    assert "1 finding of the baseline no longer there" in closing(done)
    (gone,) = rows(verify(project, "damaged", "--format", "json"))[-1]["gone"]
    assert gone == {"id": "torn-batch", "path": f"damaged/torn-tail-0/{66:020d}.log", "count": 1}
    assert "no longer" not in closing(verify(project, "damaged/flip-bit-0")), "the other paths were not looked at"
    assert "no longer" not in closing(verify(project, "damaged", "--subset", "1/2"))
    assert "no longer" not in closing(verify(project, "damaged", "--exclude", "torn-*"))
    ignored = verify(project, "damaged", "--severity", "batch-crc=ignore")
    assert "1 finding of the baseline no longer there" in closing(ignored), "what is left out is there all the same"


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        '{"id":"batch-crc"}',
        '{"id":"batch-crc","path":3}',
        '{"id":"batch-crc","path":"x","count":0}',
        '{"id":"batch-crc","path":"x","count":99999999999}',
        '{"id":"batch-crc","path":"x","first_offset":"1"}',
        '{"id":"batch-crc","path":"x","field":3}',
        '{"id":"batch-crc","path_base64":"%","path":"x"}',
        "[" * 100_000,
    ],
    ids=lambda line: line[:40],
)
def test_what_is_no_line_of_a_baseline(project: Path, line: str) -> None:
    (project / "known.jsonl").write_text(f'{{"type":"baseline","schema":1,"command":"verify"}}\n{line}\n')
    done = verify(project, "damaged", "--baseline", "known.jsonl")
    assert (done.status, done.out) == (2, b"")
    assert done.err.startswith("klogtool: known.jsonl: line 2: ")
    (project / "known.jsonl").write_text('{"type":"baseline","schema":2,"command":"verify"}\n')
    assert verify(project, "damaged", "--baseline", "known.jsonl").status == 2


def test_a_path_that_cannot_be_is_gone(project: Path) -> None:
    row = '{"id":"batch-crc","path":"damaged/a\\u0000b/x.log"}'
    (project / "known.jsonl").write_text(f'{{"type":"baseline","schema":1,"command":"verify"}}\n{row}\n')
    done = verify(project, "damaged", "--baseline", "known.jsonl", "--exclude", "torn-*")
    assert (done.status, "1 finding of the baseline no longer there" in closing(done)) == (1, True)
    assert "\\x00" in done.out.decode()


def test_names_that_are_no_text_are_in_a_baseline(project: Path) -> None:
    os.mkdir(os.fsencode(project) + b"/damaged/\xff\n")
    assert verify(project, "damaged", "--write-baseline", "known.jsonl").status == 0
    assert verify(project, "damaged", "--baseline", "known.jsonl").status == 0


# ---------------------------------------------------------------- --statistics


def test_statistics_count_by_id(project: Path) -> None:
    done = verify(project, "damaged", "--statistics", "--severity", "zero-tail=ignore")
    lines = done.out.decode().splitlines()
    assert done.status == 1
    assert lines[0].split()[:3] == ["error", "batch-crc", "1"]
    assert any(line.split()[:4] == ["left", "out", "zero-tail", "1"] for line in lines)
    assert lines[-1].endswith("Exit status 1.")
    counted = rows(verify(project, "damaged", "--statistics", "--format", "json"))
    assert {"type": "statistic", "id": "batch-crc", "severity": "error", "findings": 1, "known": 0} in counted
    assert counted[-1]["type"] == "summary"


def test_statistics_of_a_sound_log_dir_are_the_closing_line(project: Path) -> None:
    assert verify(project, "logs/a", "--statistics").out.decode().startswith("0 errors")
