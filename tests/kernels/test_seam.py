"""The extension, its stub and what stands in for it have the same names, parameters and constants."""

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

STUB = ast.parse((ROOT / "klogtool/kernels/_native.pyi").read_text())
NOT_ASKED_FOR = {"siphash_128", "FACTS", "BatchRecords", "Mapping"}  # by tests, or inside of the extension
MOST_PLACES_THAT_ASK = 3


def names_of(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def parameters_of(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args if argument.arg != "self"]


def functions_of(body: list[ast.stmt], prefix: str = "") -> dict[str, list[str]]:
    """Parameters of functions and methods, by dotted name."""
    found: dict[str, list[str]] = {}
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


def test_the_extension_has_the_names_of_the_stub(native: Any) -> None:
    assert public(native) - NOT_ASKED_FOR == set(names_of(STUB))


def test_so_has_what_stands_in() -> None:
    assert set(names_of(STUB)) <= public(absent)


@pytest.mark.parametrize("name", [node.target.id for node in STUB.body if isinstance(node, ast.AnnAssign)])
def test_constants_are_the_same(native: Any, name: str) -> None:
    ours, theirs = getattr(absent, name), getattr(native, name)
    assert type(ours) is type(theirs)
    assert ours == theirs or name in ("CAN_WATCH", "RUNS_IN_THREADS", "CRC32C_WAYS")


@pytest.mark.parametrize("dotted", functions_of(STUB.body))
def test_parameters_are_the_same(native: Any, dotted: str) -> None:
    wanted = functions_of(STUB.body)[dotted]
    for module in (absent, native):
        found: Any = module
        for part in dotted.split("."):
            found = getattr(found, part, None)
        if found is None and issubclass(getattr(absent, dotted.split(".")[0]), absent.NeverMade):
            continue
        if dotted.endswith("__init__"):
            continue  # of a Cython class, nobody can ask
        assert list(_parameters(found)) == wanted, module.__name__


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
