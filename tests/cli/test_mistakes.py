"""What a new user does wrong: an answer of one line, with a second that says what to do."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import shutil
import subprocess
import threading

import pytest
from running import FIXTURES, KLOGTOOL, ROOT, Done, run_apart, without_power_over_files

SEGMENT = "00000000000000000007.log"
PARTITION = FIXTURES / "transactions/logdir/t-0"


@pytest.fixture
def partition(tmp_path: pathlib.Path) -> pathlib.Path:
    """A sound partition dir, to be spoilt."""
    return pathlib.Path(shutil.copytree(PARTITION, tmp_path / "t-0"))


def assert_says(done: Done, status: int, *lines: str) -> None:
    assert done.err.splitlines() == list(lines)
    assert done.status == status


def assert_usage(done: Done, message: str, command: str = "klogtool dump-log") -> None:
    assert_says(done, 2, f"klogtool: {message}", f"Try '{command} --help'.")
    assert done.out == b""


# ---------------------------------------------------------------- words


def test_an_option_that_is_none() -> None:
    done = run_apart("dump-log", PARTITION, "--prnt-data-log")
    assert "--print-data-log" in done.err.splitlines()[0]
    assert done.err.splitlines()[1:] == ["Try 'klogtool dump-log --help'."]
    assert done.status == 2


def test_an_option_may_not_be_abbreviated() -> None:
    assert_usage(
        run_apart("dump-log", PARTITION, "--deep"), "No such option '--deep'. Did you mean '--deep-iteration'?"
    )
    told = "No such option '--off'. Did you mean '--offsets-decoder' or '--offsets'?"
    assert_usage(run_apart("dump-log", PARTITION, "--off"), told)


def test_an_option_without_its_argument() -> None:
    assert_usage(run_apart("dump-log", "--max-bytes"), "Option '--max-bytes' requires an argument.")


def test_a_command_that_is_none() -> None:
    assert_usage(run_apart("dumplog"), "No such command 'dumplog'. Did you mean 'dump-log'?", "klogtool")
    assert_usage(run_apart("xyzzy"), "No such command 'xyzzy'.", "klogtool")
    path = str(PARTITION)
    assert_usage(run_apart(path), f"No such command '{path}'. Did you mean 'klogtool dump-log {path}'?", "klogtool")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "unit", "more"),
    [
        ("--offsets", "64-bit numbers", "2023-11-14"),
        ("--timestamps", "epoch milliseconds or ISO 8601", "2023-11-41"),
    ],
)
def test_a_span_that_is_none(option: str, unit: str, more: str) -> None:
    words = f"is not a range (A..B, A.., ..B or A), in {unit}."
    for span in ("5-9", more, "", "9223372036854775808..", f"0..{10**30}", f"-{10**30}..0"):
        assert_usage(run_apart("dump-log", PARTITION, option, span), f"Invalid value for '{option}': '{span}' {words}")
    told = f"Invalid value for '{option}': '5..2' ends before it starts."
    assert_usage(run_apart("dump-log", PARTITION, option, "5..2"), told)


@pytest.mark.slow
def test_the_largest_span_is_everything() -> None:
    done = run_apart("dump-log", PARTITION / SEGMENT, "--offsets", f"{-(2**63)}..{2**63 - 1}")
    assert done.out == run_apart("dump-log", PARTITION / SEGMENT).out


@pytest.mark.parametrize("word", ["x", str(2**63), "1_000"])
def test_a_producer_id_that_is_none(word: str) -> None:
    told = f"Invalid value for '--producer-id': '{word}' is not a 64-bit number."
    assert_usage(run_apart("dump-log", PARTITION, "--producer-id", word), told)


@pytest.mark.parametrize("form", ["text", "json"])
def test_output_where_the_dump_goes_to_stdout(tmp_path: pathlib.Path, form: str) -> None:
    place = tmp_path / "out"
    done = run_apart("dump-log", PARTITION, "--format", form, "--output", place)
    assert_usage(done, f"--output is for arrow and parquet; {form} goes to stdout: > {place}")
    assert not place.exists()


def test_files_and_further_files() -> None:
    """`--files *.log`, say: the shell makes many words of it, and Kafka's tool reads only the first."""
    first, second, third = (f"{PARTITION}/{n:020d}.log" for n in (0, 7, 34))
    done = run_apart("dump-log", "--files", first, second, third, "--max-bytes", "100000")
    told = f"klogtool: not read, because --files is given: {second} and 1 more"
    assert_says(done, 0, told, "Separate files with commas: --files F,F")
    assert done.out == run_apart("dump-log", first).out
    assert_says(run_apart("dump-log", "--quiet", "--files", first, second), 0)


