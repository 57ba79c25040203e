"""A log that a command reads, and that is no file of a partition dir."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from klogtool.log.file import LogFile


class GivenLog(Struct, frozen=True):
    """A log that is no file of a partition dir: standard input, a segment in remote storage. name: as Kafka calls it;
    None, also for topic and partition: nobody knows."""

    open: Callable[[], LogFile]
    name: str | None = None
    topic: str | None = None
    partition: int | None = None
