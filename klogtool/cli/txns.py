"""klogtool txns."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import click

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.coordinator.coordinators import Coordinators, clusters_of, find_coordinators
from klogtool.broker.coordinator.open_transactions import OpenTransaction, find_open
from klogtool.broker.unified_log.loaded_partition import LoadedPartition
from klogtool.broker.unified_log.log_transactions import Status, Transaction, TransactionState
from klogtool.cli import commands, options, question_options
from klogtool.cli.loading import load_and_tell
from klogtool.cli.output import Output, error_lines, note
from klogtool.cli.show import header, is_refusal
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.txns_audit import run_audit
from klogtool.errors import KlogError
from klogtool.json_rows import row_line
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.render.counts import count_text
from klogtool.render.lookup import refusal_row
from klogtool.render.txns import (
    closing_text,
    open_row,
    open_text,
    partition_of,
    state_row,
    state_text,
    transaction_row,
    transaction_text,
)

COMMAND = "txns"


@commands.command(COMMAND)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--transaction-state",
    multiple=True,
    metavar="PATH",
    help="Also read __transaction_state in this log dir, or this partition dir of it. Repeatable.",
)
@click.option("--audit", is_flag=True, help="Find transactions that were torn, lost or wrongly ended.")
@options.output_format()
@options.jobs
@options.quiet
@question_options.circumstances
@options.debug
def command(paths: tuple[str, ...], form: str, circumstances: Circumstances, **chosen: Any) -> int:
    """List the transactions of partition dirs or of whole log dirs, and the state of producers as a broker has it.

    klogtool loads each partition as a broker would load it, then reads all of it. It writes nothing. It joins open
    transactions with the __transaction_state of the same log dirs, and says who will end them.

    With --audit, klogtool compares all partitions of the PATHs and what the coordinators decided. Several log dirs of
    one cluster may be given.

    \b
    Examples:
      klogtool txns LOGDIR
      klogtool txns --audit LOGDIR LOGDIR

    Exit status: 0 done; 1 damage was met, a broker refuses to load a partition, or --audit found something; 2 wrong
    usage, no such path; 4 a file could not be read.
    """
    clusters = clusters_of([*paths, *chosen["transaction_state"]])
    if len(clusters) > 1:
        raise click.UsageError(f"The paths are of several clusters: {', '.join(clusters)}. Give those of one cluster.")
    if chosen["audit"]:
        return run_audit(paths, form, circumstances, chosen)
    found = [(path, open_path(path)) for path in paths]
    coordinators = _AtHand([*paths, *chosen["transaction_state"]], circumstances, chosen)
    is_one = len(paths) == 1 and not isinstance(found[0][1], LogDir)
    show = _Show(form, coordinators, is_one=is_one, is_verbose=chosen["verbose"], circumstances=circumstances)
    for path, opened in found:
        if isinstance(opened, LogDir):
            checkpoints = Checkpoints.of(path)
            for partition in opened.partitions:
                show.partition(partition.path, chosen, checkpoints)
        else:
            show.partition(path, chosen, None)
    show.close()
    return FOUND if show.is_damaged else DONE


class _AtHand:
    """The coordinators of some paths, loaded when the first open transaction asks for them."""

    def __init__(self, paths: Sequence[str], circumstances: Circumstances, chosen: Mapping[str, Any]) -> None:
        """Raises KlogError if one of --transaction-state is no log dir and no partition dir."""
        for path in chosen["transaction_state"]:
            open_path(path)
        self._paths, self._circumstances, self._chosen = paths, circumstances, chosen

    @cached_property
    def coordinators(self) -> Coordinators:
        """Load them. What could not be loaded is told."""
        found = find_coordinators(self._paths, self._circumstances, self._chosen["jobs"])
        if not self._chosen["quiet"]:
            for error in found.problems:
                note(*error_lines(error), "klogtool: its transactional ids are not known")
        return found


class _Show:
    """Partition after partition."""

    def __init__(
        self, form: str, at_hand: _AtHand, *, is_one: bool, is_verbose: bool, circumstances: Circumstances
    ) -> None:
        """is_one: only one partition is asked for, so its path need not be told."""
        self.out, self.json, self.is_damaged = Output(), form == "json", False
        self._at_hand, self._is_verbose, self._without = at_hand, is_verbose, 0
        self._with_path, self._circumstances = not is_one, circumstances
        if self.json:
            self.out.line(row_line(header(COMMAND)))

    def partition(self, path: str, chosen: Mapping[str, Any], checkpoints: Checkpoints | None) -> None:
        """One of them. checkpoints: of its log dir, if all of its partitions are shown. Raises KlogError where we could
        not go on."""
        beside = {"path": path} if self._with_path else {}
        try:
            loaded = load_and_tell(path, self._circumstances, chosen, checkpoints)
            state = loaded.transaction_state()
            if self.json:
                self._rows(loaded, state, beside)
            else:
                self._text(path, loaded, state)
        except KlogError as error:
            if not is_refusal(error):
                raise
            self._refused(error, beside)

    def close(self) -> None:
        """What is to be said of partitions that were passed over."""
        if self._without:
            self.out.line(f"{count_text(self._without, 'partition')} without transactions (-v names them)")
        self.out.flush()

    def _rows(self, loaded: LoadedPartition, state: TransactionState, beside: Mapping[str, Any]) -> None:
        undecided: list[Transaction] = []
        for txn in self._ended(loaded, undecided):
            self.out.line(row_line({**transaction_row(txn), **beside}))
        for one in self._judged(loaded, state, undecided):
            self.out.line(row_line({**open_row(one, partition_of(loaded)), **beside}))
        self._answer({**beside, **state_row(state)})

    def _text(self, path: str, loaded: LoadedPartition, state: TransactionState) -> None:
        """The transactions; a partition that has none, one of many, is only counted."""
        undecided: list[Transaction] = []
        transactions, counts = self._ended(loaded, undecided), Counter[Status]()
        first = next(transactions, None)
        is_brief = self._with_path and not self._is_verbose
        if first is None and not undecided and is_brief and state.last_stable_offset == state.high_watermark:
            self._without += 1
            return
        if self._with_path:
            self.out.line(f"{path}:")
        self.out.text(state_text(state))
        for txn in itertools.chain((first,), transactions) if first is not None else ():
            counts[txn.status] += 1
            self.out.line("  " + transaction_text(txn))
        for one in self._judged(loaded, state, undecided):
            counts[Status.OPEN] += 1
            self.out.text(open_text(one, partition_of(loaded), self._at_hand.coordinators))
        self.out.line(closing_text(counts, len(state.producers)))

    def _ended(self, loaded: LoadedPartition, undecided: list[Transaction]) -> Iterator[Transaction]:
        """Yield the transactions that have ended, up to damage; put the open ones into `undecided`."""
        for txn in self._walk(loaded):
            if txn.status is Status.OPEN:
                undecided.append(txn)
            else:
                yield txn

    def _judged(
        self, loaded: LoadedPartition, state: TransactionState, undecided: Sequence[Transaction]
    ) -> Iterator[OpenTransaction]:
        """Yield what is open, with who will end it. Nothing else needs the coordinators, so they are loaded only for
        it."""
        if undecided or any(known.current_txn_first_offset is not None for known in state.producers):
            known, now_ms = self._at_hand.coordinators, self._circumstances.now_ms
            yield from find_open(undecided, state.producers, partition_of(loaded), known, now_ms)

    def _walk(self, loaded: LoadedPartition) -> Iterator[Transaction]:
        """The transactions of a partition, up to damage, which is told."""
        try:
            yield from loaded.transactions()
        except KlogError as error:
            if not is_refusal(error):
                raise
            self.is_damaged = True
            self.out.note(*error_lines(error))

    def _refused(self, error: KlogError, beside: Mapping[str, Any]) -> None:
        self.is_damaged = True
        if self.json:
            self._answer({**beside, **refusal_row(error)})
        else:
            self.out.note(*error_lines(error))

    def _answer(self, row: Mapping[str, Any]) -> None:
        self.out.line(row_line({"type": "answer", "command": COMMAND, **row, "kafka": self._circumstances.kafka}))
