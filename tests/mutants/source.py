"""Where a line of a module is: in which function, which of its kind there, and in which statement."""

from __future__ import annotations

import ast

from msgspec import Struct


class Source:
    """The text of a module."""

    def __init__(self, text: str) -> None:
        self.lines = [line.strip() for line in text.splitlines()]
        self._statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]

    def place_of(self, line: int) -> Place:
        """Say where a line is, counted from 1."""
        scopes = [node for node in self._around(line) if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
        functions = [node for node in scopes if isinstance(node, ast.FunctionDef)]
        own = (functions[-1].lineno, functions[-1].end_lineno or line) if functions else (1, len(self.lines))
        same = [n for n in range(own[0], line + 1) if self.lines[n - 1] == self.lines[line - 1]]
        return Place(
            ".".join(node.name for node in scopes), len(same), self._statement(line), own if functions else None
        )

    def has(self, function: str, line: str, nth: int) -> bool:
        """Is this line there, for the nth time in this function?"""
        found = [n for n, text in enumerate(self.lines, 1) if text == line]
        return any((place.function, place.nth) == (function, nth) for place in map(self.place_of, found))

    def _around(self, line: int) -> list[ast.stmt]:
        """Return the statements that a line is part of, the outermost first."""
        found = [node for node in self._statements if node.lineno <= line <= (node.end_lineno or line)]
        return sorted(found, key=lambda node: (node.lineno, -(node.end_lineno or 0)))

    def _statement(self, line: int) -> tuple[int, int]:
        """Return the first and last line of the innermost statement, of one with a body those before the body."""
        innermost = self._around(line)[-1]
        body = getattr(innermost, "body", None)
        return innermost.lineno, max(innermost.lineno, body[0].lineno - 1) if body else innermost.end_lineno or line


class Place(Struct, frozen=True):
    """function: `Class.method`, or "" outside of all. nth: which of the same lines in it, from 1. statement, body:
    first and last lines of the statement, and of the function that the line is in."""

    function: str
    nth: int
    statement: tuple[int, int]
    body: tuple[int, int] | None
