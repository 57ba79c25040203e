"""The command line's contract (docs/contract.md): exit statuses, stdout and stderr, help, version."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable

import pytest
from damage import append_bytes, flip_bit, tear_at
from readers import READERS, Reader
from running import FIXTURES, ROOT, Done
from vectors import BATCH, BATCH_WITH_HEADERS

from klogtool import kernels
from klogtool.cli.main import COMMANDS
from klogtool.cli.status import status_of
from klogtool.errors import AboveLimit, Corrupt, KlogError, Refused, Unsupported
from klogtool.log.file import unreadable
from klogtool.render.kafka_dump import KafkaDump

LOG = "00000000000000000000.log"
KAFKAS_OPTIONS = (
    *("files", "print-data-log", "deep-iteration", "skip-record-metadata", "max-message-size", "max-bytes"),
    *("verify-index-only", "index-sanity-check", "value-decoder-class", "key-decoder-class", "offsets-decoder"),
    *("transaction-log-decoder", "cluster-metadata-decoder", "remote-log-metadata-decoder"),
    "share-group-state-decoder",
)
Run = Callable[..., Done]


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "t-0" / LOG
    path.parent.mkdir()
    path.write_bytes(BATCH.data + BATCH_WITH_HEADERS.data)
    return path


@pytest.fixture
def run(tmp_path: pathlib.Path, klogtool: Run) -> Run:
    return lambda *args: klogtool(*args, folder=tmp_path)


# ---------------------------------------------------------------- exit statuses


def test_0_nothing_wrong(run: Run, log: pathlib.Path) -> None:
    for options in ([], ["--print-data-log"], ["--format", "json"], ["--resync"], ["--jobs", "2"]):
        assert run("dump-log", log, *options).status == 0
    assert run("dump-log", log.parent).status == 0


def test_1_damage(run: Run, log: pathlib.Path) -> None:
    flip_bit(log, 70)
    for options in ([], ["--format", "json"], ["--resync"], ["--quiet"]):
        done = run("dump-log", log, *options)
        assert (done.status, bool(done.out)) == (1, True)
    done = run("dump-log", log)
    assert f"klogtool: {log}: at byte 0: a batch does not match the checksum" in done.err


def test_1_a_tail_that_is_no_batch(run: Run, log: pathlib.Path) -> None:
    append_bytes(log, b"12345")
    done = run("dump-log", log)
    assert (done.status, done.out.endswith(f"Found 5 invalid bytes at the end of {LOG}\n".encode())) == (1, True)
    assert f"klogtool: {log}: at byte 167: 5 bytes at the end are not a whole batch" in done.err
    assert run("dump-log", log, "--max-bytes", "170").status == 0  # as if the log ended there, and it is not said


def test_1_where_kafkas_tool_would_have_died(run: Run, log: pathlib.Path) -> None:
    tear_at(log, 81)
    append_bytes(log, bytes(18))
    done = run("dump-log", log)
    assert (done.status, done.out.count(b"baseOffset")) == (1, 1)
    assert "at byte 81: record size 0 is smaller than the minimum record overhead (14)" in done.err


@pytest.mark.parametrize("words", [["dump-log"], ["dump-log", "--nothing"], ["nothing"], ["dump-log", "no-such-path"]])
def test_2_wrong_usage_or_no_such_path(run: Run, words: list[str]) -> None:
    done = run(*words)
    assert done.status == 2
    assert done.err
    assert "Traceback" not in done.err


def test_4_what_cannot_be_read(run: Run, log: pathlib.Path) -> None:
    fifo = log.with_name("00000000000000000005.log")
    os.mkfifo(fifo)
    done = run("dump-log", fifo)
    assert (done.status, f"klogtool: {fifo}: a FIFO, not a file" in done.err) == (4, True)


def test_the_worst_of_all_files_counts(run: Run, log: pathlib.Path) -> None:
    os.mkfifo(log.with_name("00000000000000000005.log"))
    flip_bit(log, 70)
    done = run("dump-log", log.parent, "no-such-path")
    assert done.status == 4
    assert done.out.count(b"baseOffset") == 2  # the others are read all the same


def test_130_an_interrupt_is_quiet(run: Run, log: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(KafkaDump, "_log", interrupted)
    monkeypatch.setattr("klogtool.render.kafka_dump.DUMPS", {".log": interrupted})
    done = run("dump-log", log)
    assert (done.status, done.told) == (130, "")


def test_130_an_interrupt_while_a_class_is_made(run: Run, log: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the import of a command's module: Python before 3.12 makes a RuntimeError of it."""

    class Interrupting:
        def __set_name__(self, *_: object) -> None:
            raise KeyboardInterrupt

    def interrupted(*_: object) -> None:
        type("Made", (), {"name": Interrupting()})

    monkeypatch.setattr(KafkaDump, "_log", interrupted)
    monkeypatch.setattr("klogtool.render.kafka_dump.DUMPS", {".log": interrupted})
    done = run("dump-log", log)
    assert (done.status, done.told) == (130, "")


