"""Rows of JSON Lines, and names in them that are not UTF-8.

Imports nothing of klogtool except `escape`. A name on disk is bytes. Python has it as text with lone
surrogates, which JSON should not contain. Such a text is written escaped, with its bytes in base64 beside it, under the
field's name with `_base64`: `{"path":"/d/a\\xff-0","path_base64":"L2QvYf8tMA=="}`. A list of texts has a list beside
it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, to_builtins

from klogtool.escape import escaped, in_utf8

_BESIDE = "_base64"
_SURROGATES = "\\ud"  # the beginning of each escaped surrogate, including those of pairs


def row_line(value: Mapping[str, object] | Struct, *, ascii_only: bool = True) -> str:
    """Return one object, compact, without a line end. ascii_only: escape all other characters."""
    row = to_builtins(value) if isinstance(value, Struct) else value
    line = json.dumps(row, separators=(",", ":"), ensure_ascii=ascii_only)
    if _SURROGATES not in line if ascii_only else _is_text(line):
        return line
    return json.dumps(presentable(row), separators=(",", ":"), ensure_ascii=ascii_only)


def presentable(value: Any) -> Any:
    """Return a JSON value without lone surrogates."""
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
    """Reverse `presentable`: return the value with names as Python has them. Raises ValueError for invalid base64."""
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
    """Return the bytes of a text that is not UTF-8, or of a list in which one is not; else None."""
    if isinstance(item, str):
        return None if _is_text(in_utf8(item)) else _encoded(item)
    is_texts = isinstance(item, list | tuple) and all(isinstance(text, str) for text in item)
    return [_encoded(text) for text in item] if is_texts and not all(map(_is_text, map(in_utf8, item))) else None


def _encoded(text: str) -> str:
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that does not stand for a byte
        data = text.encode("utf-8", "surrogatepass")
    return base64.b64encode(data).decode()


def _decoded(item: Any) -> Any:
    if isinstance(item, list):
        return [_decoded(text) for text in item]
    return base64.b64decode(item, validate=True).decode("utf-8", "surrogateescape")
