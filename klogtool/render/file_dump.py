"""Every file of a log dir, one after another. This is klogtool's own mode: a bad file does not end the dump.

The text is kafka-dump-log's for the files that it knows, also if a log has a suffix such as .deleted. Other files are
shown with one line of fields for each entry. JSON lines: see json_dump.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from klogtool.errors import KlogError
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.file import Unreadable, read_whole, unreadable
from klogtool.log.foreign import check_file
from klogtool.log.opened import open_path
from klogtool.render.side_rows import MOST_BYTES, walk_side_rows

if TYPE_CHECKING:
    from klogtool.format.names import FileName
    from klogtool.render.kafka_dump import KafkaDump


FOREIGN = "klogtool: {}: not a file of Kafka's, by its name"


def walk_files(path: str, tell: Callable[[KlogError], None], *, any_name: bool = False) -> Iterator[str]:
    """Yield the file itself, or all files below a log dir or partition dir, in order of name.

    `tell` is called with an error for whatever cannot be listed: a path that does not exist, a folder without access, a
    folder that is neither a log dir nor a partition dir, a file that is not Kafka's (any_name: see log.foreign). A link
    back to a folder above it is not followed.
    """
    try:
        os.lstat(path)
        if os.path.isdir(path):
            open_path(path)
        elif os.path.isfile(path):
            with suppress(Unreadable):  # told by the dump, after its first line
                check_file(path, any_name=any_name)
    except OSError as error:
        tell(unreadable(path, error))
    except KlogError as error:
        tell(error)
    else:
        yield from _walk(path, tell, ())


def _walk(path: str, tell: Callable[[KlogError], None], above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    try:
        about, names = os.stat(path), sorted(os.listdir(path))
    except OSError as error:
        tell(unreadable(path, error))
        return
    this = about.st_dev, about.st_ino
    for name in names if this not in above else ():
        yield from _walk(os.path.join(path, name), tell, (*above, this))


class TextDump:
    """Prints files of any kind as text; `kafka` prints those that kafka-dump-log knows."""

    def __init__(self, kafka: KafkaDump) -> None:
        self.kafka = kafka

    def file(self, path: str) -> None:
        """Print a file. Raises KlogError where it cannot be read further."""
        if self.kafka.is_stdin(path):
            self.kafka.standard_input()
        elif path.endswith(".log"):
            self.kafka.file(path)
        else:
            self._other_than_log(path)

    def _other_than_log(self, path: str) -> None:
        name = parse_file_name(os.path.basename(path))
        if name.kind.holds_batches and name.suffix:
            self.kafka.log(path, name.name.removesuffix(name.suffix))
        elif not name.suffix and (name.kind.has_base_offset or name.kind.holds_batches):
            self.kafka.file(path)
        else:
            self._side_file(path, name)

    def _side_file(self, path: str, name: FileName) -> None:
        self.kafka.print(f"Dumping {path}")
        try:
            data = read_whole(path, limit=MOST_BYTES)
            if name.kind is FileKind.FOREIGN:
                self.kafka.complain(FOREIGN.format(path))
            for row in walk_side_rows(name, data):
                kind = row.pop("type")
                fields = " ".join(f"{field}: {_text(value)}" for field, value in row.items())
                self.kafka.print(f"{kind} {fields}".rstrip())
        except KlogError as error:
            raise error.at_path(path) from None


def _text(value: object) -> str:
    """Return a field's value as Kafka's tools print it."""
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return str(list(value)) if isinstance(value, tuple) else str(value)
