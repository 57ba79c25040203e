"""recover: what a broker's start, and a clean stop after it, would make of a partition dir or a log dir.

In a log dir, each partition dir that a broker would load gets its own plan, by the checkpoints and the clean marker
there. With `mark_clean` there is one more plan, for the checkpoints and the marker, but only if every batch of every
partition was read and is sound.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from klogtool.broker.circumstances import Checkpoints, terms_of
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import facts_of
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.errors import AtPath, KlogError, Refused
from klogtool.format.names import METADATA_TOPIC, FileKind
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.partition import Partition
from klogtool.plans.checkpoint_lines import lines_of
from klogtool.plans.loading_steps import order_steps
from klogtool.plans.plan import Plan
from klogtool.plans.recover_answer import recovery_notes, recovery_of, recovery_verdicts
from klogtool.plans.recover_log_dir import RecoverQuestion, plan_log_dir, walk_lowered
from klogtool.plans.recover_result import Recovery

COMMAND = "recover"


QUESTION = RecoverQuestion


def decide(path: str, question: RecoverQuestion) -> Iterator[Plan]:
    """Yield a plan for each partition dir; with `mark_clean` one more, for the log dir.

    Raises Corrupt, Refused or Unsupported, with Kafka's class, if a broker refuses to load; other KlogErrors for what
    is neither a log dir nor a partition dir, or cannot be read.
    """
    opened = open_path(path)
    if isinstance(opened, Partition):
        log, plan, _ = recover_partition(path, question)
        yield plan
        log_dir, lines = Checkpoints.beside(path).log_dir, lines_of(log)
        if log_dir is not None and lines is not None:
            yield from walk_lowered(log_dir, question, {lines.topic_partition: lines.log_end_offset})
    elif isinstance(opened, LogDir):
        yield from plan_log_dir(path, question, recover_partition)
    else:
        raise KlogError("neither a partition dir nor a log dir", path=path)


def recover_partition(
    path: str,
    question: RecoverQuestion,
    checkpoints: Checkpoints | None = None,
    threads: int | None = None,
    *,
    passes_over_links: bool = False,
) -> tuple[LoadedLog, Plan, Recovery]:
    """Return the loaded and stopped log, the plan that makes it so, and its answer.

    threads: default: those of the question. passes_over_links: see `Draft.of`; the plan is not to be carried out then.
    """
    beside = checkpoints or Checkpoints.beside(path)
    terms = terms_of(path, question.circumstances, clean_by_default=False, checkpoints=beside)
    draft = Draft.of(path, passes_over_links=passes_over_links)
    facts = facts_of(draft)
    with AtPath(path):
        log = LoadedLog(draft, terms, jobs=threads or question.threads)
        log.stop()
    topic = Partition(path).topic
    is_known = beside.log_dir is None or topic is None or beside.cluster.knows(topic)
    recovery = recovery_of(log, why_stray(path, beside), is_topic_known=is_known)
    plan = Plan(
        COMMAND,
        path,
        question,
        facts,
        order_steps(draft, log.report),
        recovery_verdicts(log),
        recovery,
        (*terms.notes, *recovery_notes(log)),
    )
    return log, plan, recovery


def check_mark_clean(path: str) -> None:
    """Raises KlogError unless the path is a log dir: nothing else has a clean marker."""
    if not isinstance(open_path(path), LogDir):
        raise Refused("not a log dir: only a whole log dir can be marked clean", path=path)


# Whether a broker treats a partition as stray at its start: it renames the folder, and creates an empty partition.


def why_stray(path: str, beside: Checkpoints) -> str | None:
    """Return why a broker does so with the partition dir `path`, or None if nothing shows that. beside: checkpoints of
    its log dir.

    A partition of a topic that the cluster no longer knows is stray too: this is how a topic goes that was deleted
    while the broker was down. That is reported in a note.
    """
    name = find_partition_dir_name(own_name(path))
    if name is None or not name.state.is_live or name.topic == METADATA_TOPIC or beside.log_dir is None:
        return None
    if os.path.exists(os.path.join(path, FileKind.PARTITION_METADATA.value)) or not beside.knows_topic_ids:
        return None
    return "it has no partition.metadata, so a broker renames it and creates an empty partition"
