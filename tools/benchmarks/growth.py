"""Processor time of every command over n, 2n and 4n segments, leader epochs and partitions.

`python growth.py FOLDER SCALE [SHAPE ...]` prints a line for each command, as `bench.py` has it in its table. The logs
are those whose work the tests count (tests/growing_runs.py); they are made in the folder, and gone afterwards.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise

from measuring import ROOT, Samples

sys.path.insert(0, str(ROOT / "tests"))

from growing_runs import COMMANDS, MAIN, OF_A_CONTROLLER, OF_A_LOG_DIR, SHAPES, words_of

KLOGTOOL = str(pathlib.Path(sys.executable).with_name("klogtool"))
TIMES = (1, 2, 4)
N = {"epochs": 25_000, "partitions": 2_500}
N_SEGMENTS = 5_000
FINE = (0, 1, 3)  # exit statuses: some of the logs are damaged


class Growing:
    """One shape at one size. Commands that write in place get a fresh log each."""

    def __init__(self, shape: str, n: int, folder: pathlib.Path) -> None:
        self._shape, self._n, self._folder = shape, n, folder
        self._log: pathlib.Path | None = None

    def run(self, command: str) -> Samples:
        """One run of a process of its own."""
        log_dir = self._folder / "log-dir"
        log = self._log or SHAPES[self._shape][0](log_dir, self._n)
        samples = Samples([KLOGTOOL, *words_of(command, log, log_dir, self._n, self._folder)], FINE)
        samples.run()
        shutil.rmtree(self._folder / "out", ignore_errors=True)
        self._log = log
        if "--apply" in command:
            self.clear()
        return samples

    def clear(self) -> None:
        """Nothing is left, the journals neither."""
        for made in self._folder.iterdir():
            shutil.rmtree(made) if made.is_dir() else made.unlink()
        self._log = None


def commands_of(shape: str) -> dict[str, str]:
    """What is asked of a shape; those that only read come first."""
    known = {"partitions": OF_A_LOG_DIR, "segments": COMMANDS, "transactions of metadata": OF_A_CONTROLLER}
    found = known.get(shape) or {name: COMMANDS[name] for name in MAIN}
    return dict(sorted(found.items(), key=lambda item: "--apply" in item[1]))


def measure(shape: str, scale: float, folder: pathlib.Path) -> None:
    """The lines of one shape."""
    n = max(1, int(N.get(shape, N_SEGMENTS) * scale))
    runs: dict[str, list[Samples]] = {name: [] for name in commands_of(shape)}
    for times in TIMES:
        growing = Growing(shape, times * n, folder)
        for name, command in commands_of(shape).items():
            runs[name].append(growing.run(command))
        growing.clear()
    for name, samples in runs.items():
        print("\t".join([f"{shape:31}", f"{name:27}", f"{n:,}", *cells(samples)]), flush=True)


def cells(samples: Sequence[Samples]) -> list[str]:
    """Seconds at n, 2n and 4n, how much each is of the one before, and megabytes at n and 4n."""
    seconds = [sample.processor_seconds[0] for sample in samples]
    steps = [f"{more / less:.1f}" for less, more in pairwise(seconds)]
    return [*(f"{each:.2f}" for each in seconds), *steps, f"{samples[0].peak:.0f}", f"{samples[-1].peak:.0f}"]


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for each_shape in sys.argv[3:] or SHAPES:
        measure(each_shape, float(sys.argv[2]), place)
    place.rmdir()
