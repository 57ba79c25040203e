"""An inventory of disks for people: a line for each topic, then remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from klogtool.render.counts import count_text
from klogtool.render.retain import size_text
from klogtool.render.spark_text import table

Row = Mapping[str, Any]
MOST_NAMES = 5


def inventory_text(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each topic, the largest first, then the remarks."""
    head = ("topic", "partitions", "segments", "bytes", "records", "magic", "codecs", "batch", "txn")
    yield from table(map(_topic_line, topics_of(rows)), head)
    yield ""
    yield from remarks(rows)


def topics_of(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Return the rows by topic, the largest topic first."""
    results: dict[str, list[Row]] = {}
    for row in rows:
        results.setdefault(row["topic"] or row["folder"], []).append(row)
    return sorted(results.items(), key=lambda pair: (-sum(row["bytes"] for row in pair[1]), pair[0]))


def _topic_line(pair: tuple[str, list[Row]]) -> tuple[str, ...]:
    name, rows = pair
    batches = total(rows, "batches")
    weighed = sum((row["mean_batch_bytes"] or 0) * row["batches"] for row in rows)
    return (
        name,
        f"{len(rows):,}",
        f"{total(rows, 'segments'):,}",
        size_text(total(rows, "bytes")),
        f"{total(rows, 'records'):,}",
        ",".join(map(str, merged(rows, "magics"))) or "-",
        ",".join(merged(rows, "codecs")) or "-",
        size_text(weighed // batches) if batches else "-",
        "yes" if total(rows, "transactional_batches") else "-",
    )


def total(rows: Iterable[Row], name: str) -> int:
    """Return the sum of a column; unknown values count as 0."""
    return sum(row[name] or 0 for row in rows)


def merged(rows: Iterable[Row], name: str) -> dict[Any, int]:
    """Return the sum of a column of counts by key. Numeric keys are in ascending order, names by descending count."""
    results: Counter[Any] = Counter()
    for row in rows:
        results.update({int(k) if str(k).isdigit() else k: n for k, n in row[name].items()})
    if all(isinstance(key, int) for key in results):
        return dict(sorted(results.items()))
    return dict(results.most_common())


def totals_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the sums of all rows."""
    names = ("segments", "bytes", "index_bytes", "batches", "records", "retention_due_bytes", "cleanable_bytes")
    topics = {row["topic"] for row in rows if row["topic"]}
    return {
        "partitions": len(rows),
        "topics": len(topics),
        **{name: total(rows, name) for name in names},
        "magics": merged(rows, "magics"),
        "codecs": merged(rows, "codecs"),
        "batch_sizes": merged(rows, "batch_sizes"),
    }


def remarks(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for the totals and for each group of partitions that deserves attention."""
    sums = totals_of(rows)
    yield (
        f"{count_text(sums['partitions'], 'partition dir')} of {count_text(sums['topics'], 'topic')}: "
        f"{size_text(sums['bytes'])} of logs, {size_text(sums['index_bytes'])} of indexes, "
        f"{count_text(sums['records'], 'record')}."
    )
    due = [row for row in rows if row["retention_due_bytes"]]
    if due:
        yield f"Retention would free {size_text(total(due, 'retention_due_bytes'))} now: {names_of(due)}"
    dirty = [row for row in rows if row["is_cleaning_due"]]
    if dirty:
        yield f"The cleaner would clean {size_text(total(dirty, 'cleanable_bytes'))} now: {names_of(dirty)}"
    for what, result in _groups(rows):
        if result:
            yield f"{what}: {names_of(result)}"


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    yield "With transactions", [row for row in rows if row["transactional_batches"]]
    yield "In an old record format", [row for row in rows if any(int(magic) < 2 for magic in row["magics"])]
    yield "More than one copy", [row for row in rows if row["copies"] > 1]
    yield "With another topic id elsewhere", [row for row in rows if row["other_topic_id"]]
    yield "Damaged, counted up to the damage", [row for row in rows if row["damage"]]
    unknown = [row for row in rows if row["why_unknown"]]
    yield "Space to gain not known", unknown


def names_of(rows: Sequence[Row]) -> str:
    """Return the names of the first few partitions, and how many more there are."""
    names = list(
        dict.fromkeys(f"{row['topic']}-{row['partition']}" if row["topic"] else str(row["folder"]) for row in rows)
    )
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
