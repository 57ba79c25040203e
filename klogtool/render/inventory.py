"""An inventory of disks for people: a line for each topic, then remarks; and an HTML page with plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from klogtool.plans.reclaimable_bytes import Headroom
from klogtool.render.html_page import CLOSE_TABLE, MOST_ROWS, html_page, minute_text, open_table, shown, table_row
from klogtool.render.retain import size_text
from klogtool.render.words import count_text, number_table

MOST_NAMES = 5
Key = TypeVar("Key", int, str)


class InventoryRow(Struct, frozen=True):
    """A copy of a partition, from the headers of its batches.

    magics: segments by magic; codecs: bytes by codec; batch_sizes: batches by the power of two above their size.
    copies: how many copies of the partition are under the paths. damage: the first one, where the count ends.
    """

    topic: str | None
    partition: int | None
    folder: str
    topic_id: str | None
    copies: int
    other_topic_id: bool
    segments: int
    bytes: int
    index_bytes: int
    log_start_offset: int
    log_end_offset: int
    leader_epoch: int | None
    batches: int
    records: int
    magics: dict[int, int]
    codecs: dict[str, int]
    mean_batch_bytes: int | None
    largest_batch_bytes: int
    batch_sizes: dict[int, int]
    transactional_batches: int
    control_batches: int
    max_timestamp: int | None
    modified_ms: int
    damage: str | None
    headroom: Headroom

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}" if self.topic else self.folder

    def columns(self) -> dict[str, object]:
        """Return all columns by name, those of the headroom last."""
        columns = asdict(self) | asdict(self.headroom)
        del columns["headroom"]
        return columns

    @property
    def due_bytes(self) -> int:
        """What retention would free now; 0 if that is not known."""
        return self.headroom.retention_due_bytes or 0

    @property
    def dirty_bytes(self) -> int:
        """What the cleaner would clean now; 0 if cleaning is not due, or not known."""
        return self.headroom.cleanable_bytes or 0 if self.headroom.is_cleaning_due else 0


def inventory_text(rows: Sequence[InventoryRow]) -> Iterator[str]:
    """Yield a line for each topic, the largest first, then the remarks."""
    head = ("topic", "partitions", "segments", "bytes", "records", "magic", "codecs", "batch", "txn")
    yield from number_table([head, *(_topic_line(name, some) for name, some in topics_of(rows))], range(1, len(head)))
    yield ""
    yield from remarks(rows)


def topics_of(rows: Iterable[InventoryRow]) -> list[tuple[str, list[InventoryRow]]]:
    """Return the rows by topic, the largest topic first."""
    results: dict[str, list[InventoryRow]] = {}
    for row in rows:
        results.setdefault(row.topic or row.folder, []).append(row)
    return sorted(results.items(), key=lambda pair: (-sum(row.bytes for row in pair[1]), pair[0]))


def _topic_line(name: str, rows: Sequence[InventoryRow]) -> tuple[str, ...]:
    batches = sum(row.batches for row in rows)
    weighed = sum((row.mean_batch_bytes or 0) * row.batches for row in rows)
    return (
        name,
        f"{len(rows):,}",
        f"{sum(row.segments for row in rows):,}",
        size_text(sum(row.bytes for row in rows)),
        f"{sum(row.records for row in rows):,}",
        ",".join(map(str, merged(row.magics for row in rows))) or "-",
        ",".join(merged(row.codecs for row in rows)) or "-",
        size_text(weighed // batches) if batches else "-",
        "yes" if any(row.transactional_batches for row in rows) else "-",
    )


def merged(counts: Iterable[Mapping[Key, int]]) -> dict[Key, int]:
    """Return the sums of counts by key. Numeric keys are in ascending order, names by descending count."""
    results: Counter[Key] = Counter()
    for each in counts:
        results.update(each)
    if all(isinstance(key, int) for key in results):
        return dict(sorted(results.items()))
    return dict(results.most_common())


def totals_of(rows: Sequence[InventoryRow]) -> dict[str, object]:
    """Return the sums of all rows."""
    names = ("segments", "bytes", "index_bytes", "batches", "records")
    return {
        "partitions": len(rows),
        "topics": len({row.topic for row in rows if row.topic}),
        **{name: sum(getattr(row, name) for row in rows) for name in names},
        "retention_due_bytes": sum(row.due_bytes for row in rows),
        "cleanable_bytes": sum(row.headroom.cleanable_bytes or 0 for row in rows),
        "magics": merged(row.magics for row in rows),
        "codecs": merged(row.codecs for row in rows),
        "batch_sizes": merged(row.batch_sizes for row in rows),
    }


def remarks(rows: Sequence[InventoryRow]) -> Iterator[str]:
    """Yield a line for the totals and for each group of partitions that deserves attention."""
    topics = {row.topic for row in rows if row.topic}
    yield (
        f"{count_text(len(rows), 'partition dir')} of {count_text(len(topics), 'topic')}: "
        f"{size_text(sum(row.bytes for row in rows))} of logs, "
        f"{size_text(sum(row.index_bytes for row in rows))} of indexes, "
        f"{count_text(sum(row.records for row in rows), 'record')}."
    )
    yield from (f"{what}: {names_of(some)}" for what, some in _groups(rows) if some)


def _groups(rows: Sequence[InventoryRow]) -> Iterator[tuple[str, list[InventoryRow]]]:
    due = sum(row.due_bytes for row in rows)
    yield f"Retention would free {size_text(due)} now", [row for row in rows if row.due_bytes]
    dirty = sum(row.dirty_bytes for row in rows)
    yield f"The cleaner would clean {size_text(dirty)} now", [row for row in rows if row.headroom.is_cleaning_due]
    yield "With transactions", [row for row in rows if row.transactional_batches]
    yield "In an old record format", [row for row in rows if min(row.magics, default=2) < 2]
    yield "More than one copy", [row for row in rows if row.copies > 1]
    yield "With another topic id elsewhere", [row for row in rows if row.other_topic_id]
    yield "Damaged, counted up to the damage", [row for row in rows if row.damage]
    yield "Space to gain not known", [row for row in rows if row.headroom.why_unknown]


def names_of(rows: Sequence[InventoryRow]) -> str:
    """Return the names of the first few partitions, and how many more there are."""
    names = list(dict.fromkeys(map(str, rows)))
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")


WIDTH, LABEL, LINE = 640, 190, 24
# The page.

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
