"""What the answers of commands share. docs/contract.md has the answer of each command; JSON is made of its fields, in
their order."""

from __future__ import annotations

from msgspec import Struct

from klogtool.causes import Text


class Result(Struct, frozen=True):
    """The answer of a command about one partition or log dir."""

    @property
    def loses(self) -> bool:
        """Whether it reports records that are lost without a request, or are gone already."""
        return False


class LogState(Struct, frozen=True):
    """Where a log starts and ends. log_start_checkpoint: its line in log-start-offset-checkpoint, None: it needs
    none."""

    log_start_offset: int
    log_end_offset: int
    log_start_checkpoint: int | None


class ChangeResult(Result, frozen=True, kw_only=True):
    """The answer of a command that changes a log as a running broker does. state: of the log afterwards."""

    state: LogState


class LeftAlone(Result, frozen=True):
    """A partition dir of a log dir that the command is not about. skipped: why."""

    skipped: Text
