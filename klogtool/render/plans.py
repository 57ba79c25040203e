"""A plan as text, and the tables that all plans share."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from klogtool.disk.states import StepsDone
from klogtool.escape import as_paragraph, escaped, joined
from klogtool.plans.plan import Delete, Discard, Plan, Rename, RenameFolder, SegmentVerdict, Step, Truncate, Write
from klogtool.render.terminal import columns
from klogtool.render.words import count_text, words

MOST_SEGMENTS = 12  # of a table
LEAST_WIDTH = 28  # of the last cell of a table
NOTHING_CHANGED = "Nothing was changed. --apply does it, with undo. --output DIR writes the result elsewhere."
NOTHING_CHANGED_NO_UNDO = "Nothing was changed. --apply does it, and it cannot be taken back. Without --no-undo it can."
NOTHING_SAVED = "Nothing was changed. --plan-out FILE saves the plan; klogtool apply FILE carries it out, with undo."


@as_paragraph
def plan_text(plan: Plan) -> Iterator[str]:
    """Show a plan: the notes, the verdict of each segment, the steps, and the bytes that it frees and holds."""
    yield f"Plan {plan.id}   {plan.command}   {plan.path}"
    yield from (f"  {words(note)}" for note in plan.notes)
    yield from _aligned((f"{s.segment:020d}", s.action, words(s.why)) for s in plan.segments)
    yield from _aligned(_all_step_cells(plan))
    freed = plan.bytes_freed
    change = f"{count_text(freed, 'byte')} less" if freed >= 0 else f"{count_text(-freed, 'byte')} more"
    steps = f"{count_text(len(plan.steps), 'step')}; {change} afterwards; {room_text(plan)}."
    yield f"  {steps}" if plan.steps else "  Nothing to do."


def far_text(steps: StepsDone) -> str:
    """Return how far a run came."""
    far = f"{steps.done:,} of {steps.whole:,}"
    return f"step {far} is done: {steps.last}" if steps.last else f"{far} steps are done"


def steps_text(plan: Plan) -> str:
    """Show the files that change, a line each."""
    return joined(_aligned(_all_step_cells(plan)))


def _all_step_cells(plan: Plan) -> Iterator[tuple[str, str, str]]:
    sizes = {fact.path: fact.size for fact in plan.facts}
    return (_step_cells(step, sizes) for step in plan.steps)


def _step_cells(step: Step, sizes: Mapping[str, int]) -> tuple[str, str, str]:
    """Return action, path and detail of a step. sizes: of the files when the plan was made, by path."""
    match step:
        case Write():
            return "replace" if step.path in sizes else "write", step.path, count_text(step.size, "byte")
        case Truncate():
            before = f": cuts {sizes[step.path] - step.size:,}" if step.path in sizes else ""
            return "truncate", step.path, f"to {count_text(step.size, 'byte')}{before}"
        case Rename():
            return "rename", step.path, f"to {os.path.basename(step.to)}"
        case Delete():
            return "delete", step.path, ""
        case Discard():
            return "delete", step.path, "for good"
        case RenameFolder():
            is_out = step.to != os.path.basename(step.to)
            return "move folder" if is_out else "rename folder", step.path, f"to {step.to}"


def room_text(plan: Plan) -> str:
    """Show how many bytes a plan frees now, and how many it holds for undo."""
    freed = f"{plan.bytes_freed_now:,} bytes are freed now"
    if plan.question.no_undo:
        return f"{freed}, nothing is held for undo (--apply)"
    return f"{freed}, {plan.bytes_held:,} bytes are held for undo (--apply)"


def change_count(plan: Plan) -> str:
    """Show how many files a plan changes, and the room that it needs."""
    return f"  {count_text(len(plan.steps), 'change')} of files; {room_text(plan)}"


def ends_of(verdicts: Sequence[SegmentVerdict]) -> tuple[Sequence[SegmentVerdict], list[str]]:
    """Return the first and the last segments, and a line that says how many are in between."""
    hidden = len(verdicts) - MOST_SEGMENTS
    if hidden <= 0:
        return verdicts, []
    shown = [*verdicts[: MOST_SEGMENTS // 2], *verdicts[-MOST_SEGMENTS // 2 :]]
    return shown, [f"  and {count_text(hidden, 'segment')} in between (--format json shows all)"]


def table_text(rows: Iterable[tuple[str, ...]]) -> str:
    """Show rows in aligned columns."""
    return joined(line[2:] for line in _aligned(rows))


def wrapped_table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows in aligned columns, as wide as the terminal; the last column wraps."""
    cells = [tuple(map(escaped, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    indent = 2 + sum(widths) + 2 * len(widths)
    for row in cells:
        front = "  " + "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        first, *rest = textwrap.wrap(row[-1], max(LEAST_WIDTH, columns() - indent), break_on_hyphens=False) or [""]
        yield (front + first).rstrip()
        yield from (" " * indent + line for line in rest)


def _aligned(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows in aligned columns, with two blanks before each column."""
    cells = [tuple(map(escaped, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "".join(f"  {cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


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
