"""Each switch of a command alone, in text: none ends in an error of klogtool's own."""

from __future__ import annotations

import pathlib

import click
import pytest
from running import FIXTURES, run_here, tool

COMMANDS = {
    name: context.command
    for context in tool("make_man_pages").contexts()
    if (name := context.command_path.partition(" ")[2]) and not isinstance(context.command, click.Group)
}
LOG_DIR, DAMAGED = str(FIXTURES / "transactions/logdir"), str(FIXTURES / "killed-mid-append/logdir/flip-bit-0")
PARTITION = f"{LOG_DIR}/t-0"
WAYS = {
    "append": [PARTITION, "--batches", f"{PARTITION}/00000000000000000036.log"],
    "compact": [PARTITION, "--config", "cleanup.policy=compact"],
    "delete-records": [PARTITION, "--before", "20"],
    "diff": [PARTITION, f"{LOG_DIR}/t-1"],
    "doctor": [LOG_DIR],
    "drop-producer": [PARTITION, "--producer-id", "0"],
    "dump-log": [DAMAGED],
    "free": [LOG_DIR],
    "hash": [PARTITION],
    "image": [LOG_DIR, "--output", "image"],
    "lookup": [PARTITION, "--offset", "30"],
    "offsets": [str(FIXTURES / "groups/logdir")],
    "quorum": [str(FIXTURES / "metadata/logdir")],
    "read": [PARTITION, "--offset", "3", "--max-bytes", "900"],
    "rebuild-index": [PARTITION],
    "recover": [DAMAGED],
    "retain": [PARTITION, "--now", "1700000000000"],
    "roll": [PARTITION],
    "salvage": [DAMAGED],
    "transplant": [PARTITION, "--topic", "other"],
    "truncate": [PARTITION, "--to", "20"],
    "txns": [PARTITION],
    "undo": ["--list", LOG_DIR],
    "verify": [DAMAGED],
}
NOT_ASKED = {"--help", "--debug", "--apply", "--follow"}  # they write, or wait


def switches(command: click.Command) -> list[str]:
    flags = [one for one in command.params if isinstance(one, click.Option) and one.is_flag and not one.hidden]
    return [word for flag in flags for word in (flag.opts[-1], *flag.secondary_opts) if word not in NOT_ASKED]


@pytest.mark.parametrize(
    ("name", "switch"), [(name, switch) for name in WAYS for switch in ["-q", *switches(COMMANDS[name])]]
)
def test_a_switch_alone(name: str, switch: str, tmp_path: pathlib.Path) -> None:
    done = run_here([name, *WAYS[name], switch], tmp_path)
    assert done.status in (0, 1, 2, 3), done.err
    assert done.out or done.err
