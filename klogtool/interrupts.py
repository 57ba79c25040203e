"""Signals that ask us to stop: SIGINT, SIGTERM, SIGHUP. All three mean the same.

While klogtool starts, a signal ends the process at once, because nothing has been done yet. While it works, a signal
raises KeyboardInterrupt; during a step, after the step. A second signal ends the process at once, except during a
write: then klogtool first deletes prepared files, and says how to continue. Imports nothing of klogtool. A
program that only imports klogtool keeps its own handlers.

`_signal` is the part of `signal` that Python has loaded already. `signal` would import more modules first, and until
our handlers are set, a signal ends klogtool with a traceback.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found,unused-ignore]  # not `signal`, to set the handlers early
import os
from typing import Any

INTERRUPTED = 130
_SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


class _State:
    """ours: signals with our handlers. held: number of steps being done. is_requested: a signal came during a step."""

    ours: tuple[int, ...] = ()
    held = 0
    is_requested = False
    writing = 0
    raised = False


def leave_quietly() -> None:
    """From now on a signal ends the process. A signal that our parent process has set to be ignored stays ignored."""
    try:
        for number in _SIGNALS:
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, _leave)
                _State.ours += (number,)
    except ValueError:  # not the main thread, which alone may set handlers
        _State.ours = ()


def begin_work() -> None:
    """From now on a signal raises KeyboardInterrupt."""
    for number in _State.ours:
        _signal.signal(number, _interrupt)


def end_work() -> None:
    """From now on signals are ignored: only the exit is left, and its status must not change.

    Raises KeyboardInterrupt, once at most, if a signal comes before that.
    """
    for number in _State.ours:
        _signal.signal(number, _ignore)  # takes a pending signal; with SIG_IGN alone, Python would print an error
    for number in _State.ours:
        _signal.signal(number, _signal.SIG_IGN)


def wait_to_read(descriptor: int) -> None:
    """Return when a read of this descriptor would not block. A signal raises KeyboardInterrupt as everywhere.

    CPython looks for signals before it begins a system call, and a signal interrupts one that has begun. One that comes
    in between is seen after the call, so a prompt would take no notice of it. A signal also writes to this pipe.
    """
    import fcntl  # extensions: not before the handlers are set
    import select

    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        return  # a read fails at once; a pipe would never be ready for one
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    try:
        former = _signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    except ValueError:  # not the main thread, which alone gets signals
        former = None
    try:
        select.select([descriptor, woken], [], [])
    except ValueError:  # more files are open than select can wait for
        pass
    finally:
        if former is not None:
            _signal.set_wakeup_fd(former)
        os.close(woken)
        os.close(wakes)


def _leave(*_: Any) -> None:
    os._exit(INTERRUPTED)


def _ignore(*_: Any) -> None:
    pass


def _interrupt(*_: Any) -> None:
    if _State.held:
        _State.is_requested = True
    elif not _State.raised:
        _State.raised = True
        raise KeyboardInterrupt
    elif not _State.writing:
        os._exit(INTERRUPTED)


class held:
    """`with held():` a signal takes effect after the block."""

    def __enter__(self) -> None:
        _State.held += 1

    def __exit__(self, kind: object, *_: object) -> None:
        _State.held -= 1
        if _State.is_requested and not _State.held:
            _State.is_requested = False
            if kind is None and not _State.raised:
                _State.raised = True
                raise KeyboardInterrupt


class writing:
    """`with writing():` a second signal does not end the process before the block ends."""

    def __enter__(self) -> None:
        _State.writing += 1

    def __exit__(self, *_: object) -> None:
        _State.writing -= 1
