"""Plans of many partitions: the worst first and in full, those where nothing happens summed up in one line.

A log dir has thousands of partitions, and one of them may lose data. Nobody would find its line among the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from klogtool.plans.plan import Plan
from klogtool.render.counts import count_text

MOST_NAMED = 8  # up to so many partitions where nothing happens have a line each


class Rank:
    """The order of paragraphs: the lowest rank is shown first."""

    LOSES, CHANGES = 0, 1
    ABOUT_ALL = 2  # the plan for the log dir's own files, which covers all partitions: last


class Totals:
    """The totals of all plans, for the last lines. Most commands have none."""

    def add(self, plan: Plan, *, is_loud: bool) -> None:
        """Add a plan. is_loud: the plan loses records."""

    def walk(self) -> Iterable[str]:
        """Return the lines; none if there was only one plan."""
        return ()


class Digest:
    """Collects paragraphs and puts them in order. is_whole: nothing is summed up (`--verbose`)."""

    def __init__(self, *, is_whole: bool = False) -> None:
        self._is_whole = is_whole
        self._paragraphs: list[tuple[int, int, str]] = []
        self._others: list[str] = []
        self._counts: Counter[str] = Counter()

    def add(self, text: str, rank: int, brief: str | None) -> None:
        """Add a paragraph. brief: the text by which it is counted together with others; None to show it in full."""
        if brief is None:
            self._paragraphs.append((rank, len(self._paragraphs), text))
            return
        self._counts[brief] += 1
        if self._is_whole or len(self._others) <= MOST_NAMED:
            self._others.append(text)

    def walk(self) -> Iterator[str]:
        """Yield the paragraphs, the worst first."""
        shown = sorted(self._paragraphs)
        yield from (text for rank, _, text in shown if rank != Rank.ABOUT_ALL)
        if self._is_whole or self._counts.total() <= MOST_NAMED:
            yield from self._others
        else:
            noun = "other" if shown else "partition"
            yield from (f"{count_text(count, noun)}: {brief}" for brief, count in self._counts.most_common())
        yield from (text for rank, _, text in shown if rank == Rank.ABOUT_ALL)
