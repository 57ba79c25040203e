"""Errors about a log, as exceptions that say where and why.

Code that has only a buffer raises without a path; the code that opened the file
adds it (`at_path`). Messages speak of the log, never of klogtool's own variables.
"""

from __future__ import annotations

import os

from klogtool.causes import Cause, Text, some


class FileCause(Cause):
    """What is wrong with a file or a folder that somebody named, or that is being read."""

    NO_FOLDER, NO_LOG_DIR, NO_PARTITION_DIR, NOT_A_FOLDER, SHORTER, NO_PARENT, NO_PLAIN_FILE, LINK = some(8)
    NO_DIR, CHANGED, EXISTS, STDIN_CLOSED, NEEDS_DIR, NOT_BEHIND, OF_TWO_KINDS, NAME_ONE = some(8)


class KlogError(Exception):
    """Something is wrong with a file of a log directory.

    reason: one line, what is wrong, in Kafka's words; of a cause, its sentence.
    path: the file or folder, or None where only a buffer is known.
    position: byte in that file, or None where no byte is to blame.
    kafka_class: simple name of the exception that Kafka throws for the same thing, or None.
    kafka_message: its message, where Kafka prints that ("null" if it has none), or None.
    cure: what to do about it, a command to paste or a sentence, or None.
    """

    def __init__(
        self,
        reason: Text,
        *,
        path: str | os.PathLike[str] | None = None,
        position: int | None = None,
        kafka_class: str | None = None,
        kafka_message: str | None = None,
        cure: Text | None = None,
    ) -> None:
        self.reason = str(reason)
        super().__init__(self.reason)
        self.path = os.fspath(path) if path is not None else None
        self.position = position
        self.kafka_class = kafka_class
        self.kafka_message = kafka_message
        self.cure = None if cure is None else str(cure)
        if self.cure is not None:
            self.add_note(self.cure)  # Python's traceback shows it, and so does Spark's

    def at_path(self, path: str | os.PathLike[str]) -> KlogError:
        """Return the same error with the path of its file (an existing path stays)."""
        if self.path is None:
            self.path = os.fspath(path)
        return self

    def thrown(self) -> dict[str, str]:
        """Return the exception that a broker would throw: its class and message, as JSON has them."""
        return {"class": self.kafka_class or type(self).__name__, "message": self.kafka_message or str(self)}

    def __str__(self) -> str:
        where = [self.path] if self.path is not None else []
        if self.position is not None:
            where.append(f"at byte {self.position}")
        return ": ".join([*where, self.reason])


class AtPath:
    """Adds the path of a file to the errors of a block that have none: `with AtPath(path): ...`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, KlogError):
            error.at_path(self._path)


class Corrupt(KlogError):
    """Bytes that are wrong: they do not have the required form."""


class Changed(KlogError):
    """A file that another process changed while it was read: what was read of it says nothing."""


def became_shorter(path: str | os.PathLike[str], position: int | None = None) -> Changed:
    """Return the error about a file that became shorter while it was read. position: where bytes are missing."""
    return Changed(FileCause.SHORTER(), path=path, position=position)


class Unsupported(KlogError):
    """Possibly sound, but of a version or kind that klogtool (or Kafka) does not know."""


class AboveLimit(Unsupported):
    """Possibly sound, but more than klogtool takes into memory (docs/limits.md)."""


class Refused(KlogError):
    """A request that would do harm, or that Kafka refuses; nothing was changed."""


class StalePlan(Refused):
    """A plan whose files have changed since it was made."""


class LogDirInUse(Refused):
    """A log dir whose `.lock` is held by a broker or another klogtool process."""
