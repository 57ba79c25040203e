"""Random logs by the makers of ../shared/oracle, each put to several questions: damaged, or asked in other ways.

A log is made by Kafka's own append path. For the tests of loading it gets a damage that has a name there, a few that
have none (wounds.py), or both.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from klogtool.broker.circumstances import Circumstances

from .beside import module_beside
from .folders import Files, files_of, put
from .wounds import wound

LATER_MS = 86_000_000  # the clock, behind the first record's time: nearly a day, when producers begin to expire
COMPACTED_SHARE = 0.1
QUESTIONS_OF_A_LOG = 8
DAMAGES_OF_A_LOG = 12


class Makers:
    """Modules of ../shared/oracle."""

    def __init__(self) -> None:
        self.cases = module_beside("oracle/cases.py")
        self.damage: ModuleType = self.cases.damage
        self.logs = module_beside("oracle/logs.py")


@dataclass
class Case:
    """A partition dir, the question about it as the oracle takes it, and what was done to it.

    told: its number, SEED.VARIANT; rng: what a check draws on for the rest of its question.
    """

    told: str
    dir: Path
    args: dict[str, Any]
    story: list[str]
    rng: random.Random

    @property
    def circumstances(self) -> Circumstances:
        """What klogtool is told beside the dir."""
        args = self.args
        settings = {**args["config"], **args.get("cleaner", {})}
        return Circumstances(
            now_ms=args["now_ms"],
            config={name: str(value) for name, value in settings.items()},
            recovery_point=args.get("recovery_point"),
            log_start_offset=args.get("log_start_offset"),
            high_watermark=args.get("high_watermark"),
            last_stop=None if "clean" not in args else "clean" if args["clean"] else "unclean",
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """The question as klogtool's decisions take it."""
        return {**self.circumstances.as_arguments(), "jobs": 1}


@dataclass(frozen=True)
class Start:
    """What a case begins with: a log and a config of its own. about: what its maker says of the log."""

    told: str
    rng: random.Random
    dir: Path
    files: Files
    config: dict[str, str]
    about: Any


Made = tuple[Path, dict[str, str], Any]  # the log's folder, its config, what is to be said of it


def walk_starts(
    makers: Makers,
    oracle: Any,
    work: Path,
    kind: str,
    seed: int,
    count: int,
    make: Callable[[Any, random.Random], Made],
    of_a_log: int = QUESTIONS_OF_A_LOG,
) -> Iterator[Start]:
    """So many starts, some of each log made; each is gone when the next one is asked for.

    kind: what the random numbers are drawn for. make: makes a log at a Bench of the makers.
    """
    made = 0
    while made < count:
        rng = random.Random(f"{kind}:{seed}")
        try:
            folder, config, about = make(makers.cases.Bench(oracle, rng, work / "made", 0), rng)
            files = files_of(folder)
            for variant in range(min(of_a_log, count - made)):
                made += 1
                told = f"{seed}.{variant}"
                shutil.rmtree(work / "case", ignore_errors=True)
                path = put(work / "case" / folder.name, files)
                yield Start(told, random.Random(f"{kind}:{told}"), path, files, dict(config), about)
        except RuntimeError:  # a random log that Kafka does not append; the next one
            continue
        finally:
            seed += 1
            shutil.rmtree(work, ignore_errors=True)


# --- damaged logs -----------------------------------------------------------------------------------------------------


def walk_damaged(
    makers: Makers, oracle: Any, work: Path, seed: int, count: int, of_a_log: int = DAMAGES_OF_A_LOG
) -> Iterator[Case]:
    """Damaged logs, to be loaded after a kill unless a damage says otherwise."""

    def make(bench: Any, rng: random.Random) -> Made:
        name = rng.choice(list(makers.damage.KINDS))
        folder, config, shape = bench.log(**makers.damage.WANTS[name])
        if rng.random() < COMPACTED_SHARE:
            bench.compacted(folder, config)
        return folder, config, (name, shape)

    for start in walk_starts(makers, oracle, work, "load", seed, count, make, of_a_log):
        try:
            case = _damaged(makers, oracle, start)
        except RuntimeError:  # a damage would be made of batches that Kafka does not append; the next one
            continue
        yield case


def _damaged(makers: Makers, oracle: Any, start: Start) -> Case:
    """The first of a log has the damage that it was made for and no other."""
    rng, (name, shape), is_first = start.rng, start.about, start.told.endswith(".0")
    args: dict[str, Any] = {"clean": False, "recovery_point": 0, "now_ms": makers.logs.T0 + LATER_MS}
    if shape.first_offset:
        args["log_start_offset"] = shape.first_offset
    scene = makers.damage.Scene(oracle, rng, start.dir, start.config, args)
    story = []
    if is_first or rng.random() < 0.4:
        story.append(f"{name}: {makers.damage.KINDS[name](scene)}")
    if not is_first:
        story += [wound(rng, scene.dir, scene.args, scene.config) for _ in range(rng.choice((1, 1, 2, 3)))]
    return Case(start.told, scene.dir, {**scene.args, "config": scene.config}, story, rng)
