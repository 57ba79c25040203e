"""A spec as YAML, as a person would write it: one record a line, short things on one line.

`klogtool.building.spec_text` reads it back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from klogtool.building.spec import Spec

WIDTH = 110
BLOCKS = ("partitions", "segments", "log", "files", "wounds")  # lists that have an item a line
_PLAIN = re.compile(r"[A-Za-z_/.][A-Za-z0-9_/.@+-]*")
_NOT_TEXTS = ("null", "Null", "NULL", "true", "false", "True", "False", "~")
_SHOWN = "\x20-\x7e\xa1-\u2027\u2030-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
_NEEDS_ESCAPES = re.compile(f"[^{_SHOWN}]")
_UNSHOWN = re.compile(f'[^{_SHOWN}]|["\\\\]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def spec_lines(spec: Spec) -> Iterator[str]:
    """Yield the lines of a spec file, without line ends."""
    yield from _walk_mapping(spec.as_rows(), "")


def _walk_mapping(rows: Mapping[str, object], indent: str) -> Iterator[str]:
    for name, value in rows.items():
        flow = _flow(value)
        if name in BLOCKS and isinstance(value, Sequence) and value:
            yield f"{indent}{_text(name)}:"
            yield from _walk_items(value, indent + "  ")
        elif len(indent) + len(name) + len(flow) <= WIDTH or not isinstance(value, Mapping | list | tuple) or not value:
            yield f"{indent}{_text(name)}: {flow}"
        elif isinstance(value, Mapping):
            yield f"{indent}{_text(name)}:"
            yield from _walk_mapping(value, indent + "  ")
        else:
            yield f"{indent}{_text(name)}:"
            yield from _walk_items(value, indent + "  ")


def _walk_items(items: Sequence[Any], indent: str) -> Iterator[str]:
    for item in items:
        flow = _flow(item)
        has_blocks = isinstance(item, Mapping) and any(name in BLOCKS for name in item)
        if not isinstance(item, Mapping) or not item or (len(indent) + len(flow) <= WIDTH and not has_blocks):
            yield f"{indent}- {flow}"
            continue
        lines = _walk_mapping(item, indent + "  ")
        yield f"{indent}- {next(lines).lstrip()}"
        yield from lines


def _flow(value: Any) -> str:
    """Return a value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(name)}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _text(text: str) -> str:
    """Return a text, in quotes if it could be read as something else."""
    if _PLAIN.fullmatch(text) and text not in _NOT_TEXTS:
        return text
    if '"' in text and "'" not in text and not _NEEDS_ESCAPES.search(text):
        return f"'{text}'"
    return f'"{_UNSHOWN.sub(_escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
