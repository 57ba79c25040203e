"""The objects that klogtool.open returns: those of `log`, with methods that verify and plan.

The modules that read know nothing of decisions, so these objects are above both. Times (`now_ms` and others) are epoch
milliseconds, ISO 8601 or datetimes; the default of `now_ms` is the clock.
"""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict, TypeVar, Unpack, overload

from klogtool.broker.circumstances import Circumstances, LastStop
from klogtool.broker.spools import CountingSpool
from klogtool.broker.unified_log.loaded_partition import FetchedBytes, LoadedPartition, load
from klogtool.broker.unified_log.lookup import EpochEnd, OffsetFound, TimestampFound
from klogtool.causes import words
from klogtool.clock import now_ms as clock_ms
from klogtool.disk.output import carry_out_to
from klogtool.disk.writer import InPlace
from klogtool.errors import KlogError
from klogtool.escape import escaped
from klogtool.format.typed import Moment, parse_moment, whole_number
from klogtool.log import logdir, opened, partition
from klogtool.log.segment import KraftSnapshot, Segment
from klogtool.log.side_file import EntriesFile, PropertiesFile
from klogtool.plans.decisions import decide, question_type
from klogtool.plans.fields import WrongField
from klogtool.plans.plan import Plan
from klogtool.plans.question import AnyQuestion, Question, read_question
from klogtool.plans.saved_plan import SCHEMA, SavedPlan
from klogtool.verify.findings import Finding
from klogtool.verify.verification import VerifyOptions, verify

if TYPE_CHECKING:
    from klogtool.plans.append import Codec
    from klogtool.plans.rebuild_index import SideFile


class Findings(list["Finding"]):
    """The result of `verify`: a list, which a notebook shows as a table."""

    def __repr__(self) -> str:
        """Return how many there are of each severity."""
        counts = Counter(found.severity.value for found in self)
        told = ", ".join(f"{severity}: {count}" for severity, count in counts.items())
        return f"<Findings: {told or 'none'}>"

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        rows = ((str(found.id.value), found.severity.value, found.path, found.detail) for found in self)
        return _html_table(("id", "severity", "path", "detail"), rows)


class KnownArguments(TypedDict, total=False):
    """What a broker knows beside a partition dir: the fields of Circumstances. What is not given is read from the log
    dir's own files."""

    now_ms: Moment | None
    loaded_at_ms: Moment | None
    config: Mapping[str, str]
    recovery_point: int | None
    log_start_offset: int | None
    high_watermark: int | None
    last_stop: LastStop | None
    kafka: str


class LoadArguments(KnownArguments, total=False):
    """The arguments of `load`. jobs: how many threads."""

    jobs: int | None


class RecoverArguments(LoadArguments, total=False):
    """The arguments of `plan_recover`."""

    mark_clean: bool


class RebuildIndexArguments(LoadArguments, total=False):
    """The arguments of `plan_rebuild_index`."""

    segments: Sequence[int]
    only: Sequence[SideFile]


class AppendArguments(LoadArguments, total=False):
    """The arguments of `plan_append`, beside its input."""

    create: bool
    topic_id: str | None
    fetch_bytes: int | None
    leader_epoch: int | None
    codec: Codec | None
    magic: int | None
    batch_bytes: int | None
    batch_records: int | None


class DeletingArguments(LoadArguments, total=False):
    """The arguments of plans that delete segments."""

    purge: bool
    no_undo: bool


class TruncateArguments(DeletingArguments, total=False):
    """The arguments of `plan_truncate`."""

    to: int | None
    start_at: int | None
    log_start_offset_after: int | None


class RollArguments(DeletingArguments, total=False):
    """The arguments of `plan_roll`."""

    incoming_bytes: int | None
    incoming_timestamp: Moment | None
    incoming_offset: int | None
    force: bool


class RetainArguments(DeletingArguments, total=False):
    """The arguments of `plan_retain`."""


class DeleteRecordsArguments(DeletingArguments, total=False):
    """The arguments of `plan_delete_records`."""

    before: Required[int]


class CompactArguments(DeletingArguments, total=False):
    """The arguments of `plan_compact`."""

    first_dirty_offset: int | None
    passes_at_ms: Sequence[Moment] | None
    force: bool
    keep_magic: bool


