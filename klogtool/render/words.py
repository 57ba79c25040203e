"""Answers with the sentences of their reasons. words.json has these, below the class of a cause (`klogtool.causes`).

Beside them: numbers of things, and tables of numbers, for people.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from klogtool.causes import words as words

Row: TypeAlias = dict[str, object]  # of JSON


def in_words(row: object) -> Any:
    """Return an answer as JSON types, with the sentences of its reasons."""
    return msgspec.to_builtins(row, enc_hook=words)


def count_text(number: int, noun: str, many: str | None = None) -> str:
    """Return `1 segment` or `2,000 segments`. many: the plural, if it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def offsets_text(first: int, last: int) -> str:
    """Return `offset 7` or `offsets 7 to 1,000`."""
    return f"offset {first:,}" if first == last else f"offsets {first:,} to {last:,}"


def number_table(rows: Sequence[Sequence[str]], numbers: Collection[int]) -> Iterator[str]:
    """Yield rows in aligned columns. numbers: the columns that are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield "  ".join(cell.rjust(width) if n in numbers else cell.ljust(width) for n, (cell, width) in cells).rstrip()