def test_out_of_memory_is_an_error_like_others(run: Run, log: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("klogtool.render.kafka_dump.DUMPS", {".log": exhausted})
    done = run("dump-log", log)
    assert (done.status, done.err.splitlines()[-1]) == (4, "klogtool: out of memory")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Corrupt("damage"), 1),
        (Corrupt("no such key", kafka_class="NoSuchElementException"), 1),
        (Unsupported("codec", kafka_class="IllegalArgumentException"), 1),
        (AboveLimit("inflates to more than 5 bytes"), 4),
        (Refused("a broker is running"), 3),
        (KlogError("not an option", kafka_class="OptionArgumentConversionException"), 2),
        (unreadable("p", FileNotFoundError(errno.ENOENT, "no such file")), 2),
        (unreadable("p", NotADirectoryError(errno.ENOTDIR, "not a folder")), 2),
        (unreadable("p", PermissionError(errno.EACCES, "permission denied")), 4),
        (unreadable("p", OSError(errno.EIO, "input/output error"), 5), 4),
    ],
    ids=lambda value: f"{type(value).__name__}: {value}" if isinstance(value, KlogError) else "",
)
def test_which_status_an_error_is(error: KlogError, status: int) -> None:
    assert status_of(error) == status


# ---------------------------------------------------------------- stdout and stderr


def test_the_result_and_nothing_else_is_on_stdout(run: Run, log: pathlib.Path) -> None:
    foreign = log.with_name("notes.txt")
    foreign.write_text("mine")
    done = run("dump-log", log, foreign, "--print-data-log")
    assert f"klogtool: {foreign}: not a file of Kafka's" in done.err
    assert b"Kafka" not in done.out
    assert f"Non-consecutive offsets in {log}\n  1 is followed by 20\n" in done.err
    quiet = run("dump-log", log, foreign, "--print-data-log", "--quiet")
    assert (quiet.out, quiet.told) == (done.out, "")


@pytest.mark.parametrize("reader", [Reader(name) for name in READERS], ids=READERS)
def test_who_reads_slowly_is_told_once(run: Run, log: pathlib.Path, reader: Reader) -> None:
    if reader.name == "kernel" and not kernels.is_built():
        pytest.skip("needs the extension, which is not built")
    with reader.reading():
        done = run("dump-log", log, log)
    assert done.status == 0
    assert done.err.count("slow") == (reader.name == "reference")


def test_both_readers_print_the_same(run: Run) -> None:
    path = FIXTURES / "three-magics/logdir"
    shown = set()
    for name in READERS if kernels.is_built() else READERS[:1]:
        with Reader(name).reading():
            shown.add((run("dump-log", path, "--print-data-log").out, run("dump-log", path, "--format", "json").out))
    assert len(shown) == 1


# ---------------------------------------------------------------- help, version, JSON


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help(run: Run, word: str) -> None:
    done = run(word)
    assert (done.status, done.err) == (0, "")
    assert all(f"  {name} " in done.out.decode() for name in COMMANDS)


