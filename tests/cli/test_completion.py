"""`klogtool completion`: what a real bash proposes; zsh and fish read their scripts, where they are installed."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import click
import pytest
from running import ROOT, path_of_shells, run_here

from klogtool.cli.completion import _type_of
from klogtool.cli.main import COMMANDS, cli

# `compopt` works only while bash completes; here it says which way bash would go on by itself.
ASK = """
eval "$(klogtool completion bash)"
compopt() { COMPREPLY+=("<$2>"); }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_klogtool_completion klogtool && printf '%s\\n' "${COMPREPLY[@]}"
"""
FILES, FOLDERS = "<default>", "<dirnames>"


def bash(script: str, *words: str) -> str:
    command, environment = ["bash", "--norc", "-c", script, "bash", *words], {**os.environ, "PATH": path_of_shells()}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=60)
    assert done.stderr == b""
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        ("klogtool comp", "compact completion"),
        ("klogtool --vers", "--version"),
        ("klogtool dump-log --for", "--format"),
        ("klogtool dump-log --format js", "json"),
        ("klogtool dump-log --format = cs", "csv"),
        ("klogtool dump-log x", FILES),
        ("klogtool dump-log --output x", FILES),
        ("klogtool retain --journal x", FOLDERS),
        ("klogtool doctor x", FOLDERS),
        ("klogtool retain --config-file x", FILES),
        ("klogtool retain --config x", ""),
        ("klogtool explain batch-c", "batch-crc"),
        ("klogtool help compl", "completion"),
        ("klogtool spark ver", "verify"),
        ("klogtool completion z", "zsh"),
        ("klogtool no-such-command x", ""),
        ("klogtool dump-log --no-such-option x", FILES),
    ],
)
def test_bash_proposes(words: str, proposed: str) -> None:
    assert bash(ASK, *words.split()).split() == proposed.split()


def test_bash_knows_all_commands() -> None:
    assert set(bash(ASK, "klogtool", "").split()) == set(COMMANDS)


def test_bash_has_it_as_its_completion() -> None:
    assert "-F _klogtool_completion klogtool" in bash('eval "$(klogtool completion bash)"; complete -p klogtool')


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, tmp_path: pathlib.Path) -> None:
    done = run_here(["completion", shell], tmp_path)
    assert (done.status, done.told) == (0, "")
    assert f"_KLOGTOOL_COMPLETE={shell}_complete" in done.out.decode()
    if (found := shutil.which(shell)) is not None:
        script = tmp_path / "script"
        script.write_bytes(done.out)
        assert subprocess.run([found, "-n", str(script)], capture_output=True, timeout=60).stderr == b""


def test_a_variable_that_asks_nothing_changes_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "bash", "bash_complete", "perl_complete"):
        monkeypatch.setenv("_KLOGTOOL_COMPLETE", value)
        assert run_here(["--version"], tmp_path).out.startswith(b"klogtool ")


def walk_commands(group: click.Group) -> Iterator[click.Command]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield from walk_commands(command) if isinstance(command, click.Group) else (command,)


@pytest.mark.parametrize(("words", "kind"), [({"FILE", "PLAN"}, "file"), ({"DIR", "LOGDIR"}, "dir")])
def test_the_shell_completes_each_value_that_names_a_file_or_a_folder(words: set[str], kind: str) -> None:
    found = 0
    for command in walk_commands(cli):
        for option in (param for param in command.params if isinstance(param, click.Option)):
            if not option.is_flag and (option.metavar or "") in words:
                known = _type_of(command, option, cli)
                assert known is not None, f"{command.name} {option.opts[-1]}"
                (item,) = known.shell_complete(click.Context(command), option, "x")
                assert item.type == kind, f"{command.name} {option.opts[-1]}"
                found += 1
    assert found > 10
