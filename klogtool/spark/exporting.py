"""Records as a folder of Parquet files, by topic and optionally by day, written by the tasks that read them.

The rows are those of `format("klog")`. What is read is fixed when an export begins, and saved with it: a resumed export
reads the same ranges of the same files. Each task writes to its own place; see `disk.dataset`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from klogtool.decoding.record_values import Formats
from klogtool.decoding.schemas import Schemas, read_schemas
from klogtool.disk.dataset import Attempt, Dataset, TaskMessage
from klogtool.errors import Refused, StalePlan
from klogtool.log.storage import open_place
from klogtool.render.decoded_columns import DecodedColumns
from klogtool.render.spark_text import ExportedTopic
from klogtool.spark.causes import OptionCause
from klogtool.spark.converting import Form, converted, days_of, target_schema
from klogtool.spark.filters import Bounds
from klogtool.spark.growing_export import ParquetFile
from klogtool.spark.options import MODES, parse_query
from klogtool.spark.planning import SegmentRange, Split, plan_splits
from klogtool.spark.reading import Task, columns_of, read_split
from klogtool.spark.spreading import spread
from klogtool.spark.starting import Session
from klogtool.spark.tables import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST_FILES_OPEN = 16
NO_TOPIC = "__HIVE_DEFAULT_PARTITION__"
VARIED = (
    "offset",
    "value",
    "value_decoded",
    "key_decoded",
    "timestamp",
    "headers",
    "_position",
    "_batch_base_offset",
    "_sequence",
)
"""Columns without a dictionary: trying one takes longer than everything else, and saves nothing."""


class HowToExport(Struct, frozen=True):
    """What is written. options: of the data source; form: of keys and values. key_format, value_format: also decode
    them; schemas: the folder for that, which only the driver reads."""

    options: Mapping[str, str]
    form: Form = Form()
    by_day: bool = False
    compression: str = "snappy"
    headers: bool = False
    metadata: bool = False
    key_format: str | None = None
    value_format: str | None = None
    schemas: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the files; the topic is in the name of their folder."""
        names = columns_of(headers=self.headers, metadata=self.metadata)
        return tuple(name for name in names if name != "topic")

    @property
    def formats(self) -> Formats:
        """Return how keys and values are decoded."""
        return Formats(self.key_format, self.value_format)

    def option(self, name: str) -> str | None:
        """Return an option of the data source, case-insensitively; None if it was not given."""
        return {key.lower(): value for key, value in self.options.items()}.get(name.lower())

    @property
    def mode(self) -> str:
        """How damage is treated."""
        return (self.option("mode") or "FAILFAST").upper()


class ExportPlan(Struct, frozen=True):
    """What is saved with an export, so that it can be resumed. splits: the pieces of each."""

    how: HowToExport
    splits: tuple[tuple[SegmentRange, ...], ...]


class Export(Struct, frozen=True):
    """An export that was started: what its tasks read."""

    dataset: Dataset
    how: HowToExport
    splits: tuple[Split, ...]

    @property
    def size(self) -> int:
        """The bytes to read."""
        return sum(split.bytes for split in self.splits)


def begin_export(path: str, how: HowToExport, notes: list[str]) -> Export:
    """List the logs, and fix what will be read. Raises KlogError if something does not exist, or Refused."""
    query = parse_query(how.options, notes)
    splits = plan_splits(query, Bounds(), notes)
    sources = [open_place(place)[1] for place in query.places if not place.scheme]
    return Export(Dataset.begin(path, sources, _plan_of(how, splits)), how, tuple(splits))


def resume_export(path: str) -> Export:
    """Open an interrupted export as it was started. Raises Refused if there is none."""
    dataset, plan = Dataset.resume(path, ExportPlan)
    return Export(dataset, plan.how, tuple(map(Split, plan.splits)))


def with_mode(export: Export, mode: str) -> Export:
    """Change the mode for the remaining tasks. Raises Refused if some tasks are done in a mode that may have left
    records out: the rows would be of two modes."""
    if mode not in MODES:
        raise Refused(OptionCause.ONE_OF(name="mode", values=MODES, value=mode))
    if mode == export.how.mode:
        return export
    if export.how.mode != "FAILFAST" and export.dataset.done():
        raise Refused(OptionCause.OTHER_MODE(mode=export.how.mode))
    how = replace(export.how, options={**export.how.options, "mode": mode})
    export.dataset.replan(_plan_of(how, export.splits))
    return Export(export.dataset, how, export.splits)


def _plan_of(how: HowToExport, splits: Iterable[Split]) -> ExportPlan:
    return ExportPlan(how, tuple(tuple(split.parts) for split in splits))


