"""The input of append: files of batches, calls in JSON lines, or records in JSON lines.

Files are read one after another, and each is a fact of the plan: a saved plan is valid only for unchanged files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from klogtool.broker.appending.appender import Call
from klogtool.broker.causes import LineCause
from klogtool.broker.content import Content, FileRange
from klogtool.broker.file_facts import Fact
from klogtool.causes import Text
from klogtool.errors import FileCause, KlogError
from klogtool.format.framing import CURRENT_MAGIC, HEADER_SIZE_UP_TO_MAGIC, Frame, find_frame
from klogtool.format.java_numbers import MAX_INT, MAX_LONG, MAX_SHORT
from klogtool.format.text import did_you_mean
from klogtool.log.file import LogFile, ReadErrors
from klogtool.log.producer_state import TV_UNKNOWN, AppendOrigin

MOST_LINE_BYTES = 256 << 20
READ_BYTES = 1 << 20
LEADER, FOLLOWER = "leader", "follower"
CALL_FIELDS = frozenset(
    ("as", "leader_epoch", "hex", "file", "now_ms", "origin", "transaction_version", "record_version")
)


class JsonObject(dict[str, Any]):
    """A JSON object. twice: a name that occurs more than once, or None; the last value is kept."""

    twice: str | None = None


def _object_of(pairs: list[tuple[str, object]]) -> JsonObject:
    created = JsonObject(pairs)
    if len(created) < len(pairs):
        created.twice = next(name for n, (name, _) in enumerate(pairs) if name in dict(pairs[:n]))
    return created


_decoder = json.JSONDecoder(object_pairs_hook=_object_of)
_decode, _raw_decode = _decoder.decode, _decoder.raw_decode


class InputFacts:
    """Facts about the input files, one for each file."""

    def __init__(self) -> None:
        self._by_path: dict[str, Fact] = {}

    def note(self, path: str) -> int:
        """Note a file, and return its size. Raises Unreadable."""
        if path not in self._by_path:
            with ReadErrors(path):
                state = os.stat(path)
            self._by_path[path] = Fact(path, state.st_size, state.st_mtime_ns, state.st_ino, state.st_ctime_ns)
        return self._by_path[path].size

    @property
    def all(self) -> tuple[Fact, ...]:
        """All facts, in the order in which they were noted."""
        return tuple(self._by_path.values())


def walk_batch_files(
    paths: list[str], leader_epoch: int | None, facts: InputFacts, fetch_bytes: int | None = None
) -> Iterator[Call]:
    """Yield a follower's call for each file, or for each fetch of `fetch_bytes` of it. leader_epoch: None accepts
    batches of any epoch."""
    epoch = MAX_INT if leader_epoch is None else leader_epoch
    for path in paths:
        content = _content_of(path, facts)
        for part in [content] if fetch_bytes is None else _walk_fetches(path, fetch_bytes):
            yield Call(part, True, epoch, None, file=path)


def _walk_fetches(path: str, fetch_bytes: int) -> Iterator[Content]:
    """Yield whole batches up to `fetch_bytes`, at least one at a time. Bytes after the last batch are another part."""
    with LogFile(path) as file:
        start = at = 0
        while True:
            head = file.read(at, HEADER_SIZE_UP_TO_MAGIC)
            frame = find_frame(head.ljust(HEADER_SIZE_UP_TO_MAGIC + 1, b"\0"), 0, file.size - at)
            size = frame.size if isinstance(frame, Frame) else 0
            if at > start and (not size or at + size - start > fetch_bytes):
                yield (FileRange(path, start, at),)
                start = at
            if not size:
                break
            at += size
        if start < file.size:
            yield (FileRange(path, start, file.size),)


def walk_requests(lines: Iterator[tuple[int, bytes]], path: str, folder: str, facts: InputFacts) -> Iterator[Call]:
    """Yield a call for each line. path: for messages. folder: file names are relative to it.

    Raises KlogError for a line that is not a call.
    """
    for number, line in lines:
        request = parse_line(line, number, path)
        try:
            yield _call_of(request, folder, facts)
        except (TypeError, ValueError, AttributeError) as error:
            raise wrong_line(number, path, LineCause.NO_CALL(why=str(error))) from None


def read_chunks(path: str, facts: InputFacts) -> Iterator[bytes]:
    """Yield a file's text in pieces. Raises Unreadable."""
    facts.note(path)
    with LogFile(path) as file:
        yield from (file.read(at, READ_BYTES) for at in range(0, file.size, READ_BYTES))


