"""Files, modules and what is in them, named in documents, comments and docstrings: each is there."""

from __future__ import annotations

import ast
import functools
import io
import pathlib
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from running import ROOT

FOLDERS = ("docs", "fixtures", "klogtool", "pyspark_klog", "tests", "tools")
FLOORS = sorted(path.stem for path in (ROOT / "klogtool").iterdir() if not path.name.startswith("_"))
TEXTS = [
    *(
        ROOT / name
        for name in (
            "README.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "Makefile",
            "pyproject.toml",
            "NOTICE",
            "MANIFEST.in",
        )
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "klogtool").rglob("*.md")),
    *sorted((ROOT / "fixtures").glob("*/README.md")),
    *sorted((ROOT / "tools").rglob("*.sh")),
]
SOURCES = {name: sorted((ROOT / name).rglob("*.py")) for name in ("klogtool", "pyspark_klog", "tests", "tools")}
KERNELS = [path for kind in ("pyx", "pxi", "h") for path in sorted((ROOT / "klogtool/kernels").glob(f"*.{kind}"))]

# `tests/log/test_file.py`, `docs/limits.md`, `fixtures/two-disks/logdir`; what ends in `.` or `...` ends before it.
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w")
# Within klogtool its folders are named without it: `log/windows.py`, `render/arrow_reference`.
INSIDE = re.compile(rf"(?<![\w./-])(?:{'|'.join(FLOORS)})/[a-z_]+(?:\.py|\.pxi|\.h)?(?![\w./-])")
# `klogtool.log.spans`, `format.batch.parse_batch`.
# What Kafka and Spark call so: settings, which have no underscores and more words than our names, or else are here.
SETTING = re.compile(
    r"(?:log|spark)(?:\.[a-z]+){3,}|remote(?:\.[a-z]+)+|log\.(?:cleaner|retention)\.[a-z]+|spark(?:\.[a-zA-Z0-9]+){2,}"
)
OF_OTHERS = {
    "broker.id",
    "log.dir",
    "log.dirs",
    "log.preallocate",
    "log.segment.bytes",
    "spark.createDataFrame",
    "spark.sql",
    "spark.stop",
    "spark.table",
}
MADE = {"fixtures/leader-epochs/logdir/orders-0"}  # what an example creates
# Of a class of the same module: an underscore tells that it is meant.
OWN = re.compile(r"(?<![\w.])(_[A-Z]\w*)\.([a-z_]\w*)")
FILE_KINDS = ("md", "py", "typed", "toml", "deleted", "plan", "json")
KERNEL_PROSE = re.compile(r'"""[\s\S]*?"""|/\*[\s\S]*?\*/|(?:#|//) .*')
DOTTED = re.compile(rf"(?<![\w./$-])(?:klogtool\.)?(?:{'|'.join(FLOORS)})(?:\.[A-Za-z_]\w*)+(?![\w/-])")


def prose(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """(line, text) of what people read of a file: all of a document, comments and docstrings of a source."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _comments(text)
        yield from parsed(path).docstrings
    elif path in KERNELS:
        yield from ((text.count("\n", 0, found.start()) + 1, found[0]) for found in KERNEL_PROSE.finditer(text))
    else:
        yield from enumerate(text.splitlines(), 1)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def missing(path: pathlib.Path) -> Iterator[str]:
    """What a file names that is not there, with the line."""
    for number, line in prose(path):
        yield from (f"{path.relative_to(ROOT)}:{number}: {name}" for name in missing_in(line, path))


def missing_in(line: str, path: pathlib.Path) -> Iterator[str]:
    """The same of a line of it."""
    yield from (name for name in PATH.findall(line) if name not in MADE and not (ROOT / name).exists())
    yield from (name for name in INSIDE.findall(line) if not is_inside(name))
    yield from (name for name in DOTTED.findall(line) if not is_there(name))
    if path.suffix == ".py":
        own = parsed(path).names
        yield from (f"{owner}.{name}" for owner, name in OWN.findall(line) if not {owner, name} <= own)


def is_inside(name: str) -> bool:
    """Whether klogtool has a folder or module of that name."""
    place = ROOT / "klogtool" / name
    return place.exists() or place.with_suffix(".py").exists()


def is_there(name: str) -> bool:
    """Whether a dotted name leads to a module, or to something in one. Others' settings and names of files do so."""
    parts = name.removeprefix("klogtool.").split(".")
    if name == ".".join(parts) and (parts[-1] in FILE_KINDS or name in OF_OTHERS or SETTING.fullmatch(name)):
        return True
    if parts[-1] == "json":
        return any((ROOT / "klogtool").rglob(name))
    for n in range(len(parts), 0, -1):
        if (module := module_of(parts[:n])) is not None:
            return n == len(parts) or parts[n] in parsed(module).names
    return False


def module_of(parts: list[str]) -> pathlib.Path | None:
    """The file of a module of klogtool."""
    place = (ROOT / "klogtool").joinpath(*parts)
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


class Parsed(NamedTuple):
    """Of a module. names: what it defines or imports, wherever in it, and the modules of a package; docstrings: lines
    with their numbers."""

    names: set[str]
    docstrings: list[tuple[int, str]]


@functools.cache
def parsed(module: pathlib.Path) -> Parsed:
    """Each file is parsed once: that is most of the work."""
    names = {path.stem for path in module.parent.glob("*.py*")} if module.name == "__init__.py" else set()
    docstrings = []
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node, clean=False) or ""
            docstrings += enumerate(found.splitlines(), getattr(node.body[0], "lineno", 1) if found else 1)
    return Parsed(names, docstrings)


# `KINDS` in `klogtool/verify/findings.py`, `Count | None` (`klogtool/values.py`).
IN_FILE = re.compile(r"`([A-Za-z_]\w*)[^`]{0,12}` ?(?:in|of|\() ?`((?:klogtool|tests|tools)/[\w./]+\w)`")


def test_what_stands_in_a_file_is_in_it() -> None:
    wrong = []
    for text in TEXTS:
        for name, path in IN_FILE.findall(" ".join(text.read_text(encoding="utf-8").split())):
            if not re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")):
                wrong.append(f"{text.name}: {name} is not in {path}")
    assert not wrong


@pytest.mark.slow
def test_what_is_named_is_there() -> None:
    paths = [*TEXTS, *KERNELS, *(path for paths in SOURCES.values() for path in paths)]
    assert [found for path in paths for found in missing(path)] == []


@pytest.mark.parametrize(
    "line",
    [
        "tests/log/test_nothing.py",
        "see log/window.py",
        "`format.batch.parse_bach`",
        "klogtool.log.spams",
        "log.spans.x_y",
    ],
)
def test_a_name_that_is_not_there_is_found(line: str) -> None:
    assert list(missing_in(line, ROOT / "README.md"))


@pytest.mark.parametrize(
    "line",
    ["log.dirs", "log.cleaner.io.buffer.size", "log/windows.py", "`format.batch.parse_batch`", "verify.md", "./log/x"],
)
def test_a_name_that_is_there_or_another_one_s_is_not(line: str) -> None:
    assert not list(missing_in(line, ROOT / "README.md"))
