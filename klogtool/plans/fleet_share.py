"""fleet apply: what one broker has to do before it starts, so that each copy fits the best one of the fleet.

Which copies are cut, set aside or renamed was decided over all brokers. Here each becomes steps: a cut as `truncate`
plans it, with the lines of the log dir's checkpoints; a folder as `doctor --fix` moves it, last.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct
from msgspec.structs import asdict, replace

from klogtool.broker.circumstances import UNCLEAN, Checkpoints
from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import file_fact
from klogtool.errors import Corrupt, Refused
from klogtool.format.checkpoints import build_offset_checkpoint, parse_offset_checkpoint
from klogtool.format.names import OFFSET_CHECKPOINTS, TopicPartition
from klogtool.log.log_dirs import is_log_dir
from klogtool.log.partition import Partition
from klogtool.plans.causes import PlanRefusal
from klogtool.plans.checkpoint_lines import CheckpointLines, plan_checkpoints
from klogtool.plans.mend import MendQuestion, MoveFolder
from klogtool.plans.mend import decide as decide_moves
from klogtool.plans.plan import Plan, Write, is_plain_name
from klogtool.plans.plan_change import plan_partition
from klogtool.plans.question import PathText, Question
from klogtool.plans.truncate import truncate_change
from klogtool.values import Natural

COMMAND = "fleet apply"
MOST_ACTS = 1_000_000


class Cut(Struct, frozen=True, forbid_unknown_fields=True, tag_field="act", tag="cut"):
    """Cut the partition dir `folder` at the offset `to`. is_damaged: recover the whole log first, because a start after
    a clean stop does not look at its batches."""

    log_dir: PathText
    folder: PathText
    to: Natural
    is_damaged: bool = False


class Move(Struct, frozen=True, forbid_unknown_fields=True, tag_field="act", tag="move"):
    """Rename the folder of a log dir, or move it out of the log dir. to: as for `RenameFolder`."""

    log_dir: PathText
    folder: PathText
    to: PathText


Act: TypeAlias = Cut | Move


class FleetShareQuestion(Question, frozen=True, kw_only=True):
    """acts: what to do, over all log dirs of the broker. Folders are moved after all cuts, in their order."""

    acts: Annotated[tuple[Act, ...], Meta(max_length=MOST_ACTS)] = ()


QUESTION = FleetShareQuestion


def decide(path: str, question: FleetShareQuestion) -> Iterator[Plan]:
    """Yield a plan for each partition dir that is cut, and for the log dir itself: its files, and last its folders.
    path: a log dir, or one of the partition dirs.

    Raises Refused for a move that cannot be done, KlogError as `truncate` does.
    """
    base = os.path.realpath(path if is_log_dir(path) else os.path.dirname(path))
    acts = [act for act in question.acts if os.path.realpath(act.log_dir) == base]
    checkpoints = Checkpoints(base)
    plans: list[Plan] = []
    lines: list[CheckpointLines] = []
    for cut in acts:
        if isinstance(cut, Cut):
            if not is_plain_name(cut.folder):
                raise Refused(PlanRefusal.NO_FOLDER_OF_DIR(), path=os.path.join(base, cut.folder))
            plan, line = _plan_cut(os.path.join(base, cut.folder), question, cut, checkpoints)
            plans.append(plan)
            lines += [] if line is None else [line]
    before, after = plan_checkpoints(COMMAND, base, question, lines, is_path=True) if lines else (None, None)
    last = _plan_moves(base, question, [act for act in acts if isinstance(act, Move)], after)
    yield from (plan for plan in (before, *plans, last) if plan is not None)


def _plan_moves(base: str, question: FleetShareQuestion, moves: Sequence[Move], after: Plan | None) -> Plan | None:
    """Add the moves to the plan of the log dir's own files. Lines of partitions that leave the log dir are dropped."""
    if not moves:
        return after
    edits = tuple(MoveFolder(act.folder, act.to) for act in moves)
    (moving,) = decide_moves(base, MendQuestion(**asdict(question.circumstances), edits=edits, log_dir=base))
    draft = Draft.of(base)
    names = {name for name in draft.folders if name not in {act.folder for act in moves}} | {act.to for act in moves}
    gone = [key for act in moves if act.folder not in names and (key := Partition(act.folder).topic_partition)]
    contents = {step.path: step.content for step in (() if after is None else after.steps) if isinstance(step, Write)}
    for name in (kind.value for kind in OFFSET_CHECKPOINTS if kind.value in draft):
        kept = _without_lines(read_content(contents.get(name, draft.files[name].content)), gone)
        if kept is not None:
            contents[name] = (kept,)
    facts = {fact.path: fact for fact in (() if after is None else after.facts)}
    facts |= {name: file_fact(name, draft.files[name]) for name in contents if name in draft}
    facts |= {fact.path: fact for fact in moving.facts}
    steps = (*(Write(name, content) for name, content in contents.items()), *moving.steps)
    return Plan(COMMAND, base, question, tuple(facts.values()), steps, (), None, () if after is None else after.notes)


def _without_lines(data: bytes, gone: Sequence[TopicPartition]) -> bytes | None:
    """Return a checkpoint without the lines of some partitions; None if it has none of them, or cannot be read."""
    try:
        offsets = parse_offset_checkpoint(data)
    except Corrupt:  # a broker's start says what it makes of it
        return None
    kept = {key: offset for key, offset in offsets.items() if key not in gone}
    return None if len(kept) == len(offsets) else build_offset_checkpoint(kept)


def _plan_cut(
    path: str, question: FleetShareQuestion, cut: Cut, checkpoints: Checkpoints
) -> tuple[Plan, CheckpointLines | None]:
    cut_question = question
    if cut.is_damaged:
        cut_question = replace(question, last_stop=UNCLEAN, recovery_point=0)
    plan, lines = plan_partition(COMMAND, path, cut_question, lambda log: truncate_change(log, cut.to), checkpoints)
    losses = plan.losses
    if losses is not None:  # what is cut is no loss: the leader has it
        losses = replace(losses, lost_by_recovery=UNSET, behind_end=UNSET)
    return replace(plan, question=question, losses=losses), lines
