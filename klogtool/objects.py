"""The objects that klogtool.open returns: those of `log`, with methods that verify and plan.

The modules that read know nothing of decisions, so these objects are above both. Times (`now_ms` and others) are epoch
milliseconds, ISO 8601 or datetimes; the default of `now_ms` is the clock.
"""

from __future__ import annotations

import html
import inspect
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, cast, overload

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.config import check_names, check_section
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
from klogtool.parameters import Given, Unit, accepted_types, parameters_of
from klogtool.plans.append import AppendQuestion
from klogtool.plans.compact import CompactQuestion
from klogtool.plans.decisions import decide
from klogtool.plans.delete_records import DeleteRecordsQuestion
from klogtool.plans.fields import WrongField
from klogtool.plans.plan import Plan
from klogtool.plans.question import Question, read_question
from klogtool.plans.rebuild_index import RebuildIndexQuestion
from klogtool.plans.recover import RecoverQuestion
from klogtool.plans.retain import RetainQuestion
from klogtool.plans.roll import RollQuestion
from klogtool.plans.saved_plan import SCHEMA, SavedPlan
from klogtool.plans.truncate import TruncateQuestion
from klogtool.verify.findings import Finding
from klogtool.verify.verification import VerifyOptions, verify


class Findings(list["Finding"]):
    """The result of `verify`: a list, which a notebook shows as a table."""

    def __repr__(self) -> str:
        """Return how many there are of each severity."""
        counts = Counter(finding.severity.value for finding in self)
        shown = ", ".join(f"{severity}: {count}" for severity, count in counts.items())
        return f"<Findings: {shown or 'none'}>"

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        rows = ((str(finding.id.value), finding.severity.value, finding.path, finding.detail) for finding in self)
        return _html_table(("id", "severity", "path", "detail"), rows)


Params = ParamSpec("Params")
Owner = TypeVar("Owner")
Asked = TypeVar("Asked", bound=Question)
Answer = TypeVar("Answer")


def asks(
    question: Callable[Params, Asked],
) -> Callable[[Callable[[Owner, Asked], Answer]], Callable[Concatenate[Owner, Params], Answer]]:
    """Give a method that takes a question the signature of the question's constructor.

    So its callers give the fields as arguments: type checkers, completion and `help` see each, with its text. Raises
    KlogError for an unknown name or a wrong type.
    """
    kind = cast("type[Asked]", question)
    return lambda method: _Asking(kind, method)


class _Asking(Generic[Owner, Asked, Answer]):
    """A method that takes the fields of a question as arguments. Its signature and its text are made when somebody
    looks at them: they take longer than all the rest of an import."""

    def __init__(self, kind: type[Asked], method: Callable[[Owner, Asked], Answer]) -> None:
        self._kind, self._method = kind, method
        self.__name__, self.__qualname__, self.__module__ = method.__name__, method.__qualname__, method.__module__

    def __call__(self, owner: Owner, /, *values: object, **named: object) -> Answer:
        return self._method(owner, _question_of(self._kind, values, named, self.__name__))

    def __get__(self, owner: Owner | None, _: type[Owner]) -> Callable[..., Answer]:
        return self if owner is None else MethodType(self, owner)

    @property
    def __signature__(self) -> inspect.Signature:
        """The method's first parameter, and the fields of the question as callers may give them."""
        own, types = inspect.signature(self._method), accepted_types(self._kind)
        fields = inspect.signature(self._kind).parameters.values()
        typed = (field.replace(annotation=types[field.name]) for field in fields)
        return own.replace(parameters=[next(iter(own.parameters.values())), *typed])

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """What the method does, and a line for each argument."""
        return "\n".join([inspect.getdoc(self._method) or "", "", "Arguments:", *_argument_lines(self._kind)])


def _argument_lines(kind: type[Struct]) -> Iterator[str]:
    """Yield a line for each parameter of a question, with other parameters by the names that they have in Python."""
    known = list(parameters_of(kind))
    for parameter in known:
        about = parameter.about.replace("  ", " ")
        for other in known:
            about = re.sub(rf"{other.option}(?![\w-])", other.name, about)
        yield f"    {parameter.name}: {about}"


