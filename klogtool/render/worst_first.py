"""Findings for people: the most dangerous first and in full, and if there are many, a tally by id and by partition.

Memory is bounded for any number of findings: those that are not shown in full are only counted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import nsmallest

from klogtool.escape import joined
from klogtool.render.explained import brief
from klogtool.render.findings import LABELS, FindingText
from klogtool.render.plans import table_text
from klogtool.render.terminal import columns
from klogtool.verify.findings import Finding, Kind, Severity
from klogtool.verify.weighing import NotCounted, Weighed

MOST_BLOCKS = 20
MOST_PARTITIONS = 10
_SEVERITIES = tuple(Severity)  # the most severe first

_Held = tuple[int, int, int, Finding]  # severity, rank, order of arrival, finding


class WorstFirst:
    """Collects findings, then shows the worst. roots: the paths of the command line."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._held: list[_Held] = []
        self._ids: Counter[tuple[int, str]] = Counter()
        self._places: Counter[tuple[str, int, str]] = Counter()

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        severity = _SEVERITIES.index(finding.severity)
        self._held.append((severity, finding.id.row.rank, self._ids.total(), finding))
        self._ids[severity, finding.id] += 1
        self._places[self._place(finding.path), severity, finding.id] += 1
        if len(self._held) >= 4 * MOST_BLOCKS:
            self._held = self._worst()

    def walk(self, text: FindingText) -> Iterator[str]:
        """Yield a block for each of the most dangerous findings, and if that is not all of them, the tally."""
        yield from (text.block(finding) for *_, finding in self._worst())
        if self._ids.total() > MOST_BLOCKS:
            yield joined(self._tally())

    def _worst(self) -> list[_Held]:
        return nsmallest(MOST_BLOCKS, self._held, key=lambda held: held[:3])

    def _place(self, path: str) -> str:
        """Return the partition, or the log dir's own file, that a finding is about."""
        for root in self._roots:
            inner = path.removeprefix(root.rstrip("/") + "/")
            if inner != path:
                first = inner.partition("/")[0]
                return first if len(self._roots) == 1 else os.path.join(root, first)
        return path

    def _tally(self) -> Iterator[str]:
        yield f"The {MOST_BLOCKS} above are the most dangerous of {self._ids.total():,} findings (-v shows all):"
        partitions = Counter((severity, name) for _, severity, name in self._places)
        rows = [
            (LABELS[_SEVERITIES[severity]], name, f"{count:,}", f"in {partitions[severity, name]:,}")
            for (severity, name), count in sorted(self._ids.items(), key=lambda item: (item[0][0], -item[1]))
        ]
        yield from (f"  {line}" for line in table_text(rows).splitlines())
        yield from self._by_place()

    def _by_place(self) -> Iterator[str]:
        places: dict[str, list[tuple[int, int, str]]] = {}
        for (place, severity, name), count in self._places.items():
            places.setdefault(place, []).append((severity, -count, name))
        if len(places) < 2:
            return
        worst = nsmallest(MOST_PARTITIONS, places.items(), key=lambda item: sorted(item[1]))
        yield "The worst places:"
        rows = [
            (place, ", ".join(f"{name} {-count:,}" for _, count, name in sorted(counts))) for place, counts in worst
        ]
        yield from (f"  {line}" for line in table_text(rows).splitlines())
        if len(places) > len(worst):
            yield f"  and {len(places) - len(worst):,} more"


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
            counts = [f"{self._findings[key]:,}"] if self._findings[key] else []
            counts += [f"{self._known[key]:,} known"] if self._known[key] else []
            lines.append((LABELS[key[0]], key[1], ", ".join(counts), brief(key[1])))
        for kind, count in sorted(_left_out(not_counted).items()):
            lines.append(("left out", kind, f"{count:,}", brief(kind)))
        return joined(_cut(line) for line in table_text(lines).splitlines()) + "\n" if lines else ""

    def _keys(self) -> list[tuple[Severity, Kind]]:
        return sorted(
            self._findings, key=lambda key: (_SEVERITIES.index(key[0]), -self._findings[key], -self._known[key], key[1])
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
