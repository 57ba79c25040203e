"""Material that may lie beside the project: the oracle (Kafka's log layer behind a pipe) and real brokers."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

# A JVM that runs some seconds compiles more than it runs, if it may: with this it takes half of the CPU seconds.
os.environ.setdefault("KLOG_ORACLE_TIER", "1")
SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared"


def module_beside(path: str) -> ModuleType:
    """A Python file of ../shared as a module. The test is skipped, by name, where it or Java is not there."""
    file = SHARED / path
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs Java: no {tool} on the PATH (a JDK, 17 or later)")
    if not file.exists():
        pytest.skip(f"no ../shared/{path} beside the project")
    name = f"beside_{file.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        with _modules_of(file.parent):
            spec.loader.exec_module(module)
    return sys.modules[name]


@contextmanager
def _modules_of(folder: pathlib.Path) -> Iterator[None]:
    """Meanwhile modules are imported from there, whatever else has their names."""
    names = [file.stem for file in folder.glob("*.py")]
    hidden = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


@contextmanager
def an_oracle() -> Iterator[Any]:
    """Kafka's log layer, in one JVM. Skips where it does not start."""
    with module_beside("oracle/client.py").Oracle() as oracle, tempfile.TemporaryDirectory() as folder:
        try:
            oracle.ask("list", dir=folder)
        except (RuntimeError, OSError):
            pytest.skip("needs Java and mvn: the oracle does not start; it says above why")
        yield oracle
