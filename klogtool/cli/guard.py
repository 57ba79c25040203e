"""Turns errors into a line on stderr and an exit status, for all entry points of klogtool."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

from klogtool import interrupts
from klogtool.cli.output import (
    STDOUT_NAME,
    ReaderGone,
    error_lines,
    forget_stdout,
    hold_streams,
    note,
    stdout_lost,
    traceback_lines,
)
from klogtool.cli.status import COULD_NOT, DONE, INTERRUPTED, READER_GONE, status_of
from klogtool.errors import KlogError


def guarded(work: Callable[[], object], *, debug: bool = False) -> int:
    """Return the exit status of the work: its result, or the status of its error. debug: show where an error came
    from."""
    hold_streams()
    try:
        status = _status_of(work, debug=debug)
        interrupts.end_work()
    except KeyboardInterrupt:  # a signal while the error was told, or on the way out; there is one at most
        interrupts.end_work()
        status = INTERRUPTED
    stdout_lost()  # an earlier error has been told already; Python is to tell no other
    return status


def _status_of(work: Callable[[], object], *, debug: bool) -> int:
    try:
        interrupts.begin_work()
        status = work()
        sys.stdout.flush()
        return status if isinstance(status, int) else DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        forget_stdout()
        return READER_GONE
    except (KlogError, OSError, MemoryError, ImportError, SystemError) as error:
        return _failed(error, debug=debug)


def note_slow_reader() -> None:
    """Note, once, that the kernels are not built."""
    from klogtool import kernels  # imports much

    if not kernels.is_built():
        note("klogtool: kernels not built: the reference reader runs, about a hundred times slower")


def _failed(error: KlogError | OSError | MemoryError | ImportError | SystemError, *, debug: bool) -> int:
    if debug:
        note(*traceback_lines(error))
    if isinstance(error, KlogError):
        note(*error_lines(error))
        return status_of(error)
    if isinstance(error, MemoryError):
        note("klogtool: out of memory")
    elif isinstance(error, SystemError):  # an import that found no memory; else a fault of Python or of an extension
        note("klogtool: out of memory, or an internal error of Python (--debug shows where)")
    elif isinstance(error, ImportError):  # a part that is loaded late: it is broken, or does not fit into memory
        note(f"klogtool: cannot load a part of it: {error}")
    elif _is_of_stdout(error):
        note(f"klogtool: stdout{' is closed' if error.errno == errno.EBADF else ': ' + _reason(error)}")
    else:
        named = [os.fsdecode(error.filename)] if isinstance(error.filename, str | bytes) else []
        note(": ".join(["klogtool", *named, _reason(error)]))
    return COULD_NOT


def _is_of_stdout(error: OSError) -> bool:
    """Whether stdout took no more. What click writes, such as --help, is not named in its error."""
    if error.filename is None:
        return stdout_lost() or error.errno in (errno.ENOSPC, errno.EBADF)
    return bool(error.filename == STDOUT_NAME)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
