"""Answers of read, as JSON rows of the contract (docs/contract.md), and for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from klogtool.broker.unified_log.reading import Isolation
from klogtool.escape import as_paragraph
from klogtool.render.words import count_text

if TYPE_CHECKING:
    from klogtool.broker.unified_log.loaded_partition import FetchedBytes

_ENDS = {
    Isolation.LOG_END: "the log's end",
    Isolation.HIGH_WATERMARK: "the high watermark",
    Isolation.READ_COMMITTED: "the last stable offset",
}
_NAMES_TOLD = 5  # of aborted transactions


# JSON.


def fetched_row(result: FetchedBytes, isolation: Isolation) -> dict[str, object]:
    """Return the contract's answer (docs/contract.md). Reads the bytes once.

    Raises KlogError if they cannot be read.
    """
    fetched = result.fetched
    row: dict[str, object] = {
        "offset": result.offset,
        "isolation": isolation.value,
        "end_offset": fetched.end,
        "base_offset": fetched.base_offset,
        "segment": fetched.segment,
        "position": fetched.position,
        "size": fetched.size,
        "sha256": result.sha256(),
        "first_entry_incomplete": fetched.first_entry_incomplete,
    }
    if fetched.needed_bytes is not None:
        row["needed_bytes"] = fetched.needed_bytes
    if fetched.aborted is not None:
        row["aborted"] = [[txn.producer_id, txn.first_offset] for txn in fetched.aborted]
    return row


# Text.


@as_paragraph
def fetched_text(result: FetchedBytes, isolation: Isolation, *, with_sha256: bool) -> Iterator[str]:
    """Show how many bytes a fetch returns, from where and up to what limit; if a batch is too large, which option
    helps."""
    fetched, end = result.fetched, f"{_ENDS[isolation]} {result.fetched.end:,}"
    if fetched.first_batch_size is None:
        yield f"offset {result.offset:,}   nothing to read: {_why_nothing(result, end)}"
        return
    where = f"{result.file_name}, bytes {fetched.position:,} to {fetched.position + fetched.size:,}"
    yield f"offset {result.offset:,}   {count_text(fetched.size, 'byte')} of {where}"
    if fetched.needed_bytes is not None:
        yield f"  no whole batch: the first batch has {fetched.needed_bytes:,} bytes"
        yield f"  →  --max-bytes {fetched.needed_bytes}, or --min-one-message"
    yield f"  from        the batch at offset {fetched.base_offset:,}"
    yield f"  limit       {end}"
    if fetched.aborted is not None:
        yield f"  aborted     {_aborted_text(fetched.aborted)}"
    if with_sha256:
        yield f"  sha256      {result.sha256()}"


def _why_nothing(result: FetchedBytes, end: str) -> str:
    if result.offset >= result.fetched.end:
        return f"it is {'at' if result.offset == result.fetched.end else 'past'} {end}"
    return f"all records from there up to {end} are gone"


def _aborted_text(aborted: tuple[Any, ...]) -> str:
    if not aborted:
        return "no transaction"
    texts = [f"producer {txn.producer_id} from offset {txn.first_offset:,}" for txn in aborted[:_NAMES_TOLD]]
    more = len(aborted) - len(texts)
    return "; ".join([*texts, f"{more:,} more"] if more else texts)
