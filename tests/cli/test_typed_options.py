"""Numbers and times on the command line: every option takes them as they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import pytest
from running import FIXTURES, Done

from klogtool.cli import options
from klogtool.cli.main import cli
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
