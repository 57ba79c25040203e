"""A folder of our own for as long as a command runs: a log, small files that another program is to find, links."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from msgspec import Struct


class Scratch(Struct, frozen=True):
    """The folder. Whoever made it takes it away, unless what is in it explains an error."""

    path: str

    @classmethod
    def make(cls, name: str) -> Scratch:
        """A new one, where temporary files go."""
        return cls(tempfile.mkdtemp(prefix=f"klogtool-{name}-"))

    def folder(self, *names: str) -> str:
        """A folder in it, there from now on."""
        path = os.path.join(self.path, *names)
        os.makedirs(path, exist_ok=True)
        return path

    def text(self, name: str, text: str, *, mode: int = 0o600) -> str:
        """A file in it; its path."""
        path = os.path.join(self.path, name)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """A file in it, of these bytes."""
        with open(os.path.join(self.path, name), "xb") as file:
            for chunk in chunks:
                file.write(chunk)

    def hole(self, name: str, size: int) -> None:
        """A file in it that has a size, and nothing in it."""
        with open(os.path.join(self.path, name), "xb") as file:
            file.truncate(size)

    @contextmanager
    def log(self, name: str) -> Iterator[BinaryIO]:
        """A file that others append to."""
        with open(os.path.join(self.path, name), "ab") as file:
            yield file

    def link(self, target: str, name: str) -> None:
        """A name in it for something that lies elsewhere."""
        os.symlink(target, os.path.join(self.path, name))

    def remove(self) -> None:
        """All of it goes; what cannot, stays."""
        shutil.rmtree(self.path, ignore_errors=True)
