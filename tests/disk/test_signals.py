"""SIGINT, SIGTERM and SIGHUP: the step that is being done is finished, it is said which, and how to go on."""

from __future__ import annotations

import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest
from made import make_log_dir, picture
from running import run_here

TESTS = pathlib.Path(__file__).parent
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
# klogtool, with the command of these tests, which says where it is, and waits there.
PROGRAM = """
import os, sys
sys.argv[0] = "bin/klogtool"
sys.path[:0] = [sys.argv.pop(1), sys.argv.pop(1)]
from klogtool.cli import main
from klogtool.cli.main import COMMANDS
from klogtool.disk.disk import Disk
from klogtool.plans import decisions
decisions.DECISIONS["test"] = "made"
COMMANDS["test"] = ("made_command", "For tests.")
verb, name = sys.argv.pop(1), sys.argv.pop(1)
real = getattr(Disk, verb)
def waits(self, path, *more):
    if path.endswith(name):
        print("here", flush=True)
        for _ in sys.stdin:
            pass
    real(self, path, *more)
setattr(Disk, verb, waits)
main.main()
"""


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    return make_log_dir(box)


def signalled(sent: list[int], verb: str, name: str, *words: object) -> tuple[int, str]:
    """Status and stderr of klogtool, to which the signals are sent while it is at that call."""
    command = [sys.executable, "-c", PROGRAM, TESTS, TESTS.parent, verb, name, *words]
    with subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any(line == "here\n" for line in process.stdout), process.stderr.read()
        for number in sent:
            process.send_signal(number)
            time.sleep(0.05)
        _, told = process.communicate("")
        return process.returncode, told


@pytest.mark.parametrize("sent", [[number] for number in SIGNALS] + [SIGNALS], ids=str)
def test_in_the_middle_of_a_step(log_dir: pathlib.Path, sent: list[int]) -> None:
    before = picture(log_dir)
    index = "t-0/00000000000000000020.index"
    status, told = signalled(sent, "delete", index, "test", log_dir / "t-0", "--apply")
    assert status == 130, told
    lines = told.splitlines()
    assert lines[0] == f"klogtool: interrupted: step 9 of 11 is done: delete {log_dir / index}"
    assert not (log_dir / index).exists()
    assert len(lines) == 3
    words = shlex.split(lines[1].split("klogtool: interrupted; to take back what was done: klogtool ")[1])
    assert lines[2].startswith("To finish it: klogtool apply --resume ")
    assert run_here(shlex.split(lines[2].split("klogtool ")[1]), log_dir).status == 0
    assert run_here(words, log_dir).status == 0
    assert picture(log_dir) == before


@pytest.mark.parametrize("number", SIGNALS)
def test_while_all_is_laid_ready(log_dir: pathlib.Path, number: int) -> None:
    before = picture(log_dir)
    status, told = signalled([number], "link", "00000000000000000020.index", "test", log_dir / "t-0", "--apply")
    assert (status, told) == (130, "klogtool: interrupted: nothing was changed\n")
    assert picture(log_dir) == before
    assert os.listdir(log_dir.parent) == ["kafka"]


@pytest.mark.parametrize("number", SIGNALS)
def test_an_undo(log_dir: pathlib.Path, number: int) -> None:
    before = picture(log_dir)
    assert run_here(["test", str(log_dir / "t-0"), "--apply"], log_dir).status == 0
    status, told = signalled([number], "rename", ".undo.deleted", "undo", log_dir)
    assert status == 130
    assert told.startswith("klogtool: interrupted: undo is not finished; run it again: klogtool undo ")
    assert run_here(shlex.split(told.split("run it again: klogtool ")[1]), log_dir).status == 0
    assert picture(log_dir) == before


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_an_output(log_dir: pathlib.Path, box: pathlib.Path, number: int) -> None:
    name = "00000000000000000009.log"
    status, told = signalled([number], "write", name, "test", log_dir / "t-0", "--output", box / "out")
    assert (status, told) == (130, f"klogtool: interrupted: {box / 'out'} was not written, or it is complete\n")
    assert os.listdir(box) == ["kafka"]


# klogtool, which gets a signal just before it waits for its stdin: the handler of C has run, that of Python has not.
IN_THE_GAP = """
import ctypes, functools, operator, select, sys
sys.argv[0] = "bin/klogtool"
raising = functools.partial(ctypes.CDLL(None)["raise"], int(sys.argv.pop(1)))
waits = select.select
def in_the_gap(*files):
    return list(map(operator.call, [raising, functools.partial(waits, *files)]))[1]
from klogtool.cli import main
select.select = in_the_gap
main.main()
"""


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    "command", ["tutorial", "explain -", "dump-log -", "build - --output {new}", "append {partition} --records -"]
)
def test_just_before_stdin_is_read(command: str, number: int, log_dir: pathlib.Path) -> None:
    words = command.format(new=log_dir.parent / "new", partition=log_dir / "t-0").split()
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent.parent), "TMPDIR": str(log_dir.parent)}
    with subprocess.Popen(
        [sys.executable, "-c", IN_THE_GAP, str(int(number)), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        try:
            assert process.wait(60) == 130, process.stderr and process.stderr.read()
        finally:
            process.kill()
    assert os.listdir(log_dir.parent) == ["kafka"]


def test_a_signal_that_is_to_be_ignored_stays_ignored(log_dir: pathlib.Path) -> None:
    """As by nohup."""
    waits = "import signal,os,sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    told = subprocess.run(
        [sys.executable, "-c", waits, sys.executable, "-c", IGNORES], capture_output=True, text=True, check=True
    )
    assert told.stdout == "True\n"


IGNORES = """
import signal, sys
sys.argv[0] = "bin/klogtool"
from klogtool import interrupts
interrupts.begin_work()
print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN != signal.getsignal(signal.SIGTERM))
"""


@pytest.fixture(params=["script", "module"])
def way(request: pytest.FixtureRequest) -> list[str]:
    """The console script, and python -m."""
    script = pathlib.Path(sys.executable).with_name("klogtool")
    if request.param == "script" and not script.exists():
        pytest.skip("klogtool is not installed beside this Python")
    return [str(script)] if request.param == "script" else [sys.executable, "-m", "klogtool"]


@pytest.mark.slow
def test_a_start_that_is_interrupted_is_quiet(way: list[str], log_dir: pathlib.Path) -> None:
    """Whenever it is, from the first line of klogtool on: what Python does before that is Python's."""
    chosen, statuses = random.Random(22), set()
    for n in range(60):
        with subprocess.Popen([*way, "undo", "--list", log_dir], stdout=-1, stderr=-1, text=True) as process:
            time.sleep(chosen.random() * 0.1 * (1 + n % 4))
            process.send_signal(SIGNALS[n % 3])
            _, told = process.communicate()
        statuses.add(process.returncode)
        assert not re.search(r'File "[^"]*/klogtool/(?!__init__|interrupts)[^"]*\.py"', told), told
        # Without a traceback, no line of any file had begun.
        assert told in ("", "KeyboardInterrupt\n") or "Traceback" in told or "import_site" in told
    assert 130 in statuses


def test_a_program_that_imports_klogtool_keeps_its_handlers() -> None:
    code = "import signal; b = signal.getsignal(2); import klogtool.cli.main, klogtool; print(signal.getsignal(2) is b)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
