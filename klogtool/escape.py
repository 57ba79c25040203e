"""Text that came from a disk, as a terminal may see it, and as a shell may read it.

Floor 0: imports nothing of klogtool. Names of files and folders, lines of checkpoints and values of settings are bytes
that anybody may have written. Shown raw they can move the cursor, change colours, hide or reorder what stands beside
them, or look like a line of klogtool's own. `escaped` is the one rule for all of them; every line that klogtool
prints goes through it (cli/output.py), and every paragraph that is put together from lines (`joined`).
"""

from __future__ import annotations

from collections.abc import Iterable

# Printable to Unicode, and yet not to be seen: fillers, joiners and selectors.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
MOST_SHOWN_KEPT = 4096
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")  # to a shell
_BYTES = range(0xDC80, 0xDD00)  # what Python has in place of a byte that is not UTF-8 (surrogateescape)


def escaped(text: str) -> str:
    r"""The text as one line without control, format, bidi or invisible characters, and without lone surrogates.

    These become `\n`, `\x1b`, `\u202e`, `\U000e0001`; a byte that is not UTF-8 becomes `\xff`. A backslash stays.
    """
    if text.isprintable() and (text.isascii() or _BLANK.isdisjoint(text)):
        return text
    return in_utf8(text).translate(_SHOWN)


def escaped_json(lines: str) -> str:
    r"""Lines of JSON with what a terminal would not show as `\u001b`: the same JSON."""
    return "".join(char if char == "\n" or _is_shown(char) else _in_json(char) for char in lines)


def _in_json(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def in_utf8(text: str) -> str:
    """The text with its bytes read as UTF-8 as far as they are that, whatever the locale had them read as."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        return text


def joined(lines: Iterable[str]) -> str:
    """Lines under one another, each escaped: what came from a disk does not begin a new one."""
    return "\n".join(map(escaped, lines))


def quoted(text: str) -> str:
    """A path as one word of a shell's; where it cannot be shown, in bash's and zsh's `$'...'`, to be pasted.

    (shlex.quote takes longer to import than a small file to verify, and leaves control characters as they are.)
    """
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

    def __missing__(self, code: int) -> str:
        shown = _shown(chr(code))
        if len(self) < MOST_SHOWN_KEPT:
            self[code] = shown
        return shown


_SHOWN = _Shown()


def _in_dollar_quotes(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if _is_shown(char):
        return char
    code = ord(char)
    data = bytes([code - 0xDC00]) if code in _BYTES else char.encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)
