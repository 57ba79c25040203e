"""klogtool txns."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated

import click
from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.coordinator.audit import audit as find_anomalies
from klogtool.broker.coordinator.coordinators import Coordinators, clusters_of, find_coordinators
from klogtool.broker.coordinator.open_transactions import OpenTransaction, find_open
from klogtool.broker.coordinator.transaction_parts import PartitionParts, read_parts
from klogtool.broker.unified_log.loaded_partition import LoadedPartition
from klogtool.broker.unified_log.log_transactions import LogTransactions, Status, Transaction
from klogtool.cli import commands, options
from klogtool.cli.loading import load_and_tell
from klogtool.cli.output import error_lines, note
from klogtool.cli.question_options import question_options
from klogtool.cli.show import ReadingOptions, Row, Show, is_refusal
from klogtool.cli.status import COULD_NOT, DONE, FOUND
from klogtool.errors import KlogError
from klogtool.format.names import TRANSACTIONS_TOPIC
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.log.second_reading import has_changed
from klogtool.parameters import Unit, parameter
from klogtool.render.txns import (
    audit_closing,
    audit_row,
    audit_text,
    closing_text,
    open_row,
    open_text,
    partition_of,
    state_row,
    state_text,
    transaction_row,
    transaction_text,
)
from klogtool.render.words import count_text

COMMAND = "txns"


class TxnsQuestion(Struct, frozen=True, kw_only=True):
    """Which transactions are looked at, and how."""

    circumstances: Circumstances
    transaction_state: Annotated[
        tuple[str, ...],
        parameter(
            "Also read __transaction_state in this log dir, or this partition dir of it. Repeatable.",
            Unit.FOLDER,
            metavar="PATH",
        ),
    ] = ()
    audit: Annotated[bool, parameter("Find transactions that were torn, lost or wrongly ended.")] = False


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@question_options(TxnsQuestion)
@options.reading()
def command(paths: tuple[str, ...], question: TxnsQuestion, reading: ReadingOptions) -> int:
    """List the transactions of partition dirs or of whole log dirs, and the state of producers as a broker has it.

    klogtool loads each partition as a broker would load it, then reads all of it. It writes nothing. It joins open
    transactions with the __transaction_state of the same log dirs, and says who will end them.

    With --audit, klogtool compares all partitions of the PATHs and what the coordinators decided. Several log dirs of
    one cluster may be given.

    \b
    Examples:
      klogtool txns LOGDIR
      klogtool txns --audit LOGDIR LOGDIR

    Exit status: 0 done; 1 damage was met, a broker refuses to load a partition, a coordinator that is needed cannot
    read its log, or --audit found something; 2 wrong usage, no such path; 4 a file could not be read, or a partition
    changed all the time and was left out.
    """
    clusters = clusters_of([*paths, *question.transaction_state])
    if len(clusters) > 1:
        raise click.UsageError(f"The paths are of several clusters: {', '.join(clusters)}. Give those of one cluster.")
    if question.audit:
        return _audit(paths, question, reading)
    opened = [(path, open_path(path)) for path in paths]
    for path in question.transaction_state:
        open_path(path)
    show = _TxnsShow(paths, question, reading, is_one=len(paths) == 1 and not isinstance(opened[0][1], LogDir))
    for path, log_dir in opened:
        if isinstance(log_dir, LogDir):
            checkpoints = Checkpoints.of(path)
            for partition in log_dir.partitions:
                show.partition(partition.path, checkpoints)
        else:
            show.partition(path, None)
    show.close()
    if not show.is_whole:
        return COULD_NOT
    return FOUND if show.refused else DONE


class _TxnsShow(Show):
    """Partition after partition."""

    def __init__(self, paths: Sequence[str], question: TxnsQuestion, reading: ReadingOptions, *, is_one: bool) -> None:
        """is_one: only one partition is asked for, so its path need not be told."""
        super().__init__(COMMAND, reading, kafka=question.circumstances.kafka)
        self._paths, self._question, self._reading = paths, question, reading
        self._with_path, self._without, self.is_whole = not is_one, 0, True

    @cached_property
    def coordinators(self) -> Coordinators:
        """The coordinators of the paths: loaded when the first open transaction asks for them. What could not be loaded
        is noted."""
        paths = [*self._paths, *self._question.transaction_state]
        coordinators = find_coordinators(paths, self._question.circumstances, self._reading.jobs)
        self.refused |= bool(coordinators.problems)
        if not self._reading.quiet:
            for error in coordinators.problems:
                note(*error_lines(error), "klogtool: its transactional ids are not known")
        return coordinators

    def partition(self, path: str, checkpoints: Checkpoints | None) -> None:
        """Show one of them. checkpoints: of its log dir, if all of its partitions are shown. Raises KlogError where we
        could not go on; one of several that changes all the time is left out."""
        beside: Row = {"path": path} if self._with_path else {}
        with self.refusals(beside), self._left_out():
            loaded = load_and_tell(path, self._question.circumstances, self._reading, checkpoints)
            state = loaded.transaction_state()
            if self.json:
                undecided: list[Transaction] = []
                for txn in self._ended(loaded, undecided):
                    self.row({**transaction_row(txn), **beside})
                for one in self._judged(loaded, state, undecided):
                    self.row({**open_row(one, partition_of(loaded)), **beside})
                self.answer({**beside, **state_row(state)})
            else:
                self._text(path, loaded, state)

    @contextmanager
    def _left_out(self) -> Iterator[None]:
        try:
            yield
        except KlogError as error:
            if not (self._with_path and has_changed(error)):
                raise
            self.is_whole = False
            self.error(error)

    def close(self) -> None:
        """Say how many partitions were passed over."""
        if self._without:
            self.line(f"{count_text(self._without, 'partition')} without transactions (-v names them)")
        super().close()

    def _text(self, path: str, loaded: LoadedPartition, state: LogTransactions) -> None:
        """Show the transactions; a partition that has none, one of many, is only counted."""
        undecided: list[Transaction] = []
        transactions, counts = self._ended(loaded, undecided), Counter[Status]()
        first = next(transactions, None)
        is_brief = self._with_path and not self.screen.verbose
        if first is None and not undecided and is_brief and state.last_stable_offset == state.high_watermark:
            self._without += 1
            return
        if self._with_path:
            self.line(f"{path}:")
        self.text(state_text(state))
        for txn in itertools.chain((first,), transactions) if first is not None else ():
            counts[txn.status] += 1
            self.line("  " + transaction_text(txn))
        for one in self._judged(loaded, state, undecided):
            counts[Status.OPEN] += 1
            self.text(open_text(one, partition_of(loaded), self.coordinators))
        self.line(closing_text(counts, len(state.producers)))

    def _ended(self, loaded: LoadedPartition, undecided: list[Transaction]) -> Iterator[Transaction]:
        """Yield the transactions that have ended, up to damage, which is told; put the open ones into `undecided`."""
        try:
            for txn in loaded.transactions():
                if txn.status is Status.OPEN:
                    undecided.append(txn)
                else:
                    yield txn
        except KlogError as error:
            if not is_refusal(error):
                raise
            self.refused = True
            self.error(error)

    def _judged(
        self, loaded: LoadedPartition, state: LogTransactions, undecided: Sequence[Transaction]
    ) -> Iterator[OpenTransaction]:
        """Yield what is open, with who will end it. Nothing else needs the coordinators, so they are loaded only for
        it."""
        if undecided or any(known.current_txn_first_offset is not None for known in state.producers):
            now_ms = self._question.circumstances.now_ms
            yield from find_open(undecided, state.producers, partition_of(loaded), self.coordinators, now_ms)


# --audit.


def _audit(paths: Sequence[str], question: TxnsQuestion, reading: ReadingOptions) -> int:
    """Show what is wrong with the transactions of the paths. Returns the exit status."""
    circumstances = question.circumstances
    coordinators = find_coordinators([*paths, *question.transaction_state], circumstances, reading.jobs, with_ends=True)
    partitions, problems = _read_all(paths, circumstances, reading)
    # A partition of __transaction_state is read twice.
    for lines in {tuple(error_lines(error)): None for error in (*coordinators.problems, *problems)}:
        note(*lines)
    show, count = Show(f"{COMMAND} --audit", reading, kafka=circumstances.kafka), 0
    for count, finding in enumerate(find_anomalies(partitions, coordinators), 1):  # noqa: B007
        show.row(audit_row(finding))
        show.text(audit_text(finding))
    transactions = sum(len(partition.parts) for partition in partitions)
    answer = {"findings": count, "partitions": len(partitions), "transactions": transactions}
    known = {"coordinators": sorted(coordinators.partitions), "all_coordinators": coordinators.is_whole}
    show.answer({**answer, **known})
    at_hand = f"{count_text(len(coordinators.partitions), 'partition')} of {TRANSACTIONS_TOPIC}"
    show.line(audit_closing(count, len(partitions), transactions, at_hand))
    show.close()
    return FOUND if count or problems or coordinators.problems else DONE


def _read_all(
    paths: Sequence[str], circumstances: Circumstances, reading: ReadingOptions
) -> tuple[list[PartitionParts], list[KlogError]]:
    """Read the partitions of all paths; return also what could not be read. Raises KlogError where we could not go
    on."""
    results: list[PartitionParts] = []
    problems: list[KlogError] = []
    for path, checkpoints in _partitions(paths):
        try:
            loaded = load_and_tell(path, circumstances, reading, checkpoints)
            results.append(read_parts(loaded, partition_of(loaded)))
        except KlogError as error:
            if not is_refusal(error):
                raise
            problems.append(error)
    return results, [*problems, *(one.damage for one in results if one.damage is not None)]


def _partitions(paths: Sequence[str]) -> Iterator[tuple[str, Checkpoints | None]]:
    for path in paths:
        opened = open_path(path)
        if isinstance(opened, LogDir):
            checkpoints = Checkpoints.of(path)
            current = (one for one in opened.partitions if one.state.is_current)
            yield from ((one.path, checkpoints) for one in current)
        else:
            yield path, None
