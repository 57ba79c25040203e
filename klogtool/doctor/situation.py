"""A situation: something that a broker says in its log, what it means, and what to do about it.

Nothing here knows a disk. The situations themselves are in `klogtool.doctor.situations`.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Outcome(Enum):
    """What the broker does, the worst last. `meaning` of a situation says when it is better or worse."""

    OK = "ok"
    """It runs, and nothing is lost. It may refuse a request."""
    UNSERVED = "unserved"
    """It runs, and does not serve the partition, or stops a part of its work."""
    LOSES = "loses"
    """It runs, and loses or hides records."""
    OFFLINE = "offline"
    """It takes the log dir offline. If that is its last log dir, or the metadata log dir, it ends."""
    REFUSES = "refuses"
    """Its process ends, whatever its other log dirs contain."""


class Wording(Struct, frozen=True):
    """A message as Kafka logs it, with `{names}` in place of what varies: `Found an orphaned index file {file}, with`.

    since, until: the first and the last release that says it so; None: Kafka 4.3.1 does, and most releases do.
    """

    text: str
    since: str | None = None
    until: str | None = None

    @property
    def releases(self) -> str | None:
        """Return which releases say it so, or None if that need not be said."""
        words = [*([f"since {self.since}"] if self.since else []), *([f"until {self.until}"] if self.until else [])]
        return ", ".join(words) or None


class Cause(Struct, frozen=True):
    """One of several causes of a message. sign: what tells it from the others."""

    what: str
    sign: str


class Situation(Struct, frozen=True):
    """A situation of a broker. name: stable, in kebab-case.

    look_first: what a person checks by hand first. cures: commands, with `{names}` of `klogtool.doctor.where`.
    findings: ids of what `verify` reports of it. causes: if the message has several; empty if there is one. clue: text
    elsewhere in a log, often of a stack trace, that shows that it is this situation and no other with the same message.
    is_general: the message says that something failed, but not what.
    """

    name: str
    wordings: tuple[Wording, ...]
    outcome: Outcome
    meaning: str
    look_first: str
    cures: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    clue: str | None = None
    is_general: bool = False
    causes: tuple[Cause, ...] = ()


def said(text: str, *, since: str | None = None, until: str | None = None) -> Wording:
    """Return a wording."""
    return Wording(text, since, until)
