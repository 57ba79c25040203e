"""A command that makes the plans of made.py, with all that commands that write have in common."""

from __future__ import annotations

import click
from made import TestsQuestion
from msgspec.structs import asdict

from klogtool.broker.circumstances import Circumstances
from klogtool.cli.writing import Writing, decide_and_carry_out, writing


@click.command("test")
@click.argument("paths", nargs=-1, required=True)
@click.option("--refuse", is_flag=True)
@writing
def command(paths: tuple[str, ...], refuse: bool, writing: Writing) -> int:
    """For tests."""
    return decide_and_carry_out("test", paths, TestsQuestion(**asdict(Circumstances(now_ms=0)), refuse=refuse), writing)
