"""Files of JSON Lines that go from machine to machine: a head, typed rows, and an end with a checksum.

Somebody else may have written such a file: every row is read by its type, and all sizes have bounds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from klogtool.causes import Reason, Text, Told
from klogtool.errors import Refused
from klogtool.fleet.causes import FramedRefusal
from klogtool.fleet.checks import Impossible, check_file, check_row
from klogtool.fleet.collected import (
    COMMAND,
    FORMAT,
    MOST_EPOCHS,
    BrokerFacts,
    Collected,
    CommitFacts,
    CopyFacts,
    Epochs,
    PartitionFacts,
    Row,
    TopicFacts,
    TransactionFacts,
)
from klogtool.json_rows import restored, row_line
from klogtool.log.file import read_whole
from klogtool.plans.causes import FieldCause

MOST_BYTES = 1 << 30
MOST_LINE_BYTES = 1 << 24
MOST_SENTENCE = 1 << 13  # characters
Changed: TypeAlias = Callable[[Iterable[Any], str], Iterable[Any]]
Known: TypeAlias = dict[bytes, Any]
SHARED = (TopicFacts, PartitionFacts)  # all nodes tell most of them alike
BESIDE = b'_base64"'  # json_rows: a name that is not UTF-8
SCHEMA = 1


class LastLine(Struct, frozen=True, tag="end"):
    """The last line. lines: how many are before it; sum: of their bytes."""

    lines: Annotated[int, Meta(ge=0)]
    sum: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class Framed(Struct, frozen=True):
    """The rows between head and end. version: of the klogtool that wrote them."""

    version: str
    rows: Sequence[Any]


def walk_lines(head: Mapping[str, object], rows: Iterable[Mapping[str, object] | Struct]) -> Iterator[str]:
    """Yield the lines of a file, without line ends. head: as in all JSON of klogtool (cli/show.header)."""
    summed, count = hashlib.blake2b(digest_size=16), 0
    for row in chain([head], rows):
        line = row_line(row)
        summed.update(line.encode() + b"\n")
        count += 1
        yield line
    yield row_line({"type": "end", "lines": count, "sum": summed.hexdigest()})


def _as_told(kind: type[Reason], value: object) -> Reason:
    """Return the reason whose sentence is in a file. Raises ValueError if it is none."""
    if not isinstance(value, str) or len(value) > MOST_SENTENCE:
        raise ValueError("Expected a sentence")
    return Told.TEXT(text=value)


class FramedFiles:
    """How files of one command are read. kinds: the types of its rows, as a union. check: raises Impossible for a
    row that cannot be right."""

    def __init__(self, command: str, kinds: Any, check: Callable[[Any], None]) -> None:
        self._command, self._kinds, self._check = command, kinds, check
        self._decoder = msgspec.json.Decoder(kinds, dec_hook=_as_told)

    def read(self, path: str, changed: Changed = lambda rows, _: rows, known: Known | None = None) -> Framed:
        """Read a file. Raises Refused, which says what is wrong with it: cut short, changed, of another kind or
        version; KlogError if it cannot be read."""
        return self.parse(read_whole(path, limit=MOST_BYTES).split(b"\n"), path, changed, known)

    def parse(
        self, lines: list[bytes], path: str, changed: Changed = lambda rows, _: rows, known: Known | None = None
    ) -> Framed:
        """Parse the lines of a file. changed: what becomes of the rows while they are read. known: rows by their lines,
        of files before; those of the kinds in `SHARED` are added."""
        if lines and not lines[-1]:
            lines.pop()
        version = self._parse_head(lines[0] if lines else b"", path)
        self._check_end(lines, path)
        rows = self._walk_rows(lines, path, {} if known is None else known)
        return Framed(version, list(changed(rows, path)))

    def _walk_rows(self, lines: Sequence[bytes], path: str, known: Known) -> Iterator[Any]:
        for number, line in enumerate(islice(lines, 1, len(lines) - 1), 2):
            row = known.get(line)
            if row is None:
                row = self._parse(line, number, path)
                if isinstance(row, SHARED):
                    known[line] = row
            yield row

    def refused(self, path: str, reason: Text) -> Refused:
        """Return the error for a file that is not what it should be."""
        return Refused(FramedRefusal.NOT_OF(command=self._command, why=reason), path=path)

    def _parse_head(self, line: bytes, path: str) -> str:
        head = self._json_of(line, 1, path)
        if not isinstance(head, dict) or head.get("type") != "klogtool":
            raise self.refused(path, FramedRefusal.NO_HEAD())
        if head.get("command") != self._command:
            raise self.refused(path, FramedRefusal.OTHER_COMMAND(command=str(head.get("command"))[:64]))
        if head.get("schema") != SCHEMA:
            raise self.refused(path, FieldCause.OTHER_SCHEMA(schema=str(head.get("schema"))[:64], known=SCHEMA))
        return str(head.get("version", ""))[:64]

    def _check_end(self, lines: Sequence[bytes], path: str) -> None:
        """Raises Refused unless the last line is the end, and fits the lines before it."""
        end = self._parse(lines[-1], len(lines), path) if len(lines) > 1 else None
        if not isinstance(end, LastLine):
            raise self.refused(path, FramedRefusal.NO_END())
        if end.lines != len(lines) - 1:
            raise self.refused(path, FramedRefusal.LINES_MISSING(written=end.lines, there=len(lines) - 1))
        summed = hashlib.blake2b(digest_size=16)
        for line in islice(lines, len(lines) - 1):
            summed.update(line)
            summed.update(b"\n")
        if summed.hexdigest() != end.sum:
            raise self.refused(path, FramedRefusal.OTHER_SUM())

    def _parse(self, line: bytes, number: int, path: str) -> Any:
        try:
            row = self._row(line, number, path)
            self._check(row)
        except UnicodeEncodeError:
            raise self.refused(path, FramedRefusal.NO_NAME(line=number)) from None
        except (msgspec.ValidationError, RecursionError, Impossible) as error:
            of_msgspec, place = str(error), str(error).find(" - at")
            if "matching regex" not in of_msgspec or isinstance(error, Impossible):
                raise self.refused(path, FramedRefusal.AT_LINE(line=number, why=str(error))) from None
            raise self.refused(path, FramedRefusal.IMPOSSIBLE_NAME(line=number, where=of_msgspec[place:])) from None
        return row

    def _row(self, line: bytes, number: int, path: str) -> Any:
        if len(line) <= MOST_LINE_BYTES and BESIDE not in line:
            try:
                return self._decoder.decode(line)  # all at once: no objects in between
            except msgspec.ValidationError:
                raise
            except (ValueError, RecursionError):  # other errors of msgspec, and bytes that are not UTF-8
                raise self.refused(path, FramedRefusal.NO_JSON(line=number)) from None
        return msgspec.convert(self._json_of(line, number, path), self._kinds, dec_hook=_as_told)

    def _json_of(self, line: bytes, number: int, path: str) -> Any:
        if len(line) > MOST_LINE_BYTES:
            raise self.refused(path, FramedRefusal.LONG_LINE(line=number, most=MOST_LINE_BYTES))
        try:
            return restored(json.loads(line))
        except (ValueError, TypeError, RecursionError):  # TypeError: a base64 name that is not a string
            raise self.refused(path, FramedRefusal.NO_JSON(line=number)) from None


_FRAME = FramedFiles(COMMAND, Row | LastLine, check_row)
_Kind = TypeVar("_Kind", BrokerFacts, TopicFacts, PartitionFacts, CopyFacts, CommitFacts, TransactionFacts)


class CollectedFiles:
    """Reads the files of one cluster: what they tell alike is in memory once."""

    def __init__(self) -> None:
        self._known: Known = {}
        self._texts: dict[str, str] = {}
        self._epochs: dict[Epochs, Epochs] = {}
        self._partitions: list[tuple[PartitionFacts, ...]] = []

    def read(self, path: str) -> Collected:
        """Read a file. Raises Refused, which says what is wrong with it: cut short, changed, of another kind or
        version; KlogError if it cannot be read."""
        return self._collected(_FRAME.read(path, self._changed, self._known), path)

    def parse(self, lines: Sequence[bytes], path: str) -> Collected:
        """Parse the lines of a file. Raises Refused as `read` does."""
        return self._collected(_FRAME.parse(list(lines), path, self._changed, self._known), path)

    def _collected(self, framed: Framed, path: str) -> Collected:
        file = _collected(framed, path)
        for partitions in self._partitions:
            if file.partitions == partitions:
                return replace(file, partitions=partitions)
        self._partitions.append(file.partitions)
        return file

    def _changed(self, rows: Iterable[Any], path: str) -> Iterator[Any]:
        """Yield the rows; names and leader epochs that several tell are in memory once."""
        left, texts, histories = MOST_EPOCHS, self._texts, self._epochs
        for row in rows:
            if not isinstance(row, CopyFacts):
                yield row
                continue
            left -= len(row.epochs) + len(row.checkpoint_epochs or ())
            if left < 0:
                raise _FRAME.refused(path, FramedRefusal.MANY_EPOCHS(most=MOST_EPOCHS))
            epochs = histories.setdefault(row.epochs, row.epochs)
            yield replace(
                row,
                topic=texts.setdefault(row.topic, row.topic),
                log_dir=texts.setdefault(row.log_dir, row.log_dir),
                topic_id=None if row.topic_id is None else texts.setdefault(row.topic_id, row.topic_id),
                epochs=epochs,
                checkpoint_epochs=epochs if epochs == row.checkpoint_epochs else row.checkpoint_epochs,
            )


def _collected(framed: Framed, path: str) -> Collected:
    rows = framed.rows
    brokers = [row for row in rows if isinstance(row, BrokerFacts)]
    if len(brokers) != 1 or rows[0] is not brokers[0]:
        raise _FRAME.refused(path, FramedRefusal.NO_BROKER())
    if brokers[0].format != FORMAT:
        raise _FRAME.refused(path, FramedRefusal.OTHER_FORMAT(format=brokers[0].format, known=FORMAT))
    file = Collected(
        brokers[0],
        _of(TopicFacts, rows),
        _of(PartitionFacts, rows),
        _of(CopyFacts, rows),
        path,
        framed.version,
        _of(CommitFacts, rows),
        _of(TransactionFacts, rows),
    )
    try:
        check_file(file)
    except Impossible as error:
        raise _FRAME.refused(path, str(error)) from None
    return file


def _of(kind: type[_Kind], rows: Sequence[Row]) -> tuple[_Kind, ...]:
    return tuple(row for row in rows if isinstance(row, kind))
