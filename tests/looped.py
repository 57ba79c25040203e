"""A rule held to all cases by one test, which tells each that breaks it: thousands of tests of a millisecond each take
longer to collect and to start than to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

Rule: TypeAlias = Callable[..., None]


def for_each(cases: Iterable[Any], name: Callable[[Any], str] = str) -> Callable[[Rule], Callable[[], None]]:
    """A decorator; the rule takes a case, or its parts where it is a tuple."""

    def loop(rule: Rule) -> Callable[[], None]:
        def test() -> None:
            broken = [f"{name(case)}: {told}" for case in cases if (told := violation(rule, case))]
            assert not broken, "\n".join(broken)

        test.__name__, test.__doc__ = rule.__name__, rule.__doc__
        return test

    return loop


def violation(rule: Rule, case: Any) -> str:
    """What the rule says of a case that breaks it, otherwise nothing."""
    try:
        rule(*case) if isinstance(case, tuple) else rule(case)
    except AssertionError as broken:
        return str(broken) or "no"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
