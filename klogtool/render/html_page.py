"""An HTML page of its own: it needs no JavaScript, and fetches nothing. Everything from a disk goes through `shown`."""

from __future__ import annotations

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

_RULES = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:66rem;padding:1rem;font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
background:var(--page);color:var(--text);overflow-wrap:anywhere}
h1{font-size:1.45rem;line-height:1.25;margin:.2rem 0 .8rem}
h2{font-size:1.2rem;margin:2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
h3{font-size:1.05rem;margin:0;display:inline}
h4{font-size:.95rem;margin:1rem 0 .2rem}
p,ul,ol,dl,pre{margin:.4rem 0}
ul,ol{padding-left:1.6rem}
a{color:var(--link)}
header{border-left:.4rem solid var(--fine);padding-left:1rem}
header.error{border-color:var(--error)}
header.warning{border-color:var(--warning)}
.error>b,b.error{color:var(--error)}
.warning>b,b.warning{color:var(--warning)}
.fine>b,b.fine{color:var(--fine)}
.muted,caption,figcaption,footer{color:var(--muted);font-size:.875rem}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.3rem 1rem}
dt{color:var(--muted)}
dd{margin:0;grid-column:2}
dd p,dd pre{margin:0 0 .2rem}
code,pre{font:.875rem/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{background:var(--code);border-radius:.3rem;padding:.4rem .6rem;white-space:pre-wrap}
article{background:var(--panel);border:1px solid var(--line);border-radius:.4rem;margin:1rem 0;padding:.7rem 1rem}
summary{cursor:pointer;padding:.15rem 0}
summary .muted{margin-left:.5rem}
summary:focus-visible,a:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--link);outline-offset:2px}
figure{margin:1rem 0}
svg{display:block;width:100%;overflow:visible;font:12px system-ui,sans-serif;fill:var(--muted)}
svg.bars{max-width:40rem}
figcaption ul{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;margin:.5rem 0 0;padding:0}
figcaption svg{display:inline-block;width:1.6rem;height:.9rem;margin-right:.4rem;vertical-align:-.1rem}
.kept{fill:var(--kept);stroke:var(--panel)}
.lost,.time{fill:url(#lost);stroke:var(--lost);stroke-width:1.5}
.time{stroke-width:0}
.missing{fill:var(--panel);stroke:var(--lost);stroke-width:1.5;stroke-dasharray:4 3}
.file{fill:none;stroke:var(--text);stroke-width:3}
.end{fill:var(--text);stroke:var(--text);stroke-width:2}
.tile{fill:var(--ground)}
.stripe{stroke:var(--lost);stroke-width:2.5}
.defs{position:absolute;width:0;height:0}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.875rem;width:100%;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:.3rem 0;white-space:normal}
th,td{padding:.25rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line);
overflow-wrap:normal}
tbody th{font-weight:400;min-width:11rem;overflow-wrap:anywhere}
.n{white-space:nowrap}
.n th+th,.n td{text-align:right}
.n thead .t,.n tbody .t{text-align:left}
.n tbody .t{white-space:normal;min-width:7rem}
@media(max-width:30rem){body{padding:.6rem}article{padding:.6rem}dl{display:block}dd{margin:0 0 .6rem}
header{padding-left:.7rem}ol,ul{padding-left:1.3rem}}
@media print{body{max-width:none;padding:0;font-size:11pt}article{break-inside:avoid-page;background:none}
a{color:inherit;text-decoration:none}.wide{overflow:visible}thead{display:table-header-group}
tr,figure{break-inside:avoid}
*{print-color-adjust:exact}@page{margin:15mm}}
"""


def style() -> str:
    """Return the style sheet. Paper has the light colours."""
    light, dark = _variables(LIGHT), _variables(DARK)
    schemes = f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return schemes + _RULES.replace("\n", "")


def _variables(palette: Palette) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in palette.items())
