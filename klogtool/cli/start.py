"""The console script. A plain `dump-log --files` starts at once; all else, and what is wrong, goes through click."""

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
    return guarded(lambda: dump_files((), "text", given))
