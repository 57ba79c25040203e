"""Findings counted by id, for `verify --statistics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from klogtool.escape import joined
from klogtool.render.explained import brief
from klogtool.render.findings import LABELS
from klogtool.render.plans import table_text
from klogtool.render.terminal import columns
from klogtool.verify.findings import Kind, Severity
from klogtool.verify.weighing import NotCounted, Weighed

_ORDER = tuple(Severity)
MORE = "..."


class Statistics:
    """How many findings there are of each id and severity, and how many of them are known."""

    def __init__(self) -> None:
        self._findings: Counter[tuple[Severity, Kind]] = Counter()
        self._known: Counter[tuple[Severity, Kind]] = Counter()

    def add(self, weighed: Weighed) -> None:
        """Count a finding."""
        key = weighed.finding.severity, weighed.finding.id
        self._findings[key] += not weighed.is_known
        self._known[key] += weighed.is_known

    def rows(self, not_counted: NotCounted) -> Iterator[dict[str, object]]:
        """Yield a row for each id and severity, the worst and the most frequent first; then one for each id that was
        left out."""
        for severity, kind in self._keys():
            key = severity, kind
            row = {"type": "statistic", "id": kind, "severity": severity.value}
            yield {**row, "findings": self._findings[key], "known": self._known[key]}
        for kind, count in sorted(_left_out(not_counted).items()):
            severity = kind.row.severity
            yield {"type": "statistic", "id": kind, "severity": severity.value, "left_out": count}

    def text(self, not_counted: NotCounted) -> str:
        """Return a table; an empty text if there is nothing to count."""
        lines: list[tuple[str, str, str, str]] = []
        for key in self._keys():
            told = [f"{self._findings[key]:,}"] if self._findings[key] else []
            told += [f"{self._known[key]:,} known"] if self._known[key] else []
            lines.append((LABELS[key[0]], key[1], ", ".join(told), brief(key[1])))
        for kind, count in sorted(_left_out(not_counted).items()):
            lines.append(("left out", kind, f"{count:,}", brief(kind)))
        return joined(_cut(line) for line in table_text(lines).splitlines()) + "\n" if lines else ""

    def _keys(self) -> list[tuple[Severity, Kind]]:
        return sorted(
            self._findings, key=lambda key: (_ORDER.index(key[0]), -self._findings[key], -self._known[key], key[1])
        )


def _cut(line: str) -> str:
    """Return a line that fits the terminal, as far as its counts do."""
    width = columns()
    return line if len(line) <= width else line[: width - len(MORE)] + MORE


def _left_out(not_counted: NotCounted) -> Counter[Kind]:
    counts: Counter[Kind] = Counter()
    for (_, kind), count in not_counted.ignored.items():
        counts[kind] += count
    return counts
