"""klogtool transplant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import circumstance_options, commands, options
from klogtool.cli.writing import decide_and_carry_out, writing
from klogtool.errors import KlogError
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.uuids import parse_uuid
from klogtool.plans.plan import Plan
from klogtool.plans.transplant import COMMAND, TransplantQuestion
from klogtool.render.plans import plan_text
from klogtool.render.transplant import CHECKED, NOTHING_WRITTEN, place_lines, transplant_text


def _topic_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    try:
        if value is not None:
            parse_uuid(value)
    except KlogError as error:
        raise click.BadParameter(f"{error.reason}.", ctx, param) from None
    return value


@commands.command(COMMAND)
@click.argument("partition_dir", metavar="PARTITION")
@click.option("--topic-id", callback=_topic_id, metavar="ID", help="The id of the topic that adopts it.")
@click.option("--topic", metavar="NAME", help="The name of that topic.  [default: that of the copy]")
@click.option(
    "--partition",
    type=options.Number(0, MAX_INT),
    default=None,
    metavar="N",
    help="The number of the partition.  [default: that of the copy]",
)
@click.option(
    "--log-dir",
    type=click.Path(),
    metavar="LOGDIR",
    help="A log dir of the adopting broker: the topic id is looked up there.",
)
@click.option(
    "--keep-producers",
    is_flag=True,
    help="Keep the state of producers: only if the topic is adopted by the cluster that wrote the copy.",
)
@click.option(
    "--forget-open-transactions",
    "forget_open",
    is_flag=True,
    help="Records of transactions without a marker may count as committed.",
)
@click.option("--check", is_flag=True, help="Only say whether it can be transplanted, and to where.")
@writing
@circumstance_options.circumstances
@options.jobs
@options.quiet
@options.debug
def command(partition_dir: str, circumstances: Circumstances, **more: Any) -> int:
    """Make a copied partition dir ready for another cluster, or for a topic that was created again.

    Prints the plan and stops. With --output, writes a partition dir with the topic's new id. With --apply, changes a
    copy that already lies in the log dir of the adopting broker, and the lines of checkpoints there. Records, offsets
    and timestamps stay. Leader epochs begin anew, and producers are forgotten. A damaged copy is refused: salvage it
    first.

    \b
    Examples:
      klogtool transplant orders-0 --check
      klogtool transplant orders-0 --log-dir /var/kafka-logs --output new/orders-0

    Exit status: 0 done; 2 wrong usage, no such path; 3 refused, nothing written; 4 could not go on.
    """
    carries_out = any(more[name] for name in ("apply", "output", "plan_out"))
    if more["check"] and carries_out:
        raise click.UsageError("--check writes nothing, so it does not go with --apply, --output or --plan-out.")
    in_place = more["apply"] or (more["plan_out"] is not None and more["output"] is None)
    if more["topic_id"] is None and more["log_dir"] is None and not (more["check"] or in_place):
        raise click.UsageError("Give --topic-id, or --log-dir of a broker that knows the topic. --check needs neither.")
    chosen = more | {"quiet": True, "no_notes": more["quiet"]}
    log_dir = None if more["log_dir"] is None else os.path.abspath(more["log_dir"])
    if log_dir is not None and not os.path.isdir(log_dir):
        raise KlogError("no such folder", path=log_dir)
    question = TransplantQuestion(
        circumstances=circumstances,
        jobs=more["jobs"],
        topic_id=more["topic_id"],
        log_dir=log_dir,
        topic=more["topic"],
        partition=more["partition"],
        keep_producers=more["keep_producers"],
        check=more["check"],
        forget_open=more["forget_open"],
        in_place=in_place,
    )
    plans: list[Plan] = []

    def text_of(plan: Plan) -> str:
        if not plan.answer:
            return plan_text(plan)
        plans.append(plan)
        told = "" if carries_out or more["quiet"] else f"\n{CHECKED if more['check'] else NOTHING_WRITTEN}"
        return transplant_text(plan) + told

    def next_steps() -> Iterator[str]:
        for plan in plans:
            yield from place_lines(plan.answer, more["output"], log_dir)

    return decide_and_carry_out(COMMAND, [partition_dir], question, chosen, text_of=text_of, next_steps=next_steps)
