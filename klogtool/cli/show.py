"""How all commands show what they find: as text or as JSON Lines, refusals in their place, and with which status."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from msgspec import Struct

from klogtool.cli.output import Output, error_lines
from klogtool.cli.version import VERSION
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.json_rows import row_line
from klogtool.log.file import Unreadable

SCHEMA = 1
Row: TypeAlias = "Mapping[str, Any]"


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


class Refusal(Struct, frozen=True):
    """What to show of a refusal beside its error. text: lines for users; row: further fields of its JSON."""

    text: str
    row: Row


def header(command: str) -> dict[str, Any]:
    """Return the first line of JSON, and of a saved plan."""
    return {"type": "klogtool", "version": VERSION, "schema": SCHEMA, "command": command}


def is_refusal(error: KlogError) -> bool:
    """Return whether a rule of Kafka or ours refused; otherwise klogtool could not continue."""
    if isinstance(error, Unreadable):
        return False
    return isinstance(error, Refused | Corrupt) or error.kafka_class is not None


class Show:
    """Shows rows and text as they come: each only in its own form of output. Remembers whether something is refused."""

    def __init__(
        self,
        command: str,
        screen: Screen,
        refusal_of: Callable[[KlogError], Refusal | None] = lambda _: None,
        first_row: Row | None = None,
    ) -> None:
        self.command, self.screen = command, screen
        self.out, self.json, self.refused = Output(), screen.is_json, False
        self._refusal_of = refusal_of
        self.row(first_row or header(command))

    def row(self, row: Row) -> None:
        """Write a JSON line, unless the output is text."""
        if self.json:
            self.out.line(row_line(row))
            self.out.flush()

    def line(self, line: str) -> None:
        """Write a line of text, unless the output is JSON."""
        if not self.json:
            self.out.line(line)
            self.out.flush()

    def text(self, text: str) -> None:
        """Write lines of text, unless the output is JSON."""
        if not self.json:
            self.out.text(text)
            self.out.flush()

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Show and remember refusals in this context. Other errors are raised, for example for an unreadable file."""
        try:
            yield
        except KlogError as error:
            if not is_refusal(error):
                raise
            self.refusal(error, self._refusal_of(error))

    def refusal(self, error: KlogError, more: Refusal | None = None) -> None:
        """Show that something is refused, and remember it."""
        self.refused = True
        if self.json:
            reason = {"class": error.kafka_class or type(error).__name__, "message": error.kafka_message or str(error)}
            self.row({"type": "answer", "command": self.command, "error": reason, **(more.row if more else {})})
        else:
            if more is not None:
                self.text(more.text)
            self.out.note(*error_lines(error))
        for remark in getattr(error, "__notes__", ()):
            if remark != error.cure:  # that was shown with the error
                self.out.note(f"klogtool: {remark}")
