"""Logs cut in pieces so small that entries straddle them: what only entries of megabytes do to pieces of their real
size happens to small ones, on every way that cuts its work in pieces."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from unittest.mock import patch

MODULES = (
    "klogtool.log.frames",
    "klogtool.log.mapped",
    "klogtool.log.probing",
    "klogtool.log.proving",
    "klogtool.log.resync",
    "klogtool.log.span_maker",
    "klogtool.log.spans",
    "klogtool.log.windows",
    "klogtool.render.arrow",
    "klogtool.render.arrow_batches",
    "klogtool.render.read",
    "klogtool.render.log_lines",
    "klogtool.broker.unified_log.mapped_windows",
    "klogtool.verify.log_walk",
)


@dataclass(frozen=True)
class Sizes:
    """span: what a thread takes at a time. window: what is read at a time. behind: what is read behind a span for its
    last entry. piece: what a search reads at a time. mapped: files of that size and more are mapped, not read."""

    span: int
    window: int = 100
    behind: int = 70
    piece: int = 200
    mapped: int = 0

    def of(self, module: str, name: str) -> int | None:
        """What a constant of a module is to be; None if it is no size of a piece."""
        if name == "MAPPED_FROM_BYTES":
            return None if module == "klogtool.log.windows" else self.mapped
        sizes = {
            "SPAN_BYTES": self.span,
            "FIRST_SPAN_BYTES": max(1, self.span // 4),
            "WINDOW_BYTES": self.window,
            "BEHIND_BYTES": self.behind,
            "NEAR_BYTES": self.piece,
            "CHUNK_BYTES": self.piece,
            "FIRST_CHUNK_BYTES": self.piece,
            "MOST_BYTES": 8 * self.span if module == "klogtool.render.read" else None,
        }
        return sizes.get(name)


@contextlib.contextmanager
def small_pieces(sizes: Sizes) -> Iterator[None]:
    """Meanwhile all pieces have these sizes."""
    with contextlib.ExitStack() as stack:
        for module in map(importlib.import_module, MODULES):
            before = {
                name: value for name, value in vars(module).items() if sizes.of(module.__name__, name) is not None
            }
            for name in before:
                stack.enter_context(patch.object(module, name, sizes.of(module.__name__, name)))
            for function, defaults in _defaults(module, before, sizes):
                stack.enter_context(patch.dict(function, defaults))
        yield


def _defaults(
    module: ModuleType, before: dict[str, int], sizes: Sizes
) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Parameters of a module's functions that have such a constant as their default."""
    kinds = {"size": "WINDOW_BYTES", "span_bytes": "SPAN_BYTES"}
    for _, function in inspect.getmembers(module, inspect.isfunction):
        given = function.__kwdefaults__ or {}
        changed = {name: kinds[name] for name in given if name in kinds and given[name] == before.get(kinds[name])}
        if function.__module__ == module.__name__ and changed:
            found = {name: sizes.of(module.__name__, constant) for name, constant in changed.items()}
            yield given, {name: size for name, size in found.items() if size is not None}
