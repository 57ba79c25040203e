"""The wording of a message as a pattern that finds it in a text, in time proportional to the text.

`{name}` stands for anything up to the text that follows it, in the same line. What it took is never given back
(atomic groups), so no text makes the search slow.
"""

from __future__ import annotations

import re
from functools import cache

_PLACEHOLDER = re.compile(r"\{(\w*)\}")
NUMBERS = frozenset({"base", "bytes", "end", "offset", "position", "size", "start"})
MARKS = " .,:;'\"[](){}`\u2026"  # around a part of a message that somebody pasted
FEWEST_WORDS = 4  # of a part of a message: fewer are in other messages, too


@cache
def pattern_of(text: str) -> re.Pattern[str]:
    """Return the pattern of a wording, with a group for each name. The first `{name}` of a name is its group."""
    parts = _PLACEHOLDER.split(text)  # literal, name, literal, name, ..., literal
    found = re.escape(parts[0]) if parts[0] else r"(?<!\S)"
    taken: set[str] = set()
    for name, literal in zip(parts[1::2], parts[2::2], strict=True):
        found += _group(name if name not in taken else "", literal)
        taken.add(name)
    return re.compile(found)


def _group(name: str, literal: str) -> str:
    is_last = literal in ("", ".")  # names have dots, too
    literal = "" if is_last else literal
    value = r"-?\d+" if name in NUMBERS else r'[^\n"]*' if is_last else r"[^\n]*?"
    group = f"(?P<{name}>{value})" if name else f"(?:{value})"
    return f"(?>{group}{re.escape(literal)})"


def literals_of(text: str) -> list[str]:
    """Return the parts of a wording that do not vary."""
    return [part for part in _PLACEHOLDER.split(text)[::2] if part]


def parts_of(text: str) -> list[str]:
    """Return the parts of a wording as somebody may paste them: in lower case, without marks around."""
    return [part.strip(MARKS).casefold() for part in literals_of(text)]


def literal_length(text: str) -> int:
    """Return how many characters of a wording do not vary: the more, the more specific."""
    return sum(map(len, literals_of(text)))


def readable(text: str, wanted: int = 4096) -> str:
    """Return what people paste as a broker would have written it. wanted: characters of a line.

    Without colours of a terminal, line ends of Windows, runs of blanks and curved quotes; `\\n` and `\\"` of a log in
    JSON as what they stand for; without the name of the logger at the end of a line, or before an exception.
    """
    for typed, meant in _TYPED:
        text = text.replace(typed, meant)
    text = _LOGGER_INSIDE.sub("\n", _COLOUR.sub("", text))
    text = "\n".join(line[:wanted] for line in text.split("\n"))
    return _LOGGER.sub("", _BLANKS.sub(" ", text))


_TYPED = (
    *(("\r\n", "\n"), ("\r", "\n"), ("\\n", "\n"), ("\\t", " "), ('\\"', '"')),
    *(("\u201c", '"'), ("\u201d", '"'), ("\u2018", "'"), ("\u2019", "'")),
)
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_BLANKS = re.compile(r"[ \t\xa0]+")
# An exception that a collector of logs has joined to the line before it.
_LOGGER_INSIDE = re.compile(
    r" \((?:kafka|org\.apache\.kafka|state)\.[\w.$]{1,200}\) (?=[\w.$]{1,200}(?:Exception|Error)\b)"
)
_LOGGER = re.compile(r" \((?:kafka|org\.apache\.kafka|state)\.[\w.$]{1,200}\)$", re.MULTILINE)
