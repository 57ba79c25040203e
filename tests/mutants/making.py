"""Mutants: every place of a rule where something small can be changed, and the module with that change."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from msgspec import Struct
from museum.__main__ import ROOT

from mutants.rules import Rule
from mutants.source import Place, Source

# `|` stands in types, `is` for `==` changes nothing of small numbers, and other arithmetic is noticed by everything.
OPERATORS = re.compile(
    r"core/(AddNot|NumberReplacer|ZeroIterationForLoop|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceTrueWithFalse|"
    r"ReplaceFalseWithTrue|ReplaceContinueWithBreak|ReplaceBinaryOperator_(Add_Sub|Sub_Add)|"
    r"ReplaceComparisonOperator_(Is_IsNot|IsNot_Is|(?!Is)[A-Za-z]+_(?!Is)[A-Za-z]+))"
)


class Chance(Struct, frozen=True):
    """What can be changed: the nth place of an operator in a module."""

    file: str
    operator: str
    nth: int


class Mutant(Struct, frozen=True):
    """A module with one change. text: the whole of it then. before, after: the line number `line`."""

    file: str
    line: int
    place: Place
    before: str
    after: str
    text: str

    @property
    def name(self) -> tuple[str, str, int, str, str]:
        """No other mutant has this name, and it survives changes of other functions."""
        return self.file, self.place.function, self.place.nth, self.before, self.after

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.place.function}: {self.before}  ->  {self.after}"


def chances_of(rule: Rule) -> Iterator[Chance]:
    """Yield what can be changed in a rule's modules; what is frozen is no rule."""
    for file in rule.modules:
        nodes, lines = list(ast_nodes(get_ast(_text(file)))), source(file).lines
        for name in filter(OPERATORS.fullmatch, operator_names()):
            operator = get_operator(name)()
            starts = [start[0] for node in nodes for start, _ in operator.mutation_positions(node)]
            yield from (Chance(file, name, n) for n, line in enumerate(starts) if "(Struct, " not in lines[line - 1])


def made(chance: Chance) -> Mutant | None:
    """Make the mutant, or None if it is the same text."""
    text = _text(chance.file)
    changed = mutate_code(text, get_operator(chance.operator)(), chance.nth)
    if changed is None or changed == text:
        return None
    pairs = enumerate(zip(text.splitlines(), changed.splitlines(), strict=False), 1)
    line, before, after = next((n, old.strip(), new.strip()) for n, (old, new) in pairs if old != new)
    return Mutant(chance.file, line, source(chance.file).place_of(line), before, after, changed)


@functools.cache
def source(file: str) -> Source:
    """Return what is known of a module's text."""
    return Source(_text(file))


@functools.cache
def _text(file: str) -> str:
    return (ROOT / "klogtool" / file).read_text(encoding="utf-8")
