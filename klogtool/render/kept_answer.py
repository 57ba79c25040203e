"""The doctor's answer inside its page: written into a block of JSON, and read back.

The block keeps what was printed: the lines of text, and the rows of `--format json`. So a page says the same in each
later release of klogtool. Rows with the same fields are a table, column by column, which needs little room. A large
block is compressed. Anybody may have written the file that is read back: nothing in it is believed.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from klogtool.errors import AboveLimit, Corrupt, KlogError
from klogtool.escape import joined
from klogtool.format import codecs
from klogtool.json_rows import row_line

MOST_PAGE_BYTES = 16 << 20
MOST_ANSWER_BYTES = 16 << 20
MOST_ROWS_BYTES = 256 << 20  # as lines of JSON: each repeats the names that its table has once
PLAIN_BYTES = 50_000  # a larger block is compressed
SMALL_BYTES = 2 << 20  # up to here the best compression takes less than a second
_LEVEL, _FAST_LEVEL = 19, 12  # of zstd
BEGIN = '<script type="application/json" id="answer">'
END = "</script>"
_FORMAT = "klogtool doctor page 1"
_NOT_A_PAGE = "not a page that klogtool doctor --html wrote"
_IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class KeptAnswer(Struct, frozen=True):
    """What the doctor printed. text: without colours, lines joined. rows: the lines of JSON. status: of the exit."""

    text: str
    rows: tuple[str, ...]
    status: int


class _Table(Struct, frozen=True):
    """Rows with the same fields. values: a list for each of the columns."""

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]


class _Body(Struct, frozen=True):
    """order: for each row, in which table it is; rows of a table are in their order."""

    status: int
    text: str
    tables: tuple[_Table, ...]
    order: tuple[int, ...]


class _Block(Struct, frozen=True):
    """answer: the body; or zstd: the same compressed, in base64."""

    format: str
    answer: _Body | None = None
    zstd: str | None = None


def answer_block(text: str, rows: Sequence[Mapping[str, object]], status: int) -> str:
    """Return the block for a page. Raises AboveLimit if nobody could read it back."""
    body = row_line({"status": status, "text": joined(text.split("\n")), **_tabled(rows)})
    if len(body) > MOST_ANSWER_BYTES:
        raise AboveLimit(f"the answer is too large for a page: {len(body):,} bytes (limit: {MOST_ANSWER_BYTES:,})")
    if len(body) <= PLAIN_BYTES:
        block = f'{{"format":"{_FORMAT}","answer":{body}}}'
    else:
        level = _LEVEL if len(body) <= SMALL_BYTES else _FAST_LEVEL
        compressed = codecs.compress("zstd", body.encode(), magic=2, level=level)
        block = row_line({"format": _FORMAT, "zstd": base64.b64encode(compressed).decode()})
    return f"{BEGIN}{block.translate(_IN_HTML)}{END}"


def _tabled(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the rows as `tables` and `order`. Names that are not UTF-8 are written as `row_line` writes them."""
    tables: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
    order = []
    for row in (json.loads(row_line(row)) for row in rows):
        order.append(tuple(row))
        tables.setdefault(tuple(row), []).append(tuple(row.values()))
    places = {columns: n for n, columns in enumerate(tables)}
    values = [{"columns": columns, "values": list(zip(*some, strict=True))} for columns, some in tables.items()]
    return {"tables": values, "order": [places[columns] for columns in order]}


def read_answer(data: bytes, path: str) -> KeptAnswer:
    """Return the answer in a page. Raises KlogError if it is no page of ours, or not whole; AboveLimit if it is too
    large."""
    try:
        start = data.find(BEGIN.encode())
        end = data.find(END.encode(), start)
        if start < 0 or end < 0:
            raise KlogError(_NOT_A_PAGE, path=path)
        block = msgspec.json.decode(data[start + len(BEGIN) : end], type=_Block)
        body = block.answer
        if block.zstd is not None:
            compressed = base64.b64decode(block.zstd, validate=True)
            inflated = codecs.decompress("zstd", compressed, magic=2, limit=MOST_ANSWER_BYTES)
            body = msgspec.json.decode(inflated, type=_Body)
        if block.format != _FORMAT or body is None or body.status not in (0, 1):
            raise KlogError(_NOT_A_PAGE, path=path)
        return KeptAnswer(body.text, tuple(_row_lines(body)), body.status)
    except AboveLimit as error:
        raise error.at_path(path) from None
    except (msgspec.DecodeError, ValueError, IndexError, RecursionError, Corrupt) as error:
        raise KlogError(f"the answer in this page is damaged: {_reason(error)}", path=path) from None


def _row_lines(body: _Body) -> Iterator[str]:
    """Yield the rows in their order. Raises ValueError or IndexError for tables that do not fit; AboveLimit."""
    rows, left = [_walk_rows(table) for table in body.tables], MOST_ROWS_BYTES
    for n in body.order:
        if n < 0 or (row := next(rows[n], None)) is None:
            raise ValueError("a table has too few rows")
        line = row_line(row)
        left -= len(line)
        if left < 0:
            raise AboveLimit(f"the rows of the answer are too large (limit: {MOST_ROWS_BYTES:,} bytes)")
        yield line


def _walk_rows(table: _Table) -> Iterator[dict[str, object]]:
    if len(table.columns) != len(table.values):
        raise ValueError("a table has not as many columns as names")
    return (dict(zip(table.columns, row, strict=True)) for row in zip(*table.values, strict=True))


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, binascii.Error):
        return "its base64 is not whole"
    return error.reason if isinstance(error, KlogError) else str(error)
