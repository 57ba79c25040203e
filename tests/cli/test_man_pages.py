"""The man pages and completion scripts of share/: made from the commands, current, without warnings, in the wheel."""

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
from klogtool.cli.spark import SPARK_COMMANDS

SHARE = ROOT / "share"
PAGES = sorted((SHARE / "man/man1").glob("*.1"))
SUBCOMMANDS = [("fleet", name) for name in FLEET_COMMANDS] + [("spark", name) for name in SPARK_COMMANDS]
WORDS = [(), *((name,) for name in COMMANDS), *SUBCOMMANDS]
SCRIPTS = {
    "bash": "bash-completion/completions/klogtool",
    "zsh": "zsh/site-functions/_klogtool",
    "fish": "fish/vendor_completions.d/klogtool.fish",
}


def shared() -> dict[str, str]:
    """What lies in share/."""
    return {
        str(path.relative_to(SHARE)): path.read_text(encoding="utf-8") for path in SHARE.rglob("*") if path.is_file()
    }


def page_of(words: tuple[str, ...]) -> str:
    """The page of a command."""
    return (SHARE / "man/man1" / f"{'-'.join(['klogtool', *words])}.1").read_text(encoding="utf-8")


def plain(roff: str) -> str:
    """A page without its escapes."""
    text = re.sub(r"\\f.|\\:|\\&", "", roff).replace("\\-", "-").replace("\\(aq", "'").replace("\\(ga", "`")
    return text.replace("\\(dq", '"').replace("\\(ti", "~").replace("\\(ha", "^").replace("\\e", "\\")


def test_share_is_what_the_commands_say() -> None:
    made = tool("make_man_pages").files()
    found = shared()
    assert made.keys() == found.keys(), "run `make docs`"
    assert [path for path in made if made[path] != found[path]] == [], "run `make docs`"


def test_there_is_a_page_for_each_command_and_no_other() -> None:
    assert {path.stem for path in PAGES} == {"-".join(["klogtool", *words]) for words in WORDS}


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_plain_roff_in_short_lines(page: pathlib.Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.isascii()
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".SS", ".PP", ".TP", ".nh", ".ad", ".nf", ".fi"}
    whole = ("\\fI", "\\fB", ".TH", "  klogtool ")  # an example is one line
    assert not [line for line in text.splitlines() if len(line) > 80 and not line.startswith(whole)]
    for name in re.findall(r"\\fB(klogtool[a-z\\-]*)\\fR\(1\)", text):
        assert page.with_name(f"{plain(name)}.1").exists()


CHECKS = (
    ["mandoc", "-T", "lint", "-W", "style"],
    ["man", "--warnings", "-l", "-Tutf8", "-Z"],
    ["groff", "-man", "-ww", "-Tutf8", "-z"],
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_that_read_man_pages_warn_of_nothing(page: pathlib.Path) -> None:
    """Those that are installed here."""
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
    assert (SHARE / SCRIPTS[shell]).read_bytes() == run_here(["completion", shell], tmp_path).out


def test_a_wheel_has_all_of_it() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    found = {path: folder for folder, patterns in listed.items() for name in patterns for path in ROOT.glob(name)}
    assert {str(path.relative_to(SHARE)) for path in found} == shared().keys()
    assert all(str(path.parent.relative_to(ROOT)) == folder for path, folder in found.items())


def test_the_script_for_zsh_names_its_command_in_the_first_line() -> None:
    """compinit looks for it there."""
    assert (SHARE / SCRIPTS["zsh"]).read_text().startswith("#compdef klogtool\n")
