"""Answers of diff: JSON rows of the contract (docs/contract.md), and text that begins with the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from klogtool.copies.verdict import Verdict, Word
from klogtool.escape import joined
from klogtool.format.item_merge import Kind, Stretch
from klogtool.render.counts import count_text

if TYPE_CHECKING:
    from klogtool.copies.comparison import Side
    from klogtool.copies.copy_log import Damage
    from klogtool.copies.leadership import History, Succession
    from klogtool.copies.pairing import Pair

Row = dict[str, Any]
MOST_SHOWN = 10  # stretches and damages, in text
ONLY_IN_A, ONLY_IN_B = "only-in-a", "only-in-b"
_SHOWN = {
    Kind.OTHER_EPOCH: "same content, other leader epoch",
    Kind.UNLIKE: "differ",
    Kind.UNLIKE_EPOCH: "differ, and so do the leader epochs",
    Kind.REBATCHED: "batches with other boundaries",
    Kind.ONLY_A: "only in A",
    Kind.ONLY_B: "only in B",
    Kind.UNCOMPARED: "not compared: damaged",
}


# JSON.


def diff_row(found: Verdict) -> Row:
    """Return the contract's answer for two copies."""
    compared, of = found.compared, found.topic_partition
    sides = zip(
        (compared.a, compared.b), found.histories, found.epochs, (found.a_follows_b, found.b_follows_a), strict=True
    )
    a, b = (_side_row(*side) for side in sides)
    return {
        "topic": None if of is None else of.topic,
        "partition": None if of is None else of.partition,
        "verdict": found.word.value,
        "offset": found.offset,
        "deep": compared.deep,
        "start": compared.start,
        "end": max(found.end, compared.start),
        "equal_bytes": compared.equal_bytes,
        "leader": found.leader,
        "a": a,
        "b": b,
        "stretches": [_stretch_row(stretch) for stretch in compared.stretches],
        "left_out": compared.left_out,
    }


def lone_row(pair: Pair) -> Row:
    """Return the row of a partition that only one log dir has."""
    of = pair.topic_partition
    return {
        "topic": None if of is None else of.topic,
        "partition": None if of is None else of.partition,
        "verdict": ONLY_IN_A if pair.b is None else ONLY_IN_B,
    }


def _side_row(side: Side, history: History, epoch: int | None, follows: Succession | None) -> Row:
    return {
        "path": side.path,
        "first_offset": side.first_offset,
        "log_start_offset": side.start,
        "log_end_offset": side.log_end_offset,
        "latest_epoch": history.latest_epoch,
        "leader_epoch": epoch,
        "truncates_to": None if follows is None else follows.truncates_to,
        "loses": None if follows is None else follows.loses,
        "damages": [_damage_row(damage) for damage in side.damages],
    }


def _damage_row(damage: Damage) -> Row:
    return {name: getattr(damage, name) for name in damage.__struct_fields__}


def _stretch_row(stretch: Stretch) -> Row:
    row: Row = {"kind": Kind(stretch.kind).name.lower().replace("_", "-")}
    return row | {name: getattr(stretch, name) for name in stretch.__struct_fields__ if name != "kind"}


# Text.


def diff_text(found: Verdict, name: str) -> str:
    """Return the verdict and what belongs to it."""
    return joined((f"{name}: {_sentence(found)}", *(f"  {line}" for line in _lines(found))))


def _sentence(found: Verdict) -> str:
    at = "" if found.offset is None else f"{found.offset:,}"
    a, b = (_epoch_text(epoch) for epoch in found.epochs)
    damaged = " and ".join(name for name, side in _sides(found) if side.damages)
    return {
        Word.EQUAL: "equal",
        Word.SAME_RECORDS: "same records, in different batches",
        Word.A_IS_PREFIX: f"A is a prefix of B, which goes on at offset {at}",
        Word.B_IS_PREFIX: f"B is a prefix of A, which goes on at offset {at}",
        Word.DIVERGE: f"diverge at offset {at}: {a} in A, {b} in B",
        Word.OTHER_BATCHES: f"different batches from offset {at} on; --deep tells whether the records differ",
        Word.GAPS: "equal where both have records, but some records are only in one: compacted, or lost",
        Word.DAMAGED: f"{damaged} damaged; equal as far as both can be read",
        Word.NOTHING_IN_COMMON: "no offset in common",
    }[found.word]