def test_a_decoder_that_is_none() -> None:
    done = run_apart("dump-log", PARTITION, "--key-decoder-class", "Mine")
    told, hint = done.err.splitlines()
    assert (told, done.status) == ("klogtool: failed to load decoder class Mine", 2)
    assert "IntegerDecoder" in hint


def test_help_tells_kafkas_options_from_others() -> None:
    text = run_apart("dump-log", "--help").out.decode()
    kafkas, rest = text.split("Kafka's options:\n")[1].split("Selection:\n")
    selection, own = rest.split("klogtool's options:\n")
    assert "--deep-iteration" in kafkas
    assert "--offsets " in selection
    assert "--resync" in own
    assert "[FILE]" not in own


# ---------------------------------------------------------------- paths


def test_a_topic_instead_of_a_path() -> None:
    done = run_apart("dump-log", "orders-3")
    told, hint = done.err.splitlines()
    assert (told, done.status, done.out) == ("klogtool: orders-3: no such file or directory", 2, b"")
    assert "partition dirs" in hint


@pytest.mark.parametrize("name", ["word.log", "word", "00000000000000000000.index", "x.snapshot"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_path_that_is_not_there(tmp_path: pathlib.Path, name: str, form: str) -> None:
    path = tmp_path / name
    done = run_apart("dump-log", path, "--format", form)
    assert_says(done, 2, f"klogtool: {path}: no such file or directory")


def test_files_with_commas_without_the_option() -> None:
    words = f"{PARTITION / SEGMENT},{PARTITION / SEGMENT}"
    told, hint = run_apart("dump-log", words).err.splitlines()
    assert told == f"klogtool: {words}: no such file or directory"
    assert "--files" in hint


def test_a_log_under_another_name(partition: pathlib.Path) -> None:
    path = (partition / SEGMENT).rename(partition / "copy.log")
    assert_says(
        run_apart("dump-log", path),
        1,
        f"klogtool: {path}: the name is no base offset",
        "--format json reads it under any name.",
    )


@pytest.mark.slow
def test_an_index_without_what_lies_beside_it(partition: pathlib.Path) -> None:
    index, time_index = (partition / f"{7:020d}{suffix}" for suffix in (".index", ".timeindex"))
    hint = "--format json prints this file by itself."
    index.unlink()
    told = f"klogtool: {time_index}: cannot be dumped without {index.name}, which is not there"
    assert_says(run_apart("dump-log", time_index), 1, told, hint)
    (partition / SEGMENT).unlink()
    told = f"klogtool: {time_index}: cannot be dumped without {SEGMENT}, which is not there"
    assert_says(run_apart("dump-log", time_index), 1, told, hint)
    assert_says(run_apart("dump-log", "--files", index), 2, f"klogtool: {index}: no such file or directory")
    assert_says(run_apart("dump-log", time_index, "--format", "json"), 0)


@pytest.mark.slow
def test_an_index_of_a_damaged_log_is_told_as_such() -> None:
    folder = "fixtures/killed-mid-append/logdir/zero-tail-0"
    size = "record size 0 is smaller than the minimum record overhead (14)"
    assert_says(
        run_apart("dump-log", f"{folder}/00000000000000000055.log"),
        1,
        f"klogtool: {folder}/00000000000000000055.log: at byte 1381: {size}",
        "--resync continues after the damage.",
    )
    index = f"{folder}/00000000000000000055.timeindex"
    assert_says(run_apart("dump-log", index), 1, f"klogtool: {index}: the log beside it, at byte 1381: {size}")


@pytest.mark.slow
def test_what_files_leaves_unread_is_told() -> None:
    damaged = "fixtures/killed-mid-append/logdir/zero-tail-0/00000000000000000055.log"
    done = run_apart("dump-log", "--files", f"{damaged},x.log,y.log")
    assert done.err.splitlines()[-1] == "klogtool: --files ends there, as kafka-dump-log does; not read: 2 more"
    assert b"x.log" not in done.out


def test_reports_come_also_where_another_file_is_damaged(partition: pathlib.Path) -> None:
    index = partition / "00000000000000000007.index"
    index.write_bytes(bytes.fromhex("00000001 00000000"))
    report = run_apart("dump-log", partition).err
    assert f"Mismatches in :{index}\n" in report
    (partition / "leader-epoch-checkpoint").write_text("A")
    done = run_apart("dump-log", partition)
    assert (done.status, done.err.endswith(report)) == (1, True)


def test_a_folder_without_permission_does_not_stop_the_rest(partition: pathlib.Path) -> None:
    closed = partition.parent / "a-0"
    closed.mkdir(mode=0)
    try:
        done = run_apart("dump-log", partition.parent, before=without_power_over_files)
    finally:
        closed.chmod(0o700)
    told = [line for line in done.err.splitlines() if line.startswith("klogtool: ")]
    assert told == [f"klogtool: {closed}: permission denied"]
    assert "the user that the broker runs as" in done.err
    assert (done.status, f"{partition / SEGMENT}\n".encode() in done.out) == (4, True)


@pytest.mark.slow
def test_a_folder_that_is_linked_to_from_below_is_read_once(partition: pathlib.Path) -> None:
    sound = run_apart("dump-log", partition)
    (partition / "self").symlink_to(".")
    done = run_apart("dump-log", partition)
    assert (done.out, done.status) == (sound.out, 0)


# ---------------------------------------------------------------- columns


def columns(path: pathlib.Path | str, output: pathlib.Path, *options: str) -> Done:
    pytest.importorskip("pyarrow")
    return run_apart("dump-log", path, "--format", "arrow", "--output", output, *options)


@pytest.mark.parametrize("form", ["csv", "arrow", "parquet"])
@pytest.mark.parametrize("name", ["00000000000000000007.index", "leader-epoch-checkpoint", "partition.metadata"])
def test_a_file_of_kafkas_without_records_is_no_damaged_log(
    partition: pathlib.Path, tmp_path: pathlib.Path, form: str, name: str
) -> None:
    pytest.importorskip("pyarrow")
    output = [] if form == "csv" else ["--output", tmp_path / "elsewhere"]
    done = run_apart("dump-log", partition / name, "--format", form, *output)
    told = "it holds no records: name a .log file, a partition dir or a log dir"
    assert_says(done, 2, f"klogtool: {partition / name}: {told}")


@pytest.mark.slow
def test_columns_of_what_is_not_there(tmp_path: pathlib.Path) -> None:
    missing, output = tmp_path / "nothing", tmp_path / "out.arrow"
    assert_says(columns(missing, output), 2, f"klogtool: {missing}: no such file or directory")
    missing.mkdir()
    (missing / "meta.properties").touch()
    assert_says(columns(missing, output), 0, f"klogtool: {missing}: no logs in it")


@pytest.mark.slow
def test_columns_into_what_is_there_or_is_read(partition: pathlib.Path) -> None:
    taken, inside = partition.parent / "out.arrow", partition / "out.arrow"
    taken.touch()
    assert_says(columns(partition, taken), 3, f"klogtool: {taken}: a file with that name exists already")
    told = f"klogtool: {inside}: the output would lie in a folder that klogtool reads: {partition}"
    assert_says(columns(partition, inside), 3, told)
    assert (taken.stat().st_size, inside.exists()) == (0, False)


@pytest.mark.slow
@pytest.mark.parametrize("folder", [".", "t-0"])
def test_what_was_read_is_not_put_among_logs(tmp_path: pathlib.Path, folder: str) -> None:
    shutil.copytree(PARTITION, tmp_path / "t-0")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    raw = tmp_path / folder / "x.raw"
    read = ("read", tmp_path / "t-0", "--offset", "0", "--max-bytes", "100", "--min-one-message")
    done = run_apart(*read, "--raw", raw)
    kind = "log dir" if folder == "." else "partition dir"
    assert done.err.splitlines()[-1] == f"klogtool: {raw}: this file cannot be saved in a {kind}"
    assert (done.status, raw.exists()) == (3, False)


@pytest.mark.slow
def test_columns_leave_out_aloud(partition: pathlib.Path, tmp_path: pathlib.Path) -> None:
    log_dir = tmp_path / "logs"
    doomed = log_dir / "t-0.0123456789abcdef0123456789abcdef-delete"
    shutil.copytree(partition, doomed)
    told = f"klogtool: {doomed}: left out: being deleted, stray, or a second copy"
    assert_says(columns(log_dir, tmp_path / "a.arrow"), 0, told, "To read it, name it on the command line.")
    assert_says(columns(log_dir, tmp_path / "b.arrow", "--quiet"), 0)


@pytest.mark.slow
def test_columns_of_batches_with_a_wrong_checksum(tmp_path: pathlib.Path) -> None:
    done = columns("fixtures/killed-mid-append/logdir/flip-bit-0", tmp_path / "out.arrow")
    told = "klogtool: batches that do not match their checksum: 1; their records have _crc_ok false"
    assert (done.status, done.err.splitlines()[-1]) == (1, told)


# ---------------------------------------------------------------- terminals and locales


@pytest.mark.slow
@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_names_and_values_in_any_locale(tmp_path: pathlib.Path, locale: dict[str, str]) -> None:
    folder = tmp_path / "größe-0"
    shutil.copytree(FIXTURES / "every-codec/logdir/append-4", folder)
    command = [*KLOGTOOL, "dump-log", str(folder), f"{folder}/nicht-da", "--print-data-log"]
    done = [
        subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, check=False)
        for environment in (locale, {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"})
    ]
    assert done[0].stdout == done[1].stdout
    assert done[0].stderr == done[1].stderr
    assert f"klogtool: {folder}/nicht-da: no such file or directory\n".encode() in done[0].stderr


ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
WITH_UTF_8 = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("words", ["verify", "doctor", "recover", "txns", "retain", "free --bytes 1GB"])
def test_a_partition_is_one_in_any_locale(tmp_path: pathlib.Path, words: str) -> None:
    """The name of its folder is UTF-8, and so is its line in a checkpoint: the locale of who looks does not count."""
    log_dir = tmp_path / "größe"
    shutil.copytree(FIXTURES / "retention/logdir", log_dir)
    shutil.copytree(log_dir / "time-0", log_dir / "tö-0")
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\ntö 0 110\n", encoding="utf-8")
    command, *others = words.split()
    now = [] if command in ("verify", "txns") else ["--now", "2026-11-26"]
    done = [
        subprocess.run(
            [*KLOGTOOL, command, str(log_dir), *others, *now],
            cwd=ROOT,
            env={**os.environ, **environment, "HOME": str(tmp_path / f"home{n}")},
            capture_output=True,
            check=False,
        )
        for n, environment in enumerate((ASCII_ONLY, WITH_UTF_8))
    ]
    assert (done[0].stdout, done[0].stderr, done[0].returncode) == (done[1].stdout, done[1].stderr, done[1].returncode)
    assert b"absent" not in done[0].stdout
    assert b"not UTF-8" not in done[0].stdout


@pytest.mark.slow
def test_names_that_would_move_a_cursor_are_escaped(tmp_path: pathlib.Path) -> None:
    done = run_apart("dump-log", os.fsdecode(bytes(tmp_path) + b"/a\n\x1b[31m\xff.log"))
    assert done.err == f"klogtool: {tmp_path}/a\\n\\x1b[31m\\xff.log: no such file or directory\n"


@pytest.mark.slow
def test_a_full_disk_behind_stdout() -> None:
    with open("/dev/full", "wb") as full:
        done = run_apart("dump-log", PARTITION, stdout=full.fileno())
    assert_says(done, 4, "klogtool: stdout: no space left on device")


@pytest.mark.slow
@pytest.mark.parametrize(("stdout", "drawn"), [("file", True), ("pipe", False), ("terminal", False)])
def test_a_progress_bar_disturbs_no_dump_that_is_looked_at(tmp_path: pathlib.Path, stdout: str, drawn: bool) -> None:
    """A pipe may lead to a pager."""
    log = tmp_path / f"{0:020d}.log"
    batches = (PARTITION / SEGMENT).read_bytes()
    log.write_bytes(batches * ((70 << 20) // len(batches)))
    terminal, other_end = pty.openpty()
    seen = bytearray()
    listening = threading.Thread(target=_gather, args=(terminal, seen))
    listening.start()
    with open(tmp_path / "out", "wb") as file:
        to = {"file": file.fileno(), "pipe": subprocess.PIPE, "terminal": other_end}[stdout]
        command = [*KLOGTOOL, "dump-log", str(log), "--max-bytes", "3000" if stdout == "terminal" else "100000000"]
        environment = {**os.environ, "TERM": "xterm"}
        subprocess.run(command, cwd=ROOT, env=environment, stdout=to, stderr=other_end, timeout=60, check=False)
    os.close(other_end)
    listening.join()
    os.close(terminal)
    assert (b"MiB" in seen) == drawn


def _gather(terminal: int, seen: bytearray) -> None:
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
        while piece := os.read(terminal, 1 << 16):
            seen += piece
