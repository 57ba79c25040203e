"""A file system elsewhere whose requests fail as a test says: errors, timeouts, fewer bytes, more bytes."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from klogtool.log import storage
from klogtool.log.storage import open_place

Fault = Callable[[bytes], bytes]


def _raises(error: Exception) -> Fault:
    def fault(_: bytes) -> bytes:
        raise error

    return fault


FAULTS: dict[str, Fault] = {
    "timeout": _raises(TimeoutError("Read timed out")),
    "503": _raises(OSError("AWS Error SLOW_DOWN during GetObject operation: HTTP status 503")),
    "foreign error": _raises(RuntimeError("IncompleteRead(17 bytes read, 83 more expected)")),  # not an OSError
    "truncated": lambda data: data[: len(data) // 2],
    "all but one": lambda data: data[:-1],
    "empty": lambda _: b"",
    "longer": lambda data: data + b"\0",
    "whole file": lambda data: data * 2,  # a server that does not know ranges
}


class Unreliable:
    """A file system of fsspec that fails as `fault_of` says for each request; None: it does what it should."""

    def __init__(self, fault_of: Callable[[], str | None]) -> None:
        self.fault_of = fault_of
        self.requests = 0

    def find(self, path: str, detail: bool) -> dict[str, dict[str, Any]]:
        paths = [path] if os.path.isfile(path) else [str(p) for p in pathlib.Path(path).rglob("*") if p.is_file()]
        return {name: {"size": os.path.getsize(name)} for name in paths}

    def info(self, path: str) -> dict[str, Any]:
        return {"size": os.stat(path).st_size}

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        self.requests += 1
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read(end - start)
        fault = self.fault_of()
        return data if fault is None else FAULTS[fault](data)


class UnreliableHttp:
    """The same as fsspec's file system of http: paths are whole URIs, and a listing may have no sizes."""

    def __init__(self, system: Unreliable, root: str) -> None:
        self.system, self.root = system, root

    def find(self, path: str, detail: bool) -> dict[str, dict[str, Any]]:
        return {self.root + name: {"size": None} for name in self.system.find(self._own(path), detail)}

    def info(self, path: str) -> dict[str, Any]:
        return self.system.info(self._own(path))

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        return self.system.cat_file(self._own(path), start, end)

    def _own(self, path: str) -> str:
        assert path.startswith(self.root), path
        return path.removeprefix(self.root)


@pytest.fixture
def unreliable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unreliable]:
    """`far:///path` is a path of this machine, read through this file system."""
    system = Unreliable(lambda: None)
    monkeypatch.setattr(storage, "_fsspec_system", lambda place: (system, place.uri.removeprefix("far://")))
    monkeypatch.setattr(storage, "WAITS_S", (0.0,) * len(storage.WAITS_S))
    open_place.cache_clear()
    yield system
    open_place.cache_clear()
