"""A query planned and read without Spark, as its tasks would."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from klogtool.render.scan import scan
from klogtool.spark.filters import Bounds, bounds_of
from klogtool.spark.options import parse_query
from klogtool.spark.planning import Split, plan_splits
from klogtool.spark.tables import default_columns, read_records, read_table, table_schema

Path = str | os.PathLike[str]


def splits_of(
    path: Path, *, notes: list[str] | None = None, filters: Iterable[Any] = (), **options: Any
) -> list[Split]:
    query = parse_query(given(path, options), [])
    return plan_splits(query, bounds_of(filters), [] if notes is None else notes)


def given(path: Path, options: dict[str, Any]) -> dict[str, str]:
    """`kafka_isolation_level` stands for an option with dots."""
    return {"path": os.fspath(path)} | {name.replace("_", "."): str(value) for name, value in options.items()}


def read(path: Path, *, filters: Iterable[Any] = (), **options: Any) -> pa.Table:
    """All rows, as Spark would get them before it filters."""
    filters = list(filters)
    query = parse_query(given(path, options), [])
    columns = default_columns(query.shape)
    splits = plan_splits(query, bounds_of(filters), [])
    if query.shape.table == "records":
        bounds = bounds_of(filters) if filters else Bounds()
        batches = [batch for split in splits for batch in read_records(split, query, columns, bounds)]
    else:
        batches = [b for split in splits for b in read_table(split, query.shape.table, columns, mode=query.mode)]
    assert all(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches, table_schema(query.shape, columns))


def offsets(table: pa.Table) -> list[int]:
    found: list[int] = table.column("offset").to_pylist()
    return found


def by_klogtool(*folders: Path, **options: Any) -> pa.Table:
    """The same records as klogtool reads them, control records left out."""
    batches = [b for folder in folders for b in scan(folder, with_control=False, **options).to_reader()]
    return pa.Table.from_batches(batches, klogtool_schema())


def klogtool_schema() -> pa.Schema:
    from klogtool.render.arrow import schema

    return schema()
