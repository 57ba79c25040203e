#!/usr/bin/env python3
"""Draw the floors of klogtool from its imports, into docs/architecture.md between the marks that stand there.

    <!-- house -->   a row for each floor, the highest first; a mark under each floor that it imports
    <!-- end -->

A floor is a package of klogtool. Its height is one more than that of the highest floor that it imports. Modules beside
the packages that import no package are one floor, `basics`; the others are floors of their own. A test holds the page
to what this draws. Run by `make docs`.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOUSE = ROOT / "klogtool"
PAGE = ROOT / "docs" / "architecture.md"
MARKED = re.compile(r"(<!-- house -->\n).*?(<!-- end -->)", re.DOTALL)
BASICS = "basics"
ROOF = "__init__"  # klogtool itself: it names what all floors have


@functools.cache
def imported(path: pathlib.Path) -> frozenset[str]:
    """Names directly below klogtool that a file imports, wherever in it: floors, or modules beside them."""
    modules: list[str] = []
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "klogtool":
            modules += (f"klogtool.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules.append(str(node.module))
    return frozenset(name.split(".")[1] for name in modules if name.startswith("klogtool."))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node. No import is in an expression, and of those a file has ten times as many."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from statements(child)


def imports_of_all() -> dict[str, set[str]]:
    """By package or module directly below klogtool: which of the others it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(HOUSE.rglob("*.py")):
        place = path.relative_to(HOUSE).parts
        own = place[0].removesuffix(".py")
        if own not in (ROOF, "__main__"):
            found.setdefault(own, set()).update(name for name in imported(path) if name != own)
    return found


def floors() -> dict[str, set[str]]:
    """Which floors each floor imports; the lowest floor first."""
    found = imports_of_all()
    packages = {path.parent.name for path in HOUSE.glob("*/__init__.py")}
    basics = {name for name in found if name not in packages and not found[name] & packages}
    whole = {name: {BASICS if other in basics else other for other in found[name]} for name in found.keys() - basics}
    whole[BASICS] = set()
    height = heights(whole)
    return {name: whole[name] for name in sorted(whole, key=lambda name: (height[name], name))}


def heights(imports: Mapping[str, set[str]]) -> dict[str, int]:
    """How high each floor stands. Floors that import each other have no height: RecursionError."""

    @functools.cache
    def height(name: str) -> int:
        return 1 + max(map(height, imports[name]), default=-1)

    return {name: height(name) for name in imports}


def picture() -> str:
    """The house: floors that a floor imports stand to the left of it, so that no mark is right of a row's own name."""
    found = floors()
    names = list(found)
    widest = max(map(len, names))
    rows = []
    for n, name in reversed(list(enumerate(names))):
        marks = " ".join(("●" if other in found[name] else "·").center(len(other)) for other in names[:n])
        rows.append(f"{name:>{widest}}  {marks} {name}".rstrip() if n else f"{name:>{widest}}  {name}")
    return "\n".join(["```text", *rows, "```"])


def with_picture(page: str) -> str:
    """The page with the picture between the marks drawn anew."""
    return MARKED.sub(lambda mark: f"{mark[1]}\n{picture()}\n\n{mark[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(with_picture(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