class Planned:
    """What a command would do to one path: its plans, which can be inspected, and carried out once.

    plans: one for each partition, and for some commands one for the log dir itself.
    """

    def __init__(self, command: str, path: str, plans: list[Plan]) -> None:
        self.plans = plans
        self._command, self._path = command, path

    def __repr__(self) -> str:
        """Return the command, the path and how much would be done."""
        steps = sum(len(plan.steps) for plan in self.plans)
        return f"<Planned {self._command} of {self._path}: {len(self.plans)} plans, {steps} steps>"

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        steps = ((plan.path, type(step).__name__, step.path) for plan in self.plans for step in plan.steps)
        return _html_table(("path", "step", "file"), steps)

    @property
    def answers(self) -> list[Mapping[str, Any]]:
        """The `answer` of each plan (docs/contract.md). A plan for a log dir's own files mostly has none."""
        return [answer for plan in self.plans if (answer := plan.answer_in(words))]

    def apply(self, *, now_ms: Moment | None = None, journal: str | None = None) -> list[str]:
        """Carry out in place, as `--apply` does; return the ids for `klogtool undo`. now_ms: the time for `undo
        --list`.

        journal: the folder for what undo needs, if not the one beside the log dir. Raises LogDirInUse, StalePlan,
        Refused or another KlogError; then nothing has changed.
        """
        head = {"type": "klogtool", "schema": SCHEMA, "command": self._command, "paths": [self._path]}
        run = InPlace(self._saved(), {**head, "when_ms": _moment(now_ms)}, journal=journal)
        run.carry_out()
        return [entry.id for entry in run.entries]

    def write_to(self, output: str | os.PathLike[str]) -> None:
        """Write the result to a new or empty folder, as `--output` does. Raises Refused, KlogError."""
        carry_out_to(self._saved(), self._path, os.fspath(output))

    def _saved(self) -> list[SavedPlan]:
        return [SavedPlan.of(plan, say=words) for plan in self.plans]


