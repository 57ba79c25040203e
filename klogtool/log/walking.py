"""The walk over the entries of a log that kernel and reference share.

A kernel takes entries as long as it is sure of them, then says why it stopped. The next step is the same for all
kernels: records are inflated, or room is made, or the reference takes an entry, and the kernel continues after it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Protocol

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.format.framing import walk_frames
from klogtool.format.message import inflate_or_none, parse_entry
from klogtool.log.late_zstd import LateZstd
from klogtool.log.windows import Window


class Steps(Protocol):
    """Takes the entries of a window, by a kernel and by the reference. Positions count from the window's start.

    A class of its own has never enough, and always room.
    """

    @property
    def is_enough(self) -> bool:
        """Whether the walk ends here."""
        return False

    @abstractmethod
    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        """Let the kernel take entries in [at, stop). Return where the next one begins, and why it was not taken.

        The reasons are listed in kernels/absent.py. body: the records of the entry at `at`, inflated.
        """

    def make_room(self, window: Window, at: int) -> bool:
        """Make room after FULL. False: there is no room for the entry at `at`, and the reference takes it."""
        return True

    @abstractmethod
    def take_entry(self, window: Window, at: int) -> int:
        """Take at least the entry at `at` by the reference. Return where the next one begins; `at` ends the walk."""


def walk_steps(
    steps: Steps, window: Window, stop: int, zstd: LateZstd | None, *, at: int = 0, alone: bool = False
) -> Iterator[int]:
    """Take the entries of a window that begin in [at, stop). After each step, yield where the next entry begins.

    The walk ends earlier at an entry that is not whole, if the steps have enough, and if the reference ends it. alone:
    it also ends before the first entry that is left to the reference. zstd: of the kernel's workspace, if it has one.
    An entry is left to the reference whenever the kernel does not get past it, whatever reason it gives: so the walk
    neither stands still nor passes over an entry.
    """
    native = kernels.native
    body, why, is_at_end = None, native.DONE, False
    while (at < stop or why == native.FULL) and not is_at_end and not steps.is_enough:
        before, current_body = at, body
        at, why = steps.step(window, at, stop, current_body)
        # A body belongs to one entry: once the kernel is past it, the next one must not be read from it.
        current_body, body, is_left = current_body if at == before else None, None, False
        if why == native.CUT_OFF:
            is_at_end = True
        elif why == native.FULL:
            # The same entry comes again, so it keeps its body.
            body, is_left = current_body, not steps.make_room(window, at)
        elif why != native.BODY or current_body is not None:
            # BODY although it had the body counts, too: without this the walk would inflate the same entry for ever.
            is_left = why == native.REFERENCE or (at < stop and not steps.is_enough)
        # If the workspace has just learned where libzstd is, the kernel tries once more, and inflates it itself.
        elif zstd is None or not zstd.learn():
            body = _inflated(window, at)
            is_left = body is None
        if is_left and alone:
            is_at_end = True
        elif is_left:
            start, at, body = at, steps.take_entry(window, at), None
            # Where the reference stands still, the walk is to end (take_entry).
            is_at_end = at <= start
        yield at


def _inflated(window: Window, at: int) -> bytes | None:
    """The records of a compressed entry; None where the reference is to say what is wrong."""
    frame = next(walk_frames(window.data, at, window.cut, base=window.base), None)
    try:  # the kernel saw a whole entry there, but what is mapped may have changed meanwhile
        return inflate_or_none(parse_entry(window.data, frame, base=window.base)) if frame else None
    except KlogError:
        return None
