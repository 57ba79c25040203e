"""Runs of commands and what they take, tables, and where the data and Kafka are: what bench.py measures with.

Imports next to nothing, as bench.py does, for the sake of the peaks of memory.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled
NULL_FILES = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]


@dataclass
class Samples:
    """The runs of one command: seconds, those of processors, and peak megabytes."""

    command: list[str]
    fine: tuple[int, ...] = (0,)  # exit statuses
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Run once, as a process of its own with nothing to read and nowhere to write. Exits if it fails."""
        begin = time.perf_counter()
        pid = os.posix_spawn(self.command[0], self.command, os.environ, file_actions=NULL_FILES)
        _, status, usage = os.wait4(pid, 0)
        self.seconds.append(time.perf_counter() - begin)
        self.processor_seconds.append(usage.ru_utime + usage.ru_stime)
        self.megabytes.append(usage.ru_maxrss / 1024)
        if os.waitstatus_to_exitcode(status) not in self.fine:
            sys.exit(f"status {os.waitstatus_to_exitcode(status)} from: {' '.join(self.command)}")

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def peak(self) -> float:
        return max(self.megabytes)


def in_turn(runs: int, *samples: Samples) -> None:
    for _ in range(runs):
        for sample in samples:
            sample.run()


# ---------------------------------------------------------------- telling


class Table:
    """Rows told as they come; all of them again as Markdown."""

    def __init__(self, *head: str) -> None:
        self.rows: list[list[str]] = []
        self.widths = [max(8, len(cell)) for cell in head]
        self.add(*head)

    def add(self, *cells: str) -> None:
        self.rows.append(list(cells))
        print("  ".join(map(str.ljust, cells, self.widths)).rstrip(), flush=True)

    def markdown(self) -> str:
        lines = ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join([lines[0], "|" + "---|" * len(self.widths), *lines[1:]]) + "\n"


# ---------------------------------------------------------------- data and Kafka


@dataclass(frozen=True)
class Setup:
    """Where the data and Kafka are, and how often to run what."""

    data: pathlib.Path
    kafka_class_path: str
    runs: int
    jobs: list[int]
    compare: bool
    exports: pathlib.Path
    scale: float

    def log(self, name: str) -> str:
        return str(self.data / f"{name}-0" / f"{0:020d}.log")

    def java(self, program: str, heap: str = "-Xmx512m") -> list[str]:
        """The command of a program beside this file, compiled, with Kafka's jars and a plain collector."""
        classes = self.data / "classes"
        sources = [str(HERE / f"{name}.java") for name in (program, "Shared")]
        javac = ["javac", "-d", str(classes), "-cp", self.kafka_class_path, *sources]
        subprocess.run(javac, check=True, stderr=subprocess.DEVNULL)
        return ["java", heap, "-XX:+UseSerialGC", "-cp", f"{classes}:{self.kafka_class_path}", program]

    def dump_log_segments(self, log: str, options: Sequence[str]) -> list[str]:
        java = ["java", "-Xmx512m", "-cp", self.kafka_class_path, "org.apache.kafka.tools.DumpLogSegments"]
        return ["/usr/bin/env", *java, "--files", log, *options]


def kafka_home() -> pathlib.Path:
    """The jars of Kafka 4.3.1, from the cache that tests/kafka fills."""
    sys.path.insert(0, str(ROOT / "tests"))
    from kafka.kafka import prepare

    home: pathlib.Path = prepare()
    return home


def make_data(folder: pathlib.Path, scale: float, names: Sequence[str], class_path: str) -> None:
    missing = [name for name in names if not (folder / f"{name}-0" / f"{0:020d}.log").exists()]
    if missing:
        print(f"making {', '.join(missing)} in {folder}", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        gen = ["java", "-Xmx512m", "-cp", class_path, str(HERE / "Gen.java"), str(folder), str(scale), *missing]
        subprocess.run(gen, check=True, stderr=subprocess.DEVNULL)


def told_by(command: Sequence[str]) -> str:
    """What a command prints. What it says besides is told only if it fails; this program ends then."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stderr}status {done.returncode} from: {' '.join(command)}")
    return done.stdout
