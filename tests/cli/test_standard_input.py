"""`klogtool dump-log -`: the bytes of a segment on standard input, from a pipe or a file."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from running import FIXTURES, KLOGTOOL, ROOT, Done, run_apart

from klogtool.disk import standard_input
from klogtool.disk.standard_input import open_standard_input
from klogtool.errors import KlogError

LOG = FIXTURES / "transactions/logdir/t-0/00000000000000000000.log"


def dump(*words: str, data: bytes | None = None, file: pathlib.Path | None = None) -> Done:
    if file is None:
        return run_apart("dump-log", *words, typed=data)
    with file.open("rb") as stream:
        return run_apart("dump-log", *words, stdin=stream.fileno())


def of_the_file(*words: str) -> bytes:
    return run_apart("dump-log", LOG, *words).out


@pytest.mark.parametrize("words", [[], ["--deep-iteration"], ["--print-data-log"], ["--format", "json"]], ids=str)
def test_the_dump_is_that_of_the_file(words: list[str]) -> None:
    expected = of_the_file(*words).replace(os.fsencode(LOG), b"-")
    for done in (dump("-", *words, data=LOG.read_bytes()), dump("-", *words, file=LOG)):
        assert (done.status, done.err) == (0, "")
        assert done.out == expected


def test_nobody_knows_the_topic() -> None:
    done = dump("-", "--format", "csv", data=LOG.read_bytes())
    assert done.status == 0
    expected = of_the_file("--format", "csv").replace(b',"t",0,', b",,,").replace(b'"%b"' % LOG.name.encode(), b'"-"')
    assert done.out == expected


def test_parquet_from_standard_input(tmp_path: pathlib.Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    output = tmp_path / "x.parquet"
    done = dump("-", "--format", "parquet", "--output", str(output), data=LOG.read_bytes())
    assert (done.status, done.err) == (0, "")
    assert parquet.read_table(output).num_rows == of_the_file("--format", "json").count(b'"type":"record"')


def test_nothing_and_damage() -> None:
    empty = dump("-", data=b"")
    assert (empty.status, empty.out) == (0, b"Dumping -\nLog starting offset: 0\n")
    torn = dump("-", data=LOG.read_bytes()[:-5])
    assert torn.status == 1
    assert torn.err.startswith("klogtool: -: ")
    assert "Traceback" not in torn.err


def test_what_reads_no_standard_input_says_what_does() -> None:
    for command in ("verify", "lookup", "hash"):
        words = ["--offset", "1"] if command == "lookup" else []
        done = run_apart(command, "-", *words, typed=b"")
        assert done.status == 2
        assert done.err.splitlines() == [
            "klogtool: -: no such file or directory",
            "Only dump-log, append and explain read standard input. ./- is a file of this name.",
        ]


def test_twice_is_once_too_often() -> None:
    done = dump("-", "-", data=b"")
    assert done.status == 2
    assert "Standard input can be read once only." in done.err


def test_kafkas_own_option_has_files_only() -> None:
    done = dump("--files", "-", data=LOG.read_bytes())
    assert done.err.startswith("Ignoring unknown file -")


def test_no_end_is_waited_for_and_an_interrupt_ends_it() -> None:
    command, pipe = [*KLOGTOOL, "dump-log", "-"], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT)
    assert process.stdin is not None
    process.stdin.write(LOG.read_bytes())
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not _copies(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    printed, told = process.communicate(timeout=30)
    assert (process.returncode, printed, told) == (130, b"", b"")


def _copies(pid: int) -> list[str]:
    """The open files of a process that have no name."""
    links = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            links.append(os.readlink(fd))
    return [link for link in links if "(deleted)" in link]


def test_a_limit_and_a_copy_without_a_name(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(standard_input, "PIECE_BYTES", 10)
    reading, writing = os.pipe()
    os.write(writing, bytes(range(100)))
    os.close(writing)
    with os.fdopen(reading, "rb") as stream, pytest.raises(KlogError, match="more than 99 bytes"):
        open_standard_input(stream, most_bytes=99)
    reading, writing = os.pipe()
    os.write(writing, bytes(range(100)))
    os.close(writing)
    with os.fdopen(reading, "rb") as stream, open_standard_input(stream) as file:
        assert list(tmp_path.iterdir()) == []
        assert (file.path, file.size, file.read(3, 4)) == ("-", 100, bytes([3, 4, 5, 6]))
        with file.again() as other:
            assert other.read(0, 2) == b"\0\1"


def test_standard_input_that_is_closed() -> None:
    with pytest.raises(KlogError, match="standard input is closed"):
        open_standard_input(None)


COMMANDS = ["explain -", "dump-log -", "build - --output {new}", "append {partition} --records -"]


@pytest.mark.parametrize("command", [*COMMANDS, "append {partition} --batches -", "tutorial"])
def test_a_command_whose_standard_input_is_closed(command: str, tmp_path: pathlib.Path) -> None:
    partition = shutil.copytree(ROOT / "fixtures/every-codec/logdir", tmp_path / "logdir") / "numbers-0"
    words = command.format(new=tmp_path / "new", partition=partition)
    done = subprocess.run(
        ["sh", "-c", f"exec {shlex.join(KLOGTOOL)} {words} <&-"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0 if command == "tutorial" else 2, False), done.stderr
    assert os.listdir(tmp_path) == ["logdir"]


@pytest.mark.parametrize("command", [*COMMANDS, "tutorial"])
@pytest.mark.parametrize("place", ["/dev/null", "a pipe"])
def test_a_command_whose_standard_input_is_open_for_writing_only(
    command: str, place: str, tmp_path: pathlib.Path
) -> None:
    """nohup opens /dev/null so. It was told as a closed stdout; with a pipe klogtool waited for ever."""
    partition = shutil.copytree(ROOT / "fixtures/every-codec/logdir", tmp_path / "logdir") / "numbers-0"
    words = command.format(new=tmp_path / "new", partition=partition)
    reading, writing = os.pipe()
    given = writing if place == "a pipe" else os.open(place, os.O_WRONLY)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [*KLOGTOOL, *shlex.split(words)],
        stdin=given, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60, env=environment,
    )  # fmt: skip
    for each in {reading, writing, given}:
        os.close(each)
    assert (done.returncode, done.stderr) == (4, "klogtool: -: bad file descriptor\n")
    assert os.listdir(tmp_path) == ["logdir"]


MANY = """
import os, resource, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 2048), most))
for _ in range(1100):
    os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_standard_input_beside_more_open_files_than_select_takes() -> None:
    command = [sys.executable, "-c", MANY, *KLOGTOOL, "explain", "-"]
    done = subprocess.run(command, input="a text", capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "no message that klogtool knows is in 'a text'" in done.stderr
