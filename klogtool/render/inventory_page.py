"""An inventory as an HTML page with plots: one file that fetches nothing and contains no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from klogtool.escape import escaped
from klogtool.render.inventory import merged, remarks, topics_of, total
from klogtool.render.retain import size_text

Row = Mapping[str, Any]
WIDTH, LABEL, LINE = 640, 190, 24
MOST_BARS = 20
MOST_ROWS = 2000
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; background: #fff; margin: 2rem auto; max-width: 68rem;
  padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem }
.plots { display: flex; flex-wrap: wrap; gap: 0 2rem } figure { margin: 0 } svg { max-width: 100%; height: auto }
table { border-collapse: collapse; font-size: 13px; width: 100% } th { text-align: left; border-bottom: 2px solid #888 }
td, th { padding: .2rem .5rem; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
tr:nth-child(even) td { background: #f4f6f8 } .bad { color: #a40000 } .wide { overflow-x: auto }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #16181b }
  svg { background: #fff; border-radius: 4px }
  tr:nth-child(even) td { background: #202429 } .bad { color: #ff8080 } }
"""


def inventory_page(rows: Sequence[Row], paths: Sequence[str], now_ms: int) -> str:
    """Return the page as HTML."""
    when = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC") if 0 <= now_ms < 1 << 43 else ""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>klogtool inventory</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        f"<h1>Kafka logs</h1><p>{when}</p><ul>",
        *(f"<li><code>{_shown(path)}</code></li>" for path in paths),
        "</ul><ul>",
        *(f"<li>{_shown(line)}</li>" for line in remarks(rows)),
        '</ul><div class="plots">',
        *_plots(rows),
        "</div>",
        *_table(rows),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _shown(text: str) -> str:
    """Escape control and bidi characters and bytes that are not UTF-8, as in all other output, and HTML."""
    return escape(escaped(text))


# Plots.


def _plots(rows: Sequence[Row]) -> Iterator[str]:
    topics = topics_of(rows)
    yield bars("Bytes by topic", [(name, total(some, "bytes")) for name, some in topics], size_text)
    yield bars("Bytes by codec", list(merged(rows, "codecs").items()), size_text, colour="#7a5195")
    segments = [(f"magic {magic}", n) for magic, n in merged(rows, "magics").items()]
    yield bars("Segments by record format", segments, "{:,}".format, colour="#ef5675")
    yield columns("Batches by size", [(f"< {size_text(upto)}", n) for upto, n in merged(rows, "batch_sizes").items()])
    due = [(name, total(some, "retention_due_bytes")) for name, some in topics]
    yield bars("Retention would free now", [pair for pair in due if pair[1]], size_text, colour="#d45087")
    dirty = [(name, total((row for row in some if row["is_cleaning_due"]), "cleanable_bytes")) for name, some in topics]
    yield bars("The cleaner would clean now", [pair for pair in dirty if pair[1]], size_text, colour="#ff7c43")


