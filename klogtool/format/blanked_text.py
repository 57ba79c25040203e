"""Text files of a log dir with only what parses as theirs; every other character becomes the letter x.

Lines, blanks and zeros stay, so that a reader stumbles at the same place. Numbers stay if they have at most 15 digits;
a longer one becomes one with as many digits. Names of topics are replaced by `name_of`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from klogtool.format.names import FileKind

NameOf = Callable[[str], str]

_LINE_ENDS = re.compile(rb"(\r\n|\r|\n)")
_NUMBER = re.compile(rb"[+-]?[0-9]+")
_UUID = rb"[A-Za-z0-9_-]{22}"
_TOPIC = re.compile(rb"[A-Za-z0-9._-]{1,249}")
_STAYS = frozenset(b" \t\r\n\x0b\x0c\0")
_HIDDEN = bytes(byte if byte in _STAYS else ord("x") for byte in range(256))
_MOST_DIGITS = 15
_HEAD_LINES = 2  # of a checkpoint: version and number of entries
_FIELDS_OF_AN_OFFSET = 3  # topic, partition, offset

_COMMENT = re.compile(rb"#([A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d [A-Z]{1,5} \d{4})?")
_PROPERTY = re.compile(
    rb"((?:version|broker\.id|node\.id)[=:])([+-]?[0-9]+)|((?:cluster\.id|directory\.id)[=:])(%s)" % _UUID
)
_PROPERTY_NAME = re.compile(rb"(?:version|broker\.id|node\.id|cluster\.id|directory\.id)(?=[ \t\f]*[=:])")
_METADATA_LINE = re.compile(rb"version: ([+-]?[0-9]+)|topic_id: %s" % _UUID)
_METADATA_NAME = re.compile(rb"(?:version|topic_id)(?=: )")
_SEPARATORS = re.compile(rb"([=: \t\f])")

_JSON_NAMES = frozenset(
    b'"%s"' % name
    for name in (
        *(b"clusterId", b"leaderId", b"leaderEpoch", b"votedId", b"votedDirectoryId", b"appliedOffset"),
        *(b"currentVoters", b"voterId", b"data_version", b"version", b"brokerEpoch"),
    )
)
_JSON_WORDS = frozenset((b"true", b"false", b"null", *(bytes([byte]) for byte in b"{}[]:,")))
_JSON_UUIDS = frozenset((b'"clusterId"', b'"votedDirectoryId"'))
_JSON_TOKEN = re.compile(
    rb'"(?:[^"\\]|\\.)*"|[+-]?[0-9]+(?![0-9.eE])|true|false|null|[{}\[\]:,]|[ \t\r\n\0]+|.', re.DOTALL
)
_JSON_UUID = re.compile(rb'"%s"' % _UUID)


def blank_text(data: bytes, kind: FileKind, name_of: NameOf) -> bytes:
    """Return a text file without what is not Kafka's, in the same number of bytes.

    name_of: returns a name of the same length for a topic.
    """
    if kind in (FileKind.QUORUM_STATE, FileKind.CLEAN_SHUTDOWN):
        return b"".join(_json_tokens(data))
    lines_and_ends = _LINE_ENDS.split(data)  # lines, and their ends between them
    lines = [_blank_line(kind, n, line, name_of) for n, line in enumerate(lines_and_ends[::2])]
    return b"".join(line + end for line, end in zip(lines, [*lines_and_ends[1::2], b""], strict=True))


def _blank_line(kind: FileKind, number: int, line: bytes, name_of: NameOf) -> bytes:
    if kind is FileKind.META_PROPERTIES:
        return _property_line(line)
    if kind is FileKind.PARTITION_METADATA:
        match = _METADATA_LINE.fullmatch(line)
        return _with_number(line, match, 1) if match else _by_name(line, _METADATA_NAME)
    return _checkpoint_line(kind, number, line, name_of)


# Checkpoints.


def _checkpoint_line(kind: FileKind, number: int, line: bytes, name_of: NameOf) -> bytes:
    words = line.split()
    if number < _HEAD_LINES:
        return _each_number(line) if len(words) == 1 else _hidden(line)
    if kind is FileKind.LEADER_EPOCH_CHECKPOINT:
        return _each_number(line) if len(words) == len(("epoch", "offset")) else _hidden(line)
    if len(words) != _FIELDS_OF_AN_OFFSET or not all(_NUMBER.fullmatch(word) for word in words[1:]):
        return _hidden(line)
    start = line.index(words[0])
    stop = start + len(words[0])
    topic = name_of(words[0].decode()).encode() if _TOPIC.fullmatch(words[0]) else _hidden(words[0])
    return line[:start] + topic + _each_number(line[stop:])


def _each_number(line: bytes) -> bytes:
    """Return a line of words of which only numbers stay."""
    return re.sub(rb"[^ \t\x0b\x0c]+", lambda word: _number(word[0]), line)


def _number(word: bytes) -> bytes:
    if not _NUMBER.fullmatch(word):
        return _hidden(word)
    sign = len(word) - len(word.lstrip(b"+-"))
    digits = len(word) - sign
    return word if digits <= _MOST_DIGITS else word[:sign] + b"1" + b"0" * (digits - 1)


def _hidden(data: bytes) -> bytes:
    return data.translate(_HIDDEN)


# Properties.


def _property_line(line: bytes) -> bytes:
    if _COMMENT.fullmatch(line):
        return line
    match = _PROPERTY.fullmatch(line)
    if match:
        return _with_number(line, match, 2) if match[2] else line
    if line.lstrip(b" \t\f")[:1] in (b"#", b"!"):
        at = len(line) - len(line.lstrip(b" \t\f")) + 1
        return line[:at] + _hidden(line[at:])
    return _by_name(line, _PROPERTY_NAME)


def _with_number(line: bytes, match: re.Match[bytes], group: int) -> bytes:
    if match[group] is None:
        return line
    start, stop = match.span(group)
    return line[:start] + _number(line[start:stop]) + line[stop:]


def _by_name(line: bytes, known: re.Pattern[bytes]) -> bytes:
    """Return a line of which only a known name at its start, and what separates a name from a value, stay."""
    match = known.match(line)
    at = match.end() if match else 0
    hidden = (part if n % 2 else _hidden(part) for n, part in enumerate(_SEPARATORS.split(line[at:])))
    return line[:at] + b"".join(hidden)


# JSON.


def _json_tokens(data: bytes) -> Iterator[bytes]:
    """Yield the tokens of JSON: names that Kafka writes, ids and numbers stay."""
    name = before = b""
    for match in _JSON_TOKEN.finditer(data):
        token = match[0]
        if not token.strip(b" \t\r\n\0"):
            yield token
            continue
        is_value = before == b":"
        yield _json_token(token, name if is_value else b"")
        name, before = (name if token == b":" else token), token


def _json_token(token: bytes, name: bytes) -> bytes:
    """Return what stays of a token. name: that of the value which it is, or nothing."""
    if token[:1] == b'"':
        is_id = name in _JSON_UUIDS and _JSON_UUID.fullmatch(token)
        if is_id or (not name and token in _JSON_NAMES):
            return token
        return b'"' + _hidden(token[1:-1]) + b'"' if len(token) > 1 and token[-1:] == b'"' else _hidden(token)
    if name in _JSON_NAMES and _NUMBER.fullmatch(token):
        return _number(token)
    return token if token in _JSON_WORDS else _hidden(token)
