"""What went wrong, as a line on stderr and an exit status; for every way into klogtool."""

from __future__ import annotations

import sys

from klogtool.cli.output import ReaderGone, error_line, forget_stdout, note
from klogtool.cli.status import COULD_NOT, DONE, INTERRUPTED, READER_GONE, status_of
from klogtool.errors import KlogError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def guarded(work: Callable[[], object], *, debug: bool = False) -> int:
    """The exit status of the work: what it returns, or what its error is. debug: show where an error came from."""
    try:
        status = work()
        if sys.stdout is not None:
            sys.stdout.flush()
        return status if isinstance(status, int) else DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        forget_stdout()
        return READER_GONE
    except (KlogError, OSError, MemoryError) as error:
        return _failed(error, debug=debug)


def note_slow_reader() -> None:
    """Says, once, that there are no kernels."""
    from klogtool import kernels

    if kernels.native is None:
        note("klogtool: kernels not built: the reference reader runs, about a hundred times slower")


def _failed(error: KlogError | OSError | MemoryError, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, KlogError):
        note(error_line(error))
        return status_of(error)
    if isinstance(error, MemoryError):
        note("klogtool: out of memory")
    else:
        note(": ".join(["klogtool", *filter(None, [error.filename]), (error.strerror or str(error)).lower()]))
    return COULD_NOT
