"""Material that may lie beside the project: the oracle (Kafka's log layer behind a pipe) and real brokers."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import sys
from types import ModuleType

import pytest

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
        spec.loader.exec_module(module)
    return sys.modules[name]
