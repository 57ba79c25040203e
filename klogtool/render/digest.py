"""What is to be said of many partitions: the worst first and in full, those where nothing happens in one line.

A log dir has thousands of partitions, and of those one may lose data. Nobody finds its line among the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from klogtool.plans.plan import Plan
from klogtool.render.counts import count_text

MOST_NAMED = 8  # partitions where nothing happens: so few have a line each


class Rank:
    """What is shown first. (No enum: they are imported for a small recovery, too.)"""

    LOSES, CHANGES = 0, 1
    ABOUT_ALL = 2  # the plan for the log dir's own files: behind the partitions that it stands for


class Totals:
    """What all plans come to, in the last lines; of most commands nothing."""

    def add(self, plan: Plan, *, is_loud: bool) -> None:
        """One more plan. is_loud: records are lost by it."""

    def walk(self) -> Iterable[str]:
        """The lines; none where there was one plan."""
        return ()


class Digest:
    """Paragraphs, as they come, and in the order to show them in. is_whole: nothing is summed up (`--verbose`)."""

    def __init__(self, *, is_whole: bool = False) -> None:
        self._is_whole = is_whole
        self._paragraphs: list[tuple[int, int, str]] = []
        self._others: list[str] = []
        self._counts: Counter[str] = Counter()

    def add(self, text: str, rank: int, brief: str | None) -> None:
        """One more. brief: what is said of it together with others like it; None if it is shown by itself."""
        if brief is None:
            self._paragraphs.append((rank, len(self._paragraphs), text))
            return
        self._counts[brief] += 1
        if self._is_whole or len(self._others) <= MOST_NAMED:
            self._others.append(text)

    def walk(self) -> Iterator[str]:
        """The paragraphs, the worst first."""
        shown = sorted(self._paragraphs)
        yield from (text for rank, _, text in shown if rank != Rank.ABOUT_ALL)
        if self._is_whole or self._counts.total() <= MOST_NAMED:
            yield from self._others
        else:
            noun = "other" if shown else "partition"
            yield from (f"{count_text(count, noun)}: {brief}" for brief, count in self._counts.most_common())
        yield from (text for rank, _, text in shown if rank == Rank.ABOUT_ALL)