def carry_out_export(
    session: Session, export: Export, *, on_progress: Callable[[int], None] = lambda _: None
) -> list[TaskMessage]:
    """Do the remaining tasks, and let the result appear; return the tasks' messages. Raises KlogError; finished tasks
    then stay finished."""
    done = export.dataset.done()
    left = [n for n in range(len(export.splits)) if n not in done]
    on_progress(sum(export.splits[n].bytes for n in done))
    schemas = None if export.how.schemas is None else read_schemas(export.how.schemas)
    DecodedColumns(export.how.formats, schemas)  # raises what a task would raise
    work = partial(export_split, export.dataset.path, export.how, schemas=schemas)
    items, sizes = [(n, export.splits[n]) for n in left], [export.splits[n].bytes for n in left]
    done |= dict(zip(left, spread(session, work, items, sizes=sizes, on_progress=on_progress), strict=True))
    messages = [done[n] for n in sorted(done)]
    export.dataset.commit(messages)
    return messages


# What a task does.


def export_split(
    dataset: str, how: HowToExport, numbered: tuple[int, Split], schemas: Schemas | None = None
) -> TaskMessage:
    """Write the records of a split; return the task's message. Raises KlogError if they cannot be read.

    schemas: those of `how.schemas`.
    """
    number, split = numbered
    for part in split.parts:
        _check_as_listed(part)
    files = _Files(Attempt(dataset, number), number, how, DecodedColumns(how.formats, schemas))
    task = Task(tuple(dict.fromkeys(("topic", "partition", *how.columns))), Bounds(), how.mode)
    with files:
        for batch in read_split(split, task):
            files.add(batch)
        return files.finish()


def _check_as_listed(part: SegmentRange) -> None:
    """Raises StalePlan for a file that has become shorter: another file has taken its place."""
    if part.log.inode is None:  # not a file of this machine, or chunks of one
        return
    with suppress(FileNotFoundError):  # the reader reports it
        if (size := os.path.getsize(part.log.path)) < part.log.size:
            raise StalePlan(
                f"its size is {size:,} bytes, it was {part.log.size:,} when it was listed", path=part.log.path
            )


def _repeats(table: pa.Table) -> bool:
    """Return whether keys repeat often."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = table.column("key")
    if not (pa.types.is_binary(keys.type) or pa.types.is_string(keys.type)):
        return False
    return int(pc.count_distinct(keys).as_py()) * 2 < len(keys)


class _Files:
    """The files of a task, by folder. If too many are open, the least recently used one is closed. If the task does not
    finish, what it wrote is deleted."""

    def __init__(self, attempt: Attempt, number: int, how: HowToExport, decoded: DecodedColumns) -> None:
        self._attempt, self._number, self._how = attempt, number, how
        self._schema = target_schema(arrow_schema("records", how.columns), how.form)
        import pyarrow as pa

        self._decoded, self._whole = decoded, pa.schema([*self._schema, *decoded.schema])
        self._open: dict[str, ParquetFile] = {}
        self._made: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        self._invalid = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of one topic."""
        import pyarrow as pa

        topic = batch.column("topic")[0].as_py()
        folder = f"topic={topic or NO_TOPIC}"
        rows, invalid = converted(batch, self._schema, self._how.form, is_strict=self._how.mode == "FAILFAST")
        decoded = self._decoded.arrays(batch, topic, self._decoded.schema.names)
        rows = pa.RecordBatch.from_arrays([*rows.columns, *decoded.values()], schema=self._whole)
        self._invalid += invalid
        self._rows[topic or ""] = self._rows.get(topic or "", 0) + batch.num_rows
        if not self._how.by_day:
            self._file(folder).add(rows)
            return
        for day, part in days_of(rows):
            self._file(f"{folder}/day={day}").add(part)

    def _file(self, folder: str) -> ParquetFile:
        file = self._open.pop(folder, None)
        if file is None:
            if len(self._open) >= MOST_FILES_OPEN:
                self._open.pop(next(iter(self._open))).close()
            count = self._made[folder] = self._made.get(folder, 0) + 1
            name = f"part-{self._number:05d}" + (f"-{count}" if count > 1 else "")
            context = self._attempt.file(f"{folder}/{name}.{self._how.compression}.parquet")
            file = ParquetFile(context, self._whole, self._how.compression, self._with_dictionary)
        self._open[folder] = file
        return file

    def _with_dictionary(self, first: pa.Table) -> list[str]:
        return [name for name in first.schema.names if name not in VARIED and (name != "key" or _repeats(first))]

    def finish(self) -> TaskMessage:
        """Finish all files."""
        for file in self._open.values():
            file.close()
        self._open.clear()
        return self._attempt.finish(self._rows, self._invalid, self._decoded.failed)

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            return
        for file in self._open.values():
            file.give_up()
        self._attempt.give_up()


def totals_of(messages: Iterable[TaskMessage]) -> list[ExportedTopic]:
    """Return the number of rows, files and bytes of each topic."""
    rows, files, size = Counter[str](), Counter[str](), Counter[str]()
    for message in messages:
        rows.update(message.rows)
        for file in message.files:
            topic = file.name.split("/")[0].removeprefix("topic=")
            topic = "" if topic == NO_TOPIC else topic
            files[topic] += 1
            size[topic] += file.bytes
    return [ExportedTopic(topic, rows[topic], files[topic], size[topic]) for topic in sorted({*rows, *files})]
