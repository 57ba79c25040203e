"""klogtool transplant."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import click
from msgspec.structs import replace

from klogtool.cli import commands, options
from klogtool.cli.question_options import question_options
from klogtool.cli.writing import PlanFace, Writing, decide_and_carry_out, writing
from klogtool.errors import FileCause, KlogError
from klogtool.format.uuids import parse_uuid
from klogtool.plans.node_ids import NodeIdsResult, parse_node_ids
from klogtool.plans.plan import Plan
from klogtool.plans.transplant import COMMAND, LogDirTransplant, TransplantQuestion, TransplantResult
from klogtool.quorum.new_voters import parse_voters
from klogtool.render.plans import plan_text
from klogtool.render.quorum import voters_text
from klogtool.render.transplant import (
    CHECKED,
    NOTHING_WRITTEN,
    log_dir_text,
    node_ids_text,
    place_lines,
    transplant_text,
)


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, required=True, metavar="PARTITION|LOGDIR...")
@question_options(TransplantQuestion)
@writing
def command(paths: tuple[str, ...], question: TransplantQuestion, writing: Writing) -> int:
    """Make a copied partition dir ready for another cluster, or for a topic that was created again.

    Prints the plan and stops. With --output, writes a partition dir with the topic's new id. With --apply, changes a
    copy that already lies in the log dir of the adopting broker, and the lines of checkpoints there. Records, offsets
    and timestamps stay. Leader epochs begin anew, and producers are forgotten. A damaged copy is refused: salvage it
    first.

    With --cluster-id, whole log dirs become those of another cluster: a clone from copies of all disks. Directory ids
    and topic ids stay. With --voters, the metadata says where the controllers of the clone listen; with --node-ids,
    nodes get other ids, in meta.properties and in all of the metadata.

    \b
    Examples:
      klogtool transplant orders-0 --check
      klogtool transplant orders-0 --log-dir /var/kafka-logs --output new/orders-0
      klogtool transplant /var/kafka-logs --cluster-id MkU3OEVBNTcwNTJENDM2Qg --apply

    Exit status: 0 done; 2 wrong usage, no such path; 3 refused, nothing written; 4 could not go on.
    """
    if question.check and writing.keeps_plans:
        raise click.UsageError("--check writes nothing, so it does not go with --apply, --output or --plan-out.")
    if question.cluster_id is not None:
        return _of_log_dirs(paths, question, writing)
    if len(paths) > 1 or question.voters is not None or question.node_ids is not None:
        raise click.UsageError("Several log dirs, --voters and --node-ids are for --cluster-id.")
    in_place = writing.apply or (writing.plan_out is not None and writing.output is None)
    if question.topic_id is None and question.log_dir is None and not (question.check or in_place):
        raise click.UsageError("Give --topic-id, or --log-dir of a broker that knows the topic. --check needs neither.")
    try:
        if question.topic_id is not None:
            parse_uuid(question.topic_id)
    except KlogError as error:
        raise click.UsageError(f"Invalid value for '--topic-id': {error.reason}.") from None
    log_dir = None if question.log_dir is None else os.path.abspath(question.log_dir)
    if log_dir is not None and not os.path.isdir(log_dir):
        raise KlogError(FileCause.NO_FOLDER(), path=log_dir)
    results: list[TransplantResult] = []

    def text_of(plan: Plan) -> str:
        result = plan.result
        if not isinstance(result, TransplantResult):
            return plan_text(plan)
        results.append(result)
        text = transplant_text(plan, result)
        if writing.keeps_plans or writing.quiet:
            return text
        return f"{text}\n{CHECKED if question.check else NOTHING_WRITTEN}"

    def next_steps() -> Iterator[str]:
        for result in results:
            yield from place_lines(result, writing.output or "", log_dir)

    face = PlanFace(text_of=text_of, next_steps=next_steps, nothing_changed="")
    question = replace(question, log_dir=log_dir, in_place=in_place)
    return decide_and_carry_out(COMMAND, paths, question, writing, face)


def _of_log_dirs(paths: Sequence[str], question: TransplantQuestion, writing: Writing) -> int:
    """Give whole log dirs another cluster id, and new places to their voters. Returns the exit status."""
    used = options.first_used(*("topic_id", "topic", "partition", "log_dir", "keep_producers", "forget_open", "output"))
    if used is not None:
        raise click.UsageError(f"--cluster-id is for a whole log dir, in place: {used} does not go with it.")
    try:
        parse_uuid(question.cluster_id or "")
    except KlogError as error:
        raise click.UsageError(f"Invalid value for '--cluster-id': {error.reason}.") from None

    for option, text, parse in (
        ("--voters", question.voters, parse_voters),
        ("--node-ids", question.node_ids, parse_node_ids),
    ):
        try:
            if text is not None:
                parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=option) from None

    def text_of(plan: Plan) -> str:
        match plan.result:
            case LogDirTransplant() as result:
                return log_dir_text(plan, result)
            case NodeIdsResult() as result:
                return node_ids_text(plan, result)
        return voters_text(plan)

    face = PlanFace(text_of=text_of, nothing_changed="Nothing was changed. --apply does it, with undo.")
    log_dirs = tuple(dict.fromkeys(map(os.path.abspath, paths)))
    return decide_and_carry_out(COMMAND, log_dirs, replace(question, log_dirs=log_dirs), writing, face)
