"""The same word means the same in all commands: -o, --json, -v, examples, what a broker would know; and older names."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import shlex

import click
import pytest
from running import FIXTURES, ROOT, run_here, tool

from klogtool.broker.circumstances import Circumstances
from klogtool.cli.commands import HEADINGS, MEANINGS, PATHS, WHAT_A_BROKER_KNOWS
from klogtool.cli.main import COMMANDS
from klogtool.errors import KlogError
from klogtool.parameters import parameters_of

DAMAGED = "killed-mid-append/logdir/flip-bit-0"
SCREEN, BARE = 45, 40
NO_ANSWER = {"completion", "help", "tutorial"}  # they print a script, and what somebody types
CONTEXTS = {context.command_path.partition(" ")[2]: context for context in tool("make_man_pages").contexts()}
SINGLE = [name for name, context in CONTEXTS.items() if not isinstance(context.command, click.Group)]

SAME_KIND = {"E": "N", "M": "N", "OFFSET": "N", "NAME": "TOPIC"}  # numbers, and names of topics
# Words that stand for two kinds of value, and why.
TWO_KINDS = {
    "--fail-on": "of verify a severity, of doctor what a start does",
    "--format": "text and json everywhere; also reports of CI systems, tables, and what another tool of Kafka's reads",
    "--from": "the first offset of hash; the page that doctor prints again",
    "--key": "a key that records of dump-log have; a private key of remote storage",
    "--metadata": "a flag of spark export; log dirs with the metadata of remote storage",
    "--only": "kinds of files; rebuild-index takes several in one word",
    "--option": "one of the doctor's, by its number; one of Spark's source",
    "--output": "a folder; of dump-log, which writes one table, a file",
    "--records": "read shows them, append takes a file of them",
    "--replica": "a copy of a partition; scrub takes lines of hash, of copies that are on other machines",
    "--topic-id": "an id; fleet metadata has many topics, so it names the topic",
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_help_begins_with_one_screen_and_has_two_examples(name: str) -> None:
    told = run_here([*name.split(), "--help"], ROOT).out.decode()
    before_options = told[: re.search("^(Kafka's options|Options):$", told, re.MULTILINE).start()]  # type: ignore[union-attr]
    assert len(before_options.splitlines()) <= SCREEN
    assert len(re.findall(r"^ +klogtool [a-z]", before_options, re.MULTILINE)) >= 2


@pytest.mark.parametrize("name", SINGLE)
def test_an_example_is_a_command_line_of_its_command(name: str) -> None:
    context = CONTEXTS[name]
    lines = re.findall(rf"^ +klogtool {name}\b(.*)", context.command.help or "", re.MULTILINE)
    for line in lines:
        words = itertools.takewhile(lambda word: word not in ("|", ">"), shlex.split(line.partition("   ")[0]))
        context.command.make_context(name, list(words), parent=context.parent)


@pytest.mark.parametrize("name", SINGLE)
def test_every_answer_has_its_format_and_its_detail(name: str) -> None:
    context = CONTEXTS[name]
    spelt = {word for option in context.command.params for word in option.opts}
    shown = {"-v", "--verbose", "-q", "--quiet", "--no-progress", "-o", "--format"}
    assert spelt & shown == (set() if name in NO_ANSWER else shown)
    if name not in NO_ANSWER:
        values, _, _ = context.command.make_parser(context).parse_args(["--json"])
        assert values["form"] == "json"


@pytest.mark.parametrize("name", SINGLE)
def test_an_empty_path_is_not_the_current_folder(name: str) -> None:
    context = CONTEXTS[name]
    words = [
        word
        for option in context.command.params
        if isinstance(option, click.Option) and option.required
        for word in (option.opts[0], "1")
    ]
    paths = [
        one
        for one in context.command.params
        if isinstance(one, click.Argument) and not isinstance(one.type, click.Choice)
    ]
    paths += [one for one in context.command.params if one.metavar in PATHS and not one.required]
    for empty in paths:
        given = [words_of(one, "" if one is empty else "1") for one in paths if one.required or one is empty]
        with pytest.raises((click.UsageError, KlogError), match=r"is empty|^: no such file|has no --output"):
            context.command.make_context(name, [*itertools.chain(*given), *words], parent=context.parent)


def words_of(parameter: click.Parameter, value: str) -> list[str]:
    return [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]


def test_a_word_stands_for_one_kind_of_value() -> None:
    kinds: dict[str, set[str]] = {}
    for context in CONTEXTS.values():
        for option in context.command.params:
            if isinstance(option, click.Option) and not option.hidden:
                kind = "a flag" if option.is_flag else option.make_metavar(context)
                kinds.setdefault(option.opts[-1], set()).add(SAME_KIND.get(kind, kind))
    assert {word for word in kinds if len(kinds[word]) > 1} == set(TWO_KINDS)


@pytest.mark.parametrize("name", SINGLE)
def test_what_a_broker_would_know_is_one_group(name: str) -> None:
    command = CONTEXTS[name].command
    has_all = HEADINGS.keys() <= {option.name for option in command.params}
    told = run_here([*name.split(), "--help"], ROOT).out.decode()
    group = told.partition(f"\n{WHAT_A_BROKER_KNOWS}:\n")[2].partition("\n\n")[0]
    named = set(re.findall(r"^  (--[a-z-]+)", group, re.MULTILINE))
    assert not has_all or named == {parameter.option for parameter in parameters_of(Circumstances)}


def test_klogtool_alone_fits_a_screen_and_names_every_command() -> None:
    done = run_here([], ROOT)
    assert (done.status, done.out) == (2, b"")
    assert len(done.err.splitlines()) <= BARE
    assert set(COMMANDS) <= set(done.err.split())


@pytest.mark.parametrize(
    "words", [["-o", "json"], ["-ojson"], ["--format=json"], ["--format", "text", "--json"]], ids=str
)
def test_json_is_format_json(words: list[str]) -> None:
    json_lines = run_here(["recover", DAMAGED, "--json", "--now", "1700000400000"], FIXTURES)
    assert json_lines.out.startswith(b'{"type":"klogtool"')
    assert run_here(["recover", DAMAGED, *words, "--now", "1700000400000"], FIXTURES) == json_lines


@pytest.mark.parametrize(
    "words",
    [["verify", "--recover", DAMAGED], ["verify", DAMAGED, "--recover"], ["verify", DAMAGED, "-v", "--recover"]],
    ids=str,
)
def test_the_older_name_of_recover(words: list[str]) -> None:
    now = ["--now", "1700000400000"]
    of_today = ["recover", *(word for word in words[1:] if word != "--recover"), *now]
    assert run_here([*words, *now], FIXTURES) == run_here(of_today, FIXTURES)


def test_a_value_of_a_flag_is_no_older_name() -> None:
    done = run_here(["verify", "--recover=no", DAMAGED], FIXTURES)
    assert (done.status, done.out, "--recover" in done.err) == (2, b"", True)


def test_json_of_the_version_says_as_much_as_its_text() -> None:
    text = run_here(["version", "-v"], ROOT).out.decode().splitlines()[1:]
    row = json.loads(run_here(["version", "-v", "--json"], ROOT).out.splitlines()[-1])
    assert [line.partition(":")[0] for line in text] == list(row["environment"])
    assert "environment" not in json.loads(run_here(["version", "--json"], ROOT).out.splitlines()[-1])


def test_an_older_name_is_none_where_it_is_a_path(tmp_path: pathlib.Path) -> None:
    done = run_here(["verify", "--", "--recover"], tmp_path)
    assert (done.status, "no such file" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("word", "command"),
    [("repair", "salvage"), ("fix", "doctor"), ("fsck", "verify"), ("check", "verify"), ("ls", "dump-log")],
)
def test_a_word_is_understood_by_its_meaning(word: str, command: str) -> None:
    done = run_here([word], ROOT)
    assert (done.status, f"'{command}'" in done.err, "'retain'" in done.err) == (2, True, False)


def test_meanings_lead_to_commands() -> None:
    assert {command for commands in MEANINGS.values() for command in commands} <= COMMANDS.keys()
    assert not MEANINGS.keys() & COMMANDS.keys()


def test_version_is_a_command() -> None:
    assert run_here(["version"], ROOT) == run_here(["--version"], ROOT)
    assert run_here(["version", "-v"], ROOT) == run_here(["--version", "--verbose"], ROOT)
    _, row = map(json.loads, run_here(["version", "--json"], ROOT).out.splitlines())
    assert run_here(["version"], ROOT).out.decode().startswith(f"klogtool {row['version']} (as Kafka {row['kafka']};")
