"""The sentence of each cause: in words.json, below the name of its class. `{name}` stands for a value of the reason."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from klogtool.causes import Reason


@cache
def sentences() -> Mapping[str, Mapping[str, str]]:
    """Return all sentences: by the class of their causes, then by the name of the cause."""
    return msgspec.json.decode(pkgutil.get_data(__package__, "words.json") or b"", type=dict[str, dict[str, str]])


def words(reason: Reason) -> str:
    """Return the sentence of a reason."""
    sentence = sentences()[type(reason.cause).__name__][reason.cause.name]
    return sentence.format_map({name: _shown(value) for name, value in reason.values.items()})


def _shown(value: object) -> object:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return words(value) if isinstance(value, Reason) else value


def in_words(row: object) -> Any:
    """Return an answer as JSON types, with the sentences of its reasons."""
    return msgspec.to_builtins(row, enc_hook=words)
