"""The files of a partition dir, read and laid down whole."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

Files: TypeAlias = dict[str, bytes]


def put(folder: Path, files: Files) -> Path:
    """The files, in a new folder."""
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def files_of(folder: Path) -> Files:
    """All files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def bases_of(files: Files) -> list[int]:
    """The base offsets of the segments, whatever number of digits their names have."""
    names = (name.removesuffix(".log") for name in files if name.endswith(".log"))
    return sorted(int(name) for name in names if name.isdigit())
