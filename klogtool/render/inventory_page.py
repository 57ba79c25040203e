"""An inventory as an HTML page with plots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from klogtool.render.html_page import CLOSE_TABLE, MOST_ROWS, html_page, minute_text, open_table, shown, table_row
from klogtool.render.inventory import InventoryRow, merged, remarks, topics_of
from klogtool.render.retain import size_text

WIDTH, LABEL, LINE = 640, 190, 24
MOST_BARS = 20
_COLUMNS = (
    *("partition", "magic", "codecs", "policy", "remarks"),
    *("segments", "bytes", "records", "offsets", "batch", "retention", "cleanable", "copies"),
)
_WORDS = 4  # of those columns, after the first


def inventory_page(rows: Sequence[InventoryRow], paths: Sequence[str], now_ms: int) -> str:
    """Return the page as HTML."""
    return html_page("klogtool inventory", _body(rows, paths, now_ms))


def _body(rows: Sequence[InventoryRow], paths: Sequence[str], now_ms: int) -> Iterator[str]:
    yield f'<header><h1>Kafka logs</h1><p class="muted">{minute_text(now_ms)}</p></header><main><ul>'
    yield from (f"<li><code>{shown(path)}</code></li>" for path in paths)
    yield "</ul><ul>"
    yield from (f"<li>{shown(line)}</li>" for line in remarks(rows))
    yield "</ul>"
    yield from _plots(rows)
    yield open_table("Partitions", _COLUMNS, words=_WORDS)
    for row in rows[:MOST_ROWS]:
        yield table_row(f'<span title="{shown(row.folder)}">{shown(str(row))}</span>', _cells(row), words=_WORDS)
    yield CLOSE_TABLE
    if len(rows) > MOST_ROWS:
        yield f"<p>{len(rows) - MOST_ROWS:,} more are in the JSON and Parquet output.</p>"
    yield "</main>"


def _plots(rows: Sequence[InventoryRow]) -> Iterator[str]:
    topics = topics_of(rows)
    yield bars("Bytes by topic", [(name, sum(row.bytes for row in some)) for name, some in topics], size_text)
    yield bars("Bytes by codec", list(merged(row.codecs for row in rows).items()), size_text)
    segments = [(f"magic {magic}", n) for magic, n in merged(row.magics for row in rows).items()]
    yield bars("Segments by record format", segments, "{:,}".format)
    sizes = [(f"< {size_text(upto)}", n) for upto, n in merged(row.batch_sizes for row in rows).items()]
    yield bars("Batches by size", sizes, "{:,}".format)
    due = [(name, sum(row.due_bytes for row in some)) for name, some in topics]
    yield bars("Retention would free now", [pair for pair in due if pair[1]], size_text)
    dirty = [(name, sum(row.dirty_bytes for row in some)) for name, some in topics]
    yield bars("The cleaner would clean now", [pair for pair in dirty if pair[1]], size_text)


def bars(title: str, values: Sequence[tuple[str, int]], to_text: Callable[[int], str]) -> str:
    """Draw bars with names and values; the last bar sums up the rest. Empty without values."""
    if not values:
        return ""
    drawn = list(values[:MOST_BARS])
    if len(values) > MOST_BARS:
        drawn.append((f"{len(values) - MOST_BARS:,} more", sum(n for _, n in values[MOST_BARS:])))
    most, room = max(max(n for _, n in drawn), 1), WIDTH - LABEL - 90
    height = len(drawn) * LINE + 4
    lines = [f'<figure><h2>{shown(title)}</h2><svg class="bars" viewBox="0 0 {WIDTH} {height}" role="img" ']
    lines.append(f'aria-label="{shown(title)}">')
    for k, (name, n) in enumerate(drawn):
        y, long = k * LINE, max(1, n * room // most)
        label = name if len(name) <= 28 else f"{name[:27]}…"
        lines.append(
            f"<g><title>{shown(name)}: {shown(to_text(n))}</title>"
            f'<text x="{LABEL - 8}" y="{y + 16}" text-anchor="end">{shown(label)}</text>'
            f'<rect class="kept" x="{LABEL}" y="{y + 3}" width="{long}" height="{LINE - 7}"/>'
            f'<text x="{LABEL + long + 6}" y="{y + 16}">{shown(to_text(n))}</text></g>'
        )
    return "".join([*lines, "</svg></figure>"])


def _cells(row: InventoryRow) -> tuple[str, ...]:
    damage = f"<b class=error>{shown(row.damage)}</b>" if row.damage else ""
    other_id = "another topic id elsewhere" if row.other_topic_id else ""
    headroom = row.headroom
    return (
        ", ".join(map(str, row.magics)),
        ", ".join(row.codecs),
        shown(headroom.cleanup_policy or ""),
        "; ".join(filter(None, [damage, shown(headroom.why_unknown or ""), other_id])),
        f"{row.segments:,}",
        size_text(row.bytes),
        f"{row.records:,}",
        f"{row.log_start_offset:,} to {row.log_end_offset:,}",
        "" if row.mean_batch_bytes is None else size_text(row.mean_batch_bytes),
        size_text(row.due_bytes) if row.due_bytes else "",
        size_text(headroom.cleanable_bytes) if headroom.cleanable_bytes else "",
        str(row.copies),
    )
