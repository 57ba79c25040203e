"""What kafka-dump-log reports at its end, in its words and order.

None of it is damage by itself: gaps are normal after compaction, and mismatches are normal in indexes that brokers
before 3.9.1 and 4.1 wrote.
"""

from __future__ import annotations

from collections.abc import Iterator

Pairs = dict[str, list[tuple[int, int]]]


class Reports:
    """What was found during the dump, by absolute path of the file. as_scala: told as the tool in Scala did."""

    def __init__(self, *, as_scala: bool = False) -> None:
        self._as_scala = as_scala
        self.index_mismatches: dict[str, dict[int, int]] = {}
        self.timestamp_mismatches: Pairs = {}
        self.timestamps_out_of_order: Pairs = {}
        self.offsets_not_found: Pairs = {}
        self.gaps: dict[str, dict[int, int]] = {}

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report. Files are in order of path; Kafka has the order of a hash map."""
        for path, mismatches in sorted(self.index_mismatches.items()):
            yield f"Mismatches in :{path}"
            for index_offset, log_offset in sorted(mismatches.items(), reverse=True):
                yield f"  Index offset: {index_offset}, log offset: {log_offset}"
        yield from _pairs("Found timestamp mismatch in :", self.timestamp_mismatches, TIMESTAMP_MISMATCH)
        yield from _pairs("Found out of order timestamp in :", self.timestamps_out_of_order, OUT_OF_ORDER)
        yield from self._not_found()
        for path, gaps in sorted(self.gaps.items()):
            # The gaps of a file in their order. The tool in Scala told the last one first, and none
            # before the first record.
            pairs = sorted(gaps.items())
            pairs = [pair for pair in reversed(pairs) if pair[0] != BEFORE_ALL] if self._as_scala else pairs
            if pairs:
                yield f"Non-consecutive offsets in {path}"
            for before, after in pairs:
                yield f"  {before} is followed by {after}"

    def _not_found(self) -> Iterator[str]:
        if not self._as_scala:
            yield from _pairs("The following indexed offsets are not found in :", self.offsets_not_found, NOT_FOUND)
            return
        for pairs in self.offsets_not_found.values():
            yield "The following indexed offsets are not found in the log."
            yield from (NOT_FOUND.format(*pair) for pair in pairs)


BEFORE_ALL = -1  # the offset before the first record
TIMESTAMP_MISMATCH = "  Index timestamp: {}, log timestamp: {}"
OUT_OF_ORDER = "  Index timestamp: {}, Previously indexed timestamp: {}"
NOT_FOUND = "Indexed offset: {}, found log offset: {}"


def _pairs(heading: str, result: Pairs, line: str) -> Iterator[str]:
    for path, pairs in sorted(result.items()):
        yield heading + path
        for pair in pairs:
            yield line.format(*pair)
