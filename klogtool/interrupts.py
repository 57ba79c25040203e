"""Signals that ask us to stop: SIGINT, SIGTERM, SIGHUP. All three mean the same.

While klogtool starts, one ends it at once: nothing has been done yet. While it works, one raises KeyboardInterrupt;
while a step is being done, behind the step. A second one ends it at once, but not while something is written: what is
laid ready goes then, and it is said how to go on. Floor 0: imports nothing of klogtool. A program that only imports
klogtool keeps its own handlers.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found,unused-ignore]  # `signal` takes longer to import than this takes
import os
from typing import Any

INTERRUPTED = 130
_SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


class _State:
    """ours: signals whose handlers are ours. held: steps under way. asked: a signal came meanwhile."""

    ours: tuple[int, ...] = ()
    held = 0
    asked = False
    writing = 0
    raised = False


def leave_quietly() -> None:
    """From now on a signal ends the process. One that whoever started us has told us to ignore stays ignored."""
    try:
        for number in _SIGNALS:
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, _leave)
                _State.ours += (number,)
    except ValueError:  # not the main thread: signals are not for us
        _State.ours = ()


def begin_work() -> None:
    """From now on a signal raises KeyboardInterrupt."""
    for number in _State.ours:
        _signal.signal(number, _interrupt)


def end_work() -> None:
    """All is done but to end the process: its status stands."""
    for number in _State.ours:
        _signal.signal(number, _signal.SIG_IGN)


def _leave(*_: Any) -> None:
    os._exit(INTERRUPTED)


def _interrupt(*_: Any) -> None:
    if _State.held:
        _State.asked = True
    elif not _State.raised:
        _State.raised = True
        raise KeyboardInterrupt
    elif not _State.writing:
        os._exit(INTERRUPTED)


class held:
    """`with held():` a signal waits until the block has ended."""

    def __enter__(self) -> None:
        _State.held += 1

    def __exit__(self, kind: object, *_: object) -> None:
        _State.held -= 1
        if _State.asked and not _State.held:
            _State.asked = False
            if kind is None and not _State.raised:
                _State.raised = True
                raise KeyboardInterrupt


class writing:
    """`with writing():` a second signal waits for what the first one has begun."""

    def __enter__(self) -> None:
        _State.writing += 1

    def __exit__(self, *_: object) -> None:
        _State.writing -= 1
