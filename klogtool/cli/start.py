"""The console script. What is plain starts at once; all else, and what is wrong, goes through click.

A small file takes less time to dump than Python's own `typing`, `dataclasses` or `inspect` take to import. So the
modules on this way do without them, name the types of their arguments for type checkers alone, and import where it is
used what only some dumps need. tests/cli/test_start.py holds them to it.
"""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the command line and exit with its status."""
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """The command line `args`; returns the exit status."""
    gc.disable()  # of what is imported nothing is garbage; looking for it takes a twentieth of a start
    work = _plain_work(args)
    gc.enable()
    if work is None:
        from klogtool.cli import main

        return main.run(args)
    from klogtool.cli.guard import guarded, note_slow_reader

    note_slow_reader()
    return guarded(work)


def _plain_work(args: list[str]) -> Callable[[], int] | None:
    """What is asked for, None if that is for click to find out."""
    if args[:1] != ["dump-log"]:
        from klogtool.cli.plain import plain_work

        return plain_work(args)
    from klogtool.cli.kafka_options import only_kafkas

    given = only_kafkas(args[1:])
    if given is None:
        return None
    from klogtool.cli.dumping import dump_files

    return lambda: dump_files(given["paths"], "text", given)
