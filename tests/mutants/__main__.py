"""`make mutants`: small changes of the rules, one after the other, in a copy of the checkout; a test has to fail.

    PYTHONPATH=tests python -m mutants [--rule NAME] [--most N] [--seed TEXT] [--jobs N]

Of all mutants, `most` are drawn by a seed that is printed. One that survives is an error, unless survivors.toml has it
with a reason. Those that differ in types only, or are killed by any test, are not made.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from msgspec import Struct
from museum.__main__ import ROOT, Scratch, write_module

from mutants.rules import Rule, rules, survivors

# `|` stands in types, `is` for `==` changes nothing of small numbers, and other arithmetic is noticed by everything.
OPERATORS = re.compile(
    r"core/(AddNot|NumberReplacer|ZeroIterationForLoop|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceTrueWithFalse|"
    r"ReplaceFalseWithTrue|ReplaceContinueWithBreak|ReplaceBinaryOperator_(Add_Sub|Sub_Add)|"
    r"ReplaceComparisonOperator_(Is_IsNot|IsNot_Is|(?!Is)[A-Za-z]+_(?!Is)[A-Za-z]+))"
)


class Mutant(Struct, frozen=True):
    """A module with one change. text: the whole of it then."""

    rule: Rule
    file: str
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.before}  ->  {self.after}"


def mutants_of(rule: Rule) -> Iterator[Mutant]:
    """Yield all mutants of a rule's modules."""
    for module in rule.modules:
        path = ROOT / "klogtool" / module
        text, nodes = path.read_text(encoding="utf-8"), list(ast_nodes(get_ast_from_path(path)))
        for name in filter(OPERATORS.fullmatch, operator_names()):
            operator = get_operator(name)()
            for n in range(sum(len(list(operator.mutation_positions(node))) for node in nodes)):
                if (changed := mutate_code(text, operator, n)) is not None:
                    before, after = _changed_line(text, changed)
                    if "(Struct, " not in before:  # what is frozen is no rule
                        yield Mutant(rule, module, before, after, changed)


def _changed_line(before: str, after: str) -> tuple[str, str]:
    lines = zip(before.splitlines(), after.splitlines(), strict=False)
    return next((old.strip(), new.strip()) for old, new in lines if old != new)


def is_noticed(scratch: Scratch, mutant: Mutant) -> bool:
    path = scratch.root / "klogtool" / mutant.file
    whole = path.read_text(encoding="utf-8")
    try:
        write_module(path, mutant.text)
        return scratch.run(*mutant.rule.tests)[0] != 0
    finally:
        write_module(path, whole)


def survive(drawn: Sequence[Mutant], jobs: int) -> Iterator[Mutant]:
    """Yield the mutants that no test of their rule notices. Raises SystemExit if tests fail without any mutant."""
    with tempfile.TemporaryDirectory(prefix="klogtool-mutants-") as folder:
        copies: SimpleQueue[Scratch] = SimpleQueue()
        for n in range(jobs):
            copies.put(Scratch(folder, n))

        def look(mutant: Mutant) -> bool:
            mine = copies.get()
            try:
                return is_noticed(mine, mutant)
            finally:
                copies.put(mine)

        scratch = copies.get()
        status, printed = scratch.run(*sorted({test for mutant in drawn for test in mutant.rule.tests}))
        copies.put(scratch)
        if status:
            raise SystemExit(f"without any mutant:\n{printed[-3000:]}")
        with ThreadPoolExecutor(jobs) as pool:
            for mutant, noticed in zip(drawn, pool.map(look, drawn), strict=True):
                print(f"{'noticed' if noticed else 'SURVIVES':9} {mutant}", flush=True)
                if not noticed:
                    yield mutant


def main(arguments: Sequence[str]) -> int:
    """Return 1 if a mutant survives for no known reason."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--rule", action="append", default=[], choices=list(rules()), help="of this rule; repeatable")
    parser.add_argument("--most", type=int, default=60, help="mutants that are tried")
    parser.add_argument("--seed", default=None, help="what draws them; default: chance")
    parser.add_argument("--jobs", type=int, default=1, help="copies that are used at a time")
    given = parser.parse_args(arguments)
    seed = given.seed or hashlib.sha256(random.randbytes(8)).hexdigest()[:8]
    every = [mutant for name, rule in rules().items() if name in (given.rule or rules()) for mutant in mutants_of(rule)]
    drawn = random.Random(seed).sample(every, min(given.most, len(every)))
    print(f"{len(drawn)} of {len(every)} mutants; the same again: --most {given.most} --seed {seed}")
    known = {(each.file, each.before, each.after) for each in survivors()}
    left = list(survive(drawn, given.jobs))
    unknown = [mutant for mutant in left if (mutant.file, mutant.before, mutant.after) not in known]
    print(f"{len(left)} of {len(drawn)} mutants survive; of {len(left) - len(unknown)} the reason is known")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
