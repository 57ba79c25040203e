"""A mutant is tried: the tests that execute its line, the fastest first, then all tests of its rule."""

from __future__ import annotations

import enum
import math
import pathlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from museum.__main__ import Scratch, write_module

from mutants.orders import ORDER, Order, Watched
from mutants.rules import Rule

if TYPE_CHECKING:
    from mutants.making import Mutant

START_SECONDS = 30  # of CPU: what pytest, its plugins and the imports may take on a slow machine
TIMES_SLOWER = 5  # than without a mutant; then the test is taken for endless
SECOND_LOOK = 4  # times as long again, before that is believed
PYTEST_FAILED = 1
NO_END = (-24, -1)  # SIGXCPU, and Scratch's own limit
WALL_SECONDS = 3600  # for those that sleep


class Verdict(enum.Enum):
    """What came of a mutant. Only a test that fails has noticed it."""

    NOTICED = "noticed"
    SURVIVES = "SURVIVES"
    ENDLESS = "no end"
    ERROR = "ERROR"


class Tried(Struct, frozen=True):
    """note: how the verdict came about, if not at the first look."""

    verdict: Verdict
    note: str = ""


class Laboratory:
    """A copy of the checkout, and what was seen there of all tests."""

    def __init__(self, folder: str, n: int, seed: str) -> None:
        self._scratch = Scratch(folder, n)
        self._order = pathlib.Path(folder) / f"order{n}.json"
        self._seed = seed
        self.watched = Watched({}, {})

    def watch(self, modules: Iterable[str], tests: Iterable[str]) -> Watched:
        """Run tests without any mutant; return which of them executes what. Raises SystemExit if one fails."""
        into = self._order.with_suffix(".watched")
        order = Order(modules=tuple(str(self._path(module)) for module in modules), into=str(into))
        status, printed = self._run(order, sorted(set(tests)))
        if status:
            raise SystemExit(f"without any mutant:\n{printed[-3000:]}")
        seen = msgspec.json.decode(into.read_bytes(), type=Watched)
        root = f"{self._scratch.root / 'klogtool'}/"
        return Watched(seen.seconds, {path.removeprefix(root): lines for path, lines in seen.tests.items()})

    def try_out(self, mutant: Mutant, rule: Rule) -> Tried:
        """Change the module, run tests, and change it back."""
        path = self._path(mutant.file)
        whole = path.read_text(encoding="utf-8")
        try:
            write_module(path, mutant.text)
            first = self._looked_at(executing(mutant, self.watched))
            if first.verdict is not Verdict.SURVIVES:
                return first
            second = self._looked_at(None, rule.tests)
            return (
                second
                if second.verdict is Verdict.SURVIVES
                else Tried(second.verdict, "by a test that was not seen there")
            )
        finally:
            write_module(path, whole)

    def _looked_at(self, chosen: Sequence[str] | None, all_tests: Sequence[str] = ()) -> Tried:
        """Run tests, longer if they seem endless."""
        if chosen is not None and not chosen:
            return Tried(Verdict.SURVIVES)
        paths = all_tests if chosen is None else sorted({name.partition("::")[0] for name in chosen})
        seconds = sum(self.watched.seconds[name] for name in (self.watched.seconds if chosen is None else chosen))
        limit = math.ceil(START_SECONDS + TIMES_SLOWER * seconds)
        only = None if chosen is None else tuple(chosen)
        status, printed = self._run(Order(only_tests=only, cpu_seconds=limit), paths)
        note = ""
        if status in NO_END:
            note = f"at the second look: no end after {limit} s of CPU"
            status, printed = self._run(Order(only_tests=only, cpu_seconds=limit * SECOND_LOOK), paths)
        if status in NO_END:
            return Tried(Verdict.ENDLESS, f"after {limit * SECOND_LOOK} s of CPU")
        if status in (0, PYTEST_FAILED):
            return Tried(Verdict.NOTICED if status else Verdict.SURVIVES, note)
        return Tried(Verdict.ERROR, f"pytest ended with {status}: {printed.strip()[-300:]}")

    def _run(self, order: Order, tests: Sequence[str]) -> tuple[int, str]:
        self._order.write_bytes(msgspec.json.encode(order))
        also = {
            "PYTHONPATH": f"{self._scratch.root}:{self._scratch.root / 'tests'}",
            "KLOGTOOL_NIGHTLY": "",
            ORDER: str(self._order),
        }
        options = ["-p", "mutants.watching", "--timeout", "0", "--seed", self._seed]
        return self._scratch.run(*options, *tests, also=also, seconds=WALL_SECONDS)

    def _path(self, module: str) -> pathlib.Path:
        return self._scratch.root / "klogtool" / module


def executing(mutant: Mutant, watched: Watched) -> list[str]:
    """Return the tests that execute the statement; if it is executed at import, the function; else the module. First
    the fastest case of each test, then the second of each."""
    lines = watched.tests.get(mutant.file, {})
    spans = [mutant.place.statement, mutant.place.body, (1, math.inf)]
    found = (
        {name for line, names in lines.items() if span[0] <= line <= span[1] for name in names}
        for span in spans
        if span
    )
    names = sorted(next(filter(None, found), set()), key=lambda name: (watched.seconds[name], name))
    seen: defaultdict[str, int] = defaultdict(int)
    rank = {}
    for name in names:
        seen[name.partition("[")[0]] += 1
        rank[name] = seen[name.partition("[")[0]]
    return sorted(names, key=rank.__getitem__)
