"""Log dirs for tests, made step by step from records; what the fixture `log_dir` gives."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from klogtool.building.spec import Plain, Spec
from klogtool.building.spec_data import describe_data
from klogtool.building.spec_text import read_spec, spec_of
from klogtool.disk.building import build
from klogtool.errors import KlogError
from klogtool.format.batch import Header, Record


class PartitionBuilder:
    """A partition to be made. Each method adds a step to its log, and returns the partition."""

    def __init__(self, log_dir: LogDirBuilder, name: str, fields: Mapping[str, Plain]) -> None:
        self._log_dir, self._steps = log_dir, list[dict[str, Plain]]()
        self.name = name
        self._fields = dict(fields)

    @property
    def path(self) -> pathlib.Path:
        """The partition dir; makes the log dir, if that is not done."""
        return self._log_dir.path / self.name

    def append(self, records: Iterable[RecordLike], **fields: Plain) -> PartitionBuilder:
        """Append one batch of records.

        records: each a pair (key, value), a mapping with `key`, `value`, `headers`, `timestamp`, `offset`, or a Record.
        Keys and values are text, bytes or None. fields: of a batch in a spec: `codec`, `magic`, `leader_epoch`,
        `producer`, `epoch`, `sequence`, `transactional`, `log_append_time`, ...
        """
        rows = [record_row(each, number) for number, each in enumerate(records)]
        return self.step(batch={**fields, "records": rows})

    def transaction(
        self, records: Iterable[RecordLike], *, producer: int, end: str | None = "commit", **fields: Plain
    ) -> PartitionBuilder:
        """Append a batch of a transaction, and its end: "commit", "abort", or None: it stays open. Raises KlogError
        for another end."""
        if end not in ("commit", "abort", None):
            raise KlogError(f"a transaction ends by commit, abort or None, not by {end!r}")
        self.append(records, producer=producer, transactional=True, **fields)
        return self if end is None else self.step(**{end: producer})

    def generate(self, records: int, **fields: Plain) -> PartitionBuilder:
        """Append records made by a seed. fields: `seed`, `keys`, `value_bytes`, `codec`, ..., as in a spec."""
        return self.step(generate={"records": records, **fields})

    def roll(self) -> PartitionBuilder:
        """Begin a new segment."""
        return self.step(roll={})

    def wait(self, milliseconds: int) -> PartitionBuilder:
        """Let the clock go on."""
        return self.step(wait=milliseconds)

    def gap(self, offsets: int) -> PartitionBuilder:
        """Leave out offsets, as after compaction."""
        return self.step(gap=offsets)

    def step(self, **step: Plain) -> PartitionBuilder:
        """Add a step as a spec has it: `step(abort={"producer": 7, "epoch": 1})`."""
        self._log_dir.check_not_built()
        self._steps.append(step)
        return self

    def as_row(self) -> dict[str, Plain]:
        """Return the partition as a spec has it."""
        return {**self._fields, "log": list(self._steps)}


class LogDirBuilder:
    """A log dir to be made in a new folder. Without any call it is an empty log dir after a clean stop.

    The same calls make the same bytes: the clock starts at 2024-01-01 and goes on 5 ms with each record, unless `set`
    says otherwise.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = pathlib.Path(folder)
        self._fields: dict[str, Plain] = {}
        self._partitions: dict[str, PartitionBuilder] = {}
        self._wounds: list[dict[str, Plain]] = []
        self._is_built = False

    def set(self, **fields: Plain) -> LogDirBuilder:
        """Set fields of the spec: `clock`, `kafka`, `config`, and `log_dir` (`{"stop": "unclean"}`), ..."""
        self.check_not_built()
        self._fields |= fields
        return self

    def partition(self, name: str, **fields: Plain) -> PartitionBuilder:
        """Add a partition, `orders-0`, or return the one of that name. Raises KlogError for a name that is none, and
        for fields of a partition that has its own already.

        fields: of a partition in a spec: `config`, `magic`, `leader_epoch`, `start`, `topic_id`, `high_watermark`, ...
        """
        self.check_not_built()
        if name not in self._partitions:
            topic, hyphen, number = name.rpartition("-")
            if not hyphen or not number.isascii() or not number.isdecimal():
                raise KlogError(f"'{name}' is not the name of a partition: a topic, a hyphen and a number")
            fields = {"topic": topic, "partition": int(number), **fields}
            self._partitions[name] = PartitionBuilder(self, name, fields)
        elif fields:
            raise KlogError(f"{name} has its fields already")
        return self._partitions[name]

    def wound(self, name: str, file: str = "", **arguments: Plain) -> LogDirBuilder:
        """Add a wound, by its name in klogtool.testing.wounds. file: a path below the log dir."""
        self.check_not_built()
        self._wounds.append({name: {"file": file, **arguments}})
        return self

    def build(self) -> pathlib.Path:
        """Make the log dir, and return its path. Raises KlogError, with the place in the spec, for what a broker would
        not write."""
        if not self._is_built:
            self._make(spec_of(self.as_rows()))
        return self._folder

    def build_spec(self, spec: str | bytes | os.PathLike[str]) -> pathlib.Path:
        """Make the log dir of a spec: its text as bytes, or the path of its file."""
        self.check_not_built()
        if isinstance(spec, bytes):
            self._make(read_spec(spec))
        else:
            self._make(read_spec(pathlib.Path(spec).read_bytes(), os.fspath(spec)))
        return self._folder

    @property
    def path(self) -> pathlib.Path:
        """The log dir; makes it, if that is not done."""
        return self.build()

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def as_rows(self) -> dict[str, Plain]:
        """Return the spec, as `klogtool build` reads it."""
        wounds = self._fields.get("wounds", ())
        wounds = [*wounds, *self._wounds] if isinstance(wounds, Sequence) and not isinstance(wounds, str) else wounds
        partitions = [partition.as_row() for partition in self._partitions.values()]
        return {**self._fields, "partitions": partitions, "wounds": wounds}

    def check_not_built(self) -> None:
        """Raises KlogError if the log dir is made already."""
        if self._is_built:
            raise KlogError("this log dir is made already", path=self._folder)

    def _make(self, spec: Spec) -> None:
        build(spec, self._folder)
        self._is_built = True


