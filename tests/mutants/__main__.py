"""`make mutants`: small changes of the rules, one after the other, in a copy of the checkout; a test has to fail.

    PYTHONPATH=tests python -m mutants [--rule NAME] [--most N] [--seed TEXT] [--jobs N]

Of each rule's mutants, `most` are drawn by a seed that is printed. One that survives is an error, unless survivors.toml
has it with a reason. Those that differ in types only, or are killed by any test, are not made. A first run without any
mutant tells which tests execute which line, so that a mutant needs only those.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from mutants.making import Mutant, chances_of, made
from mutants.rules import rules, survivors
from mutants.trying import Laboratory, Tried, Verdict


def drawn(name: str, most: int, seed: str) -> tuple[list[Mutant], int]:
    """Return so many different mutants of a rule, and of how many changes they were drawn."""
    chances = list(chances_of(rules()[name]))
    total = len(chances)
    random.Random(f"{seed} {name}").shuffle(chances)
    chosen: dict[tuple[str, str, int, str, str], Mutant] = {}
    for chance in chances:
        if len(chosen) == most:
            break
        if (mutant := made(chance)) is not None:
            chosen.setdefault(mutant.name, mutant)
    return list(chosen.values()), total


def tried(drawn_of: Mapping[str, Sequence[Mutant]], jobs: int, seed: str) -> Iterator[tuple[str, Mutant, Tried]]:
    """Try all, with their rule's name. Raises SystemExit if tests fail without any mutant."""
    wanted = [rules()[name] for name in drawn_of]
    with tempfile.TemporaryDirectory(prefix="klogtool-mutants-") as folder:
        all_copies = [Laboratory(folder, n, seed) for n in range(jobs)]
        watched = all_copies[0].watch(
            (module for rule in wanted for module in rule.modules), (test for rule in wanted for test in rule.tests)
        )
        print(f"without any mutant: {len(watched.seconds)} tests, {sum(watched.seconds.values()):.0f} s", flush=True)
        copies: SimpleQueue[Laboratory] = SimpleQueue()
        for copy in all_copies:
            copy.watched = watched
            copies.put(copy)

        def look(task: tuple[str, Mutant]) -> tuple[str, Mutant, Tried]:
            mine = copies.get()
            try:
                return *task, mine.try_out(task[1], rules()[task[0]])
            finally:
                copies.put(mine)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(look, [(name, mutant) for name, mutants in drawn_of.items() for mutant in mutants])


def main(arguments: Sequence[str]) -> int:
    """Return 1 if a mutant survives for no known reason, or nobody could tell."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--rule", action="append", default=[], choices=list(rules()), help="of this rule; repeatable")
    parser.add_argument("--most", type=int, default=15, help="mutants of each rule that are tried")
    parser.add_argument("--seed", default=None, help="what draws them, and the chance of their tests; default: chance")
    parser.add_argument("--jobs", type=int, default=1, help="copies that are used at a time")
    given = parser.parse_args(arguments)
    seed = given.seed or hashlib.sha256(random.randbytes(8)).hexdigest()[:8]
    all_drawn = {name: drawn(name, given.most, seed) for name in rules() if name in (given.rule or rules())}
    print(f"the same again: --most {given.most} --seed {seed}", flush=True)
    known = {each.name for each in survivors()}
    counts: Counter[tuple[str, Verdict | None]] = Counter()
    for name, mutant, result in tried({name: mutants for name, (mutants, _) in all_drawn.items()}, given.jobs, seed):
        is_listed = result.verdict is Verdict.SURVIVES and mutant.name in known
        counts[name, None if is_listed else result.verdict] += 1
        print(f"{'listed' if is_listed else result.verdict.value:9} {mutant}  {result.note}".rstrip(), flush=True)
    for name, (mutants, total) in all_drawn.items():
        told = ", ".join(f"{counts[name, verdict]} {verdict.value}" for verdict in Verdict)
        print(f"{name}: {len(mutants)} of {total} tried: {told}, {counts[name, None]} survive as listed")
    return 1 if any(n and verdict in (Verdict.SURVIVES, Verdict.ERROR) for (_, verdict), n in counts.items()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
