"""Every file of a log dir, one after another. This is klogtool's own mode: a bad file does not end the dump.

The text is kafka-dump-log's for the files that it knows, also if a log has a suffix such as .deleted. Other files are
shown with one line of fields for each entry. In JSON every file has its rows; CSV has the records of logs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from klogtool.errors import AtPath, KlogError
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.file import Unreadable, read_whole, unreadable
from klogtool.log.foreign import check_file
from klogtool.log.opened import open_path
from klogtool.render.json_lines import Row, error_row, json_line
from klogtool.render.side_rows import MOST_BYTES, walk_side_rows

if TYPE_CHECKING:
    from klogtool.format.names import FileName
    from klogtool.render.kafka_dump import KafkaDump


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


def dump_text(kafka: KafkaDump, path: str) -> None:
    """Print a file of any kind as text; `kafka` prints those that kafka-dump-log knows. Raises KlogError where it
    cannot be read further."""
    name = parse_file_name(os.path.basename(path))
    if path in kafka.given:
        kafka.given_log(path)
    elif not path.endswith(".log") and name.kind.holds_batches and name.suffix:
        kafka.log(path, name.name.removesuffix(name.suffix))
    elif path.endswith(".log") or (not name.suffix and (name.kind.has_base_offset or name.kind.holds_batches)):
        kafka.file(path)
    else:
        kafka.print(f"Dumping {path}")
        with AtPath(path):
            for row in _side_rows(kafka, path, name):
                kind = row.pop("type")
                fields = " ".join(f"{field}: {_text(value)}" for field, value in row.items())
                kafka.print(f"{kind} {fields}".rstrip())


def dump_json(kafka: KafkaDump, path: str) -> None:
    """Write a file of any kind as JSON lines. If it cannot be read further, writes an error line and raises the
    KlogError."""
    name = parse_file_name(os.path.basename(path))
    try:
        if name.kind.holds_batches or path in kafka.given:
            form = kafka.form("json", path)
            with kafka.open(path) as log:
                position, left = kafka.lines(log, form)
            has_offset = name.kind is FileKind.BOOTSTRAP_SNAPSHOT or name.base_offset is not None
            if not (has_offset or path in kafka.given):
                kafka.note_name(path)
            if left:
                kafka.note_tail(left, path, position)
                kafka.write(json_line({"type": "trailing-bytes", "file": path, "position": position, "size": left}))
        else:
            for row in _side_rows(kafka, path, name):
                kafka.write(json_line({"type": row.pop("type"), "file": path, **row}))
    except KlogError as error:
        kafka.write(json_line(error_row(path, error.at_path(path))))
        raise


def dump_csv(kafka: KafkaDump, path: str) -> None:
    """Write the records of a log as CSV, whatever its name is. Raises KlogError where it cannot be read further."""
    form = kafka.form("csv", path)
    with AtPath(path), kafka.open(path) as log:
        position, left = kafka.lines(log, form)
    if left:
        kafka.note_tail(left, path, position)


def _side_rows(kafka: KafkaDump, path: str, name: FileName) -> Iterator[Row]:
    data = read_whole(path, limit=MOST_BYTES)
    if name.kind is FileKind.FOREIGN:
        kafka.complain(f"klogtool: {path}: not a file of Kafka's, by its name")
    yield from walk_side_rows(name, data)


def _text(value: object) -> str:
    """Return a field's value as Kafka's tools print it."""
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return str(list(value)) if isinstance(value, tuple) else str(value)