def test_help_of_dump_log_has_every_option_of_kafkas(run: Run) -> None:
    text = run("dump-log", "--help").out.decode()
    for option in KAFKAS_OPTIONS:
        assert f"--{option}" in text, option
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.slow
@pytest.mark.parametrize("command", ["dump-log", "verify"])
def test_what_draws_no_bar_does_not_import_what_draws_it(log: pathlib.Path, command: str) -> None:
    """rich takes a fifth of the start."""
    code = (
        f"import sys; from klogtool.cli.main import run; run([{command!r}, {str(log)!r}]); print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, timeout=60, check=True)
    assert done.stdout.endswith(b"\nFalse\n")


def test_version(run: Run) -> None:
    done = run("--version")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(b"klogtool ")
    assert b"Kafka 4.3.1" in done.out
    assert (b"reference reader" in done.out) == (not kernels.is_built())


@pytest.mark.parametrize("words", [["--version", "--verbose"], ["--verbose", "--version"]])
def test_the_version_for_a_bug_report(run: Run, words: list[str]) -> None:
    done = run(*words)
    assert (done.status, done.err) == (0, "")
    first, *lines = done.out.decode().splitlines()
    assert first == run("--version").out.decode().rstrip()
    told = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    names = [
        "kernels",
        "CPU",
        "Python",
        "platform",
        "libc",
        "encoding",
        "here",
        "packages",
    ]
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert list(told) == [*names, *(f"[{extra}]" for extra in extras)]
    assert ("MISSING" in told["kernels"]) == (not kernels.is_built())
    assert re.fullmatch(r"click [\d.]+, construct [\d.]+, .*", told["packages"])
    assert "MISSING" not in told["packages"]
    assert told["Python"].endswith(platform.python_version())


def test_it_has_nothing_private(run: Run) -> None:
    shown = run("--version", "--verbose").out.decode()
    private = [platform.node(), os.path.expanduser("~"), str(ROOT), os.getcwd(), sys.prefix]
    assert [text for text in private if len(text) > 3 and text in shown] == []


def test_kernels_that_are_missing_are_told_loudly() -> None:
    code = (
        "import sys, klogtool; sys.modules['klogtool.kernels._native'] = None\n"
        "from klogtool.cli.main import run; run(['--version', '--verbose'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, timeout=60, check=True)
    assert b"kernels:     MISSING: the reference reader runs, about a hundred times slower (" in done.stdout


def test_verbose_belongs_to_version(run: Run) -> None:
    for words in (["--verbose"], ["--verbose", "verify", "x"]):
        done = run(*words)
        assert (done.status, done.out) == (2, b"")
        assert done.err.startswith("klogtool: --verbose goes with --version")


@pytest.mark.parametrize("how", [[], ["--files"]])
def test_json_begins_with_a_line_about_itself(run: Run, log: pathlib.Path, how: list[str]) -> None:
    first, *rows = map(json.loads, run("dump-log", "--format", "json", *how, log).out.splitlines())
    assert list(first) == ["type", "version", "schema", "command"]
    assert (first["type"], first["schema"], first["command"]) == ("klogtool", 1, "dump-log")
    assert [row["type"] for row in rows] == ["batch", "record", "record"] * 2
    assert {row["file"] for row in rows} == {str(log)}


def test_json_tells_of_a_tail_and_of_a_file_that_cannot_be_read(run: Run, log: pathlib.Path) -> None:
    append_bytes(log, b"12345")
    fifo = log.with_name("00000000000000000009.log")
    os.mkfifo(fifo)
    done = run("dump-log", "--format", "json", log, fifo)
    *_, tail, error = map(json.loads, done.out.splitlines())
    assert tail == {"type": "trailing-bytes", "file": str(log), "position": 167, "size": 5}
    assert (error["type"], error["file"], error["detail"]) == ("error", str(fifo), "a FIFO, not a file")
    assert done.status == 4
