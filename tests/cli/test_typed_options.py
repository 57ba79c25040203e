"""Numbers and times on the command line: every option takes them as they are shown."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator

import click
import pytest
from msgspec import Struct
from running import FIXTURES, Done

import klogtool.cli
import klogtool.plans
from klogtool.cli import options, question_options
from klogtool.cli.main import cli
from klogtool.parameters import Parameter, Unit, parameters_of
from klogtool.render.kafka_options import KAFKAS

KlogTool = Callable[..., Done]
PARTITION = FIXTURES / "transactions/logdir/t-0"


def parameters(group: click.Group = cli) -> Iterator[click.Parameter]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from parameters(command) if isinstance(command, click.Group) else command.params


def test_no_option_takes_numbers_in_another_way() -> None:
    """Those of kafka-dump-log are taken as Kafka takes them."""
    numbers = [found for found in parameters() if isinstance(found.type, type(click.INT) | click.IntRange)]
    assert all(isinstance(found.type, options.Number) for found in numbers)
    assert len(numbers) > 10
    chosen = (found for found in parameters() if isinstance(found, click.Option))
    for found in (found for found in chosen if found.metavar in ("N", "M", "BASE")):
        if found.opts[0].removeprefix("--") not in KAFKAS:
            assert isinstance(found.type, options.Number | click.types.FuncParamType), found.opts


def declared() -> Iterator[Parameter]:
    """Each number that a question declares with a range, in all modules that have questions."""
    for package in (klogtool.cli, klogtool.plans):
        for module in pkgutil.iter_modules(package.__path__):
            for kind in vars(importlib.import_module(f"{package.__name__}.{module.name}")).values():
                if isinstance(kind, type) and issubclass(kind, Struct):
                    yield from (one for one in parameters_of(kind) if one.unit is Unit.NUMBER and one.parse is None)


def test_a_declared_range_is_the_range_of_the_option() -> None:
    """A bound alone counts as well: `--max-file-bytes 0` was taken."""
    ranges = {(one.option, one.low, one.high): one for one in declared() if one.low is not None or one.high is not None}
    assert len(ranges) > 10
    for (option, low, high), one in ranges.items():
        parse = click.types.convert_type(question_options._how_to_parse(one)["type"])
        within = [bound for bound in (low, high) if bound is not None]
        assert [parse.convert(str(bound), None, None) for bound in within] == within, option
        for beyond in ([] if low is None else [low - 1]) + ([] if high is None else [high + 1]):
            with pytest.raises(click.BadParameter):
                parse.convert(str(beyond), None, None)


@pytest.mark.parametrize(
    ("command", "grouped", "plain"),
    [
        ("lookup", ["--offset", "0,061"], ["--offset", "61"]),
        ("lookup", ["--timestamp", "1,700,000,040,000"], ["--timestamp", "1700000040000"]),
        ("read", ["--offset", "7", "--max-bytes", "1,000"], ["--offset", "7", "--max-bytes", "1000"]),
        ("truncate", ["--to", "0,033"], ["--to", "33"]),
        ("delete-records", ["--before", "0,033"], ["--before", "33"]),
        ("dump-log", ["--offsets", "0,010..1,000"], ["--offsets", "10..1000"]),
        (
            "dump-log",
            ["--timestamps", "2023-11-14T22:13:20Z..2023-11-14T22:14:00Z"],
            ["--timestamps", "1700000000000..1700000040000"],
        ),
    ],
    ids=str,
)
def test_as_it_is_shown(command: str, grouped: list[str], plain: list[str], klogtool: KlogTool) -> None:
    now = [] if command == "dump-log" else ["--now", "1700000000000"]
    done = klogtool(command, PARTITION, *grouped, *now)
    assert done == klogtool(command, PARTITION, *plain, *now)
    assert done.status == 0
    assert done.out


@pytest.mark.parametrize("number", ["1,2", "1,", ",100", "1,000,0"])
def test_other_commas_are_refused_with_an_example(number: str, klogtool: KlogTool) -> None:
    done = klogtool("lookup", PARTITION, "--offset", number)
    assert done.status == 2
    assert "as in 1,783" in done.told
