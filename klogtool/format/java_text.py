"""Text as Java reads it: the lines of a BufferedReader, the fields of Pattern.split, the text of Properties.

Lines and fields differ from Python's splitlines() and split(): other line ends, other blanks, other empty fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from klogtool.errors import Corrupt
from klogtool.format.buffers import Buffer

_READER_CHARACTERS = 8192  # java.io.BufferedReader fills this many UTF-16 units at a time
MOST_CITED = 200  # characters of a line of damage: a person sees what it is
JAVA_BLANKS = " \t\n\x0b\f\r"  # Java's \s knows no others
_BLANKS_TO_SPACES = {ord(blank): " " for blank in JAVA_BLANKS}

_PROPERTY_BLANKS = " \t\f"
_PROPERTY = r"(?s)((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)"
_ESCAPE = r"(?s)\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<character>.))"
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_STORED_ESCAPES = {character: "\\" + name for name, character in _NAMED_ESCAPES.items()} | {
    character: "\\" + character for character in "\\=:#!"
}


def walk_lines(data: Buffer, *, kafka_class: str) -> Iterator[str]:
    """Yield the lines that Files.newBufferedReader(path, UTF_8).readLine() returns, without their ends.

    Raises Corrupt for bytes that are not UTF-8 (an IOException in Kafka; kafka_class: the exception that Kafka turns
    it into). Java's reader decodes 8192 characters ahead, so the error comes before the last lines in front of them.
    """
    try:
        text, broken = bytes(data).decode("utf-8"), None
    except UnicodeDecodeError as error:
        text, broken = _text_read_before(bytes(data[: error.start]).decode("utf-8")), error.start
    lines = _split_lines(text)
    last = lines.pop()
    yield from lines
    if broken is not None:
        raise Corrupt("Malformed input: not UTF-8", position=broken, kafka_class=kafka_class)
    if last:
        yield last


def _split_lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def split_fields(line: str) -> list[str]:
    r"""Split as line.split("\\s+") in Java: leading blanks make an empty first field, trailing blanks make none."""
    first, *others = line.translate(_BLANKS_TO_SPACES).split(" ")
    fields = [first, *filter(None, others)]
    return [] if others and fields == [""] else fields


def cited(line: str) -> str:
    """Return a line of a file as an error cites it: of a long one the first characters, and how many there are."""
    return line if len(line) <= MOST_CITED else f"{line[:MOST_CITED]}... ({len(line):,} characters)"


def parse_properties(data: Buffer) -> dict[str, str]:
    """Parse as java.util.Properties.load of a byte stream: ISO-8859-1 with escapes. The last value of a key counts.

    Raises Corrupt (IllegalArgumentException) for a Unicode escape with fewer than four hexadecimal digits.
    """
    properties = {}
    for line in _walk_logical_lines(bytes(data).decode("latin-1")):
        key, value = re.findall(_PROPERTY, line)[0]  # fits any line
        properties[_unescape(key)] = _unescape(value)
    return properties


def build_properties(properties: Mapping[str, str], comments: tuple[str, ...] = ()) -> bytes:
    """Build as java.util.Properties.store to a byte stream: comment lines, then the keys in the order of the mapping.

    Characters other than printable ASCII are escaped, so every value is read back unchanged.
    """
    lines = [f"#{comment}" for comment in comments]
    lines += [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}" for key, value in properties.items()]
    return "".join(f"{line}\n" for line in lines).encode("latin-1", "replace")


def _walk_logical_lines(text: str) -> Iterator[str]:
    """Yield logical lines (Properties.LineReader), without comments and blank lines. An odd number of backslashes at
    the end of a line continues it."""
    *lines, last = _split_lines(text)
    logical, goes_on = "", False
    for line in lines:
        natural = line.lstrip(_PROPERTY_BLANKS)
        if not logical and (not natural or natural[0] in "#!"):
            goes_on = False
            continue
        logical, goes_on = _join(logical, natural)
        if not goes_on:
            yield logical
            logical = ""
    natural = last.lstrip(_PROPERTY_BLANKS)
    if natural and (logical or natural[0] not in "#!"):
        yield _join(logical, natural)[0]
    elif logical or (goes_on and not last and not text.endswith("\r\n")):
        yield logical  # an empty key, if a backslash alone and one character of line end are the last of the text


def _join(logical: str, natural: str) -> tuple[str, bool]:
    """Return a logical line with one more natural line, and whether it continues after that."""
    backslashes = len(natural) - len(natural.rstrip("\\"))
    goes_on = backslashes % 2 == 1
    joined = logical + natural
    return (joined[:-1] if goes_on else joined), goes_on


def _unescape(text: str) -> str:
    def replacement(escape: re.Match[str]) -> str:
        if escape["code"] is not None:
            return chr(int(escape["code"], 16))
        if escape["character"] == "u":
            raise Corrupt("Malformed \\uxxxx encoding.", kafka_class="IllegalArgumentException")
        return _NAMED_ESCAPES.get(escape["character"], escape["character"])

    # Escapes are UTF-16 units: two of them may make one character.
    return re.sub(_ESCAPE, replacement, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escape(text: str, *, is_key: bool) -> str:
    data = text.encode("utf-16-be", "surrogatepass")
    units = (chr(int.from_bytes(data[at : at + 2], "big")) for at in range(0, len(data), 2))
    stored = (_STORED_ESCAPES.get(unit, unit if " " <= unit <= "~" else f"\\u{ord(unit):04X}") for unit in units)
    escaped = "".join(stored)
    if is_key:
        return escaped.replace(" ", "\\ ")
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _text_read_before(sound: str) -> str:
    """Return the part of `sound` (it ends at a broken byte) that Java's reader returns before it reaches that byte."""
    kept = filled = 0
    for at, character in enumerate(sound):
        units = 2 if character > "\uffff" else 1
        if filled + units > _READER_CHARACTERS:
            kept, filled = at, 0
        filled += units
    if filled == _READER_CHARACTERS:
        kept = len(sound)
    return sound[:kept]
