"""An HTML page of its own: it needs no JavaScript, and fetches nothing. Everything from a disk goes through `shown`."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from klogtool.escape import escaped
from klogtool.render.lookup import exact_time_text

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
    return exact_time_text(now_ms)[:16].replace("T", " ") + " UTC"


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


Palette = Mapping[str, str]

LIGHT: Palette = {
    "page": "#ffffff",
    "panel": "#f4f6f8",
    "code": "#e9edf1",
    "text": "#1b1f24",
    "muted": "#505a64",
    "line": "#c4ccd4",
    "error": "#a3161f",
    "warning": "#7a4700",
    "fine": "#17662f",
    "link": "#0a56a0",
    "kept": "#3d74a8",
    "lost": "#b3202a",
    "ground": "#fbe4e4",
}
DARK: Palette = {
    "page": "#14171a",
    "panel": "#1d2226",
    "code": "#2a3138",
    "text": "#e5e9ed",
    "muted": "#aab4be",
    "line": "#434c55",
    "error": "#ff9c95",
    "warning": "#f0ba60",
    "fine": "#7fd795",
    "link": "#8fbcf7",
    "kept": "#4a86bf",
    "lost": "#ff8078",
    "ground": "#43201f",
}
TEXT_ON = {
    "text": ("page", "panel", "code"),
    "muted": ("page", "panel", "code"),
    "link": ("page", "panel"),
    "error": ("page", "panel"),
    "warning": ("page", "panel"),
    "fine": ("page", "panel"),
}
SHAPES_ON = {"kept": ("page", "panel"), "lost": ("page", "panel", "ground"), "text": ("kept", "ground")}


def style() -> str:
    """Return the style sheet: page.css, with these colours. Paper has the light ones."""
    light, dark = _variables(LIGHT), _variables(DARK)
    schemes = f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    rules = pkgutil.get_data(__package__, "page.css") or b""
    return schemes + rules.decode().replace("\n", "")


def _variables(palette: Palette) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in palette.items())
