"""The console script. A plain `dump-log` starts at once; all else, and what is wrong, goes through click.

A small file takes less time to dump than Python's own `typing`, `dataclasses` or `inspect` take to import. So the
modules on this way do without them, name the types of their arguments for type checkers alone, and import where it is
used what only some dumps need. tests/cli/test_start.py holds them to it.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """The command line `args`; returns the exit status."""
    from klogtool.cli.kafka_options import only_kafkas

    given = only_kafkas(args[1:]) if args[:1] == ["dump-log"] else None
    if given is None:
        from klogtool.cli import main

        return main.run(args)
    from klogtool.cli.dumping import dump_files
    from klogtool.cli.guard import guarded, note_slow_reader

    note_slow_reader()
    return guarded(lambda: dump_files(given["paths"], "text", given))
