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
    from collections.abc import Iterable, Mapping

    from klogtool.repair.findings import Finding
    from klogtool.repair.plan import Plan
    from klogtool.repair.unified_log.loaded import FetchedBytes, LoadedPartition
    from klogtool.repair.unified_log.lookup import EpochEnd, OffsetFound, TimestampFound


class Planned:
    """What a command would do to one path: its plans, which can be looked at, and carried out once.

    plans: one for each partition, and perhaps one for the log dir itself.
    """

    def __init__(self, command: str, path: str, plans: list[Plan]) -> None:
        self.plans = plans
        self._command, self._path = command, path

    @property
    def answers(self) -> list[Mapping[str, Any]]:
        """What each plan comes to: the contract's `answer`."""
        return [plan.answer for plan in self.plans]

    def apply(self, *, now_ms: int, journal: str | None = None) -> list[str]:
        """Do it in place, as `--apply` does; the ids for `klogtool undo`. now_ms: when, for `undo --list`.

        journal: the folder for what undo needs, if not the one beside the log dir. Raises LogDirInUse, StalePlan,
        Refused or another KlogError: everything is as it was then.
        """
        from klogtool.disk.writer import InPlace
        from klogtool.repair.saved_plan import SCHEMA, SavedPlan

        head = {"type": "klogtool", "schema": SCHEMA, "command": self._command, "paths": [self._path]}
        run = InPlace(list(map(SavedPlan.of, self.plans)), {**head, "when_ms": now_ms}, journal=journal)
        run.carry_out()
        return [entry.id for entry in run.entries]

    def write_to(self, output: str | os.PathLike[str]) -> None:
        """Write the result to a folder that is not there or empty, as `--output` does. Raises Refused, KlogError."""
        from klogtool.disk.output import carry_out_to
        from klogtool.repair.saved_plan import SavedPlan

        carry_out_to(list(map(SavedPlan.of, self.plans)), self._path, os.fspath(output))


