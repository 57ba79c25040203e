"""The console script. What is plain starts at once; all else, and what is wrong, goes through click.

A small file takes less time to dump than Python's own `typing`, `dataclasses` or `inspect` take to import. So the
modules on this way do without them, name the types of their arguments for type checkers alone, and import where it is
used what only some dumps need. tests/cli/test_start.py holds them to it.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import NoReturn


def main() -> None:
    """Run the command line and exit with its status: `SystemExit`, for a program that calls this and goes on."""
    args = sys.argv[1:]
    work = _imported(args)
    if work is None:
        sys.exit(_by_click(args))
    status = _done(work)
    if not _is_console_script(sys.modules["__main__"]):
        sys.exit(status)
    _leave(status)


def _is_console_script(program: ModuleType) -> bool:
    """Whether `program` is the script that an install makes, which has nothing to do after `main`."""
    return os.path.basename(getattr(program, "__file__", None) or "") == "klogtool"


def _leave(status: int) -> NoReturn:
    """The end of the process, now. Python's own takes its objects apart one by one, for longer than most dumps take."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # closed
                stream.flush()
        except OSError:  # was told of when it was written to
            continue
    os._exit(status)


def run(args: list[str]) -> int:
    """The command line `args`; returns the exit status."""
    work = _imported(args)
    return _by_click(args) if work is None else _done(work)


def _imported(args: list[str]) -> Callable[[], int] | None:
    """What is asked for, None if that is for click to find out."""
    gc.disable()  # of what is imported nothing is garbage; looking for it takes a twentieth of a start
    work = _plain_work(args)
    gc.freeze()  # nor will it be
    gc.enable()
    return work


def _done(work: Callable[[], int]) -> int:
    from klogtool.cli.guard import guarded, note_slow_reader

    note_slow_reader()
    return guarded(work)


def _by_click(args: list[str]) -> int:
    from klogtool.cli import main

    return main.run(args)


def _plain_work(args: list[str]) -> Callable[[], int] | None:
    if args[:1] != ["dump-log"]:
        from klogtool.cli.plain import plain_work

        return plain_work(args)
    from klogtool.cli.kafka_options import only_kafkas

    given = only_kafkas(args[1:])
    if given is None:
        return None
    from klogtool.cli.dumping import dump_files

    return lambda: dump_files(given["paths"], "text", given)
