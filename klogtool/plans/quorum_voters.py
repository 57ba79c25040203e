"""quorum --voters, --standalone: a new set of voters, written at the end of the most complete copy of the metadata log.

What is chosen, and when it is refused: klogtool/quorum/new_voters.py. Here it becomes a batch of control records, in an
epoch of its own, that is appended as a follower appends it. So no copy has other bytes at that epoch and offset, and
every other copy is cut where it parts from this one (KafkaRaftClient). `quorum-state` gets the epoch as well: it is
above all others, so that nobody follows an old leader any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from klogtool.broker.appending.appender import Appender, Call, NotAppended
from klogtool.broker.circumstances import Checkpoints, terms_of
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import Fact, facts_of, file_fact
from klogtool.broker.releases import rules_of
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.errors import Refused
from klogtool.format.batch import BatchOrigin, Record, build_batch
from klogtool.format.control import ControlRecordType, build_control_key
from klogtool.format.control_values import build_control_value
from klogtool.format.identity import QuorumState, build_quorum_state
from klogtool.format.internal.schema import Values
from klogtool.format.kraft_snapshot import build_snapshot
from klogtool.format.names import (
    KINDS_OF_LOG,
    FileKind,
    KraftSnapshotName,
    build_file_name,
    build_kraft_snapshot_name,
    parse_file_name,
)
from klogtool.parameters import Unit, parameter
from klogtool.plans.causes import PlanRefusal
from klogtool.plans.plan import Delete, Plan, SegmentVerdict, Step, Write
from klogtool.plans.plan_change import Change, plan_draft, settle
from klogtool.plans.question import PathText, Question
from klogtool.plans.results import ChangeResult, LogState
from klogtool.quorum.controllers import Controller, read_controller, walk_metadata_values
from klogtool.quorum.metadata_copies import CopyTail
from klogtool.quorum.new_voters import NewVoters, Wish, choose_new_voters, parse_voters

COMMAND = "quorum"
NodeId: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]


class VotersQuestion(Question, frozen=True, kw_only=True):
    """Who is to vote? copies: the log dirs at hand; settings: of the server.properties of each, None where it is not
    known."""

    voters: Annotated[
        PathText | None,
        parameter(
            "Write a new set of voters: those, each with where it listens. The directory id is that of its log dir, or "
            "as it was.",
            Unit.TEXT,
            metavar="ID@HOST:PORT[:DIR-ID],...",
        ),
    ] = None
    standalone: Annotated[
        bool, parameter("Write a new set of voters: only the controller that has the most complete copy.")
    ] = False
    destroyed: Annotated[
        tuple[NodeId, ...],
        parameter("A voter whose disk can never start again: wiped, destroyed, or renamed. Repeatable.", metavar="ID"),
    ] = ()
    accept_loss: Annotated[bool, parameter("Accept that what only a lost disk has is lost.")] = False
    static: Annotated[
        bool,
        parameter("Make the quorum static again: controller.quorum.voters is to name the only voter."),
    ] = False
    controller_listener: Annotated[
        PathText | None, parameter("The listener of --voters.  [default: as it was]", Unit.TEXT, metavar="NAME")
    ] = None
    copies: tuple[PathText, ...] = ()
    settings: tuple[Mapping[str, str] | None, ...] = ()

    @property
    def wish(self) -> Wish:
        """Return what is wished. Raises ValueError for voters of the wrong form."""
        return Wish(
            voters=() if self.voters is None else parse_voters(self.voters),
            destroyed=frozenset(self.destroyed),
            accepts_loss=self.accept_loss,
            listener=self.controller_listener,
            is_static=self.static,
        )


QUESTION = VotersQuestion


class VoterResult(Struct, frozen=True):
    """A new voter. endpoints: `NAME://HOST:PORT`."""

    id: int
    directory_id: str
    endpoints: list[str]


class VotersResult(ChangeResult, frozen=True):
    """A new set of voters. kraft_version: 0 if the settings are to name them. offset, epoch: of the first record that
    is written; of a snapshot, its end. was: ids of the voters before. leader: whether the new voters that are here
    elect one. may_end: node ids of those that others may end before.

    unseen: ids of old voters without a copy here. may_lose: whether they may have committed records that no copy here
    has. unseen_epoch: an epoch that had a leader, and of which no copy here has a record. not_taken: what other copies
    end with, and a later epoch went on without. gone_already: offsets that a copy here had once, and none has any more.
    """

    node_id: int
    cluster_id: str | None
    kraft_version: int
    voters: list[VoterResult]
    was: list[int]
    was_dynamic: bool
    offset: int
    epoch: int
    leader: str
    may_end: list[int]
    unseen: list[int]
    may_lose: bool
    unseen_epoch: int | None
    not_taken: list[CopyTail]
    gone_already: list[tuple[int, int]]


def decide(path: str, question: VotersQuestion) -> Iterator[Plan]:
    """Plan for the metadata log of the best copy. path: does not matter; the question has the log dirs.

    Raises Refused wherever a new set of voters could do harm, see choose_new_voters; KlogError for what cannot be read.
    """
    paths = question.copies or (path,)
    settings = (*question.settings, *[None] * len(paths))[: len(paths)]
    rules = rules_of(question.circumstances.kafka)
    try:
        wish = question.wish
    except ValueError as error:
        raise Refused(str(error)) from None
    facts = {each: list(_facts(each)) for each in paths}  # before anything is read
    controllers = [read_controller(each, own, rules) for each, own in zip(paths, settings, strict=True)]
    new_voters = choose_new_voters(controllers, wish)
    own = new_voters.controller.path
    folder = os.path.join(own, CLUSTER_METADATA_DIR)
    of_others = tuple(fact for each in paths if each != own for fact in facts[each])
    draft = Draft.of(folder)
    own_facts = (*facts_of(draft), *(fact for fact in facts[own] if os.path.dirname(fact.path) == own))
    all_facts = (*own_facts, *of_others)
    if question.static:
        yield _plan_static(new_voters, question, draft, all_facts)
        return
    if new_voters.controller.log.is_behind_snapshot or not _has_log_at(draft, new_voters.offset):
        _begin_at(draft, new_voters.offset)
    terms = terms_of(folder, question.circumstances, checkpoints=Checkpoints.beside(folder))
    plan, _ = plan_draft(
        COMMAND,
        question,
        draft,
        all_facts,
        terms,
        lambda log: _change(log, new_voters, question.circumstances.now_ms),
    )
    yield replace(plan, notes=())  # those of a broker's partition say nothing about this one


def _plan_static(new_voters: NewVoters, question: VotersQuestion, draft: Draft, facts: tuple[Fact, ...]) -> Plan:
    """Plan a snapshot of all metadata without voters, in place of the log. A snapshot in a higher epoch is loaded, and
    the log before it thrown away (KafkaRaftLog.truncateToLatestSnapshot). Kafka has no way to lower kraft.version."""
    values = walk_metadata_values(draft.path)
    data = b"".join(build_snapshot(values, epoch=new_voters.epoch, timestamp_ms=question.circumstances.now_ms))
    name = build_kraft_snapshot_name(KraftSnapshotName(new_voters.offset, new_voters.epoch))
    kinds = (*KINDS_OF_LOG, FileKind.QUORUM_STATE)
    gone = [file.name for file in map(parse_file_name, draft.names()) if file.kind in kinds and not file.suffix]
    steps: tuple[Step, ...] = (
        Write(name, (data,)),
        *map(Delete, gone),
    )  # the snapshot first: it has all that the log has
    result = _result(new_voters, LogState(new_voters.offset, new_voters.offset, None), is_static=True)
    return Plan(COMMAND, draft.path, question, facts, steps, (), result)


def _facts(log_dir: str) -> Iterator[Fact]:
    """Yield what the choice relies on, with absolute paths."""
    metadata = os.path.join(log_dir, CLUSTER_METADATA_DIR)
    if os.path.isdir(metadata):
        yield from (fact.below(metadata) for fact in facts_of(Draft.of(metadata)))
    draft, name = Draft.of(log_dir), FileKind.META_PROPERTIES.value
    if name in draft:
        yield file_fact(name, draft.files[name]).below(log_dir)


def _has_log_at(draft: Draft, end: int) -> bool:
    """Return whether the last segment can go on at this offset: it has batches up to there, or is empty there."""
    logs = [file for file in map(parse_file_name, draft.names()) if file.kind is FileKind.LOG and not file.suffix]
    last = max(logs, key=lambda file: file.base_offset or 0, default=None)
    return last is not None and (draft.size(last.name) > 0 or last.base_offset == end)


def _begin_at(draft: Draft, end: int) -> None:
    """Throw the log away, as a start does with one that its newest snapshot is ahead of
    (KafkaRaftLog.truncateToLatestSnapshot): it begins anew where the snapshot ends."""
    for file in map(parse_file_name, draft.names()):
        if file.kind in KINDS_OF_LOG and not file.suffix:
            draft.delete(file.name)
    draft.write(build_file_name(FileKind.LOG, end), b"")


def _change(log: LoadedLog, new_voters: NewVoters, now_ms: int) -> Change:
    batch = _batch(new_voters, now_ms)
    reply = Appender(log).reply(Call((batch,), True, new_voters.epoch, now_ms))
    if isinstance(reply, NotAppended):
        raise Refused(PlanRefusal.NOT_APPENDED(why=reply.error.message), path=log.draft.path)
    state = QuorumState(1, leader_epoch=new_voters.epoch)
    log.draft.write(FileKind.QUORUM_STATE.value, build_quorum_state(state))
    verdict = SegmentVerdict(log.segments.last.base_offset, "append", f"{len(batch):,} bytes more")
    return Change(_result(new_voters, settle(log)), (verdict,))


def _batch(new_voters: NewVoters, now_ms: int) -> bytes:
    """Build the batch: kraft.version as well, because a record of voters counts only with it."""
    values: tuple[tuple[ControlRecordType, Values], ...] = (
        (ControlRecordType.KRAFT_VERSION, {"kRaftVersion": 1}),
        (ControlRecordType.KRAFT_VOTERS, {"voters": [voter.as_record() for voter in new_voters.voters]}),
    )
    records = [
        Record(new_voters.offset + n, now_ms, build_control_key(kind), build_control_value(kind, value))
        for n, (kind, value) in enumerate(values)
    ]
    return build_batch(records, BatchOrigin(is_control=True, partition_leader_epoch=new_voters.epoch))


def _result(new_voters: NewVoters, state: LogState, *, is_static: bool = False) -> VotersResult:
    controller: Controller = new_voters.controller
    return VotersResult(
        controller.node_id or 0,
        controller.cluster_id,
        0 if is_static else 1,
        [
            VoterResult(voter.id, voter.directory_id, [f"{one.name}://{one.address}" for one in voter.endpoints])
            for voter in new_voters.voters
        ],
        [voter.id for voter in new_voters.old_voters],
        controller.is_dynamic,
        new_voters.offset,
        new_voters.epoch,
        new_voters.outcome.value,
        list(new_voters.may_end),
        list(new_voters.unseen),
        new_voters.may_lose,
        new_voters.unseen_epoch,
        list(new_voters.tails),
        [] if new_voters.gone is None else [new_voters.gone],
        state=state,
    )
