"""How much work a run does, counted and not timed: lines that are executed, each as often as it is, and items that go
through builtins.

The same run counts the same on every machine, whatever ran in the process before it: klogtool's caches are emptied
first, and no garbage of others is collected meanwhile. What C code does to lists, dicts and bytes besides is not seen.
"""

from __future__ import annotations

import builtins
import functools
import gc
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any
from unittest import mock

OVER_ITEMS = ("sorted", "min", "max", "sum", "any", "all")


class Work:
    """steps: what was counted so far, by function."""

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()
        self._lines: dict[CodeType, _Lines] = {}

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts what happens meanwhile, in this thread and in those that it starts."""
        over_items = {name: self._over_items(getattr(builtins, name)) for name in OVER_ITEMS}
        listdir = self._giving_items(os.listdir)
        with _as_if_first(), mock.patch.multiple(builtins, **over_items), mock.patch.object(os, "listdir", listdir):
            threading.settrace(self._trace)
            sys.settrace(self._trace)
            try:
                yield
            finally:
                sys.settrace(None)
                threading.settrace(None)
        self.steps.update({_name_of(code): lines.count for code, lines in self._lines.items()})

    def _trace(self, frame: FrameType, _: str, __: object) -> Any:
        """A function is called: its lines are counted from here on."""
        code = frame.f_code
        lines = self._lines.get(code)
        if lines is None:
            lines = self._lines[code] = _Lines()
        return lines.trace

    def _over_items(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **options: Any) -> Any:
            items = len(args[0]) if len(args) == 1 and isinstance(args[0], Sized) else len(args)
            self.steps[f"{function.__name__} in {_name_of(sys._getframe(1).f_code)}"] += items
            return function(*args, **options)

        return counting

    def _giving_items(self, function: Callable[..., list[str]]) -> Callable[..., list[str]]:
        def counting(*args: Any) -> list[str]:
            found = function(*args)
            self.steps[f"listdir in {_name_of(sys._getframe(1).f_code)}"] += len(found)
            return found

        return counting


class _Lines:
    """count: events in one function. A loop that stands in one line has an event for each time around, too."""

    def __init__(self) -> None:
        self.count = 0

    def trace(self, _: FrameType, __: str, ___: object) -> Any:
        self.count += 1
        return self.trace


@contextmanager
def _as_if_first() -> Iterator[None]:
    """Meanwhile nothing is known from runs before, and nothing of theirs is cleared away."""
    for cached in walk_caches():
        cached.cache_clear()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def walk_caches() -> Iterator[Any]:
    """Yield what `functools.cache` made in klogtool: it stands in modules and in their classes. To look through all
    objects takes a second where all tests are collected."""
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "klogtool"]
    for module in modules:
        for value in list(vars(module).values()):
            inside = list(vars(value).values()) if isinstance(value, type) else ()
            for each in (value, *inside):
                cached = getattr(each, "__func__", each)
                if isinstance(cached, functools._lru_cache_wrapper) and cached.__module__.startswith("klogtool"):
                    yield cached


def _name_of(code: CodeType) -> str:
    return f"{code.co_filename}: {code.co_name} at line {code.co_firstlineno}"
