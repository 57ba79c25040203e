"""The man pages and completion scripts: made from the commands, without warnings, in a released wheel."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import tomllib

import pytest
from running import ROOT, run_here, tool

from klogtool.cli.fleet import FLEET_COMMANDS
from klogtool.cli.main import COMMANDS
from klogtool.cli.remote import REMOTE_COMMANDS
from klogtool.cli.spark import SPARK_COMMANDS

MADE: dict[str, str] = tool("make_man_pages").files()
PAGES = {path.removeprefix("man/man1/"): text for path, text in MADE.items() if path.startswith("man/man1/")}
GROUPS = {"fleet": FLEET_COMMANDS, "remote": REMOTE_COMMANDS, "spark": SPARK_COMMANDS}
SUBCOMMANDS = [(group, name) for group, commands in GROUPS.items() for name in commands]
WORDS = [(), *((name,) for name in COMMANDS), *SUBCOMMANDS]
SCRIPTS = {
    "bash": "bash-completion/completions/klogtool",
    "zsh": "zsh/site-functions/_klogtool",
    "fish": "fish/vendor_completions.d/klogtool.fish",
}


def page_of(words: tuple[str, ...]) -> str:
    """The page of a command."""
    return PAGES[f"{'-'.join(['klogtool', *words])}.1"]


def plain(roff: str) -> str:
    """A page without its escapes."""
    text = re.sub(r"\\f.|\\:|\\&", "", roff).replace("\\-", "-").replace("\\(aq", "'").replace("\\(ga", "`")
    return text.replace("\\(dq", '"').replace("\\(ti", "~").replace("\\(ha", "^").replace("\\e", "\\")


def test_there_is_a_page_for_each_command_and_no_other() -> None:
    assert PAGES.keys() == {f"{'-'.join(['klogtool', *words])}.1" for words in WORDS}


@pytest.mark.parametrize("words", WORDS, ids=lambda words: "-".join(words) or "klogtool")
def test_a_page_has_all_that_help_has(words: tuple[str, ...]) -> None:
    page = " ".join(plain(page_of(words)).split())
    told = run_here([*words, "--help"], ROOT).out.decode()
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", told))
    assert options
    assert {option for option in options if option not in page} == set()
    for heading in (".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS", ".SH SEE ALSO"):
        assert heading in page
    assert (".SH EXIT STATUS" in page) == ("Exit status: " in told)
    assert " ".join(told.partition("Usage: ")[2].partition("\n\n")[0].split()) in page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_plain_roff_in_short_lines(name: str) -> None:
    text = PAGES[name]
    assert text.isascii()
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".SS", ".PP", ".TP", ".nh", ".ad", ".nf", ".fi"}
    whole = ("\\fI", "\\fB", ".TH", "  klogtool ")  # an example is one line
    assert not [line for line in text.splitlines() if len(line) > 80 and not line.startswith(whole)]
    for other in re.findall(r"\\fB(klogtool[a-z\\-]*)\\fR\(1\)", text):
        assert f"{plain(other)}.1" in PAGES


CHECKS = (
    ["mandoc", "-T", "lint", "-W", "style"],
    ["man", "--warnings", "-l", "-Tutf8", "-Z"],
    ["groff", "-man", "-ww", "-Tutf8", "-z"],
)


@pytest.mark.parametrize("name", PAGES)
def test_programs_that_read_man_pages_warn_of_nothing(name: str, tmp_path: pathlib.Path) -> None:
    """Those that are installed here."""
    page = tmp_path / name
    page.write_text(PAGES[name], encoding="utf-8")
    for check in CHECKS:
        if shutil.which(check[0]) is not None:
            done = subprocess.run([*check, str(page)], capture_output=True, timeout=60)
            warned = done.stderr + (done.stdout if check[0] == "mandoc" else b"")
            assert (done.returncode, warned.decode()) == (0, ""), check
    if shutil.which("lexgrog") is not None:  # what whatis and apropos know
        named = subprocess.run(["lexgrog", str(page)], capture_output=True, timeout=60).stdout.decode()
        assert f'"{page.stem} - ' in named


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_is_what_klogtool_completion_prints(shell: str, tmp_path: pathlib.Path) -> None:
    assert MADE[SCRIPTS[shell]].encode() == run_here(["completion", shell], tmp_path).out


def test_a_wheel_has_all_of_it(tmp_path: pathlib.Path) -> None:
    """What tools/make_dist.sh writes to share/, pyproject.toml brings to the folder of the same name."""
    tool("make_man_pages").main(str(tmp_path / "share"))
    written = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*") if path.is_file()}
    assert {path: file.read_text() for path, file in written.items()} == {f"share/{at}": MADE[at] for at in MADE}
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    brought = {
        str(path.relative_to(tmp_path)): folder
        for folder, patterns in listed.items()
        for pattern in patterns
        for path in tmp_path.glob(pattern)
    }
    assert brought == {path: str(pathlib.PurePath(path).parent) for path in written}
    assert "make_man_pages.py" in (ROOT / "tools/make_dist.sh").read_text()


def test_the_script_for_zsh_names_its_command_in_the_first_line() -> None:
    """compinit looks for it there."""
    assert MADE[SCRIPTS["zsh"]].startswith("#compdef klogtool\n")
