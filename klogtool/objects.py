"""What klogtool.open gives: the objects of `log`, and what can be decided about them beside what can be read.

Reading knows nothing of decisions; so the objects that know both stand above both.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from klogtool.format.java_numbers import MAX_LONG
from klogtool.log import logdir, opened, partition
from klogtool.log.segment import KraftSnapshot, Segment
from klogtool.log.side_file import EntriesFile, PropertiesFile

if TYPE_CHECKING:
    from klogtool.repair.findings import Finding


class Partition(partition.Partition):
    """A partition dir; those that a broker renamed (-delete, -future, -stray) as well."""

    __slots__ = ()

    def verify(self, *, now_ms: int = MAX_LONG, deep: bool = False, jobs: int = 1) -> list[Finding]:
        """All that is wrong with it, in the order of its files; empty if nothing is, and nothing is worth a note.

        now_ms: timestamps later than that are implausible. deep: decompress and parse every record. jobs: threads.
        """
        return _verify([self.path], now_ms, deep=deep, jobs=jobs)


class LogDir(logdir.LogDir):
    """A log dir. The four checkpoints are dicts by topic and partition, or None where there is no such file."""

    __slots__ = ()

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Its partition dirs in order of name, those that are doomed, on their way or stray (`state`) included."""
        return tuple(Partition(found.path) for found in super().partitions)

    def verify(self, *, now_ms: int = MAX_LONG, deep: bool = False, jobs: int = 1) -> list[Finding]:
        """All that is wrong with it and its partitions; see `Partition.verify`."""
        return _verify([self.path], now_ms, deep=deep, jobs=jobs)


Opened: TypeAlias = LogDir | Partition | Segment | KraftSnapshot | EntriesFile[Any] | PropertiesFile[Any]


def open_path(path: str | os.PathLike[str]) -> Opened:
    """A LogDir, a Partition, or the object for a file: a Segment for a `.log`, and so on by the file's name.

    Nothing is read yet but the names in a folder, and no file stays open. Raises KlogError where there is nothing,
    something that may not be read, something that is neither file nor folder, or nothing of Kafka's.
    """
    found = opened.open_path(path)
    if isinstance(found, logdir.LogDir):
        return LogDir(found.path)
    return Partition(found.path) if isinstance(found, partition.Partition) else found


def _verify(paths: list[str], now_ms: int, *, deep: bool, jobs: int) -> list[Finding]:
    from klogtool.repair.circumstances import Circumstances  # not imported to read a file
    from klogtool.repair.findings import Finding
    from klogtool.repair.verify import VerifyOptions, verify

    options = VerifyOptions(Circumstances(now_ms), deep=deep, jobs=jobs)
    return [found for found in verify(paths, options) if isinstance(found, Finding)]