def split_lines(chunks: Iterator[bytes], path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty, with their numbers from 1 on. Raises KlogError if a line is too long."""
    number, rest = 0, b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield number, line
        check_line_size(rest, number + 1, path)
    if rest.strip():
        yield number + 1, rest


def check_line_size(line: bytes, number: int, path: str) -> None:
    """Raise KlogError for a line that is longer than MOST_LINE_BYTES."""
    if len(line) > MOST_LINE_BYTES:
        raise wrong_line(number, path, LineCause.TOO_LONG(most=MOST_LINE_BYTES))


def parse_line(line: bytes, number: int, path: str) -> JsonObject:
    """Return a line's JSON object. Raises KlogError if it is not one."""
    try:
        text = line.decode()
        row, end = _raw_decode(text) if text.startswith("{") else (None, -1)
        if end != len(text):  # blanks around it, or not JSON
            row = _decode(text)
    except (ValueError, RecursionError) as error:
        raise wrong_line(number, path, LineCause.NO_JSON(why=str(error))) from None
    if not isinstance(row, JsonObject):
        raise wrong_line(number, path, LineCause.NO_OBJECT())
    return row


def check_fields(row: JsonObject, known: Collection[str], what: str) -> None:
    """Raise ValueError for a field that is unknown or there twice, because its value would be ignored."""
    for name in row:
        if name not in known:
            raise ValueError(LineCause.NO_FIELD(what=what, field=name, near=did_you_mean(name, known)))
    if row.twice is not None:
        raise ValueError(LineCause.TWICE(field=row.twice))


def wrong_line(number: int, path: str, reason: Text) -> KlogError:
    """Return the error for a line."""
    return KlogError(LineCause.AT(line=number, why=reason), path=path)


def _call_of(request: JsonObject, folder: str, facts: InputFacts) -> Call:
    """Return the call of a line. Raises TypeError or ValueError for invalid fields."""
    check_fields(request, CALL_FIELDS, "a call")
    role = request.get("as", LEADER)
    if role not in (LEADER, FOLLOWER):
        raise ValueError(LineCause.NO_ROLE(role=repr(role)))
    origin = str(request.get("origin") or "client").lower()
    if origin not in (known.value for known in AppendOrigin):
        raise ValueError(LineCause.NO_ORIGIN(origin=origin))
    to_magic = _int(request, "record_version", CURRENT_MAGIC, CURRENT_MAGIC, least=0)
    transaction_version = _int(request, "transaction_version", TV_UNKNOWN, MAX_SHORT)
    if request.get("record_version") is not None:  # appendAsLeaderWithRecordVersion: always from a client
        origin, transaction_version = AppendOrigin.CLIENT.value, TV_UNKNOWN
    return Call(
        _content_of_request(request, folder, facts),
        role == FOLLOWER,
        _int(request, "leader_epoch", 0, MAX_INT),
        _int(request, "now_ms", 0, MAX_LONG) if request.get("now_ms") is not None else None,
        AppendOrigin(origin),
        transaction_version,
        to_magic,
    )


def _content_of_request(request: Mapping[str, object], folder: str, facts: InputFacts) -> Content:
    if "hex" in request and "file" in request:
        raise ValueError(LineCause.HEX_AND_FILE())
    if "hex" in request:
        text = request["hex"]
        if not isinstance(text, str) or (not text.isalnum() and text):
            raise ValueError(LineCause.NO_HEX())
        return (bytes.fromhex(text),) if text else ()
    name = request.get("file")
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(LineCause.NO_CONTENT())
    return _content_of(os.path.normpath(os.path.join(folder, name)), facts)


def _content_of(path: str, facts: InputFacts) -> Content:
    with LogFile(path) as file:
        size = file.size
    if facts.note(path) != size:
        raise KlogError(FileCause.CHANGED(), path=path)
    return (FileRange(path, 0, size),) if size else ()


def _int(request: Mapping[str, object], name: str, default: int, most: int, *, least: int | None = None) -> int:
    value = request.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(LineCause.NO_NUMBER(field=name))
    if not (-most - 1 if least is None else least) <= value <= most:
        raise ValueError(LineCause.OUT_OF_RANGE(field=name, value=value))
    return value
