"""`klogtool verify` over many tasks: each verifies partitions by themselves, as one machine does.

What is about log dirs as wholes is done by whoever asks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from klogtool.disk.dataset import Attempt, Dataset
from klogtool.lazy_dataclasses import dataclass
from klogtool.log.folder import find_partition_dir_name
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.findings import Finding
from klogtool.repair.verify import Summary, Target, VerifiedPartition, VerifyOptions, verify, verify_target
from klogtool.spark.session import Session
from klogtool.spark.spreading import packed, spread
from klogtool.spark.tables import FINDINGS, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

OPEN_COST_BYTES = 1 << 20  # of a partition, beside its bytes
MOST_BYTES = 128 << 20
TASKS_A_SLOT = 4
ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class HowToVerify:
    """What every task is told."""

    circumstances: Circumstances
    deep: bool = False


def verify_with_spark(
    session: Session,
    paths: Sequence[str],
    how: HowToVerify,
    *,
    seconds: Callable[[], float] = lambda: 0.0,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Finding | Summary]:
    """The findings of log dirs and partition dirs, in the order of `klogtool verify`, and a summary. paths: absolute,
    the same on every machine. Raises as `verify` does, and SparkFailed."""

    def elsewhere(targets: Sequence[Target]) -> Iterable[VerifiedPartition]:
        sizes = {target.partition.path: size_of(target.partition.path) for target in targets}
        most = max(1, min(MOST_BYTES, sum(sizes.values()) // (session.slots * TASKS_A_SLOT)))
        tasks = list(packed(targets, lambda target: sizes[target.partition.path], most))
        work = partial(verify_targets, how)
        items, bytes_of = [items for items, _ in tasks], [size for _, size in tasks]
        found = spread(session, work, items, sizes=bytes_of, on_progress=on_progress)
        return (one for some in found for one in some)

    options = VerifyOptions(how.circumstances, deep=how.deep, seconds=seconds)
    yield from verify(paths, options, elsewhere=elsewhere)


def verify_targets(how: HowToVerify, targets: Sequence[Target]) -> list[VerifiedPartition]:
    """What one task does."""
    options = VerifyOptions(how.circumstances, deep=how.deep)
    return [verify_target(target, options) for target in targets]


def size_of(folder: str) -> int:
    """Bytes of the files in a partition dir, as far as they can be seen."""
    try:
        with os.scandir(folder) as entries:
            return OPEN_COST_BYTES + sum(entry.stat().st_size for entry in entries if entry.is_file())
    except OSError:
        return OPEN_COST_BYTES


def write_findings(dataset: Dataset, findings: Iterable[Finding]) -> int:
    """The findings as a table of Parquet; how many there were."""
    import pyarrow.parquet as pq

    schema, rows = arrow_schema("findings", tuple(FINDINGS)), 0
    attempt = Attempt(dataset.path, 0)
    with attempt.file("part-00000.parquet") as sink, pq.ParquetWriter(sink, schema) as writer:
        for batch in finding_batches(findings, schema):
            writer.write_batch(batch)
            rows += batch.num_rows
    dataset.commit([attempt.finish({"rows": rows})])
    return rows


def finding_batches(findings: Iterable[Finding], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Findings as rows of the table `findings`."""
    import pyarrow as pa

    rows = map(finding_fields, findings)
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema)


def finding_fields(found: Finding) -> dict[str, Any]:
    """The columns of a finding; topic and partition by the path."""
    row = {name: getattr(found, name) for name in FINDINGS if name not in ("topic", "partition", "severity")}
    row["severity"] = found.severity.value
    row["path"] = os.fsencode(found.path).decode("utf-8", "replace")
    for folder in (os.path.basename(found.path), os.path.basename(os.path.dirname(found.path))):
        name = find_partition_dir_name(folder)
        if name is not None:
            return row | {"topic": name.topic, "partition": name.partition}
    return row
