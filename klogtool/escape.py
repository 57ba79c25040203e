"""Makes text from a disk safe to show on a terminal, and to paste into a shell.

Imports nothing of klogtool. Anybody may have written the names of files and folders, lines of
checkpoints and values of settings. Shown raw, they can move the cursor, change colours, hide or reorder the text beside
them, or look like a line of klogtool. `escaped` is the one rule for all of them. Every line that klogtool prints goes
through it (cli/output.py), and so does every paragraph that is joined from lines (`joined`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")

# Printable by Unicode, but invisible: fillers, joiners and selectors.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
MOST_SHOWN_KEPT = 4096
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")  # to a shell
_BYTES = range(0xDC80, 0xDD00)  # what Python has in place of a byte that is not UTF-8 (surrogateescape)


def escaped(text: str) -> str:
    r"""Return the text as one line without control, format, bidi or invisible characters, and without lone surrogates.

    These become `\n`, `\x1b`, `\u202e`, `\U000e0001`; a byte that is not UTF-8 becomes `\xff`. A backslash stays.
    """
    if text.isprintable() and (text.isascii() or _BLANK.isdisjoint(text)):
        return text
    return in_utf8(text).translate(_SHOWN)


def escaped_json(lines: str) -> str:
    r"""Return the same JSON lines, with characters that a terminal would not show written as `\u001b`."""
    return lines.translate(_IN_JSON)


def _in_json(char: str) -> str:
    if char == "\n" or _is_shown(char):
        return char
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def in_utf8(text: str) -> str:
    """Return the text with its bytes decoded as UTF-8 where possible, whatever encoding the locale has."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that does not stand for a byte
        return text


def joined(lines: Iterable[str]) -> str:
    """Join lines, each escaped, so that text from a disk cannot begin a new line."""
    return "\n".join(map(escaped, lines))


def as_paragraph(walk: Callable[P, Iterable[str]]) -> Callable[P, str]:
    """Decorate a function that yields lines, so that it returns them `joined`."""

    @wraps(walk)
    def text_of(*args: P.args, **kwargs: P.kwargs) -> str:
        return joined(walk(*args, **kwargs))

    return text_of


def quoted(text: str) -> str:
    """Quote a path as one shell word. If it has characters that cannot be shown, use `$'...'` of bash and zsh.

    (shlex.quote would leave control characters as they are.)
    """
    text = in_utf8(text)
    if text.startswith("-"):
        text = f"./{text}"  # else it is taken for an option
    if text and _PLAIN.issuperset(text):
        return text
    if escaped(text) == text:
        return "'" + text.replace("'", "'\"'\"'") + "'"
    return "$'" + "".join(map(_in_dollar_quotes, text)) + "'"


def _is_shown(char: str) -> bool:
    return char.isprintable() and char not in _BLANK


def _shown(char: str) -> str:
    code = ord(char)
    if _is_shown(char):
        return char
    if char in _NAMED:
        return _NAMED[char]
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class _Shown(dict[int, str]):
    """By a character's number: looked up once for each, since a value of megabytes has many of few."""

    def __init__(self, form: Callable[[str], str]) -> None:
        self._form = form

    def __missing__(self, code: int) -> str:
        shown = self._form(chr(code))
        if len(self) < MOST_SHOWN_KEPT:
            self[code] = shown
        return shown


_SHOWN, _IN_JSON = _Shown(_shown), _Shown(_in_json)


def _in_dollar_quotes(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if _is_shown(char):
        return char
    code = ord(char)
    data = bytes([code - 0xDC00]) if code in _BYTES else char.encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)
