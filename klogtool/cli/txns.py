"""klogtool txns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.loading import load_and_tell
from klogtool.cli.output import Output, error_line
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import is_refusal
from klogtool.cli.writing_options import header, output_format
from klogtool.errors import KlogError
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.render.findings import row_line
from klogtool.render.lookup import refusal_row
from klogtool.render.txns import closing_text, state_row, state_text, transaction_row, transaction_text
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.unified_log.loaded import LoadedPartition
from klogtool.repair.unified_log.transactions import Status

COMMAND = "txns"


@click.command(COMMAND)
@click.argument("path", metavar="PATH")
@output_format
@options.jobs
@options.quiet
@options.circumstances
@options.debug
def command(path: str, form: str, given: Circumstances, **chosen: Any) -> int:
    """List the transactions of a partition dir, or of all in a log dir; and what a broker knows of producers.

    Each partition is loaded as a broker would load it, and then read whole. Nothing is written.

    Exit status: 0 done; 1 damage was met, or a broker refuses to load one; 2 wrong usage, no such path; 4 a file could
    not be read.
    """
    opened = open_path(path)
    paths = [found.path for found in opened.partitions] if isinstance(opened, LogDir) else [path]
    show = _Show(form, with_path=isinstance(opened, LogDir))
    for partition in paths:
        show.partition(partition, given, chosen)
    show.out.flush()
    return FOUND if show.is_damaged else DONE


class _Show:
    """Partition after partition."""

    def __init__(self, form: str, *, with_path: bool) -> None:
        self.out, self.json, self.is_damaged = Output(), form == "json", False
        self._with_path = with_path
        if self.json:
            self.out.line(row_line(header(COMMAND)))

    def partition(self, path: str, given: Circumstances, chosen: Mapping[str, Any]) -> None:
        """One of them. Raises KlogError where we could not go on."""
        beside = {"path": path} if self._with_path else {}
        if self._with_path and not self.json:
            self.out.line(f"{path}:")
        try:
            loaded = load_and_tell(path, given, chosen)
            state = loaded.transaction_state()
            if not self.json:
                self.out.line(state_text(state))
            counts = self._transactions(loaded, beside)
            if self.json:
                self._answer(beside | state_row(state))
            else:
                self.out.line(closing_text(counts, len(state.producers)))
        except KlogError as error:
            if not is_refusal(error):
                raise
            self._refused(error, beside)

    def _transactions(self, loaded: LoadedPartition, beside: Mapping[str, Any]) -> Counter[Status]:
        """Those of a partition, up to damage, which is told."""
        counts: Counter[Status] = Counter()
        try:
            for txn in loaded.transactions():
                counts[txn.status] += 1
                self.out.line(
                    row_line({**transaction_row(txn), **beside}) if self.json else "  " + transaction_text(txn)
                )
        except KlogError as error:
            if not is_refusal(error):
                raise
            self.is_damaged = True
            self.out.note(error_line(error))
        return counts

    def _refused(self, error: KlogError, beside: Mapping[str, Any]) -> None:
        self.is_damaged = True
        if self.json:
            self._answer({**beside, **refusal_row(error)})
        else:
            self.out.note(error_line(error))

    def _answer(self, row: Mapping[str, Any]) -> None:
        self.out.line(row_line({"type": "answer", "command": COMMAND, **row}))
