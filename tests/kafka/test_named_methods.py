"""Methods of Kafka that comments and docstrings name as `Class.method`: a class of that name has it, or its package.

What klogtool does is held to Kafka by the other tests. A name that is wrong leads the reader astray who looks it up."""

from __future__ import annotations

import functools
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator

import pytest
from running import ROOT
from test_names_exist import KERNELS, SOURCES, prose

from .kafka import Unavailable, prepare

NAMED = re.compile(r"(?<![\w.])([A-Z]\w+)\.([a-z]+[A-Z]\w*)\b(?!\.)")  # in camel case: not a method of ours


@functools.cache
def packages() -> dict[str, bytes]:
    """Of the simple name of each of Kafka's classes, the bytes of all classes of the packages that have one."""
    of_package: dict[str, list[bytes]] = defaultdict(list)
    homes: dict[str, set[str]] = defaultdict(set)
    for jar in sorted((prepare() / "lib").glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                package, _, simple = name.removesuffix(".class").rpartition("/")
                if name.endswith(".class") and not package.endswith("/message"):  # generated, and half of all bytes
                    of_package[package].append(classes.read(name))
                    for part in simple.split("$"):
                        homes[part].add(package)
    joined = {package: b"".join(classes) for package, classes in of_package.items()}
    return {
        simple: b"".join(joined[package] for package in found) for simple, found in homes.items() if simple in named()
    }


@functools.cache
def named() -> dict[str, set[tuple[str, str]]]:
    """Of each name of a class, the methods that klogtool names of it, with the place."""
    methods: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for path in (*SOURCES["klogtool"], *KERNELS):
        for number, line in prose(path):
            for owner, method in NAMED.findall(line):
                methods[owner].add((method, f"{path.relative_to(ROOT)}:{number}"))
    return methods


def wrong() -> Iterator[str]:
    """Yield each named method that is not Kafka's, though the class is."""
    for owner, classes in packages().items():
        for method, place in named()[owner]:
            if b"\x01" + len(method).to_bytes(2, "big") + method.encode() not in classes:
                yield f"{place}: {owner}.{method}"


@pytest.mark.slow
def test_each_named_method_is_kafkas() -> None:
    try:
        prepare()
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert sorted(wrong()) == []
