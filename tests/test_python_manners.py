"""The objects of klogtool behave as Python's own do: `in`, `len`, iteration, paths, reprs of one line, tables."""

from __future__ import annotations

import datetime
import inspect
import os
import pathlib
import pydoc
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from running import FIXTURES

import klogtool
from klogtool.doctor.answers import Diagnosis
from klogtool.plans.plan import Plan, SegmentVerdict

LOG_DIR = FIXTURES / "transactions" / "logdir"
NOW_MS = 1_700_000_000_000
LONGEST_LINE = 250


@pytest.fixture
def log_dir() -> klogtool.LogDir:
    return klogtool.open_log_dir(LOG_DIR)


def test_a_log_dir_is_a_collection_of_its_partition_dirs(log_dir: klogtool.LogDir) -> None:
    names = sorted(path.name for path in LOG_DIR.iterdir() if path.is_dir())
    assert [partition.name for partition in log_dir] == names
    assert len(log_dir) == len(names)
    assert all(name in log_dir and log_dir[name].name == name for name in names)
    assert "t-99" not in log_dir
    assert 0 not in log_dir
    with pytest.raises(KeyError):
        log_dir["t-99"]
    with pytest.raises(TypeError, match="'orders-0', not 0"):
        log_dir[0]  # type: ignore[index]


def test_a_partition_has_the_batches_and_records_of_its_segments(log_dir: klogtool.LogDir) -> None:
    for partition in log_dir:
        batches = [batch for segment in partition.segments for batch in segment.batches()]
        assert list(partition.batches()) == batches
        assert list(partition.records()) == [record for batch in batches for record in batch.records()]


@pytest.mark.parametrize("native", [True, False])
def test_headers_are_pairs(log_dir: klogtool.LogDir, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        from klogtool import kernels
        from klogtool.kernels import absent

        monkeypatch.setattr(kernels, "native", absent)
    record = next(record for record in log_dir["t-1"].records() if record.headers)
    assert dict(record.headers) == {header.key: header.value for header in record.headers}
    assert all(isinstance(header, klogtool.Header) for header in record.headers)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
        (NOW_MS, datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)),
        (-2, datetime.datetime(1969, 12, 31, 23, 59, 59, 998000, tzinfo=datetime.UTC)),
        (-1, None),
        (2**63 - 1, None),
        (-(2**63), None),
    ],
)
def test_the_time_of_a_record(timestamp: int, expected: datetime.datetime | None) -> None:
    assert klogtool.Record(0, timestamp, None, None).datetime == expected


def test_what_has_a_path_is_a_path(log_dir: klogtool.LogDir) -> None:
    partition = log_dir["t-0"]
    side_file = klogtool.open(LOG_DIR / "t-0" / "leader-epoch-checkpoint")
    for each in (log_dir, partition, partition.segments[0], side_file, klogtool.open(LOG_DIR / "meta.properties")):
        assert os.fspath(each) == each.path
        assert pathlib.Path(each).exists()
        assert klogtool.open(each) == each


def test_open_says_if_it_is_of_another_kind() -> None:
    assert klogtool.open_partition(LOG_DIR / "t-0") == klogtool.open(LOG_DIR / "t-0")
    for opened, path in (("LogDir", LOG_DIR / "t-0"), ("Partition", LOG_DIR), ("Segment", LOG_DIR)):
        with pytest.raises(klogtool.KlogError, match=f"not a {opened}"):
            klogtool.open(path, getattr(klogtool, opened))


def test_every_repr_is_one_short_line(log_dir: klogtool.LogDir) -> None:
    partition = log_dir["t-0"]
    long = klogtool.Record(1, 2, b"k" * 1_000_000, b"v" * 1_000_000, (klogtool.Header(b"h" * 1000, None),) * 1000)
    planned = partition.plan_truncate(now_ms=NOW_MS, to=20)
    shown: list[Any] = [log_dir, partition, partition.segments[0], *partition.batches(), *partition.records(), long]
    loaded = partition.load(now_ms=NOW_MS)
    shown += [loaded, loaded.read(loaded.log_start_offset, 1000), partition.verify(now_ms=NOW_MS)]
    for each in (*shown, planned, *planned.plans, planned.plans[0].steps[0]):
        assert "\n" not in repr(each)
        assert len(repr(each)) < LONGEST_LINE, repr(each)


def test_a_notebook_shows_tables_and_runs_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "<script>-0").mkdir()
    (tmp_path / "<script>-0" / f"{0:020d}.log").write_bytes(b"\1" * 50)
    log_dir = klogtool.open_log_dir(tmp_path)
    findings = log_dir.verify(now_ms=NOW_MS)
    assert findings
    planned = klogtool.open_log_dir(LOG_DIR).plan_recover(now_ms=NOW_MS, last_stop="unclean")
    for each, rows in ((log_dir, 1), (findings, len(findings)), (planned, sum(len(p.steps) for p in planned.plans))):
        table = each._repr_html_()
        assert "<script>" not in table
        assert table.count("<tr>") == rows + 1


def test_a_wrong_type_is_named_in_words(log_dir: klogtool.LogDir) -> None:
    partition: Any = log_dir["t-0"]
    for call, name in (
        (lambda: partition.lookup_offset("5"), "offset"),
        (lambda: partition.lookup_offset(5.0), "offset"),
        (lambda: partition.read("5", 10), "offset"),
        (lambda: partition.read(5, "10"), "max_bytes"),
        (lambda: partition.end_offset_for_epoch("0"), "leader_epoch"),
        (lambda: partition.lookup_timestamp(1.5), "a time"),
    ):
        with pytest.raises(TypeError, match=f"^{name} has to be "):
            call()


def _structs_in(kind: Any) -> Iterator[type]:
    """Yield the structs that a type names."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for part in typing.get_args(kind):
        yield from _structs_in(part)


def _walk_public_structs() -> Iterator[type]:
    """Yield each struct that klogtool names, or that a field of one of these has, or that decides as a result."""
    waiting = [
        *(getattr(klogtool, name) for name in klogtool.__all__),
        Plan,
        Diagnosis,
        *SegmentVerdict.__subclasses__(),
    ]
    seen: set[type] = set()
    while waiting:
        for struct in _structs_in(waiting.pop()):
            if struct not in seen:
                seen.add(struct)
                yield struct
                waiting += typing.get_type_hints(struct).values()


def test_help_and_signatures_of_all_that_klogtool_answers() -> None:
    """They ask for the types of all fields, which must be there and not only for a type checker."""
    for name in klogtool.__all__:
        given = getattr(klogtool, name)
        assert pydoc.render_doc(given)
        if isinstance(given, type | types.FunctionType):
            assert inspect.signature(given)
    structs = list(_walk_public_structs())
    assert len(structs) > 40
    for struct in structs:
        assert pydoc.render_doc(struct), struct
