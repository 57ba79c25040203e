"""The plan of free, for people: how much, from which kinds, what a broker would do about each, and what it costs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from klogtool.escape import as_paragraph, quoted
from klogtool.plans.free import FreedItem, FreeResult, KindTotals
from klogtool.plans.free_candidates import LeftOut
from klogtool.plans.free_kinds import KINDS, FreeKind
from klogtool.plans.free_segments import Compactable
from klogtool.plans.free_untouched import Untouched, UntouchedReason
from klogtool.plans.plan import Plan
from klogtool.render.plans import wrapped_table
from klogtool.render.retain import size_text
from klogtool.render.words import count_text, words

HOW_TO_APPLY = (
    "Nothing was changed. --apply --to DIR does it, and keeps undo in DIR on another\n"
    "disk. --apply --no-undo does it for good."
)
HOW_TO_APPLY_FOR_GOOD = "Nothing was changed. --apply does it, and it cannot be taken back."
_MOST_ITEMS = 8
_MOST_LEFT_OUT = 5
_MOST_SETTINGS = 4
_MOST_UNTOUCHED = 50
# What free leaves alone, in this order, and what a person can do about it.
_UNTOUCHED = {
    UntouchedReason.FOREIGN: (
        "no files of Kafka, and no broker reads them: look what they are, move or delete them by hand"
    ),
    UntouchedReason.LINKED: "the same file has another name elsewhere: it frees its space when that one goes, too",
    UntouchedReason.UNREADABLE: "these folders cannot be listed: look into them by hand",
    UntouchedReason.RUN: "a run of klogtool that was cut short needs them: klogtool undo --list says how to finish it",
    UntouchedReason.INTERRUPTED: "of an interrupted cleaning: the next start decides by them, or klogtool recover",
    UntouchedReason.ONLY_COPY: (
        "the next start deletes them, and perhaps no segment has their records: klogtool doctor names them back"
    ),
    UntouchedReason.LEFT_OVER: (
        "half-written, or about to be deleted: no broker reads them, so they can go while it is stopped"
    ),
    UntouchedReason.REMOTE_CACHE: (
        "copies of indexes of remote segments: a broker fetches them again, so they can go while it is stopped"
    ),
    UntouchedReason.NOT_ASKED: "free could give them up, but --only or --except leave them out",
    UntouchedReason.IN_USE: (
        "a broker goes on with these files: a shorter retention.ms or retention.bytes gives up the oldest segments"
    ),
}
_HEADS = ("kind", "found", "bytes", "taken", "loses")


@as_paragraph
def free_text(plan: Plan) -> Iterator[str]:
    """Show the plan of one log dir."""
    result = plan.result
    if not isinstance(result, FreeResult):
        return
    yield _headline(plan.path, result)
    rows = [_row(row) for row in result.kinds if row.found]
    if rows:
        yield from wrapped_table([_HEADS, *rows])
    for kind in KINDS:
        items = [item for item in result.items if item.kind == kind.name]
        if items:
            yield from _about(kind, items, plan.path)
    yield from _compaction(result.compaction, plan.question.circumstances.config)
    yield from _left_out(result.left_out)
    yield from _untouched(result.untouched, plan.path)


def _headline(name: str, result: FreeResult) -> str:
    wanted, freed, on_disk = result.asked_bytes, result.freed_bytes, result.disk_freed_bytes
    if wanted is None:
        return f"{name}: {size_text(freed)} can be freed"
    if not result.reached:
        whole = "" if freed == on_disk else f"; all log dirs on this disk: {size_text(on_disk)}"
        return f"{name}: NOT ENOUGH: {size_text(freed)} can be freed{whole}; {size_text(wanted)} were asked for"
    whole = "" if freed == on_disk else f"; with the other log dirs on this disk {size_text(on_disk)}"
    return f"{name}: frees {size_text(freed)}{whole}; {size_text(wanted)} were asked for"


def _row(row: KindTotals) -> tuple[str, ...]:
    taken = f"{row.taken:,}, {size_text(row.taken_bytes)}" if row.taken else "-"
    return row.kind, f"{row.found:,}", size_text(row.found_bytes), taken, "SOMETHING" if row.loses else "no"


def _about(kind: FreeKind, items: Sequence[FreedItem], log_dir: str) -> Iterator[str]:
    total = sum(item.bytes for item in items)
    yield f"{words(kind.what)}: {size_text(total)} in {count_text(len(items), 'item')}"
    undo = "" if kind.undo else "; for good, also with --to"
    facts = [("why safe", words(kind.why)), ("a broker", words(kind.broker)), ("costs", words(kind.costs) + undo)]
    settings = dict.fromkeys("; ".join(map(words, item.settings)) for item in items if item.settings)
    facts += [("settings", text.removeprefix("settings: ")) for text in list(settings)[:_MOST_SETTINGS]]
    yield from wrapped_table(facts)
    shown = sorted(items, key=lambda item: -item.bytes)[:_MOST_ITEMS]
    yield from wrapped_table([(size_text(item.bytes), _item(item, kind, log_dir)) for item in shown])
    yield from _more(len(items) - len(shown))


def _item(item: FreedItem, kind: FreeKind, log_dir: str) -> str:
    reason = "" if item.why == kind.why else f": {words(item.why)}"
    return f"{os.path.relpath(item.path, log_dir)}{reason}"


def _compaction(rows: Sequence[Compactable], config: Mapping[str, str]) -> Iterator[str]:
    """Say what free does not do, and with which command. config: the settings that were given."""
    if not rows:
        return
    total = sum(row.freed_bytes for row in rows)
    yield f"not done, but possible: klogtool compact would free {size_text(total)} more"
    shown = sorted(rows, key=lambda row: -row.freed_bytes)[:_MOST_ITEMS]
    settings = "".join(f" --config {quoted(f'{name}={value}')}" for name, value in config.items())
    for row in shown:
        freed, needed = size_text(row.freed_bytes), size_text(row.needed_bytes)
        yield f"  frees {freed}, needs {needed} first:"
        yield f"    klogtool compact {quoted(row.path)}{settings} --purge --no-undo --apply"
    yield from _more(len(rows) - len(shown))


def _left_out(rows: Sequence[LeftOut]) -> Iterator[str]:
    if not rows:
        return
    yield f"left alone, because klogtool cannot tell what may go: {count_text(len(rows), 'partition')}"
    for row in rows[:_MOST_LEFT_OUT]:
        yield from wrapped_table([(os.path.basename(row.path), words(row.why))])
        if row.cure is not None:
            yield f"    {words(row.cure)}"
    yield from _more(len(rows) - _MOST_LEFT_OUT)


def _untouched(rows: Sequence[Untouched], log_dir: str) -> Iterator[str]:
    """Say which large files stay, and why: what fills a disk may be none of the kinds."""
    for why, what in _UNTOUCHED.items():
        results = [row for row in rows if row.why is why]
        if not results:
            continue
        files, total = sum(row.files for row in results), sum(row.on_disk for row in results)
        yield f"not touched: {size_text(total)} in {count_text(files, 'file')}"
        yield from wrapped_table([("why", what)])
        most = _MOST_ITEMS if why is UntouchedReason.IN_USE else _MOST_UNTOUCHED
        shown = [(size_text(row.on_disk), os.path.relpath(row.path, log_dir)) for row in results[:most]]
        yield from wrapped_table(shown)
        yield from _more(len(results) - most)


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield f"  and {count:,} more (--format json shows all)"
