"""Answers of hash: JSON rows of the contract (docs/contract.md), and a line of text for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from klogtool.render.lookup import named_row
from klogtool.render.words import Row, count_text

if TYPE_CHECKING:
    from klogtool.copies.record_hash import CommonRange, RecordHash

NO_DIGEST = f"{'no digest':<32}"


def hash_row(result: RecordHash) -> Row:
    """Return the contract's answer for a partition; with `error` if there is no digest."""
    row: Row = {
        "path": result.path,
        **named_row(result.topic_partition),
        "from": result.start,
        "to": result.end,
        "digest": result.digest,
        "first_offset": result.first_offset,
        "last_offset": result.last_offset,
        "records": result.records,
    }
    return row if result.error is None else row | {"error": result.error.thrown()}


def hash_text(result: RecordHash, name: str) -> str:
    """Return the line: the digest first, because that is what eyes compare."""
    if result.error is not None:
        return f"{NO_DIGEST}  {name}  {_range_text(result)} could be read"
    return f"{result.digest}  {name}  {_range_text(result)}"


def _range_text(result: RecordHash) -> str:
    if not result.records:
        return "no records"
    return f"offsets {result.first_offset:,} to {result.last_offset:,}, {count_text(result.records, 'record')}"


def common_range_lines(ranges: Iterable[CommonRange]) -> Iterator[str]:
    """Yield a line for copies with different ends: how to compare what they have in common."""
    for common in ranges:
        of = common.topic_partition
        yield (
            f"klogtool: {of.topic}-{of.partition}: these copies do not have the same offsets. "
            f"Compare what they have in common: --from {common.start} --to {common.end}"
        )
