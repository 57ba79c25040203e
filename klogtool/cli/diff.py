"""klogtool diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options
from klogtool.cli.gentle_reading import begin_reading, gently
from klogtool.cli.question_options import question_options
from klogtool.cli.show import ReadingOptions, Show
from klogtool.cli.status import COULD_NOT, DONE, FOUND, status_of
from klogtool.cli.value_options import ValueOptions
from klogtool.copies.differing import Pair, find_pairs
from klogtool.copies.verdict import DiffVerdict, judge
from klogtool.errors import KlogError
from klogtool.log.folder import own_name
from klogtool.log.thread_pool import in_order
from klogtool.parameters import parameter
from klogtool.render.diff import ONLY_IN_A, ONLY_IN_B, closing_text, diff_row, diff_text, lone_row

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding

COMMAND = "diff"


class DiffQuestion(Struct, frozen=True, kw_only=True):
    """How copies are compared."""

    circumstances: Circumstances
    deep: Annotated[bool, parameter("Where bytes differ, compare records, whatever their batches are.")] = False
    values: ValueOptions


@commands.command(COMMAND)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@question_options(DiffQuestion)
@options.reading()
@gently
def command(a: str, b: str, question: DiffQuestion, reading: ReadingOptions) -> int:
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
    begin_reading((a, b), quiet=reading.quiet)
    pairs = list(find_pairs(a, b))

    def compare(pair: Pair) -> DiffVerdict | KlogError | None:
        if pair.a is None or pair.b is None:
            return None
        try:
            return judge(pair.a, pair.b, deep=question.deep, log_start=question.circumstances.log_start_offset)
        except KlogError as error:
            return error

    with question.values.decoders(quiet=reading.quiet) as decoders:
        show = _DiffShow(reading, decoders.decoding, is_of_one=[(pair.a, pair.b) for pair in pairs] == [(a, b)])
        for pair, result in in_order(lambda: compare, iter(pairs), reading.threads):
            show.pair(pair, result)
        show.close()
    return max(show.status, COULD_NOT) if decoders.is_cut else show.status


class _DiffShow(Show):
    """Pair after pair."""

    def __init__(self, reading: ReadingOptions, values: Decoding | None, *, is_of_one: bool) -> None:
        """is_of_one: only two partition dirs are compared."""
        super().__init__(COMMAND, reading)
        self._values, self._is_of_one = values, is_of_one
        self._words, self._statuses = list[str](), {DONE}

    @property
    def status(self) -> int:
        """The exit status."""
        return FOUND if FOUND in self._statuses else max(self._statuses)

    def pair(self, pair: Pair, result: DiffVerdict | KlogError | None) -> None:
        """Show the answer for a pair. Raises the error of the only one."""
        if result is None:
            word = ONLY_IN_A if pair.b is None else ONLY_IN_B
            self._add(word, FOUND)
            self.answer(lone_row(pair))
            self.line(f"{own_name(pair.a or pair.b or '')}: only in {'A' if pair.b is None else 'B'}")
        elif isinstance(result, KlogError):
            if self._is_of_one:
                raise result
            self._add("not compared", status_of(result))
            self.answer({**lone_row(pair), "verdict": None, "error": result.thrown()})
            self.error(result)
        else:
            self._add(result.word.value, DONE if result.is_alike else FOUND)
            is_shown = not result.is_alike or self.screen.verbose or self._is_of_one
            text = diff_text(result, own_name(pair.a or ""), self._values) if is_shown and not self.json else None
            self.answer(diff_row(result, self._values) if self.json else {}, text)

    def _add(self, word: str, status: int) -> None:
        self._words.append(word)
        self._statuses.add(status)

    def close(self) -> None:
        """Say how many partitions have each verdict."""
        if not self._is_of_one:
            self.line(closing_text(self._words))
        super().close()
