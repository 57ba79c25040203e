"""Soundness, ends and epochs of whole logs: both readers say the same."""

from __future__ import annotations

import pathlib
import random
from itertools import islice
from unittest.mock import patch

import pytest
from readers import READERS, Reader, told
from recovery_logs import BASE_OFFSET, recovery_log, wounded

from klogtool import kernels
from klogtool.broker.content import FileRange
from klogtool.broker.unified_log import mapped_windows
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_segment import walk_entries
from klogtool.broker.unified_log.sound_batches import find_sound_end, has_epochs_of
from klogtool.errors import KlogError
from klogtool.format.checkpoints import EpochEntry
from klogtool.log import mapped
from klogtool.log.leader_epochs import LeaderEpochFileCache

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="the kernels are not built")


def answers(path: pathlib.Path, jobs: int, known: LeaderEpochFileCache) -> list[object]:
    """What is said of the log, by whichever reader runs."""
    found: list[object] = []
    with ContentFile(path, (FileRange(str(path), 0, path.stat().st_size),)) as file:
        for ask in (lambda: find_sound_end(file, jobs), lambda: has_epochs_of(file, known, BASE_OFFSET + 3)):
            try:
                found.append(ask())
            except KlogError as error:
                found.append(told(error))
    return found


@pytest.mark.some(3)
@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_both_readers_say_the_same(tmp_path: pathlib.Path, seed: int, jobs: int) -> None:
    path, kinds = tmp_path / "log", set()
    for n in range(50):
        rng = random.Random(f"{seed}-{n}")
        path.write_bytes(wounded(rng, recovery_log(rng, rng.choice((0, 1, 60, 300)))))
        # Without an epoch before the first: a log that begins in epoch 3, or goes on to 4 somewhere, agrees or not.
        known = LeaderEpochFileCache(
            [EpochEntry(0, 0)] if n % 2 else [EpochEntry(3, 5), EpochEntry(4, BASE_OFFSET + 70)]
        )
        spans = patch.object(mapped_windows, "SPAN_BYTES", rng.choice((300, 2000, 8 << 20)))
        left = []
        for reader in READERS:
            with Reader(reader).reading(), spans, patch.object(mapped, "MAPPED_FROM_BYTES", 1):
                left.append(answers(path, jobs, known))
        assert left[0] == left[1], f"log {n} of seed {seed}"
        kinds |= {str(left[0][1]), type(left[0][0]).__name__}
    assert {"True", "False"} <= kinds


class _Stuck:
    """A mapped_windows.Reader whose kernel takes nothing and says so in this way."""

    def __init__(self, why: int) -> None:
        self.why, self.entries = why, 0

    def take(self, piece: mapped_windows.MappedWindow) -> int:
        return self.why

    def take_by_reference(self, file: ContentFile, position: int, most: int) -> tuple[int, int]:
        count = size = 0
        for entry in islice(walk_entries(file, position), most):
            count, size = count + 1, size + entry.size
        self.entries += count
        return count, size


@pytest.mark.timeout(60)
@pytest.mark.parametrize("why", [kernels.native.DONE, kernels.native.REFERENCE, kernels.native.CUT_OFF])
def test_a_kernel_that_takes_nothing_leaves_all_to_the_reference(tmp_path: pathlib.Path, why: int) -> None:
    """Even one that says that it is done."""
    path = tmp_path / "log"
    path.write_bytes(recovery_log(random.Random(1), 300))
    reader = _Stuck(why)
    with (
        ContentFile(path, (FileRange(str(path), 0, path.stat().st_size),)) as file,
        patch.object(mapped_windows, "SPAN_BYTES", 2000),
    ):
        mapped_windows.walk_mapped(file, reader)
        assert reader.entries == len(list(walk_entries(file, 0)))
