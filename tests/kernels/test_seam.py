"""The extension and what stands in for it, which has its types, have the same names, parameters and constants."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from running import ROOT

from klogtool.kernels import absent

ABSENT = ast.parse((ROOT / "klogtool/kernels/absent.py").read_text())
NOT_ASKED_FOR = {"siphash_128", "FACTS", "BatchRecords", "Mapping"}  # by tests, or inside of the extension
MOST_PLACES_THAT_ASK = 3


def constants_of(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def names_of(tree: ast.Module) -> Iterator[str]:
    defined = (node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    yield from (name for name in (*imported_by(tree.body), *defined, *constants_of(tree)) if not name.startswith("_"))


def imported_by(body: list[ast.stmt]) -> Iterator[str]:
    """References that stand in themselves."""
    of_format = (node for node in body if isinstance(node, ast.ImportFrom) and "format" in (node.module or ""))
    yield from (one.name for node in of_format for one in node.names if one.asname == one.name)


def parameters_of(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args if argument.arg != "self"]


def functions_of(body: list[ast.stmt], prefix: str = "") -> dict[str, list[str]]:
    """Parameters of functions and methods, by dotted name."""
    references = ((name, getattr(absent, name)) for name in imported_by(body))
    found = {name: [*inspect.signature(one).parameters] for name, one in references if inspect.isfunction(one)}
    for node in body:
        if isinstance(node, ast.FunctionDef) and not any(_is_property(one) for one in node.decorator_list):
            found[prefix + node.name] = parameters_of(node)
        elif isinstance(node, ast.ClassDef):
            found |= functions_of(node.body, f"{node.name}.")
    return found


def _is_property(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "property"


def public(module: Any) -> set[str]:
    return {name for name in vars(module) if not name.startswith("_") and not inspect.ismodule(vars(module)[name])}


def test_the_extension_has_the_names_of_what_stands_in(native: Any) -> None:
    assert public(native) - NOT_ASKED_FOR == set(names_of(ABSENT)) - {"NeverMade"}


@pytest.mark.parametrize("name", list(constants_of(ABSENT)))
def test_constants_are_the_same(native: Any, name: str) -> None:
    ours, theirs = getattr(absent, name), getattr(native, name)
    assert type(ours) is type(theirs)
    assert ours == theirs or name in ("CAN_WATCH", "RUNS_IN_THREADS", "CRC32C_WAYS")


@pytest.mark.parametrize(
    "dotted",  # of a Cython class's __init__ nobody can ask
    [dotted for dotted in functions_of(ABSENT.body) if not dotted.endswith("__init__") and dotted != "_answer"],
)
def test_parameters_are_the_same(native: Any, dotted: str) -> None:
    found = native
    for part in dotted.split("."):
        found = getattr(found, part)
    assert list(_parameters(found)) == functions_of(ABSENT.body)[dotted]


def _parameters(function: Any) -> Iterator[str]:
    """By the signature, or by the first line of Cython's docstring."""
    for name in inspect.signature(function).parameters:
        if name != "self":
            yield name


def test_few_places_ask_which_of_both_it_is() -> None:
    asked = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "klogtool").rglob("*.py"))
        if path.parent.name != "kernels"
        for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1)
        if re.search(r"\bnative is |is_built\(|kernels\.absent\b", line)
    ]
    assert len(asked) <= MOST_PLACES_THAT_ASK, asked
