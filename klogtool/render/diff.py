"""Answers of diff: JSON rows of the contract (docs/contract.md), and text that begins with the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import to_builtins
from msgspec.structs import asdict

from klogtool.copies.comparison import Side
from klogtool.copies.copy_log import CopyDamage
from klogtool.copies.differing import Differences, Pair, find_differences
from klogtool.copies.leadership import CopyEpochs, LeaderChange
from klogtool.copies.verdict import DiffVerdict, Word
from klogtool.decoding.decoded import json_text
from klogtool.escape import joined
from klogtool.format.batch import Record
from klogtool.format.item_merge import Stretch, StretchKind
from klogtool.format.text import java_utf8
from klogtool.render.decoder_classes import Decoder, decoder_of_values
from klogtool.render.json_lines import json_bytes, json_timestamp
from klogtool.render.lookup import named_row
from klogtool.render.words import Row, count_text, offsets_text

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding

MOST_SHOWN = 10  # stretches and damages, in text
ONLY_IN_A, ONLY_IN_B = "only-in-a", "only-in-b"
_SHOWN = {
    StretchKind.OTHER_EPOCH: "same content, other leader epoch",
    StretchKind.UNLIKE: "differ",
    StretchKind.UNLIKE_EPOCH: "differ, and so do the leader epochs",
    StretchKind.REBATCHED: "batches with other boundaries",
    StretchKind.ONLY_A: "only in A",
    StretchKind.ONLY_B: "only in B",
    StretchKind.UNCOMPARED: "not compared: damaged",
}
_WITH_RECORDS = _SHOWN.keys() - {StretchKind.OTHER_EPOCH, StretchKind.UNCOMPARED}


# JSON.


def diff_row(result: DiffVerdict, values: Decoding | None) -> Row:
    """Return the contract's answer for two copies. values: how the records that differ are decoded; None: they are not
    shown."""
    compared = result.compared
    sides = zip(
        (compared.a, compared.b), result.histories, result.epochs, (result.a_follows_b, result.b_follows_a), strict=True
    )
    a, b = (_side_row(*side) for side in sides)
    return {
        **named_row(result.topic_partition),
        "verdict": result.word.value,
        "offset": result.offset,
        "deep": compared.deep,
        "start": compared.start,
        "end": max(result.end, compared.start),
        "equal_bytes": compared.equal_bytes,
        "leader": result.leader,
        "a": a,
        "b": b,
        "stretches": [_stretch_row(result, stretch, values) for stretch in compared.stretches],
        "left_out": compared.left_out,
    }


def lone_row(pair: Pair) -> Row:
    """Return the row of a partition that only one log dir has."""
    return {
        **named_row(pair.topic_partition),
        "verdict": ONLY_IN_A if pair.b is None else ONLY_IN_B,
    }


def _side_row(side: Side, history: CopyEpochs, epoch: int | None, follows: LeaderChange | None) -> Row:
    return {
        "path": side.path,
        "first_offset": side.first_offset,
        "log_start_offset": side.start,
        "log_end_offset": side.log_end_offset,
        "latest_epoch": history.latest_epoch,
        "leader_epoch": epoch,
        **({"truncates_to": None, "loses": None} if follows is None else asdict(follows)),
        "damages": to_builtins(side.damages),
    }


# Text.


def diff_text(result: DiffVerdict, name: str, values: Decoding | None = None) -> str:
    """Return the verdict and what belongs to it. values: see `diff_row`."""
    return joined((f"{name}: {_sentence(result)}", *(f"  {line}" for line in _lines(result, values))))


def _sentence(result: DiffVerdict) -> str:
    at = "" if result.offset is None else f"{result.offset:,}"
    a, b = ("no leader epoch" if epoch is None or epoch < 0 else f"leader epoch {epoch}" for epoch in result.epochs)
    damaged = " and ".join(name for name, side in _sides(result) if side.damages)
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
    }[result.word]


def _sides(result: DiffVerdict) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("A", result.compared.a), ("B", result.compared.b)


def _lines(result: DiffVerdict, values: Decoding | None) -> Iterator[str]:
    yield _compared_line(result)
    a, b = result.compared.a, result.compared.b
    if a.start != b.start:
        earlier, later = ("A", "B") if a.start < b.start else ("B", "A")
        start = result.compared.start
        yield f"{later} begins at offset {start:,}; what {earlier} has below it was not compared"
    if a.log_end_offset != b.log_end_offset:
        yield f"A ends at offset {a.log_end_offset:,}, B at offset {b.log_end_offset:,}"
    shown = [stretch for stretch in result.compared.stretches if stretch.kind in _SHOWN]
    for stretch in shown[:MOST_SHOWN]:
        yield f"{offsets_text(stretch.first_offset, stretch.last_offset)}: {_SHOWN[StretchKind(stretch.kind)]}"
        yield from _record_lines(result, stretch, values)
    yield from _more_line(len(shown) - MOST_SHOWN + result.compared.left_out, "differences")
    for name, side in _sides(result):
        yield from (_damage_line(name, damage) for damage in side.damages[:MOST_SHOWN])
        yield from _more_line(len(side.damages) - MOST_SHOWN, "damaged places")
    if result.word not in (Word.EQUAL, Word.SAME_RECORDS, Word.GAPS, Word.OTHER_BATCHES):
        yield from _leader_lines(result)


def _compared_line(result: DiffVerdict) -> str:
    compared, end = result.compared, result.end
    if end <= compared.start:
        return "nothing was compared"
    what = f"compared: offsets {compared.start:,} to {end - 1:,}"
    if result.word is Word.EQUAL:
        return f"{what}, byte for byte"
    return f"{what}; where bytes differ, {'records' if compared.deep else 'headers and checksums'}"


# Records that differ, decoded.


def _stretch_row(result: DiffVerdict, stretch: Stretch, values: Decoding | None) -> Row:
    row = asdict(stretch) | {"kind": StretchKind(stretch.kind).name.lower().replace("_", "-")}
    if values is None or stretch.kind not in _WITH_RECORDS:
        return row
    differences, topic = _differences(result, stretch), _topic_of(result)
    rows = [
        {"offset": one.offset, "a": _record_row(one.a, values, topic), "b": _record_row(one.b, values, topic)}
        for one in differences.records
    ]
    return row | {"records": rows, "records_complete": differences.is_all}


def _record_row(record: Record | None, values: Decoding, topic: str | None) -> Row | None:
    if record is None:
        return None
    return {
        "timestamp": json_timestamp(record.timestamp),
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[java_utf8(header.key), json_bytes(header.value)] for header in record.headers],
        **values.fields(record.key, record.value, topic),
    }


def _record_lines(result: DiffVerdict, stretch: Stretch, values: Decoding | None) -> Iterator[str]:
    if values is None or stretch.kind not in _WITH_RECORDS:
        return
    differences, topic = _differences(result, stretch), _topic_of(result)
    decoder = decoder_of_values(values, topic)
    for one in differences.records:
        of_headers = one.a is not None and one.b is not None and one.a.headers != one.b.headers
        for name, record in (("A", one.a), ("B", one.b)):
            if record is not None:
                yield f"  {name} {_record_text(record, decoder, with_headers=of_headers)}"
    if not differences.is_all:
        yield "  and more, not shown"


def _record_text(record: Record, decoder: Decoder, *, with_headers: bool) -> str:
    key, value = ("null" if text is None else text for text in decoder.decode(record.offset, record.key, record.value))
    headers = [[java_utf8(header.key), json_bytes(header.value)] for header in record.headers]
    beside = f" headers: {json_text(headers)}" if with_headers else ""
    return f"offset: {record.offset} timestamp: {record.timestamp}{beside} key: {key} payload: {value}"


def _differences(result: DiffVerdict, stretch: Stretch) -> Differences:
    compared = result.compared
    first = max(stretch.first_offset, compared.start)
    return find_differences(compared.a.path, compared.b.path, first, stretch.last_offset)


def _topic_of(result: DiffVerdict) -> str | None:
    return None if result.topic_partition is None else result.topic_partition.topic


def _more_line(more: int, noun: str) -> Iterator[str]:
    if more > 0:
        yield f"{more:,} more {noun}"


def _damage_line(name: str, damage: CopyDamage) -> str:
    where = f"{damage.path}: bytes {damage.start:,} to {damage.end:,}: {damage.reason}"
    if damage.last_offset is None:
        return f"{name} is damaged from offset {damage.first_offset:,} on: {where}"
    if damage.last_offset < damage.first_offset:
        return f"{name} is damaged: {where}"
    return f"{name} is damaged, {offsets_text(damage.first_offset, damage.last_offset)}: {where}"


def _leader_lines(result: DiffVerdict) -> Iterator[str]:
    """Which copy a leader should have, and what each loses to the other."""
    a, b = result.histories
    if result.leader is None and not any(one and one.loses for one in (result.a_follows_b, result.b_follows_a)):
        return
    if result.leader is not None:
        keys = {"a": a, "b": b}
        other = keys["b" if result.leader == "a" else "a"]
        reason = (
            "the later leader epoch" if keys[result.leader].latest_epoch != other.latest_epoch else "the higher end"
        )
        yield f"{result.leader.upper()} is the better leader: it has {reason}"
    for leader, name, follows in (("A", "B", result.b_follows_a), ("B", "A", result.a_follows_b)):
        yield f"if {leader} leads, {_follower_text(name, follows)}"


def _follower_text(name: str, follows: LeaderChange | None) -> str:
    if follows is None:
        return f"{name} truncates to its high watermark, because it has no leader epochs"
    if not follows.loses:
        return f"{name} loses nothing"
    return f"{name} truncates to offset {follows.truncates_to:,}, and loses {count_text(follows.loses, 'offset')}"


def closing_text(words: Iterable[str]) -> str:
    """Return how many partitions have each verdict."""
    counted = Counter(words)
    text = ", ".join(f"{count:,} {word}" for word, count in counted.items())
    return f"{count_text(sum(counted.values()), 'partition')}: {text}" if counted else "no partitions"
