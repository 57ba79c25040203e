"""klogtool diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options, question_options, value_options
from klogtool.cli.in_use import note_if_in_use
from klogtool.cli.output import Output, error_lines
from klogtool.cli.show import header
from klogtool.cli.status import COULD_NOT, DONE, FOUND, status_of
from klogtool.copies.pairing import Pair, find_pairs
from klogtool.copies.verdict import Verdict, judge
from klogtool.errors import KlogError
from klogtool.json_rows import row_line
from klogtool.log.cores import usable_cores
from klogtool.log.folder import own_name
from klogtool.log.in_order import in_order
from klogtool.render.diff import ONLY_IN_A, ONLY_IN_B, closing_text, diff_row, diff_text, lone_row
from klogtool.render.lookup import refusal_row

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding

COMMAND = "diff"


@commands.command(COMMAND)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--deep", is_flag=True, help="Where bytes differ, compare records, whatever their batches are.")
@value_options.decoders
@options.output_format()
@options.jobs
@options.quiet
@question_options.circumstances
@options.debug
def command(a: str, b: str, form: str, circumstances: Circumstances, **chosen: Any) -> int:
    """Compare two copies of a partition, or of all partitions of two log dirs.

    The verdict is: equal; one is a prefix of the other; they diverge at an offset, and which of them a leader keeps;
    they have the same records in different batches; or one has gaps, as after compaction. klogtool compares bytes.
    Where bytes differ, it compares headers and checksums, or records with --deep. It goes on behind damage, and says
    what it could not compare. With --key-format or --value-format, it shows records that differ. Nothing is written.

    \b
    Examples:
      klogtool diff broker-1/orders-0 broker-2/orders-0
      klogtool diff broker-1 broker-2 -v

    Exit status: 0 equal, or the same records; 1 different, or damaged; 2 wrong usage, no such path; 4 a copy could not
    be read.
    """
    if not chosen["quiet"]:
        note_if_in_use((a, b))
    with value_options.asked_for(chosen) as asked:
        status = _compare_all(a, b, circumstances, chosen, _Show(form, asked.decoding, is_verbose=chosen["verbose"]))
    return max(status, COULD_NOT) if asked.is_cut else status


def _compare_all(a: str, b: str, circumstances: Circumstances, chosen: dict[str, Any], show: _Show) -> int:
    pairs, jobs = list(find_pairs(a, b)), chosen["jobs"] or usable_cores()
    show.is_of_log_dirs = [(pair.a, pair.b) for pair in pairs] != [(a, b)]

    def compare(pair: Pair) -> Verdict | KlogError | None:
        return _compared(pair, deep=chosen["deep"], log_start=circumstances.log_start_offset)

    for pair, found in in_order(lambda: compare, iter(pairs), jobs):
        show.pair(pair, found)
    return show.close()


def _compared(pair: Pair, *, deep: bool, log_start: int | None) -> Verdict | KlogError | None:
    if pair.a is None or pair.b is None:
        return None
    try:
        return judge(pair.a, pair.b, deep=deep, log_start=log_start)
    except KlogError as error:
        return error


class _Show:
    """Pair after pair."""

    def __init__(self, form: str, values: Decoding | None = None, *, is_verbose: bool) -> None:
        self.out, self.json, self.is_of_log_dirs = Output(), form == "json", False
        self._is_verbose, self._values = is_verbose, values
        self._words, self._statuses = list[str](), {DONE}
        if self.json:
            self.out.line(row_line(header(COMMAND)))

    def pair(self, pair: Pair, found: Verdict | KlogError | None) -> None:
        """Show the answer for a pair. Raises the error of the only one."""
        if found is None:
            self._lone(pair)
        elif isinstance(found, KlogError):
            self._refused(pair, found)
        else:
            self._verdict(own_name(pair.a or ""), found)

    def _verdict(self, name: str, found: Verdict) -> None:
        self._statuses.add(DONE if found.is_alike else FOUND)
        self._words.append(found.word.value)
        if self.json:
            self._answer(diff_row(found, self._values))
        elif not found.is_alike or self._is_verbose or not self.is_of_log_dirs:
            self.out.text(diff_text(found, name, self._values))

    def _lone(self, pair: Pair) -> None:
        word = ONLY_IN_A if pair.b is None else ONLY_IN_B
        self._statuses.add(FOUND)
        self._words.append(word)
        if self.json:
            self._answer(lone_row(pair))
        else:
            self.out.line(f"{own_name(pair.a or pair.b or '')}: only in {'A' if pair.b is None else 'B'}")

    def _refused(self, pair: Pair, error: KlogError) -> None:
        if not self.is_of_log_dirs:
            raise error
        self._statuses.add(status_of(error))
        self._words.append("not compared")
        if self.json:
            self._answer({**lone_row(pair), "verdict": None, **refusal_row(error)})
        self.out.note(*error_lines(error))

    def _answer(self, row: dict[str, Any]) -> None:
        self.out.line(row_line({"type": "answer", "command": COMMAND, **row}))

    def close(self) -> int:
        """Say how many partitions have each verdict; return the exit status."""
        if self.is_of_log_dirs and not self.json:
            self.out.line(closing_text(self._words))
        self.out.flush()
        return FOUND if FOUND in self._statuses else max(self._statuses)