class Partition(partition.Partition, frozen=True):
    """A partition dir, including those that a broker renamed (-delete, -future, -stray)."""

    def verify(self, *, now_ms: Moment | None = None, deep: bool = False, jobs: int = 1) -> Findings:
        """Return everything that is wrong with it, sorted by file; empty if there is nothing wrong or worth a note.

        now_ms: later timestamps are implausible. deep: decompress and parse every record. jobs: threads.
        """
        return _verify([self.path], now_ms, deep=deep, jobs=jobs)

    def load(self, **given: Unpack[LoadArguments]) -> LoadedPartition:
        """Load it as a broker does, for several lookups; nothing is written.

        given: recovery_point, log_start_offset, high_watermark (offsets); last_stop ("clean" or "unclean"); config
        (Kafka's names and values as text); kafka (a release, "3.9.2"); jobs (threads). What is not given is read from
        the log dir's own files. now_ms: the clock, which decides which producers have expired. Raises Corrupt or
        Refused, with Kafka's class of exception, if a broker would not start.
        """
        question = _asked(Question, given, "load")
        return load(self.path, question.circumstances, question.jobs)

    def lookup_offset(self, offset: int, *, explain: bool = False, **given: Unpack[LoadArguments]) -> OffsetFound:
        """Return the batch that contains an offset or follows it; given as in `load`. Raises Refused for an offset
        outside the log."""
        return self.load(**given).lookup_offset(offset, explain=explain)

    def lookup_timestamp(self, timestamp: Moment, **given: Unpack[LoadArguments]) -> TimestampFound:
        """Return the first record from a time (epoch ms, ISO 8601) on, or `earliest`, `latest`, `max`; given as in
        `load`."""
        return self.load(**given).lookup_timestamp(timestamp)

    def end_offset_for_epoch(self, leader_epoch: int, **given: Unpack[LoadArguments]) -> EpochEnd:
        """Return where a leader epoch ended; given as in `load`."""
        return self.load(**given).end_offset_for_epoch(leader_epoch)

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        min_one_message: bool = False,
        isolation: str = "log_end",
        **given: Unpack[LoadArguments],
    ) -> FetchedBytes:
        """Return what a fetch gets, starting with the batch that contains an offset; isolation: "log_end",
        "high_watermark" or "read_committed"; given as in `load`. Raises Refused for an offset outside the log."""
        loaded = self.load(**given)
        return loaded.read(offset, max_bytes, min_one_message=min_one_message, isolation=isolation)

    def plan_recover(self, **given: Unpack[RecoverArguments]) -> Planned:
        """Plan what a broker's start would make of it. now_ms: the clock, which decides which producers have expired.

        given: recovery_point, log_start_offset (offsets); last_stop ("clean" or "unclean"); config (Kafka's names and
        values as text); kafka (a release, "3.9.2"); jobs (threads); for a log dir also mark_clean. What is not given is
        read from the log dir's own files. Raises Corrupt or Refused, with Kafka's class of exception, if a broker would
        not start.
        """
        return _plan("recover", self.path, given)

    def plan_rebuild_index(self, **given: Unpack[RebuildIndexArguments]) -> Planned:
        """Plan to rebuild its side files from its logs; given as in `plan_recover`. Raises Refused for a damaged
        log."""
        return _plan("rebuild-index", self.path, given)

    def plan_truncate(self, **given: Unpack[TruncateArguments]) -> Planned:
        """Plan to cut it at an offset (`to`), or to start it anew at one (`start_at`, with or without
        `log_start_offset_after`).

        given: these; `purge`: leave no `.deleted` files; and as in `load`. Raises Refused, Corrupt or Unsupported, with
        Kafka's class of exception, if a broker refuses.
        """
        return _plan("truncate", self.path, given)

    def plan_append(
        self,
        *,
        batches: Iterable[str | os.PathLike[str]] = (),
        records: str | os.PathLike[str] | None = None,
        requests: str | os.PathLike[str] | None = None,
        records_text: str | None = None,
        requests_text: str | None = None,
        **given: Unpack[AppendArguments],
    ) -> Planned:
        """Plan to append, as a broker does: `answers[0]["appends"]` has the result of each call.

        One of: batches: files of raw batches that keep their offsets, one call each; records: a file of JSON lines as
        dump-log prints them, which get the next offsets; requests: a file of calls as JSON lines; records_text and
        requests_text: such lines themselves. given: for records
        `codec`, `magic`, `batch_bytes`, `batch_records`; `leader_epoch`; and as in `load`. A refused call does not
        prevent the others. Raises KlogError for invalid input; and as `plan_truncate` does.
        """
        ways: dict[str, object] = {"batches": [os.path.abspath(path) for path in batches] or None}
        ways |= {"records_text": records_text, "requests_text": requests_text}
        ways |= {"records": records and os.path.abspath(records), "requests": requests and os.path.abspath(requests)}
        return _plan("append", self.path, {**{name: way for name, way in ways.items() if way}, **given})

    def plan_roll(self, **given: Unpack[RollArguments]) -> Planned:
        """Plan to close its active segment, if that is due; the answer says why it is due or not.

        given: what is about to be appended, `incoming_bytes`, `incoming_timestamp`, `incoming_offset` (default:
        nothing, now, at the log end); `force`: close it in any case; `purge`; and as in `load`. Raises as
        `plan_truncate` does.
        """
        return _plan("roll", self.path, given)

    def plan_retain(self, **given: Unpack[RetainArguments]) -> Planned:
        """Plan what retention deletes at that time; the answer says why other segments stay, and until when.

        given: `purge`: leave no `.deleted` files; and as in `load`. Raises as `plan_truncate` does.
        """
        return _plan("retain", self.path, given)

    def plan_delete_records(self, **given: Unpack[DeleteRecordsArguments]) -> Planned:
        """Plan to move the log start (`before`; -1: to the high watermark), and to delete the segments wholly below it.

        given: `before`; `purge`; and as in `load`. Raises Refused above the high watermark; and as `plan_truncate`
        does.
        """
        return _plan("delete-records", self.path, given)

    def plan_compact(self, **given: Unpack[CompactArguments]) -> Planned:
        """Plan to clean it as the broker's log cleaner does, if that is due.

        given: `first_dirty_offset` (default: the line in cleaner-offset-checkpoint); `passes_at_ms`, the times of
        successive passes (default: one, now); `force`: clean in any case; `keep_magic`; `purge`; and as in `load`.
        Raises Refused, Corrupt or Unsupported, with Kafka's class of exception, if a broker's cleaner fails.
        """
        return _plan("compact", self.path, given)


