"""klogtool killed while it writes in place, and Kafka's own LogLoader over what that left.

    python -m tests.kafka.killing --count N --seed S [--command rebuild-index]

Of each case (see random_logs.py) Kafka loads an untouched copy first, and one that klogtool has finished. Then
`--apply` is killed at a random call, several times; what was not synced is lost, or not, or some of it; and Kafka loads
what is left, under the same circumstances. It has to end where it ended before: each file is, byte for byte, that of
the one or of the other. (Rebuilt side files may differ from those that were there; and Kafka leaves other snapshots
where it loads an empty log again.) Undo has to give back all, resuming to finish it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from klogtool.disk.journal import Entry, walk_entries
from klogtool.disk.manifest import Progress
from klogtool.disk.writer import InPlace, resume, undo
from klogtool.errors import KlogError
from klogtool.plans.saved_plan import SavedPlan

from .beside import an_oracle
from .folders import Files, files_of
from .kafka import scratch_folder
from .random_logs import Case, Makers, walk_damaged

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "disk")]

from deciding import decided  # noqa: E402
from made import HEAD, picture  # noqa: E402
from mortal import Died, HastyDisk, MortalDisk, reusable  # noqa: E402

Path: TypeAlias = pathlib.Path
COMMANDS = ("recover", "rebuild-index")
KILLS_A_CASE = 6
MOST_CASES = 1 << 40


@dataclass(frozen=True)
class Kill:
    """Died before the call of this number; what was not synced was lost as `loses` says."""

    case: Case
    call: int
    loses: str

    def __str__(self) -> str:
        told = [f"case {self.case.told}: {json.dumps(self.case.args)}", *self.case.story]
        return "\n  ".join(told) + f"\n  killed before call {self.call}, losing {self.loses}"


@dataclass(frozen=True)
class Loaded:
    """What Kafka answered, and the files it left, without those that it removes a minute later."""

    answer: Mapping[str, Any]
    files: Files

    @property
    def refusal(self) -> str | None:
        """The exception, if it refused to load."""
        return str(self.answer["error"]["class"]) if "error" in self.answer else None


class StepsDisk(MortalDisk):
    """Notes the numbers of the calls that change names or sizes in a folder."""

    def __init__(self, root: Path, folder: Path) -> None:
        super().__init__([root])
        self.folder, self.steps = str(folder), list[int]()

    def _note(self, *paths: str) -> None:
        if self.folder in map(os.path.dirname, paths):
            self.steps.append(self.done)

    def rename(self, path: str, to: str) -> None:
        self._note(path, to)
        super().rename(path, to)

    def delete(self, path: str) -> None:
        self._note(path)
        super().delete(path)

    def truncate(self, path: str, size: int) -> None:
        self._note(path)
        super().truncate(path, size)


class Killing:
    """One command over random cases. tally: how the kills came out."""

    def __init__(self, oracle: Any, command: str, seed: int, folder: Path) -> None:
        self.oracle, self.command, self.seed, self.folder = oracle, command, seed, folder
        self.box = folder / "box"
        self.tally: Counter[str] = Counter()

    def problems(self, count: int) -> Iterator[tuple[Kill, str]]:
        """What went wrong in so many kills of runs that change something, and behind which."""
        cases = walk_damaged(Makers(), self.oracle, self.folder / "made", self.seed, MOST_CASES, of_a_log=3)
        while self.tally["kills"] < count:
            case = next(cases)
            for kill, problem in self._kill_case(case, random.Random(case.told)):
                if problem is not None:
                    yield kill, problem

    def _load(self, path: Path, case: Case) -> Loaded:
        """What Kafka makes of a copy of the folder."""
        copy = self.folder / "loaded" / path.name
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(path, copy)
        answer = self.oracle.ask("recover", dir=str(copy), **case.args)
        return Loaded(answer, {name: d for name, d in files_of(copy).items() if not name.endswith(".deleted")})

    def _kill_case(self, case: Case, rng: random.Random) -> Iterator[tuple[Kill, str | None]]:
        untouched = self._load(case.dir, case)
        plans = self._plans(self._fresh(case), case)
        if not any(plan.steps for plan in plans):
            self.tally["nothing to do"] += 1
            return
        calls, done, before = self._whole_run(case, plans)
        after = self._load(done, case)
        done_files = files_of(done)
        for _ in range(KILLS_A_CASE):
            call = rng.choice(calls) if rng.random() < 0.9 else rng.randrange(calls[-1])
            loses = rng.choice(("nothing", "everything", f"mixed {rng.random()}"))
            kill = Kill(case, call, loses)
            left = self._killed(kill)
            self.tally["kills"] += 1
            self.tally["in the middle"] += files_of(left) not in (before, done_files)
            yield kill, self._loads_otherwise(left, case, untouched, after)
            yield kill, self._not_settled(left, case, rng.random() < 0.5, done_files)

    def _fresh(self, case: Case) -> Path:
        """A copy of the case in a log dir of its own."""
        for path in (self.box, Path(f"{self.box}.attic")):
            shutil.rmtree(path, ignore_errors=True)
        return Path(shutil.copytree(case.dir, self.box / "logdir" / case.dir.name))

    def _plans(self, folder: Path, case: Case) -> list[SavedPlan]:
        """None where the command refuses: nothing is written then."""
        try:
            return [reusable(plan) for plan in decided(self.command, folder, case.arguments)]
        except KlogError:
            self.tally["refused"] += 1
            return []

    def _whole_run(self, case: Case, plans: list[SavedPlan]) -> tuple[range, Path, Files]:
        """The calls before which it may be in the middle; the folder behind them, and its files before."""
        folder = self.box / "logdir" / case.dir.name
        before = files_of(folder)
        disk = StepsDisk(self.box, folder)
        InPlace(plans, HEAD, disk=disk).carry_out()
        kept = self.folder / "done" / case.dir.name
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
        return range(disk.steps[0] + 1, disk.steps[-1] + 3), kept, before

    def _killed(self, kill: Kill) -> Path:
        folder = self._fresh(kill.case)
        plans = self._plans(folder, kill.case)
        disk = MortalDisk([self.box], kill.call)
        try:
            InPlace(plans, HEAD, disk=disk).carry_out()
        except Died:
            disk.crash(kill.loses)
        return folder

    def _loads_otherwise(self, left: Path, case: Case, untouched: Loaded, after: Loaded) -> str | None:
        found = self._load(left, case)
        allowed = untouched, after
        if found.refusal not in [loaded.refusal for loaded in allowed]:
            return f"refused: {found.answer.get('error')}"
        if found.refusal is not None:
            return None
        whole = [loaded for loaded in allowed if loaded.refusal is None]
        for name in ("log_start_offset", "log_end_offset"):
            if found.answer[name] not in [loaded.answer[name] for loaded in whole]:
                return f"{name} is {found.answer[name]}"
        names = [differing(found.files, loaded.files) for loaded in whole]
        wrong = set(names[0]).intersection(*names)
        # Where all were missing after a clean stop, the newest one comes first, so that no producer comes back. A
        # broker that is started then needs no older ones, and makes none.
        newest = max((name for name in found.files if name.endswith(".snapshot")), default="")
        wrong -= {name for name in wrong if name.endswith(".snapshot") and name not in found.files and name < newest}
        if untouched.refusal is not None:
            # rebuild-index has mended what Kafka stopped at, and not yet what it would have believed then.
            wrong = {name for name in wrong if name.endswith(".log")}
        return f"files: {sorted(wrong)}" if wrong else None

    def _not_settled(self, left: Path, case: Case, finishes: bool, done: Files) -> str | None:
        """Whether `undo` gives all back, or `apply --resume` makes all of it."""
        entries = self._entries()
        if finishes and entries and entries[0].progress() in (Progress.STAGED, Progress.DONE):
            if entries[0].progress() is Progress.STAGED:
                resume(entries[0], disk=HastyDisk())
            return None if files_of(left) == done else f"resumed: {differing(files_of(left), done)}"
        for entry in entries:
            undo(entry, disk=HastyDisk())
        now, was = picture(left), picture(case.dir)
        wrong = sorted(name for name in {*now, *was} - {"."} if now.get(name) != was.get(name))
        return f"undone: {wrong}" if wrong else None

    def _entries(self) -> list[Entry]:
        journal = f"{self.box / 'logdir'}.klogtool"
        return list(walk_entries(journal)) if os.path.isdir(journal) else []


def differing(found: Files, wanted: Files) -> list[str]:
    """Names of files that only one has, or that are not equal."""
    return sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))


@contextmanager
def killing(command: str, seed: int) -> Iterator[Killing]:
    """Ready to be asked; nothing stays of it."""
    folder = scratch_folder("klogtool-kill-")
    try:
        with an_oracle() as oracle:
            yield Killing(oracle, command, seed, folder)
    finally:
        shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", choices=COMMANDS, default=COMMANDS[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began, problems = time.monotonic(), 0
    with killing(options.command, options.seed) as asked:
        for kill, problem in asked.problems(options.count):
            problems += 1
            print(f"{kill}\n  DIFFERS: {problem}", flush=True)
    print(f"{time.monotonic() - began:.0f} s, {problems} problems; {json.dumps(asked.tally)}")
    return min(problems, 1)


if __name__ == "__main__":
    sys.exit(main())
