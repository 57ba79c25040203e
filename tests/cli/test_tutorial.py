"""`klogtool tutorial`: ten steps, by Enter, by typing, by --yes; left at any of them; nothing stays behind."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import select
import signal
import stat
import subprocess
import time
from collections.abc import Callable

import pytest
from running import KLOGTOOL, ROOT, Done, run_apart, run_here, tree_of

from klogtool.cli.tutorial import hint
from klogtool.cli.tutorial_steps import STEPS

COMMANDS = [f"klogtool {step.command}" for step in STEPS]
Tutorial = Callable[..., Done]


@pytest.fixture
def tutorial(tmp_path: pathlib.Path) -> Tutorial:
    """`tutorial(text, "--keep")`: a process of its own, with `text` as stdin; its temporary files are in tmp_path."""

    def run(typed: str | bytes = "", *options: str, temporary: pathlib.Path = tmp_path) -> Done:
        text = typed.encode() if isinstance(typed, str) else typed
        done = run_apart("tutorial", *options, typed=text, environment={**os.environ, "TMPDIR": str(temporary)})
        assert "Traceback" not in done.err
        return done

    return run


def titles(done: Done) -> list[int]:
    """The numbers of the steps that were begun."""
    return [int(number) for number in re.findall(r"^(\d+)/10  ", done.out.decode(), re.MULTILINE)]


def statuses(done: Done) -> list[int]:
    """The exit statuses of the commands that were run."""
    return [int(number) for number in re.findall(r"^\(exit status (\d)\)$", done.out.decode(), re.MULTILINE)]


def test_there_are_ten_steps_of_short_plain_lines() -> None:
    assert len(STEPS) == 10
    for step in STEPS:
        assert 2 <= len(step.lines) <= 4
        assert all(len(line) <= 96 for line in (*step.lines, step.after))


def test_yes_runs_all_of_them_without_a_terminal_and_without_stdin(tutorial: Tutorial, tmp_path: pathlib.Path) -> None:
    done = tutorial("", "--yes")
    assert done.status == 0
    assert titles(done) == list(range(1, 11))
    assert statuses(done) == [step.status for step in STEPS]
    shown = re.findall(r"^> (.*)$", done.out.decode(), re.MULTILINE)
    assert shown == COMMANDS
    assert os.listdir(tmp_path) == []


def test_what_the_steps_say_is_what_the_commands_print(tutorial: Tutorial) -> None:
    told = re.split(r"^\d+/10  .*$", tutorial("", "--yes").out.decode(), flags=re.MULTILINE)[1:]
    assert "baseOffset: 5 lastOffset: 9" in told[0]
    assert "isvalid: false" not in told[0]
    assert "lost        10 records" in told[1]
    assert "loses nothing; can be undone" in told[1]
    for step in (2, 9):
        assert "batch-crc   bytes 268 to 558   offsets 25 to 29" in told[step]
    assert [told[3].count(f"isvalid: {valid}") for valid in ("true", "false")] == [2, 2]  # one more in the text
    assert "LOSES offsets 25 to 39" in told[4]
    assert "290 of 1,173 bytes rejected" in told[5]
    assert "logs.klogtool" in told[6].partition("Done.")[2]
    assert "0 errors" in told[7]
    assert "Undone" in told[8]


def test_the_same_in_this_process(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    here = os.getcwd()
    done = run_here(["tutorial", "--yes"], ROOT)
    assert (done.status, statuses(done)) == (0, [step.status for step in STEPS])
    assert os.getcwd() == here
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("typed", ["\n" * 10, "".join(f"{command}\n" for command in COMMANDS)], ids=["enter", "typed"])
def test_enter_and_the_command_run_it(typed: str, tutorial: Tutorial, tmp_path: pathlib.Path) -> None:
    done = tutorial(typed)
    assert (done.status, statuses(done)) == (0, [step.status for step in STEPS])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("last", ["q\n", "QUIT\n", ""])
@pytest.mark.parametrize("before", range(10))
def test_one_can_leave_at_each_prompt(before: int, last: str, tutorial: Tutorial, tmp_path: pathlib.Path) -> None:
    done = tutorial("\n" * before + last)
    assert (done.status, len(statuses(done)), titles(done)) == (0, before, list(range(1, before + 2)))
    assert f"You left at step {before + 1} of 10." in done.out.decode()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("klogtool doctr logs", "Not 'doctr', but 'doctor'."),
        ("doctor log", "Not 'log', but 'logs'."),
        ("rm -rf /", "Not 'rm', but 'doctor'."),
        ("klogtool", "'doctor' is missing."),
        ("klogtool doctor", "'logs' is missing."),
        ("klogtool doctor logs --fix", "'--fix' is too much."),
        ("klogtool 'doctor logs", "A quote has no end."),
        ("?", "Type this command"),
    ],
)
def test_a_wrong_word_gets_a_hint_and_the_command_once_more(typed: str, told: str) -> None:
    found = hint(typed, "doctor logs")
    assert found is not None
    assert found.startswith(told)
    assert found.endswith("The command is: klogtool doctor logs")


@pytest.mark.parametrize("typed", ["", "klogtool doctor logs", "doctor  logs/", "$ klogtool doctor './logs'"])
def test_the_command_may_be_typed_in_several_ways(typed: str) -> None:
    assert hint(typed, "doctor logs") is None


def test_hints_do_not_end_the_tutorial_and_run_nothing(tutorial: Tutorial) -> None:
    done = tutorial("\nfoo\nverify logs\n; rm -rf logs\n\nq\n")
    assert (done.status, statuses(done), titles(done)) == (0, [0, 1], [1, 2, 3])
    assert done.out.decode().count("The command is: klogtool doctor logs") == 3


@pytest.mark.parametrize("typed", [b"\0\xff\xfe\n", b"x" * 300_000, "\u202e\x1b]0;x\x07\n".encode()])
def test_any_bytes_are_wrong_words(typed: bytes, tutorial: Tutorial, tmp_path: pathlib.Path) -> None:
    done = tutorial(typed)
    assert (done.status, statuses(done), done.told) == (0, [], "")
    echoed = done.out.decode()
    assert not set(echoed) & set("\0\x1b\x07\u202e")
    assert os.listdir(tmp_path) == []


def test_keep_leaves_the_folder_where_it_is_told(tutorial: Tutorial, tmp_path: pathlib.Path) -> None:
    done = tutorial("q\n", "--keep")
    (folder,) = tmp_path.iterdir()
    assert f"The folder stays: {folder}" in done.out.decode()
    assert sorted(path.name for path in (folder / "logs").iterdir() if path.is_dir()) == ["orders-0", "payments-0"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("exists", [False, True])
def test_output_is_used_and_stays(exists: bool, tutorial: Tutorial, tmp_path: pathlib.Path) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    if exists:
        (tmp_path / "mine").mkdir()
    done = tutorial("", "--yes", "--output", str(tmp_path / "mine"), temporary=temporary)
    assert (done.status, os.listdir(temporary)) == (0, [])
    assert {"logs", "plan.json"} <= set(os.listdir(tmp_path / "mine"))
    assert f"The folder stays: {tmp_path / 'mine'}" in done.out.decode()


def test_the_undo_of_the_tutorial_gives_back_the_bytes_that_were_made(
    tutorial: Tutorial, tmp_path: pathlib.Path
) -> None:
    for name, options in (("left", []), ("done", ["--yes"])):
        assert tutorial("", "--output", str(tmp_path / name), *options).status == 0
    left, done = (
        {name: about[-1] for name, about in tree_of(tmp_path / name / "logs").items()} for name in ("left", "done")
    )
    assert left == done


def test_an_output_that_is_not_empty_or_in_a_log_dir_is_refused(tutorial: Tutorial, tmp_path: pathlib.Path) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    assert tutorial("", "--output", str(tmp_path / "first"), temporary=temporary).status == 0
    before = tree_of(tmp_path)
    for place in ("first", "first/logs/more", "first/logs/orders-1", "first/logs/orders-0/more"):
        done = tutorial("", "--yes", "--output", str(tmp_path / place), temporary=temporary)
        assert (done.status, done.out) == (3, b""), place
    assert tutorial("", "--yes", "--output", str(tmp_path / "no/such"), temporary=temporary).status == 2
    assert tree_of(tmp_path) == before


def test_an_output_below_nothing_is_one_line(tutorial: Tutorial, tmp_path: pathlib.Path) -> None:
    done = tutorial("", "--output", f"{tmp_path}/file/x")
    assert (done.status, done.out) == (2, b"")
    assert len(done.told.splitlines()) == 1


def test_a_command_that_ends_otherwise_stops_it(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("klogtool.cli.tutorial.run", lambda words: 4)
    done = run_here(["tutorial", "--yes"], ROOT)
    assert (done.status, titles(done)) == (4, [1])
    assert "The tutorial stops here" in done.told
    assert os.listdir(tmp_path) == []


def test_a_reader_that_goes_ends_it(tmp_path: pathlib.Path) -> None:
    command = [*KLOGTOOL, "tutorial", "--yes"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=ROOT) as run:
        assert run.stdout is not None
        run.stdout.close()
        assert run.wait(60) == 141
    assert os.listdir(tmp_path) == []


class Terminal:
    """The tutorial on a terminal of its own."""

    def __init__(self, temporary: pathlib.Path) -> None:
        self.main, other = pty.openpty()
        environment = {**os.environ, "TMPDIR": str(temporary), "NO_COLOR": "1", "COLUMNS": "100"}
        streams = {"stdin": other, "stdout": other, "stderr": other}
        self.run = subprocess.Popen(
            [*KLOGTOOL, "tutorial"], env=environment, cwd=ROOT, start_new_session=True, **streams
        )
        os.close(other)

    def read_to(self, end: str) -> str:
        """What is shown up to this text."""
        found, until = "", time.monotonic() + 60
        while not found.endswith(end):
            assert select.select([self.main], [], [], until - time.monotonic())[0], found
            try:
                data = os.read(self.main, 1 << 16)
            except OSError:  # the other end is closed
                data = b""
            assert data, found
            found += data.decode(errors="replace").replace("\r\n", "\n")
        return found

    def type(self, text: str) -> None:
        """Type this."""
        os.write(self.main, text.encode())

    def close(self) -> int:
        """The exit status."""
        try:
            return self.run.wait(60)
        finally:
            os.close(self.main)


@pytest.mark.parametrize("how", ["enter", "typed"])
def test_on_a_terminal(how: str, tmp_path: pathlib.Path) -> None:
    terminal = Terminal(tmp_path)
    for n, command in enumerate(COMMANDS, 1):
        shown = terminal.read_to("\n> ")
        assert f"{n}/10  " in shown
        assert f"    {command}\n" in shown
        terminal.type(f"{command if how == 'typed' else ''}\n")
    shown = terminal.read_to(f"klogtool-tutorial-{shown_end(tmp_path)}\n")
    assert "The folder is deleted" in shown
    assert terminal.close() == 0
    assert os.listdir(tmp_path) == []


def shown_end(tmp_path: pathlib.Path) -> str:
    """The end of the name of the temporary folder."""
    (folder,) = os.listdir(tmp_path)
    return folder.rpartition("-")[2]


@pytest.mark.parametrize("key", ["\x04", "q\n"], ids=["ctrl-d", "q"])
def test_on_a_terminal_one_can_leave(key: str, tmp_path: pathlib.Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.read_to("\n> ")
    terminal.type("wrong\n")
    assert "Not 'wrong', but 'dump-log'." in terminal.read_to("\n> ")
    name = shown_end(tmp_path)
    terminal.type(key)
    assert "You left at step 1 of 10." in terminal.read_to(f"{name}\n")
    assert terminal.close() == 0
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("after", [0, 3])
def test_a_signal_at_a_prompt_leaves_nothing(number: int, after: int, tmp_path: pathlib.Path) -> None:
    terminal = Terminal(tmp_path)
    for _ in range(after):
        terminal.read_to("\n> ")
        terminal.type("\n")
    terminal.read_to("\n> ")
    terminal.run.send_signal(number)
    assert terminal.close() == 130
    assert os.listdir(tmp_path) == []
