"""The start of `klogtool` and of `python -m klogtool`: if it cannot start, there is one line and no traceback."""

import os
import sys
from contextlib import suppress
from typing import NoReturn

COULD_NOT = 4  # as in cli/status.py, which may be what could not be loaded


def main() -> None:
    """Run the command line, and exit with its status; with 4 if there is no memory to load its modules or to end."""
    try:
        from klogtool.cli.main import main as run
    except (ImportError, OSError) as error:
        _end(f"cannot start: {error}")
    except (MemoryError, SystemError):  # what the import of a module raises that finds no memory
        _end("cannot start: out of memory")
    try:
        run()
    except SystemExit as end:
        if end.code == COULD_NOT:  # perhaps for want of memory
            _leave()
        raise
    except (MemoryError, SystemError):  # also while an error was told
        _end("out of memory")


def _end(why: str) -> NoReturn:
    sys.stderr.write(f"klogtool: {why}\n")
    _leave()


def _leave() -> NoReturn:
    with suppress(OSError, ValueError, AttributeError, MemoryError):  # a stream may be closed, or None
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(COULD_NOT)  # the way out of Python itself may need memory again: threads that it ends load a library


if __name__ == "__main__":
    main()