def _epoch_text(epoch: int | None) -> str:
    return "no leader epoch" if epoch is None or epoch < 0 else f"leader epoch {epoch}"


def _sides(found: Verdict) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("A", found.compared.a), ("B", found.compared.b)


def _lines(found: Verdict) -> Iterator[str]:
    yield _compared_line(found)
    yield from _start_lines(found)
    yield from _end_lines(found)
    yield from _stretch_lines(found)
    for name, side in _sides(found):
        yield from _limited([_damage_line(name, damage) for damage in side.damages], "damaged places")
    if found.word not in (Word.EQUAL, Word.SAME_RECORDS, Word.GAPS, Word.OTHER_BATCHES):
        yield from _leader_lines(found)


def _compared_line(found: Verdict) -> str:
    compared, end = found.compared, found.end
    if end <= compared.start:
        return "nothing was compared"
    what = f"compared: offsets {compared.start:,} to {end - 1:,}"
    if found.word is Word.EQUAL:
        return f"{what}, byte for byte"
    return f"{what}; where bytes differ, {'records' if compared.deep else 'headers and checksums'}"


def _start_lines(found: Verdict) -> Iterator[str]:
    a, b = found.compared.a, found.compared.b
    if a.start != b.start:
        earlier, later = ("A", "B") if a.start < b.start else ("B", "A")
        start = found.compared.start
        yield f"{later} begins at offset {start:,}; what {earlier} has below it was not compared"


def _end_lines(found: Verdict) -> Iterator[str]:
    a, b = found.compared.a, found.compared.b
    if a.log_end_offset != b.log_end_offset:
        yield f"A ends at offset {a.log_end_offset:,}, B at offset {b.log_end_offset:,}"


def _stretch_lines(found: Verdict) -> Iterator[str]:
    lines = [
        f"{_range_text(stretch.first_offset, stretch.last_offset)}: {_SHOWN[Kind(stretch.kind)]}"
        for stretch in found.compared.stretches
        if stretch.kind in _SHOWN
    ]
    yield from _limited(lines, "differences", found.compared.left_out)


def _limited(lines: list[str], noun: str, left_out: int = 0) -> Iterator[str]:
    yield from lines[:MOST_SHOWN]
    more = len(lines) - MOST_SHOWN + left_out
    if more > 0:
        yield f"{more:,} more {noun}"


def _range_text(first: int, last: int) -> str:
    return f"offset {first:,}" if first == last else f"offsets {first:,} to {last:,}"


def _damage_line(name: str, damage: Damage) -> str:
    where = f"{damage.path}: bytes {damage.start:,} to {damage.end:,}: {damage.reason}"
    if damage.last_offset is None:
        return f"{name} is damaged from offset {damage.first_offset:,} on: {where}"
    if damage.last_offset < damage.first_offset:
        return f"{name} is damaged: {where}"
    return f"{name} is damaged, {_range_text(damage.first_offset, damage.last_offset)}: {where}"


def _leader_lines(found: Verdict) -> Iterator[str]:
    """Which copy a leader should have, and what each loses to the other."""
    a, b = found.histories
    if found.leader is None and not any(one and one.loses for one in (found.a_follows_b, found.b_follows_a)):
        return
    if found.leader is not None:
        keys = {"a": a, "b": b}
        other = keys["b" if found.leader == "a" else "a"]
        reason = "the later leader epoch" if keys[found.leader].latest_epoch != other.latest_epoch else "the higher end"
        yield f"{found.leader.upper()} is the better leader: it has {reason}"
    for leader, name, follows in (("A", "B", found.b_follows_a), ("B", "A", found.a_follows_b)):
        yield f"if {leader} leads, {_follower_text(name, follows)}"


def _follower_text(name: str, follows: Succession | None) -> str:
    if follows is None:
        return f"{name} truncates to its high watermark, because it has no leader epochs"
    if not follows.loses:
        return f"{name} loses nothing"
    return f"{name} truncates to offset {follows.truncates_to:,}, and loses {count_text(follows.loses, 'offset')}"


def closing_text(words: Iterable[str]) -> str:
    """Return how many partitions have each verdict."""
    counted: dict[str, int] = {}
    for word in words:
        counted[word] = counted.get(word, 0) + 1
    told = ", ".join(f"{count:,} {word}" for word, count in counted.items())
    return f"{count_text(sum(counted.values()), 'partition')}: {told}" if counted else "no partitions"