class LogDir(logdir.LogDir, frozen=True):
    """A log dir. The four checkpoints are dicts by topic and partition, or None if the file does not exist."""

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Its partition dirs, sorted by name, including those with a suffix: deleted, future, stray (`state`)."""
        return tuple(Partition(found.path) for found in super().partitions)

    def __iter__(self) -> Iterator[Partition]:
        """Yield its partition dirs, as in `partitions`."""
        return iter(self.partitions)

    def __len__(self) -> int:
        """Return how many partition dirs it has."""
        return len(self.partitions)

    def __contains__(self, name: object) -> bool:
        """Return whether it has a partition dir of that name."""
        return any(partition.name == name for partition in self.partitions)

    def __getitem__(self, name: str) -> Partition:
        """Return the partition dir of that name, such as `orders-0`. Raises KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"a log dir is asked for the name of a partition dir, such as 'orders-0', not {name!r}")
        found = next((each for each in self.partitions if each.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        rows = ((found.name, found.state.name.lower(), str(len(found.segments))) for found in self)
        return _html_table(("partition dir", "state", "segments"), rows)

    def verify(self, *, now_ms: Moment | None = None, deep: bool = False, jobs: int = 1) -> Findings:
        """Return everything that is wrong with it and its partitions; see `Partition.verify`."""
        return _verify([self.path], now_ms, deep=deep, jobs=jobs)

    def plan_recover(self, **given: Unpack[RecoverArguments]) -> Planned:
        """Plan what a broker's start would make of all its partitions; see `Partition.plan_recover`."""
        return _plan("recover", self.path, given)

    def plan_compact(self, **given: Unpack[CompactArguments]) -> Planned:
        """Plan to clean its compacted logs, the dirtiest first; see `Partition.plan_compact`."""
        return _plan("compact", self.path, given)

    def plan_retain(self, **given: Unpack[RetainArguments]) -> Planned:
        """Plan what retention deletes of all its partitions; see `Partition.plan_retain`."""
        return _plan("retain", self.path, given)


Opened: TypeAlias = LogDir | Partition | Segment | KraftSnapshot | EntriesFile[Any] | PropertiesFile[Any]


AnyOpened = TypeVar("AnyOpened", bound=Opened)


@overload
def open_path(path: str | os.PathLike[str]) -> Opened: ...
@overload
def open_path(path: str | os.PathLike[str], kind: type[AnyOpened]) -> AnyOpened: ...
def open_path(path: str | os.PathLike[str], kind: type[AnyOpened] | None = None) -> Opened | AnyOpened:
    """Return a LogDir, a Partition, or the object for a file: a Segment for a `.log`, and so on by the file's name.

    Only the names in a folder are read yet, and no file stays open. kind: the class that you expect, for type checkers.
    Raises KlogError if the path does not exist, may not be read, is neither file nor folder, is not Kafka's, or is of
    another kind than expected.
    """
    found = _with_plans(opened.open_path(path))
    if kind is not None and not isinstance(found, kind):
        raise KlogError(f"a {type(found).__name__}, not a {kind.__name__}", path=found.path)
    return found


def _with_plans(found: opened.Opened) -> Opened:
    if isinstance(found, logdir.LogDir):
        return LogDir(found.path)
    return Partition(found.path) if isinstance(found, partition.Partition) else found


def open_log_dir(path: str | os.PathLike[str]) -> LogDir:
    """Return a LogDir. Raises KlogError as `open` does, and for what is no log dir."""
    return open_path(path, LogDir)


def open_partition(path: str | os.PathLike[str]) -> Partition:
    """Return a Partition. Raises KlogError as `open` does, and for what is no partition dir."""
    return open_path(path, Partition)


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for a notebook. Names on a disk may hold anything, so all text is escaped."""
    lines = ("".join(f"<td>{html.escape(escaped(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{body}</table>"


def _moment(moment: Moment | None) -> int:
    return clock_ms() if moment is None else parse_moment(moment)


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a decision, with times in milliseconds."""
    arguments = {**given, "now_ms": _moment(given.get("now_ms"))}
    for name in ("loaded_at_ms", "incoming_timestamp"):
        if given.get(name) is not None:
            arguments[name] = _moment(given[name])
    if given.get("passes_at_ms") is not None:
        arguments["passes_at_ms"] = [_moment(at) for at in given["passes_at_ms"]]
    return arguments


def _asked(kind: type[AnyQuestion], given: Mapping[str, Any], caller: str = "the question") -> AnyQuestion:
    """Return the question with the named arguments. Raises KlogError for an unknown name or a wrong type, of this
    caller."""
    asked = {name: value for name, value in _arguments(given).items() if value is not None}
    try:
        return read_question(kind, asked, caller)
    except WrongField as error:
        raise KlogError(str(error)) from None


def circumstances_of(known: KnownArguments) -> Circumstances:
    """Return what a broker knows, of its names. Raises KlogError for an unknown name or a wrong type."""
    return _asked(Question, known).circumstances


def _verify(paths: list[str], now_ms: Moment | None, *, deep: bool, jobs: int) -> Findings:
    options = VerifyOptions(Circumstances(_moment(now_ms)), deep=deep, jobs=whole_number("jobs", jobs))
    return Findings(found for found in verify(paths, options) if isinstance(found, Finding))


def _plan(command: str, path: str, given: Mapping[str, Any]) -> Planned:
    whole = os.path.abspath(path)
    question = _asked(question_type(command), given, f"plan_{command.replace('-', '_')}")
    return Planned(command, whole, list(decide(command, whole, question, CountingSpool)))
