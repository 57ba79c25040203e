"""drop-producer: removes one producer from the producer snapshots of a partition, and says what that exposes.

The usual way out of a broken producer state is to delete all snapshots, which forgets every producer. Here one producer
goes and the others stay. The next start of a broker is played before and after: if it would find the producer again in
the log (LogLoader, UnifiedLog.rebuildProducerState), the plan is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints, LoadTerms, Long, terms_of
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import facts_of
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_transactions import Status, transaction_state, walk_transactions
from klogtool.broker.unified_log.producer_snapshots import SnapshotNames
from klogtool.causes import Reason
from klogtool.errors import AtPath, Corrupt, Refused
from klogtool.format.producer_snapshot import build_producer_snapshot, parse_producer_snapshot
from klogtool.kernels import crc32c
from klogtool.log.opened import open_partition_dir
from klogtool.parameters import parameter
from klogtool.plans.causes import PlanNote, PlanRefusal
from klogtool.plans.plan import Plan, Write
from klogtool.plans.question import Question
from klogtool.plans.results import Result
from klogtool.verify.cures import recover

COMMAND = "drop-producer"


class DropProducerQuestion(Question, frozen=True, kw_only=True):
    """Which producer goes?"""

    producer_id: Annotated[Long, parameter("The producer to remove.")]


QUESTION = DropProducerQuestion


class DropProducerResult(Result, frozen=True):
    """What changes for readers. snapshots: names of those that have the producer. open_since: where its open
    transaction begins. visible: first and last offset of its data that becomes visible, None if there is none.
    returns_after_unclean_stop: whether a start finds it again."""

    producer_id: int
    snapshots: list[str]
    is_known: bool
    open_since: int | None
    visible: list[int | None] | None
    last_stable_offset_before: int
    last_stable_offset: int
    returns_after_unclean_stop: bool


def decide(path: str, question: DropProducerQuestion) -> Iterator[Plan]:
    """Plan for one partition dir.

    Raises Refused if the next start of a broker would find the producer again; Corrupt, Refused or Unsupported, with
    Kafka's class, if a broker refuses to load the partition; KlogError for what is not a partition dir.
    """
    open_partition_dir(path)
    with AtPath(path):
        yield _planned(path, question, terms_of(path, question.circumstances, checkpoints=Checkpoints.beside(path)))


def _planned(path: str, question: DropProducerQuestion, terms: LoadTerms) -> Plan:
    draft, jobs, producer_id = Draft.of(path), question.threads, question.producer_id
    facts = facts_of(draft)
    changed, notes = _snapshots_without(draft, producer_id)
    before, after = (LoadedLog(_draft_with(path, some), terms, jobs) for some in ({}, changed))
    if producer_id in after.producers.producers:
        raise _comes_back(path, after, producer_id)
    known = before.producers.producers.get(producer_id)
    since = None if known is None else known.current_txn_first_offset
    result = DropProducerResult(
        producer_id,
        list(changed),
        known is not None,
        since,
        None if since is None else _data_of(after, producer_id),
        transaction_state(before).last_stable_offset,
        transaction_state(after).last_stable_offset,
        producer_id in _after_unclean_stop(path, changed, terms, jobs),
    )
    steps = tuple(Write(name, (data,)) for name, data in changed.items())
    return Plan(COMMAND, path, question, facts, steps, (), result, (*terms.notes, *notes))


def _snapshots_without(draft: Draft, producer_id: int) -> tuple[dict[str, bytes], list[Reason]]:
    """Return the new bytes of each snapshot that has the producer, by name, and notes about those that are left
    alone."""
    changed, notes, known = dict[str, bytes](), list[Reason](), SnapshotNames(draft)
    for name in map(known.name_of, known.offsets):
        try:
            entries = parse_producer_snapshot(draft.read(name), crc32c)
        except Corrupt as error:
            notes.append(PlanNote.SNAPSHOT_STAYS(file=name, error=error.reason))
            continue
        kept = [entry for entry in entries if entry.producer_id != producer_id]
        if len(kept) < len(entries):
            changed[name] = build_producer_snapshot(kept, crc32c)
    return changed, notes


def _draft_with(path: str, changed: dict[str, bytes]) -> Draft:
    draft = Draft.of(path)
    for name, data in changed.items():
        draft.write(name, data)
    return draft


def _after_unclean_stop(path: str, changed: dict[str, bytes], terms: LoadTerms, jobs: int) -> set[int]:
    """Return the producers that a broker knows if its next stop is unclean, before it has written anything."""
    if not terms.is_clean:
        return set()  # that start was played
    log = LoadedLog(_draft_with(path, changed), replace(terms, is_clean=False, has_marker=False), jobs)
    return set(log.producers.producers)


def _comes_back(path: str, log: LoadedLog, producer_id: int) -> Refused:
    known = log.producers.producers[producer_id]
    since = log.report.recovered[0] if log.report.recovered else log.producers.loaded_from
    why = PlanRefusal.RECOVERS() if log.report.recovered else PlanRefusal.READS()
    return Refused(
        PlanRefusal.FOUND_AGAIN(producer=producer_id, why=why, since=since or 0, last=known.last_data_offset),
        path=path,
        cure=PlanRefusal.SNAPSHOT_FIRST(recover=recover(path)),
    )


def _data_of(log: LoadedLog, producer_id: int) -> list[int | None] | None:
    """Return first and last offset of the open transaction's data in the log; None if they are gone."""
    for txn in walk_transactions(log):
        if txn.status is Status.OPEN and txn.producer_id == producer_id:
            return [txn.first_offset, txn.last_offset]
    return None
