"""How all commands show what they find: as text or as JSON Lines, and refusals in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from msgspec import Struct

from klogtool.broker.releases import Release
from klogtool.cli.output import Output, error_lines
from klogtool.cli.version import VERSION
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.json_rows import row_line
from klogtool.log.cores import usable_cores
from klogtool.log.file import Unreadable
from klogtool.render.words import in_words

SCHEMA = 1
Row: TypeAlias = "Mapping[str, object]"


class Screen(Struct, frozen=True, kw_only=True):
    """The options about output that all commands have."""

    form: str = "text"
    verbose: bool = False
    quiet: bool = False
    no_progress: bool = False

    @property
    def is_json(self) -> bool:
        """Whether the output is JSON Lines."""
        return self.form == "json"

    @property
    def wants_bar(self) -> bool:
        """Whether a progress bar may be drawn."""
        return not (self.quiet or self.no_progress)


class ReadingOptions(Screen, frozen=True, kw_only=True):
    """What commands that read share: how they show, and how many threads they use."""

    jobs: int | None = None

    @property
    def threads(self) -> int:
        """How many threads to use."""
        return self.jobs or usable_cores()


class RefusalText(Struct, frozen=True):
    """What to show of a refusal beside its error. text: lines for users; row: further fields of its JSON."""

    text: str
    row: Row


def header(command: str) -> dict[str, object]:
    """Return the first line of JSON, and of a saved plan."""
    return {"type": "klogtool", "version": VERSION, "schema": SCHEMA, "command": command}


def is_refusal(error: KlogError) -> bool:
    """Return whether a rule of Kafka or ours refused; otherwise klogtool could not continue."""
    if isinstance(error, Unreadable):
        return False
    return isinstance(error, Refused | Corrupt) or error.kafka_class is not None


class Show:
    """Shows rows and text as they come: each only in its own form of output. Remembers whether something is refused.

    kafka: the release, for commands whose answers say so. out: if the answers do not go to stdout. What commands that
    read show leaves in large pieces; the caller closes.
    """

    def __init__(
        self,
        command: str,
        screen: Screen,
        refusal_of: Callable[[KlogError], RefusalText | None] = lambda _: None,
        *,
        first_row: Row | None = None,
        kafka: Release | None = None,
        out: Output | None = None,
    ) -> None:
        self.command, self.screen = command, screen
        self.out, self.json, self.refused = out or Output(), screen.is_json, False
        self._refusal_of, self._end = refusal_of, {} if kafka is None else {"kafka": kafka}
        self.row(first_row or header(command))

    def row(self, row: Row | Struct) -> None:
        """Write a JSON line, unless the output is text."""
        if self.json:
            self._written(self.out.line, row_line(in_words(row)))

    def rows(self, rows: Iterable[Row | Struct]) -> None:
        """Write JSON lines, unless the output is text; nothing is asked of the rows then."""
        for row in rows if self.json else ():
            self.row(row)

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines of text, unless the output is JSON; nothing is asked of the lines then."""
        for line in () if self.json else lines:
            self.line(line)

    def line(self, line: str) -> None:
        """Write a line of text, unless the output is JSON."""
        if not self.json:
            self._written(self.out.line, line)

    def text(self, text: str) -> None:
        """Write lines of text, unless the output is JSON."""
        if not self.json:
            self._written(self.out.text, text)

    def _written(self, write: Callable[[str], None], text: str) -> None:
        write(text)
        if not isinstance(self.screen, ReadingOptions):
            self.out.flush()

    def answer(self, row: Row, text: str | None = None) -> None:
        """Write an answer: as a JSON line with the command's name, or as text if there is any."""
        self.row({"type": "answer", "command": self.command, **row, **self._end})
        if text is not None:
            self.text(text)

    def error(self, error: KlogError) -> None:
        """Say on stderr what is wrong, after everything that was written before."""
        self.out.note(*error_lines(error))

    @contextmanager
    def refusals(self, beside: Row | None = None) -> Iterator[None]:
        """Show and remember refusals in this context. Other errors are raised, for example for an unreadable file.
        beside: fields of the JSON that say what is refused."""
        try:
            yield
        except KlogError as error:
            if not is_refusal(error):
                raise
            self.refusal(error, self._refusal_of(error), beside)

    def refusal(self, error: KlogError, more: RefusalText | None = None, beside: Row | None = None) -> None:
        """Show that something is refused, and remember it."""
        self.refused = True
        if self.json:
            self.answer({**(beside or {}), "error": error.thrown(), **(more.row if more else {})})
        else:
            if more is not None:
                self.text(more.text)
            self.error(error)
        for remark in getattr(error, "__notes__", ()):
            if remark != error.cure:  # that was shown with the error
                self.out.note(f"klogtool: {remark}")

    def close(self) -> None:
        """Write what is still held back."""
        self.out.flush()
