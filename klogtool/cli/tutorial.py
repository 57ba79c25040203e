"""klogtool tutorial: makes a damaged log dir, and leads through doctor, plan, apply and undo.

The commands are klogtool's own. They run in this process, in the tutorial's folder, and write to nothing else.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator

import click

from klogtool import interrupts
from klogtool.building.spec_text import read_spec
from klogtool.cli import commands
from klogtool.cli.main import run
from klogtool.cli.output import Output
from klogtool.cli.status import COULD_NOT, DONE, INTERRUPTED, READER_GONE
from klogtool.cli.tutorial_steps import CONCLUSION, INTRODUCTION, LOGS, SPEC, STEPS, TutorialStep
from klogtool.disk.building import write_log_dir
from klogtool.disk.output import check_in_no_log_dir, check_place
from klogtool.disk.scratch import Scratch
from klogtool.plans.build import decide

NAME, PROMPT = "klogtool", "> "
QUIT, HELP = ("q", "quit", "exit"), ("?", "h", "help")
MOST_LINE_BYTES, MOST_SHOWN = 1 << 16, 40
HOW = "Type this command, or press Enter to run it. q quits."


@commands.command("tutorial")
@click.option("-y", "--yes", is_flag=True, help="Run all commands without asking.")
@click.option("--keep", is_flag=True, help="Do not delete the temporary folder at the end.")
@click.option(
    "--output",
    type=click.Path(),
    metavar="DIR",
    help="Use this folder instead of a temporary one, and keep it. It must be new or empty.",
)
def command(yes: bool, keep: bool, output: str | None) -> int:
    """Try klogtool on a damaged log dir that it makes for you: find the damage, repair it, take the repair back.

    There are ten steps. Each explains one command in a few lines. You type the command, or press Enter, and it runs.
    q, or the end of the input, quits. The log dir is in a new temporary folder, which is deleted at the end.

    \b
    Examples:
      klogtool tutorial
      klogtool tutorial --yes --output try-klogtool

    Exit status: 0 done, or quit; 2 wrong usage; 3 the output folder is not empty; 4 could not go on.
    """
    out = Output()
    with _folder(output, keep=keep) as folder:
        for line in INTRODUCTION:
            out.line(line)
        out.line(f"  {folder}")
        status = _lead(out, folder, asking=not yes)
    out.line("")
    out.line(f"The folder {'stays' if os.path.lexists(folder) else 'is deleted'}: {folder}")
    out.flush()
    return status


@contextlib.contextmanager
def _folder(output: str | None, *, keep: bool) -> Iterator[str]:
    """Make the folder with the log dir in it. It is deleted at the end, also after an error, unless it is to stay.

    Raises Refused for an output that is not empty, or in a log dir; KlogError if its parent does not exist.
    """
    if output is not None:
        check_place(output, None)
        check_in_no_log_dir(output, "the tutorial")
    scratch = Scratch.make("tutorial") if output is None else Scratch.at(os.path.abspath(output))
    is_made = False
    try:
        place = os.path.join(scratch.path, LOGS)
        write_log_dir(decide(place, read_spec(SPEC)), place)
        is_made = True
        yield scratch.path
    finally:
        if not (is_made and (keep or output is not None)):
            with interrupts.writing():
                scratch.remove()


def _lead(out: Output, folder: str, *, asking: bool) -> int:
    """Lead through the steps. Returns the exit status."""
    with contextlib.chdir(folder):
        for number, step in enumerate(STEPS, 1):
            for line in ("", f"{number}/{len(STEPS)}  {step.title}", *step.lines, ""):
                out.line(line)
            if asking and not _is_agreed(out, step):
                out.line(f"You left at step {number} of {len(STEPS)}.")
                return DONE
            if not asking:
                out.line(f"{PROMPT}{NAME} {step.command}")
            out.flush()
            status = run(shlex.split(step.command))
            if status in (INTERRUPTED, READER_GONE):
                return status
            interrupts.begin_work()  # the end of a run ignores signals
            out.line(f"(exit status {status})")
            if status != step.status:
                out.note(f"{NAME}: this command should end with exit status {step.status}. The tutorial stops here.")
                return COULD_NOT
            for line in ("", step.after):
                out.line(line)
    for line in ("", *CONCLUSION):
        out.line(line)
    return DONE


# What the user types.


def _is_agreed(out: Output, step: TutorialStep) -> bool:
    """Ask until the user wants the command to run (True) or quits (False)."""
    out.line(HOW)
    out.line(f"    {NAME} {step.command}")
    while True:
        out.write(PROMPT.encode())
        out.flush()
        typed = _line_typed()
        if typed is None or not sys.stdin.isatty():  # a terminal shows by itself what is typed
            out.line("" if typed is None else typed or f"{NAME} {step.command}")
        if typed is None or typed.lower() in QUIT:
            return False
        advice = hint(typed, step.command)
        if advice is None:
            return True
        out.line(advice)


def _line_typed() -> str | None:
    """Return the next line of stdin, without blanks around it; None at its end."""
    if sys.stdin is None:  # stdin is closed
        return None
    line = sys.stdin.buffer.readline(MOST_LINE_BYTES)
    return line.decode("utf-8", "replace").strip() if line else None


def hint(typed: str, command: str) -> str | None:
    """Say what is wrong with a line in place of `klogtool COMMAND`; None if nothing is: it is the command, or empty."""
    if not typed:
        return None
    if typed.lower() in HELP:
        return f"{HOW} The command is: {NAME} {command}"
    try:
        words = shlex.split(typed)
    except ValueError:
        return f"A quote has no end. The command is: {NAME} {command}"
    words = words[1:] if words[:1] in (["$"], [">"]) else words
    wanted = [NAME, *shlex.split(command)]
    words = words if words[:1] == [NAME] else [NAME, *words]
    for word, meant in zip(words, wanted, strict=False):
        if word.removeprefix("./").rstrip("/") != meant:
            return f"Not '{word[:MOST_SHOWN]}', but '{meant}'. The command is: {NAME} {command}"
    if len(words) < len(wanted):
        return f"'{wanted[len(words)]}' is missing. The command is: {NAME} {command}"
    if len(words) > len(wanted):
        return f"'{words[len(wanted)][:MOST_SHOWN]}' is too much. The command is: {NAME} {command}"
    return None