def _question_of(kind: type[Asked], values: Sequence[object], named: Mapping[str, object], caller: str) -> Asked:
    """Return the question of a call, at the clock's time if none is given, with times in milliseconds and paths as
    text. Raises KlogError for an unknown name, also of a setting, or a wrong type; TypeError for too many arguments."""
    positional = [name for name, how in inspect.signature(kind).parameters.items() if how.kind is not how.KEYWORD_ONLY]
    if len(values) > len(positional):
        raise TypeError(f"{caller} takes {', '.join(positional) or 'named arguments only'}, and not {values[-1]!r}")
    values_by_name = {**dict(zip(positional, values, strict=False)), **named}
    times = {parameter.name for parameter in parameters_of(kind) if parameter.unit is Unit.TIME}
    arguments = {
        name: _plain(value, is_time=name in times) for name, value in values_by_name.items() if value is not None
    }
    try:
        question = read_question(kind, {"now_ms": clock_ms(), **arguments}, caller)
    except WrongField as error:
        raise KlogError(str(error)) from None
    check_names(question.config)
    for pattern, settings in question.config_sections:
        check_section(pattern, settings)
    return question


def _plain(value: Any, *, is_time: bool) -> Any:
    """Return an argument as a question has it: paths as text, times in milliseconds, many of them as a list."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return [_plain(each, is_time=is_time) for each in value]
    return parse_moment(value) if is_time else value


class LookupOffsetQuestion(Question, frozen=True):
    """Which batch contains an offset?"""

    offset: Given[Any, int]
    explain: bool = False


class LookupTimestampQuestion(Question, frozen=True):
    """Which record is the first from a time on?"""

    timestamp: Given[Any, Moment]


class EndOffsetQuestion(Question, frozen=True):
    """Where did a leader epoch end?"""

    leader_epoch: Given[Any, int]


class PartitionReadQuestion(Question, frozen=True):
    """What does a fetch get?"""

    offset: Given[Any, int]
    max_bytes: Given[Any, int]
    min_one_message: bool = False
    isolation: str = "log_end"


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

    @asks(Question)
    def load(self, question: Question) -> LoadedPartition:
        """Load it as a broker does, for several lookups; nothing is written.

        What is not given is read from the log dir's own files. Raises Corrupt or Refused, with Kafka's class of
        exception, if a broker would not start.
        """
        return load(self.path, question.circumstances, question.jobs)

    @asks(LookupOffsetQuestion)
    def lookup_offset(self, question: LookupOffsetQuestion) -> OffsetFound:
        """Return the batch that contains an offset or follows it. Raises Refused for an offset outside the log; and as
        `load` does.

        explain: also the record in the batch, and the steps of the search.
        """
        loaded = load(self.path, question.circumstances, question.jobs)
        return loaded.lookup_offset(question.offset, explain=question.explain)

    @asks(LookupTimestampQuestion)
    def lookup_timestamp(self, question: LookupTimestampQuestion) -> TimestampFound:
        """Return the first record from a time (epoch ms, ISO 8601) on, or `earliest`, `latest`, `max`. Raises as `load`
        does."""
        return load(self.path, question.circumstances, question.jobs).lookup_timestamp(question.timestamp)

    @asks(EndOffsetQuestion)
    def end_offset_for_epoch(self, question: EndOffsetQuestion) -> EpochEnd:
        """Return where a leader epoch ended. Raises as `load` does."""
        return load(self.path, question.circumstances, question.jobs).end_offset_for_epoch(question.leader_epoch)

    @asks(PartitionReadQuestion)
    def read(self, question: PartitionReadQuestion) -> FetchedBytes:
        """Return what a fetch gets, starting with the batch that contains an offset.

        isolation: "log_end", "high_watermark" or "read_committed". Raises Refused for an offset outside the log; and as
        `load` does.
        """
        return load(self.path, question.circumstances, question.jobs).read(
            question.offset,
            question.max_bytes,
            min_one_message=question.min_one_message,
            isolation=question.isolation,
        )

    @asks(RecoverQuestion)
    def plan_recover(self, question: RecoverQuestion) -> Planned:
        """Plan what a broker's start would make of it.

        What is not given is read from the log dir's own files. Raises Corrupt or Refused, with Kafka's class of
        exception, if a broker would not start.
        """
        return _plan("recover", self.path, question)

    @asks(RebuildIndexQuestion)
    def plan_rebuild_index(self, question: RebuildIndexQuestion) -> Planned:
        """Plan to rebuild its side files from its logs. Raises Refused for a damaged log."""
        return _plan("rebuild-index", self.path, question)

    @asks(TruncateQuestion)
    def plan_truncate(self, question: TruncateQuestion) -> Planned:
        """Plan to cut it at an offset (`to`), or to start it anew at one (`start_at`, with or without
        `log_start_offset_after`).

        Raises Refused, Corrupt or Unsupported, with Kafka's class of exception, if a broker refuses.
        """
        return _plan("truncate", self.path, question)

    @asks(AppendQuestion)
    def plan_append(self, question: AppendQuestion) -> Planned:
        """Plan to append, as a broker does: `answers[0]["appends"]` has the result of each call.

        One of: batches: files of raw batches that keep their offsets, one call each; records: a file of JSON lines as
        dump-log prints them, which get the next offsets; requests: a file of calls as JSON lines; records_text and
        requests_text: such lines themselves. A refused call does not prevent the others. Raises KlogError for invalid
        input; and as `plan_truncate` does.
        """
        batches = tuple(os.path.abspath(path) for path in question.batches or ())
        records, requests = (path and os.path.abspath(path) for path in (question.records, question.requests))
        question = replace(question, batches=batches or None, records=records, requests=requests)
        return _plan("append", self.path, question)

    @asks(RollQuestion)
    def plan_roll(self, question: RollQuestion) -> Planned:
        """Plan to close its active segment, if that is due; the answer says why it is due or not. Raises as
        `plan_truncate` does."""
        return _plan("roll", self.path, question)

    @asks(RetainQuestion)
    def plan_retain(self, question: RetainQuestion) -> Planned:
        """Plan what retention deletes at that time; the answer says why other segments stay, and until when. Raises as
        `plan_truncate` does."""
        return _plan("retain", self.path, question)

    @asks(DeleteRecordsQuestion)
    def plan_delete_records(self, question: DeleteRecordsQuestion) -> Planned:
        """Plan to move the log start (`before`; -1: to the high watermark), and to delete the segments wholly below it.
        Raises Refused above the high watermark; and as `plan_truncate` does."""
        return _plan("delete-records", self.path, question)

    @asks(CompactQuestion)
    def plan_compact(self, question: CompactQuestion) -> Planned:
        """Plan to clean it as the broker's log cleaner does, if that is due. Raises Refused, Corrupt or Unsupported,
        with Kafka's class of exception, if a broker's cleaner fails."""
        return _plan("compact", self.path, question)


class LogDir(logdir.LogDir, frozen=True):
    """A log dir. The four checkpoints are dicts by topic and partition, or None if the file does not exist."""

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partition dirs, sorted by name, including those with a suffix: deleted, future, stray (`state`)."""
        return tuple(Partition(partition.path) for partition in super().partitions)

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
        partition = next((each for each in self.partitions if each.name == name), None)
        if partition is None:
            raise KeyError(name)
        return partition

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        rows = ((partition.name, partition.state.name.lower(), str(len(partition.segments))) for partition in self)
        return _html_table(("partition dir", "state", "segments"), rows)

    def verify(self, *, now_ms: Moment | None = None, deep: bool = False, jobs: int = 1) -> Findings:
        """Return everything that is wrong with it and its partitions; see `Partition.verify`."""
        return _verify([self.path], now_ms, deep=deep, jobs=jobs)

    @asks(RecoverQuestion)
    def plan_recover(self, question: RecoverQuestion) -> Planned:
        """Plan what a broker's start would make of all its partitions; see `Partition.plan_recover`."""
        return _plan("recover", self.path, question)

    @asks(CompactQuestion)
    def plan_compact(self, question: CompactQuestion) -> Planned:
        """Plan to clean its compacted logs, the dirtiest first; see `Partition.plan_compact`."""
        return _plan("compact", self.path, question)

    @asks(RetainQuestion)
    def plan_retain(self, question: RetainQuestion) -> Planned:
        """Plan what retention deletes of all its partitions; see `Partition.plan_retain`."""
        return _plan("retain", self.path, question)


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
    opened_path = _with_plans(opened.open_path(path))
    if kind is not None and not isinstance(opened_path, kind):
        raise KlogError(f"a {type(opened_path).__name__}, not a {kind.__name__}", path=opened_path.path)
    return opened_path


def _with_plans(opened_path: opened.Opened) -> Opened:
    if isinstance(opened_path, logdir.LogDir):
        return LogDir(opened_path.path)
    return Partition(opened_path.path) if isinstance(opened_path, partition.Partition) else opened_path


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


def circumstances_of(known: Mapping[str, object]) -> Circumstances:
    """Return what a broker knows, of its names. Raises KlogError for an unknown name or a wrong type."""
    return _question_of(Question, (), known, "the question").circumstances


def _verify(paths: list[str], now_ms: Moment | None, *, deep: bool, jobs: int) -> Findings:
    options = VerifyOptions(Circumstances(now_ms=_moment(now_ms)), deep=deep, jobs=whole_number("jobs", jobs))
    return Findings(finding for finding in verify(paths, options) if isinstance(finding, Finding))


def _plan(command: str, path: str, question: Question) -> Planned:
    whole = os.path.abspath(path)
    return Planned(command, whole, list(decide(command, whole, question, CountingSpool)))
