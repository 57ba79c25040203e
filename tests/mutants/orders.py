"""What the process that makes mutants tells the pytest of a copy, and what it hears of it: see watching.py."""

from __future__ import annotations

from msgspec import Struct

ORDER = "KLOGTOOL_MUTANTS"


class Watched(Struct, frozen=True):
    """CPU seconds of each test, and the tests that have executed a line, by file and line."""

    seconds: dict[str, float]
    tests: dict[str, dict[int, list[str]]]


class Order(Struct, frozen=True):
    """modules: files to watch; then a Watched is written into `into`. Else only_tests, all if None, in this order,
    and SIGXCPU after so many seconds of CPU."""

    modules: tuple[str, ...] = ()
    into: str = ""
    only_tests: tuple[str, ...] | None = None
    cpu_seconds: int = 0
