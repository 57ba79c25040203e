"""A power failure after each call of a run, on file systems as the kernel has them (real_disks.py): what
test_crash_states.py asks of the states that we make is asked of the states that these leave.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Sequence

import pytest
from crash_scene import Scene, Work, told
from real_disks import FILE_SYSTEMS, PowerCuts, RealDisk, skip_without
from test_crash_states import WORKS

from klogtool.disk.disk import Disk
from klogtool.disk.writer import undo
from klogtool.errors import Refused

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


class RealScene(Scene):
    """A run on a real file system. images: what each of its calls leaves if the power fails then."""

    def __init__(self, real: RealDisk, make: Callable[[pathlib.Path], Work], seed: str) -> None:
        self.real = real
        box = real.top / "box"
        box.mkdir()
        self._prepare(box, make)
        real.sync()
        cuts = PowerCuts(real, "run", seed)
        self._carry_out(cuts)
        self.images = cuts.images

    def disk(self) -> Disk:
        return Disk()

    def check_resume(self) -> None:
        """Finished, or, on btrfs, refused: of names in one folder it may have a later change without an earlier one,
        which looks like the work of somebody else. Then undo gives all back."""
        try:
            super().check_resume()
        except Refused:
            assert self.real.name == "btrfs"
            self.check_undo()

    def explore(self, images: Sequence[pathlib.Path], checks: Sequence[Callable[[], None]]) -> int:
        """Check what each image leaves. Returns how many different ones there were."""
        seen = set()
        for n, image in enumerate(images, 1):
            self.real.boot(image)
            state = frozenset((path, path.read_bytes()) for path in self.box.rglob("*") if path.is_file())
            if state in seen:
                continue
            seen.add(state)
            for check in checks:
                told(check, f"after {n} calls")
                self.real.boot(image)
        return len(seen)


@pytest.fixture(params=FILE_SYSTEMS)
def real(request: pytest.FixtureRequest, box: pathlib.Path) -> Iterator[RealDisk]:
    skip_without(request.param)
    disk = RealDisk(box, request.param)
    yield disk
    disk.unmount()


@pytest.mark.parametrize("work", WORKS)
def test_the_power_fails_after_each_call(real: RealDisk, work: str) -> None:
    """Of the run; and of the undo of the whole run."""
    scene = RealScene(real, WORKS[work], work)
    count = scene.explore(scene.images, [scene.check_start, scene.check_undo, scene.check_resume])
    real.boot(scene.images[-1])
    assert scene.contents() == scene.wanted, "what is said to be done is on the device"
    entry = scene.entry()
    assert entry is not None
    cuts = PowerCuts(real, "undo", work)
    undo(entry, disk=cuts)
    undone = scene.explore(cuts.images, [scene.check_undo])
    real.boot(cuts.images[-1])
    scene.check_before()
    print(work, len(scene.images), count, len(cuts.images), undone)
    assert count > 1
