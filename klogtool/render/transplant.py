"""What transplant makes of a copy, as text, and how a broker gets it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from klogtool.escape import as_paragraph, quoted
from klogtool.plans.node_ids import NodeIdsResult
from klogtool.plans.plan import Plan
from klogtool.plans.transplant import LogDirTransplant, TransplantResult
from klogtool.render.plans import wrapped_table
from klogtool.render.words import count_text, words
from klogtool.verify.cures import move_out

NOTHING_WRITTEN = (
    "Nothing was changed. --output DIR writes the result. --apply, with undo, is for a copy that already lies in the "
    "log dir of the adopting broker."
)
CHECKED = "The copy can be transplanted. Nothing was written."


@as_paragraph
def transplant_text(plan: Plan, result: TransplantResult) -> Iterator[str]:
    """Show a plan of transplant: what it becomes, the segments, and what is to be known of it."""
    start, end = result.log_start_offset, result.log_end_offset
    yield f"Transplant of {plan.path}   (plan {plan.id})"
    yield f"  becomes {result.topic}-{result.partition}, offsets {start:,} to {end:,} (exclusive)"
    by = f", {result.topic_id_by}" if result.topic_id_by else ""
    yield f"  topic id {result.topic_id or 'not known'}{by}; in the copy: {result.source_topic_id or 'none'}"
    yield f"  leader epoch 0 for all records: {count_text(result.batches_restamped, 'batch', 'batches')} had another"
    what = "kept" if result.producers_kept else "forgotten"
    yield f"  producers: {result.producers:,}, {what}; open transactions: {result.open_transactions:,}"
    yield "Segments"
    yield from wrapped_table(
        [(f"{s.segment:020d}", count_text(s.size, "byte"), s.action, words(s.why)) for s in plan.segments]
    )
    if plan.notes:
        yield "Notes"
        yield from wrapped_table([(words(note),) for note in plan.notes])


@as_paragraph
def log_dir_text(plan: Plan, result: LogDirTransplant) -> Iterator[str]:
    """Show what a whole log dir becomes."""
    yield f"Transplant of {plan.path}   (plan {plan.id})"
    if plan.steps:
        yield f"  cluster id {result.cluster_id}; it was {result.source_cluster_id or 'none'}"
    else:
        yield f"  it has the cluster id {result.cluster_id} already"
    node = "none" if result.node_id is None else result.node_id
    if result.node_id == result.source_node_id:
        yield f"  node id {node} and directory id {result.directory_id or 'none'} stay"
    else:
        yield f"  node id {node}; it was {result.source_node_id}"
        yield f"  directory id {result.directory_id or 'none'} stays"
    yield f"  {count_text(result.partitions, 'partition dir')} with their topic ids stay as they are"
    yield "Every log dir of every node of the cluster needs the same id."
    if result.voters:
        voters = ", ".join(f"{voter.id}@{' '.join(voter.addresses)}" for voter in result.voters)
        yield f"The metadata has the controllers at {voters}: --voters writes other places."
    elif result.has_metadata and result.node_id == result.source_node_id:
        yield "The metadata names no voters: where controllers listen is in controller.quorum.voters of their settings."
    if result.tiered_topics:
        yield (
            f"NOT DONE: {count_text(len(result.tiered_topics), 'topic')} with remote storage, such as "
            f"{result.tiered_topics[0]}. A clone has the original's objects; its retention deletes them there. "
            "Give it a copy of the store first."
        )


@as_paragraph
def node_ids_text(plan: Plan, result: NodeIdsResult) -> Iterator[str]:
    """Show what becomes of a copy of the metadata."""
    yield f"Transplant of {plan.path}   (plan {plan.id})"
    pairs = ", ".join(f"{old} becomes {new}" for old, new in sorted(result.node_ids.items()))
    yield f"  node ids: {pairs}"
    yield f"  one snapshot takes the place of the log and its snapshots: {count_text(result.records, 'record')},"
    yield f"  up to offset {result.offset:,} of epoch {result.epoch:,}; all of them count as committed"
    for voter in result.voters:
        yield f"  voter {voter.id}  {voter.directory_id}  {' '.join(voter.addresses)}"
    if not result.voters:
        yield "  no voters: controller.quorum.voters of the settings has to name the new ids"
    yield "In the settings of each node, node.id has to be its new id."


def place_lines(result: TransplantResult, output: str, log_dir: str | None) -> Iterator[str]:
    """Yield what to do with the result: commands, and lines of checkpoints."""
    name, place = f"{result.topic}-{result.partition}", log_dir or "LOGDIR"
    target = os.path.join(place, name)
    yield "To put it in place, after a clean stop of the broker that is to lead the partition:"
    if os.path.realpath(output) != os.path.realpath(target):
        moved = move_out(target, place) if log_dir else f"mv -n {target} ELSEWHERE/"
        yield f"  {moved}  # the empty one, if it is there"
        yield f"  mv -nT {quoted(os.path.abspath(output))} {quoted(target) if log_dir else target}"
    lines = result.checkpoints
    if lines.log_start_offset is not None:
        yield f"In {place}/log-start-offset-checkpoint, the partition's line must be:"
        yield f"  {result.topic} {result.partition} {lines.log_start_offset}"
    yield f"In {place}/recovery-point-offset-checkpoint, if the broker was not stopped cleanly:"
    yield f"  {result.topic} {result.partition} {lines.recovery_point}"
