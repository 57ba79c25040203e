"""Answers with the sentences of their reasons. words.json has these, below the class of a cause (`klogtool.causes`)."""

from __future__ import annotations

from typing import Any

import msgspec

from klogtool.causes import words as words


def in_words(row: object) -> Any:
    """Return an answer as JSON types, with the sentences of its reasons."""
    return msgspec.to_builtins(row, enc_hook=words)
