#!/usr/bin/env python3
"""Draw docs/screens/*.svg: what a terminal shows when klogtool runs on a copy of a fixture.

Each drawing has its text in its <desc>, too: for who cannot see it, and for the test that runs the commands again.
Run by `make docs`.
"""

from __future__ import annotations

import dataclasses
import fcntl
import html
import io
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from xml.etree import ElementTree

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCREENS = ROOT / "docs/screens"
COLUMNS = 100
SHOWN_AS = "/var/lib/kafka-01"  # as long as the name of a temporary folder, so that lines break at the same places
FONT_FACES = re.compile(r"    @font-face \{\{.*?\}\}\n", re.DOTALL)  # they would be fetched
ID = re.compile(r"\b[0-9a-f]{12}\b")  # of plans and runs: it differs from folder to folder
HELD = re.compile(r"[\d,]+ bytes are held for undo\. ")  # whole blocks: they differ from file system to file system
# Every colour has a contrast of 4.5 or more on the background.
THEME = TerminalTheme(
    (24, 26, 31),
    (216, 218, 222),
    [(24, 26, 31), (255, 123, 114), (126, 211, 133), (242, 204, 96), *[(121, 192, 255)] * 3, (216, 218, 222)],
    [(110, 118, 129), (255, 123, 114), (126, 211, 133), (242, 204, 96), *[(121, 192, 255)] * 3, (255, 255, 255)],
)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A command with LOGDIR for the copy, and the lines of its output that are shown: the first and the last ones."""

    command: str
    first: int = 99
    last: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Screen:
    """A drawing: its name, its title, the fixture that is copied, and what is run."""

    name: str
    title: str
    fixture: str
    steps: tuple[Step, ...]


ALL = (
    Screen(
        "mended",
        "A broken broker mended",
        "killed-mid-append",
        (
            Step("klogtool doctor LOGDIR", first=6),
            Step("klogtool doctor LOGDIR --fix --option 1 --option 5 --plan-out plan.json --quiet", first=1, last=1),
            Step("klogtool apply plan.json --quiet"),
            Step("klogtool doctor LOGDIR", first=1),
        ),
    ),
    Screen("doctor", "What would a broker do?", "killed-mid-append", (Step("klogtool doctor LOGDIR", first=20),)),
    Screen("verify", "What is damaged?", "killed-mid-append", (Step("klogtool verify LOGDIR/flip-bit-0"),)),
    Screen(
        "recover",
        "What would a broker cut?",
        "killed-mid-append",
        (Step("klogtool recover LOGDIR/flip-bit-0", first=11),),
    ),
    Screen(
        "salvage",
        "Keep what is sound",
        "killed-mid-append",
        (
            Step("klogtool salvage LOGDIR/flip-bit-0 --output saved-0", first=8, last=1),
            Step("klogtool verify saved-0"),
        ),
    ),
    Screen(
        "offsets",
        "What did the groups commit?",
        "groups",
        (Step("klogtool offsets LOGDIR --group g-new --group g-u"),),
    ),
)


def on_terminal(command: str, folder: pathlib.Path) -> str:
    """stdout of a shell command on a terminal, with its colours; stderr has no part in it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    environment.pop("NO_COLOR", None)
    program = subprocess.Popen(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment,
    )
    os.close(theirs)
    out = b""
    try:
        while piece := os.read(ours, 1 << 16):
            out += piece
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(ours)
    program.wait()
    return out.decode().replace("\r\n", "\n")


def shown(step: Step, logdir: pathlib.Path, folder: pathlib.Path) -> str:
    """The prompt with the command, and the lines of its output that are shown."""
    lines = on_terminal(step.command.replace("LOGDIR", str(logdir)), folder).splitlines()
    if len(lines) > step.first + step.last:
        lines = [*lines[: step.first], "...", *lines[len(lines) - step.last :]]
    text = "\n".join([f"\x1b[1m$ {step.command}\x1b[0m", *lines]).replace("LOGDIR", SHOWN_AS)
    text = text.replace(str(logdir), SHOWN_AS).replace(logdir.name, pathlib.Path(SHOWN_AS).name)
    return HELD.sub("131,072 bytes are held for undo. ", ID.sub("5f2c81d07b9e", text))


def text_of(screen: Screen) -> str:
    """What the terminal shows, with colours, when the commands run on a copy of the fixture."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(prefix="klog", dir="/tmp") as copy:
        assert len(copy) == len(SHOWN_AS)
        shutil.copytree(ROOT / "fixtures" / screen.fixture / "logdir", copy, dirs_exist_ok=True)
        work = pathlib.Path(folder)
        text = "\n\n".join(shown(step, pathlib.Path(copy), work) for step in screen.steps)
        shutil.rmtree(f"{copy}.klogtool", ignore_errors=True)  # the journal of what was applied
    return text


def plain(text: str) -> str:
    """The text without colours."""
    return Text.from_ansi(text).plain


def drawing(screen: Screen, text: str) -> str:
    """The drawing as SVG, which fetches no font."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(text))
    drawn = console.export_svg(
        title=screen.title, theme=THEME, code_format=FONT_FACES.sub("", CONSOLE_SVG_FORMAT), unique_id=screen.name
    )
    described = f"<title>{html.escape(screen.title)}</title>\n<desc>{html.escape(plain(text))}</desc>"
    return re.sub(r"(<svg [^>]*>)", lambda found: f"{found[1]}\n{described}", drawn, count=1)


def described(path: pathlib.Path) -> str:
    """The text in the <desc> of a drawing."""
    found = ElementTree.parse(path).getroot().find("{http://www.w3.org/2000/svg}desc")
    assert found is not None
    return found.text or ""


def main() -> None:
    """Draw all of them."""
    SCREENS.mkdir(exist_ok=True)
    for screen in ALL:
        (SCREENS / f"{screen.name}.svg").write_text(drawing(screen, text_of(screen)), encoding="utf-8")


if __name__ == "__main__":
    main()
