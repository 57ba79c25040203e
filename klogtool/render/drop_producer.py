"""The plan of drop-producer, for people: what the producer held back, and what becomes visible without it."""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.plans.drop_producer import DropProducerResult
from klogtool.plans.plan import Plan
from klogtool.render.changes import change_text
from klogtool.render.counts import count_text


def drop_producer_text(plan: Plan) -> str:
    """Show the plan of a partition."""
    return change_text(plan, DropProducerResult, _headline, _evidence)


def _headline(result: DropProducerResult) -> str:
    producer, snapshots = result.producer_id, len(result.snapshots)
    if not snapshots:
        return f"no producer snapshot has producer {producer}"
    return f"producer {producer} goes from {count_text(snapshots, 'producer snapshot')}; all others stay"


def _evidence(result: DropProducerResult) -> Iterator[str]:
    if not result.snapshots:
        return
    yield from _of_readers(result)
    yield "its sequences are not checked any more: what it sends again is a duplicate"
    if result.returns_after_unclean_stop:
        yield "the log has batches of it: a start after an unclean stop may find it again,"
        yield "and verify finds snapshot-content (rebuild-index --only snapshot brings it back)"
    yield "each replica has its own snapshots: drop it there, too, before one of them leads"


def _of_readers(result: DropProducerResult) -> Iterator[str]:
    before, after, since = result.last_stable_offset_before, result.last_stable_offset, result.open_since
    if not result.is_known:
        yield "a broker does not know it now, so nothing changes for readers"
        return
    if since is None:
        yield "it has no open transaction, so nothing changes for readers"
        return
    moved = f"moves from {before:,} to {after:,}" if before != after else f"stays at {after:,}: something else holds it"
    yield f"its transaction is open since offset {since:,}"
    yield f"the last stable offset {moved}"
    if result.visible is None:
        yield "the log has no data of that transaction, so nothing becomes visible"
    else:
        first, last = result.visible
        yield f"EXPOSES its data at offsets {first:,} to {last:,}: read_committed consumers get them"
        yield "as if they were committed, and an abort marker that comes later does not hide them"
