#!/usr/bin/env python3
"""Damaged files through `klogtool dump-log`: `dump_log.py [--seconds N | --inputs N] [--seed S]`.

Each input is a partition dir with one damaged file, dumped with options of chance, twice: by the kernels and by the
reference reader. Found is: a traceback, a status that does not fit, a dump that takes too long, two different answers.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass

from damaged import damaged, seeds  # first: it makes the modules of tests/ known
from dumps import DUMPS
from sums import add, add_option

from klogtool import kernels

from running import FIXTURES, Done, run_here  # isort: skip

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint", "-checkpoint", ".metadata")
OPTIONS = (
    *DUMPS,
    ["--format", "json"],
    ["--format", "json", "--resync"],
    ["--format", "json", "--offsets", "5..40", "--grep", "alpha"],
    ["--resync", "--deep-iteration"],
    ["--print-data-log", "--timestamps", "1700000010000..", "--producer-id", "-1"],
)
STATUSES = (0, 1, 4)
DIED = 70
LIMIT_S = 20


@dataclass(frozen=True)
class Input:
    """One damaged file and how it is asked about; `name` is its path inside the fixtures."""

    name: str
    data: bytes
    options: list[str]
    kafkas_way: bool


def choose(rng: random.Random, found: list[tuple[str, bytes]]) -> Input:
    name, data = rng.choice(found)
    bytes_ = damaged(rng, data, healed=name.endswith((".log", ".checkpoint")) and rng.random() < 0.5)
    return Input(name, bytes_, rng.choice(OPTIONS), rng.random() < 0.5)


def lay_out(tried: Input, folder: pathlib.Path) -> pathlib.Path:
    """The damaged file under its own name, what it needs beside it by links. Returns its path."""
    source = FIXTURES / tried.name
    partition = folder / source.parent.name
    partition.mkdir()
    for beside in source.parent.iterdir():
        if beside.is_file() and beside != source:
            (partition / beside.name).symlink_to(beside)
    path = partition / source.name
    path.write_bytes(tried.data)
    return path


def ask(tried: Input, path: pathlib.Path, native: object) -> Done:
    """klogtool's answer by the kernels, or without them by the reference reader."""
    kept, kernels.native = kernels.native, native
    signal.alarm(LIMIT_S)
    try:
        how = ["--files", path.name] if tried.kafkas_way else [path.name]
        return run_here(["dump-log", *how, *tried.options], path.parent)
    except Exception:
        return Done(DIED, b"", traceback.format_exc())
    finally:
        signal.alarm(0)
        kernels.native = kept


def judge(by_kernel: Done, by_reference: Done) -> str | None:
    """What is wrong with these answers, or None."""
    for done in (by_kernel, by_reference):
        if "Traceback" in done.err:
            return f"a traceback: {done.err[-2000:]}"
        if done.status not in STATUSES:
            return f"status {done.status}: {done.err[-500:]}"
        if done.status and not done.err:
            return f"status {done.status} without a word"
    if (by_kernel.status, by_kernel.out) != (by_reference.status, by_reference.out):
        pairs = zip(by_kernel.out, by_reference.out, strict=False)
        at = next((n for n, (mine, other) in enumerate(pairs) if mine != other), len(by_reference.out))
        shown = [f"status {d.status}, ...{d.out[max(0, at - 100) : at + 300]!r}" for d in (by_kernel, by_reference)]
        return "kernel and reference differ:\n  " + "\n  ".join(shown)
    return None


def late(*_: object) -> None:
    raise AssertionError(f"no answer in {LIMIT_S} s")


def run(seed: int, first: int, inputs: int, seconds: float, native: object) -> tuple[int, int]:
    """(how many inputs went through, how many of them found something)."""
    found, until, findings = seeds(SUFFIXES), time.monotonic() + seconds, 0
    for n in range(first, first + inputs):
        if time.monotonic() > until:
            return n - first, findings
        tried = choose(random.Random(f"{seed}-{n}"), found)
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            path = lay_out(tried, pathlib.Path(folder))
            wrong = judge(ask(tried, path, native), ask(tried, path, kernels.absent))
        if wrong:
            findings += 1
            way = "--files" if tried.kafkas_way else ""
            print(
                f"input {n} of seed {seed}: dump-log {way} {tried.name} {' '.join(tried.options)}\n  {wrong}",
                flush=True,
            )
    return inputs, findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--inputs", type=int, default=10**9)
    parser.add_argument(
        "--first", type=int, default=0, help="begin with this one: `--first N --inputs 1` asks it again"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    add_option(parser)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, late)
    done, findings = run(options.seed, options.first, options.inputs, options.seconds, kernels.native)
    add(options.add, "dump_log.py", inputs=done, found=findings)
    print(f"{done} damaged files through dump-log, seed {options.seed}: {findings or 'nothing'} found")
    sys.exit(findings > 0)


if __name__ == "__main__":
    main()
