"""The walk that kernel and reference share: every entry is taken once, whatever a kernel answers."""

from __future__ import annotations

import pytest
from vectors import BATCH

from klogtool import kernels
from klogtool.format.framing import find_frame
from klogtool.log.walking import walk_steps
from klogtool.log.windows import Window

native = kernels.native
LOG = BATCH.data * 5
ENTRIES = [len(BATCH.data) * n for n in range(5)]


class Steps:
    """A kernel that takes no entry, and the reference, which takes all of them."""

    is_enough = False

    def __init__(self, why: int) -> None:
        self.why, self.taken = why, list[int]()

    def step(self, window: Window, at: int, stop: int, body: bytes | None) -> tuple[int, int]:
        return at, self.why if at < stop else native.DONE

    def make_room(self, window: Window, at: int) -> bool:
        return False

    def take_entry(self, window: Window, at: int) -> int:
        self.taken.append(at)
        frame = find_frame(window.data, at, window.cut)
        return at + len(BATCH.data) if frame else at


@pytest.mark.timeout(20)
@pytest.mark.parametrize("why", [*range(11), 99])
def test_what_the_kernel_does_not_get_past_is_left_to_the_reference(why: int) -> None:
    steps = Steps(why)
    reached = list(walk_steps(steps, Window(0, memoryview(LOG), len(LOG), last=True), len(LOG), None))
    if why == native.CUT_OFF:
        assert (steps.taken, reached) == ([], [0])
    else:
        assert steps.taken == ENTRIES
        assert reached[-1] == len(LOG)


class Backwards(Steps):
    """A reference that goes back."""

    def take_entry(self, window: Window, at: int) -> int:
        self.taken.append(at)
        return at - 1


@pytest.mark.timeout(20)
def test_a_reference_that_takes_nothing_ends_the_walk() -> None:
    steps = Backwards(native.REFERENCE)
    list(walk_steps(steps, Window(0, memoryview(LOG), len(LOG), last=True), len(LOG), None, at=ENTRIES[1]))
    assert steps.taken == [ENTRIES[1]]