class Partition(partition.Partition):
    """A partition dir; those that a broker renamed (-delete, -future, -stray) as well."""

    __slots__ = ()

    def verify(self, *, now_ms: int = MAX_LONG, deep: bool = False, jobs: int = 1) -> list[Finding]:
        """All that is wrong with it, in the order of its files; empty if nothing is, and nothing is worth a note.

        now_ms: timestamps later than that are implausible. deep: decompress and parse every record. jobs: threads.
        """
        return _verify([self.path], now_ms, deep=deep, jobs=jobs)

    def load(self, *, now_ms: int = 0, **given: Any) -> LoadedPartition:
        """As a broker has it loaded, to be asked several times; nothing is written.

        given: recovery_point, log_start_offset, high_watermark (offsets); last_stop ("clean" or "unclean"); config
        (Kafka's names and values as text); jobs (threads). What is not given comes from the log dir's own files.
        now_ms: the clock, which decides what producers have expired. Raises Corrupt or Refused, with Kafka's class of
        exception, where a broker would not start.
        """
        from klogtool.repair.circumstances import Circumstances  # not imported to read a file
        from klogtool.repair.unified_log.loaded import load

        return load(self.path, Circumstances.of_arguments({"now_ms": now_ms, **given}), given.get("jobs"))

    def lookup_offset(self, offset: int, *, explain: bool = False, **given: Any) -> OffsetFound:
        """The batch that holds an offset or follows it; given as in `load`. Raises Refused outside of the log."""
        return self.load(**given).lookup_offset(offset, explain=explain)

    def lookup_timestamp(self, timestamp: int | str, **given: Any) -> TimestampFound:
        """The first record from a time (ms) on, or `earliest`, `latest`, `max`; given as in `load`."""
        return self.load(**given).lookup_timestamp(timestamp)

    def end_offset_for_epoch(self, leader_epoch: int, **given: Any) -> EpochEnd:
        """Where a leader epoch ended; given as in `load`."""
        return self.load(**given).end_offset_for_epoch(leader_epoch)

    def read(
        self, offset: int, max_bytes: int, *, min_one_message: bool = False, isolation: str = "log_end", **given: Any
    ) -> FetchedBytes:
        """What a fetch gets, from the batch on that holds an offset; isolation: "log_end", "high_watermark" or
        "read_committed"; given as in `load`. Raises Refused outside of the log."""
        loaded = self.load(**given)
        return loaded.read(offset, max_bytes, min_one_message=min_one_message, isolation=isolation)

    def plan_recover(self, *, now_ms: int, **given: Any) -> Planned:
        """What a broker's start would make of it. now_ms: the clock, which decides what producers have expired.

        given: recovery_point, log_start_offset (offsets); last_stop ("clean" or "unclean"); config (Kafka's names and
        values as text); jobs (threads); of a log dir also mark_clean. What is not given comes from the log dir's own
        files. Raises Corrupt or Refused, with Kafka's class of exception, where a broker would not start.
        """
        return _plan("verify --recover", self.path, now_ms, given)

    def plan_rebuild_index(self, *, now_ms: int, **given: Any) -> Planned:
        """Its side files made anew from its logs; given as in `plan_recover`. Raises Refused for a damaged log."""
        return _plan("rebuild-index", self.path, now_ms, given)

    def plan_truncate(self, *, now_ms: int, **given: Any) -> Planned:
        """Cut at an offset (`to`), or begun anew at one (`start_at`, with or without `log_start_offset_after`).

        given: these; `purge`: leave no `.deleted` files; and as in `load`. Raises Refused, Corrupt or Unsupported, with
        Kafka's class of exception, where a broker refuses.
        """
        return _plan("truncate", self.path, now_ms, given)

    def plan_append(
        self,
        *,
        now_ms: int,
        batches: Iterable[str | os.PathLike[str]] = (),
        records: str | os.PathLike[str] | None = None,
        requests: str | os.PathLike[str] | None = None,
        **given: Any,
    ) -> Planned:
        """Appended to, as by a broker: `answers[0]["appends"]` says what became of each call.

        One of: batches, files of raw batches that keep their offsets, a call each; records, a file of JSON lines as
        dump-log prints them, which get the next offsets; requests, a file of calls in JSON lines. given: of records
        `codec`, `magic`, `batch_bytes`, `batch_records`; `leader_epoch`; and as in `load`. A call that is refused does
        not keep the others from being done. Raises KlogError for input that is none; and as `plan_truncate` does.
        """
        ways: dict[str, Any] = {"batches": [os.path.abspath(path) for path in batches] or None}
        ways |= {"records": records and os.path.abspath(records), "requests": requests and os.path.abspath(requests)}
        return _plan("append", self.path, now_ms, {name: way for name, way in ways.items() if way} | given)

    def plan_roll(self, *, now_ms: int, **given: Any) -> Planned:
        """Its active segment closed, if it is due, and why it is or not.

        given: what is to be appended, `incoming_bytes`, `incoming_timestamp`, `incoming_offset` (default: nothing, now,
        at the log end); `force`: due or not; `purge`; and as in `load`. Raises as `plan_truncate` does.
        """
        return _plan("roll", self.path, now_ms, given)

    def plan_retain(self, *, now_ms: int, **given: Any) -> Planned:
        """What retention deletes at that time, and why other segments stay, until when.

        given: `purge`: leave no `.deleted` files; and as in `load`. Raises as `plan_truncate` does.
        """
        return _plan("retain", self.path, now_ms, given)

    def plan_delete_records(self, *, now_ms: int, **given: Any) -> Planned:
        """A later beginning (`before`; -1: the high watermark), and the segments gone that lie wholly below it.

        given: that; `purge`; and as in `load`. Raises Refused above the high watermark; and as `plan_truncate` does.
        """
        return _plan("delete-records", self.path, now_ms, given)

    def plan_compact(self, *, now_ms: int, **given: Any) -> Planned:
        """Cleaned as the broker's log cleaner does it, if it is due.

        given: `first_dirty_offset` (default: the line in cleaner-offset-checkpoint); `passes_at_ms`, times of passes
        one behind the other (default: one, now); `force`: due or not; `keep_magic`; `purge`; and as in `load`. Raises
        Refused, Corrupt or Unsupported, with Kafka's class of exception, where a broker's cleaner breaks off.
        """
        return _plan("compact", self.path, now_ms, given)


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

    def plan_recover(self, *, now_ms: int, **given: Any) -> Planned:
        """What a broker's start would make of all its partitions; see `Partition.plan_recover`."""
        return _plan("verify --recover", self.path, now_ms, given)

    def plan_compact(self, *, now_ms: int, **given: Any) -> Planned:
        """Its compacted logs cleaned, the filthiest first; see `Partition.plan_compact`."""
        return _plan("compact", self.path, now_ms, given)

    def plan_retain(self, *, now_ms: int, **given: Any) -> Planned:
        """What retention deletes of all its partitions; see `Partition.plan_retain`."""
        return _plan("retain", self.path, now_ms, given)


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


def _plan(command: str, path: str, now_ms: int, given: Mapping[str, Any]) -> Planned:
    from klogtool.repair.decisions import decide  # not imported to read a file
    from klogtool.repair.spools import OnlyTold

    whole = os.path.abspath(path)
    return Planned(command, whole, list(decide(command, whole, {"now_ms": now_ms, **given}, OnlyTold)))
