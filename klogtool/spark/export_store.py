"""A prefix of an object store that exports are written to: an object appears when all of its bytes are there."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from klogtool.disk.disk import WriteErrors
from klogtool.disk.export_folder import ExportFolder, drop_part
from klogtool.disk.scratch import Scratch
from klogtool.log.file import ReadErrors
from klogtool.log.storage import LOCAL_SCHEMES, Place, file_system

AT_ONCE_BYTES = 8 << 20


class ExportStore(Struct, frozen=True):
    """The prefix. system: a file system of pyarrow; path: of the prefix in it."""

    uri: str
    system: Any
    path: str
    scratch: Scratch = field(default_factory=lambda: Scratch.make("export"))

    @property
    def where(self) -> str:
        """What names the prefix in messages."""
        return self.uri

    def names(self) -> list[str]:
        """Return the names of all objects below the prefix."""
        from pyarrow import fs

        selector = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        with ReadErrors(self.uri):
            infos = self.system.get_file_info(selector)
        return sorted(info.path[len(self.path) :].lstrip("/") for info in infos if info.is_file)

    def read(self, name: str) -> bytes:
        """Return all bytes of an object."""
        with ReadErrors(f"{self.uri}/{name}"), self.system.open_input_file(f"{self.path}/{name}") as source:
            data: bytes = source.read()
            return data

    def publish(self, name: str, part: str) -> None:
        """Send a closed file of this machine. Nothing appears before its last byte was sent."""
        with WriteErrors(f"{self.uri}/{name}"), open(part, "rb") as source:
            sink = self.system.open_output_stream(f"{self.path}/{name}")
            while data := source.read(AT_ONCE_BYTES):
                sink.write(data)
            sink.close()  # an upload that failed before is never closed, so that no part of it appears
        drop_part(part)

    def delete(self, name: str) -> None:
        """Delete an object that no manifest names."""
        with WriteErrors(f"{self.uri}/{name}"):
            self.system.delete_file(f"{self.path}/{name}")

    def parts(self) -> str:
        """Return a folder of this machine for unfinished files."""
        return self.scratch.path

    def end(self) -> None:
        """Delete what is unfinished."""
        self.scratch.remove()


def open_target(uri: str) -> ExportFolder | ExportStore:
    """Return where an export is written. Raises Refused if it is in a log dir, Unsupported for an unknown scheme."""
    place = Place(uri)
    if place.scheme in LOCAL_SCHEMES:
        return ExportFolder.at(uri.removeprefix("file://"))
    system, path = file_system(place)
    return ExportStore(place.shown.partition("?")[0].rstrip("/"), system, path)