def bars(title: str, values: Sequence[tuple[str, int]], told: Any, *, colour: str = "#2f6fb0") -> str:
    """Draw horizontal bars with names and values; the last bar sums up the rest. Empty without values."""
    if not values:
        return ""
    shown = list(values[:MOST_BARS])
    if len(values) > MOST_BARS:
        shown.append((f"{len(values) - MOST_BARS:,} more", sum(n for _, n in values[MOST_BARS:])))
    most, room = max(max(n for _, n in shown), 1), WIDTH - LABEL - 90
    lines = []
    for k, (name, n) in enumerate(shown):
        y, long = k * LINE, max(1, n * room // most)
        label = name if len(name) <= 28 else f"{name[:27]}…"
        lines.append(
            f"<g><title>{_shown(name)}: {_shown(told(n))}</title>"
            f'<text x="{LABEL - 8}" y="{y + 16}" text-anchor="end">{_shown(label)}</text>'
            f'<rect x="{LABEL}" y="{y + 3}" width="{long}" height="{LINE - 7}" fill="{colour}"/>'
            f'<text x="{LABEL + long + 6}" y="{y + 16}">{_shown(told(n))}</text></g>'
        )
    return _figure(title, len(shown) * LINE + 4, lines)


def columns(title: str, values: Sequence[tuple[str, int]]) -> str:
    """Draw vertical bars in the given order. Empty without values."""
    if not values:
        return ""
    most, tall = max(n for _, n in values), 170
    wide = min(70, (WIDTH - 20) // len(values))
    lines = []
    for k, (name, n) in enumerate(values):
        x, high = 10 + k * wide, max(1, n * tall // most)
        middle = x + wide // 2
        lines.append(
            f"<g><title>{_shown(name)}: {n:,}</title>"
            f'<rect x="{x + 3}" y="{tall + 20 - high}" width="{wide - 6}" height="{high}" fill="#4d9078"/>'
            f'<text x="{middle}" y="{tall + 15 - high}" text-anchor="middle" font-size="11">{n:,}</text>'
            f'<text x="{middle}" y="{tall + 36}" text-anchor="end" font-size="11" '
            f'transform="rotate(-40 {middle} {tall + 36})">{_shown(name)}</text></g>'
        )
    return _figure(title, tall + 90, lines)


def _figure(title: str, height: int, lines: Sequence[str]) -> str:
    return (
        f"<figure><h2>{_shown(title)}</h2>"
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{_shown(title)}" font-family="sans-serif" font-size="12" fill="#222">'
        f"{''.join(lines)}</svg></figure>"
    )


# The table.

_COLUMNS = (
    ("partition", False),
    ("segments", True),
    ("bytes", True),
    ("records", True),
    ("offsets", True),
    ("magic", False),
    ("codecs", False),
    ("batch", True),
    ("policy", False),
    ("retention", True),
    ("cleanable", True),
    ("copies", True),
    ("remarks", False),
)


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield '<h2>Partitions</h2><div class="wide"><table><tr>'
    yield "".join(f"<th{_number(is_number)}>{name}</th>" for name, is_number in _COLUMNS)
    yield "</tr>"
    for row in rows[:MOST_ROWS]:
        cells = zip(_cells(row), _COLUMNS, strict=True)
        line = "".join(f"<td{_number(is_number)}>{cell}</td>" for cell, (_, is_number) in cells)
        yield f'<tr title="{_shown(row["folder"])}">{line}</tr>'
    yield "</table></div>"
    if len(rows) > MOST_ROWS:
        yield f"<p>{len(rows) - MOST_ROWS:,} more are in the JSON and Parquet output.</p>"


def _number(is_number: bool) -> str:
    return ' class="n"' if is_number else ""


def _cells(row: Row) -> tuple[str, ...]:
    name = f"{row['topic']}-{row['partition']}" if row["topic"] else row["folder"]
    damage = f'<span class="bad">{_shown(row["damage"])}</span>' if row["damage"] else ""
    remark = "; ".join(filter(None, [damage, _shown(row["why_unknown"] or ""), _other_id(row)]))
    return (
        _shown(name),
        f"{row['segments']:,}",
        size_text(row["bytes"]),
        f"{row['records']:,}",
        f"{row['log_start_offset']:,} to {row['log_end_offset']:,}",
        ", ".join(map(str, row["magics"])),
        ", ".join(row["codecs"]),
        "" if row["mean_batch_bytes"] is None else size_text(row["mean_batch_bytes"]),
        _shown(row["cleanup_policy"] or ""),
        size_text(row["retention_due_bytes"]) if row["retention_due_bytes"] else "",
        size_text(row["cleanable_bytes"]) if row["cleanable_bytes"] else "",
        str(row["copies"]),
        remark,
    )


def _other_id(row: Row) -> str:
    return "another topic id elsewhere" if row["other_topic_id"] else ""