# A record: its fields by name, or (key, value), or a Record.
RecordLike: TypeAlias = "Mapping[str, object] | tuple[str | bytes | None, str | bytes | None] | Record"
Fields: TypeAlias = "Mapping[str, int | bytes | tuple[Header, ...] | None]"  # by name, in the types of a Record

FIELDS = ("offset", "timestamp", "key", "value", "headers")


def fields_of(record: RecordLike, number: int) -> Fields:
    """Return the fields that are given of a record. number: for errors.

    Keys and values may be text, which becomes UTF-8. Headers are pairs or a mapping. Raises KlogError for another form.
    """
    if isinstance(record, Record):
        return all_fields(record)
    if isinstance(record, tuple) and len(record) == 2:
        record = {"key": record[0], "value": record[1]}
    if not isinstance(record, Mapping):
        raise KlogError(f"record {number} is neither a mapping, nor a pair of key and value: {record!r:.60}")
    unknown = [str(name) for name in record if name not in FIELDS]
    if unknown:
        raise KlogError(f"record {number} has the field '{unknown[0]}': known are {', '.join(FIELDS)}")
    return {name: _typed(name, record[name], number) for name in FIELDS if name in record}


def all_fields(record: Record) -> Fields:
    """Return all fields of a record."""
    return {name: getattr(record, name) for name in FIELDS}


def _typed(name: str, value: Any, number: int) -> Any:
    if name in ("key", "value"):
        return _bytes_of(value, name, number)
    if name == "headers":
        pairs = value.items() if isinstance(value, Mapping) else value
        try:
            return tuple(
                Header(_bytes_of(key, name, number) or b"", _bytes_of(each, name, number)) for key, each in pairs
            )
        except (TypeError, ValueError):
            raise KlogError(f"headers of record {number} are no pairs: {value!r:.60}") from None
    if not isinstance(value, int) or isinstance(value, bool):
        raise KlogError(f"{name} of record {number} is no whole number: {value!r:.60}")
    return value


def _bytes_of(value: Any, name: str, number: int) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if value is None or isinstance(value, bytes):
        return value
    raise KlogError(f"{name} of record {number} is neither bytes nor text nor None: {value!r:.60}")


def record_row(record: RecordLike, number: int) -> dict[str, Plain]:
    """Return a record as a spec has it. Raises KlogError as `fields_of` does."""
    return {name: _plain(value) for name, value in fields_of(record, number).items()}


def _plain(value: int | bytes | tuple[Header, ...] | None) -> Plain:
    if isinstance(value, tuple):
        return [[_plain(header.key), _plain(header.value)] for header in value]
    plain: Plain = value if isinstance(value, int) else msgspec.to_builtins(describe_data(value))
    return plain
