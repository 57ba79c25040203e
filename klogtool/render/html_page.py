"""An HTML page of its own: it needs no JavaScript, and fetches nothing. Everything from a disk goes through `shown`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from klogtool.escape import escaped
from klogtool.render.html_style import style
from klogtool.render.lookup import time_text

MOST_ROWS = 2000  # of a table
CLOSE_TABLE = "</tbody></table></div>"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html_page(title: str, body: Iterable[str]) -> str:
    """Return a page. title, body: as HTML."""
    return "".join(f"{part}\n" for part in _page(title, body) if part)


def _page(title: str, body: Iterable[str]) -> Iterator[str]:
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">'
    yield f"<title>{title}</title><style>{style()}</style></head><body>"
    yield from body
    yield "</body></html>"


def shown(text: str) -> str:
    """Return text for HTML: control and bidi characters and bytes that are not UTF-8 escaped as in all other output."""
    return escape(escaped(text))


def minute_text(now_ms: int) -> str:
    """Return a time in UTC, to the minute."""
    return time_text(now_ms)[:16].replace("T", " ") + " UTC"


def open_table(name: str, columns: Sequence[str], *, words: int = 0) -> str:
    """Return the beginning of a table, which scrolls by itself. words: how many columns after the first are no
    numbers."""
    heads = "".join(f'<th scope="col"{_class(n, words + 1)}>{column}</th>' for n, column in enumerate(columns))
    return (
        f'<div class="wide" role="region" aria-label="{shown(name)}" tabindex="0"><table class="n">'
        f"<caption>{shown(name)}</caption><thead><tr>{heads}</tr></thead><tbody>"
    )


def table_row(head: str, cells: Sequence[str], *, words: int = 0) -> str:
    """Return a row. A page has thousands: HTML does not need the end tags."""
    return f"<tr><th scope=row>{head}" + "".join(f"<td{_class(n, words)}>{cell}" for n, cell in enumerate(cells))


def _class(column: int, words: int) -> str:
    return " class=t" if column < words else ""
