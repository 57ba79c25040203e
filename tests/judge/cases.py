"""The cases: a whole broker's log dirs with a few faults, or many partitions with faults of their own in one start."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafka.kafka import scratch_folder

from . import batch_faults, content_faults, dir_faults, file_faults, misplaced_faults, restore_faults, text_faults
from .bases import COUNT, COUNT_COMPACTED, FED, INTERNAL, KILLED, LOG_DIRS, MANY, MANY_COMPACTED, STATES, base_of
from .claims import Claims, claims_of
from .comparison import Difference, before_start, differences
from .disks import CHECKPOINTS, MARKER, Disks, Lines, damage, read_lines, write_lines
from .records_on_disk import batches_of
from .truth import Asked, started

JUDGED_STATES = ("S3", "S3", "S4", "S4", "S2")
IN_PARTITIONS = [
    *file_faults.MENU,
    *batch_faults.MENU,
    *misplaced_faults.MENU,
    *content_faults.MENU,
    *text_faults.IN_PARTITIONS,
    *restore_faults.IN_PARTITIONS,
]
OF_LOG_DIRS = [*dir_faults.MENU, *text_faults.IN_LOG_DIRS, *restore_faults.IN_LOG_DIRS]
ANYWHERE = [*IN_PARTITIONS, *OF_LOG_DIRS]
IN_LOG_DIRS = [*OF_LOG_DIRS, (file_faults.cut_log, 3), (file_faults.older_partition, 3)]
# What each of the many partitions is a copy of.
SOURCES = ("plain-0", "plain-1", "txn-0", "txn-1", "idem-0", "moved-0")
SOURCE_COMPACTED = "comp-0"
ENDING_STARTS = ("refuses", "offline", "unserved", "stray", "misnamed")
ROUNDS = 12


@dataclass
class Outcome:
    """What a case found. judged: partitions or log dirs; faults: by what they were done to."""

    case: str
    version: str
    seed: str
    state: str
    faults: dict[str, list[str]]
    judged: int = 0
    differences: list[Difference] = field(default_factory=list)


@contextmanager
def a_place() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    place = scratch_folder("klogtool-judge-")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def copied(root: Path, target: Path) -> Path:
    """Another copy of the log dirs, hard links too: doctor and broker each have their own."""
    subprocess.run(["cp", "-a", str(root), str(target)], check=True)
    return target


def older_than(base: Path, state: str) -> list[Path]:
    return [base / name for name in STATES[: STATES.index(state)]] or [base / STATES[0]]


# ---------------------------------------------------------------- whole log dirs


def damaged_log_dirs(version: str, seed: str, root: Path) -> Outcome:
    """A base state with one to four faults, in `root`."""
    rng, base = random.Random(seed), base_of(version)
    state = rng.choice(JUDGED_STATES)
    copied(base / state, root)
    menu = rng.choice([ANYWHERE, ANYWHERE, IN_LOG_DIRS])
    disks = Disks(rng, root, older_than(base, state))
    return Outcome("dirs", version, seed, state, {"both": damage(disks, menu, range(rng.choice([1, 2, 2, 3, 3, 4])))})


def judge_log_dirs(version: str, seed: str) -> Outcome:
    """One start on damaged log dirs."""
    with a_place() as place:
        outcome = damaged_log_dirs(version, seed, place / "damaged")
        outcome.judged = 1
        claims, before = claims_of(version, place / "damaged"), before_start(place / "damaged")
        truth = started(version, copied(place / "damaged", place / "broker"), Asked.READ, [*FED, *INTERNAL])
        outcome.differences = list(differences(claims, truth, before))
    return outcome


# ---------------------------------------------------------------- many partitions in one start


def many() -> list[str]:
    return [*(f"{MANY}-{n}" for n in range(COUNT)), *(f"{MANY_COMPACTED}-{n}" for n in range(COUNT_COMPACTED))]


@dataclass
class Crowd:
    """Log dirs whose many partitions are copies of the fed ones. at: where each is; source: what it is a copy of."""

    root: Path
    base: Path
    state: str
    at: dict[str, Path]
    source: dict[str, str]

    def lay_down(self, partition: str) -> None:
        """Sound again, as at first."""
        source = next(
            path for name in LOG_DIRS if (path := self.base / self.state / name / self.source[partition]).is_dir()
        )
        target = self.at[partition]
        shutil.rmtree(target)
        shutil.copytree(source, target)
        shutil.copy2(self.base / self.state / target.parent.name / partition / "partition.metadata", target)


def crowd_of(version: str, rng: random.Random, root: Path, state: str) -> Crowd:
    """The many partitions, filled, with random recovery points that are possible."""
    base = base_of(version)
    copied(base / state, root)
    at = {path.name: path for name in LOG_DIRS for path in (root / name).iterdir() if path.is_dir()}
    source = {name: SOURCE_COMPACTED if name.startswith(MANY_COMPACTED) else rng.choice(SOURCES) for name in many()}
    crowd = Crowd(root, base, state, {name: at[name] for name in source}, source)
    for partition in source:
        crowd.lay_down(partition)
    for checkpoint in CHECKPOINTS:
        _fill_checkpoint(crowd, checkpoint, rng)
    return crowd


def _fill_checkpoint(crowd: Crowd, checkpoint: str, rng: random.Random) -> None:
    known: Lines = {}
    for name in LOG_DIRS:
        known |= read_lines(crowd.base / crowd.state / name / checkpoint)
    for name in LOG_DIRS:
        lines = {
            key: offset for key, offset in read_lines(crowd.root / name / checkpoint).items() if key not in crowd.at
        }
        for partition, source in crowd.source.items():
            if crowd.at[partition].parent.name != name:
                continue
            value = known.get(source)
            if checkpoint == CHECKPOINTS[0]:
                value = _some_recovery_point(crowd.at[partition], value, rng)
            if value is not None:
                lines[partition] = value
        write_lines(crowd.root / name / checkpoint, lines)


def _some_recovery_point(partition: Path, known: int | None, rng: random.Random) -> int | None:
    chance, batches = rng.random(), batches_of(partition)
    if chance < 0.25:
        return None
    if chance < 0.6 and batches:
        one = rng.choice(batches)
        return rng.choice([0, one.base_offset, one.last_offset + 1, int(one.file[:20])])
    return known


def damaged_crowd(version: str, seed: str, root: Path) -> tuple[Crowd, dict[str, list[str]]]:
    """Each of the many partitions with one to four faults of its own."""
    rng = random.Random(seed)
    state = rng.choice(JUDGED_STATES)
    crowd = crowd_of(version, rng, root, state)
    if state not in KILLED and rng.random() < 0.3:
        (root / rng.choice(LOG_DIRS) / MARKER).unlink()
    faults = {}
    for partition in many():
        own = random.Random(f"{seed} {partition}")
        disks = Disks(own, root, older_than(crowd.base, state), crowd.at[partition], crowd.source[partition])
        faults[partition] = damage(disks, IN_PARTITIONS, range(own.choice([1, 2, 2, 3, 4])))
    return crowd, faults


def put_aside(version: str, crowd: Crowd, aside: Path) -> tuple[Claims, list[str]]:
    """Lay down anew every partition of which the doctor says that it ends the start, or takes its log dir, or is set
    aside; until it says so of none. Each of them is in `aside`, for a start of its own."""
    gone: list[str] = []
    claims = claims_of(version, crowd.root)
    for _ in range(ROUNDS):
        named = {part for what, path in claims.ahead if what in ENDING_STARTS for part in Path(path).parts}
        hard = sorted(named & crowd.at.keys() - set(gone))
        if not hard:
            break
        for partition in hard:
            shutil.copytree(crowd.at[partition], aside / partition, symlinks=True)
            crowd.lay_down(partition)
        gone += hard
        claims = claims_of(version, crowd.root)
    return claims, gone


def judge_crowd(version: str, seed: str, *, alone: int) -> Iterator[Outcome]:
    """One start for the many partitions, and one more for some of those that were put aside, each alone."""
    with a_place() as place:
        crowd, faults = damaged_crowd(version, seed, place / "damaged")
        claims, aside = put_aside(version, crowd, place / "aside")
        outcome = Outcome("crowd", version, seed, crowd.state, faults, judged=len(many()) - len(aside))
        before = before_start(crowd.root)
        truth = started(version, copied(crowd.root, place / "broker"), Asked.READ, many())
        outcome.differences = list(differences(claims, truth, before))
        yield outcome
        for partition in random.Random(seed).sample(aside, min(alone, len(aside))):
            yield _judge_alone(version, seed, crowd, place, partition, faults[partition])


def _judge_alone(version: str, seed: str, crowd: Crowd, place: Path, partition: str, faults: list[str]) -> Outcome:
    """A partition that was put aside, back among sound ones."""
    root = place / "alone"
    shutil.rmtree(root, ignore_errors=True)
    copied(crowd.base / crowd.state, root)
    log_dir = crowd.at[partition].parent.name
    target = root / log_dir / partition
    shutil.rmtree(target)
    shutil.copytree(place / "aside" / partition, target, symlinks=True)
    for checkpoint in CHECKPOINTS:
        lines, known = read_lines(root / log_dir / checkpoint), read_lines(crowd.root / log_dir / checkpoint)
        lines.pop(partition, None)
        write_lines(root / log_dir / checkpoint, lines | {partition: known[partition]} if partition in known else lines)
    if not (crowd.root / log_dir / MARKER).exists():
        (root / log_dir / MARKER).unlink(missing_ok=True)
    claims, before = claims_of(version, root), before_start(root)
    shutil.rmtree(place / "broker", ignore_errors=True)
    truth = started(version, copied(root, place / "broker"), Asked.READ, [partition])
    outcome = Outcome("alone", version, seed, crowd.state, {partition: faults}, judged=1)
    outcome.differences = list(differences(claims, truth, before))
    return outcome
