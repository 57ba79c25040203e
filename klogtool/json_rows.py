"""Rows of JSON Lines, and names in them that are not UTF-8.

Floor 0: imports nothing of klogtool but `escape`. A name on disk is bytes; Python has it as text with lone surrogates,
which no JSON should have. Such a text is written escaped, and its bytes beside it in base64, under the name of the
field with `_base64`: `{"path":"/d/a\\xff-0","path_base64":"L2QvYf8tMA=="}`. A list of texts has a list beside it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from klogtool.escape import escaped, in_utf8

_BESIDE = "_base64"
_SURROGATES = "\\ud"  # begins each surrogate that json escapes, those of pairs as well


def row_line(row: Mapping[str, Any], *, ascii_only: bool = True) -> str:
    """One object, compact, without a line's end. ascii_only: all other characters are escaped."""
    line = json.dumps(row, separators=(",", ":"), ensure_ascii=ascii_only)
    if _SURROGATES not in line if ascii_only else _is_text(line):
        return line
    return json.dumps(presentable(row), separators=(",", ":"), ensure_ascii=ascii_only)


def presentable(value: Any) -> Any:
    """A value of JSON's types without lone surrogates."""
    if isinstance(value, str):
        return value if _is_text(value) else _presented(value)
    if isinstance(value, list | tuple):
        return [presentable(item) for item in value]
    if not hasattr(value, "items"):
        return value
    row = {}
    for name, item in value.items():
        row[presentable(name)] = presentable(item)
        if (beside := _beside(item)) is not None:
            row[presentable(name) + _BESIDE] = beside
    return row


def restored(value: Any) -> Any:
    """The same with names as Python has them, as before `presentable`. Raises ValueError for base64 that is none."""
    if isinstance(value, list):
        return [restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    row = {name: restored(item) for name, item in value.items()}
    for name in [name for name in row if name.endswith(_BESIDE) and name.removesuffix(_BESIDE) in row]:
        row[name.removesuffix(_BESIDE)] = _decoded(row.pop(name))
    return row


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _presented(text: str) -> str:
    read = in_utf8(text)
    return read if _is_text(read) else escaped(read)


def _beside(item: Any) -> str | list[str] | None:
    """The bytes of a text that is not UTF-8, or of texts of which one is not."""
    if isinstance(item, str):
        return None if _is_text(in_utf8(item)) else _encoded(item)
    is_texts = isinstance(item, list | tuple) and all(isinstance(text, str) for text in item)
    return [_encoded(text) for text in item] if is_texts and not all(map(_is_text, map(in_utf8, item))) else None


def _encoded(text: str) -> str:
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        data = text.encode("utf-8", "surrogatepass")
    return base64.b64encode(data).decode()


def _decoded(item: Any) -> Any:
    if isinstance(item, list):
        return [_decoded(text) for text in item]
    return base64.b64decode(item, validate=True).decode("utf-8", "surrogateescape")
