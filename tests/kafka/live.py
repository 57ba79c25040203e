"""Questions about random logs, to Kafka and to klogtool: so many by pytest, or by hand for hours.

A test_*_against_kafka.py names its questions: which logs each is asked about, and the check that asks both sides.
`python -m` of such a file takes --count, --seed, --only and --case, and exits with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from .kafka import scratch_folder
from .random_logs import DAMAGES_OF_A_LOG, Case, Makers

Tally: TypeAlias = Counter[str]
Walk: TypeAlias = Callable[[Makers, Any, Path, int, int], Iterator[Case]]
Check: TypeAlias = Callable[[Any, Case, Tally], Iterator[str]]


@dataclass(frozen=True)
class Question:
    """walk: the cases, from makers, oracle, a work folder, a seed and a count; check: tells how the answers differ."""

    walk: Walk
    check: Check


Questions: TypeAlias = Mapping[str, Question]


def run(question: Question, *, seed: int, count: int, tally: Tally, only: str | None = None) -> Iterator[str]:
    """Cases that are answered otherwise, each told. only: the one case that is asked about."""
    makers = Makers()
    work = scratch_folder("klogtool-live-")
    try:
        with makers.cases.Oracle() as oracle:
            for case in question.walk(makers, oracle, work / "work", seed, count):
                if only in (None, case.told):
                    for difference in question.check(oracle, case, tally):
                        yield f"case {case.told}: {case.story} {case.args}\n    {difference}"
    finally:
        shutil.rmtree(work, ignore_errors=True)


def agreed(question: Question, count: int) -> Tally:
    """For a test: what was counted over so many cases, in which nothing may differ."""
    tally: Tally = Counter()
    told = list(run(question, seed=1, count=count, tally=tally))
    assert not told, f"{len(told)} differ ({dict(tally)}); the first:\n{told[0]}"
    return tally


def parser_for(doc: str, questions: Questions, *, count: int) -> argparse.ArgumentParser:
    """Of `python -m`; a file may add options of its own."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=questions)
    parser.add_argument("--case", metavar="SEED.VARIANT")
    return parser


def report(questions: Questions, given: argparse.Namespace) -> int:
    """Asks what was asked for, and prints differences and counts. The exit status."""
    seed, count = (int(given.case.split(".")[0]), DAMAGES_OF_A_LOG) if given.case else (given.seed, given.count)
    status = 0
    for name in [given.only] if given.only else questions:
        tally: Tally = Counter()
        for told in run(questions[name], seed=seed, count=count, tally=tally, only=given.case):
            status = 1
            print(told, flush=True)
        print(name, dict(tally.most_common()), flush=True)
    return status
