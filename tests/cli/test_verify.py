"""klogtool verify: exit statuses, text and JSON, what does not count, what is left out."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import pty
import shlex
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from damage import append_bytes, flip_bit
from running import FIXTURES, KLOGTOOL, ROOT, Done, run_apart, run_here, without_power_over_files
from verifying import NOW_MS

Run = Callable[..., Done]
Path = pathlib.Path
NOW = f"--now={NOW_MS}"
DAMAGED = FIXTURES / "killed-mid-append/logdir"
GOLDEN = pathlib.Path(__file__).with_name("data") / "verify-killed-mid-append.jsonl"


def verify(*args: str | os.PathLike[str]) -> Done:
    return run_here(["verify", NOW, *map(os.fspath, args)], ROOT)


def rows(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.fixture
def log_dir(copy_of: Callable[[str], Path]) -> Path:
    """Sound: one partition, t-0."""
    return copy_of("leader-epochs/logdir")


@pytest.fixture
def warned(log_dir: Path) -> Path:
    """A warning, and nothing else."""
    (log_dir / "t-0/leader-epoch-checkpoint").write_text("")
    return log_dir


@pytest.fixture
def broken(warned: Path) -> Path:
    """An error besides."""
    (warned / "t-0/partition.metadata").write_text("")
    return warned


# ---------------------------------------------------------------- exit statuses


def test_0_nothing_wrong(log_dir: Path, klogtool: Run) -> None:
    for options in ([], ["--deep"], ["--notes"], ["--format", "json"], ["--jobs", "2"], ["--fail-on", "warning"]):
        done = klogtool("verify", NOW, log_dir, *options, folder=log_dir)
        assert (done.status, done.told) == (0, "")


def test_1_an_error(broken: Path) -> None:
    assert verify(broken).status == 1
    assert verify(broken, "--format", "json").status == 1


def test_a_warning_counts_where_it_is_asked_to(warned: Path) -> None:
    assert verify(warned).status == 0
    assert verify(warned, "--fail-on", "warning").status == 1


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["no-such-path"],
        ["README.md", "--subset", "3/2"],
        ["README.md", "--subset", "0/2"],
        ["README.md", "--subset", "x"],
        ["README.md", "--max-duration", "soon"],
        ["README.md", "--jobs", "0"],
        ["README.md", "--fail-on", "info"],
        ["README.md", "--format", "parquet"],
        ["README.md", "--nothing"],
        ["fixtures/leader-epochs/logdir", "--baseline", "no-such-file"],
        ["fixtures/leader-epochs/logdir", "--baseline", "README.md"],
    ],
    ids=" ".join,
)
def test_2_wrong_usage_or_no_such_path(words: list[str]) -> None:
    done = run_here(["verify", *words], ROOT)
    assert (done.status, done.out) == (2, b"")
    assert "Traceback" not in done.err
    assert done.err.startswith("klogtool: ")


def test_4_nothing_of_kafkas_or_not_to_be_read(tmp_path: Path, log_dir: Path) -> None:
    assert verify(tmp_path).status == 4
    (tmp_path / "notes.txt").write_text("x")
    assert verify(tmp_path / "notes.txt").status == 4
    log_dir.chmod(0)
    try:
        done = run_apart("verify", log_dir, before=without_power_over_files)
    finally:
        log_dir.chmod(0o700)
    assert (done.status, done.out) == (4, b"")
    assert f"klogtool: {log_dir}: permission denied" in done.err


def test_what_cannot_be_read_inside_is_a_finding(log_dir: Path) -> None:
    (log_dir / f"t-0/{0:020d}.log").chmod(0)
    done = run_apart("verify", NOW, log_dir, "--format", "json", before=without_power_over_files)
    assert done.status == 1
    assert [row["id"] for row in rows(done)[1:-1] if row["severity"] == "error"] == ["unreadable"]
    assert rows(done)[-1]["batches"] > 0


def test_a_partition_dir_that_cannot_be_listed_is_a_finding(log_dir: Path) -> None:
    (log_dir / "t-0").chmod(0)
    try:
        done = run_apart("verify", NOW, log_dir, "--format", "json", before=without_power_over_files)
    finally:
        (log_dir / "t-0").chmod(0o700)
    assert done.status == 1
    assert ("unreadable", str(log_dir / "t-0")) in [(row.get("id"), row.get("path")) for row in rows(done)]


# ---------------------------------------------------------------- JSON


def test_json_is_the_contracts(broken: Path) -> None:
    first, *findings, last = rows(verify(broken, "--format", "json"))
    assert (first["type"], first["schema"], first["command"]) == ("klogtool", 1, "verify")
    assert {row["type"] for row in findings} == {"finding"}
    assert [(row["id"], row["severity"]) for row in findings if row["severity"] != "info"] == [
        ("epochs-content", "warning"),
        ("partition-metadata-corrupt", "error"),
    ]
    assert all(row.keys() <= FIELDS for row in findings)
    assert None not in [value for row in findings for value in row.values()]
    assert last.keys() == SUMMARY
    assert (last["partitions"], last["batches"], last["records"]) == (1, 16, 78)
    assert (last["errors"], last["warnings"], last["complete"]) == (1, 1, True)


FIELDS = {"type", "id", "severity", "path", "start", "end", "first_offset", "last_offset", "field", "detail", "cure"}
SUMMARY = {
    *("type", "partitions", "files", "batches", "records", "bytes", "seconds"),
    *("errors", "warnings", "infos", "deep", "complete"),
}


def test_what_a_killed_broker_left_and_a_wound_for_each_topic(klogtool: Run) -> None:
    """The golden output; and laws that no new recording of it may break."""
    done = klogtool("verify", NOW, "killed-mid-append/logdir", "--format", "json")
    found = rows(done)
    assert found[0].pop("cwd") == str(FIXTURES)
    found[0]["version"], found[-1]["seconds"] = "", 0
    assert found == [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    severities = [row["severity"] for row in found[1:-1]]
    assert [severities.count(kind) for kind in ("error", "warning", "info")] == [
        found[-1][name] for name in ("errors", "warnings", "infos")
    ]
    assert [row["path"] for row in found[2:-1]] == sorted(row["path"] for row in found[2:-1])
    assert all(row["start"] < row["end"] for row in found if "end" in row)
    assert all(row["first_offset"] <= row["last_offset"] for row in found if "last_offset" in row)


def test_the_order_does_not_hang_on_threads() -> None:
    once = rows(verify(DAMAGED, "--format", "json"))
    for jobs in ("1", "2", "7"):
        again = rows(verify(DAMAGED, "--format", "json", "--jobs", jobs))
        assert again[:-1] == once[:-1]
        assert {**again[-1], "seconds": 0} == {**once[-1], "seconds": 0}


def test_names_that_are_no_text(log_dir: Path) -> None:
    os.mkdir(os.path.join(os.fsencode(log_dir), b"\xff\x1b[2J\nfoo"))
    done = verify(log_dir, "--format", "json")
    row = json.loads(done.out.splitlines()[1])
    assert row["path"].endswith("/\\xff\\x1b[2J\\nfoo")
    assert base64.b64decode(row["path_base64"]).endswith(b"/\xff\x1b[2J\nfoo")
    done = verify(log_dir, "--notes")
    assert b"\x1b" not in done.out
    assert b"\\x1b[2J\\nfoo" in done.out


# ---------------------------------------------------------------- a baseline


def test_known_findings_do_not_count(broken: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "known.json"
    baseline.write_bytes(verify(broken, "--format", "json").out)
    done = verify(broken, "--baseline", baseline)
    assert done.status == 0
    assert b"0 errors, 0 warnings" in done.out
    assert b"2 findings of the baseline not counted" in done.out
    assert b"epochs-content" not in done.out

    known = verify(broken, "--baseline", baseline, "--format", "json")
    assert rows(known)[-1]["known"] == sum(row.get("known", False) for row in rows(known)[:-1]) == 2
    again = tmp_path / "again.json"
    again.write_bytes(known.out)
    assert verify(broken, "--baseline", again).status == 0

    (broken / "t-0/foo.log").write_bytes(b"")
    fresh = verify(broken, "--baseline", baseline)
    assert fresh.status == 1
    assert b"segment-name" in fresh.out
    assert b"partition-metadata-corrupt" not in fresh.out


def test_a_known_finding_counts_once(log_dir: Path, tmp_path: Path) -> None:
    log = log_dir / f"t-0/{0:020d}.txnindex"
    append_bytes_to_new(log, bytes(34))
    baseline = tmp_path / "known.json"
    baseline.write_bytes(verify(log_dir, "--format", "json").out)
    append_bytes(log, bytes(34))
    assert verify(log_dir, "--baseline", baseline).status == 1


WAYS_TO_TYPE = {
    "absolute": lambda folder: (folder, str(folder / "logdir")),
    "relative": lambda folder: (folder, "logdir"),
    "with a slash": lambda folder: (folder, "logdir/"),
    "with a dot": lambda folder: (folder, "./logdir/."),
    "from above": lambda folder: (folder.parent, f"{folder.name}/logdir"),
    "from within": lambda folder: (folder / "logdir", "."),
    "from below": lambda folder: (folder / "logdir/t-0", ".."),
    "by a link": lambda folder: (folder, "linked"),
    "by a link above": lambda folder: (folder.parent, "above/logdir"),
}


@pytest.mark.parametrize("then", WAYS_TO_TYPE)
@pytest.mark.parametrize("once", WAYS_TO_TYPE)
def test_a_finding_is_known_however_its_path_is_typed(log_dir: Path, tmp_path: Path, once: str, then: str) -> None:
    folder = tmp_path / "typed"
    folder.mkdir()
    log_dir.rename(folder / "logdir")
    (folder / "linked").symlink_to("logdir")
    (tmp_path / "above").symlink_to(folder)
    (folder / "logdir/t-0/partition.metadata").write_text("")
    (folder / "logdir/.kafka_cleanshutdown").unlink()  # a finding of the log dir itself
    (folder / "logdir/meta.properties").write_text("")
    place, typed = WAYS_TO_TYPE[once](folder)
    found = run_here(["verify", NOW, typed, "--format", "json"], place)
    typed_paths = [row["path"] for row in rows(found)[1:-1]]
    assert found.status == 1
    assert all(path.startswith(typed.rstrip("/")) for path in typed_paths), "paths are told as they were typed"
    (tmp_path / "known.json").write_bytes(found.out)
    place, typed = WAYS_TO_TYPE[then](folder)
    again = rows(
        run_here(["verify", NOW, typed, "--format", "json", "--baseline", str(tmp_path / "known.json")], place)
    )
    assert [row["id"] for row in again[1:-1] if not row.get("known")] == []
    assert (again[-1]["known"], again[-1]["errors"]) == (len(typed_paths), 0)


def test_a_finding_under_a_name_that_is_no_text_is_known(broken: Path, tmp_path: Path) -> None:
    odd = broken.rename(tmp_path / "d\udcff")
    (tmp_path / "known.json").write_bytes(verify(odd, "--format", "json").out)
    for typed, place in ((str(odd), tmp_path), (".", odd)):
        words = ["verify", NOW, typed, "--baseline", str(tmp_path / "known.json")]
        assert run_here(words, place).status == 0


def test_several_runs_make_one_baseline(broken: Path, copy_of: Callable[[str], Path], tmp_path: Path) -> None:
    other = copy_of("transactions/logdir")
    (other / "meta.properties").write_text("")
    runs = [run_here(["verify", NOW, path.name, "--format", "json"], path.parent) for path in (broken, other)]
    (tmp_path / "known.json").write_bytes(b"".join(run.out for run in runs))
    for path in (broken, other):
        assert verify(path, "--baseline", tmp_path / "known.json").status == 0


def append_bytes_to_new(path: Path, data: bytes) -> None:
    path.write_bytes(data)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"type":"klogtool","command":"dump-log"}', "null"])
def test_what_is_no_baseline(log_dir: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "known.json").write_text(text)
    done = verify(log_dir, "--baseline", tmp_path / "known.json")
    assert (done.status, done.out) == (2, b"")
    assert "line 1" in done.err


# ---------------------------------------------------------------- a budget


def test_subsets_make_a_whole() -> None:
    whole = rows(verify(DAMAGED, "--format", "json"))
    parts = [rows(verify(DAMAGED, "--format", "json", "--subset", f"{n}/4")) for n in range(1, 5)]
    assert sum(part[-1]["partitions"] for part in parts) == whole[-1]["partitions"]
    assert sum(part[-1]["batches"] for part in parts) == whole[-1]["batches"]
    assert all(not part[-1]["complete"] for part in parts)
    assert parts[0][-1]["left_out"] == {"partitions": 4, "segments": 0}
    told = {json.dumps(row) for part in parts for row in part[1:-1]}
    assert told == {json.dumps(row) for row in whole[1:-1]}


def test_a_subset_was_asked_for_and_says_first_what_it_leaves_out(log_dir: Path) -> None:
    done = verify(log_dir, "--subset", "2/2")
    first = b"NOT READ: 1 partition; not in this subset (--subset). The findings below are about the rest."
    assert (done.status, done.out.splitlines()[0]) == (0, first)
    assert verify(log_dir, "--subset", "1/2").out.splitlines()[0].startswith(b"0 errors")
    assert verify(DAMAGED, "--subset", "1/2").status == 1


@pytest.fixture
def two_segments(log_dir: Path) -> Path:
    """A log dir of two partitions, in the order of their names: of t-0 the second segment is damaged, of t-1 both."""
    shutil.copytree(log_dir / "t-0", log_dir / "t-1")
    for path in (*log_dir.glob(f"t-?/{42:020d}.log"), log_dir / f"t-1/{0:020d}.log"):
        flip_bit(path, 100)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
        (log_dir / name).unlink(missing_ok=True)
    return log_dir


def test_time_that_is_up_is_no_success(two_segments: Path) -> None:
    """The first segment is read in any case."""
    done = verify(two_segments, "--max-duration", "0s", "--jobs", "1")
    lines = done.out.decode().splitlines()
    assert done.status == 4
    assert lines[0] == ("NOT READ: 1 partition and 1 segment; time was up. The findings below are about the rest.")
    assert lines[-1].endswith("Left out: 1 partition and 1 segment.  Exit status 4.")
    last = rows(verify(two_segments, "--max-duration", "0ms", "--format", "json"))[-1]
    assert (last["complete"], last["left_out"]) == (False, {"partitions": 1, "segments": 1})
    assert last["batches"] > 0


def test_damage_that_was_found_in_time_counts_more(two_segments: Path) -> None:
    flip_bit(two_segments / f"t-0/{0:020d}.log", 100)
    done = verify(two_segments, "--max-duration", "0s")
    lines = done.out.decode().splitlines()
    assert (done.status, lines[0].split(":")[0]) == (1, "NOT READ")
    assert any(line.startswith("error ") for line in lines[1:])
    (two_segments / f"t-0/{0:020d}.log").unlink()
    warned = verify(two_segments, "--max-duration", "0s", "--fail-on", "warning")
    assert warned.status == 1


@pytest.mark.parametrize("duration", ["1h", "10m", "90", "90s", "5000ms", "1.5h"])
def test_enough_time(duration: str) -> None:
    assert b"Left out" not in verify(DAMAGED, "--max-duration", duration).out


# ---------------------------------------------------------------- text


def test_a_block_for_each_finding_and_a_closing_line(broken: Path) -> None:
    told = verify(broken).out.decode()
    assert told.startswith("error    t-0/partition.metadata\n         partition-metadata-corrupt\n")
    assert "\nwarning  t-0/leader-epoch-checkpoint\n         epochs-content\n" in told
    assert f"klogtool rebuild-index {shlex.quote(f'{broken}/t-0')} --only leader-epoch-checkpoint --apply\n" in told
    assert told.splitlines()[-1] == (
        "1 error, 1 warning, 0 notes.  78 records in 16 batches, by their headers (--deep opens them).  Exit status 1."
    )


def test_notes_are_shown_where_they_are_asked_for(log_dir: Path) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    assert b"1 note (--notes shows them)" in verify(log_dir).out
    assert b"unclean-shutdown" not in verify(log_dir).out
    shown = verify(log_dir, "--notes").out
    assert b"note     " in shown
    assert b"unclean-shutdown" in shown
    assert b"1 note.  " in shown


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_lines_fit_where_words_do(broken: Path, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = verify(broken).out.decode().splitlines()[:-1]
    for line in (line for line in lines if "→" not in line):
        longest_word = max(map(len, line.split()), default=0)
        assert len(line) <= max(columns, 40, 12 + longest_word)


def on_terminal(*args: str, **environment: str) -> str:
    """What klogtool prints on a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen([*KLOGTOOL, *args], cwd=ROOT, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    told = b""
    while piece := read_or_end(ours):
        told += piece
    process.wait(timeout=60)
    os.close(ours)
    return told.decode()


def read_or_end(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # nobody holds the other end any more
        return b""


@pytest.mark.slow
def test_colours_on_a_terminal_only(broken: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    coloured = on_terminal("verify", NOW, str(broken), **{**environment, "NO_COLOR": ""})
    assert "\x1b[1;31merror" in coloured
    assert "\x1b" not in on_terminal("verify", NOW, str(broken), NO_COLOR="1")
    assert b"\x1b" not in verify(broken).out


def test_a_pipe_that_closes_early() -> None:
    script = '"$@" | head -c 1 >/dev/null; echo "${PIPESTATUS[0]}"'
    command = ["bash", "-c", script, "bash", *KLOGTOOL, "verify", str(DAMAGED), "--notes"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
    assert done.stdout.strip() in (b"141", b"1")  # all of it may fit into the pipe


# ---------------------------------------------------------------- kinds of PATH


@pytest.mark.parametrize(
    ("name", "wound", "expected"),
    [
        (f"t-0/{42:020d}.log", lambda path: flip_bit(path, 100), "batch-crc"),
        (f"t-0/{42:020d}.snapshot", lambda path: flip_bit(path, 12), "snapshot-corrupt"),
        ("t-0/leader-epoch-checkpoint", lambda path: path.write_text("0\n1\n7 0\n"), "epochs-content"),
        ("t-0/partition.metadata", lambda path: path.write_text(""), "partition-metadata-corrupt"),
        ("meta.properties", lambda path: path.write_text(""), "meta-properties-corrupt"),
        ("recovery-point-offset-checkpoint", lambda path: path.write_text("x"), "checkpoint-corrupt"),
        ("bootstrap.checkpoint", lambda path: path.write_bytes(b""), "kraft-snapshot-corrupt"),
    ],
)
def test_a_file_alone(log_dir: Path, name: str, wound: Callable[[Path], object], expected: str) -> None:
    path = log_dir / name
    path.chmod(0o644)
    assert verify(path).status == 0
    wound(path)
    (log_dir / "t-0/foo.log").write_bytes(b"")  # of no concern to the others
    done = verify(path, "--format", "json")
    assert [(row["id"], row["path"]) for row in rows(done)[1:-1]] == [(expected, str(path))]


def test_a_file_in_the_folder_one_stands_in(log_dir: Path, klogtool: Run) -> None:
    folder = log_dir / "t-0"
    (folder / "partition.metadata").write_text("")
    done = klogtool("verify", "partition.metadata", "--format", "json", folder=folder)
    assert [row["id"] for row in rows(done)[1:-1]] == ["partition-metadata-corrupt"]
    assert klogtool("verify", ".", folder=folder).status == 1


def test_how_a_doubtful_folder_is_read_is_said(log_dir: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (log_dir / "t-0").rename(alone / "t-0")
    done = verify(alone)
    assert (done.status, done.told) == (
        0,
        f"klogtool: {alone}: read as a log dir, because it contains partition dirs\n",
    )
    assert verify(alone, "--quiet").told == ""
    (alone / "u-7").mkdir()
    assert verify(alone / "u-7").told == f"klogtool: {alone / 'u-7'}: read as a partition dir, because of its name\n"


def test_what_was_given_counts_more_than_what_is_found(log_dir: Path) -> None:
    (log_dir / "t-0/leader-epoch-checkpoint").write_text("0\n2\n2 30\n4 52\n")
    assert b"epochs-content" in verify(log_dir / "t-0").out
    assert b"epochs-content" not in verify(log_dir / "t-0", "--log-start-offset", "30").out


def test_a_segment_that_was_about_to_take_the_place_of_another(log_dir: Path) -> None:
    swap = (log_dir / f"t-0/{42:020d}.log").rename(log_dir / f"t-0/{42:020d}.log.swap")
    flip_bit(swap, 100)
    found = rows(verify(swap, "--format", "json"))[1:-1]
    assert {row["id"] for row in found if row["path"] == str(swap)} == {"leftover-swap", "batch-crc"}


def test_several_paths_of_all_kinds(log_dir: Path) -> None:
    done = verify(log_dir, FIXTURES / "transactions/logdir/t-0", log_dir / "meta.properties", "--format", "json")
    assert (done.status, rows(done)[-1]["partitions"]) == (0, 2)
