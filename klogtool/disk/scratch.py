"""A temporary folder that lives as long as a command: a log, small files that another program reads, links."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from msgspec import Struct


class Scratch(Struct, frozen=True):
    """The folder. Its creator deletes it, unless its contents explain an error."""

    path: str

    @classmethod
    def make(cls, name: str) -> Scratch:
        """Create a new one in the system's folder for temporary files."""
        return cls(tempfile.mkdtemp(prefix=f"klogtool-{name}-"))

    @classmethod
    def at(cls, path: str) -> Scratch:
        """Take a folder that somebody named. It is created if it does not exist; its parent must exist."""
        if not os.path.isdir(path):
            os.mkdir(path)
        return cls(path)

    def folder(self, *names: str) -> str:
        """Create a folder in it."""
        path = os.path.join(self.path, *names)
        os.makedirs(path, exist_ok=True)
        return path

    def text(self, name: str, text: str, *, mode: int = 0o600) -> str:
        """Create a text file in it; return its path."""
        path = os.path.join(self.path, name)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Create a file of these bytes in it."""
        with open(os.path.join(self.path, name), "xb") as file:
            for chunk in chunks:
                file.write(chunk)

    def hole(self, name: str, size: int) -> None:
        """Create a file in it that has this size but no data."""
        with open(os.path.join(self.path, name), "xb") as file:
            file.truncate(size)

    @contextmanager
    def log(self, name: str) -> Iterator[BinaryIO]:
        """Open a file in it for others to append to."""
        with open(os.path.join(self.path, name), "ab") as file:
            yield file

    def link(self, target: str, name: str) -> None:
        """Create a link in it to something elsewhere."""
        os.symlink(target, os.path.join(self.path, name))

    def remove(self) -> None:
        """Delete all of it; what cannot be deleted stays."""
        shutil.rmtree(self.path, ignore_errors=True)
