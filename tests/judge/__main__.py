"""Run the judge by hand: `make judge`, `make judge-sample`.

Every false sentence is printed with the seed and the faults that led to it; the exit status is 1 if more than --at-most
of a hundred are false. A seed means the same faults only over the same base states, which are in the cache of the tests
(KLOGTOOL_TEST_CACHE). A kind of case that was asked for and judged nothing ends it with 1 as well.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

import pytest
from kafka.brokers import fetched

from .bases import RELEASES, base_of
from .cases import Outcome, judge_crowd, judge_log_dirs
from .changes import judge_changes
from .cures import judge_crowd_of_options, judge_options_of_log_dirs
from .quorums import judge_quorum

Case = Callable[[], Iterator[Outcome]]


@dataclass
class Tally:
    """judged, false: by release and kind of case."""

    judged: Counter[tuple[str, str]] = field(default_factory=Counter)
    false: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        key = outcome.version, outcome.case
        self.judged[key] += outcome.judged
        self.false[key] += len(outcome.differences)

    def without_judgement(self) -> list[str]:
        """The kinds of case that ran and judged nothing: what they are to prove, nobody knows."""
        return [f"{version} {case}" for (version, case), judged in sorted(self.judged.items()) if not judged]

    def lines(self) -> Iterator[str]:
        for version, case in sorted(self.judged):
            judged, false = self.judged[version, case], self.false[version, case]
            yield f"{version} {case}: {judged} judged, {false} false"


def show(outcome: Outcome) -> None:
    """The false sentences of a case, each with the faults of what it is about."""
    for difference in outcome.differences:
        name = difference.about.split("/")[-1]
        faults = (
            outcome.faults.get(name) or outcome.faults.get("both") or f"{len(outcome.faults)} partitions with faults"
        )
        print(f"FALSE {difference.kind} {difference.about}: {difference.told}")
        print(f"      {outcome.version} {outcome.case} seed {outcome.seed}, {outcome.state}: {faults}", flush=True)


def one(judged: Callable[[], Outcome]) -> Iterator[Outcome]:
    yield judged()


def outcomes_of(case: Case) -> list[Outcome]:
    """All outcomes of a case: what a process of its own hands back."""
    return list(case())


def make_bases(releases: list[str], jobs: int) -> None:
    """Those that are not in the cache: a broker that is fed waits most of its time, too."""
    for version in releases:
        fetched(version)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(base_of, releases))


def judged_by(jobs: int, cases: Iterator[Case]) -> Iterator[Outcome]:
    """The outcomes in the order of the cases. A broker waits most of its time, so two at a time take little longer. A
    client that waited in vain beside another broker proves nothing: its case is judged once more, alone."""
    if jobs == 1:
        yield from (outcome for case in cases for outcome in case())
        return
    listed, late = list(cases), list[Case]()
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        for case, outcomes in zip(listed, pool.map(outcomes_of, listed), strict=True):
            if any("TimeoutException" in difference.told for each in outcomes for difference in each.differences):
                late.append(case)
            else:
                yield from outcomes
    yield from (outcome for case in late for outcome in case())


def cases_of(given: argparse.Namespace, seed: int) -> Iterator[Case]:
    """The crowds of each release in turn, then its log dirs."""
    for version in given.releases.split(","):
        few = given.sample and version != given.releases.split(",")[0]
        for n in range(given.crowds):
            yield partial(judge_crowd, version, f"{seed}.{n}", alone=0 if few else given.alone)
        if few:
            continue
        kinds = (
            (judge_log_dirs, given.log_dirs),
            (judge_crowd_of_options, given.options),
            (judge_options_of_log_dirs, given.dir_options),
            (judge_changes, given.commands),
            (judge_quorum, given.quorums),
        )
        for judged, count in kinds:
            for n in range(count):
                yield partial(one, partial(judged, version, f"{seed}.{n}"))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="judge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--releases", default=",".join(RELEASES), help="with commas")
    parser.add_argument("--seed", type=int, help="default: by chance; it is printed")
    parser.add_argument("--crowds", type=int, default=4, help="starts with 120 damaged partitions each, a release")
    parser.add_argument("--alone", type=int, default=4, help="starts for partitions that end one, a crowd")
    parser.add_argument("--log-dirs", type=int, default=20, help="starts of whole log dirs, a release")
    parser.add_argument("--options", type=int, default=2, help="starts after an option of each trouble, a release")
    parser.add_argument("--dir-options", type=int, default=4, help="the same with whole log dirs, a release")
    parser.add_argument("--commands", type=int, default=2, help="starts after commands on 60 partitions, a release")
    parser.add_argument("--quorums", type=int, default=10, help="starts of controllers of a damaged quorum, a release")
    parser.add_argument("--at-most", type=int, default=0, help="how many of 100 may be false (default 0)")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time; each has a broker (default 1)")
    parser.add_argument("--sample", action="store_true", help="the other releases than the first: a crowd only")
    return parser


def main() -> int:
    given = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no broker is left running
    seed = given.seed if given.seed is not None else random.randrange(10**6)
    print(f"judge: seed {seed}, releases {given.releases}", flush=True)
    tally, began = Tally(), time.monotonic()
    try:
        make_bases(given.releases.split(","), given.jobs)
    except pytest.skip.Exception as why:
        print(f"judge: left out: {why}")
        return int(os.environ.get("KLOGTOOL_NO_SKIP") == "1")
    for outcome in judged_by(given.jobs, cases_of(given, seed)):
        tally.add(outcome)
        show(outcome)
        print(
            f"  {outcome.version} {outcome.case} {outcome.seed}: {outcome.judged} judged, "
            f"{len(outcome.differences)} false ({time.monotonic() - began:.0f} s)",
            flush=True,
        )
    print(*tally.lines(), sep="\n")
    if empty := tally.without_judgement():
        print(f"judge: FAILED: nothing was judged of {', '.join(empty)}: take another --seed, or more of them")
        return 1
    return int(100 * tally.false.total() > given.at_most * tally.judged.total())


if __name__ == "__main__":
    sys.exit(main())
