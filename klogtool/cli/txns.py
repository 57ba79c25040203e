"""klogtool txns."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import click

from klogtool.broker.circumstances import Checkpoints, Circumstances, is_log_dir
from klogtool.broker.releases import Release
from klogtool.broker.unified_log.loaded_partition import LoadedPartition
from klogtool.broker.unified_log.log_transactions import Status, Transaction, TransactionState
from klogtool.cli import circumstance_options, options
from klogtool.cli.loading import load_and_tell
from klogtool.cli.output import Output, error_lines
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import is_refusal
from klogtool.cli.writing_options import header, output_format
from klogtool.errors import KlogError
from klogtool.json_rows import row_line
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.render.counts import count_text
from klogtool.render.lookup import refusal_row
from klogtool.render.txns import closing_text, state_row, state_text, transaction_row, transaction_text

COMMAND = "txns"


@click.command(COMMAND)
@click.argument("path", metavar="PATH")
@output_format
@options.jobs
@options.verbose
@options.quiet
@circumstance_options.circumstances
@options.debug
def command(path: str, form: str, circumstances: Circumstances, **chosen: Any) -> int:
    """List the transactions of a partition dir or of a whole log dir, and the state of producers as a broker has it.

    klogtool loads each partition as a broker would load it, then reads all of it. It writes nothing.

    Exit status: 0 done; 1 damage was met, or a broker refuses to load a partition; 2 wrong usage, no such path; 4 a
    file could not be read.
    """
    opened = open_path(path)
    paths = [found.path for found in opened.partitions] if isinstance(opened, LogDir) else [path]
    of_log_dir = Checkpoints(path if is_log_dir(path) else None) if isinstance(opened, LogDir) else None
    show = _Show(form, of_log_dir, is_verbose=chosen["verbose"], kafka=circumstances.kafka)
    for partition in paths:
        show.partition(partition, circumstances, chosen)
    show.close()
    return FOUND if show.is_damaged else DONE


class _Show:
    """Partition after partition."""

    def __init__(self, form: str, checkpoints: Checkpoints | None, *, is_verbose: bool, kafka: Release) -> None:
        """checkpoints: of the log dir, if all of its partitions are shown."""
        self.out, self.json, self.is_damaged = Output(), form == "json", False
        self._checkpoints, self._is_verbose, self._without = checkpoints, is_verbose, 0
        self._with_path, self._kafka = checkpoints is not None, kafka
        if self.json:
            self.out.line(row_line(header(COMMAND)))

    def partition(self, path: str, circumstances: Circumstances, chosen: Mapping[str, Any]) -> None:
        """One of them. Raises KlogError where we could not go on."""
        beside = {"path": path} if self._with_path else {}
        try:
            loaded = load_and_tell(path, circumstances, chosen, self._checkpoints)
            state = loaded.transaction_state()
            if self.json:
                for txn in self._walk(loaded):
                    self.out.line(row_line({**transaction_row(txn), **beside}))
                self._answer(beside | state_row(state))
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

    def _text(self, path: str, loaded: LoadedPartition, state: TransactionState) -> None:
        """The transactions; a partition that has none, one of many, is only counted."""
        transactions, counts = self._walk(loaded), Counter[Status]()
        first = next(transactions, None)
        is_brief = self._with_path and not self._is_verbose
        if first is None and is_brief and state.last_stable_offset == state.high_watermark:
            self._without += 1
            return
        if self._with_path:
            self.out.line(f"{path}:")
        self.out.text(state_text(state))
        for txn in itertools.chain((first,), transactions) if first is not None else ():
            counts[txn.status] += 1
            self.out.line("  " + transaction_text(txn))
        self.out.line(closing_text(counts, len(state.producers)))

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
        self.out.line(row_line({"type": "answer", "command": COMMAND, **row, "kafka": self._kafka}))
